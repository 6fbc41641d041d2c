//! Creating, renaming and removing names below a held directory: never through a symbolic link,
//! never over something that exists, never into another mount (R50).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags, Timespec, Timestamps,
};

use super::fd::c_name;
use super::{DirFd, FileKind};

/// The stat data that git's index keeps for a file just written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenStat {
    /// Change time: seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// Modification time: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Device, as the number that `stat` gives.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
}

/// What a file system has left for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes.
    pub bytes: u64,
    /// Inodes; `u64::MAX` where the file system does not count them.
    pub inodes: u64,
    /// Bytes that one block takes.
    pub block_bytes: u64,
}

/// Makes later modes exact: from here on a created file has the mode it was created with.
/// Returns the mask that was set before, for the one directory that should honour it.
pub fn clear_umask() -> u32 {
    rustix::process::umask(Mode::empty()).as_raw_mode()
}

impl DirFd {
    /// Makes a new regular file below this directory and opens it for reading and writing. `name`
    /// may hold slashes; no component may be a link, leave this directory or enter another mount.
    ///
    /// # Errors
    /// `EEXIST` where anything stands there, `ELOOP` for a link on the way, or what `openat2` says.
    pub fn create_beneath(&self, name: &[u8], mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let name = c_name(name)?;
        loop {
            let mode = Mode::from_raw_mode(mode);
            match rustix::fs::openat2(self, &*name, flags, mode, resolve) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                other => return Ok(File::from(other?)),
            }
        }
    }

    /// Makes the symbolic link `name`, one component, with the raw bytes `target`.
    ///
    /// # Errors
    /// `EEXIST` where anything stands there, or what `symlinkat` says.
    pub fn make_symlink(&self, target: &[u8], name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(
            &*c_name(target)?,
            self,
            &*c_name(name)?,
        )?)
    }

    /// Sets the modification time of `name`, one component, without following a link.
    ///
    /// # Errors
    /// What `utimensat` says.
    pub fn set_mtime(&self, name: &[u8], mtime_s: i64) -> io::Result<()> {
        Ok(rustix::fs::utimensat(
            self,
            &*c_name(name)?,
            &times(mtime_s),
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Returns the index's stat data of `name`, without following a link.
    ///
    /// # Errors
    /// What `statx` says.
    pub fn written_stat(&self, name: &[u8]) -> io::Result<WrittenStat> {
        written(self, &c_name(name)?, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Moves `from` to `name` in the directory `to`; what stands there already stays.
    ///
    /// # Errors
    /// `EEXIST` where anything stands there, `EXDEV` across file systems.
    pub fn rename_new(&self, from: &[u8], to: &Self, name: &[u8]) -> io::Result<()> {
        let (from, name) = (c_name(from)?, c_name(name)?);
        match rustix::fs::renameat_with(self, &*from, to, &*name, RenameFlags::NOREPLACE) {
            // A file system without the flag (some network ones): look first, then rename.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                match to.stat(name.as_bytes()) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {
                        Ok(rustix::fs::renameat(self, &*from, to, &*name)?)
                    }
                    Err(e) => Err(e),
                    Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                }
            }
            other => Ok(other?),
        }
    }

    /// Removes `name` and all below it, whatever it is, without following a link or entering
    /// another mount. A name that is not there is not an error.
    ///
    /// # Errors
    /// What the kernel says of the first thing that cannot be removed; what is left stays.
    pub fn remove_tree(&self, name: &[u8]) -> io::Result<()> {
        let absent = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        let kind = match self.stat(name) {
            Err(e) if absent(&e) => return Ok(()),
            other => other?.kind,
        };
        if kind != FileKind::Directory {
            return self.remove_file(name);
        }
        // An explicit stack: a hostile nest must not end our own. Only names are kept, and each
        // level is reached again from here, so that depth costs no descriptors.
        let mut stack = vec![(self.open_dir(name)?, name.to_vec())];
        while let Some((dir, _)) = stack.last() {
            let mut below = None;
            for entry in dir.list()? {
                let is_dir = match entry.kind {
                    FileKind::Unknown => dir.stat(&entry.name)?.kind == FileKind::Directory,
                    kind => kind == FileKind::Directory,
                };
                if is_dir {
                    match dir.remove_dir(&entry.name) {
                        Ok(()) => {}
                        Err(_) if stack.len() < 512 => {
                            below = Some((dir.open_dir(&entry.name)?, entry.name));
                            break;
                        }
                        Err(e) => return Err(e),
                    }
                } else {
                    dir.remove_file(&entry.name)?;
                }
            }
            match below {
                Some(level) => stack.push(level),
                None => {
                    let Some((_, name)) = stack.pop() else { break };
                    let parent = stack.last().map_or(self, |(dir, _)| dir);
                    parent.remove_dir(&name)?;
                }
            }
        }
        Ok(())
    }

    /// Sets permission bits of the directory itself.
    ///
    /// # Errors
    /// What `fchmod` says.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(self, Mode::from_raw_mode(mode))?)
    }

    /// Returns what the file system of this directory has left.
    ///
    /// # Errors
    /// What `fstatvfs` says.
    pub fn free_space(&self) -> io::Result<FreeSpace> {
        let fs = rustix::fs::fstatvfs(self)?;
        Ok(FreeSpace {
            bytes: fs.f_bavail.saturating_mul(fs.f_frsize),
            inodes: if fs.f_files == 0 {
                u64::MAX
            } else {
                fs.f_favail
            },
            block_bytes: fs.f_bsize.max(1),
        })
    }
}

/// Sets permission bits of an open file.
///
/// # Errors
/// What `fchmod` says.
pub fn set_file_mode(file: &File, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// Sets the modification time of an open file and returns the index's stat data of it.
///
/// # Errors
/// What `futimens` or `statx` says.
pub fn finish_file(file: &File, mtime_s: i64) -> io::Result<WrittenStat> {
    rustix::fs::futimens(file, &times(mtime_s))?;
    written(file, c"", AtFlags::EMPTY_PATH)
}

/// Makes a file that lives in memory alone and goes with its last descriptor.
///
/// # Errors
/// What `memfd_create` says.
pub fn memory_file(name: &str) -> io::Result<File> {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(fd))
}

/// Copies all of `from` to the empty file `to`, by sharing blocks where the file system can.
///
/// # Errors
/// What the kernel says of reading or writing.
pub fn copy_file(from: &File, to: &File) -> io::Result<u64> {
    let size = from.metadata()?.len();
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(size);
    }
    let mut at = 0_u64;
    let (mut source_at, mut target_at) = (0_u64, 0_u64);
    while at < size {
        let want = usize::try_from(size - at)
            .unwrap_or(usize::MAX)
            .min(1 << 30);
        match rustix::fs::copy_file_range(
            from,
            Some(&mut source_at),
            to,
            Some(&mut target_at),
            want,
        ) {
            Ok(0) => break,
            Ok(n) => at += n as u64,
            Err(rustix::io::Errno::INTR) => {}
            // Across file systems, or a kernel that cannot: plain reading and writing.
            Err(
                rustix::io::Errno::XDEV
                | rustix::io::Errno::INVAL
                | rustix::io::Errno::NOSYS
                | rustix::io::Errno::OPNOTSUPP,
            ) if at == 0 => {
                let (mut from, mut to) = (from, to);
                return io::copy(&mut from, &mut to);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(at)
}

fn times(mtime_s: i64) -> Timestamps {
    let at = Timespec {
        tv_sec: mtime_s,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: at,
        last_modification: at,
    }
}

fn written(at: impl AsFd, name: &std::ffi::CStr, flags: AtFlags) -> io::Result<WrittenStat> {
    let stat = rustix::fs::statx(at, name, flags, StatxFlags::BASIC_STATS)?;
    Ok(WrittenStat {
        ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        ino: stat.stx_ino,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
    })
}

/// Opens the directory `name` of `parent` after making it, both without following links.
///
/// # Errors
/// `EEXIST` where anything stands there.
pub fn make_and_open_dir(parent: &DirFd, name: &[u8], mode: u32) -> io::Result<DirFd> {
    parent.make_dir(name, mode)?;
    let fd: OwnedFd = rustix::fs::openat(
        parent,
        &*c_name(name)?,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    Ok(DirFd::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn held() -> (tempfile::TempDir, DirFd) {
        let dir = tempfile::tempdir().unwrap();
        let fd = DirFd::open(dir.path()).unwrap();
        (dir, fd)
    }

    #[test]
    fn r50_a_file_is_never_written_through_a_link() {
        let (dir, fd) = held();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("real/x", dir.path().join("x")).unwrap();
        assert!(fd.create_beneath(b"link/f", 0o644).is_err());
        assert!(fd.create_beneath(b"x", 0o644).is_err());
        assert!(fd.create_beneath(b"../f", 0o644).is_err());
        assert!(fd.create_beneath(b"real/f", 0o644).is_ok());
        assert!(fd.create_beneath(b"real/f", 0o644).is_err());
    }

    #[test]
    fn removing_a_tree_follows_no_link_and_takes_all_levels() {
        let (dir, fd) = held();
        let keep = dir.path().join("keep");
        std::fs::create_dir(&keep).unwrap();
        std::fs::write(keep.join("f"), "x").unwrap();
        let mut deep = dir.path().join("t");
        for _ in 0..50 {
            deep = deep.join("d");
            std::fs::create_dir_all(&deep).unwrap();
            std::fs::write(deep.join("f"), "x").unwrap();
        }
        std::os::unix::fs::symlink("../keep", dir.path().join("t/l")).unwrap();
        fd.remove_tree(b"t").unwrap();
        fd.remove_tree(b"t").unwrap();
        assert!(!dir.path().join("t").exists() && keep.join("f").exists());
    }

    #[test]
    fn renaming_replaces_nothing() {
        let (dir, fd) = held();
        for name in ["a", "b"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let error = fd.rename_new(b"a", &fd, b"b").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        fd.rename_new(b"a", &fd, b"c").unwrap();
        assert!(Path::new(&dir.path().join("c")).is_dir());
    }

    #[test]
    fn a_copy_has_the_bytes_and_its_own_inode() {
        let (dir, fd) = held();
        std::fs::write(dir.path().join("a"), vec![7; 100_000]).unwrap();
        let from = fd.open_file(b"a").unwrap();
        let to = fd.create_beneath(b"b", 0o600).unwrap();
        assert_eq!(copy_file(&from, &to).unwrap(), 100_000);
        assert_eq!(
            std::fs::read(dir.path().join("b")).unwrap(),
            vec![7; 100_000]
        );
        assert_ne!(
            fd.stat(b"a").unwrap().identity,
            fd.stat(b"b").unwrap().identity
        );
    }
}
