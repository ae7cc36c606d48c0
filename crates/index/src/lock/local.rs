//! The local lock table of a compute node: one word per global lock, and queues of the clients that wait.
//!
//! ```text
//! +----------+------------+---------------+-----------+
//! |    0     | hand-overs | 1 = a client  | 1 = held  |     the word of a local lock (8 bytes, Sherman §4.3)
//! |   54     |     8      |  waits        |           |
//! +----------+------------+---------------+-----------+
//! ```
//!
//! To take a free lock, and to release a lock that no client waits for, is one compare-and-swap in local memory. A
//! client that finds the lock held joins a [`FairQueue`], and sets the word's second bit under the queue's mutex. A
//! word with that bit is changed under the mutex only. The waiters of all locks are in a few queues, with the number of
//! the lock as their key.

use super::{GlobalLock, LocalLocks, LockPauses, WAIT_NS_MAX};
use crate::queue::FairQueue;
use crate::sync::{AtomicU64, Mutex, Ordering};
use farwood_fabric::{Client, Fabric, LockWord, Packed};
use std::sync::{OnceLock, PoisonError};

const HELD: u64 = 1;
const AWAITED: u64 = 2;
const HAND_OVERS_SHIFT: u32 = 2;
const ONE_HAND_OVER: u64 = 1 << HAND_OVERS_SHIFT;
/// Maximum queues of a table.
const QUEUES_MAX: usize = 64;
/// A spinning client pauses for this fraction of the time that it has waited, unless the options forbid pauses. The
/// number of its attempts grows with the logarithm of the wait, and the pause extends the wait by at most a hundredth.
const SPINS: u64 = 100;
/// The time after which a waiting client looks for a client that was granted the lock and has not taken it,
/// nanoseconds. The second time that it finds the same grant, it revokes the grant.
const PATIENCE_NS: u64 = 1_000_000;
/// Maximum idle payloads that a table keeps.
const PAYLOADS_MAX: usize = 64;

/// The state that the previous holder passes on with the local lock.
#[derive(Debug)]
enum Grant {
    /// The local lock alone; the global lock is free.
    Local,
    /// The global lock as well, and a copy of its node if the previous holder had one.
    Global(GrantedLock, Option<HandoverPayload>),
}

/// A global lock that is handed over, and its word. Locks inside nodes share local locks, so it may be another lock
/// than the one for which the next client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedLock {
    /// The lock.
    pub lock: GlobalLock,
    /// Its word while this compute node holds it.
    pub word: LockWord,
}

/// A node, as the previous holder of its lock wrote it.
#[derive(Debug, Default)]
struct HandoverPayload {
    /// Address of the node.
    address: u64,
    bytes: Vec<u8>,
}

/// The local lock tables of a compute node, one per memory node.
#[derive(Debug)]
pub struct LocalTables {
    kind: LocalLocks,
    locks_per_node: usize,
    words: Box<[AtomicU64]>,
    /// The words of memory nodes that were added to the pool, made when a client first needs one.
    added: Box<[OnceLock<Box<[AtomicU64]>>]>,
    queues: Box<[FairQueue<Grant>]>,
    payloads: Mutex<Vec<HandoverPayload>>,
}

/// A held local lock. When it is dropped, the lock passes to the next client, without the global lock.
#[derive(Debug)]
pub struct LocalGuard<'a> {
    tables: &'a LocalTables,
    lock: usize,
    /// The global lock, if it was handed over with the local lock.
    handed_over: Option<GrantedLock>,
    payload: Option<HandoverPayload>,
    /// Whether the local lock is still held.
    held: bool,
}

fn free_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl LocalTables {
    /// Tables for `nodes` memory nodes of `locks_per_node` locks each.
    pub fn new(kind: LocalLocks, nodes: usize, locks_per_node: usize) -> Self {
        let words = if kind == LocalLocks::None { 0 } else { nodes * locks_per_node };
        Self {
            kind,
            locks_per_node,
            words: free_words(words),
            added: (0..if words > 0 { Packed::<u64>::NODES_MAX } else { 0 })
                .map(|_| OnceLock::new())
                .collect(),
            queues: (0..words.min(QUEUES_MAX)).map(|_| FairQueue::new(())).collect(),
            payloads: Mutex::new(Vec::new()),
        }
    }

    /// Acquires the local lock that guards `lock`. [0 RT] `release_global` releases a global lock; it is called if the
    /// lock is handed to a client that has stopped waiting, and no other client waits.
    ///
    /// # Errors
    /// The time waited, nanoseconds, when it has reached [`WAIT_NS_MAX`].
    pub async fn acquire<F: Fabric>(
        &self,
        client: &Client<F>,
        lock: GlobalLock,
        pauses: LockPauses,
        release_global: &impl Fn(GrantedLock),
    ) -> Result<LocalGuard<'_>, u64> {
        if self.kind == LocalLocks::None {
            return Ok(self.unlocked());
        }
        let (lock, fabric) = (self.number(lock), client.fabric());
        if self.try_lock(lock) {
            return Ok(self.granted(lock, Grant::Local));
        }
        let since = fabric.now();
        let check_limit = || match fabric.now() - since {
            waited if waited >= WAIT_NS_MAX => Err(waited),
            waited => Ok(waited),
        };
        if let LocalLocks::Queued { .. } = self.kind {
            let pause = async || {
                fabric.alarm(PATIENCE_NS).await;
                check_limit().map(drop)
            };
            return self.acquire_queued(lock, release_global, pause).await;
        }
        while !self.try_lock(lock) {
            let waited = check_limit()?;
            fabric.sleep(if pauses == LockPauses::None { 0 } else { waited / SPINS }).await;
        }
        Ok(self.granted(lock, Grant::Local))
    }

    /// Acquires local lock number `lock`, in the order of arrival while it is held. A client that was granted the
    /// lock and does not take it loses it after two pauses of another client that waits for the lock.
    ///
    /// # Errors
    /// The error with which a pause ends.
    pub(super) async fn acquire_queued<E>(
        &self,
        lock: usize,
        release_global: &impl Fn(GrantedLock),
        mut pause: impl AsyncFnMut() -> Result<(), E>,
    ) -> Result<LocalGuard<'_>, E> {
        while !self.try_lock(lock) {
            if let Some(grant) = self.wait(lock, release_global, &mut pause).await? {
                return Ok(self.granted(lock, grant));
            }
        }
        Ok(self.granted(lock, Grant::Local))
    }

    /// Acquires the local lock that guards `lock` if no client of this compute node holds it.
    pub fn try_acquire(&self, lock: GlobalLock) -> Option<LocalGuard<'_>> {
        if self.kind == LocalLocks::None {
            return Some(self.unlocked());
        }
        let lock = self.number(lock);
        self.try_lock(lock).then(|| self.granted(lock, Grant::Local))
    }

    /// The number of the local lock that guards `lock`.
    fn number(&self, lock: GlobalLock) -> usize {
        usize::from(lock.node().0) * self.locks_per_node + lock.index() as usize
    }

    /// The word of the local lock with that number.
    #[inline]
    fn word(&self, number: usize) -> &AtomicU64 {
        let Some(beyond) = number.checked_sub(self.words.len()) else { return &self.words[number] };
        let words = self.added[beyond / self.locks_per_node].get_or_init(|| free_words(self.locks_per_node));
        &words[beyond % self.locks_per_node]
    }

    /// Whether one local lock guards both.
    pub(super) fn guards_both(&self, one: GlobalLock, other: GlobalLock) -> bool {
        self.number(one) == self.number(other)
    }

    /// A guard without a local lock, for options without local locks.
    fn unlocked(&self) -> LocalGuard<'_> {
        LocalGuard { tables: self, lock: 0, handed_over: None, payload: None, held: false }
    }

    fn granted(&self, lock: usize, grant: Grant) -> LocalGuard<'_> {
        let (handed_over, payload) = match grant {
            Grant::Local => (None, None),
            Grant::Global(granted, payload) => (Some(granted), payload),
        };
        LocalGuard { tables: self, lock, handed_over, payload, held: true }
    }

    fn try_lock(&self, lock: usize) -> bool {
        self.word(lock).compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Joins the queue of a held lock, and waits for the lock; `None`: the lock was released before the client had
    /// joined, or the client lost the lock that it was granted.
    async fn wait<E>(
        &self,
        lock: usize,
        release_global: &impl Fn(GrantedLock),
        pause: &mut impl AsyncFnMut() -> Result<(), E>,
    ) -> Result<Option<Grant>, E> {
        let give_up = |grant| {
            let (next, global) = match grant {
                Grant::Local => (Grant::Local, None),
                Grant::Global(granted, _) => (Grant::Global(granted, None), Some(granted)),
            };
            if !self.pass_on(lock, next)
                && let Some(granted) = global
            {
                release_global(granted);
            }
        };
        let queue = &self.queues[lock % self.queues.len()];
        let waiting = {
            let mut list = queue.lock();
            let marked = self.word(lock).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                (word & HELD != 0).then_some(word | AWAITED)
            });
            if marked.is_err() {
                return Ok(None);
            }
            queue.join(&mut list, lock as u64, give_up)
        };
        waiting.with_pauses(pause).await
    }

    /// Passes a held lock to the next waiter; `false`: no client waits, and the lock is free.
    fn pass_on(&self, lock: usize, grant: Grant) -> bool {
        let word = self.word(lock).load(Ordering::Relaxed);
        debug_assert!(word & HELD != 0, "only a held lock is passed on");
        if word & AWAITED == 0
            && self.word(lock).compare_exchange(word, 0, Ordering::Release, Ordering::Relaxed).is_ok()
        {
            return false;
        }
        let hand_overs = match grant {
            Grant::Global(..) => (word & !(HELD | AWAITED)) + ONE_HAND_OVER,
            Grant::Local => 0,
        };
        let mut list = self.queues[lock % self.queues.len()].lock();
        let next = if !list.grant_first(lock as u64, grant) {
            0
        } else if list.has_waiter(lock as u64) {
            HELD | hand_overs | AWAITED
        } else {
            HELD | hand_overs
        };
        self.word(lock).store(next, Ordering::Release);
        next != 0
    }

    fn payloads(&self) -> impl std::ops::DerefMut<Target = Vec<HandoverPayload>> {
        self.payloads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalGuard<'_> {
    /// The global lock, if it was handed over with the local lock.
    pub fn handed_over(&self) -> Option<GrantedLock> {
        self.handed_over
    }

    /// Removes the global lock that was handed over, if it is not `lock`. The caller releases it.
    pub(super) fn take_other(&mut self, lock: GlobalLock) -> Option<GrantedLock> {
        let other = self.handed_over.take_if(|granted| granted.lock != lock)?;
        self.payload = None;
        Some(other)
    }

    /// Whether to keep the global lock for the next client of this compute node (Figure 6, lines 24-26): a client
    /// waits, and the lock has not reached the limit of hand-overs in a row.
    pub fn should_hand_over(&self) -> bool {
        let LocalLocks::Queued { hand_over_max } = self.tables.kind else { return false };
        if !self.held {
            return false;
        }
        let word = self.tables.word(self.lock).load(Ordering::Relaxed);
        word & AWAITED != 0 && (word >> HAND_OVERS_SHIFT) < u64::from(hand_over_max)
    }

    /// Hands the local lock over to the next waiting client, together with the global lock `granted`, and with the
    /// address and the bytes of the guarded node if `node` has them. Returns `false` if no client waits any more; the
    /// local lock is free then.
    pub fn hand_over(&mut self, granted: GrantedLock, node: Option<(u64, &[u8])>) -> bool {
        self.held = false;
        let payload = node.map(|(address, bytes)| {
            let mut payload = self.tables.payloads().pop().unwrap_or_default();
            payload.address = address;
            payload.bytes.clear();
            payload.bytes.extend_from_slice(bytes);
            payload
        });
        self.tables.pass_on(self.lock, Grant::Global(granted, payload))
    }

    /// Reads the node that came with the global lock, if it is the node at `address`.
    pub fn read_handed_over<R>(&mut self, address: u64, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let payload = self.payload.take()?;
        let seen = (payload.address == address).then(|| read(&payload.bytes));
        let mut payloads = self.tables.payloads();
        if payloads.len() < PAYLOADS_MAX {
            payloads.push(payload);
        }
        seen
    }
}

impl Drop for LocalGuard<'_> {
    fn drop(&mut self) {
        if self.held {
            self.tables.pass_on(self.lock, Grant::Local);
        }
    }
}
