//! Changing a directory that is held open: every name is one component below the descriptor, never
//! followed through a link (R50, R56).

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::fd::DirFd;

impl DirFd {
    /// Makes the directory `name` with the permissions `mode`, less the umask.
    ///
    /// # Errors
    /// `EEXIST`, or what `mkdirat` says.
    pub fn make_dir(&self, name: &[u8], mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(self, name, Mode::from_raw_mode(mode))?)
    }

    /// Removes the empty directory `name`.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `EBUSY` for a mount point, or what `unlinkat` says.
    pub fn remove_dir(&self, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes the name of a file.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, or what `unlinkat` says.
    pub fn remove_file(&self, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self, name, AtFlags::empty())?)
    }

    /// Makes the file `name`, which must not exist, with mode 0600; open for reading and for
    /// writing, at its end where `append`.
    ///
    /// # Errors
    /// `EEXIST`, or what `openat` says.
    pub fn create_file(&self, name: &[u8], append: bool) -> io::Result<File> {
        let mut flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        flags.set(OFlags::APPEND, append);
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(File::from(rustix::fs::openat(self, name, flags, mode)?))
    }

    /// Renames a file of this directory, replacing `to` where it exists.
    ///
    /// # Errors
    /// What `renameat` says.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::renameat(self, from, self, to)?)
    }

    /// Makes names that were added or removed survive a power cut.
    ///
    /// # Errors
    /// What `fsync` says.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self)?)
    }

    /// Opens the directory `name`, one component that is no link; another mount may be entered.
    /// It can be walked from, not listed ([`Self::reopen`] can): search permission is enough.
    ///
    /// # Errors
    /// `ELOOP` or `ENOTDIR` for a link, or what `openat` says.
    pub fn open_dir_crossing(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self::from(rustix::fs::openat(
            self,
            name,
            flags,
            Mode::empty(),
        )?))
    }

    /// Opens this same directory once more, with a file description of its own.
    ///
    /// # Errors
    /// What `openat` says.
    pub fn reopen(&self) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::from(rustix::fs::openat(
            self,
            ".",
            flags,
            Mode::empty(),
        )?))
    }

    /// Takes the advisory lock of this directory without waiting; it lasts as long as the
    /// descriptor. Returns whether it was free.
    ///
    /// # Errors
    /// What `flock` says.
    pub fn try_lock(&self) -> io::Result<bool> {
        match rustix::fs::flock(self, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns where the kernel says that this directory is now: absolute, without links.
    ///
    /// # Errors
    /// `NotFound` where it was removed; what reading /proc says.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        use std::os::fd::{AsFd, AsRawFd};
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.as_fd().as_raw_fd()))?;
        let removed = path.as_os_str().as_bytes().ends_with(b" (deleted)");
        if removed && self.stat_self()?.nlink == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(path)
    }
}
