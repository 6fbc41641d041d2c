//! Files of an object store: read with `pread` only (never mapped, so that a file cut short or a
//! failing disk is an error for one object and no SIGBUS), and a bounded number of them open.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use lru::LruCache;

use crate::sys::DirFd;

/// Reads at `offset` until `buf` is full or the file ends; returns the number of bytes read.
///
/// Every read of an object store goes through here, so that tests can make each one fail.
pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    #[cfg(test)]
    faults::strike()?;
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads exactly `buf.len()` bytes at `offset`; `UnexpectedEof` where the file is shorter.
pub(super) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    if read_at(file, buf, offset)? < buf.len() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    Ok(())
}

/// The open files of a store, least recently used closed first.
///
/// A pack stays readable while it is open even if git deletes it meanwhile (R12); one that was
/// closed for want of descriptors and then deleted is found again by a rescan in its successor.
#[derive(Debug)]
pub(super) struct Descriptors {
    open: Mutex<LruCache<u64, Arc<File>>>,
    next_key: AtomicU64,
}

impl Descriptors {
    /// Allows `open_max` files at once.
    pub(super) fn new(open_max: NonZeroUsize) -> Self {
        Self {
            open: Mutex::new(LruCache::new(open_max)),
            next_key: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<u64, Arc<File>>> {
        self.open
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Closes every other file, for when the process has no descriptor left.
    fn close_half(&self) {
        let mut open = self.lock();
        for _ in 0..open.len().div_ceil(2) {
            open.pop_lru();
        }
    }
}

/// What a file was when it was first opened: another one under the same name is not it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    len: u64,
    mtime_ns: i128,
}

impl Stamp {
    /// Takes the stamp of an open file.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self {
            dev: meta.dev(),
            ino: meta.ino(),
            len: meta.len(),
            mtime_ns: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
        })
    }
}

/// A file of the store by name, opened when first needed and again after it was closed for others.
#[derive(Debug)]
pub(super) struct StoreFile {
    pool: Arc<Descriptors>,
    key: u64,
    dir: Arc<DirFd>,
    name: Vec<u8>,
    stamp: OnceLock<Stamp>,
}

impl StoreFile {
    /// Names a file of `dir`; nothing is opened yet.
    pub(super) fn new(pool: &Arc<Descriptors>, dir: &Arc<DirFd>, name: Vec<u8>) -> Self {
        Self {
            pool: Arc::clone(pool),
            key: pool.next_key.fetch_add(1, Ordering::Relaxed),
            dir: Arc::clone(dir),
            name,
            stamp: OnceLock::new(),
        }
    }

    /// Returns the name for messages.
    pub(super) fn name(&self) -> String {
        self.name.escape_ascii().to_string()
    }

    /// Returns the open file.
    ///
    /// # Errors
    /// What `openat` says; `InvalidData` where the name is no file or stands for another file now.
    pub(super) fn open(&self) -> io::Result<Arc<File>> {
        if let Some(file) = self.pool.lock().get(&self.key) {
            return Ok(Arc::clone(file));
        }
        let file = match self.dir.open_file_following(&self.name) {
            Err(error) if matches!(error.raw_os_error(), Some(23 | 24)) => {
                self.pool.close_half();
                self.dir.open_file_following(&self.name)?
            }
            other => other?,
        };
        if !file.metadata()?.is_file() {
            return Err(invalid("it is not a file"));
        }
        let stamp = Stamp::of(&file)?;
        if *self.stamp.get_or_init(|| stamp) != stamp {
            return Err(invalid("another file has taken its name"));
        }
        let file = Arc::new(file);
        self.pool.lock().put(self.key, Arc::clone(&file));
        Ok(file)
    }

    /// Returns the stamp of the file as it was first opened.
    pub(super) fn stamp(&self) -> io::Result<Stamp> {
        if self.stamp.get().is_none() {
            self.open()?;
        }
        self.stamp
            .get()
            .copied()
            .ok_or_else(|| invalid("it was not opened"))
    }

    /// Returns the length in bytes as it was when the file was first opened.
    pub(super) fn len(&self) -> io::Result<u64> {
        self.stamp().map(|stamp| stamp.len)
    }

    /// Closes the file if it is open; it opens again when needed.
    pub(super) fn close(&self) {
        self.pool.lock().pop(&self.key);
    }

    /// Returns whether it is open now.
    pub(super) fn is_open(&self) -> bool {
        self.pool.lock().contains(&self.key)
    }

    /// Returns whether the name stands for another file than the one that was opened, or for none.
    pub(super) fn is_replaced(&self) -> bool {
        let now = self
            .dir
            .open_file_following(&self.name)
            .and_then(|file| Stamp::of(&file));
        match (now, self.stamp.get()) {
            (Ok(now), Some(stamp)) => now != *stamp,
            (Ok(_), None) => false,
            (Err(_), _) => true,
        }
    }
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        self.close();
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Read errors on demand, for the thread that asks for them alone.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static COUNTDOWN: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Makes the read after `reads` more reads of this thread fail, once; `None` disarms.
    pub(crate) fn fail_after(reads: Option<u64>) {
        COUNTDOWN.set(reads);
    }

    /// Returns whether a fault is still waiting to strike.
    pub(crate) fn is_armed() -> bool {
        COUNTDOWN.get().is_some()
    }

    pub(super) fn strike() -> io::Result<()> {
        match COUNTDOWN.get() {
            Some(0) => {
                COUNTDOWN.set(None);
                Err(io::Error::from_raw_os_error(5))
            }
            Some(left) => {
                COUNTDOWN.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }
}
