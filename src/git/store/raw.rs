//! Entries of packs as they lie there, for another pack to hold the same bytes. Nothing is verified
//! here: who takes an entry over inflates, resolves and hashes it.

use std::sync::Arc;

use super::super::source::{RawBase, RawEntry};
use super::super::{HashKind, Kind, Oid};
use super::Store;
use super::objects_dir::Search;
use super::pack::Pack;

/// Entries longer than this are not given out whole, bytes.
const ENTRY_BYTES_MAX: u64 = 32 << 20;

impl Store {
    /// Returns the first packed copy of an object, the one that its place is of.
    pub(super) fn first_packed(&self, id: &Oid) -> Option<(Arc<Pack>, u64)> {
        let mut found = None;
        for dir in &self.dirs {
            dir.visit_packed(id, Search::Fast, &mut |_| {}, &mut |pack, offset| {
                found = Some((Arc::clone(pack), offset));
                true
            });
            if found.is_some() {
                break;
            }
        }
        found
    }

    /// Puts the zlib stream of the first packed copy of `id` into `stream`.
    pub(super) fn raw(&self, id: &Oid, stream: &mut Vec<u8>) -> Option<RawEntry> {
        let (pack, offset) = self.first_packed(id)?;
        let (header, base_offset) = pack.raw(offset, ENTRY_BYTES_MAX, stream)?;
        let base = match header.entry_type {
            super::entry::EntryType::Whole(_) => None,
            super::entry::EntryType::OffsetDelta(_) => {
                Some(RawBase::Place(place_of(&pack, base_offset?)))
            }
            super::entry::EntryType::RefDelta(base) => Some(RawBase::Id(base)),
        };
        Some(RawEntry {
            size: header.size,
            base,
        })
    }
}

/// Returns the number that stands for a place: packs one after the other, offsets within them.
pub(super) fn place_of(pack: &Pack, offset: u64) -> u64 {
    u64::from(pack.ordinal) << 40 | offset.min((1 << 40) - 1)
}

/// Applies a delta to its base, appending to `out`, if the result has at most `bytes_max` bytes.
///
/// # Errors
/// What is wrong with the delta.
pub(in crate::git) fn apply_delta(
    base: &[u8],
    delta: &[u8],
    bytes_max: u64,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    if super::delta::sizes(delta)?.result > bytes_max {
        return Err("is a delta with a result too large");
    }
    super::delta::apply(base, delta, out)
}

/// The header of an entry in a pack whose deltas name their bases by distance.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct RawHead {
    /// Bytes of the header.
    pub(in crate::git) len: usize,
    /// Bytes that the stream inflates to.
    pub(in crate::git) size: u64,
    /// What it is.
    pub(in crate::git) form: RawForm,
}

/// What such an entry is.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) enum RawForm {
    /// A whole object.
    Whole(Kind),
    /// A delta on the entry that begins this many bytes before it.
    DeltaBack(u64),
}

/// Parses such a header; `None` for anything else, deltas by id among it.
pub(in crate::git) fn parse_raw_head(bytes: &[u8], hash_kind: HashKind) -> Option<RawHead> {
    let header = super::entry::parse_header(bytes, hash_kind).ok()?;
    let form = match header.entry_type {
        super::entry::EntryType::Whole(kind) => RawForm::Whole(kind),
        super::entry::EntryType::OffsetDelta(distance) if distance > 0 => {
            RawForm::DeltaBack(distance)
        }
        _ => return None,
    };
    Some(RawHead {
        len: header.len,
        size: header.size,
        form,
    })
}
