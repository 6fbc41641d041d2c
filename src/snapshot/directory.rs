//! One loaded directory: its entries in git's order, packed so that a visited entry costs 36 bytes
//! besides its name (16 here, 20 for a SHA-1 id), and the search by name.

use std::sync::atomic::{AtomicU32, Ordering};

use super::inode::{Ino, child_ino};
use crate::error::{Error, ErrorKind, Result};
use crate::git::{EntryKind, HashKind, Oid, Strictness, check_tree, compare_names, entries};

/// The entries of one directory, verified and complete; it never changes.
#[derive(Debug)]
pub struct Directory {
    ino: Ino,
    parent_ino: Ino,
    pub(super) parent: Position,
    entries: Box<[Entry]>,
    /// The ids of all entries, then their names.
    bytes: Box<[u8]>,
    id_len: usize,
}

/// Where an entry stands: the number of its directory in the table, and its index in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) directory: u32,
    pub(super) index: u32,
}

/// The root stands nowhere.
pub(super) const NOWHERE: Position = Position {
    directory: u32::MAX,
    index: u32::MAX,
};

#[derive(Debug)]
struct Entry {
    ino: u64,
    /// What is learnt later: a blob's size, a subdirectory's number in the table.
    learnt: AtomicU32,
    /// Kind in the upper three bits, start of the name in the others.
    kind_and_name: u32,
}

/// Nothing learnt yet.
pub(super) const UNKNOWN: u32 = u32::MAX;
/// A size that does not fit; it stands in a side table.
pub(super) const LARGE: u32 = u32::MAX - 1;

const KIND_SHIFT: u32 = 29;
const NAME_MASK: u32 = (1 << KIND_SHIFT) - 1;

const KINDS: [EntryKind; 5] = [
    EntryKind::Directory,
    EntryKind::File { executable: false },
    EntryKind::File { executable: true },
    EntryKind::Symlink,
    EntryKind::Submodule,
];

/// One entry, borrowed from its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The inode number.
    pub ino: Ino,
    /// The name, raw bytes.
    pub name: &'a [u8],
    /// What it is.
    pub kind: EntryKind,
}

impl Directory {
    /// Packs the tree whose content is `tree`, after checking it by the rules of R10.
    ///
    /// # Errors
    /// `bad-tree`; `directory-too-large` where names add up to 512 MiB or more.
    pub(super) fn build(
        ino: Ino,
        parent_ino: Ino,
        parent: Position,
        tree: &[u8],
        hash_kind: HashKind,
    ) -> Result<Self> {
        let count = check_tree(tree, hash_kind, Strictness::Serve)?.entries as usize;
        let id_len = hash_kind.len_in_bytes();
        let mut packed = Vec::with_capacity(count);
        let mut bytes = Vec::with_capacity(tree.len().saturating_sub(count * 7));
        for entry in entries(tree, hash_kind) {
            bytes.extend_from_slice(entry?.id.as_slice());
        }
        for entry in entries(tree, hash_kind) {
            let entry = entry?;
            let start = u32::try_from(bytes.len()).ok();
            let start = start.filter(|start| *start <= NAME_MASK).ok_or_else(|| {
                Error::new(
                    ErrorKind::Corrupt,
                    "directory-too-large",
                    "the names and ids of one directory exceed 512 MiB",
                )
            })?;
            let kind = KINDS.iter().zip(0_u32..).find(|(k, _)| **k == entry.kind());
            let kind = kind.map(|(_, code)| code).expect("KINDS lists every kind");
            packed.push(Entry {
                ino: child_ino(ino, entry.name).0,
                learnt: AtomicU32::new(UNKNOWN),
                kind_and_name: kind << KIND_SHIFT | start,
            });
            bytes.extend_from_slice(entry.name);
        }
        Ok(Self {
            ino,
            parent_ino,
            parent,
            entries: packed.into_boxed_slice(),
            bytes: bytes.into_boxed_slice(),
            id_len,
        })
    }

    /// Returns the inode number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns the inode number of the directory above; the root is its own.
    #[must_use]
    pub fn parent_ino(&self) -> Ino {
        self.parent_ino
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry at `index` of git's order, which is the same for ever: the cookie of a
    /// listing (R21).
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<DirectoryEntry<'_>> {
        let entry = self.entries.get(index)?;
        Some(DirectoryEntry {
            ino: Ino(entry.ino),
            name: self.name(index)?,
            kind: entry.kind(),
        })
    }

    /// Returns the index of `name`.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        // A name sorts in one of two places: as a file, or as a directory, as if it ended in `/`.
        [false, true].into_iter().find_map(|as_tree| {
            let (mut low, mut high) = (0, self.entries.len());
            while low < high {
                let middle = low + (high - low) / 2;
                let entry = self.entries.get(middle)?;
                let is_tree = entry.kind() == EntryKind::Directory;
                match compare_names(self.name(middle)?, is_tree, name, as_tree) {
                    std::cmp::Ordering::Less => low = middle + 1,
                    std::cmp::Ordering::Greater => high = middle,
                    std::cmp::Ordering::Equal => {
                        // `b/` asked for as a file compares equal to a directory `b`.
                        return (self.name(middle)? == name).then_some(middle);
                    }
                }
            }
            None
        })
    }

    /// Returns the object id of the entry at `index`.
    pub(super) fn id(&self, index: usize) -> Option<Oid> {
        (index < self.entries.len()).then_some(())?;
        let start = index.checked_mul(self.id_len)?;
        let raw = self.bytes.get(start..start.checked_add(self.id_len)?)?;
        Oid::try_from(raw).ok()
    }

    pub(super) fn raw_ino(&self, index: usize) -> Option<u64> {
        self.entries.get(index).map(|entry| entry.ino)
    }

    /// Returns what was learnt of the entry at `index`: [`UNKNOWN`], [`LARGE`], or the value.
    pub(super) fn learnt(&self, index: usize) -> u32 {
        self.entries
            .get(index)
            .map_or(UNKNOWN, |entry| entry.learnt.load(Ordering::Acquire))
    }

    pub(super) fn learn(&self, index: usize, value: u32) {
        if let Some(entry) = self.entries.get(index) {
            entry.learnt.store(value, Ordering::Release);
        }
    }

    fn name(&self, index: usize) -> Option<&[u8]> {
        let start = self.entries.get(index)?.name_start();
        let end = index.checked_add(1).and_then(|next| self.entries.get(next));
        let end = end.map_or(self.bytes.len(), Entry::name_start);
        self.bytes.get(start..end)
    }
}

impl Entry {
    fn kind(&self) -> EntryKind {
        let code = (self.kind_and_name >> KIND_SHIFT) as usize;
        KINDS.get(code).copied().unwrap_or(EntryKind::Submodule)
    }

    fn name_start(&self) -> usize {
        (self.kind_and_name & NAME_MASK) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::encode_tree;

    fn build(list: &[(&str, &str)]) -> Result<Directory> {
        let id = Oid::empty_blob(HashKind::Sha1);
        let list = list.iter().map(|(m, n)| (m.as_bytes(), n.as_bytes(), &id));
        let tree = encode_tree(list);
        Directory::build(Ino::ROOT, Ino::ROOT, NOWHERE, &tree, HashKind::Sha1)
    }

    #[test]
    fn every_name_is_found_where_directories_sort_as_if_they_ended_in_a_slash() {
        let list = [
            ("100644", "a"),
            ("100644", "a-b"),
            ("100755", "a.b"),
            ("40000", "a.b.c"),
            ("120000", "a0"),
            ("40000", "b"),
            ("160000", "b.x"),
        ];
        let mut list = list.to_vec();
        list.sort_by(|a, b| {
            let tree = |mode| mode == "40000";
            compare_names(a.1.as_bytes(), tree(a.0), b.1.as_bytes(), tree(b.0))
        });
        let directory = build(&list).unwrap();
        assert_eq!(directory.len(), list.len());
        for (index, (mode, name)) in list.iter().enumerate() {
            assert_eq!(directory.find(name.as_bytes()), Some(index), "{name}");
            let entry = directory.entry(index).unwrap();
            assert_eq!(entry.name, name.as_bytes());
            assert_eq!(entry.ino, child_ino(Ino::ROOT, name.as_bytes()));
            let mode = u32::from_str_radix(mode, 8).unwrap();
            assert_eq!(entry.kind, EntryKind::from_mode(mode));
            assert_eq!(directory.id(index), Some(Oid::empty_blob(HashKind::Sha1)));
        }
        for absent in ["", "a.", "a.b.", "A", "b/", "zz"] {
            assert_eq!(directory.find(absent.as_bytes()), None, "{absent}");
        }
        assert_eq!(directory.entry(list.len()), None);
        assert_eq!(directory.id(list.len()), None);
    }

    #[test]
    fn r10_a_bad_tree_shows_nothing_at_all() {
        assert!(build(&[("100644", "a"), ("100644", ".git")]).is_err());
        assert!(build(&[("100644", "b"), ("100644", "a")]).is_err());
        assert!(build(&[]).unwrap().is_empty());
    }

    #[test]
    fn an_entry_costs_sixteen_bytes_besides_id_and_name() {
        assert_eq!(size_of::<Entry>(), 16);
    }
}
