//! Every FUSE request, answered: convert, one call of the snapshot, one reply.
//!
//! ENOSYS is said on purpose, to the kernel: never ask this again. It is said of open and opendir,
//! so that one open serves the life of the mount and the caches stay; of access, since the kernel
//! checks permissions itself; of what only writers need. A change is EROFS, always (R23).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags,
    PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::listing::Listed;
use super::readahead::ReadAhead;
use super::reply::{FOREVER, absent, attr_ttl, errno, file_attr, file_type};
use crate::error::Result;
use crate::snapshot::{Count, Ino, NAME_BYTES_MAX, Snapshot};

/// What the kernel is asked to do for us, where it can.
const WISHES: [InitFlags; 8] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_MAX_PAGES,
    InitFlags::FUSE_ASYNC_READ,
];

/// The largest request; sets how many pages one READ may ask for.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Requests that the kernel may have under way without a process waiting: readahead.
const BACKGROUND_MAX: u16 = 64;

/// A snapshot as fuser serves it.
#[derive(Debug)]
pub(super) struct ForgeFs {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) read_ahead: Arc<ReadAhead>,
    pub(super) owner: (u32, u32),
    pub(super) xattrs: bool,
}

impl ForgeFs {
    /// Does the work of one request. A panic is a bug; it is answered EIO and the mount lives on.
    fn work<T>(
        &self,
        count: Count,
        op: &'static str,
        ino: INodeNo,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T, Errno> {
        let stats = self.snapshot.stats();
        stats.add(count, 1);
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(value)) => {
                tracing::debug!(op, ino = ino.0, "request");
                Ok(value)
            }
            Ok(Err(error)) => {
                stats.add(Count::Failures, 1);
                let number = errno(&error);
                let errno = i32::from(number);
                tracing::debug!(op, ino = ino.0, errno, %error, "request failed");
                Err(number)
            }
            Err(_) => {
                stats.add(Count::Failures, 1);
                tracing::error!(op, ino = ino.0, "request panicked");
                Err(Errno::EIO)
            }
        }
    }

    /// Returns the value of one of our extended attributes.
    fn xattr(&self, ino: Ino, name: &OsStr) -> Result<Option<String>> {
        let commit = self.snapshot.commit();
        match (name.as_bytes(), ino == Ino::ROOT) {
            (b"user.forgefs.oid", _) => self.snapshot.oid_text(ino).map(Some),
            (b"user.forgefs.commit", true) => Ok(Some(commit.id.to_string())),
            (b"user.forgefs.tree", true) => Ok(Some(commit.tree_id.to_string())),
            _ => Ok(None),
        }
    }
}

/// Answers with a fixed error.
macro_rules! always {
    ($($errno:ident { $($name:ident($($kind:ty),*) -> $reply:ty;)+ })+) => {$($(
        fn $name(&self, _: &Request, $(_: $kind,)* reply: $reply) {
            self.snapshot.stats().add(Count::Others, 1);
            reply.error(Errno::$errno);
        }
    )+)+};
}

impl Filesystem for ForgeFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for wish in WISHES {
            if config.add_capabilities(wish).is_err() {
                tracing::debug!(?wish, "the kernel lacks a FUSE capability");
            }
        }
        // Out of range is answered with the nearest possible value, which is then in force.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let work = || self.snapshot.lookup(Ino(parent.0), name.as_bytes());
        match self.work(Count::Lookups, "lookup", parent, work) {
            Ok(found) => {
                let attr =
                    found.map_or_else(|| absent(self.owner), |attr| file_attr(&attr, self.owner));
                reply.entry(&FOREVER, &attr, Generation(0));
            }
            Err(number) => reply.error(number),
        }
    }

    fn forget(&self, _: &Request, _: INodeNo, _: u64) {}

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let work = || self.snapshot.attr(Ino(ino.0));
        match self.work(Count::Getattrs, "getattr", ino, work) {
            Ok(attr) => reply.attr(attr_ttl(ino), &file_attr(&attr, self.owner)),
            Err(number) => reply.error(number),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let work = || self.snapshot.target(Ino(ino.0));
        match self.work(Count::Readlinks, "readlink", ino, work) {
            Ok(target) => reply.data(&target),
            Err(number) => reply.error(number),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let work = || {
            let entry = self.snapshot.entry(Ino(ino.0))?;
            let bytes = self.snapshot.read_entry(&entry, offset, size)?;
            Ok((entry, bytes))
        };
        match self.work(Count::Reads, "read", ino, work) {
            Ok((entry, bytes)) => {
                self.snapshot
                    .stats()
                    .add(Count::ReadBytes, bytes.len() as u64);
                reply.data(&bytes);
                self.read_ahead.note_read(&entry, offset);
            }
            Err(number) => reply.error(number),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let directory = fuser::FileType::Directory;
        let work = || {
            self.list(ino, offset, |listed, next| match listed {
                Listed::Dot(ino, name) => reply.add(INodeNo(ino.0), next, directory, name),
                Listed::Entry(directory, index) => directory.entry(index).is_none_or(|entry| {
                    let name = OsStr::from_bytes(entry.name);
                    reply.add(INodeNo(entry.ino.0), next, file_type(entry.kind), name)
                }),
            })
        };
        match self.work(Count::Readdirs, "readdir", ino, work) {
            Ok(()) => reply.ok(),
            Err(number) => reply.error(number),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let work = || {
            self.list(ino, offset, |listed, next| {
                self.add_plus(&mut reply, &listed, next)
            })
        };
        match self.work(Count::Readdirs, "readdirplus", ino, work) {
            Ok(()) => reply.ok(),
            Err(number) => reply.error(number),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.snapshot.stats().add(Count::Others, 1);
        // Full, as every read-only image is; how much it holds is not known without a walk.
        let (blocks, free, files, block_size) = (1, 0, 1, 4096);
        let name_max = u32::try_from(NAME_BYTES_MAX).unwrap_or(u32::MAX);
        reply.statfs(
            blocks, free, free, files, 0, block_size, name_max, block_size,
        );
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.xattrs {
            self.snapshot.stats().add(Count::Others, 1);
            return reply.error(Errno::ENOSYS);
        }
        let work = || self.xattr(Ino(ino.0), name);
        match self.work(Count::Others, "getxattr", ino, work) {
            Ok(Some(value)) => {
                let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
                if size == 0 {
                    reply.size(len);
                } else if size < len {
                    reply.error(Errno::ERANGE);
                } else {
                    reply.data(value.as_bytes());
                }
            }
            Ok(None) => reply.error(Errno::ENODATA),
            Err(number) => reply.error(number),
        }
    }

    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        self.snapshot.stats().add(Count::Others, 1);
        // Never listed, lest they travel with copies; not even with `--xattrs`.
        match (self.xattrs, size) {
            (false, _) => reply.error(Errno::ENOSYS),
            (true, 0) => reply.size(0),
            (true, _) => reply.data(&[]),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, _: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(Errno::EROFS);
    }

    always! {
        ENOSYS {
        open(INodeNo, OpenFlags) -> ReplyOpen;
        opendir(INodeNo, OpenFlags) -> ReplyOpen;
        access(INodeNo, AccessFlags) -> ReplyEmpty;
        flush(INodeNo, FileHandle, LockOwner) -> ReplyEmpty;
        fsync(INodeNo, FileHandle, bool) -> ReplyEmpty;
        fsyncdir(INodeNo, FileHandle, bool) -> ReplyEmpty;
        lseek(INodeNo, FileHandle, i64, i32) -> ReplyLseek;
        bmap(INodeNo, u32, u64) -> ReplyBmap;
        poll(INodeNo, FileHandle, PollNotifier, PollEvents, PollFlags) -> ReplyPoll;
        getlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32) -> ReplyLock;
        setlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32, bool) -> ReplyEmpty;
        }
        ENOTTY {
        ioctl(INodeNo, FileHandle, IoctlFlags, u32, &[u8], u32) -> ReplyIoctl;
        }
        EROFS {
        mknod(INodeNo, &OsStr, u32, u32, u32) -> ReplyEntry;
        mkdir(INodeNo, &OsStr, u32, u32) -> ReplyEntry;
        unlink(INodeNo, &OsStr) -> ReplyEmpty;
        rmdir(INodeNo, &OsStr) -> ReplyEmpty;
        symlink(INodeNo, &OsStr, &Path) -> ReplyEntry;
        rename(INodeNo, &OsStr, INodeNo, &OsStr, RenameFlags) -> ReplyEmpty;
        link(INodeNo, INodeNo, &OsStr) -> ReplyEntry;
        write(
            INodeNo, FileHandle, u64, &[u8], WriteFlags, OpenFlags, Option<LockOwner>
        ) -> ReplyWrite;
        create(INodeNo, &OsStr, u32, u32, i32) -> ReplyCreate;
        setxattr(INodeNo, &OsStr, &[u8], i32, u32) -> ReplyEmpty;
        removexattr(INodeNo, &OsStr) -> ReplyEmpty;
        fallocate(INodeNo, FileHandle, u64, u64, i32) -> ReplyEmpty;
        copy_file_range(
            INodeNo, FileHandle, u64, INodeNo, FileHandle, u64, u64, CopyFileRangeFlags
        ) -> ReplyWrite;
        }
    }
}
