//! What a proof counts: entries by kind, bytes hashed, submodules, and the live counters that a
//! progress bar reads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::git::{EntryKind, Oid, TreeEntry};

/// How many submodules a record lists; all are counted.
const GITLINKS_KEPT_MAX: usize = 1000;

/// Counters that grow while a proof runs; whoever shows them may read them at any time.
#[derive(Debug, Default)]
pub struct Progress {
    /// Entries that there are; 0 until the trees are read.
    pub entries_expected: AtomicU64,
    /// Entries looked at.
    pub entries_done: AtomicU64,
    /// Bytes of content hashed.
    pub bytes_done: AtomicU64,
}

/// What was walked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries of the commit that were looked at, the root not counted.
    pub entries: u64,
    /// Bytes of files and link targets that were hashed.
    pub bytes: u64,
    /// Subtrees.
    pub directories: u64,
    /// Files without the owner's x.
    pub files: u64,
    /// Files with it.
    pub executables: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Submodules.
    pub gitlinks: u64,
    /// Path and commit of the first submodules (R25).
    pub gitlinks_listed: Vec<(Vec<u8>, Oid)>,
    /// Entries whose mode is not written as git writes it (R11).
    pub noncanonical_modes: u64,
}

impl Totals {
    /// Counts an entry.
    pub(super) fn count(&mut self, entry: &TreeEntry<'_>) {
        self.entries += 1;
        self.noncanonical_modes += u64::from(!entry.has_canonical_mode());
        *match entry.kind() {
            EntryKind::Directory => &mut self.directories,
            EntryKind::File { executable: false } => &mut self.files,
            EntryKind::File { executable: true } => &mut self.executables,
            EntryKind::Symlink => &mut self.symlinks,
            EntryKind::Submodule => &mut self.gitlinks,
        } += 1;
    }

    /// Lists a submodule.
    pub(super) fn list_gitlink(&mut self, path: Vec<u8>, commit_id: Oid) {
        if self.gitlinks_listed.len() < GITLINKS_KEPT_MAX {
            self.gitlinks_listed.push((path, commit_id));
        }
    }

    /// Adds what another thread counted.
    pub(super) fn merge(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.directories += other.directories;
        self.files += other.files;
        self.executables += other.executables;
        self.symlinks += other.symlinks;
        self.gitlinks += other.gitlinks;
        self.noncanonical_modes += other.noncanonical_modes;
        self.gitlinks_listed.extend(other.gitlinks_listed);
        self.gitlinks_listed.sort_unstable();
        self.gitlinks_listed.truncate(GITLINKS_KEPT_MAX);
    }
}

impl Progress {
    /// Counts entries looked at and bytes hashed.
    pub(super) fn add(&self, entries: u64, bytes: u64) {
        self.entries_done.fetch_add(entries, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }
}
