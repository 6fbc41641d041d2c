//! Limits of this process.

/// Returns how many file descriptors this process may have open, `u64::MAX` for no limit.
#[must_use]
pub fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(u64::MAX)
}
