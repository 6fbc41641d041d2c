//! What has been visited: loaded directories, and the way from an inode number to its entry.
//!
//! Eight bytes an entry in a hash table beside the directories themselves. A directory comes in
//! whole or not at all, and a number that two paths share is refused (R20).

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::directory::{Directory, Position, UNKNOWN};
use super::inode::Ino;
use crate::error::{Error, ErrorKind, Result};

/// Loaded directories by number, entries by inode number. The root's directory is number 0.
#[derive(Debug, Default)]
pub(super) struct Table {
    directories: Vec<Arc<Directory>>,
    by_ino: HashTable<Position>,
    large_sizes: HashMap<u64, u64>,
}

impl Table {
    /// Returns the directory with this number.
    pub(super) fn directory(&self, number: u32) -> Option<&Arc<Directory>> {
        self.directories.get(usize::try_from(number).ok()?)
    }

    /// Returns how many directories are loaded.
    pub(super) fn directory_count(&self) -> usize {
        self.directories.len()
    }

    /// Returns how many entries are known.
    pub(super) fn entry_count(&self) -> usize {
        self.by_ino.len()
    }

    /// Returns where the entry with this inode number stands; the root stands nowhere.
    pub(super) fn find(&self, ino: Ino) -> Option<(&Arc<Directory>, Position)> {
        // The number is a hash already.
        let position = self
            .by_ino
            .find(ino.0, |p| self.ino_at(*p) == Some(ino.0))?;
        Some((self.directory(position.directory)?, *position))
    }

    fn ino_at(&self, position: Position) -> Option<u64> {
        let directory = self.directory(position.directory)?;
        directory.raw_ino(usize::try_from(position.index).ok()?)
    }

    /// Adds a directory and tells its parent's entry; returns the one that stands, which is another
    /// where a second thread was faster.
    ///
    /// # Errors
    /// `inode-collision`, and nothing of the directory is added.
    pub(super) fn insert(&mut self, directory: Directory) -> Result<Arc<Directory>> {
        let parent = self.directory(directory.parent.directory).cloned();
        let parent_index = usize::try_from(directory.parent.index).unwrap_or(usize::MAX);
        if let Some(parent) = &parent
            && let Some(present) = self.directory(parent.learnt(parent_index))
        {
            return Ok(Arc::clone(present));
        }
        let number = u32::try_from(self.directories.len()).ok();
        let number = number.filter(|n| *n < UNKNOWN - 1).ok_or_else(|| {
            Error::new(
                ErrorKind::Budget,
                "too-many-directories",
                "more than four thousand million directories were visited",
            )
        })?;
        let directory = Arc::new(directory);
        self.directories.push(Arc::clone(&directory));
        for index in 0..u32::try_from(directory.len()).unwrap_or(u32::MAX) {
            let position = Position {
                directory: number,
                index,
            };
            if let Err(error) = self.insert_entry(position) {
                for index in 0..index {
                    self.remove_entry(Position { index, ..position });
                }
                self.directories.pop();
                return Err(error);
            }
        }
        if let Some(parent) = parent {
            parent.learn(parent_index, number);
        }
        Ok(directory)
    }

    fn insert_entry(&mut self, position: Position) -> Result<()> {
        let Some(ino) = self.ino_at(position) else {
            return Ok(());
        };
        if ino == Ino::ROOT.0 || self.find(Ino(ino)).is_some() {
            let directory = self.directory(position.directory);
            let index = usize::try_from(position.index).unwrap_or(usize::MAX);
            let name = directory.and_then(|d| d.entry(index)).map(|e| e.name);
            let name = name.unwrap_or_default().escape_ascii();
            return Err(Error::new(
                ErrorKind::Corrupt,
                "inode-collision",
                format!("the entry \"{name}\" has the inode number {ino} of another path"),
            ));
        }
        let directories = &self.directories;
        self.by_ino
            .insert_unique(ino, position, |p| ino_in(directories, *p));
        Ok(())
    }

    fn remove_entry(&mut self, position: Position) {
        let Some(ino) = self.ino_at(position) else {
            return;
        };
        if let Ok(found) = self.by_ino.find_entry(ino, |p| *p == position) {
            found.remove();
        }
    }

    /// Remembers a size of 4 GiB and more.
    pub(super) fn remember_large(&mut self, ino: Ino, size: u64) {
        self.large_sizes.insert(ino.0, size);
    }

    /// Returns a size remembered by [`Self::remember_large`].
    pub(super) fn large_size(&self, ino: Ino) -> Option<u64> {
        self.large_sizes.get(&ino.0).copied()
    }
}

/// The hash of what stands at a position; entries in the table always have one.
fn ino_in(directories: &[Arc<Directory>], position: Position) -> u64 {
    let directory = usize::try_from(position.directory).ok();
    let index = usize::try_from(position.index).unwrap_or(usize::MAX);
    directory
        .and_then(|number| directories.get(number))
        .and_then(|directory| directory.raw_ino(index))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::directory::NOWHERE;
    use super::*;
    use crate::git::{HashKind, Oid, encode_tree};

    fn directory(ino: Ino, parent: Position, names: &[&str]) -> Directory {
        let id = Oid::empty_blob(HashKind::Sha1);
        let tree = encode_tree(
            names
                .iter()
                .map(|name| (&b"40000"[..], name.as_bytes(), &id)),
        );
        Directory::build(ino, Ino::ROOT, parent, &tree, HashKind::Sha1).unwrap()
    }

    fn at(directory: u32, index: u32) -> Position {
        Position { directory, index }
    }

    #[test]
    fn a_directory_loaded_twice_stands_once() {
        let mut table = Table::default();
        let root = table
            .insert(directory(Ino::ROOT, NOWHERE, &["a", "b"]))
            .unwrap();
        let ino = root.entry(1).unwrap().ino;
        let first = table.insert(directory(ino, at(0, 1), &["x"])).unwrap();
        let second = table.insert(directory(ino, at(0, 1), &["x"])).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((table.directory_count(), table.entry_count()), (2, 3));
        let (found, position) = table.find(first.entry(0).unwrap().ino).unwrap();
        assert!(Arc::ptr_eq(found, &first));
        assert_eq!(position, at(1, 0));
        assert!(table.find(Ino(12345)).is_none());
    }

    #[test]
    fn r20_a_number_that_two_paths_share_is_refused_whole() {
        let mut table = Table::default();
        table
            .insert(directory(Ino::ROOT, NOWHERE, &["a", "b"]))
            .unwrap();
        // A second directory that claims the root's number gives its entries the same numbers.
        let clash = directory(Ino::ROOT, at(0, 0), &["0", "1", "a"]);
        let error = table.insert(clash).unwrap_err();
        assert_eq!(error.slug(), "inode-collision");
        assert_eq!((table.directory_count(), table.entry_count()), (1, 2));
        let fine = directory(Ino::ROOT, at(0, 0), &["0", "1"]);
        assert!(table.insert(fine).is_ok());
    }
}
