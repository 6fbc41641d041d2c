//! Inode numbers that this process never gave out: a worker that took over a live mount meets them,
//! since the kernel keeps entries for ever. The number is a pure function of the path, so the tree
//! is searched for it, breadth first, each directory once in the life of the process.

use std::sync::{Mutex, PoisonError};

use super::directory::{Position, UNKNOWN};
use super::{Entry, Ino, Snapshot, stale};
use crate::error::{Error, ErrorKind, Result};
use crate::git::EntryKind;

/// Directories that are loaded for a search before it gives up: some 100 MB of memory.
const DIRECTORIES_MAX: usize = 1 << 17;

/// Failed directories that are tried again at the next search.
const FAILED_MAX: usize = 1024;

/// How far the tree has been searched.
#[derive(Debug, Default)]
pub(super) struct Search(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// Directories with lower numbers have all their subdirectories loaded, but for `failed`.
    next: u32,
    failed: Vec<Position>,
}

impl Search {
    /// Finds an entry that is not in the table yet.
    ///
    /// # Errors
    /// `stale-inode`; `search-incomplete` where a directory cannot be read or there are too many.
    pub(super) fn search(&self, snapshot: &Snapshot, ino: Ino) -> Result<Entry> {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress
            .failed
            .retain(|position| load(snapshot, *position).is_err());
        loop {
            if let Some(entry) = snapshot.known_entry(ino) {
                return Ok(entry);
            }
            if snapshot.table().directory_count() > DIRECTORIES_MAX {
                return Err(incomplete(ino, "the commit has too many directories"));
            }
            let number = progress.next;
            let Some(directory) = snapshot.table().directory(number).cloned() else {
                break;
            };
            for index in 0..directory.len() {
                let kind = directory.entry(index).map(|entry| entry.kind);
                if kind != Some(EntryKind::Directory) || directory.learnt(index) != UNKNOWN {
                    continue;
                }
                let position = Position {
                    directory: number,
                    index: u32::try_from(index).unwrap_or(u32::MAX),
                };
                match load(snapshot, position) {
                    Ok(()) => {}
                    Err(_) if progress.failed.len() < FAILED_MAX => progress.failed.push(position),
                    Err(error) => return Err(error),
                }
                if let Some(entry) = snapshot.known_entry(ino) {
                    return Ok(entry);
                }
            }
            progress.next = number.saturating_add(1);
        }
        if progress.failed.is_empty() {
            return Err(stale(ino));
        }
        Err(incomplete(ino, "a directory cannot be read"))
    }
}

fn load(snapshot: &Snapshot, position: Position) -> Result<()> {
    let parent = snapshot.table().directory(position.directory).cloned();
    let directory = parent.ok_or_else(|| stale(Ino(0)))?;
    let index = usize::try_from(position.index).unwrap_or(usize::MAX);
    let entry = Entry {
        directory,
        index,
        position,
    };
    snapshot.list_entry(&entry).map(|_| ())
}

fn incomplete(ino: Ino, why: &str) -> Error {
    let message = format!("the inode number {} cannot be searched for: {why}", ino.0);
    Error::new(ErrorKind::Io, "search-incomplete", message)
}
