//! Reading ahead into the kernel's page cache: threads that load what `plan` says and push it with
//! FUSE's notify-store, so that most files of a sequential reader cost no request at all.
//!
//! A store waits for the locks of pages that pending READs hold, hence never a thread that answers
//! requests, and no lock of ours is held during one. A store for an inode that the kernel has
//! forgotten does nothing. The bytes are verified as all others are, and a store covers the file
//! whole, so the size that the kernel has stays as it is.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use fuser::{INodeNo, Notifier};

use super::plan::{Plans, Task};
use crate::error::{IoContext, Result};
use crate::snapshot::{Count, Directory, Entry, Snapshot};

/// The planner and its threads.
#[derive(Debug)]
pub(super) struct ReadAhead {
    snapshot: Arc<Snapshot>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    plans: Plans,
    /// Whether there are threads; without them nothing is planned.
    running: bool,
}

impl ReadAhead {
    /// Makes a planner without threads.
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            state: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Starts `threads` threads that push through `notifier`.
    ///
    /// # Errors
    /// Where a thread cannot be started.
    pub(super) fn start(
        self: &Arc<Self>,
        notifier: &Notifier,
        threads: usize,
    ) -> Result<Vec<JoinHandle<()>>> {
        self.locked().running = threads > 0;
        (0..threads)
            .map(|number| {
                let (this, notifier) = (Arc::clone(self), notifier.clone());
                std::thread::Builder::new()
                    .name(format!("readahead-{number}"))
                    .spawn(move || this.work(&notifier))
                    .doing(|| String::from("cannot start a read-ahead thread"))
            })
            .collect()
    }

    /// Ends the threads when they finish the file they are at; nothing is planned afterwards.
    pub(super) fn stop(&self) {
        let mut state = self.locked();
        state.running = false;
        state.plans = Plans::default();
        drop(state);
        self.wake.notify_all();
    }

    /// Notes that the kernel has all entries of a directory.
    pub(super) fn note_listed(&self, directory: &Directory) {
        let mut state = self.locked();
        if state.running && state.plans.note_listed(&self.snapshot, directory) {
            drop(state);
            self.wake.notify_all();
        }
    }

    /// Notes a READ that was answered.
    pub(super) fn note_read(&self, entry: &Entry, offset: u64) {
        if offset > 0 {
            return;
        }
        let mut state = self.locked();
        if state.running && state.plans.note_read(&self.snapshot, entry) {
            drop(state);
            self.wake.notify_all();
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, notifier: &Notifier) {
        let mut state = self.locked();
        while state.running {
            let Some(task) = state.plans.next_task() else {
                let waited = self.wake.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            self.push(notifier, &task);
            state = self.locked();
        }
    }

    fn push(&self, notifier: &Notifier, task: &Task) {
        let (directory, index) = (&task.directory, task.index);
        let Some(entry) = directory.entry(index) else {
            return;
        };
        // An error was logged; the reader gets it again when it asks.
        let Ok(bytes) = self.snapshot.read_file(directory, index) else {
            return;
        };
        match notifier.store(INodeNo(entry.ino.0), 0, &bytes) {
            Ok(()) => {
                let stats = self.snapshot.stats();
                stats.add(Count::Pushed, 1);
                stats.add(Count::PushedBytes, task.size);
            }
            Err(error) => tracing::debug!(ino = entry.ino.0, %error, "page cache took no content"),
        }
    }
}
