//! The directory to prove: how it may be given, and what tells it from another with the same bytes
//! (R27, R32).

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::sys::{DirFd, Fault, Identity, fault_of, filesystem_magic, mountinfo};

/// Where the directory to prove is.
#[derive(Debug)]
pub enum Root {
    /// At a path, which is opened once and looked up again at the end.
    At(PathBuf),
    /// Held open by the caller already.
    Held(DirFd),
}

/// What tells one directory from another with the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootIdentity {
    /// Device, inode and mount.
    pub identity: Identity,
    /// The type of the file system, as the kernel names it.
    pub filesystem: String,
}

/// A root that was opened, or is not there any more.
#[derive(Debug)]
pub(super) enum Opened {
    /// It answers.
    Open(DirFd, RootIdentity),
    /// It is a mount whose server is gone (`ENOTCONN`).
    ServerGone,
}

impl Root {
    /// Opens the directory.
    ///
    /// # Errors
    /// `no-such-directory`; `unsafe-directory` for a file, a symbolic link or `/`.
    pub(super) fn open(self) -> Result<Opened> {
        let (path, dir) = match self {
            Self::Held(dir) => (PathBuf::from("."), Ok(dir)),
            Self::At(path) => {
                let dir = open_path(&path);
                (path, dir)
            }
        };
        let opened = dir.and_then(|dir| Ok((identity_of(&dir)?, dir)));
        match opened {
            Ok((identity, dir)) => {
                let top = DirFd::open(Path::new("/")).and_then(|top| top.stat_self());
                if top.is_ok_and(|top| top.identity == identity.identity) {
                    return Err(unsafe_directory(
                        &path,
                        "is the root of the whole file system",
                    ));
                }
                Ok(Opened::Open(dir, identity))
            }
            Err(error) => refuse(&path, error),
        }
    }
}

/// Checks that `path` still names the directory with `identity`; `false` where it is a mount whose
/// server is gone.
///
/// # Errors
/// `substituted` where it names another, or nothing (R32).
pub(super) fn check_unchanged(path: &Path, identity: &RootIdentity) -> Result<bool> {
    let substituted = |why: &str| {
        let message = format!("the directory was replaced during the proof: {why}");
        Error::new(ErrorKind::Unsafe, "substituted", message).at(path)
    };
    match open_path(path).and_then(|dir| identity_of(&dir)) {
        Ok(now) if now == *identity => Ok(true),
        Ok(_) => Err(substituted(
            "its path now names another device, inode or mount",
        )),
        Err(error) if fault_of(&error) == Fault::ServerGone => Ok(false),
        Err(error) => Err(substituted("its path cannot be opened any more").caused_by(error)),
    }
}

fn open_path(path: &Path) -> io::Result<DirFd> {
    // A slash at the end would make the kernel follow a link in the last component.
    let trimmed: PathBuf = path.components().collect();
    DirFd::open_no_follow(&trimmed)
}

fn identity_of(dir: &DirFd) -> io::Result<RootIdentity> {
    let identity = dir.stat_self()?.identity;
    let mounts = mountinfo::read_mounts()?;
    let named = mounts.iter().find(|mount| mount.device == identity.dev);
    // A btrfs subvolume has a device that no mount has.
    let filesystem = match named {
        Some(mount) => mount.fs_type.to_string_lossy().into_owned(),
        None => format!("{:#x}", filesystem_magic(dir)?),
    };
    Ok(RootIdentity {
        identity,
        filesystem,
    })
}

fn refuse(path: &Path, error: io::Error) -> Result<Opened> {
    match fault_of(&error) {
        Fault::ServerGone => Ok(Opened::ServerGone),
        Fault::Absent => Err(Error::new(
            ErrorKind::NotFound,
            "no-such-directory",
            "there is no directory to prove",
        )
        .at(path)),
        Fault::Link | Fault::NotDirectory => Err(unsafe_directory(
            path,
            "is a symbolic link or no directory; give the directory itself",
        )),
        Fault::OtherMount | Fault::Exhausted | Fault::Other => {
            Err(Error::io("cannot open the directory to prove", error).at(path))
        }
    }
}

fn unsafe_directory(path: &Path, why: &str) -> Error {
    let message = format!("{} {why}", path.display());
    Error::new(ErrorKind::Unsafe, "unsafe-directory", message).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r27_a_file_a_link_and_the_top_are_unsafe_and_a_missing_directory_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink(".", dir.path().join("link")).unwrap();
        for (path, slug) in [
            (dir.path().join("file"), "unsafe-directory"),
            (dir.path().join("link"), "unsafe-directory"),
            (dir.path().join("link/"), "unsafe-directory"),
            (PathBuf::from("/"), "unsafe-directory"),
            (dir.path().join("none"), "no-such-directory"),
            (PathBuf::new(), "no-such-directory"),
        ] {
            let error = Root::At(path.clone()).open().expect_err("refused");
            assert_eq!(error.slug(), slug, "{}", path.display());
        }
    }

    #[test]
    fn r32_equal_bytes_at_another_inode_are_substituted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d");
        std::fs::create_dir(&path).unwrap();
        let Opened::Open(_held, identity) = Root::At(path.clone()).open().unwrap() else {
            panic!("it is there");
        };
        assert!(check_unchanged(&path, &identity).is_ok());
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        assert_eq!(
            check_unchanged(&path, &identity).unwrap_err().slug(),
            "substituted"
        );
        std::fs::create_dir(&path).unwrap();
        assert_eq!(
            check_unchanged(&path, &identity).unwrap_err().slug(),
            "substituted"
        );
    }
}
