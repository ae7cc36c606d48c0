//! Changes of the hash tables that wait until a subtable is split.
//!
//! A split takes about 50 round trips, and a client that waits for it would answer that much later. The tree does not
//! need the entry, so the client stores the change in a queue of its compute node. A client that has made a later
//! change of the set of inner nodes, or that misses an entry, then makes the first change of the queue if it is due;
//! after several tries it waits for the split, or completes it if the splitting client has crashed. Without such
//! clients, changes stay in the queue until the compute node leaves the index, and searches that miss an entry take
//! more round trips. Changes of one prefix are made in their order.
//!
//! The queue of a crashed compute node is lost, and so is a change whose client is dropped while it makes the change:
//! the next client that misses an entry enters it, and the next client that follows a stale entry removes it.

use crate::radix::prefix::PrefixHash;
use crate::radix::tree::NodeChange;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Maximum length of the queue. Clients of a compute node whose queue is full wait for splits.
const LENGTH_MAX: usize = 4096;
/// Time from one try to the next, nanoseconds. A split takes as long.
const PAUSE_NS: u64 = 100_000;
/// Tries after which a client waits for the split, because the splitting client may have crashed.
const TRIES_BEFORE_WAIT: u32 = 8;

/// A change that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostponedChange {
    pub(super) change: NodeChange,
    tries: u32,
    not_before_ns: u64,
}

impl PostponedChange {
    /// A change that was tried once.
    pub(super) fn new(change: NodeChange) -> Self {
        Self { change, tries: 0, not_before_ns: 0 }
    }

    /// Whether it was not in the queue yet.
    pub(super) fn is_new(&self) -> bool {
        self.tries == 0
    }

    /// Whether the next try waits for the end of a split.
    pub(super) fn waits(&self) -> bool {
        self.tries >= TRIES_BEFORE_WAIT
    }
}

/// The changes of a compute node that wait.
#[derive(Debug, Default)]
pub(super) struct PostponedChanges {
    /// The length of `queue`, readable without the mutex.
    count: AtomicUsize,
    queue: Mutex<VecDeque<PostponedChange>>,
}

impl PostponedChanges {
    /// Puts a change into the queue, unless the same is in it: a new one at the end, and one that was in the queue
    /// before at the front. Returns the change if the queue is full.
    pub(super) fn push(&self, mut postponed: PostponedChange, now_ns: u64) -> Result<(), PostponedChange> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= LENGTH_MAX {
            return Err(postponed);
        }
        if queue.iter().any(|queued| queued.change == postponed.change) {
            return Ok(());
        }
        let is_new = postponed.is_new();
        postponed.tries += 1;
        postponed.not_before_ns = now_ns + PAUSE_NS;
        if is_new {
            queue.push_back(postponed);
        } else {
            queue.push_front(postponed);
        }
        self.count.store(queue.len(), Relaxed);
        Ok(())
    }

    /// Whether the queue has a change of the node of that prefix.
    pub(super) fn has(&self, prefix: PrefixHash) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.iter().any(|queued| queued.change.prefix() == prefix)
    }

    /// Takes the first change if it is due at `now_ns`.
    pub(super) fn pop_due(&self, now_ns: u64) -> Option<PostponedChange> {
        self.pop_if(|first| first.not_before_ns <= now_ns)
    }

    /// Takes the first change.
    pub(super) fn pop(&self) -> Option<PostponedChange> {
        self.pop_if(|_| true)
    }

    fn pop_if(&self, is_wanted: impl FnOnce(&PostponedChange) -> bool) -> Option<PostponedChange> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let first = queue.front().copied().filter(is_wanted);
        if first.is_some() {
            queue.pop_front();
        }
        self.count.store(queue.len(), Relaxed);
        first
    }
}
