//! Real mounts, made through the program: what only the kernel can say.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test starts programs and reads its environment"
)]

#[path = "../support/mod.rs"]
mod support;

mod lifecycle;
mod mount;
