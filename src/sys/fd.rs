//! Directories held open: names are resolved from a descriptor, one component at a time, never
//! through a symbolic link and never into another mount unless asked (R27, R50).

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Special,
    /// The listing did not say.
    Unknown,
}

/// The answer of `statx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, 0o7777.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Number of hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device, inode and mount.
    pub identity: Identity,
}

/// What tells one open directory or file from another with the same bytes (R32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device: major and minor.
    pub dev: (u32, u32),
    /// Inode number.
    pub ino: u64,
    /// Mount id: unique for the life of the host where `mount_id_unique`, else reusable.
    pub mount_id: u64,
    /// Whether the kernel gave `STATX_MNT_ID_UNIQUE` (6.8 and later).
    pub mount_id_unique: bool,
}

/// One name of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// The name, raw bytes.
    pub name: Vec<u8>,
    /// The kind, as the listing says it.
    pub kind: FileKind,
    /// The inode number, as the listing says it.
    pub ino: u64,
}

/// A directory held open.
#[derive(Debug)]
pub struct DirFd(OwnedFd);

impl AsFd for DirFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for DirFd {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// The longest path given to `openat2` at once; the kernel's own limit is 4,096 with the NUL.
const PATH_BYTES_AT_ONCE: usize = 4000;

/// One `getdents64`: about 800 names of ordinary length.
const LISTING_BUFFER_BYTES: usize = 32 << 10;

/// `STATX_MNT_ID_UNIQUE`, Linux 6.8.
const STATX_MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

pub(super) fn c_name(name: &[u8]) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

impl DirFd {
    /// Opens the directory at `path`, following links: for names that a caller gave.
    ///
    /// # Errors
    /// What `open` says; `ENOTDIR` for anything but a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, DIRECTORY, Mode::empty())?))
    }

    /// Opens the directory at `path` without following a link in the last component.
    ///
    /// # Errors
    /// `ELOOP` or `ENOTDIR` where the last component is a link or no directory.
    pub fn open_no_follow(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(
            path,
            DIRECTORY | OFlags::NOFOLLOW,
            Mode::empty(),
        )?))
    }

    /// Opens a directory below this one: `name` may hold slashes, no component may be a link,
    /// leave this directory or enter another mount.
    ///
    /// # Errors
    /// `ELOOP` for a link, `EXDEV` for another mount, `ENOTDIR`, or what `openat2` says.
    pub fn open_dir(&self, name: &[u8]) -> io::Result<Self> {
        self.open_beneath(name, DIRECTORY, ResolveFlags::NO_XDEV)
            .map(Self)
    }

    /// Opens a regular file for reading below this directory, with the rules of [`Self::open_dir`];
    /// never blocks on a FIFO.
    ///
    /// # Errors
    /// As [`Self::open_dir`].
    pub fn open_file(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.open_beneath(name, flags, ResolveFlags::NO_XDEV)
            .map(File::from)
    }

    /// Opens a file for reading below this directory, following links and mounts: for git's own
    /// store, whose bytes are verified whatever they come from.
    ///
    /// # Errors
    /// What `openat` says.
    pub fn open_file_following(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(
            &self.0,
            &*c_name(name)?,
            flags,
            Mode::empty(),
        )?))
    }

    /// Opens a directory below this one, following links and mounts.
    ///
    /// # Errors
    /// What `openat` says.
    pub fn open_dir_following(&self, name: &[u8]) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(
            &self.0,
            &*c_name(name)?,
            DIRECTORY,
            Mode::empty(),
        )?))
    }

    fn open_beneath(&self, name: &[u8], flags: OFlags, extra: ResolveFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | extra;
        loop {
            match rustix::fs::openat2(&self.0, &*c_name(name)?, flags, Mode::empty(), resolve) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Returns what `name` is, without following a link.
    ///
    /// # Errors
    /// What `statx` says.
    pub fn stat(&self, name: &[u8]) -> io::Result<FileStat> {
        statx(self.0.as_fd(), &c_name(name)?, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns what this directory itself is.
    ///
    /// # Errors
    /// What `statx` says.
    pub fn stat_self(&self) -> io::Result<FileStat> {
        statx(self.0.as_fd(), c"", AtFlags::EMPTY_PATH)
    }

    /// Returns the target of the link `name`, raw bytes.
    ///
    /// # Errors
    /// `EINVAL` where it is no link, or what `readlinkat` says.
    pub fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.0, &*c_name(name)?, Vec::new())?.into_bytes())
    }

    /// Opens a directory any number of levels below this one, with the rules of
    /// [`Self::open_dir`]: a path longer than the kernel takes at once is walked in pieces.
    ///
    /// # Errors
    /// As [`Self::open_dir`].
    pub fn open_dir_deep(&self, path: &[u8]) -> io::Result<Self> {
        let mut held: Option<Self> = None;
        let mut rest = path;
        loop {
            let here = held.as_ref().unwrap_or(self);
            let cut = match rest.get(..PATH_BYTES_AT_ONCE) {
                None => None,
                Some(head) => head.iter().rposition(|b| *b == b'/'),
            };
            let Some(cut) = cut else {
                return here.open_dir(if rest.is_empty() { b"." } else { rest });
            };
            let (head, tail) = rest.split_at(cut);
            held = Some(here.open_dir(head)?);
            rest = tail.strip_prefix(b"/").unwrap_or(tail);
        }
    }

    /// Calls `each` with name and kind of every entry, `.` and `..` left out, in the order the
    /// kernel gives; nothing is collected, so a huge directory costs no memory.
    ///
    /// # Errors
    /// What `getdents64` says; `each` may have been called by then.
    pub fn visit(&self, mut each: impl FnMut(&[u8], FileKind)) -> io::Result<()> {
        rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(LISTING_BUFFER_BYTES);
        let mut listing = rustix::fs::RawDir::new(&self.0, buffer.spare_capacity_mut());
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                each(name, kind_of(entry.file_type()));
            }
        }
        Ok(())
    }

    /// Lists the directory, `.` and `..` left out, in the order the kernel gives.
    ///
    /// # Errors
    /// What `getdents64` says; never a partial list.
    pub fn list(&self) -> io::Result<Vec<ListedEntry>> {
        let mut out = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                out.push(ListedEntry {
                    name: name.to_vec(),
                    kind: kind_of(entry.file_type()),
                    ino: entry.ino(),
                });
            }
        }
        Ok(out)
    }

    /// Makes a second descriptor of the same directory.
    ///
    /// # Errors
    /// `EMFILE` where the process has too many.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

/// Returns what an open file is.
///
/// # Errors
/// What `statx` says.
pub fn stat_fd(fd: BorrowedFd<'_>) -> io::Result<FileStat> {
    statx(fd, c"", AtFlags::EMPTY_PATH)
}

/// Returns the magic number of the file system that `dir` is in (statfs(2)).
///
/// # Errors
/// What `fstatfs` says.
pub fn filesystem_magic(dir: &DirFd) -> io::Result<u64> {
    let magic = rustix::fs::fstatfs(&dir.0)?.f_type;
    Ok(u64::from_ne_bytes(magic.to_ne_bytes()))
}

/// Returns what is at `path`, a link not followed, from what the kernel knows already: a file
/// system whose server hangs is not asked (`AT_STATX_DONT_SYNC`). The mount's ids are always exact.
///
/// # Errors
/// What `statx` says.
pub fn stat_cached(path: &Path) -> io::Result<FileStat> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    statx(
        rustix::fs::CWD,
        &c_name(path.as_os_str().as_bytes())?,
        flags,
    )
}

fn statx(fd: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> io::Result<FileStat> {
    let stat = rustix::fs::statx(
        fd,
        name,
        flags | AtFlags::NO_AUTOMOUNT,
        StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | STATX_MNT_ID_UNIQUE,
    )?;
    let mode = u32::from(stat.stx_mode);
    Ok(FileStat {
        kind: kind_of(rustix::fs::FileType::from_raw_mode(mode)),
        mode: mode & 0o7777,
        size: stat.stx_size,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        identity: Identity {
            dev: (stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            mount_id: stat.stx_mnt_id,
            mount_id_unique: stat.stx_mask & STATX_MNT_ID_UNIQUE.bits() != 0,
        },
    })
}

fn kind_of(file_type: rustix::fs::FileType) -> FileKind {
    use rustix::fs::FileType;
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Unknown => FileKind::Unknown,
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
            FileKind::Special
        }
    }
}

/// Returns bytes as a path component.
#[must_use]
pub fn os_name(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
