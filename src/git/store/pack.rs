//! One pack and its index: from an id to an entry, and the entry's header and compressed bytes.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::super::{HashKind, Oid};
use super::entry::{EntryHeader, EntryType, HEADER_BYTES_MAX, parse_header};
use super::fault::Fault;
use super::files::{Descriptors, StoreFile, read_exact_at};
use super::idx::Idx;
use super::inflate::{Arena, WHOLE_BYTES_MAX, compressed_bound, is_plausible};
use super::table::Table;
use crate::sys::DirFd;

/// Bytes of `PACK`, version and count in front of the first entry.
const PACK_HEADER_BYTES: u64 = 12;

/// Bytes read where the length of an entry is not known.
const FIRST_READ_BYTES: u64 = 4 << 10;

/// After this many entries the offsets are worth sorting: it tells where each entry ends.
const READS_BEFORE_SORTING: u32 = 32;

/// What all packs of a store have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// The hash of the ids.
    pub(super) hash_kind: HashKind,
    /// The open files.
    pub(super) descriptors: Arc<Descriptors>,
    /// Bytes of index tables that are in memory.
    pub(super) table_bytes: AtomicU64,
    /// How many of them may be.
    pub(super) table_bytes_max: u64,
    /// The number for the next pack.
    pub(super) next_ordinal: AtomicU32,
}

impl Shared {
    /// Makes a table that is held in memory while the budget lasts, else left on disk.
    pub(super) fn load_table(&self, file: StoreFile) -> io::Result<Table> {
        let len = file.len()?;
        let before = self.table_bytes.fetch_add(len, Ordering::Relaxed);
        let whole = usize::try_from(len)
            .ok()
            .filter(|_| before.saturating_add(len) <= self.table_bytes_max);
        let Some(whole) = whole else {
            self.table_bytes.fetch_sub(len, Ordering::Relaxed);
            return Ok(Table::File(file));
        };
        Table::in_memory(file, whole).inspect_err(|_| {
            self.table_bytes.fetch_sub(len, Ordering::Relaxed);
        })
    }
}

/// A pack. Nothing is opened before it is asked for.
#[derive(Debug)]
pub(super) struct Pack {
    /// Tells packs apart within a store, for as long as the store lives.
    pub(super) ordinal: u32,
    /// The name without `.pack`.
    pub(super) stem: Vec<u8>,
    /// Whether an object in it could not be read: the next rescan looks at the files again.
    is_suspect: AtomicBool,
    shared: Arc<Shared>,
    dir: Arc<DirFd>,
    file: StoreFile,
    idx_file: StoreFile,
    idx: OnceLock<Result<Idx, &'static str>>,
    offsets: OnceLock<Option<Box<[u64]>>>,
    reads: AtomicU32,
}

/// An entry of a pack as far as its header tells.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The header.
    pub(super) header: EntryHeader,
    /// From where its compressed bytes begin to where the last entry of the pack ends.
    pub(super) data: Range<u64>,
    /// Where they are in the arena, if they were read along.
    pub(super) input: Range<usize>,
    /// Whether the next entry is known to be a delta on this one. Git writes a base in front of its
    /// deltas, so a base that is kept now is likely asked for next.
    pub(super) is_base_of_next: bool,
}

/// How much of an entry is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The header and this many bytes behind it.
    Header(usize),
    /// All of it, unless it is so long that it is to be streamed.
    Whole,
}

impl Pack {
    /// Names a pack of `dir`.
    pub(super) fn new(shared: &Arc<Shared>, dir: &Arc<DirFd>, stem: &[u8]) -> Self {
        let file =
            |suffix: &[u8]| StoreFile::new(&shared.descriptors, dir, [stem, suffix].concat());
        Self {
            ordinal: shared.next_ordinal.fetch_add(1, Ordering::Relaxed),
            stem: stem.to_vec(),
            is_suspect: AtomicBool::new(false),
            shared: Arc::clone(shared),
            dir: Arc::clone(dir),
            file: file(b".pack"),
            idx_file: file(b".idx"),
            idx: OnceLock::new(),
            offsets: OnceLock::new(),
            reads: AtomicU32::new(0),
        }
    }

    /// Returns the pack's file name for messages.
    pub(super) fn name(&self) -> String {
        self.file.name()
    }

    /// Returns the index, opened now if it was not.
    fn idx(&self) -> io::Result<&Result<Idx, &'static str>> {
        if let Some(idx) = self.idx.get() {
            return Ok(idx);
        }
        let name = [&self.stem[..], b".idx"].concat();
        let file = StoreFile::new(&self.shared.descriptors, &self.dir, name);
        // The pack is opened with its index, so that both are of one moment and stay readable
        // when git deletes them.
        self.idx_file.len()?;
        self.idx_file.close();
        let table = self.shared.load_table(file)?;
        let idx = Idx::open(table, self.shared.hash_kind.len_in_bytes())?;
        if let Err(why) = &idx {
            tracing::warn!(idx = self.idx_file.name(), why, "pack index is not usable");
        }
        let _ = self.file.open();
        Ok(self.idx.get_or_init(|| idx))
    }

    /// Returns the offset of `id`, if the index has it.
    ///
    /// # Errors
    /// Where the index cannot be read or is no index.
    pub(super) fn find(&self, id: &Oid) -> Result<Option<u64>, Fault> {
        let reading = |error| Fault::reading(self.idx_file.name(), error);
        match self.idx().map_err(reading)? {
            Ok(idx) => idx.find(id.as_bytes()).map_err(reading),
            Err(why) => Err(Fault::Corrupt(format!(
                "may be in {}, which {why}",
                self.idx_file.name()
            ))),
        }
    }

    /// Returns whether the pack or its index is open.
    pub(super) fn is_open(&self) -> bool {
        self.file.is_open()
    }

    /// Returns whether something in it could not be read since the last rescan.
    pub(super) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Relaxed)
    }

    /// Notes or forgets that something in it could not be read.
    pub(super) fn set_suspect(&self, is_suspect: bool) {
        self.is_suspect.store(is_suspect, Ordering::Relaxed);
    }

    /// Returns whether the disk has another pack or index under the same name, or none.
    pub(super) fn is_replaced(&self) -> bool {
        self.file.is_replaced() || self.idx_file.is_replaced()
    }

    /// Returns where the entry at `offset` ends, if the offsets are sorted.
    fn end_of(&self, offset: u64) -> Option<u64> {
        if self.reads.load(Ordering::Relaxed) < READS_BEFORE_SORTING {
            self.reads.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let offsets = self.sorted_offsets()?;
        let next = offsets.partition_point(|known| *known <= offset);
        offsets.get(next).copied()
    }

    /// Returns all offsets in their order, sorted now if they were not; `None` where the index is
    /// not in memory.
    fn sorted_offsets(&self) -> Option<&[u64]> {
        let offsets = self.offsets.get_or_init(|| match self.idx.get() {
            Some(Ok(idx)) if idx.is_in_memory() => idx.sorted_offsets().ok(),
            _ => None,
        });
        offsets.as_deref()
    }

    /// Puts the zlib stream of the entry at `offset` into `stream`: all bytes between its header
    /// and the next entry. Returns the header and, for a delta by offset, the offset of the base.
    /// `None` where any of it cannot be told or read, or is longer than `bytes_max`.
    pub(super) fn raw(
        &self,
        offset: u64,
        bytes_max: u64,
        stream: &mut Vec<u8>,
    ) -> Option<(EntryHeader, Option<u64>)> {
        let trailer = self.shared.hash_kind.len_in_bytes() as u64;
        let pack_end = self.file.len().ok()?.checked_sub(trailer)?;
        let offsets = self.sorted_offsets()?;
        let next = offsets.partition_point(|known| *known <= offset);
        let end = offsets.get(next).copied().unwrap_or(pack_end).min(pack_end);
        let len = end.checked_sub(offset).filter(|len| *len <= bytes_max)?;
        stream.clear();
        stream.resize(usize::try_from(len).ok()?, 0);
        read_exact_at(&*self.file.open().ok()?, stream, offset).ok()?;
        let header = parse_header(stream, self.shared.hash_kind).ok()?;
        stream.drain(..header.len.min(stream.len()));
        let base = match header.entry_type {
            EntryType::OffsetDelta(distance) => Some(offset.checked_sub(distance)?),
            EntryType::Whole(_) | EntryType::RefDelta(_) => None,
        };
        Some((header, base))
    }

    /// Reads the entry at `offset`: its header, and its bytes into `arena` as far as asked.
    ///
    /// # Errors
    /// Where the offset is not in the pack, the header does not parse, or the size it claims cannot
    /// come out of the bytes that are there.
    pub(super) fn entry(
        &self,
        offset: u64,
        extent: Extent,
        arena: &mut Arena,
    ) -> Result<Entry, Fault> {
        let reading = |error| Fault::reading(self.name(), error);
        let trailer = self.shared.hash_kind.len_in_bytes() as u64;
        let pack_end = self.file.len().map_err(reading)?.saturating_sub(trailer);
        if offset < PACK_HEADER_BYTES || offset >= pack_end {
            return Err(self.damage(offset, "lies outside the pack"));
        }
        let known_end = match extent {
            Extent::Whole => self.end_of(offset).filter(|end| *end <= pack_end),
            Extent::Header(_) => None,
        };
        let end = known_end.unwrap_or(pack_end);
        let first = match extent {
            Extent::Header(extra) => (HEADER_BYTES_MAX + extra) as u64,
            Extent::Whole if known_end.is_some() && end - offset <= WHOLE_BYTES_MAX => {
                end - offset + HEADER_BYTES_MAX as u64
            }
            Extent::Whole => FIRST_READ_BYTES,
        };
        let file = self.file.open().map_err(reading)?;
        let first = to_usize(first.min(pack_end - offset));
        let read = arena.read(&file, offset, first).map_err(reading)?;
        let header = parse_header(arena.get(read.clone()), self.shared.hash_kind)
            .map_err(|why| self.damage(offset, why))?;
        let is_base_of_next = known_end.is_some_and(|end| {
            let after = read.start + to_usize(end - offset);
            let next = arena.get(after.min(read.end)..read.end);
            matches!(
                parse_header(next, self.shared.hash_kind).map(|next| next.entry_type),
                Ok(EntryType::OffsetDelta(distance)) if end.checked_sub(distance) == Some(offset)
            )
        });
        let data = offset + header.len as u64..pack_end;
        if !is_plausible(header.size, end.saturating_sub(data.start)) {
            return Err(self.damage(offset, "claims a size that its bytes cannot hold"));
        }
        let mut input = read.start + header.len..read.end;
        if extent == Extent::Whole && header.size <= WHOLE_BYTES_MAX && known_end.is_none() {
            let wanted = compressed_bound(header.size).min(data.end.saturating_sub(data.start));
            let missing = to_usize(wanted).saturating_sub(input.len());
            if missing > 0 && read.len() == first {
                let more = arena
                    .read(&file, offset + read.len() as u64, missing)
                    .map_err(reading)?;
                input.end = more.end;
            }
        }
        Ok(Entry {
            header,
            data,
            input,
            is_base_of_next,
        })
    }

    /// Returns the open file, for streaming.
    pub(super) fn open(&self) -> Result<Arc<std::fs::File>, Fault> {
        self.file
            .open()
            .map_err(|error| Fault::reading(self.name(), error))
    }

    /// Returns the fault for an entry that is wrong.
    pub(super) fn damage(&self, offset: u64, why: impl std::fmt::Display) -> Fault {
        Fault::Corrupt(format!("in {} at offset {offset} {why}", self.name()))
    }
}

fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

impl Drop for Pack {
    fn drop(&mut self) {
        if let Some(Ok(idx)) = self.idx.get() {
            self.shared
                .table_bytes
                .fetch_sub(idx.memory_bytes(), Ordering::Relaxed);
        }
    }
}
