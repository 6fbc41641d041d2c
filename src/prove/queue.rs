//! The work that is left, shared by the walking threads: last in, first out, so that one branch is
//! finished before the next is opened and little is open at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Work that is left.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    running: usize,
}

impl<T> Queue<T> {
    /// Makes a queue that holds `first`.
    pub(super) fn new(first: T) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: vec![first],
                running: 0,
            }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Adds work; the last of `items` is taken first.
    pub(super) fn push(&self, items: impl IntoIterator<Item = T>) {
        self.lock().waiting.extend(items);
        self.changed.notify_all();
    }

    /// Takes work, waiting for it while others may still add some; `None` when all is done or
    /// stopped. Each item taken must be given back with [`Self::done`].
    pub(super) fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(item) = state.waiting.pop() {
                state.running += 1;
                return Some(item);
            }
            if state.running == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says that an item taken is finished.
    pub(super) fn done(&self) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        if state.running == 0 && state.waiting.is_empty() {
            self.changed.notify_all();
        }
    }

    /// Makes every thread stop at its next step.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Returns whether [`Self::stop`] was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_work_is_done_once_also_what_workers_add() {
        let queue = Queue::new(6_u32);
        let sum = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(n) = queue.take() {
                        sum.fetch_add(1, Ordering::Relaxed);
                        queue.push((0..n).collect::<Vec<_>>());
                        queue.done();
                    }
                });
            }
        });
        // Every n adds all smaller numbers: 2^n items in all.
        assert_eq!(sum.into_inner(), 64);
    }

    #[test]
    fn a_stopped_queue_wakes_those_who_wait() {
        let queue = Queue::new(1);
        assert_eq!(queue.take(), Some(1));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| queue.take());
            queue.stop();
            assert_eq!(waiter.join().unwrap(), None);
        });
    }
}
