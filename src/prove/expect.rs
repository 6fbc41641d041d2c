//! What the directory should be: every tree of the commit, read once from the object source,
//! checked and counted before a single path is walked (R10, R28, R35).
//!
//! Trees are kept by id, so a tree bomb costs what its distinct objects cost; paths are counted
//! with saturating sums over that graph, and a commit over the caps is refused here.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::budget::Limits;
use crate::error::{Error, ErrorKind, Result};
use crate::git::{
    Commit, EntryKind, HashKind, Kind, ObjectSource, Oid, Strictness, check_tree, empty_tree_id,
    entries, load_commit,
};
use crate::sys::os_name;

/// The bytes of all distinct trees together that are held in memory.
const TREE_BYTES_MAX: u64 = 4 << 30;

/// Levels with fewer trees than this are not worth more than one thread.
const PARALLEL_FROM: usize = 32;

/// One distinct tree of the commit.
#[derive(Debug, Clone)]
pub(super) enum ExpectedTree {
    /// Its verified and checked bytes.
    Known(Arc<[u8]>),
    /// The store cannot give it, or it breaks a rule of R10: nothing below can be proved.
    Unavailable(String),
}

/// The commit and all its trees.
#[derive(Debug)]
pub(super) struct Plan {
    /// The commit, verified.
    pub commit: Commit,
    /// The hash of its ids.
    pub hash_kind: HashKind,
    /// Paths below the root, each counted; saturating.
    pub entries: u64,
    root_tree: Arc<[u8]>,
    trees: HashMap<Oid, ExpectedTree>,
    found_in: HashMap<Oid, (Oid, Vec<u8>)>,
}

/// Number of paths and of levels below one tree.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    entries: u64,
    depth: u32,
}

impl Plan {
    /// Reads the commit and its trees with `threads` threads and refuses what is over `limits`.
    ///
    /// # Errors
    /// What [`load_commit`] says; `missing-object`, `corrupt-object` or `bad-tree` for the root
    /// tree; `budget-entries`, `budget-depth`. A deeper tree that cannot be read or breaks a rule
    /// of R10 is kept as [`ExpectedTree::Unavailable`].
    pub(super) fn load(
        objects: &dyn ObjectSource,
        commit_id: &Oid,
        limits: &Limits,
        threads: u16,
    ) -> Result<Self> {
        let commit = load_commit(objects, commit_id)?;
        let mut plan = Self {
            hash_kind: objects.hash_kind(),
            entries: 0,
            root_tree: Arc::from([]),
            trees: HashMap::new(),
            found_in: HashMap::new(),
            commit,
        };
        plan.read_trees(objects, limits, threads)?;
        plan.count(limits)?;
        Ok(plan)
    }

    /// Returns the bytes of the root tree.
    pub(super) fn root_tree(&self) -> Arc<[u8]> {
        Arc::clone(&self.root_tree)
    }

    /// Returns the tree `id`, which must be one that the commit refers to.
    pub(super) fn tree(&self, id: &Oid) -> Result<&ExpectedTree> {
        self.trees.get(id).ok_or_else(|| {
            let message = format!("tree {id} was not read with the others");
            Error::new(ErrorKind::Internal, "internal", message)
        })
    }

    /// Returns the distinct trees, each once, parents before what they hold, in tree order.
    pub(super) fn trees_in_order(&self) -> Result<Vec<(Oid, Arc<[u8]>)>> {
        let mut out = Vec::with_capacity(self.trees.len());
        let mut seen = HashSet::new();
        let mut stack = vec![self.commit.tree_id];
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            match self.tree(&id)? {
                ExpectedTree::Known(bytes) => {
                    let mut below = self.subtrees(bytes)?;
                    below.reverse();
                    stack.extend(below);
                    out.push((id, Arc::clone(bytes)));
                }
                ExpectedTree::Unavailable(why) => {
                    return Err(Error::new(ErrorKind::NotFound, "missing-object", why)
                        .about(id)
                        .at(self.path_of(id)));
                }
            }
        }
        Ok(out)
    }

    fn subtrees(&self, bytes: &[u8]) -> Result<Vec<Oid>> {
        let mut out = Vec::new();
        for entry in entries(bytes, self.hash_kind) {
            let entry = entry?;
            if entry.kind() == EntryKind::Directory {
                out.push(entry.id);
            }
        }
        Ok(out)
    }

    /// A path at which the tree `id` is found; the root for the root tree.
    fn path_of(&self, id: Oid) -> PathBuf {
        let mut names = Vec::new();
        let mut at = id;
        while let Some((parent, name)) = self.found_in.get(&at) {
            names.push(name.as_slice());
            at = *parent;
        }
        if names.is_empty() {
            return PathBuf::from(".");
        }
        names.iter().rev().map(|name| os_name(name)).collect()
    }

    fn read_trees(
        &mut self,
        objects: &dyn ObjectSource,
        limits: &Limits,
        threads: u16,
    ) -> Result<()> {
        let root = self.commit.tree_id;
        let mut level = vec![root];
        let (mut entries_seen, mut bytes_held) = (0_u64, 0_u64);
        while !level.is_empty() {
            level.sort_by_cached_key(|id| objects.place(id));
            let mut next = Vec::new();
            for (id, read) in level.iter().zip(read_level(objects, &level, threads)) {
                let checked = read.and_then(|bytes| {
                    let notes = check_tree(&bytes, self.hash_kind, Strictness::Serve)?;
                    Ok((bytes, notes))
                });
                let (bytes, notes) = match checked {
                    Ok(checked) => checked,
                    Err(error) if *id == root => {
                        return Err(error.about(id).at(self.path_of(*id)));
                    }
                    Err(error) => {
                        let why = format!("{}: {error}", error.slug());
                        self.trees.insert(*id, ExpectedTree::Unavailable(why));
                        continue;
                    }
                };
                entries_seen = entries_seen.saturating_add(u64::from(notes.entries));
                bytes_held = bytes_held.saturating_add(bytes.len() as u64);
                if entries_seen > limits.entries_max || bytes_held > TREE_BYTES_MAX {
                    return Err(over_entries(limits, entries_seen).at(self.path_of(*id)));
                }
                for entry in entries(&bytes, self.hash_kind) {
                    let entry = entry?;
                    let is_new = entry.kind() == EntryKind::Directory
                        && entry.id != root
                        && !self.found_in.contains_key(&entry.id);
                    if is_new {
                        self.found_in.insert(entry.id, (*id, entry.name.to_vec()));
                        next.push(entry.id);
                    }
                }
                let bytes: Arc<[u8]> = bytes.into();
                if *id == root {
                    self.root_tree = Arc::clone(&bytes);
                }
                self.trees.insert(*id, ExpectedTree::Known(bytes));
            }
            level = next;
        }
        Ok(())
    }

    /// Counts paths and levels, each distinct tree once, without recursion.
    fn count(&mut self, limits: &Limits) -> Result<()> {
        let mut done: HashMap<Oid, Extent> = HashMap::new();
        let mut stack = vec![(self.commit.tree_id, false)];
        while let Some((id, below_is_done)) = stack.pop() {
            if done.contains_key(&id) {
                continue;
            }
            let ExpectedTree::Known(bytes) = self.tree(&id)? else {
                done.insert(id, Extent::default());
                continue;
            };
            if !below_is_done {
                stack.push((id, true));
                let below = self.subtrees(bytes)?;
                stack.extend(below.into_iter().map(|id| (id, false)));
                continue;
            }
            let mut extent = Extent::default();
            for entry in entries(bytes, self.hash_kind) {
                let entry = entry?;
                extent.entries = extent.entries.saturating_add(1);
                if entry.kind() == EntryKind::Directory {
                    let below = done.get(&entry.id).copied().unwrap_or_default();
                    extent.entries = extent.entries.saturating_add(below.entries);
                    extent.depth = extent.depth.max(below.depth.saturating_add(1));
                }
            }
            done.insert(id, extent);
        }
        let whole = done.get(&self.commit.tree_id).copied().unwrap_or_default();
        self.entries = whole.entries;
        if whole.depth > limits.depth_max {
            let at = self.first_path_over(&done, |extent, level, _| {
                level.saturating_add(extent.depth) > limits.depth_max
            })?;
            let max = limits.depth_max;
            let message = format!(
                "the commit's tree is {} levels deep, over the {max} allowed; raise --max-depth",
                whole.depth
            );
            return Err(Error::new(ErrorKind::Budget, "budget-depth", message).at(at));
        }
        if whole.entries > limits.entries_max {
            let at = self.first_path_over(&done, |extent, _, before| {
                before.saturating_add(extent.entries) > limits.entries_max
            })?;
            return Err(over_entries(limits, whole.entries).at(at));
        }
        Ok(())
    }

    /// The first directory in tree order in which `is_over` comes true, as deep as it stays true;
    /// `is_over` is given a tree's extent, its level and the number of paths before its content.
    fn first_path_over(
        &self,
        extents: &HashMap<Oid, Extent>,
        is_over: impl Fn(Extent, u32, u64) -> bool,
    ) -> Result<PathBuf> {
        let mut path = PathBuf::new();
        let (mut at, mut level, mut before) = (self.commit.tree_id, 0_u32, 0_u64);
        'down: while let ExpectedTree::Known(bytes) = self.tree(&at)? {
            if path.as_os_str().len() > 4096 {
                break;
            }
            for entry in entries(bytes, self.hash_kind) {
                let entry = entry?;
                before = before.saturating_add(1);
                if entry.kind() != EntryKind::Directory {
                    continue;
                }
                let extent = extents.get(&entry.id).copied().unwrap_or_default();
                if is_over(extent, level.saturating_add(1), before) {
                    path.push(os_name(entry.name));
                    at = entry.id;
                    level = level.saturating_add(1);
                    continue 'down;
                }
                before = before.saturating_add(extent.entries);
            }
            break;
        }
        if path.as_os_str().is_empty() {
            path.push(".");
        }
        Ok(path)
    }
}

fn over_entries(limits: &Limits, found: u64) -> Error {
    let max = limits.entries_max;
    let message = if found > max {
        format!(
            "the commit has at least {found} entries, over the {max} allowed; raise --max-entries"
        )
    } else {
        format!("the commit's trees are over the {TREE_BYTES_MAX} bytes that a proof may hold")
    };
    Error::new(ErrorKind::Budget, "budget-entries", message)
}

/// Reads the trees of one level, in the order given.
fn read_level(objects: &dyn ObjectSource, ids: &[Oid], threads: u16) -> Vec<Result<Vec<u8>>> {
    let read = |id: &Oid| {
        if *id == empty_tree_id(objects.hash_kind()) {
            return Ok(Vec::new());
        }
        objects.read(id, Kind::Tree)
    };
    let threads = usize::from(threads.max(1));
    if threads == 1 || ids.len() < PARALLEL_FROM {
        return ids.iter().map(read).collect();
    }
    std::thread::scope(|scope| {
        let parts: Vec<_> = ids
            .chunks(ids.len().div_ceil(threads))
            .map(|part| {
                (
                    part,
                    scope.spawn(move || part.iter().map(read).collect::<Vec<_>>()),
                )
            })
            .collect();
        let ended = |_| {
            Err(Error::new(
                ErrorKind::Internal,
                "internal",
                "a reader ended early",
            ))
        };
        parts
            .into_iter()
            .flat_map(|(part, thread)| {
                thread
                    .join()
                    .unwrap_or_else(|_| part.iter().map(ended).collect())
            })
            .collect()
    })
}
