//! Acquiring a lock: first the local one, then the global one, unless the previous holder hands it over.

use super::held::HeldLock;
use super::local::{GrantedLock, LocalGuard};
use super::uncertain::{Doubt, UncertainLock, UncertainLocks};
use super::wait::LockWait;
use super::{GlobalLock, LOCK_BYTES, LocalLocks, LocalTables, LockMemory, LockOptions, LockWidth};
use crate::coverage;
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use farwood_fabric::{
    Cas, Chain, Client, ClientId, Either, Fabric, FabricError, Fetched, LockWord, Object, PoolShape, Post,
    Remote, Revocation, Swapped, read, read_bytes,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest object that every attempt to acquire its lock reads as well, bytes.
const SMALL_BYTES: usize = 256;

/// The locks of one compute node: its view of the global tables, and its local tables.
#[derive(Debug)]
pub struct NodeLocks {
    pub(super) options: LockOptions,
    tables: Arc<LocalTables>,
    /// Locks of each memory node's table.
    lock_count: u64,
    /// Bytes of a node with its lock, if nodes contain their locks.
    slot_bytes: u64,
    dropped: AtomicU64,
    uncertain: Arc<UncertainLocks>,
    /// Whether clients also take locks over from live clients, as a mutant.
    breaks_live_locks: bool,
}

/// The outcome of `Op::try_acquire`.
pub enum TryLock<'a, F: Fabric> {
    /// This client has acquired the lock.
    Taken(HeldLock<'a, F>),
    /// This client holds the lock already: the node shares it with a node that the client has locked.
    Mine,
    /// Another client holds the lock.
    Busy,
}

/// The memory that an attempt reads after the first one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reread {
    Nothing,
    Object,
}

/// An object to read together with its lock.
struct ObjectSpan<T: ?Sized> {
    at: Remote<T>,
    bytes: usize,
}

impl<T: ?Sized> Copy for ObjectSpan<T> {}

impl<T: ?Sized> Clone for ObjectSpan<T> {
    fn clone(&self) -> Self {
        *self
    }
}

/// No object.
const NOTHING: Option<ObjectSpan<u64>> = None;

impl NodeLocks {
    /// Locks for a pool of shape `shape`, and for nodes in slots of `slot_bytes` bytes: a lock that lies in its node is
    /// the last word of the slot.
    pub fn new(options: LockOptions, shape: PoolShape, slot_bytes: usize) -> Self {
        // Nodes that share a local lock do not share the lock in the node, so it is never handed over.
        let local = match (options.memory, options.local) {
            (LockMemory::Node, LocalLocks::Queued { .. }) => LocalLocks::Queued { hand_over_max: 0 },
            (_, local) => local,
        };
        Self::of_objects(LockOptions { local, ..options }, shape, slot_bytes)
    }

    /// As [`new`](Self::new), but locks inside objects are handed over, if `options` say so. A client that is handed
    /// the lock of another object releases it, which costs a round trip.
    pub fn of_objects(options: LockOptions, shape: PoolShape, slot_bytes: usize) -> Self {
        let lock_count = GlobalLock::count(options, &shape);
        let tables = LocalTables::new(options.local, usize::from(shape.nodes), lock_count as usize);
        Self {
            options,
            tables: Arc::new(tables),
            lock_count,
            slot_bytes: slot_bytes as u64,
            dropped: AtomicU64::new(0),
            uncertain: Arc::default(),
            breaks_live_locks: false,
        }
    }

    /// Shares the record of uncertain locks with `other`, so that a client that acquires a lock of `self` or of `other`
    /// frees the uncertain locks of both. Otherwise two compute nodes could each wait for an uncertain lock of the
    /// other.
    #[must_use]
    pub fn sharing_uncertain(mut self, other: &Self) -> Self {
        self.uncertain = Arc::clone(&other.uncertain);
        self
    }

    /// The number of held locks that were dropped instead of released: by a bug, or by a cancelled operation.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of locks that this compute node may hold although none of its clients does: a memory node was lost
    /// during their acquisition or release. The next client that acquires a lock frees them.
    pub fn uncertain_count(&self) -> usize {
        self.uncertain.count()
    }

    /// Turns the locks into a mutant.
    pub(crate) fn mutant(&mut self, mutant: Mutant) {
        self.breaks_live_locks = mutant == Mutant::LeaseExpires;
    }

    /// Acquires the lock of the node at `node`. The caller holds no lock.
    /// [1 RT; 0 when it is handed over; 1 more for each attempt that finds it held by another compute node]
    ///
    /// # Errors
    /// [`IndexError::LockHeld`] where live clients hold it for 20 s.
    pub async fn acquire<'a, F: Fabric, T: ?Sized>(
        &'a self,
        client: &'a Client<F>,
        node: Remote<T>,
        operation: &'static str,
    ) -> Result<HeldLock<'a, F>, IndexError> {
        Op::new(self, client, operation).acquire(node).await
    }

    /// The lock of the node at `node`.
    #[inline]
    fn lock_of<T: ?Sized>(&self, node: Remote<T>) -> GlobalLock {
        let lock = GlobalLock::of(self.options, self.lock_count, node);
        match self.options.memory {
            LockMemory::Node => lock.in_node(node.part(self.slot_bytes - LOCK_BYTES as u64)),
            LockMemory::Host | LockMemory::Device => lock,
        }
    }

    /// The lock that is the last word of the `slot_bytes` bytes at `object`.
    #[inline]
    fn rear_lock_of<T: ?Sized>(&self, object: Remote<T>, slot_bytes: usize) -> GlobalLock {
        let word = object.part((slot_bytes - LOCK_BYTES) as u64);
        GlobalLock::of(self.options, self.lock_count, object).in_node(word)
    }

    /// The verb that frees a lock if its word is `mine`; `None` where another client of this compute node may have
    /// stored the same word.
    pub(super) fn free_own(&self, lock: GlobalLock, mine: LockWord) -> Option<Cas> {
        let is_unique = self.options.local != LocalLocks::None || mine.is_tagged();
        (is_unique && self.options.width == LockWidth::Word).then(|| lock.free_from(mine))
    }

    /// Records that this compute node may hold the lock, with the word `word`.
    pub(super) fn record_uncertain<F: Fabric>(&self, client: &Client<F>, lock: GlobalLock, word: LockWord) {
        if self.free_own(lock, word).is_some() {
            client.fabric().record_coverage(coverage::LOCK_UNCERTAIN);
            let tables = Arc::clone(&self.tables);
            let has_local = self.options.local != LocalLocks::None;
            let doubt = if has_local { Doubt::PostFailed } else { Doubt::Unguarded };
            self.uncertain.record(UncertainLock { doubt, lock, word, tables }, client.fabric().now());
        }
    }

    /// Frees a lock of a dropped operation, if its word is `word`, without waiting for the answer. The CAS follows the
    /// operation's verbs on the same queue pair. No later acquisition stores the same word, so the CAS frees no lock
    /// but this one, and the next client of the compute node need not wait for it. If it is lost, the next client that
    /// acquires a lock frees this one.
    pub(super) fn free_dropped<F: Fabric>(&self, client: &Client<F>, lock: GlobalLock, word: LockWord) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if client.post_detached(lock.free_from(word)) {
            let (doubt, tables) = (Doubt::Unguarded, Arc::clone(&self.tables));
            self.uncertain.record(UncertainLock { doubt, lock, word, tables }, client.fabric().now());
        }
    }

    /// Releases a held lock of a dropped operation, without waiting for the answer.
    pub(super) fn release_dropped<F: Fabric>(&self, client: &Client<F>, lock: GlobalLock, word: LockWord) {
        match self.options.width {
            LockWidth::Word => self.free_dropped(client, lock, word),
            LockWidth::Packed => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                client.post_detached(lock.release(self.options.release, word));
            }
        }
    }

    /// Removes a lock from the record because a client holds it and will release it.
    fn clear_uncertain(&self, lock: GlobalLock) {
        if self.uncertain.count() > 0 {
            self.uncertain.remove_held(lock);
        }
    }
}

impl<'a, F: Fabric> Op<'a, F, NodeLocks> {
    /// Acquires the lock of the node at `node`. The caller holds no lock.
    /// [1 RT; 0 when it is handed over; 1 more for each attempt that finds it held by another compute node]
    ///
    /// # Errors
    /// [`IndexError::LockHeld`] where live clients hold it for 20 s.
    pub(crate) async fn acquire<T: ?Sized>(self, node: Remote<T>) -> Result<HeldLock<'a, F>, IndexError> {
        let held = self.acquire_local(self.index.lock_of(node)).await?;
        if held.local.handed_over().is_some() {
            return Ok(held.with_global());
        }
        let first = self.post_take(&held, held.lock.try_take(held.word)).await;
        let (held, _) = self.finish(held, first.map(Either::value), NOTHING).await?;
        Ok(held)
    }

    /// Acquires the lock of `guard` as [`acquire`](Self::acquire) does; the first attempt reads `bytes` bytes of the
    /// node after the atomic, in the same doorbell. Both are on the same memory node. The fabric executes an atomic and
    /// a READ after it in order. A lock that is handed over carries the node. Returns no copy if the handed-over lock
    /// carries another node, or if a later attempt acquired the lock. [1 RT; 0 when it is handed over; otherwise as
    /// `acquire`]
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub(crate) async fn acquire_and_read<G: ?Sized, T: Object + ?Sized>(
        self,
        guard: Remote<G>,
        node: Remote<T>,
        bytes: usize,
    ) -> Result<(HeldLock<'a, F>, Option<Fetched<T>>), IndexError> {
        let held = self.acquire_local(self.index.lock_of(guard)).await?;
        if held.local.handed_over().is_some() {
            return Ok(self.with_handed_over_copy(held, node));
        }
        self.acquire_global_and_read(held, ObjectSpan { at: node, bytes }, Reread::Nothing).await
    }

    /// As [`acquire_and_read`](Self::acquire_and_read), and also reads the `other.1` bytes at `other.0`, on the same
    /// memory node. Returns no copy of them if the lock was handed over.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub(crate) async fn acquire_and_read_both<G: ?Sized, T: Object + ?Sized, U: Object + ?Sized>(
        self,
        guard: Remote<G>,
        node: (Remote<T>, usize),
        other: (Remote<U>, usize),
    ) -> Result<(HeldLock<'a, F>, Option<Fetched<T>>, Option<Fetched<U>>), IndexError> {
        let held = self.acquire_local(self.index.lock_of(guard)).await?;
        if held.local.handed_over().is_some() {
            let (held, copy) = self.with_handed_over_copy(held, node.0);
            return Ok((held, copy, None));
        }
        let reads = read_bytes(node.0, node.1).then(read_bytes(other.0, other.1));
        let (first, copies) = match self.post_take(&held, held.lock.try_take(held.word).then(reads)).await {
            Ok((first, copies)) => (Ok(first.value()), Some(copies)),
            Err(error) => (Err(error), None),
        };
        let copies = copies.filter(|_| first == Ok(Swapped::Won));
        let (held, _) = self.finish(held, first, NOTHING).await?;
        let (node, other) = copies.unzip();
        Ok((held, node, other))
    }

    /// A lock that was handed over, and the copy of `node` that came with it.
    fn with_handed_over_copy<T: Object + ?Sized>(
        self,
        held: HeldLock<'a, F>,
        node: Remote<T>,
    ) -> (HeldLock<'a, F>, Option<Fetched<T>>) {
        let mut held = held.with_global();
        let copy = held.local.read_handed_over(node.word(), |bytes| self.client.copy_of(bytes));
        if copy.is_some() {
            self.hit(coverage::NODE_HANDED_OVER);
        }
        (held, copy)
    }

    /// Acquires the lock that is the last word of the `slot_bytes` bytes at `object`, as [`acquire`](Self::acquire)
    /// does. A lock that is handed over carries the object. The first attempt also reads the object, if the fabric
    /// executes an atomic and a READ after it in order. Later attempts read it only if it is small: a client that
    /// acquired a contended lock must not hold it longer for a READ.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub(crate) async fn acquire_rear<T: Object + ?Sized>(
        self,
        object: Remote<T>,
        slot_bytes: usize,
    ) -> Result<(HeldLock<'a, F>, Option<Fetched<T>>), IndexError> {
        let lock = self.index.rear_lock_of(object, slot_bytes);
        let held = self.acquire_local(lock).await?;
        if held.local.handed_over().is_some() {
            return Ok(self.with_handed_over_copy(held, object));
        }
        if self.fabric().capabilities().atomic_then_read {
            let reread = if slot_bytes <= SMALL_BYTES { Reread::Object } else { Reread::Nothing };
            let span = ObjectSpan { at: object, bytes: slot_bytes };
            return self.acquire_global_and_read(held, span, reread).await;
        }
        let first = self.post_take(&held, held.lock.try_take(held.word)).await;
        self.finish(held, first.map(Either::value), None).await
    }

    /// Acquires the lock of the node at `node` if it is free. A client that holds locks (`holding`) never waits for
    /// another one, which may be one that it holds. [1 RT; 0 when a client of this compute node holds the lock]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(crate) async fn try_acquire<T: ?Sized>(
        self,
        node: Remote<T>,
        holding: &[HeldLock<'_, F>],
    ) -> Result<TryLock<'a, F>, IndexError> {
        Ok(self.try_acquire_and_read(node, holding, None).await?.0)
    }

    /// As [`try_acquire`](Self::try_acquire), and reads three words of the node's memory node after the atomic, in the
    /// same doorbell. The fabric executes an atomic and a READ after it in order. Yields the words if the attempt
    /// acquired the lock.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(crate) async fn try_acquire_and_read<T: ?Sized>(
        self,
        node: Remote<T>,
        holding: &[HeldLock<'_, F>],
        words: Option<[Remote<u64>; 3]>,
    ) -> Result<(TryLock<'a, F>, Option<[u64; 3]>), IndexError> {
        let lock = self.index.lock_of(node);
        if holding.iter().any(|held| held.lock == lock) {
            return Ok((TryLock::Mine, None));
        }
        let Some(local) = self.index.tables.try_acquire(lock) else { return Ok((TryLock::Busy, None)) };
        let mut held = self.held(lock, local);
        let reads = words.map(|[one, two, three]| read(one).then(read(two)).then(read(three)));
        match self.post_take(&held, lock.try_take(held.word).then_maybe(reads)).await {
            Ok((taken, found)) => {
                let won = taken.value() == Swapped::Won;
                if let Swapped::Lost(found) = taken.value()
                    && !self.owns_uncertain(&mut held, found)
                {
                    return Ok((TryLock::Busy, None));
                }
                self.index.clear_uncertain(lock);
                let found = found.filter(|_| won).map(|((one, two), three)| [one, two, three]);
                let found = found.map(|words| words.map(Fetched::<u64>::whole_word));
                Ok((TryLock::Taken(held.with_global()), found))
            }
            Err(error) => {
                // The CAS may have been executed, and its answer lost.
                self.index.record_uncertain(self.client, lock, held.word);
                Err(error.into())
            }
        }
    }

    /// Returns the error for an operation that waited `waited_ms` for the node at `node`, if another live compute node
    /// holds its lock. [1 RT, and a revocation of the holder]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(crate) async fn foreign_lock<T: ?Sized>(
        self,
        node: Remote<T>,
        waited_ms: u64,
    ) -> Result<Option<IndexError>, IndexError> {
        self.foreign(self.index.lock_of(node), waited_ms).await
    }

    /// As [`foreign_lock`](Self::foreign_lock). The lock is the last word of the `slot_bytes` bytes at `object`.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(crate) async fn foreign_rear_lock<T: ?Sized>(
        self,
        object: Remote<T>,
        slot_bytes: usize,
        waited_ms: u64,
    ) -> Result<Option<IndexError>, IndexError> {
        self.foreign(self.index.rear_lock_of(object, slot_bytes), waited_ms).await
    }

    async fn foreign(self, lock: GlobalLock, waited_ms: u64) -> Result<Option<IndexError>, IndexError> {
        let found = self.client.post(read(lock.word())).await?.whole_word();
        if !lock.is_foreign(found, self.fabric().identity()) {
            return Ok(None);
        }
        let (operation, holder) = (self.name, lock.holder(found));
        // A lock in damaged memory names no live client.
        let is_held = match holder {
            Some(holder) => self.fabric().revoke(holder).await? == Revocation::Alive,
            None => self.index.options.width == LockWidth::Packed,
        };
        if is_held && !self.client.may_write() {
            return Ok(Some(IndexError::Unfinished { operation, by: holder }));
        }
        Ok(is_held.then_some(IndexError::LockHeld { operation, holder, waited_ms }))
    }

    /// A lock of which this client has the local part.
    fn held(self, lock: GlobalLock, local: LocalGuard<'a>) -> HeldLock<'a, F> {
        let mine = || LockWord::held_by(self.fabric().identity()).tagged(self.fabric().lock_tag());
        let word = local.handed_over().map_or_else(mine, |granted| granted.word);
        HeldLock { locks: self.index, client: self.client, lock, word, local, global_held: false }
    }

    /// Posts a verb that may store `held`'s word in the global lock, and waits for the answer.
    async fn post_take<P: Post>(self, held: &HeldLock<'_, F>, post: P) -> Result<P::Output, FabricError> {
        self.index.post_on_lock(self.client, (held.lock, held.word), post).await
    }

    /// Acquires the local lock that guards `lock`; the previous holder may hand the global one over with it.
    async fn acquire_local(self, lock: GlobalLock) -> Result<HeldLock<'a, F>, IndexError> {
        if lock.node().0 >= self.fabric().shape().nodes {
            self.fabric().find_added_nodes().await?;
        }
        if lock.node().0 >= self.fabric().shape().nodes {
            return Err(FabricError::OutOfRange { at: lock.word().address(), bytes: 0 }.into());
        }
        self.free_uncertain(None).await;
        let abandon = |GrantedLock { lock, word }| self.index.release_dropped(self.client, lock, word);
        let pauses = self.index.options.pauses;
        let mut local = match self.index.tables.acquire(self.client, lock, pauses, &abandon).await {
            Ok(local) => local,
            Err(waited) => return Err(self.local_timeout(lock, waited / 1_000_000).await?),
        };
        if let Some(other) = local.take_other(lock) {
            self.release_other(other).await;
        }
        if local.handed_over().is_some() {
            self.client.note(|costs| costs.handed_over += 1);
            self.index.clear_uncertain(lock);
        }
        Ok(self.held(lock, local))
    }

    /// Releases the lock of another object, which was handed over with a local lock that guards both. Its previous
    /// holder has written the object back. If the memory node is unreachable, a later operation frees the lock. [1 RT]
    async fn release_other(self, GrantedLock { lock, word }: GrantedLock) {
        self.hit(coverage::OTHER_LOCK_HANDED_OVER);
        let locks = self.index;
        match locks.post_on_lock(self.client, (lock, word), lock.free_from(word)).await {
            Ok(_) => locks.clear_uncertain(lock),
            Err(_) => locks.record_uncertain(self.client, lock, word),
        }
    }

    /// Returns the error for a client that waited `waited_ms` for the local lock that guards `lock`. The client that
    /// holds the local lock may itself wait for another compute node, which the error names then. [1 RT, and a
    /// revocation of the holder]
    ///
    /// # Errors
    /// The errors of the fabric.
    async fn local_timeout(self, lock: GlobalLock, waited_ms: u64) -> Result<IndexError, IndexError> {
        self.hit(coverage::LOCK_TIMEOUT);
        let foreign = self.foreign(lock, waited_ms).await?;
        Ok(foreign.unwrap_or_else(|| {
            let holder = Some(self.fabric().identity());
            IndexError::LockHeld { operation: self.name, holder, waited_ms }
        }))
    }

    /// Acquires the global lock for a client that holds the local one, with a READ chained after the atomic in the same
    /// doorbell. A copy is valid only if the attempt that read it acquired the lock.
    async fn acquire_global_and_read<T: Object + ?Sized>(
        self,
        held: HeldLock<'a, F>,
        span: ObjectSpan<T>,
        reread: Reread,
    ) -> Result<(HeldLock<'a, F>, Option<Fetched<T>>), IndexError> {
        let lock = held.lock.try_take(held.word);
        let again = (reread == Reread::Object).then_some(span);
        match self.post_take(&held, lock.then(read_bytes(span.at, span.bytes))).await {
            Ok((first, copy)) => {
                let won = first.value() == Swapped::Won;
                let (held, later) = self.finish(held, Ok(first.value()), again).await?;
                Ok((held, if won { Some(copy) } else { later }))
            }
            Err(error) => self.finish(held, Err(error), again).await,
        }
    }

    /// Acquires the global lock after a first attempt, for a client that holds the local one. Later attempts read
    /// `again`, and the one that acquires the lock returns it.
    async fn finish<T: Object + ?Sized>(
        self,
        mut held: HeldLock<'a, F>,
        first: Result<Swapped, FabricError>,
        again: Option<ObjectSpan<T>>,
    ) -> Result<(HeldLock<'a, F>, Option<Fetched<T>>), IndexError> {
        let acquired = match first {
            Ok(first) => self.acquire_global(&mut held, first, again).await,
            Err(error) => Err(error.into()),
        };
        if let Err(IndexError::Fabric(_)) = acquired {
            // The CAS may have been executed, and its answer lost.
            self.index.record_uncertain(self.client, held.lock, held.word);
        }
        let copy = acquired?;
        self.index.clear_uncertain(held.lock);
        Ok((held.with_global(), copy))
    }

    /// Tries to acquire the global lock until it succeeds, and takes it over from a crashed client. Each attempt reads
    /// `again`; returns the copy of the successful attempt.
    async fn acquire_global<T: Object + ?Sized>(
        self,
        held: &mut HeldLock<'a, F>,
        first: Swapped,
        again: Option<ObjectSpan<T>>,
    ) -> Result<Option<Fetched<T>>, IndexError> {
        match first {
            Swapped::Won => return Ok(None),
            Swapped::Lost(found) if self.owns_uncertain(held, found) => return Ok(None),
            Swapped::Lost(_) => {}
        }
        let lock = held.lock;
        let mut wait = LockWait::new(self.fabric().now(), self.index.options.pauses);
        loop {
            self.client.note(|costs| costs.lock += 1);
            if wait.is_long() {
                self.hit(coverage::LONG_LOCK_WAIT);
            }
            self.fabric().sleep(wait.pause_ns()).await;
            let copy = again.map(|span| read_bytes(span.at, span.bytes));
            let attempt = lock.try_take(held.word).then_maybe(copy);
            let (attempt, copy) = self.post_take(held, attempt).await?;
            let found = match attempt.value() {
                Swapped::Won => return Ok(copy),
                Swapped::Lost(found) if self.owns_uncertain(held, found) => return Ok(None),
                Swapped::Lost(found) => found,
            };
            if wait.liveness_check_due(self.fabric()) {
                if lock.is_damaged(found) {
                    let what = format!("the lock word is {found:#x}, which names no client");
                    return Err(IndexError::Damaged {
                        operation: self.name,
                        at: lock.word().to_string(),
                        what,
                    });
                }
                // Otherwise two compute nodes could each wait for an uncertain lock of the other.
                self.free_uncertain(Some(lock)).await;
                if let Some(holder) = lock.holder(found)
                    && self.break_lock(held, found, holder).await?
                {
                    return Ok(None);
                }
            }
            if let Err(error) = wait.check_limit(self.name, lock.holder(found)) {
                self.hit(coverage::LOCK_TIMEOUT);
                return Err(error);
            }
        }
    }

    /// Frees the uncertain locks whose memory nodes are reachable. The client holds the local lock that guards `mine`,
    /// which may guard other global locks as well. [1 RT each]
    async fn free_uncertain(self, mine: Option<GlobalLock>) {
        let locks = self.index;
        if locks.uncertain.count() == 0 {
            return;
        }
        for uncertain in locks.uncertain.due(self.fabric().now()) {
            let UncertainLock { doubt, lock, word, tables } = &uncertain;
            let local = (*doubt == Doubt::PostFailed).then(|| tables.try_acquire(*lock)).flatten();
            let guarded = local.is_some()
                || *doubt == Doubt::Unguarded
                || mine.is_some_and(|mine| {
                    Arc::ptr_eq(tables, &locks.tables) && tables.guards_both(mine, *lock)
                });
            // If another client holds the local lock, that client frees the uncertain lock.
            if !guarded {
                continue;
            }
            match locks.post_on_lock(self.client, (*lock, *word), lock.free_from(*word)).await {
                Ok(_) => {
                    self.hit(coverage::UNCERTAIN_LOCK_FREED);
                    locks.uncertain.remove(*lock, *word);
                }
                Err(_) => locks.uncertain.record(uncertain.clone(), self.fabric().now()),
            }
        }
    }

    /// Whether this client, which holds the local lock, holds a global one whose word was `found`, because the lock was
    /// uncertain with that word. Then `found` becomes the word of `held`.
    fn owns_uncertain(self, held: &mut HeldLock<'a, F>, found: u64) -> bool {
        let found = LockWord::from_word(found);
        let own = self.index.uncertain.is_owned(held.lock, found);
        if own {
            self.hit(coverage::UNCERTAIN_LOCK_HELD);
            held.word = found;
        }
        own
    }

    /// Takes the lock over from `holder` if that client has crashed: first revokes it, then swaps its lock word.
    async fn break_lock(
        self,
        held: &HeldLock<'_, F>,
        found: u64,
        holder: ClientId,
    ) -> Result<bool, IndexError> {
        if self.fabric().revoke(holder).await? == Revocation::Alive && !self.index.breaks_live_locks {
            self.hit(coverage::HOLDER_ALIVE);
            return Ok(false);
        }
        let take = held.lock.take_from(LockWord::from_word(found), held.word);
        let won = self.post_take(held, take).await? == Swapped::Won;
        self.hit(if won { coverage::LOCK_TAKEN_OVER } else { coverage::TAKEOVER_LOST });
        Ok(won)
    }
}
