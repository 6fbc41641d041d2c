//! Listing a directory: positions, the two dots, and the attributes that readdirplus adds.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Generation, INodeNo, ReplyDirectoryPlus};

use super::fs::ForgeFs;
use super::reply::{FOREVER, NEVER, file_attr, placeholder};
use crate::error::Result;
use crate::snapshot::{Directory, EntryKind, Ino, NAME_BYTES_MAX};

/// The entries `.` and `..` come first in a listing.
const DOTS: u64 = 2;

/// One line of a listing.
pub(super) enum Listed<'a> {
    /// The directory itself, or the one above.
    Dot(Ino, &'static str),
    /// What stands at an index of it.
    Entry(&'a Directory, usize),
}

impl ForgeFs {
    /// Lists a directory from `offset` on with `add`, which returns whether the reply is full.
    pub(super) fn list(
        &self,
        ino: INodeNo,
        offset: u64,
        mut add: impl FnMut(Listed<'_>, u64) -> bool,
    ) -> Result<()> {
        let directory = self.snapshot.list(Ino(ino.0))?;
        for next in offset..DOTS {
            let listed = if next == 0 {
                Listed::Dot(directory.ino(), ".")
            } else {
                Listed::Dot(directory.parent_ino(), "..")
            };
            if add(listed, next + 1) {
                return Ok(());
            }
        }
        let first = usize::try_from(offset.saturating_sub(DOTS)).unwrap_or(usize::MAX);
        if first >= directory.len() {
            // Asked for what follows the end, the kernel has made inodes of all that stands before.
            self.read_ahead.note_listed(&directory);
        }
        for index in first..directory.len() {
            let next = (index as u64).saturating_add(DOTS + 1);
            if add(Listed::Entry(&directory, index), next) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adds one line with its attributes; returns whether the reply is full.
    pub(super) fn add_plus(
        &self,
        reply: &mut ReplyDirectoryPlus,
        listed: &Listed<'_>,
        next: u64,
    ) -> bool {
        let (directory, index) = match *listed {
            Listed::Dot(ino, name) => {
                // The kernel links neither; the attributes only fill the place.
                let attr = placeholder(ino, EntryKind::Directory, self.owner);
                return reply.add(INodeNo(ino.0), next, name, &NEVER, &attr, Generation(0));
            }
            Listed::Entry(directory, index) => (directory, index),
        };
        let Some(entry) = directory.entry(index) else {
            return true;
        };
        let fits = entry.name.len() <= NAME_BYTES_MAX;
        let (ttl, attr) = match self.snapshot.attr_of(directory, index) {
            Ok(attr) if fits => (FOREVER, file_attr(&attr, self.owner)),
            // The name is shown; whoever enters it asks again and gets the error (R22, R6).
            Ok(_) | Err(_) => (NEVER, placeholder(entry.ino, entry.kind, self.owner)),
        };
        reply.add(
            attr.ino,
            next,
            OsStr::from_bytes(entry.name),
            &ttl,
            &attr,
            Generation(0),
        )
    }
}
