//! What the kernel is answered: attributes and error numbers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};

use crate::error::{Error, ErrorKind};
use crate::snapshot::{Attr, EntryKind, Ino};

/// How long the kernel may keep entries, attributes and absences: as good as for ever, since a
/// commit never changes (136 years; the kernel cuts it to what its clock can hold).
pub(super) const FOREVER: Duration = Duration::from_secs(1 << 32);

/// How long the kernel believes the root's attributes.
const ROOT: Duration = Duration::from_secs(1);

/// Returns how long the kernel may believe the attributes of an inode: for ever, the root's for a
/// second. Every walk into the mount needs those, so a mount whose daemon died answers ENOTCONN
/// after that time whatever the kernel has cached, and never looks like a valid source (R41); a
/// live one is asked once in that time at most.
pub(super) fn attr_ttl(ino: INodeNo) -> &'static Duration {
    if ino == INodeNo::ROOT {
        &ROOT
    } else {
        &FOREVER
    }
}

/// For entries whose attributes cannot be had: the kernel asks again at each access.
pub(super) const NEVER: Duration = Duration::ZERO;

/// Returns the attributes as the kernel takes them, owned by `owner` (R20).
pub(super) fn file_attr(attr: &Attr, owner: (u32, u32)) -> FileAttr {
    let time = time_of(attr.mtime_s);
    let (uid, gid) = owner;
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: file_type(attr.kind),
        perm: permissions(attr.kind),
        nlink: 1,
        uid,
        gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Returns the answer that a name is absent, which the kernel remembers as long as an entry: inode
/// number 0 (FUSE protocol 7.4 and later), unlike `ENOENT`.
pub(super) fn absent(owner: (u32, u32)) -> FileAttr {
    placeholder(Ino(0), EntryKind::File { executable: false }, owner)
}

/// Returns attributes for an entry whose size is not to be had; given out with [`NEVER`] alone.
pub(super) fn placeholder(ino: Ino, kind: EntryKind, owner: (u32, u32)) -> FileAttr {
    let attr = Attr {
        ino,
        kind,
        size: 0,
        blocks: 0,
        mtime_s: 1,
    };
    file_attr(&attr, owner)
}

fn time_of(mtime_s: i64) -> SystemTime {
    let distance = Duration::from_secs(mtime_s.unsigned_abs());
    let time = if mtime_s < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

pub(super) fn file_type(kind: EntryKind) -> FileType {
    match kind {
        EntryKind::Directory | EntryKind::Submodule => FileType::Directory,
        EntryKind::File { .. } => FileType::RegularFile,
        EntryKind::Symlink => FileType::Symlink,
    }
}

fn permissions(kind: EntryKind) -> u16 {
    match kind {
        EntryKind::Directory | EntryKind::Submodule | EntryKind::File { executable: true } => 0o755,
        EntryKind::File { executable: false } => 0o644,
        EntryKind::Symlink => 0o777,
    }
}

/// Returns the error number for an error. A missing object is EIO, never ENOENT, which would make a
/// damaged store look like a smaller tree, and stay so in the kernel's cache.
pub(super) fn errno(error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::Usage => Errno::EINVAL,
        ErrorKind::NotFound
        | ErrorKind::Corrupt
        | ErrorKind::Unsafe
        | ErrorKind::Host
        | ErrorKind::Io
        | ErrorKind::Internal => Errno::EIO,
        ErrorKind::Conflict => Errno::EBUSY,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::Budget => Errno::EFBIG,
        ErrorKind::Stale => Errno::ESTALE,
        ErrorKind::WrongType => match error.slug() {
            "not-a-directory" => Errno::ENOTDIR,
            "not-a-link" => Errno::EINVAL,
            _ => Errno::EISDIR,
        },
        ErrorKind::TooLong => Errno::ENAMETOOLONG,
        ErrorKind::Interrupted => Errno::EINTR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r20_modes_and_times_are_those_of_the_kind_and_the_commit() {
        for (kind, file_type, perm) in [
            (EntryKind::Directory, FileType::Directory, 0o755),
            (EntryKind::Submodule, FileType::Directory, 0o755),
            (EntryKind::Symlink, FileType::Symlink, 0o777),
            (
                EntryKind::File { executable: true },
                FileType::RegularFile,
                0o755,
            ),
            (
                EntryKind::File { executable: false },
                FileType::RegularFile,
                0o644,
            ),
        ] {
            let attr = Attr {
                ino: Ino(9),
                kind,
                size: 513,
                blocks: 2,
                mtime_s: 1_700_000_000,
            };
            let got = file_attr(&attr, (7, 8));
            assert_eq!((got.kind, got.perm, got.nlink), (file_type, perm, 1));
            assert_eq!((got.uid, got.gid, got.size, got.blocks), (7, 8, 513, 2));
            let age = got.mtime.duration_since(UNIX_EPOCH).unwrap();
            assert_eq!(age.as_secs(), 1_700_000_000);
            assert_eq!((got.mtime, got.mtime), (got.atime, got.ctime));
        }
    }

    #[test]
    fn r6_a_missing_object_is_never_reported_as_an_absent_name() {
        let missing = Error::new(ErrorKind::NotFound, "missing-object", "gone");
        assert_eq!(i32::from(errno(&missing)), i32::from(Errno::EIO));
        assert_eq!(absent((0, 0)).ino, INodeNo(0));
    }
}
