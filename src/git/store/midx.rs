//! The multi-pack-index (gitformat-pack): one table of ids for many packs.
//!
//! It only makes finding faster. One that does not parse is ignored, and whoever does not find an
//! object through it, or finds wrong bytes, asks each pack's own index: it may lie.

use std::io;
use std::sync::Arc;

use super::super::{HashKind, Oid};
use super::fault::Fault;
use super::files::{Stamp, StoreFile};
use super::pack::{Pack, Shared};
use super::table::{Fanout, IdColumn, Table, find};
use crate::sys::DirFd;

/// The most packs that one is believed to cover.
const PACKS_MAX: u32 = 1 << 20;

/// The most bytes of pack names that are read.
const NAMES_BYTES_MAX: u64 = 64 << 20;

/// Why it cannot be used.
type Damage = &'static str;

/// The parsed file.
#[derive(Debug)]
pub(super) struct Tables {
    table: Table,
    fanout: Fanout,
    ids: IdColumn,
    /// Where the pairs of pack number and offset begin.
    offsets: u64,
    /// Where the 8-byte offsets begin, and how many there are.
    large: (u64, u64),
    /// The packs' stems, in the order of their numbers.
    stems: Vec<Vec<u8>>,
}

/// A multi-pack-index, and which of a list's packs it covers.
#[derive(Debug)]
pub(super) struct Midx {
    tables: Arc<Tables>,
    stamp: Stamp,
    /// For each pack number where in the list the pack is, if it is there.
    numbers: Vec<Option<usize>>,
    /// For each pack of the list whether it is covered.
    covered: Vec<bool>,
}

impl Midx {
    /// Opens the file in `dir` for `packs`, taking over what `old` has read if the file is the
    /// same.
    pub(super) fn open(
        shared: &Shared,
        dir: &Arc<DirFd>,
        packs: &[Arc<Pack>],
        old: Option<&Self>,
    ) -> Option<Self> {
        let file = StoreFile::new(&shared.descriptors, dir, b"multi-pack-index".to_vec());
        let opened = file.stamp().and_then(|stamp| {
            if let Some(old) = old.filter(|old| old.stamp == stamp) {
                return Ok((stamp, Ok(Arc::clone(&old.tables))));
            }
            let table = shared.load_table(file)?;
            Ok((stamp, Tables::open(table, shared.hash_kind)?.map(Arc::new)))
        });
        let (stamp, tables) = match opened {
            Ok((stamp, Ok(tables))) => (stamp, tables),
            Ok((_, Err(why))) => {
                tracing::warn!(why, "multi-pack-index is not usable and ignored");
                return None;
            }
            Err(error) => {
                tracing::warn!(%error, "multi-pack-index cannot be read and is ignored");
                return None;
            }
        };
        let numbers: Vec<_> = tables
            .stems
            .iter()
            .map(|stem| packs.iter().position(|pack| pack.stem == *stem))
            .collect();
        let mut covered = vec![false; packs.len()];
        for number in numbers.iter().flatten() {
            if let Some(is_covered) = covered.get_mut(*number) {
                *is_covered = true;
            }
        }
        Some(Self {
            tables,
            stamp,
            numbers,
            covered,
        })
    }

    /// Returns what tells this file from another.
    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Returns whether the pack at `number` of the list is covered.
    pub(super) fn covers(&self, number: usize) -> bool {
        self.covered.get(number).copied().unwrap_or(false)
    }

    /// Returns the number of a pack in the list and the offset there that it gives for `id`.
    pub(super) fn find(&self, id: &Oid) -> Result<Option<(usize, u64)>, Fault> {
        let found = self
            .tables
            .find(id.as_bytes())
            .map_err(|error| Fault::reading("multi-pack-index", error))?;
        Ok(found.and_then(|(pack, offset)| {
            let number = self.numbers.get(pack as usize).copied().flatten()?;
            Some((number, offset))
        }))
    }
}

impl Tables {
    /// Checks the layout.
    ///
    /// # Errors
    /// What the disk says; inside, why the layout is wrong.
    pub(super) fn open(table: Table, hash_kind: HashKind) -> io::Result<Result<Self, Damage>> {
        let len = table.len()?;
        if len < 12 {
            return Ok(Err("is too short for a multi-pack-index"));
        }
        let mut header = [0; 12];
        table.read(0, &mut header)?;
        let [
            b'M',
            b'I',
            b'D',
            b'X',
            version,
            hash,
            chunk_count,
            _,
            packs @ ..,
        ] = header
        else {
            return Ok(Err("is no multi-pack-index"));
        };
        let id_len = hash_kind.len_in_bytes() as u64;
        if !matches!(version, 1 | 2) || hash != if id_len == 20 { 1 } else { 2 } {
            return Ok(Err("is of an unknown version or of another hash"));
        }
        let pack_count = u32::from_be_bytes(packs);
        let chunk_end = len.saturating_sub(id_len);
        let chunk = |name: [u8; 4]| -> io::Result<Option<(u64, u64)>> {
            for number in 0..u64::from(chunk_count) {
                let at = 12 + number * 12;
                let mut id = [0; 4];
                table.read(at, &mut id)?;
                if id == name {
                    let start = table.read_u64(at + 4)?;
                    let end = table.read_u64(at + 16)?;
                    let is_sound = start <= end && end <= chunk_end;
                    return Ok(is_sound.then(|| (start, end - start)));
                }
            }
            Ok(None)
        };
        let (Some(names), Some(fan), Some(ids), Some(offsets)) = (
            chunk(*b"PNAM")?,
            chunk(*b"OIDF")?,
            chunk(*b"OIDL")?,
            chunk(*b"OOFF")?,
        ) else {
            return Ok(Err("lacks a chunk that it must have"));
        };
        let large = chunk(*b"LOFF")?.unwrap_or((0, 0));
        if fan.1 < 1024 || pack_count > PACKS_MAX || names.1 > NAMES_BYTES_MAX {
            return Ok(Err("has a chunk of the wrong size"));
        }
        let Some(fanout) = table.read_fanout(fan.0)? else {
            return Ok(Err("has a fan-out that falls"));
        };
        let count = u64::from(fanout.total());
        if ids.1 < count * id_len || offsets.1 < count * 8 {
            return Ok(Err("is shorter than its fan-out says"));
        }
        let mut bytes = vec![0; usize::try_from(names.1).unwrap_or(0)];
        table.read(names.0, &mut bytes)?;
        let stems: Vec<Vec<u8>> = bytes
            .split(|b| *b == 0)
            .take(pack_count as usize)
            .map(|name| name.strip_suffix(b".idx").unwrap_or(name).to_vec())
            .collect();
        Ok(Ok(Self {
            table,
            fanout,
            ids: IdColumn {
                at: ids.0,
                stride: id_len,
                id_at: 0,
            },
            offsets: offsets.0,
            large: (large.0, large.1 / 8),
            stems,
        }))
    }

    /// Returns pack number and offset for an id.
    pub(super) fn find(&self, id: &[u8]) -> io::Result<Option<(u32, u64)>> {
        let Some(number) = find(&self.table, &self.fanout, self.ids, id)? else {
            return Ok(None);
        };
        let at = self.offsets + u64::from(number) * 8;
        let pack = self.table.read_u32(at)?;
        let offset = self.table.read_u32(at + 4)?;
        // Without a table of large offsets the high bit is part of the offset.
        if offset & 0x8000_0000 == 0 || self.large.1 == 0 {
            return Ok(Some((pack, u64::from(offset))));
        }
        let number = u64::from(offset & 0x7fff_ffff);
        if number >= self.large.1 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it names a large offset that is not there",
            ));
        }
        let offset = self.table.read_u64(self.large.0 + number * 8)?;
        Ok(Some((pack, offset)))
    }
}
