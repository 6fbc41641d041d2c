//! Errors of the kernel, sorted by what they say about the file system that gave them (R36).

use std::io;

/// What an error says about the file system that gave it, as far as a prover tells cases apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `ENOTCONN`, `ECONNABORTED`: the server of a FUSE mount is gone.
    ServerGone,
    /// `EXDEV`: the name leads into another mount.
    OtherMount,
    /// `ELOOP`: the name is a symbolic link.
    Link,
    /// `ENOENT`.
    Absent,
    /// `ENOTDIR`.
    NotDirectory,
    /// `EMFILE`, `ENFILE`, `ENOMEM`: this process or host lacks something, not the file system.
    Exhausted,
    /// Anything else.
    Other,
}

/// Returns what `error` says about the file system.
#[must_use]
pub fn fault_of(error: &io::Error) -> Fault {
    use rustix::io::Errno;
    let Some(errno) = error.raw_os_error() else {
        return Fault::Other;
    };
    match Errno::from_raw_os_error(errno) {
        Errno::NOTCONN | Errno::CONNABORTED => Fault::ServerGone,
        Errno::XDEV => Fault::OtherMount,
        Errno::LOOP => Fault::Link,
        Errno::NOENT => Fault::Absent,
        Errno::NOTDIR => Fault::NotDirectory,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Fault::Exhausted,
        _ => Fault::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r36_a_dead_server_is_told_from_what_this_process_lacks() {
        for (errno, want) in [
            (libc::ENOTCONN, Fault::ServerGone),
            (libc::ECONNABORTED, Fault::ServerGone),
            (libc::EXDEV, Fault::OtherMount),
            (libc::ELOOP, Fault::Link),
            (libc::ENOENT, Fault::Absent),
            (libc::ENOTDIR, Fault::NotDirectory),
            (libc::EMFILE, Fault::Exhausted),
            (libc::EIO, Fault::Other),
            (libc::EACCES, Fault::Other),
        ] {
            assert_eq!(fault_of(&io::Error::from_raw_os_error(errno)), want);
        }
        assert_eq!(fault_of(&io::Error::other("no errno")), Fault::Other);
    }
}
