//! A client's copy of an inner node, which may be stale: all slots of a node that was read, or the one slot of a key,
//! as the cache shows it.
//!
//! A stale copy never makes an answer wrong, because every object that a traversal reads identifies itself.

use crate::radix::inner::{Inner, InnerRef, NodeHeader, RawInner, SlotSearch, covers, find, step_of};
use crate::radix::key::{Step, step_at};
use crate::radix::prefix::PrefixHash;
use crate::radix::slot::NodeSlot;
use farwood_fabric::Remote;
use std::ops::Deref;
use std::sync::Arc;

/// Copy of an inner node, which may be stale.
#[derive(Debug)]
pub struct CachedNode {
    /// Address of the node.
    pub at: Remote<RawInner>,
    /// Header of the node, in state live.
    pub header: NodeHeader,
    hash: u64,
    slots: KnownSlots,
    is_outdated: bool,
}

/// The slots that a copy has.
#[derive(Debug)]
enum KnownSlots {
    All(Vec<NodeSlot>),
    /// The result of a search for one step.
    Of(Step, SlotSearch),
}

/// Identity of a node: what its copies have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeIdentity {
    pub(crate) at: Remote<RawInner>,
    pub(crate) header: NodeHeader,
    /// The hash field of the node.
    pub(crate) hash: u64,
}

impl CachedNode {
    /// Copies a node that was just read.
    pub fn copy<B: Deref<Target = [u8]>>(at: Remote<RawInner>, node: &Inner<B>) -> Arc<Self> {
        let identity = NodeIdentity { at, header: node.header(), hash: node.hash() };
        Arc::new(Self::with_slots(identity, node.slots().collect()))
    }

    /// A copy with all slots.
    pub(super) fn with_slots(NodeIdentity { at, header, hash }: NodeIdentity, slots: Vec<NodeSlot>) -> Self {
        Self { at, header, hash, slots: KnownSlots::All(slots), is_outdated: false }
    }

    /// A copy that has only the result of a search for `step`.
    pub(crate) fn with_result(
        NodeIdentity { at, header, hash }: NodeIdentity,
        (step, result): (Step, SlotSearch),
    ) -> Self {
        Self { at, header, hash, slots: KnownSlots::Of(step, result), is_outdated: false }
    }

    /// Marks a copy whose other slots have probably changed.
    pub(super) fn mark_outdated(&mut self) {
        self.is_outdated = true;
    }

    /// Overwrites this copy with a node that was just read.
    pub fn fill<B: Deref<Target = [u8]>>(&mut self, at: Remote<RawInner>, node: &Inner<B>) {
        let mut slots = match std::mem::replace(&mut self.slots, KnownSlots::All(Vec::new())) {
            KnownSlots::All(slots) => slots,
            KnownSlots::Of(..) => Vec::new(),
        };
        slots.clear();
        slots.extend(node.slots());
        *self = Self::with_slots(NodeIdentity { at, header: node.header(), hash: node.hash() }, slots);
    }

    pub(super) fn identity(&self) -> NodeIdentity {
        NodeIdentity { at: self.at, header: self.header, hash: self.hash }
    }

    /// Address and size of the node.
    #[inline]
    pub fn inner_ref(&self) -> InnerRef {
        InnerRef { at: self.at, size: self.header.size() }
    }

    /// The hash of the prefix that all keys below share.
    #[inline]
    pub fn prefix(&self, number: u32) -> PrefixHash {
        self.identity().prefix(number)
    }

    /// Whether slot `number` is the last one of the type of a node that grows in place.
    pub fn is_last_in_place(&self, number: usize) -> bool {
        let size = self.header.size();
        number == size.slots() && size.next_in_place().is_some()
    }

    /// Slot `number`. If the copy does not have it, it is a damaged slot, so that the client reads the node.
    #[inline]
    pub fn slot(&self, number: usize) -> NodeSlot {
        match &self.slots {
            KnownSlots::All(slots) => slots[number],
            KnownSlots::Of(_, SlotSearch::Slot(known, slot) | SlotSearch::Free(known, slot))
                if *known == number =>
            {
                *slot
            }
            KnownSlots::Of(..) => NodeSlot::DAMAGED,
        }
    }

    /// Searches for the slot of `key`. If the copy does not have it, it is a damaged slot.
    #[inline]
    pub fn find(&self, key: &[u8]) -> SlotSearch {
        let step = step_at(key, self.header.depth());
        match &self.slots {
            KnownSlots::All(slots) => find(self.header.size(), step, |number| slots[number]),
            KnownSlots::Of(known, result) if *known == step => *result,
            KnownSlots::Of(..) => SlotSearch::Slot(0, NodeSlot::DAMAGED),
        }
    }

    /// Whether the copy has all slots.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.slots, KnownSlots::All(_))
    }

    /// The children that the copy has, in the order of their slots.
    pub fn children(&self) -> impl Iterator<Item = (Step, NodeSlot)> {
        let count = match &self.slots {
            KnownSlots::All(slots) => slots.len(),
            KnownSlots::Of(..) => 0,
        };
        let slots = (0..count).map(|number| (number, self.slot(number)));
        let occupied = slots.filter(|(_, slot)| slot.is_occupied());
        occupied.map(|(number, slot)| (step_of(number, slot), slot))
    }

    /// Whether `key` has the prefix of this node.
    #[inline]
    pub fn covers(&self, key: &[u8], number: u32) -> bool {
        covers(self.header, self.hash, key, number)
    }

    /// Whether `prefix` is the prefix of this node.
    pub fn has_prefix(&self, prefix: &[u8], number: u32) -> bool {
        prefix.len() == self.header.depth() && self.covers(prefix, number)
    }

    /// Whether the last insert that followed the cached copy lost its slot, and the node was not read since.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated
    }
}

impl NodeIdentity {
    /// The hash of the prefix that all keys below share.
    #[inline]
    pub(super) fn prefix(self, number: u32) -> PrefixHash {
        PrefixHash::from_word(self.hash ^ self.header.salt(number))
    }

    /// Whether both are the same node. Its header may have changed in bits that are not part of its identity.
    pub(super) fn is_same_node(self, other: Self) -> bool {
        let identifying = |node: Self| (node.at, node.header.generation(), node.header.depth(), node.hash);
        identifying(self) == identifying(other)
    }
}
