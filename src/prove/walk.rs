//! One proof under way: what its threads share, and how it ends (R27, R35, R36).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::content::Trouble;
use super::difference::{Difference, Findings};
use super::expect::Plan;
use super::queue::Queue;
use super::rebuild::{Node, finish};
use super::totals::{Progress, Totals};
use super::worker::{Task, Worker};
use crate::budget::Limits;
use crate::error::{Error, ErrorKind, Result};
use crate::git::{HashKind, Oid, TreeEntry, entries};
use crate::sys::{DirFd, os_name};

/// One proof under way, shared by its threads.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) root: DirFd,
    plan: Plan,
    limits: Limits,
    judges_hard_links: bool,
    pub(super) progress: Arc<Progress>,
    pub(super) queue: Queue<Task>,
    findings: Mutex<Findings>,
    ended: Mutex<Option<Ended>>,
    rebuilt: Mutex<Option<Oid>>,
    pub(super) totals: Mutex<Totals>,
    bytes_spent: AtomicU64,
    /// What each thread is at, so that a deadline can name what did not answer.
    positions: Vec<Mutex<Option<Position>>>,
}

/// Why a walk ended before all paths were looked at.
#[derive(Debug)]
pub(super) enum Ended {
    /// It could not be tried to its end.
    Failed(Error),
    /// The server of the mount is gone.
    ServerGone,
}

/// What a thread is at: a directory, or the entry that stands at `offset` in its tree.
#[derive(Debug)]
pub(super) struct Position {
    pub node: Arc<Node>,
    pub offset: Option<usize>,
}

impl Walk {
    /// Prepares the walk of `root` against `plan`.
    pub(super) fn new(
        root: DirFd,
        plan: Plan,
        limits: Limits,
        judges_hard_links: bool,
        threads: u16,
        progress: Arc<Progress>,
    ) -> Self {
        let first = Node::new(Vec::new(), plan.commit.tree_id, plan.root_tree(), None);
        progress
            .entries_expected
            .store(plan.entries, Ordering::Relaxed);
        Self {
            root,
            limits,
            judges_hard_links,
            progress,
            queue: Queue::new(Task::Directory(first)),
            findings: Mutex::default(),
            ended: Mutex::default(),
            rebuilt: Mutex::default(),
            totals: Mutex::default(),
            bytes_spent: AtomicU64::new(0),
            positions: (0..threads.max(1)).map(|_| Mutex::default()).collect(),
            plan,
        }
    }

    /// Walks with the number of threads it was made for and returns when all have ended.
    pub(super) fn run(&self) {
        std::thread::scope(|scope| {
            for position in &self.positions {
                scope.spawn(|| Worker::new(self, position).run());
            }
        });
    }

    /// The hash of the commit's ids.
    pub(super) fn hash_kind(&self) -> HashKind {
        self.plan.hash_kind
    }

    /// The commit and its trees.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether a file with two names is a difference.
    pub(super) fn judges_hard_links(&self) -> bool {
        self.judges_hard_links
    }

    /// Whether the walk was ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.queue.is_stopped()
    }

    /// Makes every thread end at its next step.
    pub(super) fn stop(&self) {
        self.queue.stop();
    }

    /// Adds a difference.
    pub(super) fn add(&self, difference: Difference) {
        lock(&self.findings).add(difference);
    }

    /// Counts the size of a file that is about to be read against the cap (R35).
    pub(super) fn spend_bytes(
        &self,
        count: u64,
        path: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), Trouble> {
        let add = |spent: u64| Some(spent.saturating_add(count));
        let before = self
            .bytes_spent
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .unwrap_or_else(|spent| spent);
        if before.saturating_add(count) <= self.limits.bytes_max {
            return Ok(());
        }
        let max = self.limits.bytes_max;
        let message = format!("more than {max} bytes of content; raise --max-bytes");
        let error = Error::new(ErrorKind::Budget, "budget-bytes", message);
        Err(Trouble::Failed(error.at(os_name(&path()))))
    }

    /// Returns why the walk ended early, once.
    pub(super) fn take_ended(&self) -> Option<Ended> {
        lock(&self.ended).take()
    }

    /// Returns the differences found so far.
    pub(super) fn findings(&self) -> Findings {
        lock(&self.findings).clone()
    }

    /// Returns the id rebuilt for the root, where all parts were shown.
    pub(super) fn rebuilt(&self) -> Option<Oid> {
        *lock(&self.rebuilt)
    }

    /// Returns what the ended threads counted.
    pub(super) fn totals(&self) -> Totals {
        lock(&self.totals).clone()
    }

    /// Returns the first paths in tree order that threads are at, with the ids expected there.
    pub(super) fn waiting_at(&self) -> Option<(Vec<u8>, Oid)> {
        let at = |position: &Mutex<Option<Position>>| {
            let position = lock(position);
            let position = position.as_ref()?;
            let node = &position.node;
            let entry = position
                .offset
                .and_then(|offset| self.entry_at(node, offset));
            Some(match entry {
                Some(entry) => (node.path_of(entry.name), entry.id),
                None => (node.path.clone(), node.tree_id),
            })
        };
        self.positions.iter().filter_map(at).min()
    }

    pub(super) fn entry_at<'n>(&self, node: &'n Node, offset: usize) -> Option<TreeEntry<'n>> {
        entries(&node.expected, self.hash_kind())
            .from_offset(offset)
            .next()?
            .ok()
    }

    pub(super) fn end(&self, why: Ended) {
        lock(&self.ended).get_or_insert(why);
        self.queue.stop();
    }

    /// Notes a trouble; the walk goes on where only one path is concerned.
    pub(super) fn note(&self, trouble: Trouble) {
        match trouble {
            Trouble::Differs(difference) => self.add(difference),
            Trouble::ServerGone(difference) => {
                self.add(difference);
                self.end(Ended::ServerGone);
            }
            Trouble::Failed(error) => self.end(Ended::Failed(error)),
            Trouble::Stopped => {}
        }
    }

    pub(super) fn finish(&self, node: Arc<Node>) {
        match finish(node, self.hash_kind()) {
            Ok(Some(id)) => *lock(&self.rebuilt) = id,
            Ok(None) => {}
            Err(error) => self.end(Ended::Failed(error)),
        }
    }
}

/// Locks, also after a thread that held it panicked: what is inside stays consistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
