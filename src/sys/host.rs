//! What the kernel says of itself and of this process's limits; for `doctor`.

use std::io;
use std::path::Path;

/// Returns the kernel's release, such as `6.1.0-18-amd64` (uname(2)).
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// Returns how many descriptors this process may have open: now, and at most; `None` is no limit.
#[must_use]
pub fn open_files_max() -> (Option<u64>, Option<u64>) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    (limit.current, limit.maximum)
}

/// Returns how many bytes this user may still write to the file system of `path`.
///
/// # Errors
/// What `statvfs` says.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns whether this user may make files in the directory `path`: permissions, and a file system
/// that is not read-only.
#[must_use]
pub fn is_writable(path: &Path) -> bool {
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let flags = rustix::fs::AtFlags::EACCESS;
    rustix::fs::accessat(rustix::fs::CWD, path, wanted, flags).is_ok()
}
