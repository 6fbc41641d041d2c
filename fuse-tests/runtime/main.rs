//! Real containers that bind a mount: Docker, Podman, bubblewrap.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test starts programs and reads its environment"
)]

#[path = "../support/mod.rs"]
mod support;

mod bwrap;
mod checks;
mod docker;
mod engine;
mod podman;
