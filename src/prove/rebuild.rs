//! Tree ids rebuilt bottom-up from what the kernel showed (R27): a directory whose entries are all
//! hashed is encoded and hashed itself, and its id handed to its parent.
//!
//! The text of a mode comes from the authenticated tree where the kernel shows what that mode means
//! (R11), since `100664` and `100644` look the same on disk; elsewhere it is git's own text.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::git::{HashKind, Kind, Oid, TreeEntry, encode_tree, entries, hash_object};

/// What the kernel showed of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// The id that its bytes hash to; for a submodule, the id that the tree gives.
    pub id: Oid,
    /// Git's text for the mode that was seen, where it is not the one expected.
    pub other_mode: Option<&'static [u8]>,
}

/// One directory on its way to an id.
#[derive(Debug)]
pub(super) struct Node {
    /// The path below the root, raw bytes; empty for the root.
    pub path: Vec<u8>,
    /// The expected tree's verified bytes.
    pub expected: Arc<[u8]>,
    /// Its id.
    pub tree_id: Oid,
    /// The parent and the index of this directory in it; `None` for the root.
    parent: Option<(Arc<Self>, usize)>,
    /// Work that must end before the id can be computed.
    pending: AtomicUsize,
    shown: Mutex<Vec<Option<Shown>>>,
    has_extras: AtomicBool,
}

/// Frees a branch level by level: a chain of thousands must not recurse.
impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some((node, _)) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

impl Node {
    /// Makes the node of a directory; one piece of work, its own listing, is pending.
    pub(super) fn new(
        path: Vec<u8>,
        tree_id: Oid,
        expected: Arc<[u8]>,
        parent: Option<(Arc<Self>, usize)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            path,
            expected,
            tree_id,
            parent,
            pending: AtomicUsize::new(1),
            shown: Mutex::default(),
            has_extras: AtomicBool::new(false),
        })
    }

    /// Returns the path of the entry `name` in this directory.
    pub(super) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.path.len() + 1 + name.len());
        path.extend_from_slice(&self.path);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// Returns the expected entries, which were checked before the walk.
    pub(super) fn entries(&self, hash_kind: HashKind) -> Result<Vec<TreeEntry<'_>>> {
        entries(&self.expected, hash_kind).collect()
    }

    /// Makes room for `count` entries, all unknown.
    pub(super) fn expect(&self, count: usize) {
        self.lock().resize(count, None);
    }

    /// Says that the directory holds a name that the tree does not: its id cannot be rebuilt.
    pub(super) fn mark_extra(&self) {
        self.has_extras.store(true, Ordering::Relaxed);
    }

    /// Announces more work that must end first.
    pub(super) fn add_pending(&self, count: usize) {
        self.pending.fetch_add(count, Ordering::Relaxed);
    }

    /// Records what was shown of some entries, by index.
    pub(super) fn record(&self, seen: impl IntoIterator<Item = (usize, Shown)>) {
        let mut shown = self.lock();
        for (index, what) in seen {
            if let Some(slot) = shown.get_mut(index) {
                *slot = Some(what);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Shown>>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of what was shown; `None` where a part is missing, extra or unreadable.
    fn rebuild(&self, hash_kind: HashKind) -> Result<Option<Oid>> {
        if self.has_extras.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let expected = self.entries(hash_kind)?;
        let shown = std::mem::take(&mut *self.lock());
        if shown.len() != expected.len() {
            return Ok(None);
        }
        let Some(shown) = shown.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let parts = expected.iter().zip(&shown).map(|(entry, shown)| {
            (
                shown.other_mode.unwrap_or(entry.raw_mode),
                entry.name,
                &shown.id,
            )
        });
        hash_object(hash_kind, Kind::Tree, &encode_tree(parts)).map(Some)
    }
}

/// Ends one piece of work of `node`; computes its id where it was the last, and so on upwards.
/// Returns the root's id once that is known: `Some(None)` where it cannot be rebuilt.
///
/// # Errors
/// `collision` where what was shown carries a SHA-1 collision attack.
pub(super) fn finish(mut node: Arc<Node>, hash_kind: HashKind) -> Result<Option<Option<Oid>>> {
    loop {
        if node.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
            return Ok(None);
        }
        let id = node.rebuild(hash_kind)?;
        let Some((parent, index)) = node.parent.clone() else {
            return Ok(Some(id));
        };
        let other_mode = None;
        parent.record(id.map(|id| (index, Shown { id, other_mode })));
        node = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA1: HashKind = HashKind::Sha1;

    fn shown(id: Oid) -> Shown {
        Shown {
            id,
            other_mode: None,
        }
    }

    #[test]
    fn r11_a_tree_with_an_odd_mode_rebuilds_to_its_own_id() {
        let blob_id = Oid::empty_blob(SHA1);
        let bytes = encode_tree([(&b"100664"[..], &b"f"[..], &blob_id)]);
        let tree_id = hash_object(SHA1, Kind::Tree, &bytes).unwrap();
        let node = Node::new(Vec::new(), tree_id, bytes.into(), None);
        node.expect(1);
        node.record([(0, shown(blob_id))]);
        assert_eq!(finish(node, SHA1).unwrap(), Some(Some(tree_id)));
    }

    #[test]
    fn a_directory_waits_for_all_its_parts_and_an_unknown_part_leaves_no_id() {
        let tree_id = Oid::empty_tree(SHA1);
        let bytes = encode_tree([(&b"40000"[..], &b"d"[..], &tree_id)]);
        let root = Node::new(Vec::new(), tree_id, bytes.into(), None);
        root.expect(1);
        root.add_pending(1);
        let child = Node::new(
            b"d".to_vec(),
            tree_id,
            Arc::from([]),
            Some((Arc::clone(&root), 0)),
        );
        child.mark_extra();
        assert_eq!(finish(root, SHA1).unwrap(), None);
        assert_eq!(finish(child, SHA1).unwrap(), Some(None));
    }

    #[test]
    fn a_branch_of_a_hundred_thousand_levels_is_freed_without_recursion() {
        let tree_id = Oid::empty_tree(SHA1);
        let mut node = Node::new(Vec::new(), tree_id, Arc::from([]), None);
        for _ in 0..100_000 {
            node = Node::new(Vec::new(), tree_id, Arc::from([]), Some((node, 0)));
        }
        drop(node);
    }
}
