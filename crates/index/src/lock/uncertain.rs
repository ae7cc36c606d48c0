//! Locks that this compute node may hold although none of its clients does: a post that should have taken or released
//! the lock failed, and so did the attempt to free it, because its memory node was unreachable.
//!
//! The next client of the compute node that acquires any lock frees them once the memory node answers again. That
//! client holds the local lock while it does so, so no other client of the compute node holds the global one. For that
//! reason only locks of options with local locks, whose words name their holder, are recorded here.

use super::{GlobalLock, LocalTables};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pause after a failed attempt, nanoseconds: the next failure takes as long as the NIC retries.
const PAUSE_NS: u64 = 10_000_000;

/// The locks of a compute node whose ownership is unknown.
#[derive(Debug, Default)]
pub(super) struct UncertainLocks {
    /// The length of `locks`, readable without the mutex.
    count: AtomicUsize,
    state: Mutex<UncertainState>,
}

#[derive(Debug, Default)]
struct UncertainState {
    /// Each lock with the table of the local lock that guards it.
    locks: Vec<(GlobalLock, Arc<LocalTables>)>,
    /// Time before which no client tries again.
    not_before_ns: u64,
}

impl UncertainLocks {
    fn state(&self) -> MutexGuard<'_, UncertainState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of uncertain locks.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Records a lock.
    pub(super) fn record(&self, lock: GlobalLock, tables: &Arc<LocalTables>, now_ns: u64) {
        let mut state = self.state();
        if state.locks.iter().all(|(other, _)| *other != lock) {
            state.locks.push((lock, Arc::clone(tables)));
        }
        state.not_before_ns = now_ns + PAUSE_NS;
        self.count.store(state.locks.len(), Relaxed);
    }

    /// Whether a lock is recorded.
    pub(super) fn contains(&self, lock: GlobalLock) -> bool {
        self.count() > 0 && self.state().locks.iter().any(|(other, _)| *other == lock)
    }

    /// The locks that a client should try to free now.
    pub(super) fn due(&self, now_ns: u64) -> Vec<(GlobalLock, Arc<LocalTables>)> {
        let state = self.state();
        if now_ns < state.not_before_ns { Vec::new() } else { state.locks.clone() }
    }

    /// Removes a lock that this compute node does not hold any more, or that one of its clients holds.
    pub(super) fn remove(&self, lock: GlobalLock) {
        let mut state = self.state();
        state.locks.retain(|(other, _)| *other != lock);
        self.count.store(state.locks.len(), Relaxed);
    }
}
