//! Tree objects: parsing raw bytes without copying, and encoding (git's `tree` format: octal mode,
//! space, name, NUL, raw id; sorted as if directory names ended in `/`).

use std::cmp::Ordering;

use super::{HashKind, Oid};
use crate::error::{Error, ErrorKind, Result};

/// What an entry is, as git checks it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A subtree.
    Directory,
    /// A blob shown as a regular file.
    File {
        /// Whether the owner may execute it: the only mode bit that git knows.
        executable: bool,
    },
    /// A blob whose bytes are a link target.
    Symlink,
    /// A gitlink: the commit of a submodule, shown as an empty directory (R25).
    Submodule,
}

impl EntryKind {
    /// Returns the kind for a raw mode, by git's own rule: any type but file, link and directory is
    /// a gitlink, and of a file's permissions only the owner's x counts.
    #[must_use]
    pub fn from_mode(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o040_000 => Self::Directory,
            0o100_000 => Self::File {
                executable: mode & 0o100 != 0,
            },
            0o120_000 => Self::Symlink,
            _ => Self::Submodule,
        }
    }

    /// Returns the mode that git writes for this kind.
    #[must_use]
    pub fn canonical_mode(self) -> u32 {
        match self {
            Self::Directory => 0o040_000,
            Self::File { executable: false } => 0o100_644,
            Self::File { executable: true } => 0o100_755,
            Self::Symlink => 0o120_000,
            Self::Submodule => 0o160_000,
        }
    }

    /// Returns whether the kernel sees a directory.
    #[must_use]
    pub fn is_directory(self) -> bool {
        matches!(self, Self::Directory | Self::Submodule)
    }
}

/// One entry of a tree, borrowed from the tree's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// The name: any bytes but NUL.
    pub name: &'a [u8],
    /// The mode's text as it stands in the tree, for instance `100644` or `040000`.
    pub raw_mode: &'a [u8],
    /// The mode's value.
    pub mode: u32,
    /// The id of the blob, tree or commit.
    pub id: Oid,
    /// Where the entry begins in the tree's bytes.
    pub offset: usize,
}

impl TreeEntry<'_> {
    /// Returns what the entry is.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        EntryKind::from_mode(self.mode)
    }

    /// Returns whether the mode is written as git writes it; others are noted (R11).
    #[must_use]
    pub fn has_canonical_mode(&self) -> bool {
        self.mode == self.kind().canonical_mode() && self.raw_mode.first() != Some(&b'0')
    }
}

/// The entries of a tree in stored order; an entry that does not parse ends it with an error.
#[derive(Debug, Clone)]
pub struct TreeEntries<'a> {
    bytes: &'a [u8],
    at: usize,
    id_len: usize,
}

/// Returns the entries of the tree whose content is `bytes`.
#[must_use]
pub fn entries(bytes: &[u8], hash_kind: HashKind) -> TreeEntries<'_> {
    TreeEntries {
        bytes,
        at: 0,
        id_len: hash_kind.len_in_bytes(),
    }
}

impl<'a> TreeEntries<'a> {
    /// Continues at `offset`, which must be [`TreeEntry::offset`] of an entry of the same tree.
    #[must_use]
    pub fn from_offset(mut self, offset: usize) -> Self {
        self.at = offset;
        self
    }

    fn parse_next(&mut self) -> Result<TreeEntry<'a>, &'static str> {
        let offset = self.at;
        let rest = &self.bytes[offset..];
        let space = rest
            .iter()
            .take(40)
            .position(|b| *b == b' ')
            .ok_or("has an entry without a mode")?;
        let raw_mode = &rest[..space];
        let mode = parse_mode(raw_mode).ok_or("has an entry whose mode is not a git mode")?;
        let after = &rest[space + 1..];
        let nul = after
            .iter()
            .position(|b| *b == 0)
            .ok_or("has an entry whose name does not end")?;
        let name = &after[..nul];
        let id = after
            .get(nul + 1..nul + 1 + self.id_len)
            .ok_or("ends in the middle of an object id")?;
        let id = Oid::try_from(id).map_err(|_| "has an id of the wrong length")?;
        self.at = offset + space + 1 + nul + 1 + self.id_len;
        Ok(TreeEntry {
            name,
            raw_mode,
            mode,
            id,
            offset,
        })
    }
}

impl<'a> Iterator for TreeEntries<'a> {
    type Item = Result<TreeEntry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let item = self.parse_next();
        if item.is_err() {
            self.at = self.bytes.len();
        }
        Some(
            item.map_err(|why| {
                Error::new(ErrorKind::Corrupt, "bad-tree", format!("the tree {why}"))
            }),
        )
    }
}

/// Reads an octal mode of at most 16 bits; leading zeros are git's own old habit and pass.
fn parse_mode(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u32, |mode, digit| {
        let digit = digit.checked_sub(b'0').filter(|d| *d < 8)?;
        let mode = mode * 8 + u32::from(digit);
        (mode <= 0o177_777).then_some(mode)
    })
}

/// Compares two names in git's tree order, in which a directory's name ends in `/`.
#[must_use]
pub fn compare_names(a: &[u8], a_is_tree: bool, b: &[u8], b_is_tree: bool) -> Ordering {
    let common = a.len().min(b.len());
    a[..common].cmp(&b[..common]).then_with(|| {
        let next = |name: &[u8], is_tree: bool| match name.get(common) {
            Some(byte) => u16::from(*byte),
            None if is_tree => u16::from(b'/'),
            None => 0,
        };
        next(a, a_is_tree).cmp(&next(b, b_is_tree))
    })
}

/// Builds the bytes of a tree from `(raw mode, name, id)` in the order given.
#[must_use]
pub fn encode_tree<'a>(
    entries: impl IntoIterator<Item = (&'a [u8], &'a [u8], &'a Oid)>,
) -> Vec<u8> {
    let mut out = Vec::new();
    for (raw_mode, name, id) in entries {
        out.extend_from_slice(raw_mode);
        out.push(b' ');
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(id.as_slice());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, &str)]) -> Vec<u8> {
        let id = Oid::empty_blob(HashKind::Sha1);
        encode_tree(
            entries
                .iter()
                .map(|(mode, name)| (mode.as_bytes(), name.as_bytes(), &id)),
        )
    }

    #[test]
    fn modes_read_as_git_reads_them() {
        for (mode, kind, canonical) in [
            ("100644", EntryKind::File { executable: false }, true),
            ("100755", EntryKind::File { executable: true }, true),
            ("100664", EntryKind::File { executable: false }, false),
            ("104755", EntryKind::File { executable: true }, false),
            ("0100644", EntryKind::File { executable: false }, false),
            ("40000", EntryKind::Directory, true),
            ("040000", EntryKind::Directory, false),
            ("120000", EntryKind::Symlink, true),
            ("160000", EntryKind::Submodule, true),
            ("10644", EntryKind::Submodule, false),
        ] {
            let bytes = tree(&[(mode, "n")]);
            let entry = entries(&bytes, HashKind::Sha1).next().unwrap().unwrap();
            assert_eq!(
                (entry.kind(), entry.has_canonical_mode()),
                (kind, canonical),
                "{mode}"
            );
        }
    }

    #[test]
    fn malformed_trees_end_in_an_error_and_never_panic() {
        let whole = tree(&[("100644", "a"), ("40000", "b")]);
        for len in 1..whole.len() {
            let last = entries(&whole[..len], HashKind::Sha1).last().unwrap();
            assert_eq!(
                last.is_err(),
                len != whole.len() / 2 + 1 && len != 29,
                "cut at {len}"
            );
        }
        for bad in [
            "",
            " x",
            "9",
            "100644",
            "1006449 x\0",
            "777777777777777777777777777777777777777777 x\0",
        ] {
            let mut bytes = bad.as_bytes().to_vec();
            bytes.push(0);
            bytes.extend_from_slice(&[1; 20]);
            assert!(
                entries(&bytes, HashKind::Sha1).any(|e| e.is_err()),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn order_treats_a_directory_as_if_it_ended_in_a_slash() {
        assert_eq!(compare_names(b"a", true, b"a.b", false), Ordering::Greater);
        assert_eq!(compare_names(b"a", false, b"a.b", false), Ordering::Less);
        assert_eq!(compare_names(b"a", false, b"a", true), Ordering::Less);
        assert_eq!(compare_names(b"a", true, b"a", true), Ordering::Equal);
    }
}
