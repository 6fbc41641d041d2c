//! What each thread of a proof does: list directories through the kernel and hold them against
//! their trees, then read and hash what is in them (R27).
//!
//! Directories are opened by their path from the root, so that a deep tree costs no descriptor for
//! each level; `openat2` keeps each step beneath the root, in its mount and off symbolic links.

use std::sync::{Arc, Mutex};

use hashbrown::HashMap;

use super::content::{BUFFER_BYTES, Trouble, check_leaf, trouble};
use super::difference::{Difference, DifferenceKind};
use super::expect::ExpectedTree;
use super::rebuild::{Node, Shown};
use super::totals::Totals;
use super::walk::{Position, Walk, lock};
use crate::git::{EntryKind, TreeEntry};
use crate::sys::{DirFd, FileKind};

/// Files and links that one thread takes at a time.
const BATCH: usize = 64;

/// The longest name that the kernel carries (R22).
const NAME_BYTES_MAX: usize = 255;

/// A piece of work.
#[derive(Debug)]
pub(super) enum Task {
    /// List a directory.
    Directory(Arc<Node>),
    /// Read some files and links of a directory.
    Leaves(Arc<Node>, Arc<DirFd>, Vec<Leaf>),
}

/// A file or link: its index in the tree and where its entry stands in the tree's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    index: usize,
    offset: usize,
}

/// One thread.
pub(super) struct Worker<'w> {
    walk: &'w Walk,
    position: &'w Mutex<Option<Position>>,
    buffer: Vec<u8>,
    totals: Totals,
}

/// A thread that panics must not leave the others waiting for its work.
impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.walk.stop();
        }
        lock(&self.walk.totals).merge(std::mem::take(&mut self.totals));
    }
}

impl<'w> Worker<'w> {
    /// Makes a thread that says in `position` what it is at.
    pub(super) fn new(walk: &'w Walk, position: &'w Mutex<Option<Position>>) -> Self {
        Self {
            walk,
            position,
            buffer: vec![0; BUFFER_BYTES],
            totals: Totals::default(),
        }
    }

    /// Works until nothing is left or the walk is stopped.
    pub(super) fn run(&mut self) {
        while let Some(task) = self.walk.queue.take() {
            match task {
                Task::Directory(node) => {
                    if let Err(trouble) = self.directory(&node) {
                        self.walk.note(trouble);
                    }
                    self.walk.finish(node);
                }
                Task::Leaves(node, dir, leaves) => self.leaves(node, &dir, &leaves),
            }
            *lock(self.position) = None;
            self.walk.queue.done();
        }
    }

    fn at(&self, node: &Arc<Node>, offset: Option<usize>) {
        let node = Arc::clone(node);
        *lock(self.position) = Some(Position { node, offset });
    }

    /// Lists a directory and holds it against its tree.
    fn directory(&mut self, node: &Arc<Node>) -> Result<(), Trouble> {
        self.at(node, None);
        let fail = |error| match trouble(error, &node.path, node.tree_id) {
            Trouble::Differs(difference) => Trouble::Differs(difference.directory(true)),
            other => other,
        };
        let dir = self.walk.root.open_dir_deep(&node.path).map_err(fail)?;
        let expected = node
            .entries(self.walk.hash_kind())
            .map_err(Trouble::Failed)?;
        let listed = self.list(node, &dir, &expected).map_err(fail)?;
        node.expect(expected.len());
        let mut leaves = Vec::new();
        let mut below = Vec::new();
        for (index, (entry, listed)) in expected.iter().zip(listed).enumerate() {
            self.totals.count(entry);
            match self.entry(node, &dir, entry, listed) {
                Ok(Next::Leaf) => leaves.push(Leaf {
                    index,
                    offset: entry.offset,
                }),
                Ok(Next::Below(bytes)) => {
                    let path = node.path_of(entry.name);
                    let parent = Some((Arc::clone(node), index));
                    below.push(Task::Directory(Node::new(path, entry.id, bytes, parent)));
                }
                Ok(Next::Done(shown)) => node.record([(index, shown)]),
                Err(trouble) => self.walk.note(trouble),
            }
        }
        self.walk
            .progress
            .add((expected.len() - leaves.len()) as u64, 0);
        self.share(node, dir, &leaves, below);
        Ok(())
    }

    /// Leaves subdirectories and all but the first batch of files to whoever is free.
    fn share(&mut self, node: &Arc<Node>, dir: DirFd, leaves: &[Leaf], below: Vec<Task>) {
        let dir = Arc::new(dir);
        let mut batches = leaves.chunks(BATCH);
        let own = batches.next();
        let others: Vec<_> = batches
            .map(|batch| Task::Leaves(Arc::clone(node), Arc::clone(&dir), batch.to_vec()))
            .collect();
        node.add_pending(below.len() + others.len() + usize::from(own.is_some()));
        self.walk
            .queue
            .push(below.into_iter().rev().chain(others.into_iter().rev()));
        if let Some(own) = own {
            self.leaves(Arc::clone(node), &dir, own);
        }
    }

    /// Reads and hashes some files and links of one directory.
    fn leaves(&mut self, node: Arc<Node>, dir: &DirFd, leaves: &[Leaf]) {
        let mut shown = Vec::with_capacity(leaves.len());
        let mut bytes = 0;
        for leaf in leaves {
            if self.walk.is_stopped() {
                break;
            }
            self.at(&node, Some(leaf.offset));
            let Some(entry) = self.walk.entry_at(&node, leaf.offset) else {
                continue;
            };
            match check_leaf(self.walk, &node, dir, &entry, &mut self.buffer, &mut bytes) {
                Ok(what) => shown.push((leaf.index, what)),
                Err(trouble) => self.walk.note(trouble),
            }
        }
        self.totals.bytes += bytes;
        self.walk.progress.add(leaves.len() as u64, bytes);
        node.record(shown);
        self.walk.finish(node);
    }

    /// Lists `dir`: the kind of each expected entry, `None` where it is not listed. What is not
    /// expected is a difference at once and is not kept.
    fn list(
        &self,
        node: &Node,
        dir: &DirFd,
        expected: &[TreeEntry<'_>],
    ) -> std::io::Result<Vec<Option<FileKind>>> {
        let index: HashMap<&[u8], usize> = expected.iter().map(|e| e.name).zip(0..).collect();
        let mut listed = vec![None; expected.len()];
        dir.visit(|name, kind| {
            let slot = index.get(name).and_then(|at| listed.get_mut(*at));
            let detail = match slot {
                Some(slot @ None) => {
                    *slot = Some(kind);
                    return;
                }
                Some(Some(_)) => Some("listed twice"),
                None => None,
            };
            node.mark_extra();
            let path = node.path_of(name);
            let mut difference = Difference::new(path, DifferenceKind::Extra, None)
                .directory(kind == FileKind::Directory);
            difference.detail = detail.map(String::from);
            self.walk.add(difference);
        })?;
        Ok(listed)
    }

    /// Judges what one expected entry is listed as, and says what must be done with it next.
    fn entry(
        &mut self,
        node: &Node,
        dir: &DirFd,
        entry: &TreeEntry<'_>,
        listed: Option<FileKind>,
    ) -> Result<Next, Trouble> {
        let path = || node.path_of(entry.name);
        let expected = entry.kind();
        let differs = |kind| {
            Difference::new(path(), kind, Some(entry.id))
                .directory(expected == EntryKind::Directory)
        };
        let kind = match listed {
            None if entry.name.len() > NAME_BYTES_MAX => {
                let why = format!(
                    "a name of {} bytes; the kernel carries 255",
                    entry.name.len()
                );
                return Err(Trouble::Differs(
                    differs(DifferenceKind::Unreadable).because(why),
                ));
            }
            None => return Err(Trouble::Differs(differs(DifferenceKind::Missing))),
            Some(FileKind::Unknown) => {
                let stat = dir.stat(entry.name);
                stat.map_err(|error| trouble(error, &path(), entry.id))?
                    .kind
            }
            Some(kind) => kind,
        };
        match (expected, kind) {
            (EntryKind::File { .. }, FileKind::File) | (EntryKind::Symlink, FileKind::Symlink) => {
                Ok(Next::Leaf)
            }
            (EntryKind::Directory, FileKind::Directory) => {
                match self.walk.plan().tree(&entry.id).map_err(Trouble::Failed)? {
                    ExpectedTree::Known(bytes) => Ok(Next::Below(Arc::clone(bytes))),
                    ExpectedTree::Unavailable(why) => Err(Trouble::Differs(
                        differs(DifferenceKind::Unreadable).because(why),
                    )),
                }
            }
            (EntryKind::Submodule, FileKind::Directory) => {
                self.totals.list_gitlink(path(), entry.id);
                self.gitlink(dir, entry, path)
            }
            (_, FileKind::Special) => Err(Trouble::Differs(differs(DifferenceKind::SpecialFile))),
            (_, kind) => {
                let detail = format!("the kernel shows a {}", word(kind));
                Err(Trouble::Differs(
                    differs(DifferenceKind::Type).because(detail),
                ))
            }
        }
    }

    /// A submodule is an empty directory (R25); its id can only come from the tree.
    fn gitlink(
        &self,
        dir: &DirFd,
        entry: &TreeEntry<'_>,
        path: impl Fn() -> Vec<u8>,
    ) -> Result<Next, Trouble> {
        let fail = |error| trouble(error, &path(), entry.id);
        let mut held = 0_u64;
        let inside = dir.open_dir(entry.name).map_err(fail)?;
        inside.visit(|_, _| held += 1).map_err(fail)?;
        if held > 0 {
            let kind = DifferenceKind::GitlinkNotEmpty;
            let detail = format!("{held} entries");
            let difference = Difference::new(path(), kind, Some(entry.id)).because(detail);
            return Err(Trouble::Differs(difference));
        }
        Ok(Next::Done(Shown {
            id: entry.id,
            other_mode: None,
        }))
    }
}

/// What must be done with an entry that is listed as it should be.
enum Next {
    Leaf,
    Below(Arc<[u8]>),
    Done(Shown),
}

fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Special => "special file",
        FileKind::Unknown => "thing without a type",
    }
}
