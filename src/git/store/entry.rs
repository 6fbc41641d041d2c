//! The header of a pack entry (gitformat-pack): type, size, and for deltas where the base is.

use super::super::{HashKind, Kind, Oid};

/// The most bytes that a header can have: 10 of size, then 10 of distance or 32 of base id.
pub(super) const HEADER_BYTES_MAX: usize = 42;

/// What a pack entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryType {
    /// A whole object.
    Whole(Kind),
    /// A delta whose base begins this many bytes before the entry.
    OffsetDelta(u64),
    /// A delta on the object with this id.
    RefDelta(Oid),
}

/// A parsed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryHeader {
    /// What it is.
    pub(super) entry_type: EntryType,
    /// Bytes that the entry inflates to: of the content, or of the delta.
    pub(super) size: u64,
    /// Bytes of the header itself.
    pub(super) len: usize,
}

/// Parses the header at the start of `bytes`.
///
/// # Errors
/// A clause that says what is wrong.
pub(super) fn parse_header(bytes: &[u8], hash_kind: HashKind) -> Result<EntryHeader, &'static str> {
    let mut at = 0;
    let mut next = || -> Result<u8, &'static str> {
        let byte = *bytes.get(at).ok_or("ends within its header")?;
        at += 1;
        Ok(byte)
    };
    let mut byte = next()?;
    let type_bits = (byte >> 4) & 7;
    let mut size = u64::from(byte & 0x0f);
    let mut shift = 4_u32;
    while byte & 0x80 != 0 {
        byte = next()?;
        let bits = u64::from(byte & 0x7f);
        if shift > 60 || (bits << shift) >> shift != bits {
            return Err("has a size that does not fit 64 bits");
        }
        size |= bits << shift;
        shift += 7;
    }
    let entry_type = match type_bits {
        1 => EntryType::Whole(Kind::Commit),
        2 => EntryType::Whole(Kind::Tree),
        3 => EntryType::Whole(Kind::Blob),
        4 => EntryType::Whole(Kind::Tag),
        6 => {
            byte = next()?;
            let mut distance = u64::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                byte = next()?;
                distance = distance
                    .checked_add(1)
                    .filter(|n| *n < 1 << 57)
                    .ok_or("has a delta base that is too far away")?
                    << 7
                    | u64::from(byte & 0x7f);
            }
            EntryType::OffsetDelta(distance)
        }
        7 => {
            let id = bytes
                .get(at..at + hash_kind.len_in_bytes())
                .and_then(|id| Oid::try_from(id).ok())
                .ok_or("ends within its header")?;
            at += hash_kind.len_in_bytes();
            EntryType::RefDelta(id)
        }
        _ => return Err("has a type that does not exist"),
    };
    Ok(EntryHeader {
        entry_type,
        size,
        len: at,
    })
}
