//! What the base's tree spells: counted before anything is expanded, then written out.

use std::collections::HashMap;
use std::path::Path;

use super::super::source::corrupt;
use super::super::{EntryKind, ObjectSource, Oid, entries};
use super::Closure;
use crate::budget::Budget;
use crate::error::Result;
use crate::sys::os_name;

/// What a tree spells when every path is written out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeTotals {
    /// Files, links and submodules.
    pub files: u64,
    /// Directories, the root not counted.
    pub directories: u64,
    /// Bytes of all blobs, by their headers.
    pub bytes: u64,
    /// The same, each file rounded up to whole 4 KiB blocks.
    pub block_bytes: u64,
}

/// The base's tree, written out.
#[derive(Debug, Default)]
pub struct Layout {
    /// Directories before what they hold, the root (an empty path) first.
    pub directories: Vec<LayoutDirectory>,
    /// Files, links and submodules.
    pub files: Vec<LayoutFile>,
}

/// One directory of a [`Layout`].
#[derive(Debug)]
pub struct LayoutDirectory {
    /// Path from the root, without a slash at either end.
    pub path: Vec<u8>,
    /// Its tree.
    pub tree_id: Oid,
}

/// One file, link or submodule of a [`Layout`].
#[derive(Debug)]
pub struct LayoutFile {
    /// Path from the root.
    pub path: Vec<u8>,
    /// What it is; never a directory.
    pub kind: EntryKind,
    /// The blob, or the commit of a submodule.
    pub id: Oid,
    /// Size of the blob in bytes, by its header; 0 for a submodule.
    pub size: u64,
}

impl Closure {
    /// Counts what the base's tree spells, each distinct tree once.
    pub(super) fn count(
        &mut self,
        objects: &dyn ObjectSource,
        budget: &mut Budget,
    ) -> Result<TreeTotals> {
        let mut sizes = HashMap::with_capacity(self.blobs.len());
        let mut known: HashMap<Oid, TreeTotals> = HashMap::new();
        let mut stack = vec![(self.base.tree_id, false)];
        let mut depth = 0_u32;
        while let Some((tree_id, children_known)) = stack.pop() {
            if children_known {
                depth = depth.saturating_sub(1);
            }
            if known.contains_key(&tree_id) {
                continue;
            }
            if !children_known {
                budget.check_depth(depth, Path::new(""))?;
                depth += 1;
                stack.push((tree_id, true));
            }
            let mut totals = TreeTotals::default();
            for entry in entries(self.base_tree(&tree_id)?, objects.hash_kind()) {
                let entry = entry?;
                match entry.kind() {
                    EntryKind::Directory if !children_known => stack.push((entry.id, false)),
                    EntryKind::Directory => {
                        let below = known
                            .get(&entry.id)
                            .copied()
                            .ok_or_else(|| corrupt(&entry.id, "is a tree that holds itself"))?;
                        totals.directories = totals.directories.saturating_add(1);
                        totals.add(below);
                    }
                    EntryKind::Submodule => totals.files = totals.files.saturating_add(1),
                    EntryKind::File { .. } | EntryKind::Symlink if children_known => {
                        let bytes = match sizes.get(&entry.id) {
                            Some(bytes) => *bytes,
                            None => {
                                let bytes = objects.size(&entry.id)?;
                                sizes.insert(entry.id, bytes);
                                bytes
                            }
                        };
                        totals.add(TreeTotals {
                            files: 1,
                            directories: 0,
                            bytes,
                            block_bytes: bytes.div_ceil(4096).saturating_mul(4096),
                        });
                    }
                    EntryKind::File { .. } | EntryKind::Symlink => {}
                }
            }
            if children_known {
                known.insert(tree_id, totals);
            }
        }
        self.sizes = sizes;
        let totals = known.get(&self.base.tree_id).copied().unwrap_or_default();
        let root = Path::new("");
        budget.spend_entries(totals.files.saturating_add(totals.directories), root)?;
        budget.spend_bytes(totals.bytes, root)?;
        Ok(totals)
    }

    /// Writes the base's tree out: every directory, file, link and submodule with its path. The
    /// walk's budget has bounded how many there are.
    ///
    /// # Errors
    /// `missing-object`, `corrupt-object` where a blob's size cannot be told.
    pub fn layout(&self, objects: &dyn ObjectSource) -> Result<Layout> {
        let mut layout = Layout::default();
        let mut stack = vec![(Vec::new(), self.base.tree_id)];
        while let Some((path, tree_id)) = stack.pop() {
            for entry in entries(self.base_tree(&tree_id)?, objects.hash_kind()) {
                let entry = entry?;
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(entry.name);
                let kind = entry.kind();
                if kind == EntryKind::Directory {
                    stack.push((below, entry.id));
                    continue;
                }
                let size = match kind {
                    EntryKind::Submodule => 0,
                    _ => self
                        .size(objects, &entry.id)
                        .map_err(|e| e.at(Path::new(os_name(&below))))?,
                };
                layout.files.push(LayoutFile {
                    path: below,
                    kind,
                    id: entry.id,
                    size,
                });
            }
            layout.directories.push(LayoutDirectory { path, tree_id });
        }
        Ok(layout)
    }
}

impl TreeTotals {
    fn add(&mut self, other: Self) {
        self.files = self.files.saturating_add(other.files);
        self.directories = self.directories.saturating_add(other.directories);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.block_bytes = self.block_bytes.saturating_add(other.block_bytes);
    }
}
