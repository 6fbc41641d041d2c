//! One object made ready for a pack: its entry taken over from the source's pack where that can be,
//! and whatever is to be written inflated, resolved and hashed first (R85).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::super::source::RawBase;
use super::super::store::apply_delta;
use super::super::{Kind, ObjectSource, Oid, PackItem, hash_object};
use super::output::EntryHead;
use super::{PackVisitor, WHOLE_BYTES_MAX};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of objects that are kept as bases for what comes next, all workers together.
const RECENT_BYTES_MAX: usize = 96 << 20;

/// The level that new streams are compressed with: git's own default.
const COMPRESSION_LEVEL: i32 = 6;

/// A run of objects, ready to be written.
pub(super) struct Batch {
    /// Which objects of the order.
    pub(super) range: Range<usize>,
    /// One for each of them.
    pub(super) entries: Vec<Prepared>,
    /// All their streams.
    pub(super) bytes: Vec<u8>,
}

/// One object, ready to be written.
pub(super) enum Prepared {
    /// A zlib stream.
    Stream {
        /// What it is a stream of.
        head: EntryHead,
        /// Bytes that it inflates to.
        size: u64,
        /// Where it is in [`Batch::bytes`].
        stream: Range<usize>,
    },
    /// Too large to hold; the writer streams it.
    Large,
}

/// What a worker uses again from one object to the next.
pub(super) struct Scratch {
    inflater: libdeflater::Decompressor,
    deflater: libdeflater::Compressor,
    raw: Vec<u8>,
    delta: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        let level = libdeflater::CompressionLvl::new(COMPRESSION_LEVEL).unwrap_or_default();
        Self {
            inflater: libdeflater::Decompressor::new(),
            deflater: libdeflater::Compressor::new(level),
            raw: Vec::new(),
            delta: Vec::new(),
        }
    }
}

/// What all workers share.
pub(super) struct Preparer<'a> {
    objects: &'a dyn ObjectSource,
    order: &'a [PackItem],
    visitor: Option<&'a dyn PackVisitor>,
    number_at: HashMap<u64, u32>,
    number_of: HashMap<Oid, u32>,
    recent: Mutex<Recent>,
}

impl<'a> Preparer<'a> {
    pub(super) fn new(
        objects: &'a dyn ObjectSource,
        order: &'a [PackItem],
        visitor: Option<&'a dyn PackVisitor>,
    ) -> Self {
        let numbered = || (0_u32..).zip(order);
        let number_at: HashMap<u64, u32> = numbered()
            .filter_map(|(number, item)| Some((item.place?, number)))
            .collect();
        let number_of = if number_at.is_empty() {
            HashMap::new()
        } else {
            numbered().map(|(number, item)| (item.id, number)).collect()
        };
        Self {
            objects,
            order,
            visitor,
            number_at,
            number_of,
            recent: Mutex::new(Recent {
                contents: LruCache::unbounded(),
                bytes: 0,
            }),
        }
    }

    /// Makes a run of objects ready.
    pub(super) fn batch(&self, range: Range<usize>, scratch: &mut Scratch) -> Result<Batch> {
        let mut batch = Batch {
            range: range.clone(),
            entries: Vec::with_capacity(range.len()),
            bytes: Vec::new(),
        };
        for number in range {
            let Some(PackItem { kind, id, size, .. }) = self.order.get(number) else {
                break;
            };
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let prepared = if *size > WHOLE_BYTES_MAX {
                Prepared::Large
            } else if let Some(reused) = self.reuse(number, *kind, id, &mut batch, scratch)? {
                reused
            } else {
                self.compress(number, *kind, id, &mut batch, scratch)?
            };
            batch.entries.push(prepared);
        }
        Ok(batch)
    }

    /// Takes the entry over as it lies in the source's pack, if all it needs is in this pack before
    /// it and its bytes turn out to be the object.
    fn reuse(
        &self,
        number: u32,
        kind: Kind,
        id: &Oid,
        batch: &mut Batch,
        scratch: &mut Scratch,
    ) -> Result<Option<Prepared>> {
        scratch.raw.clear();
        let Some(entry) = self.objects.raw_entry(id, &mut scratch.raw) else {
            return Ok(None);
        };
        let base = match entry.base {
            None => None,
            Some(base) => {
                let found = match base {
                    RawBase::Place(place) => self.number_at.get(&place),
                    RawBase::Id(base_id) => self.number_of.get(&base_id),
                };
                match found.filter(|base| **base < number) {
                    Some(base) => Some(*base),
                    None => return Ok(None),
                }
            }
        };
        let Some(size) = usize::try_from(entry.size)
            .ok()
            .filter(|_| entry.size <= WHOLE_BYTES_MAX)
        else {
            return Ok(None);
        };
        let mut content = Vec::new();
        let rebuilt = match base {
            None => {
                content.resize(size, 0);
                inflate(&mut scratch.inflater, &scratch.raw, &mut content)
            }
            Some(base) => {
                scratch.delta.resize(size, 0);
                inflate(&mut scratch.inflater, &scratch.raw, &mut scratch.delta)
                    && self.base(base, kind).is_some_and(|base| {
                        apply_delta(&base, &scratch.delta, WHOLE_BYTES_MAX, &mut content).is_ok()
                    })
            }
        };
        if !rebuilt || hash_object(self.objects.hash_kind(), kind, &content)? != *id {
            return Ok(None);
        }
        self.show(number, kind, id, content)?;
        let start = batch.bytes.len();
        batch.bytes.extend_from_slice(&scratch.raw);
        Ok(Some(Prepared::Stream {
            head: base.map_or(EntryHead::Whole(kind), EntryHead::DeltaOn),
            size: entry.size,
            stream: start..batch.bytes.len(),
        }))
    }

    /// Reads the object, verified, and compresses it whole.
    fn compress(
        &self,
        number: u32,
        kind: Kind,
        id: &Oid,
        batch: &mut Batch,
        scratch: &mut Scratch,
    ) -> Result<Prepared> {
        let content = self.objects.read(id, kind)?;
        let size = content.len();
        let start = batch.bytes.len();
        let bound = scratch.deflater.zlib_compress_bound(size);
        batch.bytes.resize(start + bound, 0);
        let room = batch.bytes.get_mut(start..).unwrap_or_default();
        let len = scratch
            .deflater
            .zlib_compress(&content, room)
            .map_err(|_| Error::new(ErrorKind::Internal, "internal", "the bound was too small"))?;
        batch.bytes.truncate(start + len);
        self.show(number, kind, id, content)?;
        Ok(Prepared::Stream {
            head: EntryHead::Whole(kind),
            size: size as u64,
            stream: start..start + len,
        })
    }

    /// Hands verified content to the visitor and keeps it as a base for what follows.
    fn show(&self, number: u32, kind: Kind, id: &Oid, content: Vec<u8>) -> Result<()> {
        if let Some(visitor) = self.visitor.filter(|_| kind == Kind::Blob) {
            visitor.blob(id, &content)?;
        }
        if !self.number_at.is_empty() {
            self.recent().put(number, Arc::new(content));
        }
        Ok(())
    }

    /// Returns the verified content of the object with that number; `None` where it cannot be had.
    fn base(&self, number: u32, kind: Kind) -> Option<Arc<Vec<u8>>> {
        if let Some(content) = self.recent().contents.get(&number) {
            return Some(Arc::clone(content));
        }
        let base = self.order.get(usize::try_from(number).ok()?)?;
        if base.kind != kind || base.size > WHOLE_BYTES_MAX {
            return None;
        }
        let content = Arc::new(self.objects.read(&base.id, kind).ok()?);
        self.recent().put(number, Arc::clone(&content));
        Some(content)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inflates a whole zlib stream to exactly `out`. What `stream` holds must end with the stream's
/// own check sum: bytes behind it would stand between two entries of the new pack.
fn inflate(inflater: &mut libdeflater::Decompressor, stream: &[u8], out: &mut [u8]) -> bool {
    matches!(inflater.zlib_decompress(stream, out), Ok(len) if len == out.len())
        && stream.ends_with(&libdeflater::adler32(out).to_be_bytes())
}

/// Contents that were just made, least recently used dropped first.
struct Recent {
    contents: LruCache<u32, Arc<Vec<u8>>>,
    bytes: usize,
}

impl Recent {
    fn put(&mut self, number: u32, content: Arc<Vec<u8>>) {
        if content.len() > RECENT_BYTES_MAX / 8 {
            return;
        }
        self.bytes += content.len();
        if let Some(old) = self.contents.put(number, content) {
            self.bytes = self.bytes.saturating_sub(old.len());
        }
        while self.bytes > RECENT_BYTES_MAX {
            let Some((_, old)) = self.contents.pop_lru() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(old.len());
        }
    }
}
