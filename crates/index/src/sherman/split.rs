//! Splits: a new right sibling, then its separator in the parent, and at the top a new root (Sherman §4.5,
//! Figure 7 lines 18-38; Lehman and Yao).
//!
//! ```text
//! split(node):                                     the lock of node is held
//!     sibling = a new node with the upper half of node
//!     write(sibling); write(node); unlock(node)    in order; from here on the sibling pointer leads to the upper half
//!     lock(parent); add the separator; write(parent); unlock(parent)
//!     if the parent is full: split(parent)
//! ```
//!
//! Between the WRITE of the split node and that of its parent the tree is valid. No lock is held across levels.

use super::Sherman;
use super::change::Entry;
use super::inner::Added;
use super::lock_node::{LockedNode, ToLock, Write};
use super::node::{Fences, Freed, LEVELS_MAX, Node, RawNode};
use super::options::WriteBack;
use super::position::{SearchTarget, Source};
use super::read::NodeCopy;
use crate::coverage;
use crate::error::IndexError;
use crate::lock::{HeldLock, TryLock};
use crate::memory::slot::MemorySlot;
use crate::op::Op;
use farwood_fabric::{Chain, Fabric, Remote, Swapped, write};

/// A sibling that a split has created and that its parent does not name yet.
pub(super) struct UnlinkedSibling {
    pub(super) lower: Vec<u8>,
    pub(super) at: Remote<RawNode>,
}

impl UnlinkedSibling {
    /// Whether `node`, read at the sibling's address, still is the sibling: another client may have linked and merged
    /// it, and reused its slot.
    fn is_still(&self, node: &NodeCopy<'_>, parent_level: u8) -> bool {
        !node.freed() && node.level() + 1 == parent_level && node.lower() == self.lower
    }
}

/// The slot for a new sibling.
struct SiblingSlot<'a, F: Fabric> {
    slot: MemorySlot<RawNode>,
    /// The lock of the slot, if stale pointers may lead to the slot and its lock is not that of the split node.
    lock: Option<HeldLock<'a, F>>,
}

/// A split node in its new form; its lock is held.
struct SplitNode<'a, 'n, F: Fabric> {
    held: HeldLock<'a, F>,
    at: Remote<RawNode>,
    bytes: &'n [u8],
}

impl<'a, F: Fabric> Op<'a, F, Sherman> {
    /// Splits the full leaf at `at`, whose lock is held, places `entry`, and links the sibling in the parents.
    /// [after lock and read: 1 RT, 2 where the sibling lies on another memory node; then 3 per level]
    pub(super) async fn split_leaf(
        self,
        held: HeldLock<'_, F>,
        at: Remote<RawNode>,
        mut leaf: NodeCopy<'_>,
        entry: Entry<'_>,
    ) -> Result<(), IndexError> {
        let sibling = match self.sibling_slot(&held).await {
            Ok(sibling) => sibling,
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let Ok(mut right) = leaf.split_leaf(sibling.slot.at, entry.key, entry.value) else {
            unreachable!("no entry was torn when the leaf was found to be full")
        };
        let unlinked = UnlinkedSibling { lower: right.lower().to_vec(), at: sibling.slot.at };
        leaf.seal();
        self.write_split(SplitNode { held, at, bytes: leaf.bytes() }, sibling, &mut right).await?;
        // The entry is stored, and its left neighbour links the sibling. If the parent cannot be updated, for lack of
        // memory or of its lock, searches take an extra step to the right until one of them links the sibling.
        self.try_link_in_parent(unlinked, 1).await;
        Ok(())
    }

    /// Allocates a slot for a new sibling of the node whose lock is `held`. [0 RT; 1 for the lock of a reused slot;
    /// otherwise as [`allocate`](Self::allocate)]
    async fn sibling_slot(self, held: &HeldLock<'_, F>) -> Result<SiblingSlot<'a, F>, IndexError> {
        let allocator = &self.index.allocator;
        let slot = self.node_slot().await?;
        if slot.version.is_none() {
            return Ok(SiblingSlot { slot, lock: None });
        }
        let locks = self.named("split").on(&self.index.locks);
        match locks.try_acquire(slot.at, std::slice::from_ref(held)).await {
            Ok(TryLock::Taken(lock)) => return Ok(SiblingSlot { slot, lock: Some(lock) }),
            Ok(TryLock::Mine) => return Ok(SiblingSlot { slot, lock: None }),
            Ok(TryLock::Busy) => allocator.put_aside(slot),
            Err(error) => {
                allocator.take_back(slot);
                return Err(error);
            }
        }
        Ok(SiblingSlot { slot: self.new_node_slot().await?, lock: None })
    }

    /// Writes a new sibling, then the node that was split, then releases the lock, in this order. [1 RT, also in a
    /// reused slot; 2 if the doorbells are not combined or the slot is on another memory node, and then 4 or 5 in a
    /// reused slot]
    async fn write_split(
        self,
        node: SplitNode<'_, '_, F>,
        sibling: SiblingSlot<'_, F>,
        right: &mut Node<'_, Vec<u8>>,
    ) -> Result<(), IndexError> {
        let combined =
            node.at.node() == sibling.slot.at.node() && self.index.options.write_back == WriteBack::Combined;
        if sibling.slot.version.is_some() && combined {
            return self.write_reused_together(node, sibling, right).await;
        }
        let SplitNode { held, at, bytes } = node;
        let SiblingSlot { slot, lock } = sibling;
        let part = Write { to: at.part(0), bytes };
        if slot.version.is_some() {
            let written = self.write_in_reused_slot(part, &slot, right).await;
            let mut released = Ok(());
            for held in lock.into_iter().chain([held]) {
                released = released.and(held.give_up().await);
            }
            return written.and(released);
        }
        let right = &*right.seal_in(&slot);
        if !combined {
            if let Err(error) = self.client.post(write(slot.at, right)).await {
                held.give_up().await?;
                return Err(error.into());
            }
            return self.write_back(held, part, None).await;
        }
        let (unlock, local) = held.release();
        let both = write(slot.at, right).then(write(part.to, bytes)).then_maybe(unlock);
        let written = self.client.post(both).await;
        self.finish_release(local, written.map(drop), None).await
    }

    /// Writes as [`write_in_reused_slot`](Self::write_in_reused_slot), and releases the locks, with one doorbell.
    /// [1 RT]
    async fn write_reused_together(
        self,
        node: SplitNode<'_, '_, F>,
        sibling: SiblingSlot<'_, F>,
        right: &mut Node<'_, Vec<u8>>,
    ) -> Result<(), IndexError> {
        let SiblingSlot { slot, lock } = sibling;
        right.set_freed(Freed::Yes);
        let marked = right.seal_in(&slot).into_owned();
        right.set_freed(Freed::No);
        right.seal();
        self.hit(coverage::LINKED_MARKED);
        let (unlock, local) = node.held.release();
        let (unlock_slot, local_of_slot) = lock.map(HeldLock::release).unzip();
        let writes = write(slot.at, &marked)
            .then(write(node.at.part::<[u8]>(0), node.bytes))
            .then(write(slot.at, right.bytes()));
        let chain = writes.then_maybe(unlock_slot.flatten()).then_maybe(unlock);
        let written = self.client.post(chain).await.map(drop);
        let of_slot = match local_of_slot {
            Some(local) => self.finish_release(local, written.clone(), None).await,
            None => Ok(()),
        };
        self.finish_release(local, written, None).await.and(of_slot)
    }

    /// Writes both nodes if the slot of the sibling was used before, so that stale pointers may lead to it; the lock of
    /// the slot is held as well. The sibling is marked as freed until it is linked, so that no client uses it before.
    /// If this client crashes in between, a client that follows the sibling pointer removes the mark, as after an
    /// interrupted merge. [3 RT]
    async fn write_in_reused_slot(
        self,
        node: Write<'_>,
        slot: &MemorySlot<RawNode>,
        right: &mut Node<'_, Vec<u8>>,
    ) -> Result<(), IndexError> {
        right.set_freed(Freed::Yes);
        self.client.post(write(slot.at, &right.seal_in(slot))).await?;
        self.client.post(write(node.to, node.bytes)).await?;
        self.hit(coverage::LINKED_MARKED);
        right.set_freed(Freed::No);
        right.seal();
        Ok(self.client.post(write(slot.at, right.bytes())).await?)
    }

    /// Links a sibling in its parent at `level`; if it fails, later searches need extra steps to the right.
    pub(super) async fn try_link_in_parent(self, sibling: UnlinkedSibling, level: u8) {
        if self.link_in_parent(sibling, level).await.is_err() {
            self.hit(coverage::NOT_LINKED);
        }
    }

    /// Links a sibling in its parent at `level`, and splits parents as far up as necessary.
    pub(super) async fn link_in_parent(self, sibling: UnlinkedSibling, level: u8) -> Result<(), IndexError> {
        let op = self.named("split");
        let mut next = Some((sibling, level));
        while let Some((sibling, level)) = next {
            assert!(level < LEVELS_MAX, "a tree of {LEVELS_MAX} levels does not fit any pool");
            next = op.link_at_level(sibling, level).await?.map(|sibling| (sibling, level + 1));
        }
        Ok(())
    }

    /// Links a sibling in its parent at `level`; returns the parent's new sibling if the parent was split.
    async fn link_at_level(
        self,
        sibling: UnlinkedSibling,
        level: u8,
    ) -> Result<Option<UnlinkedSibling>, IndexError> {
        let Some(LockedNode { held, at, mut node, beside }) = self.lock_parent(&sibling, level).await? else {
            return Ok(None);
        };
        if !beside.is_some_and(|child| sibling.is_still(&child, level)) {
            self.hit(coverage::SIBLING_GONE);
            held.give_up().await?;
            return Ok(None);
        }
        match node.add_child(&sibling.lower, sibling.at) {
            Added::Yes => {
                node.seal();
                self.write_back(held, Write { to: at.part(0), bytes: node.bytes() }, None).await?;
                self.cache_written(at, &node);
                Ok(None)
            }
            Added::Already => {
                self.hit(coverage::ALREADY_LINKED);
                held.give_up().await?;
                Ok(None)
            }
            Added::Full => self.split_inner(held, at, node, &sibling).await.map(Some),
        }
    }

    /// Locks the node of `level` that should link a sibling, reads both nodes, or adds a root above it (`None`). [2 RT
    /// where the parent is cached; as [`grow`](Self::grow)]
    async fn lock_parent(
        self,
        sibling: &UnlinkedSibling,
        level: u8,
    ) -> Result<Option<LockedNode<'a, F>>, IndexError> {
        let target = SearchTarget { level, key: &sibling.lower };
        let mut growths = self.restarts();
        loop {
            if let Some(parent) = self.inner_for(target).await? {
                let parent = ToLock { at: parent, source: Source::Cache, beside: Some(sibling.at) };
                let locked = self.lock_covering(parent, target).await?;
                if locked.is_some() {
                    return Ok(locked);
                }
            } else if self.grow(sibling, level).await? {
                return Ok(None);
            }
            growths.again(self.client).await?;
        }
    }

    /// Splits a full inner node and adds `child`; returns the new sibling.
    async fn split_inner(
        self,
        held: HeldLock<'_, F>,
        at: Remote<RawNode>,
        mut node: NodeCopy<'_>,
        child: &UnlinkedSibling,
    ) -> Result<UnlinkedSibling, IndexError> {
        let sibling = match self.sibling_slot(&held).await {
            Ok(sibling) => sibling,
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let right_at = sibling.slot.at;
        let mut right = node.split_inner(right_at);
        let added = if right.is_right_of(&child.lower) {
            node.add_child(&child.lower, child.at)
        } else {
            right.add_child(&child.lower, child.at)
        };
        assert_eq!(added, Added::Yes, "half a node has free entries");
        node.seal();
        self.write_split(SplitNode { held, at, bytes: node.bytes() }, sibling, &mut right).await?;
        self.cache_written(at, &node);
        self.cache_written(right_at, &right);
        Ok(UnlinkedSibling { lower: right.lower().to_vec(), at: right_at })
    }

    /// Adds a root at `level` above the old root and `sibling`, if that is still needed; returns `false` where the tree
    /// has that level already.
    ///
    /// Two clients that split nodes of the old root's level may both call this. One of them acquires the lock of the
    /// old root first, and the other then finds a parent. Nodes that the new root does not name are reached through
    /// sibling pointers: the root, old or new, is always the leftmost node of its level. [1 RT to find the old root, 3
    /// to lock and read it, 2 to add the new one, 1 to unlock]
    async fn grow(self, sibling: &UnlinkedSibling, level: u8) -> Result<bool, IndexError> {
        self.index.top.store(None);
        let old = self.root_word().await?;
        let held = self.on(&self.index.locks).acquire(old).await?;
        let grown = self.grow_above(old, sibling, level).await;
        held.give_up().await?;
        grown
    }

    /// Adds a root above the node at `old`, which was the root, and whose lock is held. Without that lock no client
    /// changes the root pointer.
    async fn grow_above(
        self,
        old: Remote<RawNode>,
        sibling: &UnlinkedSibling,
        level: u8,
    ) -> Result<bool, IndexError> {
        if self.root_word().await? != old {
            self.hit(coverage::ROOT_SWAP_LOST);
            return Ok(false);
        }
        let (node, child) = self.read_both(old, sibling.at).await?;
        if node.level() >= level || node.freed() {
            self.hit(coverage::ROOT_PRESENT);
            return Ok(false);
        }
        if node.level() + 1 < level || !sibling.is_still(&child, level) {
            self.hit(coverage::SIBLING_GONE);
            return Ok(true);
        }
        let lowest = vec![0; self.index.layout.key_bytes];
        let mut root = Node::empty(&self.index.layout, level, Fences { lower: &lowest, upper: None }, None);
        root.set_leftmost(old);
        root.push_child(&sibling.lower, sibling.at);
        // A slot holds a root at most once, so the root pointer never has an old value again.
        let slot = self.new_node_slot().await?;
        self.client.post(write(slot.at, &root.seal_in(&slot))).await?;
        let swap = self.client.post(self.index.swap_root(old, slot.at)?).await?;
        if swap != Swapped::Won {
            // The CAS of a cancelled operation may be executed after its lock was freed.
            self.hit(coverage::ROOT_SWAP_LOST);
            self.index.allocator.take_back(slot);
        }
        Ok(swap == Swapped::Won)
    }
}
