//! Real containers that bind a mount: Docker, Podman, bubblewrap.
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and reads its environment"
)]

#[path = "../support/mod.rs"]
mod support;
