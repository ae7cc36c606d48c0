//! Changes of one key in a tree whose clients swap the pointers to leaves without a lock
//! ([`Updates::Swapped`](super::options::Updates::Swapped), the baselines ART and "+lock-free" of SMART).
//!
//! ```text
//! update(key, value):
//!     read the leaf in the slot of the key
//!     WRITE a new leaf, WRITE the mark "moved" into the old one, CAS the slot from the old to the new leaf
//! ```
//!
//! # Why answers are correct
//!
//! A change takes effect with the CAS of the slot. Leaves are not changed in place.
//!
//! 1. *No CAS succeeds for another object than it is meant for*: the memory of leaves and nodes that were linked is not
//!    reused ([`Heap::retire`](crate::radix::heap::Heap::retire)), so a slot that points to the old leaf did so since
//!    the client read it.
//! 2. *A cached slot*: the mark is written before the slot changes. A leaf that is not marked is therefore linked, and
//!    its value is the current one.
//! 3. *A marked leaf* may still be linked: its client is about to swap the slot, has lost the CAS, or has crashed. If
//!    this operation has read the node, its slot pointed to the leaf at that time, and so the value was current during
//!    the operation. Otherwise the client reads the node. No client waits for another one, and nothing is repaired.
//! 4. *A replacement of the node* freezes the slots with leaves before it reads them (`resize.rs`), by a CAS each,
//!    which fails or makes the CAS of a concurrent update fail. An update that finds its slot frozen needs the lock of
//!    the node. Under that lock a frozen slot may change, because a client that replaces a node freezes its slots
//!    again.
//! 5. *A removal or a leaf split* holds the lock of the node, as in the other trees, but its CAS may fail, because an
//!    update swapped the slot; then it is tried again.

use super::change::Removal;
use super::condition::Condition;
use super::copy::LeafCopy;
use super::find::{LeafAt, LeafVerdict, Location, partial_at};
use super::modify::Modification;
use super::new_node::{LinkingNode, NewLeaf};
use super::policy::Policy;
use super::traversal::Traversal;
use super::{Change, RadixTree};
use crate::error::IndexError;
use crate::lock::HeldLock;
use crate::modify::{Decision, LockedValue};
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::coverage;
use crate::radix::inner::slot_offset;
use crate::radix::leaf::{LeafEntry, LeafRef, LeafState, LeafValue, WRITE_BACK};
use crate::radix::slot::NodeSlot;
use farwood_fabric::{Cas, Chain, Fabric, FetchClass, Parallel as _, Remote, Swapped, Write, cas, write};

/// A leaf that a client read, and that it replaces.
struct OldLeaf {
    at: LeafRef,
    /// The leaf as it was read, or with the mark.
    copy: LeafCopy,
    /// Whether the mark has to be written.
    is_unmarked: bool,
}

impl OldLeaf {
    fn new(at: LeafRef, mut copy: LeafCopy) -> Self {
        let is_unmarked = copy.state() == LeafState::Live;
        copy.set_state(LeafState::Moved);
        Self { at, copy, is_unmarked }
    }

    /// The WRITE that marks the leaf. All clients write the same bytes.
    fn mark(&self) -> Option<Write<'_>> {
        let to: Remote<[u8]> = self.at.at.part(WRITE_BACK);
        self.is_unmarked.then(|| write(to, self.copy.front()))
    }
}

impl<'a, F: Fabric, P: Policy> Op<'a, F, RadixTree<P>> {
    /// Puts or updates the key at a location that has a leaf of this key or of another. [2 RT; 3 if the leaves are on
    /// another memory node than the slot; more if other clients change the slot]
    pub(super) async fn change_by_swap(
        self,
        location: &Location,
        at: LeafAt,
        change: Change<'_>,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<bool>, IndexError> {
        let leaf = self.read_leaf(at.leaf).await?;
        match self.judge(&leaf, location, traversal) {
            LeafVerdict::Match => {
                Ok(self.swap_leaf_pointer(location, at, leaf, entry, traversal).await?.then_some(true))
            }
            LeafVerdict::Absent if matches!(change, Change::Update(_)) => Ok(Some(false)),
            LeafVerdict::Absent => {
                Ok(self.split_leaf(location, at, entry, traversal).await?.then_some(false))
            }
            LeafVerdict::Ambiguous => {
                self.resolve(&location.node, at.number, traversal).await?;
                Ok(None)
            }
        }
    }

    /// Modifies the key at a location that has a leaf of this key or of another. `false`: the caller tries again. [1 RT
    /// to keep the value; 2 to store one; 3 to remove it; 1 more for a present overflow value]
    pub(super) async fn modify_by_swap(
        self,
        location: &Location,
        at: LeafAt,
        wanted: &mut Modification<'_, '_, '_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let leaf = self.read_leaf(at.leaf).await?;
        match self.judge(&leaf, location, traversal) {
            LeafVerdict::Match => {}
            LeafVerdict::Absent => return self.modify_absent(location, Some(at), wanted, traversal).await,
            LeafVerdict::Ambiguous => {
                self.resolve(&location.node, at.number, traversal).await?;
                return Ok(false);
            }
        }
        let decision = if let Some(value) = self.value_of(&leaf).await? {
            (wanted.decide)(Some(&value))
        } else {
            traversal.retry_after_change(self.client).await?;
            return Ok(false);
        };
        match decision {
            Decision::Keep => Ok(true),
            Decision::Remove => {
                let unchanged = Condition::Unchanged(leaf.value());
                Ok(self.remove_by_swap(location, at, unchanged, traversal).await? == Some(Removal::Removed))
            }
            Decision::Store(value) => {
                let new = self.new_value(wanted.key, &value).await?;
                let stored =
                    self.swap_leaf_pointer(location, at, leaf, new.entry(wanted.key), traversal).await;
                self.linked(new, stored, |&stored| stored)
            }
        }
    }

    /// The value of a leaf; `None`: another client has replaced it, and freed the overflow value. [0 RT; 1 for an
    /// overflow value, 2 above 2 MiB]
    async fn value_of(self, leaf: &LeafCopy) -> Result<Option<LockedValue<'_>>, IndexError> {
        match leaf.value() {
            LeafValue::Inline(value) => Ok(Some(LockedValue::Inline(value))),
            LeafValue::Overflow(link) => Ok(self.read_overflow(link).await?.map(LockedValue::Overflow)),
        }
    }

    /// Replaces the leaf of the key by a new one. `false`: the slot has changed. [1 RT; 2 more if the slot is frozen]
    async fn swap_leaf_pointer(
        self,
        location: &Location,
        at: LeafAt,
        old: LeafCopy,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let node = &location.node;
        let new = self.new_leaf(LinkingNode::from(&**node), node.at.node(), entry).await?;
        let from = NodeSlot::leaf(partial_at(entry.key, node.header.depth()), at.leaf);
        let mut old = OldLeaf::new(at.leaf, old);
        old.is_unmarked &= self.index.mutant != Some(Mutant::SwapUnmarked);
        let mut swapped = self.post_swap(location, (at.number, from), &old, &new, None).await?;
        if swapped == Swapped::Lost(from.frozen().word()) {
            self.hit(coverage::SLOT_FROZEN);
            old.is_unmarked = false;
            match self.lock_slot(location, at.number, traversal).await {
                Ok(Some((held, copy))) => {
                    let from = copy.slot(at.number);
                    swapped = self.post_swap(location, (at.number, from), &old, &new, Some(held)).await?;
                }
                none_or_error => {
                    self.index.free_new_leaf(new);
                    return none_or_error.map(|_| false);
                }
            }
        }
        if swapped != Swapped::Won {
            self.hit(coverage::SLOT_LOST);
            self.index.free_new_leaf(new);
            traversal.retry_after_change(self.client).await?;
            self.read_again(node, traversal).await?;
            return Ok(false);
        }
        self.hit(coverage::LEAF_MOVED);
        self.index.cache.learn(node, at.number, new.slot(from.partial()));
        if let Some(confirm) = new.confirm() {
            self.client.post_detached(confirm);
        }
        self.index.free_leaf(old.at, old.copy.version());
        self.free_overflow(old.copy.link()).await;
        Ok(true)
    }

    /// Writes a new leaf, marks the old one, and swaps the slot; then releases `held`. [1 RT; 2 if the leaves are on
    /// another memory node than the slot]
    async fn post_swap(
        self,
        location: &Location,
        (number, from): (usize, NodeSlot),
        old: &OldLeaf,
        new: &NewLeaf,
        held: Option<HeldLock<'a, F>>,
    ) -> Result<Swapped, IndexError> {
        let node = &location.node;
        let swap = cas(node.at.part(slot_offset(number)), from.word(), new.slot(from.partial()).word());
        if [old.at.at.node(), new.node()] == [node.at.node(); 2] {
            let leaves = new.write().then_maybe(old.mark());
            return self.post_and_release(leaves.then_yield(swap), held).await;
        }
        let written = match old.mark() {
            Some(mark) => self.client.post(new.write().and(mark)).await.map(drop),
            None => self.client.post(new.write()).await,
        };
        if let Err(error) = written {
            if let Some(held) = held {
                held.give_up().await?;
            }
            return Err(error.into());
        }
        self.post_and_release(swap, held).await
    }

    /// Posts a chain that ends with the swap of a slot, and then releases `held`. [1 RT]
    async fn post_and_release(
        self,
        swap: impl Chain<Last = FetchClass, Output = Swapped>,
        held: Option<HeldLock<'a, F>>,
    ) -> Result<Swapped, IndexError> {
        let (unlock, local) = held.map(HeldLock::release).unzip();
        let swapped = self.client.post(swap.then_maybe_quiet(unlock.flatten())).await;
        match (local, &swapped) {
            (Some(local), Ok(_)) => local.complete(),
            (Some(local), Err(_)) => local.failed().await,
            (None, _) => {}
        }
        Ok(swapped?)
    }

    /// Removes the key at a location that has a leaf of this key or of another, if its value meets `condition`: under
    /// the lock of the node, marks the leaf and empties the slot. [3 RT]
    pub(super) async fn remove_by_swap(
        self,
        location: &Location,
        LeafAt { number, leaf }: LeafAt,
        condition: Condition<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<Removal>, IndexError> {
        let (key, node) = (traversal.key(), &location.node);
        let Some((held, copy)) = self.lock_slot(location, number, traversal).await? else { return Ok(None) };
        let old = match self.read_if_accepted(leaf, key, condition).await {
            Ok(Accepted::Yes(old)) => old,
            refused => {
                held.give_up().await?;
                return self.refusal(refused?, location, number, traversal).await;
            }
        };
        let (slot, old) = (copy.slot(number), OldLeaf::new(leaf, old));
        let vacant = NodeSlot::vacant(slot.partial(), node.header.generation());
        let empty = cas(node.at.part(slot_offset(number)), slot.word(), vacant.word());
        let emptied = self.post_removal(&old, empty, held).await?;
        if emptied != Swapped::Won {
            self.hit(coverage::SLOT_LOST);
            traversal.retry_after_change(self.client).await?;
            return Ok(None);
        }
        self.index.cache.learn(node, number, vacant);
        self.index.free_leaf(old.at, old.copy.version());
        self.free_overflow(old.copy.link()).await;
        self.shrink_if_sparse(location, &copy, traversal).await;
        Ok(Some(Removal::Removed))
    }

    /// Marks a leaf, empties its slot, and releases the lock of the node. [1 RT; 2 if the leaf is on another memory
    /// node than the slot]
    async fn post_removal(
        self,
        old: &OldLeaf,
        empty: Cas,
        held: HeldLock<'a, F>,
    ) -> Result<Swapped, IndexError> {
        match old.mark() {
            Some(mark) if old.at.at.node() == held.node() => {
                self.post_and_release(mark.then_yield(empty), Some(held)).await
            }
            Some(mark) => {
                if let Err(error) = self.client.post(mark).await {
                    held.give_up().await?;
                    return Err(error.into());
                }
                self.post_and_release(empty, Some(held)).await
            }
            None => self.post_and_release(empty, Some(held)).await,
        }
    }

    /// Reads a leaf, and checks its key and its value.
    async fn read_if_accepted(
        self,
        at: LeafRef,
        key: &[u8],
        condition: Condition<'_>,
    ) -> Result<Accepted, IndexError> {
        let leaf = self.read_leaf(at).await?;
        if leaf.key() != key {
            return Ok(Accepted::OtherKey(leaf));
        }
        let is_met = match condition {
            Condition::Any => true,
            Condition::Unchanged(value) => leaf.value() == value,
            Condition::Accepted(accept) => match self.value_of(&leaf).await? {
                Some(value) => accept(Some(&value)),
                None => return Ok(Accepted::Replaced),
            },
        };
        Ok(if is_met { Accepted::Yes(leaf) } else { Accepted::Kept })
    }

    /// The result of a removal that a leaf refuses.
    async fn refusal(
        self,
        refused: Accepted,
        location: &Location,
        number: usize,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<Removal>, IndexError> {
        match refused {
            Accepted::Kept => return Ok(Some(Removal::Kept)),
            Accepted::OtherKey(leaf) if self.judge(&leaf, location, traversal) == LeafVerdict::Absent => {
                return Ok(Some(Removal::Absent));
            }
            Accepted::OtherKey(_) => self.resolve(&location.node, number, traversal).await?,
            Accepted::Yes(_) | Accepted::Replaced => traversal.retry_after_change(self.client).await?,
        }
        Ok(None)
    }
}

/// The result of the check of a leaf that is to be removed.
enum Accepted {
    Yes(LeafCopy),
    /// The value does not meet the condition.
    Kept,
    OtherKey(LeafCopy),
    /// Another client has replaced the leaf, and freed its overflow value.
    Replaced,
}
