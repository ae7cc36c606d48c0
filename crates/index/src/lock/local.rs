//! The local lock table of a compute node: one word per global lock, and queues for those that wait.
//!
//! ```text
//! +----------+-----------+---------------+-----------+
//! |    0     | hand-overs | 1 = somebody | 1 = held  |     the word of a local lock (8 bytes, Sherman §4.3)
//! |   54     |     8     |  waits        |           |
//! +----------+-----------+---------------+-----------+
//! ```
//!
//! Free to held, and held to free with nobody waiting, is one compare-and-swap in local memory. Whoever finds the
//! lock held puts itself in the lock's queue, which lies in one of a few shards, and is woken in its turn.

use super::{GlobalLock, LocalLocks};
use farwood_fabric::{Client, Fabric};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

const HELD: u64 = 1;
const AWAITED: u64 = 2;
const HAND_OVERS_SHIFT: u32 = 2;
const ONE_HAND_OVER: u64 = 1 << HAND_OVERS_SHIFT;
const SHARDS: usize = 64;
/// Who spins pauses for this part of the time that it has waited: long waits cost few looks, and last no longer for it.
const SPINS: u64 = 100;

/// What a waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Summons {
    Waiting,
    /// Its turn; the global lock is yet to be taken.
    Local,
    /// Its turn, and the global lock is handed over.
    HandedOver,
    /// Cancelled before its turn came.
    Cancelled,
}

#[derive(Debug)]
struct Waiter {
    state: Mutex<(Summons, Option<Waker>)>,
    /// What came with the global lock.
    parcel: Mutex<Option<Parcel>>,
}

/// A node as the last holder of its lock left it, for the next one of the compute node.
#[derive(Debug, Default)]
pub(super) struct Parcel {
    /// Where the node is.
    at: u64,
    /// Its bytes.
    bytes: Vec<u8>,
}

/// Idle parcels that are kept.
const PARCELS_MAX: usize = 64;

/// Waiters of one lock, in the order in which they came.
#[derive(Debug)]
struct Queue {
    lock: usize,
    waiters: VecDeque<Arc<Waiter>>,
}

/// The local lock tables of a compute node, one per memory node.
#[derive(Debug)]
pub struct LocalTables {
    kind: LocalLocks,
    locks_per_node: usize,
    words: Box<[AtomicU64]>,
    shards: Box<[Mutex<Vec<Queue>>]>,
    parcels: Mutex<Vec<Parcel>>,
}

/// The local lock, held. Dropped, it passes the turn on, without the global lock.
#[derive(Debug)]
pub struct Turn<'a> {
    tables: &'a LocalTables,
    lock: usize,
    handed_over: bool,
    /// What came with the global lock.
    parcel: Option<Parcel>,
    /// Whether the local lock is (still) held.
    held: bool,
}

/// A lock whose holder died in the middle of a panic is as good as any other: its state is one word.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalTables {
    /// Tables for `nodes` memory nodes of `locks_per_node` locks each.
    pub fn new(kind: LocalLocks, nodes: usize, locks_per_node: usize) -> Self {
        let words = if kind == LocalLocks::None { 0 } else { nodes * locks_per_node };
        Self {
            kind,
            locks_per_node,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            parcels: Mutex::default(),
        }
    }

    /// Waits for one's turn at the local lock that stands before `lock`. `abandon` releases the global lock,
    /// should it be handed over to a client that has stopped waiting while no other waits.
    pub async fn acquire<F: Fabric>(
        &self,
        client: &Client<F>,
        lock: GlobalLock,
        abandon: &impl Fn(),
    ) -> Turn<'_> {
        if self.kind == LocalLocks::None {
            return Turn { tables: self, lock: 0, handed_over: false, parcel: None, held: false };
        }
        let lock = self.number(lock);
        let mut since = None;
        while !self.try_lock(lock) {
            if let LocalLocks::Queued { .. } = self.kind {
                if let Some((handed_over, parcel)) = self.wait(lock, abandon).await {
                    return Turn { tables: self, lock, handed_over, parcel, held: true };
                }
            } else {
                let now = client.fabric().now();
                client.fabric().sleep((now - *since.get_or_insert(now)) / SPINS).await;
            }
        }
        self.turn(lock)
    }

    /// The local lock that stands before `lock`.
    fn number(&self, lock: GlobalLock) -> usize {
        usize::from(lock.node().0) * self.locks_per_node + lock.index() as usize
    }

    /// Whether one local lock stands before both.
    pub(super) fn is_one_turn(&self, one: GlobalLock, other: GlobalLock) -> bool {
        self.number(one) == self.number(other)
    }

    /// The turn at a local lock that was taken.
    fn turn(&self, lock: usize) -> Turn<'_> {
        Turn { tables: self, lock, handed_over: false, parcel: None, held: true }
    }

    /// A parcel with the node at `at`.
    fn pack(&self, at: u64, bytes: &[u8]) -> Parcel {
        let mut parcel = guard(&self.parcels).pop().unwrap_or_default();
        parcel.at = at;
        parcel.bytes.clear();
        parcel.bytes.extend_from_slice(bytes);
        parcel
    }

    /// Keeps an opened parcel for the next.
    fn keep(&self, parcel: Parcel) {
        let mut parcels = guard(&self.parcels);
        if parcels.len() < PARCELS_MAX {
            parcels.push(parcel);
        }
    }

    /// The turn at `lock` if nobody of this compute node has it, or waits for it.
    pub fn try_turn(&self, lock: GlobalLock) -> Option<Turn<'_>> {
        if self.kind == LocalLocks::None {
            return Some(Turn { tables: self, lock: 0, handed_over: false, parcel: None, held: false });
        }
        let lock = self.number(lock);
        self.try_lock(lock).then(|| self.turn(lock))
    }

    fn try_lock(&self, lock: usize) -> bool {
        self.words[lock].compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Queues up, unless the lock came free meanwhile (`None`), and waits to be woken. Yields whether the
    /// global lock came with the turn, and what came with that.
    async fn wait(&self, lock: usize, abandon: &impl Fn()) -> Option<(bool, Option<Parcel>)> {
        let waiter = self.enqueue(lock)?;
        let mut place = Place { tables: self, lock, waiter, abandon, served: false };
        let handed_over = poll_fn(|context| {
            let mut state = guard(&place.waiter.state);
            match state.0 {
                Summons::Waiting => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
                Summons::Local => Poll::Ready(false),
                Summons::HandedOver => Poll::Ready(true),
                Summons::Cancelled => unreachable!("only a dropped waiter is cancelled"),
            }
        })
        .await;
        place.served = true;
        let parcel = guard(&place.waiter.parcel).take();
        Some((handed_over, parcel))
    }

    fn enqueue(&self, lock: usize) -> Option<Arc<Waiter>> {
        let mut shard = guard(&self.shards[lock % SHARDS]);
        // With the shard locked, nobody with waiters behind can release: the word is held or free.
        let marked = self.words[lock].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            (word & HELD != 0).then_some(word | AWAITED)
        });
        marked.ok()?;
        let waiter =
            Arc::new(Waiter { state: Mutex::new((Summons::Waiting, None)), parcel: Mutex::default() });
        match shard.iter_mut().find(|queue| queue.lock == lock) {
            Some(queue) => queue.waiters.push_back(Arc::clone(&waiter)),
            None => shard.push(Queue { lock, waiters: VecDeque::from([Arc::clone(&waiter)]) }),
        }
        Some(waiter)
    }

    /// Passes the lock to the next waiter, with a parcel where there is one, or frees it. Yields whether there was a
    /// waiter.
    fn pass_on(&self, lock: usize, hand_over: bool, parcel: Option<Parcel>) -> bool {
        let word = self.words[lock].load(Ordering::Relaxed);
        if word & AWAITED == 0
            && self.words[lock].compare_exchange(word, 0, Ordering::Release, Ordering::Relaxed).is_ok()
        {
            return false;
        }
        let mut shard = guard(&self.shards[lock % SHARDS]);
        while let Some(waiter) = next_waiter(&mut shard, lock) {
            let mut state = guard(&waiter.state);
            if state.0 == Summons::Cancelled {
                continue;
            }
            let more = shard.iter().any(|queue| queue.lock == lock);
            let word = self.words[lock].load(Ordering::Relaxed);
            let hand_overs = if hand_over { (word & !(HELD | AWAITED)) + ONE_HAND_OVER } else { 0 };
            let next = HELD | hand_overs | if more { AWAITED } else { 0 };
            self.words[lock].store(next, Ordering::Release);
            *guard(&waiter.parcel) = parcel;
            state.0 = if hand_over { Summons::HandedOver } else { Summons::Local };
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
            return true;
        }
        self.words[lock].store(0, Ordering::Release);
        false
    }
}

/// Takes the first waiter of `lock` out of its queue, and the queue with the last of them.
fn next_waiter(shard: &mut Vec<Queue>, lock: usize) -> Option<Arc<Waiter>> {
    let at = shard.iter().position(|queue| queue.lock == lock)?;
    let waiter = shard[at].waiters.pop_front();
    if shard[at].waiters.is_empty() {
        shard.swap_remove(at);
    }
    waiter
}

/// A waiter's place in its queue; given up when its operation is cancelled.
struct Place<'a, A: Fn()> {
    tables: &'a LocalTables,
    lock: usize,
    waiter: Arc<Waiter>,
    abandon: &'a A,
    served: bool,
}

impl<A: Fn()> Drop for Place<'_, A> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        let was = std::mem::replace(&mut guard(&self.waiter.state).0, Summons::Cancelled);
        match was {
            // The turn came, and this client will not take it.
            Summons::Local => {
                self.tables.pass_on(self.lock, false, None);
            }
            Summons::HandedOver => {
                if !self.tables.pass_on(self.lock, true, None) {
                    (self.abandon)();
                }
            }
            Summons::Waiting | Summons::Cancelled => {}
        }
    }
}

impl Turn<'_> {
    /// Whether the global lock came with the turn.
    pub fn handed_over(&self) -> bool {
        self.handed_over
    }

    /// Whether the global lock is to be kept for the next client of this compute node (Figure 6, lines 24-26):
    /// one waits, and the lock was not handed over too often in a row.
    pub fn decide_hand_over(&self) -> bool {
        let LocalLocks::Queued { hand_over_max } = self.tables.kind else { return false };
        if !self.held {
            return false;
        }
        let word = self.tables.words[self.lock].load(Ordering::Relaxed);
        word & AWAITED != 0 && (word >> HAND_OVERS_SHIFT) < u64::from(hand_over_max)
    }

    /// Hands the lock over with the global one, and with the node at `node.0`, if it is known. `false`: nobody waits
    /// any more, and the local lock is free.
    pub fn hand_over(&mut self, node: Option<(u64, &[u8])>) -> bool {
        self.held = false;
        let parcel = node.map(|(at, bytes)| self.tables.pack(at, bytes));
        self.tables.pass_on(self.lock, true, parcel)
    }

    /// Opens what came with the global lock, if it is the node at `at`.
    pub fn open<R>(&mut self, at: u64, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let parcel = self.parcel.take()?;
        let seen = (parcel.at == at).then(|| look(&parcel.bytes));
        self.tables.keep(parcel);
        seen
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.held {
            self.tables.pass_on(self.lock, false, None);
        }
    }
}
