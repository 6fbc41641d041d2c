//! Real mounts, made through the program: what only the kernel can say.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test starts programs and reads its environment"
)]

#[path = "../support/mod.rs"]
mod support;

mod contents;
mod exec;
mod faults;
mod golden;
mod hang;
mod lifecycle;
mod metadata;
mod mount;
mod nonroot;
mod programs;
mod proof;
mod readme;
mod readonly;
mod seed_overlay;
mod server;
mod store_changes;
mod stress;
