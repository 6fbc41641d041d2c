//! Indexing a pack that came from elsewhere: every entry inflated, every delta resolved, every
//! object hashed. It takes packs as forgefs writes them, with each delta's base before it; anything
//! else is refused, since nobody else sends seeds.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::{Crc, Decompress, FlushDecompress, Status};
use lru::LruCache;

use super::pack_write::{Written, indexes_of};
use super::store::{RawHead, apply_delta, parse_raw_head};
use super::{HashKind, Kind, ObjectHasher, Oid, PackIndexes, hash_object};
use crate::error::{Error, ErrorKind, IoContext, Result};

/// Objects up to this size are held in memory, as bases; larger ones must be whole, and are hashed
/// as they are inflated, bytes.
const WHOLE_BYTES_MAX: u64 = 64 << 20;

/// Bytes of bases that are kept.
const BASES_BYTES_MAX: usize = 96 << 20;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Reads the pack in `file` of `len` bytes and returns its check sum and indexes.
///
/// # Errors
/// `corrupt-pack` where it is no pack of ours or anything in it does not hold.
pub fn index_pack(file: &File, len: u64, hash_kind: HashKind) -> Result<(Oid, PackIndexes)> {
    let id_len = hash_kind.len_in_bytes();
    let end = len
        .checked_sub(id_len as u64)
        .filter(|end| *end >= 12)
        .ok_or_else(|| corrupt("is too short"))?;
    let mut indexer = Indexer::new(file, end, hash_kind);
    let head = indexer.take(12)?;
    let count = match head.as_slice() {
        [b'P', b'A', b'C', b'K', 0, 0, 0, 2, count @ ..] => {
            u32::from_be_bytes(count.try_into().unwrap_or_default())
        }
        _ => return Err(corrupt("does not begin like a pack of version 2")),
    };
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(indexer.entry()?);
    }
    if indexer.at != end {
        return Err(corrupt("holds more than its objects"));
    }
    let name = indexer
        .sum
        .try_finalize()
        .map_err(|_| corrupt("carries a collision attack"))?;
    let mut trailer = vec![0; id_len];
    file.read_exact_at(&mut trailer, end)
        .doing(|| String::from("cannot read the pack"))?;
    if trailer != name.as_slice() {
        return Err(corrupt("does not hash to its own check sum"));
    }
    let mut ids: Vec<Oid> = entries.iter().map(|entry: &Written| entry.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        return Err(corrupt("holds an object twice"));
    }
    let indexes = indexes_of(&entries, &name, hash_kind)?;
    Ok((name, indexes))
}

fn corrupt(why: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "corrupt-pack",
        format!("the pack {why}"),
    )
}

struct Indexer<'a> {
    file: &'a File,
    end: u64,
    hash_kind: HashKind,
    sum: gix::hash::Hasher,
    crc: Crc,
    at: u64,
    chunk: Vec<u8>,
    ready: std::ops::Range<usize>,
    chunk_at: u64,
    stream: Decompress,
    /// For each entry before: what it is, and on which entry it stands.
    forms: HashMap<u64, (Kind, Option<u64>)>,
    bases: LruCache<u64, Arc<Vec<u8>>>,
    bases_bytes: usize,
}

impl<'a> Indexer<'a> {
    fn new(file: &'a File, end: u64, hash_kind: HashKind) -> Self {
        Self {
            file,
            end,
            hash_kind,
            sum: gix::hash::hasher(hash_kind),
            crc: Crc::new(),
            at: 0,
            chunk: vec![0; CHUNK_BYTES],
            ready: 0..0,
            chunk_at: 0,
            stream: Decompress::new(true),
            forms: HashMap::new(),
            bases: LruCache::unbounded(),
            bases_bytes: 0,
        }
    }

    /// Makes bytes ready, all that are read at once; at least one unless the pack ends here.
    fn fill(&mut self) -> Result<()> {
        if self.ready.is_empty() {
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let len = left.min(CHUNK_BYTES);
            let chunk = self.chunk.get_mut(..len).unwrap_or_default();
            self.file
                .read_exact_at(chunk, self.at)
                .doing(|| String::from("cannot read the pack"))?;
            self.chunk_at = self.at;
            self.ready = 0..len;
        }
        Ok(())
    }

    /// Takes `count` of the bytes that are ready, into the sums.
    fn consume(&mut self, count: usize) {
        let start = self.ready.start;
        let taken = self.chunk.get(start..start + count).unwrap_or_default();
        self.sum.update(taken);
        self.crc.update(taken);
        self.ready.start += count;
        self.at += count as u64;
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            self.fill()?;
            let len = self.ready.len().min(count - out.len());
            if len == 0 {
                return Err(corrupt("ends within an entry"));
            }
            let start = self.ready.start;
            out.extend_from_slice(self.chunk.get(start..start + len).unwrap_or_default());
            self.consume(len);
        }
        Ok(out)
    }

    fn entry(&mut self) -> Result<Written> {
        let offset = self.at;
        self.crc = Crc::new();
        let left = usize::try_from(self.end - offset).unwrap_or(usize::MAX);
        let mut head = vec![0; left.min(32)];
        self.file
            .read_exact_at(&mut head, offset)
            .doing(|| String::from("cannot read the pack"))?;
        let RawHead { len, size, form } = parse_raw_head(&head, self.hash_kind)
            .ok_or_else(|| corrupt("has an entry that does not parse"))?;
        self.take(len)?;
        let id = match form {
            super::store::RawForm::Whole(kind) => self.whole(offset, kind, size)?,
            super::store::RawForm::DeltaBack(distance) => {
                let base = offset
                    .checked_sub(distance)
                    .filter(|base| self.forms.contains_key(base))
                    .ok_or_else(|| corrupt("has a delta on no entry before it"))?;
                self.delta(offset, base, size)?
            }
        };
        Ok(Written {
            id,
            offset,
            crc32: self.crc.sum(),
        })
    }

    fn whole(&mut self, offset: u64, kind: Kind, size: u64) -> Result<Oid> {
        self.forms.insert(offset, (kind, None));
        if size > WHOLE_BYTES_MAX {
            let mut hasher = ObjectHasher::new(self.hash_kind, kind, size);
            self.inflate(size, &mut |bytes| hasher.update(bytes))?;
            return hasher.finish();
        }
        let mut content = Vec::new();
        self.inflate(size, &mut |bytes| content.extend_from_slice(bytes))?;
        let id = hash_object(self.hash_kind, kind, &content)?;
        self.keep(offset, Arc::new(content));
        Ok(id)
    }

    fn delta(&mut self, offset: u64, base: u64, size: u64) -> Result<Oid> {
        if size > WHOLE_BYTES_MAX {
            return Err(corrupt("has a delta that is too large"));
        }
        let mut delta = Vec::new();
        self.inflate(size, &mut |bytes| delta.extend_from_slice(bytes))?;
        let kind = self.forms.get(&base).map(|form| form.0);
        let kind = kind.ok_or_else(|| corrupt("has a delta on no entry before it"))?;
        self.forms.insert(offset, (kind, Some(base)));
        let base = self.content(base)?;
        let mut content = Vec::new();
        apply_delta(&base, &delta, WHOLE_BYTES_MAX, &mut content).map_err(corrupt)?;
        let id = hash_object(self.hash_kind, kind, &content)?;
        self.keep(offset, Arc::new(content));
        Ok(id)
    }

    /// Inflates the stream that begins here to exactly `size` bytes.
    fn inflate(&mut self, size: u64, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.stream.reset(true);
        let mut out = vec![0; CHUNK_BYTES];
        loop {
            self.fill()?;
            let (in_before, out_before) = (self.stream.total_in(), self.stream.total_out());
            let input = self.chunk.get(self.ready.clone()).unwrap_or_default();
            let status = self
                .stream
                .decompress(input, &mut out, FlushDecompress::None)
                .map_err(|_| corrupt("has an entry that does not inflate"))?;
            let taken = usize::try_from(self.stream.total_in() - in_before).unwrap_or(0);
            let made = usize::try_from(self.stream.total_out() - out_before).unwrap_or(0);
            self.consume(taken);
            sink(out.get(..made).unwrap_or_default());
            if self.stream.total_out() > size
                || (taken == 0 && made == 0 && status != Status::StreamEnd)
            {
                return Err(corrupt("has an entry of another size than it says"));
            }
            if status == Status::StreamEnd {
                break;
            }
        }
        if self.stream.total_out() != size {
            return Err(corrupt("has an entry of another size than it says"));
        }
        Ok(())
    }

    /// Returns the content of an entry before, rebuilt where it is not kept.
    fn content(&mut self, offset: u64) -> Result<Arc<Vec<u8>>> {
        let mut chain = vec![offset];
        let mut content = loop {
            let at = chain.last().copied().unwrap_or(offset);
            if let Some(kept) = self.bases.get(&at) {
                let kept = Arc::clone(kept);
                chain.pop();
                break kept;
            }
            match self.forms.get(&at) {
                Some((_, Some(base))) => chain.push(*base),
                Some((_, None)) => {
                    chain.pop();
                    break Arc::new(self.inflate_again(at)?);
                }
                None => return Err(corrupt("has a delta on no entry before it")),
            }
        };
        while let Some(at) = chain.pop() {
            let delta = self.inflate_again(at)?;
            let mut next = Vec::new();
            apply_delta(&content, &delta, WHOLE_BYTES_MAX, &mut next).map_err(corrupt)?;
            content = Arc::new(next);
            self.keep(at, Arc::clone(&content));
        }
        Ok(content)
    }

    fn inflate_again(&self, offset: u64) -> Result<Vec<u8>> {
        let mut head = vec![0; usize::try_from(self.end - offset).unwrap_or(32).min(32)];
        let doing = || String::from("cannot read the pack");
        self.file.read_exact_at(&mut head, offset).doing(doing)?;
        let head = parse_raw_head(&head, self.hash_kind)
            .filter(|head| head.size <= WHOLE_BYTES_MAX)
            .ok_or_else(|| corrupt("has a base that is too large"))?;
        let size = usize::try_from(head.size).unwrap_or(0);
        // A stream is hardly ever longer than what it holds; one that is, is asked for again.
        for room in [size + size / 64 + 1024, size * 2 + (1 << 20)] {
            let at = offset + head.len as u64;
            let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
            let mut stream = vec![0; room.min(left)];
            self.file.read_exact_at(&mut stream, at).doing(doing)?;
            let mut out = vec![0; size];
            let mut inflater = libdeflater::Decompressor::new();
            if inflater.zlib_decompress(&stream, &mut out) == Ok(size) {
                return Ok(out);
            }
        }
        Err(corrupt("has a base that does not inflate"))
    }

    fn keep(&mut self, offset: u64, content: Arc<Vec<u8>>) {
        self.bases_bytes += content.len();
        if let Some(old) = self.bases.put(offset, content) {
            self.bases_bytes = self.bases_bytes.saturating_sub(old.len());
        }
        while self.bases_bytes > BASES_BYTES_MAX {
            let Some((_, old)) = self.bases.pop_lru() else {
                break;
            };
            self.bases_bytes = self.bases_bytes.saturating_sub(old.len());
        }
    }
}
