//! One file or link, read through the kernel and hashed (R27).

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use super::difference::{Difference, DifferenceKind};
use super::rebuild::{Node, Shown};
use super::walk::Walk;
use crate::error::{Error, ErrorKind, Result};
use crate::git::{EntryKind, Kind, ObjectHasher, Oid, TreeEntry, hash_object};
use crate::sys::{DirFd, Fault, FileKind, fault_of, stat_fd};

/// One read; a file that fits is read and hashed in one step.
pub(super) const BUFFER_BYTES: usize = 256 << 10;

/// Why one path, or the whole walk, went no further.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The path differs.
    Differs(Difference),
    /// The server of the mount is gone: no other path will answer (R36).
    ServerGone(Difference),
    /// The proof cannot be tried to its end.
    Failed(Error),
    /// Another thread ended the walk.
    Stopped,
}

/// Sorts an error of the kernel at `path`, which should be `object_id`.
pub(super) fn trouble(error: std::io::Error, path: &[u8], object_id: Oid) -> Trouble {
    let differs =
        |kind| Difference::new(path.to_vec(), kind, Some(object_id)).because(error.to_string());
    match fault_of(&error) {
        Fault::ServerGone => Trouble::ServerGone(differs(DifferenceKind::Unreadable)),
        Fault::Exhausted => Trouble::Failed(
            Error::io(
                "cannot go on reading; close other programs or use fewer --threads",
                error,
            )
            .at(crate::sys::os_name(path)),
        ),
        Fault::OtherMount => Trouble::Differs(differs(DifferenceKind::NestedMount)),
        Fault::Link | Fault::NotDirectory => Trouble::Differs(differs(DifferenceKind::Type)),
        Fault::Absent => Trouble::Differs(differs(DifferenceKind::Missing)),
        Fault::Other => Trouble::Differs(differs(DifferenceKind::Unreadable)),
    }
}

/// Reads and hashes the file or link `entry` of `dir`; differences go to the findings of `walk`.
/// Returns what was shown, where it was shown whole.
///
/// # Errors
/// A [`Trouble`] where nothing whole was shown.
pub(super) fn check_leaf(
    walk: &Walk,
    node: &Node,
    dir: &DirFd,
    entry: &TreeEntry<'_>,
    buffer: &mut [u8],
    bytes_hashed: &mut u64,
) -> Result<Shown, Trouble> {
    let fail = |error| trouble(error, &node.path_of(entry.name), entry.id);
    let (id, kind, other_mode) = match entry.kind() {
        EntryKind::Symlink => {
            let target = dir.read_link(entry.name).map_err(fail)?;
            *bytes_hashed += target.len() as u64;
            let id = hash_object(walk.hash_kind(), Kind::Blob, &target).map_err(Trouble::Failed)?;
            (id, DifferenceKind::SymlinkTarget, None)
        }
        EntryKind::File { .. } | EntryKind::Directory | EntryKind::Submodule => {
            let file = dir.open_file(entry.name).map_err(fail)?;
            let other_mode = check_stat(walk, node, &file, entry)?;
            let size = other_mode.size;
            let id = hash_file(walk, node, &file, size, entry, buffer)?;
            *bytes_hashed += size;
            (id, DifferenceKind::Content, other_mode.other_mode)
        }
    };
    if id != entry.id {
        let mut difference = Difference::new(node.path_of(entry.name), kind, Some(entry.id));
        difference.found_id = Some(id);
        walk.add(difference);
    }
    Ok(Shown { id, other_mode })
}

struct Stat {
    size: u64,
    other_mode: Option<&'static [u8]>,
}

/// Judges what the open file is: its type, its owner's x bit, its links; and spends its size.
fn check_stat(
    walk: &Walk,
    node: &Node,
    file: &File,
    entry: &TreeEntry<'_>,
) -> Result<Stat, Trouble> {
    let stat = stat_fd(file.as_fd())
        .map_err(|error| trouble(error, &node.path_of(entry.name), entry.id))?;
    let differs = |kind| Difference::new(node.path_of(entry.name), kind, Some(entry.id));
    match stat.kind {
        FileKind::File => {}
        FileKind::Special => return Err(Trouble::Differs(differs(DifferenceKind::SpecialFile))),
        FileKind::Directory | FileKind::Symlink | FileKind::Unknown => {
            return Err(Trouble::Differs(differs(DifferenceKind::Type)));
        }
    }
    if walk.judges_hard_links() && stat.nlink > 1 {
        let detail = format!("{} names", stat.nlink);
        walk.add(differs(DifferenceKind::HardLink).because(detail));
    }
    walk.spend_bytes(stat.size, || node.path_of(entry.name))?;
    let executable = stat.mode & 0o100 != 0;
    let mut other_mode = None;
    if entry.kind() != (EntryKind::File { executable }) {
        let detail = format!("mode {:o}", stat.mode);
        walk.add(differs(DifferenceKind::Mode).because(detail));
        other_mode = Some(if executable {
            &b"100755"[..]
        } else {
            b"100644"
        });
    }
    Ok(Stat {
        size: stat.size,
        other_mode,
    })
}

/// Hashes the file as a blob of `size` bytes, which is what the kernel said it has.
fn hash_file(
    walk: &Walk,
    node: &Node,
    mut file: &File,
    size: u64,
    entry: &TreeEntry<'_>,
    buffer: &mut [u8],
) -> Result<Oid, Trouble> {
    let mut hasher = ObjectHasher::new(walk.hash_kind(), Kind::Blob, size);
    let mut done = 0_u64;
    loop {
        let count = match file.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(trouble(error, &node.path_of(entry.name), entry.id)),
        };
        done = done.saturating_add(count as u64);
        hasher.update(buffer.get(..count).unwrap_or_default());
        // A regular file answers with less than was asked for at its end only.
        let at_end = count == 0 || (done == size && count < buffer.len());
        if at_end || done > size {
            break;
        }
        if walk.is_stopped() {
            return Err(Trouble::Stopped);
        }
    }
    let differs = |detail: String| {
        let path = node.path_of(entry.name);
        let kind = DifferenceKind::Content;
        Trouble::Differs(Difference::new(path, kind, Some(entry.id)).because(detail))
    };
    if done != size {
        return Err(differs(format!(
            "stat says {size} bytes, reading gave {done}"
        )));
    }
    hasher.finish().map_err(|error| {
        if error.kind() == ErrorKind::Corrupt {
            differs(error.to_string())
        } else {
            Trouble::Failed(error)
        }
    })
}
