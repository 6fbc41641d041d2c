//! The store's parsers by bytes alone, for [`crate::git::parse`].

use super::super::{HashKind, Oid};
use super::idx::Idx;
use super::midx::Tables;
use super::table::Table;
use super::{alternates, delta, entry, loose};

/// Parses the header of a pack entry.
pub(in crate::git) fn pack_entry(bytes: &[u8], hash_kind: HashKind) {
    if let Ok(header) = entry::parse_header(bytes, hash_kind) {
        assert!(header.len <= entry::HEADER_BYTES_MAX && header.len <= bytes.len());
    }
}

/// Applies the second half of the bytes to the first.
pub(in crate::git) fn delta(bytes: &[u8]) {
    let (base, delta) = bytes.split_at(bytes.len() / 2);
    let sizes = delta::check(delta, base.len());
    // A result is made only if its size was checked to come from the delta's instructions.
    if sizes.is_ok_and(|sizes| sizes.result < 1 << 20) {
        let mut made = Vec::new();
        assert!(delta::apply(base, delta, &mut made).is_ok());
        assert_eq!(
            Some(made.len() as u64),
            sizes.ok().map(|sizes| sizes.result)
        );
    }
}

fn open_idx(bytes: &[u8], hash_kind: HashKind) -> Option<Idx> {
    Idx::open(Table::Memory(bytes.into()), hash_kind.len_in_bytes())
        .ok()?
        .ok()
}

/// Opens an index and asks it.
pub(in crate::git) fn idx(bytes: &[u8], hash_kind: HashKind) {
    if let Some(idx) = open_idx(bytes, hash_kind) {
        assert!(u64::from(idx.len()) * 24 <= bytes.len() as u64);
        for id in ids(bytes, hash_kind) {
            let _ = idx.find(id.as_bytes());
        }
        let _ = idx.sorted_offsets();
    }
}

/// Opens a multi-pack-index and asks it.
pub(in crate::git) fn midx(bytes: &[u8], hash_kind: HashKind) {
    if let Ok(Ok(tables)) = Tables::open(Table::Memory(bytes.into()), hash_kind) {
        for id in ids(bytes, hash_kind) {
            let _ = tables.find(id.as_bytes());
        }
    }
}

/// Ids to ask for: some that are not there, and some from the bytes themselves.
fn ids(bytes: &[u8], hash_kind: HashKind) -> Vec<Oid> {
    let len = hash_kind.len_in_bytes();
    let windows = bytes.windows(len).rev().step_by(7).take(64);
    windows
        .filter_map(|id| Oid::try_from(id).ok())
        .chain([Oid::null(hash_kind), Oid::empty_blob(hash_kind)])
        .collect()
}

/// Parses the header of a loose object.
pub(in crate::git) fn loose_header(bytes: &[u8]) {
    if let Ok(header) = loose::parse_header(bytes) {
        assert!(header.len <= bytes.len());
    }
}

/// Parses an alternates file.
pub(in crate::git) fn alternates(bytes: &[u8]) {
    let total: usize = alternates::parse(bytes).iter().map(Vec::len).sum();
    assert!(total <= bytes.len());
}

/// Returns whether an index of SHA-1 ids gives this offset for an id.
#[cfg(test)]
pub(in crate::git) fn idx_finds(bytes: &[u8], id: &[u8], offset: u64) -> bool {
    open_idx(bytes, HashKind::Sha1)
        .is_some_and(|idx| matches!(idx.find(id), Ok(Some(found)) if found == offset || found == 1))
}

/// Returns whether a multi-pack-index of SHA-1 ids gives this offset for an id.
#[cfg(test)]
pub(in crate::git) fn midx_finds(bytes: &[u8], id: &[u8], offset: u64) -> bool {
    let Ok(Ok(tables)) = Tables::open(Table::Memory(bytes.into()), HashKind::Sha1) else {
        return false;
    };
    matches!(tables.find(id), Ok(Some((0, found))) if found == offset || found == 1)
}
