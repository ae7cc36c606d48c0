//! Reads and locks inner nodes and leaves.

use super::RadixTree;
use super::copy::{Extent, InnerCopy, LeafCopy, ends_with_object, front_of, fronts, is_ordered, proves};
use super::damage::damaged;
use super::options::LeafLock;
use super::policy::Policy;
use crate::error::IndexError;
use crate::lock::{BYTES_PER_LOCK, HeldLock};
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::coverage;
use crate::radix::inner::{Inner, InnerRef, RawInner};
use crate::radix::leaf::{Leaf, LeafFormat, LeafRef, RawLeaf};
use crate::retry::{Retry, reap_crashed_clients};
use farwood_fabric::{Checked, Client, Fabric, Fetched, Object, Remote, read_bytes};

/// Maximum reads of a copy that stays torn, with pauses.
const TORN_READS_MAX: u32 = 2_000;
/// Their duration, milliseconds.
const TORN_WAIT_MS: u64 = 2_000;
/// Maximum reads of a copy that stays torn while no client changes the tree.
const READS_AT_REST_MAX: usize = 20;
/// Torn reads between two checks whether the writer has crashed.
const TORN_READS_PER_CRASH_CHECK: u32 = 40;

/// The lock of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockPlace {
    /// In the table of inner nodes.
    Table,
    /// The last word of the object, which is a leaf, or in the table of leaves.
    Rear,
}

/// When a locked node was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeRead {
    /// By the doorbell that acquired the lock.
    WithLock,
    /// By a later one.
    Later,
}

impl<'a, F: Fabric, P: Policy> Op<'a, F, RadixTree<P>> {
    /// Reads the object at `at`.
    /// [1 RT, and 1 for each torn copy; 2 more if the fabric proves nothing about such objects]
    pub(crate) async fn read_object<T: Object>(
        self,
        at: Remote<T>,
        extent: Extent,
        format: &T::Format,
        lock: LockPlace,
    ) -> Result<Checked<T>, IndexError> {
        let (mut retry, bytes) = (Retry::new(self.name, TORN_READS_MAX), extent.bytes);
        loop {
            if let Some(copy) = self.read_once(at, extent, format).await? {
                return Ok(copy);
            }
            match wait_for_writer(self.client, &mut retry).await {
                Err(IndexError::Exhausted { .. }) => return Err(self.stays_torn(at, bytes, lock).await?),
                waited => waited?,
            }
        }
    }

    /// The error for an object that stays torn: a client that is stopped in the middle of a WRITE holds its lock;
    /// otherwise it is damaged. [1 RT, and a revocation of the holder]
    async fn stays_torn<T: ?Sized>(
        self,
        at: Remote<T>,
        bytes: usize,
        lock: LockPlace,
    ) -> Result<IndexError, IndexError> {
        let held = match lock {
            LockPlace::Table => self.on(&self.index.nodes).foreign_lock(at, TORN_WAIT_MS).await?,
            LockPlace::Rear if self.index.options.leaf_lock == LeafLock::Table => {
                self.on(&self.index.leaves).foreign_lock(at, TORN_WAIT_MS).await?
            }
            LockPlace::Rear => self.on(&self.index.leaves).foreign_rear_lock(at, bytes, TORN_WAIT_MS).await?,
        };
        let what = || "its copies stay torn: a writer left it unfinished, or it is no object of this index";
        Ok(held.unwrap_or_else(|| damaged(self.name, at, what().to_owned())))
    }

    /// Reads the object at `at`; `None` if the copy is torn.
    /// [1 RT; 2 more if the fabric proves nothing about such objects; 3 more for a typed node whose last slot has a
    /// child]
    async fn read_once<T: Object>(
        self,
        at: Remote<T>,
        extent: Extent,
        format: &T::Format,
    ) -> Result<Option<Checked<T>>, IndexError> {
        let (client, bytes) = (self.client, extent.bytes);
        let promised = client.fabric().capabilities();
        if proves(promised, at, extent) && is_ordered(promised, extent) {
            let Ok(copy) = client.post(read_bytes(at, bytes)).await?.check(format) else { return Ok(None) };
            if ends_with_object(extent, &copy) {
                return Ok(Some(copy));
            }
        }
        let before = fronts(client, [at].into_iter()).await?;
        let Ok(copy) = client.post(read_bytes(at, bytes)).await?.check(format) else { return Ok(None) };
        let whole = before[0] == front_of(&copy) && before == fronts(client, [at].into_iter()).await?;
        Ok(whole.then_some(copy))
    }

    /// As [`read_object`](Self::read_object), in a tree that no client changes: a copy that stays torn for a few reads
    /// is damaged, so that a walk over much damage ends soon.
    async fn read_at_rest<T: Object>(
        self,
        at: Remote<T>,
        extent: Extent,
        format: &T::Format,
        lock: LockPlace,
    ) -> Result<Checked<T>, IndexError> {
        for _ in 0..READS_AT_REST_MAX {
            if let Some(copy) = self.read_once(at, extent, format).await? {
                return Ok(copy);
            }
            self.fabric().sleep(0).await;
        }
        Err(self.stays_torn(at, extent.bytes, lock).await?)
    }

    /// As [`read_inner`](Self::read_inner), with all slots of a typed node, in a tree that no client changes.
    pub(super) async fn read_inner_at_rest(self, node: InnerRef) -> Result<InnerCopy, IndexError> {
        let (extent, format) = (node.whole().extent(), self.index.inner_format());
        self.read_at_rest(node.at, extent, &format, LockPlace::Table).await.map(Inner::new)
    }

    /// As [`read_leaf`](Self::read_leaf), in a tree that no client changes.
    pub(super) async fn read_leaf_at_rest(self, leaf: LeafRef) -> Result<LeafCopy, IndexError> {
        let format = LeafFormat { number: self.index.number };
        self.read_at_rest(leaf.at, leaf.extent(), &format, LockPlace::Rear).await.map(Leaf::new)
    }

    /// Reads an inner node. [as [`read_object`](Self::read_object); 1 RT more if the node has grown in place]
    pub(crate) async fn read_inner(self, node: InnerRef) -> Result<InnerCopy, IndexError> {
        let format = self.index.inner_format();
        self.read_slots_in_use(node, &format).await
    }

    /// Reads an inner node, again if it has more slots in use than `node` states. [as
    /// [`read_inner`](Self::read_inner)]
    pub(crate) async fn read_slots_in_use<T: Object>(
        self,
        InnerRef { at, mut size }: InnerRef,
        format: &T::Format,
    ) -> Result<Inner<Checked<T>>, IndexError> {
        loop {
            let extent = InnerRef { at, size }.extent();
            let mut copy = Inner::new(self.read_object(at.part(0), extent, format, LockPlace::Table).await?);
            if self.index.mutant == Some(Mutant::HintTrusted) && size.is_typed() {
                copy.set_size(size);
            }
            if !copy.is_short() {
                return Ok(copy);
            }
            self.hit(coverage::NODE_HAS_GROWN);
            size = copy.header().size();
        }
    }

    /// Reads a leaf. [as [`read_object`](Self::read_object)]
    #[inline]
    pub(crate) async fn read_leaf(self, leaf: LeafRef) -> Result<LeafCopy, IndexError> {
        let format = LeafFormat { number: self.index.number };
        self.read_object(leaf.at, leaf.extent(), &format, LockPlace::Rear).await.map(Leaf::new)
    }

    /// The object whose address selects the lock of slot `number` of the node at `at`. A node has one lock. The root
    /// has one for each slot: it is never replaced, so no change needs all of its slots, and changes below different
    /// slots need not wait for each other. The root has slots for all partial keys in their order, and many clients of
    /// a new tree change them at the same time.
    pub(super) fn guard(self, at: Remote<RawInner>, number: usize) -> Remote<u64> {
        let number = if at == self.index.root { number as u64 } else { 0 };
        at.part(number * BYTES_PER_LOCK)
    }

    /// Acquires the lock of slot `number` of an inner node, and reads the node under it.
    /// [1 RT; 2 without [`AtomicThenRead`](farwood_fabric::Capability::AtomicThenRead)]
    pub(super) async fn lock_inner(
        self,
        node: InnerRef,
        number: usize,
    ) -> Result<(HeldLock<'a, F>, InnerCopy), IndexError> {
        let locks = self.on(&self.index.nodes);
        let guard = self.guard(node.at, number);
        let (held, copy) = if self.fabric().capabilities().atomic_then_read {
            locks.acquire_and_read(guard, node.at, node.size.bytes()).await?
        } else {
            (locks.acquire(guard).await?, None)
        };
        let (held, copy, _) = self.with_locked_inner(held, node, copy).await?;
        Ok((held, copy))
    }

    /// As [`lock_inner`](Self::lock_inner), and reads the leaf of the slot in the same doorbell. Yields no leaf if it
    /// is on another memory node, if its copy is torn, if the node had to be read again, or if the lock was handed
    /// over.
    pub(super) async fn lock_inner_and_leaf(
        self,
        node: InnerRef,
        number: usize,
        leaf: LeafRef,
    ) -> Result<(HeldLock<'a, F>, InnerCopy, Option<LeafCopy>), IndexError> {
        let promised = self.fabric().capabilities();
        let is_one_post = promised.atomic_then_read
            && leaf.at.node() == node.at.node()
            && proves(promised, leaf.at, leaf.extent());
        if !is_one_post {
            let (held, copy) = self.lock_inner(node, number).await?;
            return Ok((held, copy, None));
        }
        let (locks, guard) = (self.on(&self.index.nodes), self.guard(node.at, number));
        let (node_span, leaf_span) = ((node.at, node.size.bytes()), (leaf.at, leaf.class.bytes()));
        let (held, copy, leaf) = locks.acquire_and_read_both(guard, node_span, leaf_span).await?;
        let (held, copy, read) = self.with_locked_inner(held, node, copy).await?;
        // In a node that was read later, the slot may point to a later leaf at the same address.
        let leaf = leaf
            .filter(|_| read == NodeRead::WithLock)
            .and_then(|leaf| leaf.check(&LeafFormat { number: self.index.number }).ok());
        Ok((held, copy, leaf.map(Leaf::new)))
    }

    /// A lock, the inner node that was read under it, and when. Reads the node if `copy` does not prove it. [0 RT; as
    /// [`read_inner`](Self::read_inner)]
    async fn with_locked_inner(
        self,
        held: HeldLock<'a, F>,
        node: InnerRef,
        copy: Option<Fetched<RawInner>>,
    ) -> Result<(HeldLock<'a, F>, InnerCopy, NodeRead), IndexError> {
        let copy = copy.filter(|_| proves(self.fabric().capabilities(), node.at, node.extent()));
        let copy = copy.and_then(|copy| copy.check(&self.index.inner_format()).ok()).map(Inner::new);
        if let Some(copy) = copy.filter(|copy| !copy.is_short()) {
            return Ok((held, copy, NodeRead::WithLock));
        }
        match self.read_inner(node).await {
            Ok(copy) => Ok((held, copy, NodeRead::Later)),
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// Acquires the lock of a leaf, and reads the leaf under it, for an operation on `key`. A lock that is handed over
    /// carries the leaf. [1 RT; 0 when it is handed over; 2 without
    /// [`AtomicThenRead`](farwood_fabric::Capability::AtomicThenRead)]
    pub(super) async fn lock_leaf(
        self,
        leaf: LeafRef,
        key: &[u8],
    ) -> Result<(HeldLock<'a, F>, LeafCopy), IndexError> {
        let (held, copy) = self.acquire_leaf(leaf).await?;
        let copy = copy.filter(|_| proves(self.fabric().capabilities(), leaf.at, leaf.extent()));
        if let Some(Ok(copy)) = copy.map(|copy| copy.check(&LeafFormat { number: self.index.number })) {
            let leaf = Leaf::new(copy);
            // The reverse pointer of a leaf that came with the lock may have changed since it was read. So the leaf
            // proves the value of its own key, but not that another key is absent.
            if !held.is_handed_over() || leaf.key() == key {
                return Ok((held, leaf));
            }
        }
        match self.read_leaf(leaf).await {
            Ok(copy) => Ok((held, copy)),
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// Acquires the lock of a leaf; yields also a copy of the leaf that was read under the lock, or came with it.
    async fn acquire_leaf(
        self,
        leaf: LeafRef,
    ) -> Result<(HeldLock<'a, F>, Option<Fetched<RawLeaf>>), IndexError> {
        let (locks, bytes) = (self.on(&self.index.leaves), leaf.class.bytes());
        match self.index.options.leaf_lock {
            LeafLock::Apart | LeafLock::Rear | LeafLock::RearHandedOver | LeafLock::RearContended => {
                locks.acquire_rear(leaf.at, bytes).await
            }
            LeafLock::Table if self.fabric().capabilities().atomic_then_read => {
                locks.acquire_and_read(leaf.at, leaf.at, bytes).await
            }
            LeafLock::Table => Ok((locks.acquire(leaf.at).await?, None)),
        }
    }
}

/// Counts a torn copy and lets its writer finish. If the writer has crashed, it is reaped.
async fn wait_for_writer<F: Fabric>(client: &Client<F>, retry: &mut Retry) -> Result<(), IndexError> {
    client.fabric().record_coverage(coverage::TORN);
    client.note(|costs| costs.torn += 1);
    if (retry.tries() + 1).is_multiple_of(TORN_READS_PER_CRASH_CHECK) {
        reap_crashed_clients(client).await?;
    }
    retry.again(client).await
}
