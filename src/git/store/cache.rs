//! Delta bases that were just rebuilt, least recently used dropped first, one budget of bytes for
//! all threads (performance.md, decision 3).
//!
//! What is in here was not verified by itself: only the object that is finally built from it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::super::Kind;

/// Bytes of bookkeeping that an entry is charged for.
const ENTRY_BYTES: u64 = 128;

/// A pack's number and an offset in it.
pub(super) type Place = (u32, u64);

/// A rebuilt object.
pub(super) type Base = (Kind, Arc<Vec<u8>>);

/// The cache.
#[derive(Debug)]
pub(super) struct BaseCache {
    inner: Mutex<Inner>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Inner {
    entries: LruCache<Place, Base>,
    bytes: u64,
}

impl BaseCache {
    /// Makes a cache of at most `bytes_max` bytes; 0 keeps nothing.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            inner: Mutex::new(Inner {
                entries: LruCache::unbounded(),
                bytes: 0,
            }),
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the object at `place` if it is here.
    pub(super) fn get(&self, place: Place) -> Option<Base> {
        self.lock()
            .entries
            .get(&place)
            .map(|(kind, bytes)| (*kind, Arc::clone(bytes)))
    }

    /// Returns whether an object of `len` bytes would be kept.
    pub(super) fn takes(&self, len: usize) -> bool {
        len as u64 + ENTRY_BYTES <= self.bytes_max / 2
    }

    /// Keeps an object, dropping others for it.
    pub(super) fn put(&self, place: Place, kind: Kind, bytes: &Arc<Vec<u8>>) {
        if !self.takes(bytes.len()) {
            return;
        }
        let mut dropped = Vec::new();
        let mut inner = self.lock();
        inner.bytes += cost(bytes);
        if let Some((_, old)) = inner.entries.put(place, (kind, Arc::clone(bytes))) {
            inner.bytes -= cost(&old);
            dropped.push(old);
        }
        while inner.bytes > self.bytes_max {
            let Some((_, (_, old))) = inner.entries.pop_lru() else {
                break;
            };
            inner.bytes -= cost(&old);
            dropped.push(old);
        }
        // Freed after the lock is given back.
        drop(inner);
        drop(dropped);
    }
}

fn cost(bytes: &Arc<Vec<u8>>) -> u64 {
    bytes.capacity() as u64 + ENTRY_BYTES
}
