//! Locks that this compute node may hold although none of its clients does: a post that should have taken or released
//! the lock failed, and so did the attempt to free it, because its memory node was unreachable; or an operation was
//! dropped, and the verb that frees its lock may be lost with its connection.
//!
//! The next client of the compute node that acquires any lock frees them once the memory node answers again. Only locks
//! whose words name their holder are recorded here.

use super::{GlobalLock, LocalTables};
use farwood_fabric::LockWord;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pause after a failed attempt, nanoseconds: each failed attempt takes until the NIC has ended its retries.
const PAUSE_NS: u64 = 10_000_000;

/// The reason why the ownership of a lock is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// A post failed, and no verb on the lock is in flight. A client that holds the local lock may free the global one,
    /// or own it.
    PostFailed,
    /// An operation was dropped, and the verb that frees the lock may be in flight; or a post failed, and the clients
    /// of the compute node have no local locks, so several may compete for the lock. Any client may free the lock,
    /// because its word is unique, and none may own it.
    Unguarded,
}

/// A lock whose ownership is unknown.
#[derive(Clone, Debug)]
pub(super) struct UncertainLock {
    pub(super) doubt: Doubt,
    pub(super) lock: GlobalLock,
    /// The lock word if this compute node holds the lock.
    pub(super) word: LockWord,
    /// The local lock tables of this compute node.
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
    fn find(&self, lock: GlobalLock, word: LockWord) -> Option<&UncertainLock> {
        self.locks.iter().find(|other| (other.lock, other.word) == (lock, word))
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
        let same = |other: &&mut UncertainLock| (other.lock, other.word) == (uncertain.lock, uncertain.word);
        match state.locks.iter_mut().find(same) {
            Some(recorded) if uncertain.doubt == Doubt::Unguarded => *recorded = uncertain,
            Some(_) => {}
            None => state.locks.push(uncertain),
        }
        state.not_before_ns = now_ns + PAUSE_NS;
        self.count.store(state.locks.len(), Relaxed);
    }

    /// Whether a client that holds the local lock owns the global one, whose word is `word`.
    pub(super) fn is_owned(&self, lock: GlobalLock, word: LockWord) -> bool {
        let owned = |found: &UncertainLock| found.doubt == Doubt::PostFailed;
        self.count() > 0 && self.state().find(lock, word).is_some_and(owned)
    }

    /// The locks that a client should try to free now.
    pub(super) fn due(&self, now_ns: u64) -> Vec<UncertainLock> {
        let state = self.state();
        if now_ns < state.not_before_ns { Vec::new() } else { state.locks.clone() }
    }

    /// Removes a lock that this compute node no longer holds with the word `word`.
    pub(super) fn remove(&self, lock: GlobalLock, word: LockWord) {
        self.retain(|other| (other.lock, other.word) != (lock, word));
    }

    /// Removes a lock that a client of this compute node holds: its earlier posts have ended.
    pub(super) fn remove_held(&self, lock: GlobalLock) {
        self.retain(|other| other.lock != lock || other.doubt != Doubt::PostFailed);
    }

    fn retain(&self, keep: impl Fn(&UncertainLock) -> bool) {
        let mut state = self.state();
        state.locks.retain(keep);
        self.count.store(state.locks.len(), Relaxed);
    }
}
