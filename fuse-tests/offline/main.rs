//! What needs no kernel mount: the command line, the house rules, golden files.
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and reads its environment"
)]

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod doctor;
mod fixtures;
mod golden;
mod manifest;
mod prove;
mod prove_caps;
mod prove_cli;
mod seed;
mod seed_faults;
mod seed_pack;
mod snapshot;
mod snapshot_faults;
mod tidy;
