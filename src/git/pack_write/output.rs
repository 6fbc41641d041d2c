//! A pack and its indexes, as git's `gitformat-pack(5)` lays them out: index version 2,
//! reverse index version 1. All that the two indexes hold is known while the pack is
//! written, so nothing is read back.

use std::fs::File;
use std::io::Write;

use super::super::{HashKind, Kind, Oid};
use crate::error::{Error, ErrorKind, IoContext, Result};

/// Bytes gathered before they are written out.
const BUFFER_BYTES: usize = 1 << 20;

/// What an entry begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryHead {
    /// A whole object of this kind.
    Whole(Kind),
    /// A delta whose base is the entry written with this number.
    DeltaOn(u32),
}

/// What was written of one entry; the indexes are made from these.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Written {
    /// The object.
    pub(in crate::git) id: Oid,
    /// Where its entry begins.
    pub(in crate::git) offset: u64,
    /// CRC-32 of the entry, header and stream.
    pub(in crate::git) crc32: u32,
}

/// A pack that is being written into a file.
pub(super) struct PackOutput {
    file: File,
    buffer: Vec<u8>,
    hash_kind: HashKind,
    hasher: gix::hash::Hasher,
    sha256: gix::hash::Hasher,
    at: u64,
    entries: Vec<Written>,
}

/// A finished pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackRecord {
    /// The check sum that names it: `pack-<name>.pack`, `.idx` and `.rev`.
    pub name: Oid,
    /// Number of objects.
    pub objects: u32,
    /// Size of the pack file in bytes.
    pub bytes: u64,
    /// SHA-256 of the pack file, in hex.
    pub sha256: String,
}

impl PackRecord {
    /// Returns the name of one of its files, such as `pack`, `idx` or `rev`.
    #[must_use]
    pub fn file_name(&self, suffix: &str) -> String {
        format!("pack-{}.{suffix}", self.name)
    }
}

impl PackOutput {
    /// Starts a pack of `count` objects in the empty `file`.
    pub(super) fn create(file: File, hash_kind: HashKind, count: u32) -> Result<Self> {
        let mut output = Self {
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 2)),
            hash_kind,
            hasher: gix::hash::hasher(hash_kind),
            sha256: gix::hash::hasher(HashKind::Sha256),
            at: 0,
            entries: Vec::with_capacity(usize::try_from(count).unwrap_or(0)),
        };
        let mut head = *b"PACK\0\0\0\x02\0\0\0\0";
        head[8..].copy_from_slice(&count.to_be_bytes());
        output.put(&head)?;
        Ok(output)
    }

    /// Adds an entry whose zlib stream is `stream` and inflates to `size` bytes.
    pub(super) fn entry(
        &mut self,
        id: &Oid,
        head: EntryHead,
        size: u64,
        stream: &[u8],
    ) -> Result<()> {
        let mut entry = self.begin(id, head, size)?;
        entry.put(stream)?;
        entry.finish();
        Ok(())
    }

    /// Starts an entry whose stream comes in pieces.
    pub(super) fn begin(&mut self, id: &Oid, head: EntryHead, size: u64) -> Result<OpenEntry<'_>> {
        let offset = self.at;
        let bytes = self.head_bytes(head, size, offset)?;
        let mut entry = OpenEntry {
            id: *id,
            offset,
            crc: libdeflater::Crc::new(),
            output: self,
        };
        entry.put(&bytes)?;
        Ok(entry)
    }

    fn head_bytes(&self, head: EntryHead, size: u64, offset: u64) -> Result<Vec<u8>> {
        let kind = match head {
            EntryHead::Whole(Kind::Commit) => 1,
            EntryHead::Whole(Kind::Tree) => 2,
            EntryHead::Whole(Kind::Blob) => 3,
            EntryHead::Whole(Kind::Tag) => 4,
            EntryHead::DeltaOn(_) => 6,
        };
        let mut out = Vec::with_capacity(20);
        let low = |value: u64, mask: u64| u8::try_from(value & mask).unwrap_or(0);
        let mut rest = size >> 4;
        out.push(kind << 4 | low(size, 0x0f) | if rest > 0 { 0x80 } else { 0 });
        while rest > 0 {
            let next = rest >> 7;
            out.push(low(rest, 0x7f) | if next > 0 { 0x80 } else { 0 });
            rest = next;
        }
        if let EntryHead::DeltaOn(number) = head {
            let base = usize::try_from(number)
                .ok()
                .and_then(|at| self.entries.get(at))
                .ok_or_else(|| internal("a delta came before its base"))?;
            // Most significant first, each further byte counting one more than its bits say.
            let mut distance = offset - base.offset;
            let mut bytes = vec![low(distance, 0x7f)];
            while distance >= 0x80 {
                distance = (distance >> 7) - 1;
                bytes.push(0x80 | low(distance, 0x7f));
            }
            out.extend(bytes.into_iter().rev());
        }
        Ok(out)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.hasher.update(&self.buffer);
        self.sha256.update(&self.buffer);
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written.doing(|| String::from("cannot write the pack"))
    }

    /// Writes the trailer and returns the pack's record with the bytes of its two indexes.
    pub(super) fn finish(mut self) -> Result<(PackRecord, PackIndexes)> {
        self.flush()?;
        let name = sum(self.hasher)?;
        self.file
            .write_all(name.as_slice())
            .doing(|| String::from("cannot write the pack"))?;
        self.sha256.update(name.as_slice());
        let record = PackRecord {
            name,
            objects: u32::try_from(self.entries.len()).map_err(|_| internal("too many objects"))?,
            bytes: self.at + name.as_slice().len() as u64,
            sha256: sum(self.sha256)?.to_string(),
        };
        let indexes = indexes_of(&self.entries, &name, self.hash_kind)?;
        Ok((record, indexes))
    }
}

/// The files beside a pack.
#[derive(Debug)]
pub struct PackIndexes {
    /// The index, version 2.
    pub idx: Vec<u8>,
    /// The reverse index, version 1.
    pub rev: Vec<u8>,
}

/// Returns the indexes of the pack `name` whose entries, in their order, are `entries`.
pub(in crate::git) fn indexes_of(
    entries: &[Written],
    name: &Oid,
    hash_kind: HashKind,
) -> Result<PackIndexes> {
    let count = u32::try_from(entries.len()).map_err(|_| internal("too many objects"))?;
    let of = |number: u32| usize::try_from(number).ok().and_then(|n| entries.get(n));
    let mut by_id: Vec<u32> = (0..count).collect();
    by_id.sort_unstable_by_key(|number| of(*number).map(|entry| entry.id));
    let in_order: Vec<Written> = by_id.iter().filter_map(|n| of(*n)).copied().collect();
    Ok(PackIndexes {
        idx: idx_bytes(&in_order, name, hash_kind)?,
        rev: rev_bytes(&by_id, name, hash_kind)?,
    })
}

/// One entry while its stream comes in.
pub(super) struct OpenEntry<'o> {
    id: Oid,
    offset: u64,
    crc: libdeflater::Crc,
    output: &'o mut PackOutput,
}

impl OpenEntry<'_> {
    /// Adds bytes of the zlib stream.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        self.output.put(bytes)
    }

    /// Ends the entry.
    pub(super) fn finish(self) {
        self.output.entries.push(Written {
            id: self.id,
            offset: self.offset,
            crc32: self.crc.sum(),
        });
    }
}

fn internal(why: &str) -> Error {
    Error::new(ErrorKind::Internal, "internal", why)
}

fn sum(hasher: gix::hash::Hasher) -> Result<Oid> {
    hasher.try_finalize().map_err(|_| {
        Error::new(
            ErrorKind::Corrupt,
            "collision",
            "the pack carries a SHA-1 collision attack",
        )
    })
}

fn with_sum(mut out: Vec<u8>, hash_kind: HashKind) -> Result<Vec<u8>> {
    let mut hasher = gix::hash::hasher(hash_kind);
    hasher.update(&out);
    out.extend_from_slice(sum(hasher)?.as_slice());
    Ok(out)
}

/// Index version 2: fan-out, ids, CRCs, offsets of 31 bits, the larger ones in a table of their
/// own.
fn idx_bytes(in_order: &[Written], pack: &Oid, hash_kind: HashKind) -> Result<Vec<u8>> {
    let id_len = hash_kind.len_in_bytes();
    let mut out = Vec::with_capacity(1100 + in_order.len() * (id_len + 8));
    out.extend_from_slice(b"\xfftOc\0\0\0\x02");
    let mut counts = [0_u32; 256];
    for entry in in_order {
        counts[usize::from(entry.id.first_byte())] += 1;
    }
    let mut total = 0_u32;
    for count in counts {
        total += count;
        out.extend_from_slice(&total.to_be_bytes());
    }
    for entry in in_order {
        out.extend_from_slice(entry.id.as_slice());
    }
    for entry in in_order {
        out.extend_from_slice(&entry.crc32.to_be_bytes());
    }
    let mut large = Vec::new();
    for entry in in_order {
        let small = u32::try_from(entry.offset)
            .ok()
            .filter(|offset| *offset < 1 << 31);
        let field = small.unwrap_or_else(|| {
            large.push(entry.offset);
            (1 << 31) | u32::try_from(large.len() - 1).unwrap_or(0)
        });
        out.extend_from_slice(&field.to_be_bytes());
    }
    for offset in large {
        out.extend_from_slice(&offset.to_be_bytes());
    }
    out.extend_from_slice(pack.as_slice());
    with_sum(out, hash_kind)
}

/// Reverse index version 1: for each entry in pack order its place in the index.
fn rev_bytes(by_id: &[u32], pack: &Oid, hash_kind: HashKind) -> Result<Vec<u8>> {
    let hash_number: u32 = match hash_kind {
        HashKind::Sha256 => 2,
        _ => 1,
    };
    let mut place = vec![0_u32; by_id.len()];
    for (at, number) in (0_u32..).zip(by_id) {
        if let Some(slot) = usize::try_from(*number).ok().and_then(|n| place.get_mut(n)) {
            *slot = at;
        }
    }
    let mut out = Vec::with_capacity(64 + place.len() * 4);
    out.extend_from_slice(b"RIDX\0\0\0\x01");
    out.extend_from_slice(&hash_number.to_be_bytes());
    for at in place {
        out.extend_from_slice(&at.to_be_bytes());
    }
    out.extend_from_slice(pack.as_slice());
    with_sum(out, hash_kind)
}
