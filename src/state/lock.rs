//! One holder at a time of a directory that is held open; fails at once, never waits (R57).

use std::path::Path;

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::sys::DirFd;

/// The lock of a directory, given back when it is dropped. It lies on the inode, so that no other
/// name of the directory gets around it, and the kernel frees it when the process dies.
#[derive(Debug)]
pub struct DirLock {
    _dir: DirFd,
}

impl DirLock {
    /// Takes the lock of `dir`, which `path` names in messages.
    ///
    /// # Errors
    /// `locked` where somebody has it.
    pub fn acquire(dir: &DirFd, path: &Path) -> Result<Self> {
        // An open of its own: a duplicate would share the lock, and its end would depend on both.
        let own = dir
            .reopen()
            .doing(|| format!("cannot open {} to lock it", path.display()))?;
        let free = own
            .try_lock()
            .doing(|| format!("cannot lock {}", path.display()))?;
        if !free {
            return Err(Error::new(
                ErrorKind::Conflict,
                "locked",
                format!(
                    "another forgefs is at work on {}; try again",
                    path.display()
                ),
            )
            .at(path));
        }
        Ok(Self { _dir: own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r57_the_second_holder_fails_at_once_until_the_first_is_gone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DirFd::open(temp.path()).unwrap();
        let first = DirLock::acquire(&dir, temp.path()).unwrap();
        let second = DirLock::acquire(&dir, temp.path()).unwrap_err();
        assert_eq!(
            (second.kind(), second.slug()),
            (ErrorKind::Conflict, "locked")
        );
        drop(first);
        assert!(DirLock::acquire(&dir, temp.path()).is_ok());
    }
}
