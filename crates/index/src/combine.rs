//! Request combining: clients of a compute node that request the same operation on the same key at the same time share
//! one execution of it. This is read delegation and write combining (SMART, §4.2).
//!
//! A *slot* serialises the requests for one key. The first client executes its request at once. Requests that arrive
//! during that execution join a *batch*. When the execution ends, the batch is closed, one of its clients *leads*: it
//! executes the request, and shares the result with the others. So
//!
//! - a reader shares only a READ that is posted after the reader arrived, because the leader posts it after the batch
//!   was closed;
//! - a writer shares only a WRITE that is built after the writer arrived: the last client of the batch leads, and
//!   writes its own value, as if the others had written immediately before it. The others return when it does. If the
//!   leader fails or is dropped, their values were not written, and each executes its own request. A client that has
//!   waited too long leaves the batch, and executes its own request as well.
//!
//! The published code lets a client join an execution that has begun, and so returns values from before the request.
//!
//! The table has a fixed number of slots. Keys that collide in a slot do not wait for each other: the later request is
//! executed alone.
//!
//! **The fast path** is two atomic operations on one word, without a lock and without allocation: a client that finds
//! the word 0 stores a hash of its key and operation there, and stores 0 when it has finished. The hash suffices,
//! because a running request does not share its result with later ones. A batch contains the key itself. A client that
//! finds its own hash joins the batch under the mutex of the slot's queue, and sets a bit of the word. A word with that
//! bit is changed under the mutex only.

use super::queue::FairQueue;
use super::sync::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Slots of a table.
const SLOTS: usize = 4096;
/// Maximum queues of a table.
const QUEUES_MAX: usize = 64;

/// Which client of a batch leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// The first to arrive.
    First,
    /// The last to arrive.
    Last,
}

/// The bit in the word of a slot that is set while a request is being executed. A word without this bit is 0.
const BUSY: u64 = 1;
/// The bit in the word of a busy slot that is set while a batch waits.
const AWAITED: u64 = 2;

/// Combines the requests of a compute node for one kind of operation that yields a `T`.
#[derive(Debug)]
pub struct Combiner<T> {
    words: Box<[AtomicU64]>,
    /// The waiting clients, with the number of their batch as key.
    queues: Box<[FairQueue<Outcome<T>, Batches>]>,
    leader: Leader,
    shared: AtomicU64,
    joins_late: bool,
}

/// The batches of a queue that requests may join, at most one per slot.
#[derive(Debug, Default)]
struct Batches {
    open: Vec<Batch>,
    /// Number of the next batch.
    next: u64,
}

/// Clients that wait for the same operation on the same key.
#[derive(Debug)]
struct Batch {
    number: u64,
    slot: usize,
    key: Box<[u8]>,
    operation: u8,
}

impl Batches {
    fn open(&mut self, request: &Request<'_>) -> &mut Batch {
        let &Request { key, operation, slot, .. } = request;
        let batch = Batch { number: self.next, slot, key: key.into(), operation };
        self.next += 1;
        self.open.push(batch);
        self.open.last_mut().expect("a batch was just pushed")
    }

    /// Closes the batch of a slot; yields its number.
    fn close(&mut self, slot: usize) -> Option<u64> {
        let position = self.open.iter().position(|batch| batch.slot == slot)?;
        Some(self.open.swap_remove(position).number)
    }
}

/// The role that a waiting client is granted.
#[derive(Debug)]
enum Outcome<T> {
    /// The client executes the request for its batch.
    Lead,
    /// The leader's result, and the number of clients that joined the batch earlier and share it as well; `None`: the
    /// leader has failed.
    Result(Option<(T, usize)>),
}

/// A request: its key and operation, its slot, and the word that marks it as being executed.
#[derive(Clone, Copy)]
struct Request<'k> {
    key: &'k [u8],
    operation: u8,
    slot: usize,
    word: u64,
}

/// The next step of a client with its request.
#[derive(Debug)]
pub enum Role<'c, T: Clone> {
    /// The client executes the request, and shares the result.
    Lead(Lead<'c, T>),
    /// Another client has executed the request.
    Done {
        /// The leader's result.
        result: T,
        /// The number of clients that joined the batch before this one, and share the result as well.
        position: usize,
    },
    /// The client executes the request for itself only.
    Alone,
}

impl<T: Clone> Combiner<T> {
    /// A combiner in which the client `leader` leads a batch.
    pub fn new(leader: Leader) -> Self {
        Self::with_slots(leader, SLOTS)
    }

    /// A combiner with a table of `slots` slots.
    pub(crate) fn with_slots(leader: Leader, slots: usize) -> Self {
        let queue = || FairQueue::new(Batches::default());
        let words = (0..slots).map(|_| AtomicU64::new(0)).collect();
        let queues = (0..slots.min(QUEUES_MAX)).map(|_| queue()).collect();
        Self { words, queues, leader, shared: AtomicU64::new(0), joins_late: false }
    }

    /// The number of requests that were answered with another client's result.
    pub fn shared(&self) -> u64 {
        self.shared.load(Ordering::Relaxed)
    }

    /// Turns on a fault for tests: requests join an execution that has begun.
    pub(crate) fn join_late(&mut self) {
        self.joins_late = true;
    }

    /// Waits until the client may execute `operation` on `key`, or another client has executed it. A client that was
    /// granted the lead and does not take it loses the lead after two pauses of another client of its batch. A `pause`
    /// that ends with `None` ends the wait, and the client executes its request alone, unless it has been granted the
    /// lead or a result by then.
    pub async fn enter(
        &self,
        key: &[u8],
        operation: u8,
        pause: impl AsyncFnMut() -> Option<()>,
    ) -> Role<'_, T> {
        let request = self.request(key, operation);
        let word = &self.words[request.slot];
        match word.compare_exchange(0, request.word, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Role::Lead(self.lead(&request)),
            Err(found) if found & !AWAITED == request.word => self.join(request, pause).await,
            Err(_) => Role::Alone,
        }
    }

    fn request<'k>(&self, key: &'k [u8], operation: u8) -> Request<'k> {
        let hash = xxh3_64(key);
        let word = (hash ^ u64::from(operation) << 2) & !AWAITED | BUSY;
        Request { key, operation, slot: (hash >> 32) as usize % self.words.len(), word }
    }

    fn queue(&self, slot: usize) -> &FairQueue<Outcome<T>, Batches> {
        &self.queues[slot % QUEUES_MAX]
    }

    /// The lead of a client that has taken a free slot, for itself alone.
    fn lead(&self, request: &Request<'_>) -> Lead<'_, T> {
        let joinable = || self.queue(request.slot).lock().state.open(request).number;
        let batch = self.joins_late.then(joinable);
        Lead { combiner: self, slot: request.slot, word: request.word, batch }
    }

    /// Joins the batch of a busy slot, and waits. If the slot is free by now, the client takes it instead.
    async fn join(&self, request: Request<'_>, mut pause: impl AsyncFnMut() -> Option<()>) -> Role<'_, T> {
        let Request { slot, word, .. } = request;
        let mark = |found| match found {
            0 => Some(word),
            found if found & !AWAITED == word => Some(word | AWAITED),
            _ => None,
        };
        let queue = self.queue(slot);
        let (batch, waiting) = {
            let mut list = queue.lock();
            match self.words[slot].fetch_update(Ordering::AcqRel, Ordering::Acquire, mark) {
                Ok(0) => {
                    drop(list);
                    return Role::Lead(self.lead(&request));
                }
                Ok(_) => {}
                Err(_) => return Role::Alone,
            }
            let batches = &mut list.state;
            let batch = match batches.open.iter().position(|batch| batch.slot == slot) {
                Some(open) => &mut batches.open[open],
                None => batches.open(&request),
            };
            if (&*batch.key, batch.operation) != (request.key, request.operation) {
                return Role::Alone;
            }
            let number = batch.number;
            let give_up = move |outcome| {
                if let Outcome::Lead = outcome {
                    self.publish(slot, number, None);
                    self.release(slot, word);
                }
            };
            (number, queue.join(&mut list, number, give_up))
        };
        match waiting.with_pauses(async || pause().await.ok_or(())).await {
            Ok(Some(Outcome::Lead)) => Role::Lead(Lead { combiner: self, slot, word, batch: Some(batch) }),
            Ok(Some(Outcome::Result(Some((result, position))))) => {
                self.shared.fetch_add(1, Ordering::Relaxed);
                Role::Done { result, position }
            }
            Ok(Some(Outcome::Result(None)) | None) | Err(()) => Role::Alone,
        }
    }

    /// Grants `result` to the clients of a batch that still wait; yields their number.
    fn publish(&self, slot: usize, batch: u64, result: Option<&T>) -> usize {
        let mut count = 0;
        self.queue(slot).lock().grant_all(batch, || {
            count += 1;
            Outcome::Result(result.cloned().map(|result| (result, count - 1)))
        });
        count
    }

    /// Frees a busy slot, or passes it to the batch that waits.
    fn release(&self, slot: usize, busy: u64) {
        let word = &self.words[slot];
        if !self.joins_late && word.compare_exchange(busy, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
        let mut list = self.queue(slot).lock();
        debug_assert!(
            word.load(Ordering::Relaxed) & !AWAITED == busy,
            "only the client that uses a slot frees it"
        );
        let led = match (list.state.close(slot), self.leader) {
            (None, _) => false,
            (Some(batch), Leader::First) => list.grant_first(batch, Outcome::Lead),
            (Some(batch), Leader::Last) => list.grant_last(batch, Outcome::Lead),
        };
        word.store(if led { busy } else { 0 }, Ordering::Release);
    }
}

/// The right to execute a request for a batch. If it is dropped without a result, each client of the batch executes
/// its own request.
#[derive(Debug)]
#[must_use = "other clients may wait for the result"]
pub struct Lead<'c, T: Clone> {
    combiner: &'c Combiner<T>,
    slot: usize,
    /// The word of the slot while no batch waits.
    word: u64,
    /// The batch that waits for the result, if there is one.
    batch: Option<u64>,
}

impl<T: Clone> Lead<'_, T> {
    /// Shares the result with the clients of the batch that still wait; yields their number. `result` is called only if
    /// there is a batch.
    pub fn share(mut self, result: impl FnOnce() -> T) -> usize {
        self.batch.take().map_or(0, |batch| self.combiner.publish(self.slot, batch, Some(&result())))
    }
}

impl<T: Clone> Drop for Lead<'_, T> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.combiner.publish(self.slot, batch, None);
        }
        self.combiner.release(self.slot, self.word);
    }
}
