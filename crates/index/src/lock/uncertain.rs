//! Locks that this compute node may hold although none of its clients does: a post that should have taken or released
//! the lock failed, and so did the attempt to free it, because its memory node was unreachable.
//!
//! The next client of the compute node that acquires any lock frees them once the memory node answers again. That
//! client holds the local lock while it does so, so no other client of the compute node holds the global one. For that
//! reason only locks of options with local locks, whose words name their holder, are recorded here.

use super::{GlobalLock, LocalTables};
use farwood_fabric::LockWord;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pause after a failed attempt, nanoseconds: the next failure takes as long as the NIC retries.
const PAUSE_NS: u64 = 10_000_000;

/// A lock whose ownership is unknown.
#[derive(Clone, Debug)]
pub(super) struct UncertainLock {
    pub(super) lock: GlobalLock,
    /// Its word, if this compute node holds it.
    pub(super) word: LockWord,
    /// The table of the local lock that guards it.
    pub(super) tables: Arc<LocalTables>,
}

/// The locks of a compute node whose ownership is unknown.
#[derive(Debug, Default)]
pub(super) struct UncertainLocks {
    /// The length of `locks`, readable without the mutex.
    count: AtomicUsize,
    state: Mutex<UncertainState>,
}

#[derive(Debug, Default)]
struct UncertainState {
    locks: Vec<UncertainLock>,
    /// Time before which no client tries again.
    not_before_ns: u64,
}

impl UncertainState {
    fn contains(&self, lock: GlobalLock, word: LockWord) -> bool {
        self.locks.iter().any(|other| (other.lock, other.word) == (lock, word))
    }
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
    pub(super) fn record(&self, uncertain: UncertainLock, now_ns: u64) {
        let mut state = self.state();
        if !state.contains(uncertain.lock, uncertain.word) {
            state.locks.push(uncertain);
        }
        state.not_before_ns = now_ns + PAUSE_NS;
        self.count.store(state.locks.len(), Relaxed);
    }

    /// Whether a lock is recorded with the word `word`.
    pub(super) fn contains(&self, lock: GlobalLock, word: LockWord) -> bool {
        self.count() > 0 && self.state().contains(lock, word)
    }

    /// The locks that a client should try to free now.
    pub(super) fn due(&self, now_ns: u64) -> Vec<UncertainLock> {
        let state = self.state();
        if now_ns < state.not_before_ns { Vec::new() } else { state.locks.clone() }
    }

    /// Removes a lock that this compute node does not hold any more, or that one of its clients holds.
    pub(super) fn remove(&self, lock: GlobalLock) {
        let mut state = self.state();
        state.locks.retain(|other| other.lock != lock);
        self.count.store(state.locks.len(), Relaxed);
    }
}
