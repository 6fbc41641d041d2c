//! What differs between a directory and the commit it should be: the closed list of kinds (R29),
//! one difference, and the bounded collection that keeps the first ones in tree order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::git::Oid;

/// How a path differs (R29). The order is the order in which several of one path are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// The bytes of a file do not hash to the blob's id.
    Content,
    /// The owner's x bit is not the tree's.
    Mode,
    /// The path is of another type than the tree says.
    Type,
    /// The target of a link does not hash to the blob's id.
    SymlinkTarget,
    /// The tree has the path, the directory does not.
    Missing,
    /// The directory has the path, the tree does not.
    Extra,
    /// The directory that stands for a submodule holds something.
    GitlinkNotEmpty,
    /// A FIFO, socket or device stands where the tree has something else.
    SpecialFile,
    /// A file has more than one name (judged on staged copies only).
    HardLink,
    /// The path, or the object that says what it should be, cannot be read (R36).
    Unreadable,
    /// Another file system is mounted on the path.
    NestedMount,
}

impl DifferenceKind {
    /// Returns the word that records and messages use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Mode => "mode",
            Self::Type => "type",
            Self::SymlinkTarget => "symlink-target",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::GitlinkNotEmpty => "gitlink-not-empty",
            Self::SpecialFile => "special-file",
            Self::HardLink => "hard-link",
            Self::Unreadable => "unreadable",
            Self::NestedMount => "nested-mount",
        }
    }
}

/// One path that is not what the commit says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path below the proved directory, raw bytes; empty for the directory itself.
    pub path: Vec<u8>,
    /// How it differs.
    pub kind: DifferenceKind,
    /// The id that the tree gives for the path; `None` for what the tree does not have.
    pub object_id: Option<Oid>,
    /// The id that the kernel's bytes hash to, where they were read whole.
    pub found_id: Option<Oid>,
    /// More about it in words.
    pub detail: Option<String>,
    /// Whether the path sorts as a directory.
    pub is_directory: bool,
}

impl Difference {
    /// Makes a difference at `path` of an entry that should be `object_id`.
    #[must_use]
    pub(super) fn new(path: Vec<u8>, kind: DifferenceKind, object_id: Option<Oid>) -> Self {
        Self {
            path,
            kind,
            object_id,
            found_id: None,
            detail: None,
            is_directory: false,
        }
    }

    /// Says more about it.
    #[must_use]
    pub(super) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Marks the path as a directory.
    #[must_use]
    pub(super) fn directory(mut self, is_directory: bool) -> Self {
        self.is_directory = is_directory;
        self
    }

    /// The path as git orders it: a directory as if it ended in a slash.
    fn key(&self) -> impl Iterator<Item = u8> {
        let slash = (self.is_directory && !self.path.is_empty()).then_some(b'/');
        self.path.iter().copied().chain(slash)
    }
}

impl Ord for Difference {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key()
            .cmp(other.key())
            .then(self.kind.cmp(&other.kind))
            .then_with(|| self.detail.cmp(&other.detail))
    }
}

impl PartialOrd for Difference {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How many differences are kept; more are counted.
pub(super) const KEPT_MAX: usize = 10_000;

/// The first differences in tree order, whatever order threads find them in.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings {
    kept: BinaryHeap<Difference>,
    omitted: u64,
}

impl Findings {
    /// Adds one; past [`KEPT_MAX`] the last in tree order is dropped and counted.
    pub(super) fn add(&mut self, difference: Difference) {
        self.kept.push(difference);
        if self.kept.len() > KEPT_MAX {
            self.kept.pop();
            self.omitted += 1;
        }
    }

    /// Returns the kept ones in tree order, and how many more there were.
    pub(super) fn into_sorted(self) -> (Vec<Difference>, u64) {
        (self.kept.into_sorted_vec(), self.omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, is_directory: bool) -> Difference {
        Difference::new(path.into(), DifferenceKind::Missing, None).directory(is_directory)
    }

    #[test]
    fn r29_the_first_difference_is_first_in_git_s_tree_order() {
        let mut findings = Findings::default();
        for (path, is_directory) in [("a", true), ("b", false), ("a.b", false), ("a/x", false)] {
            findings.add(at(path, is_directory));
        }
        let (sorted, omitted) = findings.into_sorted();
        let paths: Vec<_> = sorted.iter().map(|d| d.path.as_slice()).collect();
        let want: [&[u8]; 4] = [b"a.b", b"a", b"a/x", b"b"];
        assert_eq!((paths.as_slice(), omitted), (&want[..], 0));
    }

    #[test]
    fn past_the_cap_the_last_are_counted_and_the_first_are_kept() {
        let mut findings = Findings::default();
        for n in (0..KEPT_MAX + 5).rev() {
            findings.add(at(&format!("{n:06}"), false));
        }
        let (sorted, omitted) = findings.into_sorted();
        assert_eq!((sorted.len(), omitted), (KEPT_MAX, 5));
        assert_eq!(
            sorted.first().map(|d| d.path.as_slice()),
            Some(&b"000000"[..])
        );
    }
}
