//! Blob contents: an LRU cache by bytes, one loader for each blob while others wait, and blobs too
//! big for it in unlinked files, served only after they were hashed (R46).
//!
//! What was delivered whole is not kept: the kernel's page cache has it. Loading bytes count
//! against the cache, so that all threads together stay within `cache_bytes_max`.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::stats::{Count, Stats};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::{Kind, ObjectSource, Oid};
use crate::sys::SpoolFile;

/// How many spooled blobs are kept at once; each costs a descriptor and its size on disk.
const SPOOLS_MAX: usize = 8;

/// Blobs up to this share of the cache are held in memory.
const WHOLE_SHARE: u64 = 4;

/// Blobs up to this size are held in memory whatever the cache: links and small files.
const WHOLE_BYTES_MIN: u64 = 64 << 10;

/// Bytes of a blob, shared with the cache where they are in it.
#[derive(Debug, Clone)]
pub struct BlobBytes {
    bytes: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl BlobBytes {
    fn cut(bytes: Arc<Vec<u8>>, offset: u64, len: u32) -> Self {
        let start = usize::try_from(offset).map_or(bytes.len(), |start| start.min(bytes.len()));
        let end = usize::try_from(len).map_or(bytes.len(), |len| start.saturating_add(len));
        let end = end.min(bytes.len());
        Self {
            bytes,
            range: start..end,
        }
    }

    fn whole(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        let bytes = Arc::new(bytes);
        Self { bytes, range }
    }
}

impl Deref for BlobBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

/// One blob as it is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) id: Oid,
    /// The size that `stat` was told; another one is an error, since the kernel would cut or pad.
    pub(super) size: u64,
}

#[derive(Debug, Clone)]
enum Content {
    Memory(Arc<Vec<u8>>),
    Spool(Arc<SpoolFile>),
}

/// The contents at hand and those on their way.
#[derive(Debug)]
pub(super) struct Blobs {
    state: Mutex<State>,
    room: Condvar,
    cache_bytes_max: u64,
    spool_dir: PathBuf,
}

#[derive(Debug)]
struct State {
    cached: LruCache<Oid, Cached>,
    cached_bytes: u64,
    loading_bytes: u64,
    loads: HashMap<Oid, Arc<Load>>,
    spools: LruCache<Oid, Arc<SpoolFile>>,
}

/// A blob that is given out in several pieces.
#[derive(Debug)]
struct Cached {
    bytes: Arc<Vec<u8>>,
    /// How many bytes were given out; once all were, the kernel has them and this goes.
    given: u64,
}

/// A load that others may wait for.
#[derive(Debug, Default)]
struct Load {
    outcome: Mutex<Option<Result<Content, Failure>>>,
    done: Condvar,
}

/// An error as the waiting threads get it; an [`Error`] cannot be copied with its causes.
#[derive(Debug, Clone)]
struct Failure {
    kind: ErrorKind,
    slug: &'static str,
    text: String,
}

/// Takes a lock that a panicking thread may have held: the maps are consistent between statements.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Blobs {
    pub(super) fn new(cache_bytes_max: u64, spool_dir: PathBuf) -> Self {
        Self {
            state: Mutex::new(State {
                cached: LruCache::unbounded(),
                cached_bytes: 0,
                loading_bytes: 0,
                loads: HashMap::new(),
                spools: LruCache::unbounded(),
            }),
            room: Condvar::new(),
            cache_bytes_max,
            spool_dir,
        }
    }

    /// Returns the largest blob that is held in memory; larger ones are spooled.
    pub(super) fn whole_bytes_max(&self) -> u64 {
        (self.cache_bytes_max / WHOLE_SHARE).max(WHOLE_BYTES_MIN)
    }

    /// Returns up to `len` bytes from `offset` on, fewer only at the end.
    ///
    /// # Errors
    /// What reading the blob says; `size-differs` where it is not as long as `stat` was told; those
    /// of the spool file.
    pub(super) fn read(
        &self,
        objects: &dyn ObjectSource,
        stats: &Stats,
        wanted: Wanted,
        offset: u64,
        len: u32,
    ) -> Result<BlobBytes> {
        let len = u32::try_from(wanted.size.saturating_sub(offset).min(u64::from(len)));
        let len = len.unwrap_or(u32::MAX);
        if len == 0 {
            return Ok(BlobBytes::whole(Vec::new()));
        }
        match self.content(objects, stats, wanted, u64::from(len))? {
            Content::Memory(bytes) => Ok(BlobBytes::cut(bytes, offset, len)),
            Content::Spool(spool) => {
                let mut buffer = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
                spool
                    .read_exact_at(&mut buffer, offset)
                    .doing(|| format!("cannot read the spooled blob {}", wanted.id))?;
                Ok(BlobBytes::whole(buffer))
            }
        }
    }

    fn content(
        &self,
        objects: &dyn ObjectSource,
        stats: &Stats,
        wanted: Wanted,
        giving: u64,
    ) -> Result<Content> {
        let mut state = locked(&self.state);
        if let Some(bytes) = state.give(&wanted, giving) {
            stats.add(Count::CacheHits, 1);
            return Ok(Content::Memory(bytes));
        }
        if let Some(spool) = state.spools.get(&wanted.id) {
            stats.add(Count::CacheHits, 1);
            return Ok(Content::Spool(Arc::clone(spool)));
        }
        if let Some(load) = state.loads.get(&wanted.id).cloned() {
            drop(state);
            stats.add(Count::LoadsShared, 1);
            return load.wait(&wanted.id);
        }
        let load = Arc::new(Load::default());
        state.loads.insert(wanted.id, Arc::clone(&load));
        drop(state);
        stats.add(Count::Loads, 1);
        let mut loading = Loading {
            blobs: self,
            load: &load,
            id: wanted.id,
            reserved: 0,
            outcome: None,
        };
        let result = if wanted.size <= self.whole_bytes_max() {
            loading.reserve(wanted.size);
            read_whole(objects, wanted)
        } else {
            self.spool(objects, wanted)
        };
        loading.outcome = Some(match &result {
            Ok(content) => Ok((content.clone(), giving)),
            Err(error) => Err(Failure {
                kind: error.kind(),
                slug: error.slug(),
                text: error.to_string(),
            }),
        });
        drop(loading);
        result
    }

    fn spool(&self, objects: &dyn ObjectSource, wanted: Wanted) -> Result<Content> {
        let dir = &self.spool_dir;
        let doing = || format!("cannot spool the blob {} in {}", wanted.id, dir.display());
        let file = SpoolFile::create_in(dir).doing(doing)?;
        let mut out = BufWriter::with_capacity(1 << 17, file);
        let size = objects.read_to(&wanted.id, Kind::Blob, &mut out)?;
        out.flush().doing(doing)?;
        let file = out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error);
        check_size(&wanted, size)?;
        Ok(Content::Spool(Arc::new(file.doing(doing)?)))
    }
}

fn read_whole(objects: &dyn ObjectSource, wanted: Wanted) -> Result<Content> {
    let bytes = objects.read(&wanted.id, Kind::Blob)?;
    check_size(&wanted, bytes.len() as u64)?;
    Ok(Content::Memory(Arc::new(bytes)))
}

fn check_size(wanted: &Wanted, size: u64) -> Result<()> {
    if size == wanted.size {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        "size-differs",
        format!(
            "object {} has {size} bytes, but its header said {}",
            wanted.id, wanted.size
        ),
    )
    .about(wanted.id))
}

/// A load under way: gives room back and wakes those who wait, also where the loader panics.
struct Loading<'a> {
    blobs: &'a Blobs,
    load: &'a Load,
    id: Oid,
    reserved: u64,
    /// The content, and how many bytes of it its loader gives out.
    outcome: Option<Result<(Content, u64), Failure>>,
}

impl Loading<'_> {
    /// Waits until `size` bytes fit beside what others load; evicts what is cached.
    fn reserve(&mut self, size: u64) {
        let max = self.blobs.cache_bytes_max;
        let mut state = locked(&self.blobs.state);
        while state.loading_bytes > 0 && state.loading_bytes.saturating_add(size) > max {
            let waited = self.blobs.room.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.loading_bytes = state.loading_bytes.saturating_add(size);
        let free = max.saturating_sub(state.loading_bytes);
        state.evict_to(free);
        self.reserved = size;
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            Err(Failure {
                kind: ErrorKind::Internal,
                slug: "internal",
                text: String::from("the thread that loaded the blob panicked"),
            })
        });
        let mut state = locked(&self.blobs.state);
        state.loads.remove(&self.id);
        state.loading_bytes = state.loading_bytes.saturating_sub(self.reserved);
        let outcome = outcome.map(|(content, given)| {
            match &content {
                Content::Memory(bytes) => state.keep(self.id, bytes, given),
                Content::Spool(spool) => {
                    state.spools.put(self.id, Arc::clone(spool));
                    while state.spools.len() > SPOOLS_MAX {
                        state.spools.pop_lru();
                    }
                }
            }
            content
        });
        let max = self.blobs.cache_bytes_max;
        let free = max.saturating_sub(state.loading_bytes);
        state.evict_to(free);
        drop(state);
        self.blobs.room.notify_all();
        *locked(&self.load.outcome) = Some(outcome);
        self.load.done.notify_all();
    }
}

impl State {
    /// Keeps a blob that is not yet given out whole.
    fn keep(&mut self, id: Oid, bytes: &Arc<Vec<u8>>, given: u64) {
        if given >= bytes.len() as u64 {
            return;
        }
        self.cached_bytes = self.cached_bytes.saturating_add(bytes.len() as u64);
        let bytes = Arc::clone(bytes);
        if let Some(old) = self.cached.put(id, Cached { bytes, given }) {
            self.forget(&old);
        }
    }

    /// Gives out a kept blob, of which the caller passes on `giving` bytes.
    fn give(&mut self, wanted: &Wanted, giving: u64) -> Option<Arc<Vec<u8>>> {
        let cached = self.cached.get_mut(&wanted.id)?;
        cached.given = cached.given.saturating_add(giving);
        if cached.given < wanted.size {
            return Some(Arc::clone(&cached.bytes));
        }
        let cached = self.cached.pop(&wanted.id)?;
        self.forget(&cached);
        Some(cached.bytes)
    }

    fn forget(&mut self, cached: &Cached) {
        self.cached_bytes = self.cached_bytes.saturating_sub(cached.bytes.len() as u64);
    }

    fn evict_to(&mut self, bytes_max: u64) {
        while self.cached_bytes > bytes_max
            && let Some((_, cached)) = self.cached.pop_lru()
        {
            self.forget(&cached);
        }
    }
}

impl Load {
    fn wait(&self, id: &Oid) -> Result<Content> {
        let mut outcome = locked(&self.outcome);
        loop {
            match &*outcome {
                Some(Ok(content)) => return Ok(content.clone()),
                Some(Err(Failure { kind, slug, text })) => {
                    return Err(Error::new(*kind, slug, text.clone()).about(id));
                }
                None => {
                    let waited = self.done.wait(outcome);
                    outcome = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
