//! What a seed or an export holds: the commits of a bounded history and every object of their
//! trees, each visited once (R82, R124). A tree that spells billions of files is counted, memoised
//! by tree id, and refused before anything is expanded (R35).

mod history;
mod layout;

use std::collections::{HashMap, HashSet};

use super::{Commit, EntryKind, Kind, ObjectSource, Oid, Strictness, check_tree, entries};
use crate::budget::Budget;
use crate::error::Result;

pub use self::history::History;
pub use self::layout::{Layout, LayoutDirectory, LayoutFile, TreeTotals};

use self::history::walk_commits;

/// The objects of a commit and its history.
#[derive(Debug)]
pub struct Closure {
    /// The commit it starts from.
    pub base: Commit,
    /// All commits, the base first.
    pub commits: Vec<Oid>,
    /// All trees, each once.
    pub trees: Vec<Oid>,
    /// All blobs, each once.
    pub blobs: Vec<Oid>,
    /// The commits whose parents are left out: the lines of git's `shallow` file, sorted.
    pub shallow: Vec<Oid>,
    /// Whether the source is shallow and has less history than was asked for (R96).
    pub truncated: bool,
    /// What the base's tree spells.
    pub totals: TreeTotals,
    base_trees: HashMap<Oid, Vec<u8>>,
    /// Sizes that were asked for already; asking costs more than looking here.
    sizes: HashMap<Oid, u64>,
}

/// One object of a pack that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackItem {
    /// Its kind.
    pub kind: Kind,
    /// Its id.
    pub id: Oid,
    /// Where it lies in the source, see [`ObjectSource::place`].
    pub place: Option<u64>,
    /// Bytes of its content, by its header.
    pub size: u64,
}

impl Closure {
    /// Walks the history of `base` and all trees of it.
    ///
    /// `source_shallow` are the commits that the source's own `shallow` file names: their parents
    /// are not looked for, as git does not. Every tree of the base is held to git's rules for names
    /// (R10); the content of no blob is read.
    ///
    /// # Errors
    /// `missing-object`, `corrupt-object`, `bad-tree`; `budget-entries`, `budget-bytes` and
    /// `budget-depth` where the base's tree spells more than `budget` allows.
    pub fn walk(
        objects: &dyn ObjectSource,
        base: &Commit,
        history: History,
        source_shallow: &HashSet<Oid>,
        budget: &mut Budget,
    ) -> Result<Self> {
        let commits = walk_commits(objects, base, history, source_shallow)?;
        let mut closure = Self {
            base: base.clone(),
            commits: commits.ids,
            trees: Vec::new(),
            blobs: Vec::new(),
            shallow: commits.shallow,
            truncated: commits.truncated,
            totals: TreeTotals::default(),
            base_trees: HashMap::new(),
            sizes: HashMap::new(),
        };
        let mut seen = HashSet::new();
        for (at, root) in commits.roots.iter().enumerate() {
            closure.walk_tree(objects, root, &mut seen, at == 0)?;
        }
        closure.totals = closure.count(objects, budget)?;
        Ok(closure)
    }

    fn walk_tree(
        &mut self,
        objects: &dyn ObjectSource,
        root: &Oid,
        seen: &mut HashSet<Oid>,
        is_base: bool,
    ) -> Result<()> {
        let mut stack = vec![*root];
        while let Some(tree_id) = stack.pop() {
            if !seen.insert(tree_id) {
                continue;
            }
            let bytes = objects.read(&tree_id, Kind::Tree)?;
            if is_base {
                check_tree(&bytes, objects.hash_kind(), Strictness::Serve)
                    .map_err(|e| e.about(tree_id))?;
            }
            self.trees.push(tree_id);
            let first_below = stack.len();
            for entry in entries(&bytes, objects.hash_kind()) {
                let entry = entry.map_err(|e| e.about(tree_id))?;
                match entry.kind() {
                    EntryKind::Directory => stack.push(entry.id),
                    EntryKind::Submodule => {}
                    EntryKind::File { .. } | EntryKind::Symlink => {
                        if seen.insert(entry.id) {
                            self.blobs.push(entry.id);
                        }
                    }
                }
            }
            stack.get_mut(first_below..).unwrap_or_default().reverse();
            if is_base {
                self.base_trees.insert(tree_id, bytes);
            }
        }
        Ok(())
    }

    fn base_tree(&self, tree_id: &Oid) -> Result<&[u8]> {
        self.base_trees
            .get(tree_id)
            .map(Vec::as_slice)
            .ok_or_else(|| super::source::missing(tree_id))
    }

    /// Returns all objects in the order a pack holds them: commits, trees, blobs, each kind in the
    /// order it lies in the source, so that reading is one sweep and every delta's base that comes
    /// first there comes first here.
    ///
    /// # Errors
    /// `missing-object`, `corrupt-object` where the size of one cannot be told.
    pub fn pack_order(&self, objects: &dyn ObjectSource) -> Result<Vec<PackItem>> {
        let mut order = Vec::with_capacity(self.object_count());
        for (kind, ids) in [
            (Kind::Commit, &self.commits),
            (Kind::Tree, &self.trees),
            (Kind::Blob, &self.blobs),
        ] {
            let start = order.len();
            for id in ids {
                let place = objects.place(id);
                let size = self.size(objects, id)?;
                order.push(PackItem {
                    kind,
                    id: *id,
                    place,
                    size,
                });
            }
            if let Some(placed) = order.get_mut(start..) {
                placed.sort_unstable_by_key(|item| (item.place.unwrap_or(u64::MAX), item.id));
            }
        }
        Ok(order)
    }

    fn size(&self, objects: &dyn ObjectSource, id: &Oid) -> Result<u64> {
        match self
            .sizes
            .get(id)
            .or(self.base_trees.get(id).map(|t| t.len() as u64).as_ref())
        {
            Some(size) => Ok(*size),
            None => objects.size(id),
        }
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.commits.len() + self.trees.len() + self.blobs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HashKind, MemorySource, encode_tree, load_commit};
    use super::*;
    use crate::budget::Limits;

    struct Small {
        objects: MemorySource,
        tip: Commit,
    }

    fn commit(objects: &mut MemorySource, tree: &Oid, parents: &[Oid], n: u32) -> Oid {
        let parents: String = parents.iter().map(|p| format!("parent {p}\n")).collect();
        let text = format!("tree {tree}\n{parents}committer A <a@b> {n} +0000\n\nm\n");
        objects.insert(Kind::Commit, text).unwrap()
    }

    /// root <- a <- tip, root <- b <- tip
    fn small() -> Small {
        let mut objects = MemorySource::new(HashKind::Sha1);
        let blob = objects.insert(Kind::Blob, "x").unwrap();
        let sub = encode_tree([(&b"100755"[..], &b"run"[..], &blob)]);
        let sub = objects.insert(Kind::Tree, sub).unwrap();
        let list = [
            (&b"100644"[..], &b"f"[..], &blob),
            (b"120000", b"l", &blob),
            (b"160000", b"m", &sub),
            (b"40000", b"z", &sub),
        ];
        let tree = objects.insert(Kind::Tree, encode_tree(list)).unwrap();
        let root = commit(&mut objects, &sub, &[], 1);
        let a = commit(&mut objects, &sub, &[root], 2);
        let b = commit(&mut objects, &tree, &[root], 3);
        let tip = commit(&mut objects, &tree, &[a, b], 4);
        let tip = load_commit(&objects, &tip).unwrap();
        Small { objects, tip }
    }

    fn walk(small: &Small, history: History, shallow: &[Oid]) -> Result<Closure> {
        let shallow = shallow.iter().copied().collect();
        let mut budget = Budget::new(Limits::default());
        Closure::walk(&small.objects, &small.tip, history, &shallow, &mut budget)
    }

    #[test]
    fn r82_history_is_cut_where_it_was_asked_to_be() {
        let small = small();
        for (history, commits, shallow) in [
            (History::Base, 1, 1),
            (History::Depth(1), 1, 1),
            (History::Depth(2), 3, 2),
            (History::Depth(3), 4, 0),
            (History::Full, 4, 0),
        ] {
            let closure = walk(&small, history, &[]).unwrap();
            assert_eq!(
                (closure.commits.len(), closure.shallow.len()),
                (commits, shallow),
                "{history:?}"
            );
            assert!(!closure.truncated);
        }
        let cut = small.tip.parent_ids.clone();
        let closure = walk(&small, History::Full, &cut).unwrap();
        assert_eq!((closure.commits.len(), closure.shallow.len()), (3, 2));
        assert!(closure.truncated);
        assert!(walk(&small, History::Depth(0), &[]).is_err());
    }

    #[test]
    fn the_layout_spells_every_path_once() {
        let small = small();
        let closure = walk(&small, History::Base, &[]).unwrap();
        let layout = closure.layout(&small.objects).unwrap();
        let mut files: Vec<_> = layout
            .files
            .iter()
            .map(|f| f.path.escape_ascii().to_string())
            .collect();
        files.sort();
        assert_eq!(files, ["f", "l", "m", "z/run"]);
        assert_eq!(layout.directories.len(), 2);
        assert_eq!((closure.totals.files, closure.totals.bytes), (4, 3));
        assert_eq!((closure.trees.len(), closure.blobs.len()), (2, 1));
    }

    #[test]
    fn r35_a_tree_that_spells_billions_of_files_is_refused_unexpanded() {
        let mut objects = MemorySource::new(HashKind::Sha1);
        let blob = objects.insert(Kind::Blob, "boom").unwrap();
        let names: Vec<String> = (0..10).map(|n| format!("f{n}")).collect();
        let mut id = blob;
        for level in 0..11 {
            let mode: &[u8] = if level == 0 { b"100644" } else { b"40000" };
            let tree = encode_tree(names.iter().map(|n| (mode, n.as_bytes(), &id)));
            id = objects.insert(Kind::Tree, tree).unwrap();
        }
        let tip = commit(&mut objects, &id, &[], 1);
        let tip = load_commit(&objects, &tip).unwrap();
        let error = walk(&Small { objects, tip }, History::Base, &[]).unwrap_err();
        assert_eq!(error.slug(), "budget-entries");
    }

    #[test]
    fn a_missing_parent_is_an_error_only_where_it_is_asked_for() {
        let mut small = small();
        let absent = Oid::empty_blob(HashKind::Sha1);
        let tree = small.tip.tree_id;
        let tip = commit(&mut small.objects, &tree, &[absent], 9);
        small.tip = load_commit(&small.objects, &tip).unwrap();
        assert!(walk(&small, History::Base, &[]).is_ok());
        assert_eq!(
            walk(&small, History::Full, &[]).unwrap_err().slug(),
            "missing-object"
        );
    }
}
