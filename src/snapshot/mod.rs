//! One commit as inodes, attributes and bytes. No kernel, no path on disk, no clock: the mount room
//! asks, this room answers from verified objects alone (R15..R26).
//!
//! Directories are loaded when first asked for, checked by the rules of R10 before one entry is
//! visible, and kept; a load that fails is an error of that directory alone, tried again at the
//! next request, and never an empty or absent directory.

mod blobs;
mod content;
mod directory;
mod failures;
mod inode;
#[cfg(test)]
pub(crate) mod sample;
mod search;
mod stats;
mod table;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use blobs::BlobBytes;
pub use content::TARGET_BYTES_MAX;
pub use directory::{Directory, DirectoryEntry};
pub use inode::{Ino, child_ino};
pub use stats::{Count, Stats};

pub use crate::git::EntryKind;

use crate::error::{Error, ErrorKind, Result};
use crate::git::{Commit, Kind, ObjectSource, Oid, empty_tree_id, load_commit};
use blobs::Blobs;
use directory::{LARGE, NOWHERE, Position, UNKNOWN};
use failures::Failures;
use search::Search;
use table::Table;

/// The longest name that Linux knows (`NAME_MAX`); longer ones are listed, but not entered (R22).
pub const NAME_BYTES_MAX: usize = 255;

/// What every directory says of its size: one block, as a small one on ext4 does. Git stores no
/// such thing, and a constant is the same for every copy of the commit (R20).
pub const DIRECTORY_SIZE: u64 = 4096;

/// How a snapshot is presented and what it may hold.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// How many bytes of content may be held in memory, all threads together (R46).
    pub cache_bytes_max: u64,
    /// Where blobs too big for that are spooled; `None` is `/var/tmp`.
    pub spool_dir: Option<PathBuf>,
    /// The time that every entry shows, in seconds since 1970; `None` is the committer's (R20).
    pub mtime_s: Option<i64>,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            cache_bytes_max: 64 << 20,
            spool_dir: None,
            mtime_s: None,
        }
    }
}

/// What the kernel learns about an entry; a pure function of commit and path, but for `mtime_s`
/// where it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: EntryKind,
    /// Size in bytes: the blob's, or [`DIRECTORY_SIZE`].
    pub size: u64,
    /// Size in blocks of 512 bytes, rounded up.
    pub blocks: u64,
    /// Time of last change, in seconds since 1970.
    pub mtime_s: i64,
}

/// An entry: the directory that lists it and its index there.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The directory that lists it.
    pub directory: Arc<Directory>,
    /// Its index there.
    pub index: usize,
    position: Position,
}

/// One commit, served.
pub struct Snapshot {
    objects: Arc<dyn ObjectSource>,
    commit: Commit,
    mtime_s: i64,
    table: RwLock<Table>,
    blobs: Blobs,
    search: Search,
    stats: Stats,
    failures: Failures,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("commit", &self.commit.id)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Reads and verifies the commit and its root tree; nothing else is read yet.
    ///
    /// # Errors
    /// Those of [`load_commit`]; for the root tree `missing-object`, `corrupt-object`, `bad-tree`.
    pub fn open(
        objects: Arc<dyn ObjectSource>,
        commit_id: &Oid,
        options: SnapshotOptions,
    ) -> Result<Self> {
        let commit = load_commit(&*objects, commit_id)?;
        let spool_dir = options.spool_dir.unwrap_or_else(|| "/var/tmp".into());
        let snapshot = Self {
            mtime_s: options.mtime_s.unwrap_or_else(|| commit.mtime_s()),
            objects,
            commit,
            table: RwLock::default(),
            blobs: Blobs::new(options.cache_bytes_max, spool_dir),
            search: Search::default(),
            stats: Stats::default(),
            failures: Failures::default(),
        };
        let root = (Ino::ROOT, Ino::ROOT, NOWHERE);
        snapshot.load_directory(root, &snapshot.commit.tree_id)?;
        Ok(snapshot)
    }

    /// Returns the commit that is shown.
    #[must_use]
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns how many directories and entries were visited so far.
    #[must_use]
    pub fn visited(&self) -> (usize, usize) {
        let table = self.table();
        (table.directory_count(), table.entry_count())
    }

    /// Returns the attributes of `name` in the directory `parent`, `None` where the verified tree
    /// has no such name.
    ///
    /// # Errors
    /// `name-too-long` over 255 bytes; those of [`Self::list`] and [`Self::attr_of`].
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Option<Attr>> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLong,
                "name-too-long",
                "names over 255 bytes cannot be entered",
            ));
        }
        let directory = self.list(parent)?;
        directory
            .find(name)
            .map(|index| self.attr_of(&directory, index))
            .transpose()
    }

    /// Returns the attributes of an inode.
    ///
    /// # Errors
    /// `stale-inode` where no path of this commit has that number; those of [`Self::attr_of`].
    pub fn attr(&self, ino: Ino) -> Result<Attr> {
        if ino == Ino::ROOT {
            return Ok(self.new_attr(ino, EntryKind::Directory, DIRECTORY_SIZE));
        }
        let entry = self.entry(ino)?;
        self.attr_of(&entry.directory, entry.index)
    }

    /// Returns the attributes of the entry at `index` of `directory`.
    ///
    /// # Errors
    /// What the object store says where the size of a blob cannot be had.
    pub fn attr_of(&self, directory: &Directory, index: usize) -> Result<Attr> {
        let entry = directory.entry(index).ok_or_else(|| stale(Ino(0)))?;
        let size = if entry.kind.is_directory() {
            DIRECTORY_SIZE
        } else {
            self.size_of(directory, index)?
        };
        Ok(self.new_attr(entry.ino, entry.kind, size))
    }

    fn new_attr(&self, ino: Ino, kind: EntryKind, size: u64) -> Attr {
        Attr {
            ino,
            kind,
            size,
            blocks: size.div_ceil(512),
            mtime_s: self.mtime_s,
        }
    }

    /// Returns the size of a blob, from its header at first and from memory afterwards.
    fn size_of(&self, directory: &Directory, index: usize) -> Result<u64> {
        let ino = Ino(directory.raw_ino(index).unwrap_or(0));
        match directory.learnt(index) {
            UNKNOWN => {}
            LARGE => {
                if let Some(size) = self.table().large_size(ino) {
                    return Ok(size);
                }
            }
            size => return Ok(u64::from(size)),
        }
        let id = self.id_of(directory, index)?;
        let size = self
            .objects
            .size(&id)
            .and_then(|size| self.check_empty(&id, size))
            .map_err(|error| self.failed(directory, index, error))?;
        match u32::try_from(size) {
            Ok(short) if short < LARGE => directory.learn(index, short),
            _ => {
                self.table_mut().remember_large(ino, size);
                directory.learn(index, LARGE);
            }
        }
        Ok(size)
    }

    /// The kernel never reads a file of size 0, so that the lie of a header would not be found:
    /// only the empty blob is empty.
    fn check_empty(&self, id: &Oid, size: u64) -> Result<u64> {
        if size > 0 || *id == Oid::empty_blob(self.objects.hash_kind()) {
            return Ok(size);
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            "size-differs",
            format!("the header of object {id} says that it is empty, but it is not"),
        )
        .about(id))
    }

    /// Returns the entries of a directory; a submodule has none (R25).
    ///
    /// # Errors
    /// `stale-inode`, `not-a-directory`; where its tree cannot be read or breaks a rule of R10,
    /// that error, again at each request.
    pub fn list(&self, ino: Ino) -> Result<Arc<Directory>> {
        if ino == Ino::ROOT {
            let root = self.table().directory(0).cloned();
            return root.ok_or_else(|| stale(ino));
        }
        let entry = self.entry(ino)?;
        self.list_entry(&entry)
    }

    /// As [`Self::list`], for an entry at hand.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn list_entry(&self, entry: &Entry) -> Result<Arc<Directory>> {
        let (parent, index) = (&entry.directory, entry.index);
        if let Some(loaded) = self.table().directory(parent.learnt(index)).cloned()
            && loaded.parent == entry.position
        {
            return Ok(loaded);
        }
        let found = parent.entry(index).ok_or_else(|| stale(Ino(0)))?;
        let place = (found.ino, parent.ino(), entry.position);
        match found.kind {
            EntryKind::Directory => {
                let id = self.id_of(parent, index)?;
                self.load_directory(place, &id)
                    .map_err(|error| self.failed(parent, index, error))
            }
            EntryKind::Submodule => {
                let (ino, parent_ino, position) = place;
                let hash_kind = self.objects.hash_kind();
                Directory::build(ino, parent_ino, position, &[], hash_kind).map(Arc::new)
            }
            EntryKind::File { .. } | EntryKind::Symlink => Err(Error::new(
                ErrorKind::WrongType,
                "not-a-directory",
                "a file was used as a directory",
            )),
        }
    }

    fn load_directory(
        &self,
        (ino, parent_ino, position): (Ino, Ino, Position),
        tree_id: &Oid,
    ) -> Result<Arc<Directory>> {
        let hash_kind = self.objects.hash_kind();
        // Git knows the empty tree without storing it (R4).
        let tree = if *tree_id == empty_tree_id(hash_kind) {
            Vec::new()
        } else {
            self.objects.read(tree_id, Kind::Tree)?
        };
        self.stats.add(Count::Trees, 1);
        let directory = Directory::build(ino, parent_ino, position, &tree, hash_kind)
            .map_err(|error| error.about(tree_id))?;
        self.table_mut().insert(directory)
    }

    /// Returns the entry with an inode number; the root is none.
    ///
    /// # Errors
    /// `stale-inode`, or an error of reading where the number was never given out by this process
    /// and a directory that may hold it cannot be read.
    pub fn entry(&self, ino: Ino) -> Result<Entry> {
        if let Some(entry) = self.known_entry(ino) {
            return Ok(entry);
        }
        self.search.search(self, ino)
    }

    fn known_entry(&self, ino: Ino) -> Option<Entry> {
        let table = self.table();
        let (directory, position) = table.find(ino)?;
        Some(Entry {
            directory: Arc::clone(directory),
            index: usize::try_from(position.index).ok()?,
            position,
        })
    }

    fn id_of(&self, directory: &Directory, index: usize) -> Result<Oid> {
        directory.id(index).ok_or_else(|| stale(Ino(0)))
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stale(ino: Ino) -> Error {
    Error::new(
        ErrorKind::Stale,
        "stale-inode",
        format!("no path of this commit has the inode number {}", ino.0),
    )
}
