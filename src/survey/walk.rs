//! Walks a commit's directories, each distinct one once, and collects what the rows tell of.

use std::collections::HashMap;
use std::path::Path;

use super::attributes::Attributes;
use super::feature::Places;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::git::{EntryKind, Kind, ObjectSource, Oid, Strictness, TreeEntry, check_tree, entries};
use crate::sys::os_name;

/// Bytes of an attribute file that is read; git itself takes larger ones, but no such is known.
const ATTRIBUTES_BYTES_MAX: u64 = 1 << 20;
/// Sizes of blobs that may be LFS pointers: three short lines.
const POINTER_BYTES: std::ops::RangeInclusive<u64> = 100..=300;
/// How many blobs of such a size are read to look whether they are pointers.
const POINTERS_READ_MAX: u32 = 4096;
/// How LFS pointers begin (git-lfs, docs/spec.md).
const POINTER_START: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
/// The longest name that the kernel takes.
const NAME_LEN_MAX: usize = 255;
/// The longest link target that the kernel takes.
const TARGET_LEN_MAX: u64 = 4095;

/// Entries and bytes below a directory, at every place they stand; they stop at `u64::MAX`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) totals: Totals,
    pub(super) submodules: Places,
    pub(super) has_gitmodules: bool,
    pub(super) lfs: Places,
    pub(super) filters: Places,
    pub(super) line_ends: Places,
    pub(super) ident_export: Places,
    pub(super) attributes_unread: Places,
    pub(super) noncanonical_modes: Places,
    pub(super) bad_trees: Places,
    pub(super) long_names: Places,
    pub(super) bad_links: Places,
    pub(super) git_file_links: Places,
    pub(super) missing: Places,
    pub(super) corrupt: Places,
    pointers_read: u32,
}

/// Reads the root directory alone, and its attribute file.
pub(super) fn look_at_root(objects: &dyn ObjectSource, tree_id: &Oid) -> Result<Findings> {
    let mut walker = Walker::new(objects, false);
    let bytes = objects.read(tree_id, Kind::Tree)?;
    walker.open(tree_id, &bytes, b"")?;
    Ok(walker.found)
}

/// Reads every directory and asks for the size of every blob.
pub(super) fn walk(
    objects: &dyn ObjectSource,
    root_id: &Oid,
    budget: &mut Budget,
) -> Result<Findings> {
    let mut walker = Walker::new(objects, true);
    let mut known: HashMap<Oid, Totals> = HashMap::new();
    let mut stack: Vec<Frame> = Vec::new();
    let mut next = Some((Vec::new(), *root_id));
    loop {
        if let Some((path, id)) = next.take() {
            let depth = u32::try_from(stack.len()).unwrap_or(u32::MAX);
            budget.check_depth(depth, Path::new(os_name(&path)))?;
            stack.push(walker.enter(id, path, budget)?);
        }
        let Some(frame) = stack.last_mut() else {
            return Ok(walker.found);
        };
        if let Some((name, id)) = frame.directories.next() {
            match known.get(&id) {
                Some(totals) => frame.totals.add(*totals),
                None => next = Some((join(&frame.path, &name), id)),
            }
            continue;
        }
        let Some(frame) = stack.pop() else {
            return Ok(walker.found);
        };
        if frame.is_whole {
            known.insert(frame.id, frame.totals);
        }
        match stack.last_mut() {
            Some(parent) => parent.totals.add(frame.totals),
            None => walker.found.totals = frame.totals,
        }
    }
}

/// A directory being walked.
struct Frame {
    id: Oid,
    path: Vec<u8>,
    directories: std::vec::IntoIter<(Vec<u8>, Oid)>,
    totals: Totals,
    /// Whether it could be read; one that could not is told of at each of its places.
    is_whole: bool,
}

/// What a directory holds, once its own entries are dealt with.
#[derive(Default)]
struct Opened {
    directories: Vec<(Vec<u8>, Oid)>,
    totals: Totals,
    is_whole: bool,
}

struct Walker<'a> {
    objects: &'a dyn ObjectSource,
    full: bool,
    found: Findings,
}

impl<'a> Walker<'a> {
    fn new(objects: &'a dyn ObjectSource, full: bool) -> Self {
        Self {
            objects,
            full,
            found: Findings::default(),
        }
    }

    fn enter(&mut self, id: Oid, path: Vec<u8>, budget: &mut Budget) -> Result<Frame> {
        let read = self.objects.read(&id, Kind::Tree);
        let opened = match self.present(read, &path, &id)? {
            Some(bytes) => {
                let host_path = Path::new(os_name(&path));
                budget.spend_bytes(bytes.len() as u64, host_path)?;
                let opened = self.open(&id, &bytes, &path)?;
                budget.spend_entries(opened.totals.entries, host_path)?;
                opened
            }
            None => Opened::default(),
        };
        Ok(Frame {
            id,
            path,
            directories: opened.directories.into_iter(),
            totals: opened.totals,
            is_whole: opened.is_whole,
        })
    }

    /// Turns a missing or broken object into a finding.
    fn present<T>(&mut self, read: Result<T>, path: &[u8], id: &Oid) -> Result<Option<T>> {
        let error = match read {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        match error.kind() {
            // A mount has this one path in error; only a look at everything judges the commit.
            ErrorKind::NotFound | ErrorKind::Corrupt if !self.full => {
                let what = Some(error.to_string());
                self.found.attributes_unread.add(path, Some(id), what);
            }
            ErrorKind::NotFound => self.found.missing.add(path, Some(id), None),
            ErrorKind::Corrupt => {
                let what = Some(error.to_string());
                self.found.corrupt.add(path, Some(id), what);
            }
            _ => return Err(error.at(Path::new(os_name(path)))),
        }
        Ok(None)
    }

    /// Looks at the entries of one directory.
    fn open(&mut self, id: &Oid, bytes: &[u8], path: &[u8]) -> Result<Opened> {
        let hash_kind = self.objects.hash_kind();
        if let Err(error) = check_tree(bytes, hash_kind, Strictness::Serve) {
            self.add_bad_tree(id, path, &error);
            return Ok(Opened::default());
        }
        let mut opened = Opened {
            is_whole: true,
            ..Opened::default()
        };
        for entry in entries(bytes, hash_kind) {
            let entry = entry?;
            let entry_path = join(path, entry.name);
            opened.totals.entries = opened.totals.entries.saturating_add(1);
            self.look_at_name(&entry, &entry_path);
            match entry.kind() {
                EntryKind::Directory => opened.directories.push((entry.name.to_vec(), entry.id)),
                EntryKind::Submodule => {
                    self.found
                        .submodules
                        .add(&entry_path, Some(&entry.id), None);
                }
                EntryKind::File { .. } | EntryKind::Symlink => {
                    let size = self.look_at_blob(&entry, &entry_path)?;
                    opened.totals.bytes = opened.totals.bytes.saturating_add(size);
                }
            }
        }
        Ok(opened)
    }

    fn add_bad_tree(&mut self, id: &Oid, path: &[u8], error: &Error) {
        let what = Some(error.message().to_owned());
        self.found.bad_trees.add(path, Some(id), what);
    }

    fn look_at_name(&mut self, entry: &TreeEntry<'_>, path: &[u8]) {
        if !entry.has_canonical_mode() {
            let mode = entry.raw_mode.escape_ascii().to_string();
            let places = &mut self.found.noncanonical_modes;
            places.add(path, Some(&entry.id), Some(mode));
        }
        if entry.name.len() > NAME_LEN_MAX {
            let what = format!("{} bytes", entry.name.len());
            self.found.long_names.add(path, None, Some(what));
        }
        let is_git_file = matches!(
            entry.name,
            b".gitmodules" | b".gitattributes" | b".gitignore" | b".mailmap"
        );
        if is_git_file && entry.kind() == EntryKind::Symlink {
            self.found.git_file_links.add(path, Some(&entry.id), None);
        }
        self.found.has_gitmodules |= entry.name == b".gitmodules" && path == b".gitmodules";
    }

    /// Looks at a file or link and returns its size, 0 where that is not known.
    fn look_at_blob(&mut self, entry: &TreeEntry<'_>, path: &[u8]) -> Result<u64> {
        let is_link = entry.kind() == EntryKind::Symlink;
        let is_attributes = entry.name == b".gitattributes" && !is_link;
        if !self.full && !is_attributes {
            return Ok(0);
        }
        let sized = self.objects.size(&entry.id);
        let Some(size) = self.present(sized, path, &entry.id)? else {
            return Ok(0);
        };
        if is_link && size > TARGET_LEN_MAX {
            let what = Some(format!("{size} bytes"));
            self.found.bad_links.add(path, Some(&entry.id), what);
        } else if is_link {
            self.look_at_target(entry, path)?;
        } else if is_attributes && size > ATTRIBUTES_BYTES_MAX {
            let what = Some(format!("{size} bytes"));
            let places = &mut self.found.attributes_unread;
            places.add(path, Some(&entry.id), what);
        } else if is_attributes {
            if let Some(bytes) = self.read_blob(entry, path)? {
                self.found.add_attributes(&bytes, path);
            }
        } else if POINTER_BYTES.contains(&size) && self.found.pointers_read < POINTERS_READ_MAX {
            self.found.pointers_read += 1;
            let is_pointer = |bytes: Vec<u8>| bytes.starts_with(POINTER_START);
            if self.read_blob(entry, path)?.is_some_and(is_pointer) {
                self.found.lfs.add(path, Some(&entry.id), None);
            }
        }
        Ok(size)
    }

    fn look_at_target(&mut self, entry: &TreeEntry<'_>, path: &[u8]) -> Result<()> {
        let Some(target) = self.read_blob(entry, path)? else {
            return Ok(());
        };
        let what = if target.is_empty() {
            "empty target"
        } else if target.contains(&0) {
            "a NUL in the target"
        } else {
            return Ok(());
        };
        let places = &mut self.found.bad_links;
        places.add(path, Some(&entry.id), Some(what.into()));
        Ok(())
    }

    fn read_blob(&mut self, entry: &TreeEntry<'_>, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let read = self.objects.read(&entry.id, Kind::Blob);
        self.present(read, path, &entry.id)
    }
}

impl Findings {
    /// Adds what an attribute file sets; `path` is where it lies.
    pub(super) fn add_attributes(&mut self, bytes: &[u8], path: &[u8]) {
        let set = Attributes::read(bytes);
        if set.lfs {
            self.lfs.add(path, None, Some("filter=lfs".into()));
        }
        for name in &set.filters {
            self.filters.add(path, None, Some(format!("filter={name}")));
        }
        if set.line_ends {
            self.line_ends.add(path, None, None);
        }
        if set.ident_export {
            self.ident_export.add(path, None, None);
        }
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"" => name.to_vec(),
        _ => [directory, b"/", name].concat(),
    }
}
