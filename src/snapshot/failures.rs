//! Errors get the path they are about, and one line in the log for each entry that fails: path and
//! object id, so that the damage can be found without asking the mount again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::{Directory, Snapshot};
use crate::error::Error;
use crate::sys::os_name;

/// The numbers of failing entries that are remembered; beyond it they may be logged again.
const LOGGED_MAX: usize = 4096;

/// Which entries were logged.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashSet<u64>>);

impl Failures {
    /// Returns whether this entry is to be logged now.
    fn is_first(&self, ino: u64) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= LOGGED_MAX {
            logged.clear();
        }
        logged.insert(ino)
    }
}

impl Snapshot {
    /// Returns the path of an entry, without a slash in front; for messages.
    #[must_use]
    pub fn path_of(&self, directory: &Directory, index: usize) -> Vec<u8> {
        let mut names = vec![
            directory
                .entry(index)
                .map_or(&b"?"[..], |e| e.name)
                .to_vec(),
        ];
        let mut position = directory.parent;
        let table = self.table();
        while let Some(above) = table.directory(position.directory) {
            let index = usize::try_from(position.index).unwrap_or(usize::MAX);
            names.extend(above.entry(index).map(|entry| entry.name.to_vec()));
            position = above.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Names the path in an error, and logs it once for each entry.
    pub(super) fn failed(&self, directory: &Directory, index: usize, error: Error) -> Error {
        let path = self.path_of(directory, index);
        let error = match (error.object_id(), directory.id(index)) {
            (None, Some(id)) => error.about(id),
            _ => error,
        };
        let error = error.at(os_name(&path));
        if self
            .failures
            .is_first(directory.raw_ino(index).unwrap_or(0))
        {
            let oid = error.object_id().unwrap_or_default();
            let path = path.escape_ascii();
            tracing::error!(%path, %oid, slug = error.slug(), %error, "cannot serve an entry");
        }
        error
    }
}
