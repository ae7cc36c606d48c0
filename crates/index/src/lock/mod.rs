//! Node locks: a global lock table at each memory node, a local one at each compute node (Sherman §4.3, HOCL).
//!
//! [`NodeLocks`] belongs to a compute node and is shared by its clients. [`NodeLocks::acquire`] yields a
//! [`Held`] lock, a linear value: [`Held::release`] consumes it and yields a *verb*, so that the unlock rides in
//! the doorbell of the write-back, and a [`LocalRelease`] to be completed when that doorbell has been answered.
//! Only then does the next client of the compute node get its turn: it may be on another queue pair, where its
//! READ could overtake this one's write-back.
//!
//! Several nodes may share one lock word. So a client never waits for a lock while it holds one.

mod doubts;
mod global;
mod local;
mod table;

pub(crate) use global::BYTES_PER_LOCK;
pub use global::{GlobalLock, LOCK_BYTES, TryTake, Unlock};
pub use local::LocalTables;
pub(crate) use table::{sweep, words_held};

use crate::error::IndexError;
use crate::marks;
use crate::sabotage::Sabotage;
use doubts::Doubts;
use farwood_fabric::{
    Capabilities, Chain, Client, ClientId, Fabric, FabricError, Fetched, LockWord, Object, PoolShape, Remote,
    Revocation, Swapped, read, read_bytes,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the global lock table lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMemory {
    /// The node that is locked, in host memory: every atomic crosses PCIe twice, and nodes of a power of two bytes
    /// share few of a card's atomic slots.
    Node,
    /// A table in host memory.
    Host,
    /// The NIC's on-chip memory.
    Device,
}

/// How large a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWidth {
    /// 64 bits: names holder and epoch, so that a dead client's lock can be told and taken.
    Word,
    /// 16 bits, four to a word, taken by masked CAS (the paper's; 131,072 locks in 256 KiB). It names the
    /// holder's slot but not its epoch: a dead client's lock cannot be taken. For reproduction.
    Packed,
}

/// How a lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// By FAA (FG).
    Faa,
    /// By WRITE (FG+, Sherman).
    Write,
}

/// What coordinates the clients of one compute node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalLocks {
    /// Nothing: each tries the global lock for itself.
    None,
    /// A local lock that they spin on.
    Spinning,
    /// A local lock with a queue, first come, first served; the global lock is handed over within the compute
    /// node at most this often in a row.
    Queued {
        /// Consecutive hand-overs; 0: none.
        hand_over_max: u8,
    },
}

/// How nodes are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockOptions {
    /// Where the global table lies.
    pub memory: LockMemory,
    /// How large a lock is.
    pub width: LockWidth,
    /// How it is released.
    pub release: Release,
    /// What coordinates the clients of one compute node.
    pub local: LocalLocks,
}

impl LockOptions {
    /// The same where the fabric allows them: where a compare-and-swap that fails may undo a WRITE, locks are released
    /// by FAA, which costs the same.
    #[must_use]
    pub fn on(self, capabilities: &Capabilities) -> Self {
        let release = if capabilities.write_beside_cas { self.release } else { Release::Faa };
        Self { release, ..self }
    }
}

impl LockMemory {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}

impl LockWidth {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Word => "64 bit",
            Self::Packed => "16 bit",
        }
    }
}

impl Release {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faa => "faa",
            Self::Write => "write",
        }
    }
}

/// What an attempt brings with it after the first has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    LockAlone,
    WithObject,
}

/// No object for later attempts to bring.
const NOTHING: Option<(Remote<u64>, usize)> = None;
/// Bytes of an object that every attempt at its lock brings, at most.
const SMALL_BYTES: usize = 256;
/// Time between two looks at whether a lock's holder is gone, nanoseconds.
const SUSPICION: u64 = 2_000_000;
/// How long a client waits for a lock whose holder lives, nanoseconds.
const PATIENCE: u64 = 20_000_000_000;
/// After this, a client tries less and less often, nanoseconds: the holder is stopped, not busy.
const UNUSUAL: u64 = 50_000_000;
/// Longest pause between two attempts, nanoseconds.
const PAUSE_MAX: u64 = 1_000_000;
/// Looks at a lock that is held before it counts as left.
const LOOKS_MAX: usize = 100;
/// Pause between two of them, nanoseconds.
const LOOK_PAUSE: u64 = 100_000;
/// Failed attempts between two looks at the clock.
const ATTEMPTS_PER_LOOK: u32 = 64;

/// The locks of one compute node: its view of the global tables, and its local tables.
#[derive(Debug)]
pub struct NodeLocks {
    options: LockOptions,
    tables: Arc<LocalTables>,
    locks: u64,
    /// Bytes of a node with its lock, where that lies in the node.
    room_bytes: u64,
    dropped: AtomicU64,
    doubts: Arc<Doubts>,
    /// Broken on purpose: the living lose their locks as well.
    lease_expires: bool,
}

impl NodeLocks {
    /// The locks for a pool of that shape, of nodes that take `room_bytes` bytes: where a lock lies in its node, it is
    /// the last word of them.
    pub fn new(options: LockOptions, shape: &PoolShape, room_bytes: usize) -> Self {
        let locks = GlobalLock::count(options, shape);
        // Nodes that share a local lock do not share the lock in the node, so that is not handed over.
        let local = match (options.memory, options.local) {
            (LockMemory::Node, LocalLocks::Queued { .. }) => LocalLocks::Queued { hand_over_max: 0 },
            (_, local) => local,
        };
        let tables = LocalTables::new(local, usize::from(shape.nodes), locks as usize);
        Self {
            options,
            tables: Arc::new(tables),
            locks,
            room_bytes: room_bytes as u64,
            dropped: AtomicU64::new(0),
            doubts: Arc::default(),
            lease_expires: false,
        }
    }

    /// The same locks, of which those in doubt are given back by whoever takes or waits for one of `other`, too:
    /// where a client that has one of these waits for one of those, and the other way round, it would else wait for
    /// ever.
    #[must_use]
    pub fn sharing_doubts(mut self, other: &Self) -> Self {
        self.doubts = Arc::clone(&other.doubts);
        self
    }

    /// How many held locks were dropped instead of released, which is a bug, or a cancelled operation.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many locks this compute node may have without a client of it holding them: a memory node was lost while
    /// they were being taken or released. Whoever takes a lock next gives them back.
    pub fn in_doubt(&self) -> usize {
        self.doubts.count()
    }

    /// Breaks the locks, for tests that want to notice.
    pub(crate) fn sabotage(&mut self, sabotage: Sabotage) {
        self.lease_expires = sabotage == Sabotage::LeaseExpires;
    }

    /// Takes the lock of the node at `node`. The caller holds no lock.
    /// [1 RT; 0 when it is handed over; 1 more for each time that another compute node is found to hold it]
    ///
    /// # Errors
    /// [`IndexError::LockHeld`] where a living client keeps it for 20 s.
    pub async fn acquire<'a, F: Fabric, T: ?Sized>(
        &'a self,
        client: &'a Client<F>,
        node: Remote<T>,
        operation: &'static str,
    ) -> Result<Held<'a, F>, IndexError> {
        let held = self.queue_up(client, self.lock_of(node)).await?;
        if held.turn.handed_over() {
            return Ok(held.armed());
        }
        let first = client.post(held.lock.try_take(client.fabric().identity())).await;
        let (held, _) = self.take(held, first.map(farwood_fabric::Either::value), NOTHING, operation).await?;
        Ok(held)
    }

    /// Takes the lock as [`acquire`](Self::acquire) does; the first attempt brings `bytes` bytes of the node with it,
    /// read behind the lock in the same doorbell. The fabric keeps an atomic and a READ after it in order. Where the
    /// lock is handed over, the node comes with it, if it was the same. `None`: nothing was read, the lock having been
    /// another node's before, or taken by a later attempt. [1 RT; 0 when it is handed over; else as `acquire`]
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_and_read<'a, F: Fabric, T: Object + ?Sized>(
        &'a self,
        client: &'a Client<F>,
        node: Remote<T>,
        bytes: usize,
        operation: &'static str,
    ) -> Result<(Held<'a, F>, Option<Fetched<T>>), IndexError> {
        let held = self.queue_up(client, self.lock_of(node)).await?;
        if held.turn.handed_over() {
            let mut held = held.armed();
            let copy = held.turn.read_handed_over(node.word(), |bytes| client.copy_of(bytes));
            if copy.is_some() {
                client.fabric().mark(marks::NODE_HANDED_OVER);
            }
            return Ok((held, copy));
        }
        self.take_and_read(held, (node, bytes), Again::LockAlone, operation).await
    }

    /// Takes the lock that is the last word of the `room_bytes` bytes at `object`, as [`acquire`](Self::acquire) does;
    /// the first attempt brings the object with it, if the fabric keeps an atomic and a READ after it in order, and so
    /// do later ones if it is small: who waited for a lock that many want does not hold it for a READ as well.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_rear<'a, F: Fabric, T: Object + ?Sized>(
        &'a self,
        client: &'a Client<F>,
        object: Remote<T>,
        room_bytes: usize,
        operation: &'static str,
    ) -> Result<(Held<'a, F>, Option<Fetched<T>>), IndexError> {
        let word = object.part((room_bytes - LOCK_BYTES) as u64);
        let lock = GlobalLock::of(self.options, self.locks, object).in_node(word);
        let held = self.queue_up(client, lock).await?;
        if client.fabric().capabilities().atomic_then_read {
            let again = if room_bytes <= SMALL_BYTES { Again::WithObject } else { Again::LockAlone };
            return self.take_and_read(held, (object, room_bytes), again, operation).await;
        }
        let first = client.post(held.lock.try_take(client.fabric().identity())).await;
        self.take(held, first.map(farwood_fabric::Either::value), None, operation).await
    }

    /// Takes the global lock for a client that has its turn, with a READ behind it in the same doorbell; a copy is
    /// worth something only if the attempt that brought it took the lock.
    async fn take_and_read<'a, F: Fabric, T: Object + ?Sized>(
        &'a self,
        held: Held<'a, F>,
        (at, bytes): (Remote<T>, usize),
        again: Again,
        operation: &'static str,
    ) -> Result<(Held<'a, F>, Option<Fetched<T>>), IndexError> {
        let client = held.client;
        let lock = held.lock.try_take(client.fabric().identity());
        let again = (again == Again::WithObject).then_some((at, bytes));
        match client.post(lock.then(read_bytes(at, bytes))).await {
            Ok((first, copy)) => {
                let won = first.value() == Swapped::Won;
                let (held, later) = self.take(held, Ok(first.value()), again, operation).await?;
                Ok((held, if won { Some(copy) } else { later }))
            }
            Err(error) => self.take(held, Err(error), again, operation).await,
        }
    }

    /// Takes the lock of the node at `node` if that needs no waiting: a client that holds locks, those in `holding`,
    /// never waits for another, which may be one of them. [1 RT; 0 when it is known to be busy]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn try_acquire<'a, F: Fabric, T: ?Sized>(
        &'a self,
        client: &'a Client<F>,
        node: Remote<T>,
        holding: &[Held<'a, F>],
    ) -> Result<Attempt<'a, F>, IndexError> {
        let lock = self.lock_of(node);
        if holding.iter().any(|held| held.lock == lock) {
            return Ok(Attempt::Mine);
        }
        let Some(turn) = self.tables.try_acquire(lock) else { return Ok(Attempt::Busy) };
        let held = Held { locks: self, client, lock, turn, armed: false };
        match client.post(lock.try_take(client.fabric().identity())).await.map(farwood_fabric::Either::value)
        {
            Ok(Swapped::Lost(found)) if !self.is_left_over(client, lock, found) => Ok(Attempt::Busy),
            Ok(_) => {
                self.doubts.settle(lock);
                Ok(Attempt::Taken(held.armed()))
            }
            Err(error) => {
                // The CAS may have been executed, and its answer lost.
                self.doubt(client, lock);
                Err(error.into())
            }
        }
    }

    /// Waits for one's turn among the clients of the compute node, and hears whether the lock came with it.
    async fn queue_up<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        lock: GlobalLock,
    ) -> Result<Held<'a, F>, IndexError> {
        if lock.node().0 >= client.fabric().shape().nodes {
            return Err(FabricError::OutOfRange { at: lock.word().address(), bytes: 0 }.into());
        }
        self.settle_doubts(client, None).await;
        let me = client.fabric().identity();
        let abandon = || client.post_detached(lock.release(self.options.release, me));
        let turn = self.tables.acquire(client, lock, &abandon).await;
        if turn.handed_over() {
            client.note(|costs| costs.handed_over += 1);
            if self.doubts.count() > 0 {
                // Whoever has it, and the turn, will release it.
                self.doubts.settle(lock);
            }
        }
        Ok(Held { locks: self, client, lock, turn, armed: false })
    }

    /// Takes the global lock after a first attempt, for a client that has its turn. Later attempts bring what is at
    /// `again`, and the one that took the lock yields it.
    async fn take<'a, F: Fabric, T: Object + ?Sized>(
        &'a self,
        held: Held<'a, F>,
        first: Result<Swapped, FabricError>,
        again: Option<(Remote<T>, usize)>,
        operation: &'static str,
    ) -> Result<(Held<'a, F>, Option<Fetched<T>>), IndexError> {
        let (client, lock) = (held.client, held.lock);
        let taken = match first {
            Ok(first) => self.insist(client, lock, (first, again), operation).await,
            Err(error) => Err(error.into()),
        };
        if let Err(IndexError::Fabric(_)) = taken {
            // The CAS may have been executed, and its answer lost.
            self.doubt(client, lock);
        }
        let copy = taken?;
        if self.doubts.count() > 0 {
            // Whoever has it, and the turn, will release it.
            self.doubts.settle(lock);
        }
        Ok((held.armed(), copy))
    }

    /// The lock of the node at `node`.
    #[inline]
    fn lock_of<T: ?Sized>(&self, node: Remote<T>) -> GlobalLock {
        let lock = GlobalLock::of(self.options, self.locks, node);
        match self.options.memory {
            LockMemory::Node => lock.in_node(node.part(self.room_bytes - LOCK_BYTES as u64)),
            LockMemory::Host | LockMemory::Device => lock,
        }
    }

    /// Gives back what is in doubt, as far as the memory nodes can be reached. The client has the turn at `mine`, and
    /// with that at other locks behind the same local one. [1 RT each]
    async fn settle_doubts<F: Fabric>(&self, client: &Client<F>, mine: Option<GlobalLock>) {
        if self.doubts.count() == 0 {
            return;
        }
        for (lock, tables) in self.doubts.due(client.fabric().now()) {
            let turn = tables.try_acquire(lock);
            let has_turn = turn.is_some()
                || mine
                    .is_some_and(|mine| Arc::ptr_eq(&tables, &self.tables) && tables.guards_both(mine, lock));
            // Whoever else has the turn finds the lock to be in doubt itself.
            if !has_turn {
                continue;
            }
            let Some(take_back) = self.take_back(lock, client) else { continue };
            match client.post(take_back).await {
                Ok(_) => {
                    client.fabric().mark(marks::DOUBT_SETTLED);
                    self.doubts.settle(lock);
                }
                Err(_) => self.doubts.enter(lock, &tables, client.fabric().now()),
            }
        }
    }

    /// A lock may be this compute node's, or not.
    fn doubt<F: Fabric>(&self, client: &Client<F>, lock: GlobalLock) {
        if self.take_back(lock, client).is_some() {
            client.fabric().mark(marks::LOCK_IN_DOUBT);
            self.doubts.enter(lock, &self.tables, client.fabric().now());
        }
    }

    /// Whether a lock that was found with the word `found` is this client's, which has the turn at it: it was in
    /// doubt, and it is this compute node's.
    fn is_left_over<F: Fabric>(&self, client: &Client<F>, lock: GlobalLock, found: u64) -> bool {
        let left_over =
            found == LockWord::held_by(client.fabric().identity()).word() && self.doubts.has(lock);
        if left_over {
            client.fabric().mark(marks::LEFT_OVER);
        }
        left_over
    }

    /// Tries to take the global lock until it is taken, from a dead client if need be. Each attempt brings what is at
    /// `again`; yields what the one that took the lock brought.
    async fn insist<F: Fabric, T: Object + ?Sized>(
        &self,
        client: &Client<F>,
        lock: GlobalLock,
        (first, again): (Swapped, Option<(Remote<T>, usize)>),
        operation: &'static str,
    ) -> Result<Option<Fetched<T>>, IndexError> {
        match first {
            Swapped::Won => return Ok(None),
            Swapped::Lost(found) if self.is_left_over(client, lock, found) => return Ok(None),
            Swapped::Lost(_) => {}
        }
        let mut wait = Wait::new(client.fabric().now());
        loop {
            client.note(|costs| costs.lock += 1);
            let pause = wait.pause();
            if pause > 0 {
                client.fabric().mark(marks::LOCK_STUCK);
            }
            client.fabric().sleep(pause).await;
            let copy = again.map(|(at, bytes)| read_bytes(at, bytes));
            let attempt = lock.try_take(client.fabric().identity()).then_maybe(copy);
            let (attempt, copy) = client.post(attempt).await?;
            let found = match attempt.value() {
                Swapped::Won => return Ok(copy),
                Swapped::Lost(found) if self.is_left_over(client, lock, found) => return Ok(None),
                Swapped::Lost(found) => found,
            };
            if wait.is_suspicious(client.fabric()) {
                // Two compute nodes that wait for locks that the other has in doubt would wait for ever.
                self.settle_doubts(client, Some(lock)).await;
                if let Some(holder) = lock.holder(found)
                    && self.break_lock(client, lock, found, holder).await?
                {
                    return Ok(None);
                }
            }
            if let Err(error) = wait.end(operation, lock.holder(found)) {
                client.fabric().mark(marks::LOCK_GIVEN_UP);
                return Err(error);
            }
        }
    }

    /// The verb that frees a lock if this compute node has it; `None` where another of its clients may have it.
    fn take_back<F: Fabric>(&self, lock: GlobalLock, client: &Client<F>) -> Option<farwood_fabric::Cas> {
        let mine = LockWord::held_by(client.fabric().identity());
        let certain = self.options.local != LocalLocks::None && self.options.width == LockWidth::Word;
        certain.then(|| lock.free_from(mine))
    }

    /// Takes the lock over from `holder` if it is gone for good: first it is revoked, then its lock is broken.
    async fn break_lock<F: Fabric>(
        &self,
        client: &Client<F>,
        lock: GlobalLock,
        found: u64,
        holder: ClientId,
    ) -> Result<bool, IndexError> {
        if client.fabric().revoke(holder).await? == Revocation::Alive && !self.lease_expires {
            client.fabric().mark(marks::HOLDER_LIVES);
            return Ok(false);
        }
        let mine = client.fabric().identity();
        let won = client.post(lock.take_from(LockWord::from_word(found), mine)).await? == Swapped::Won;
        client.fabric().mark(if won { marks::LOCK_BROKEN } else { marks::LOCK_BROKEN_BEFORE });
        Ok(won)
    }
}

/// Whether a lock's word is free at one of several looks.
pub(crate) async fn comes_free<F: Fabric>(client: &Client<F>, word: Remote<u64>) -> Result<bool, IndexError> {
    for _ in 0..LOOKS_MAX {
        let Ok(found) = client.post(read(word)).await?.check(&()) else { unreachable!("words are whole") };
        if found.word() == 0 {
            return Ok(true);
        }
        client.fabric().sleep(LOOK_PAUSE).await;
    }
    Ok(false)
}

/// How long a client has been waiting for a lock.
struct Wait {
    attempts: u32,
    since: u64,
    looked: u64,
    now: u64,
}

impl Wait {
    fn new(now: u64) -> Self {
        Self { attempts: 0, since: now, looked: now, now }
    }

    /// Whether it is time to look if the holder is gone.
    fn is_suspicious(&mut self, fabric: &impl Fabric) -> bool {
        self.attempts += 1;
        if !self.attempts.is_multiple_of(ATTEMPTS_PER_LOOK) {
            return false;
        }
        self.now = fabric.now();
        if self.now - self.looked < SUSPICION {
            return false;
        }
        self.looked = self.now;
        true
    }

    /// How long to pause before the next attempt: a hundredth of an unusually long wait.
    fn pause(&self) -> u64 {
        match self.now - self.since {
            waited if waited < UNUSUAL => 0,
            waited => (waited / 100).min(PAUSE_MAX),
        }
    }

    /// Ends the wait after [`PATIENCE`].
    fn end(&self, operation: &'static str, holder: Option<ClientId>) -> Result<(), IndexError> {
        let waited = self.now - self.since;
        if waited < PATIENCE {
            return Ok(());
        }
        Err(IndexError::LockHeld { operation, holder, waited_ms: waited / 1_000_000 })
    }
}

/// What came of [`NodeLocks::try_acquire`].
pub enum Attempt<'a, F: Fabric> {
    /// The lock is taken.
    Taken(Held<'a, F>),
    /// The node has the same lock as one whose lock is held.
    Mine,
    /// Somebody has it.
    Busy,
}

/// A lock that this client holds.
#[must_use = "a held lock must be released"]
pub struct Held<'a, F: Fabric> {
    locks: &'a NodeLocks,
    client: &'a Client<F>,
    lock: GlobalLock,
    turn: local::LocalGuard<'a>,
    /// Whether the global lock is really held: not while it is being acquired, nor after its release.
    armed: bool,
}

impl<'a, F: Fabric> Held<'a, F> {
    /// The global lock is really held.
    fn armed(mut self) -> Self {
        self.armed = true;
        self
    }

    /// Gives the lock up. The verb, if there is one, is to be chained behind the write-back; there is none where
    /// the lock is handed over to the next client of this compute node. The [`LocalRelease`] is to be completed
    /// when the post has been answered.
    pub fn release(mut self) -> (Option<Unlock>, LocalRelease<'a, F>) {
        self.armed = false;
        let hand_over = self.turn.should_hand_over();
        let unlock = (!hand_over).then(|| self.unlock());
        (unlock, LocalRelease { held: self, hand_over })
    }

    /// Gives the lock up within a WRITE whose last word frees it. The [`LocalRelease`] is to be completed when that
    /// has been answered.
    pub fn release_within(mut self) -> LocalRelease<'a, F> {
        self.armed = false;
        LocalRelease { held: self, hand_over: false }
    }

    /// Gives the lock up when nothing is to be written. [1 RT; 0 when it is handed over]
    pub async fn give_up(self) -> Result<(), IndexError> {
        let client = self.client;
        let (unlock, local) = self.release();
        if let Some(unlock) = unlock
            && let Err(error) = client.post(unlock).await
        {
            local.failed().await;
            return Err(error.into());
        }
        local.complete();
        Ok(())
    }

    fn unlock(&self) -> Unlock {
        self.lock.release(self.locks.options.release, self.client.fabric().identity())
    }
}

impl<F: Fabric> Drop for Held<'_, F> {
    /// An operation was cancelled, or failed, while it held the lock. Nothing of it is in flight but what came
    /// with the unlock, so the lock is free to be taken once this verb has landed.
    fn drop(&mut self) {
        if self.armed {
            self.locks.dropped.fetch_add(1, Ordering::Relaxed);
            self.client.post_detached(self.unlock());
        }
    }
}

/// A lock whose unlock is on its way, or that waits to be handed over.
#[must_use = "complete it when the unlock has been answered"]
pub struct LocalRelease<'a, F: Fabric> {
    held: Held<'a, F>,
    hand_over: bool,
}

impl<F: Fabric> LocalRelease<'_, F> {
    /// The write-back has been answered: the next client of the compute node may have its turn.
    pub fn complete(self) {
        self.complete_with(None);
    }

    /// As [`complete`](Self::complete), handing over the node, at the address that comes with it, as it is now.
    pub fn complete_with(mut self, node: Option<(u64, &[u8])>) {
        if self.hand_over && !self.held.turn.hand_over(node) {
            // Whoever was to get the lock has been cancelled: nobody waits any more.
            self.held.client.post_detached(self.held.unlock());
        }
        self.hand_over = false;
    }

    /// The post failed, and whether the unlock was executed is unknown. The lock is released if this compute node
    /// still has it, which is for certain only where its clients take turns; where they do not, the lock stays
    /// until this compute node leaves the pool. Where the memory node cannot be reached, that waits until it can.
    /// [1 RT]
    pub async fn failed(mut self) {
        self.hand_over = false;
        self.held.client.fabric().mark(marks::RELEASE_FAILED);
        let Held { locks, client, lock, .. } = self.held;
        if let Some(take_back) = locks.take_back(lock, client)
            && client.post(take_back).await.is_err()
        {
            // The fabric has failed already, and its first error is the one to report.
            locks.doubt(client, lock);
        }
    }
}

impl<F: Fabric> Drop for LocalRelease<'_, F> {
    /// The operation was cancelled. An unlock that was posted is on its way; one that was saved for the next
    /// client follows the write-back on the same queue pair.
    fn drop(&mut self) {
        if self.hand_over {
            self.held.client.post_detached(self.held.unlock());
        }
    }
}
