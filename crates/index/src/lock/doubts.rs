//! Locks that this compute node may have although no client of it holds them: a post that was to take or to release one
//! failed, and so did the attempt to give it back, for its memory node could not be reached.
//!
//! They are given back by whoever takes a lock next, of this compute node and once the memory node answers again.
//! Whoever does so has the local lock, so that no client of the compute node holds the global one; hence only locks of
//! options with local locks, whose words name their holder, are entered here.

use super::{GlobalLock, LocalTables};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// After an attempt that failed, pause until the next, nanoseconds: the next failure takes as long as the card tries.
const PAUSE: u64 = 10_000_000;

/// The locks in doubt of a compute node.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// How many there are.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the table of the local lock that stands before it.
    locks: Vec<(GlobalLock, Arc<LocalTables>)>,
    /// Not before this time is there another attempt.
    not_before: u64,
}

impl Doubts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many locks are in doubt.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Enters a lock.
    pub(super) fn enter(&self, lock: GlobalLock, tables: &Arc<LocalTables>, now: u64) {
        let mut state = self.state();
        if state.locks.iter().all(|(other, _)| *other != lock) {
            state.locks.push((lock, Arc::clone(tables)));
        }
        state.not_before = now + PAUSE;
        self.count.store(state.locks.len(), Relaxed);
    }

    /// Whether a lock is in doubt.
    pub(super) fn has(&self, lock: GlobalLock) -> bool {
        self.count() > 0 && self.state().locks.iter().any(|(other, _)| *other == lock)
    }

    /// The locks to try to give back now.
    pub(super) fn due(&self, now: u64) -> Vec<(GlobalLock, Arc<LocalTables>)> {
        let state = self.state();
        if now < state.not_before { Vec::new() } else { state.locks.clone() }
    }

    /// A lock is known not to be this compute node's any more, or to be held by a client of it.
    pub(super) fn settle(&self, lock: GlobalLock) {
        let mut state = self.state();
        state.locks.retain(|(other, _)| *other != lock);
        self.count.store(state.locks.len(), Relaxed);
    }
}
