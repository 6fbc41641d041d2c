//! Pack indexes, version 1 and 2 (gitformat-pack): from an id to an offset in the pack.
//!
//! Nothing in an index is trusted: a wrong offset leads to bytes that do not hash to the id.

use std::io;

use super::table::{Fanout, IdColumn, Table, find};

/// Why an index cannot be used.
pub(super) type Damage = &'static str;

/// An opened pack index.
#[derive(Debug)]
pub(super) struct Idx {
    table: Table,
    fanout: Fanout,
    ids: IdColumn,
    /// Version 2: where the 4-byte offsets begin, where the 8-byte ones, and how many of those.
    offsets: Option<(u64, u64, u64)>,
}

impl Idx {
    /// Checks the layout of an index whose ids have `id_len` bytes.
    ///
    /// # Errors
    /// What the disk says; inside, why the layout is wrong.
    pub(super) fn open(table: Table, id_len: usize) -> io::Result<Result<Self, Damage>> {
        let len = table.len()?;
        let trailer = 2 * id_len as u64;
        if len < 1024 + trailer {
            return Ok(Err("is too short for a pack index"));
        }
        let is_v2 = table.read_u32(0)? == 0xff74_4f63;
        if is_v2 && table.read_u32(4)? != 2 {
            return Ok(Err("is a pack index of an unknown version"));
        }
        let header = if is_v2 { 8 } else { 0 };
        let Some(fanout) = table.read_fanout(header)? else {
            return Ok(Err("has a fan-out that falls"));
        };
        let count = u64::from(fanout.total());
        let at = header + 1024;
        let id_len = id_len as u64;
        let (ids, offsets, end) = if is_v2 {
            let crc = at + count * id_len;
            let small = crc + count * 4;
            let large = small + count * 4;
            let large_count = len.saturating_sub(large + trailer) / 8;
            let ids = IdColumn {
                at,
                stride: id_len,
                id_at: 0,
            };
            (ids, Some((small, large, large_count)), large)
        } else {
            let ids = IdColumn {
                at,
                stride: id_len + 4,
                id_at: 4,
            };
            (ids, None, at + count * (id_len + 4))
        };
        if end + trailer > len {
            return Ok(Err("is shorter than its fan-out says"));
        }
        Ok(Ok(Self {
            table,
            fanout,
            ids,
            offsets,
        }))
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> u32 {
        self.fanout.total()
    }

    /// Returns whether it is held in memory, now or once it is searched often.
    pub(super) fn is_in_memory(&self) -> bool {
        !matches!(self.table, Table::File(_))
    }

    /// Returns how many bytes of memory its table takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.table.memory_bytes()
    }

    /// Returns the offset that the index gives for `id`.
    ///
    /// # Errors
    /// What the disk says; `InvalidData` for a large offset that is not in the table.
    pub(super) fn find(&self, id: &[u8]) -> io::Result<Option<u64>> {
        find(&self.table, &self.fanout, self.ids, id)?
            .map(|number| self.offset(number))
            .transpose()
    }

    /// Returns the offset of record `number`.
    pub(super) fn offset(&self, number: u32) -> io::Result<u64> {
        let Some((small, large, large_count)) = self.offsets else {
            let at = self.ids.at + u64::from(number) * self.ids.stride;
            return self.table.read_u32(at).map(u64::from);
        };
        let offset = self.table.read_u32(small + u64::from(number) * 4)?;
        if offset & 0x8000_0000 == 0 {
            return Ok(u64::from(offset));
        }
        let number = u64::from(offset & 0x7fff_ffff);
        if number >= large_count {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it names a large offset that is not there",
            ));
        }
        self.table.read_u64(large + number * 8)
    }

    /// Returns all offsets in ascending order.
    pub(super) fn sorted_offsets(&self) -> io::Result<Box<[u64]>> {
        if self.table.load().is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut offsets = (0..self.len())
            .map(|number| self.offset(number))
            .collect::<io::Result<Box<[u64]>>>()?;
        offsets.sort_unstable();
        Ok(offsets)
    }
}
