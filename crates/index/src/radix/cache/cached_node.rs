//! Copies of inner nodes, which may be stale.
//!
//! A traversal follows copies until a node is not cached. A stale copy never makes an answer wrong, because every
//! object that a traversal reads identifies itself. The client updates single slots of a copy when it learns of a
//! change.

use crate::radix::inner::{
    Inner, InnerRef, NodeHeader, NodeSize, RawInner, SlotSearch, covers, find, step_of,
};
use crate::radix::key::{Step, step_at};
use crate::radix::prefix::PrefixHash;
use crate::radix::slot::NodeSlot;
use farwood_fabric::Remote;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Bit of a version that is set when the copy is evicted from the cache.
pub(super) const EVICTED: u32 = 1 << 31;
/// Bit of a version that is set when an insert that followed the copy lost its slot to another client.
const LOST: u32 = 1 << 30;
/// Bytes of a copy besides its slots: its other fields, the counters of an [`Arc`], and the allocator's header.
const OVERHEAD: usize = 64;

/// Copy of an inner node, which may be stale. Header and slots are one allocation, so that a search does not wait for a
/// second pointer.
#[derive(Debug)]
pub struct CachedNode<S: ?Sized = [AtomicU64]> {
    /// Address of the node.
    pub at: Remote<RawInner>,
    /// Header of the node, in state live.
    pub header: NodeHeader,
    hash: u64,
    /// Incremented by every change of the copy; [`EVICTED`] is set when the copy leaves the cache, [`LOST`] when its
    /// slots are probably out of date.
    version: AtomicU32,
    /// Time of the last use.
    used: AtomicU32,
    slots: S,
}

impl CachedNode {
    /// Bytes of the largest copy.
    pub(super) const BYTES_MAX: usize = Self::bytes_of(NodeSize::All);

    /// Copies a node that was just read.
    pub fn copy<B: Deref<Target = [u8]>>(at: Remote<RawInner>, node: &Inner<B>) -> Arc<Self> {
        Self::of(at, node.header(), node.hash(), |number| node.slot(number))
    }

    fn of(
        at: Remote<RawInner>,
        header: NodeHeader,
        hash: u64,
        slot: impl Fn(usize) -> NodeSlot,
    ) -> Arc<Self> {
        match header.size() {
            NodeSize::Four => allocate::<5>(at, header, hash, slot),
            NodeSize::Typed4 => allocate::<6>(at, header, hash, slot),
            NodeSize::Typed8 => allocate::<10>(at, header, hash, slot),
            NodeSize::Sixteen => allocate::<17>(at, header, hash, slot),
            NodeSize::Typed16 => allocate::<18>(at, header, hash, slot),
            NodeSize::Typed32 => allocate::<34>(at, header, hash, slot),
            NodeSize::FortyEight => allocate::<49>(at, header, hash, slot),
            NodeSize::Typed64 => allocate::<66>(at, header, hash, slot),
            NodeSize::Typed128 => allocate::<130>(at, header, hash, slot),
            NodeSize::All | NodeSize::Typed256 => allocate::<257>(at, header, hash, slot),
        }
    }

    /// Overwrites this copy with a node that was just read, if both have the same number of slots.
    pub fn fill<B: Deref<Target = [u8]>>(&mut self, at: Remote<RawInner>, node: &Inner<B>) -> bool {
        if node.slots().len() != self.slots.len() {
            return false;
        }
        (self.at, self.header, self.hash) = (at, node.header(), node.hash());
        self.refresh(node);
        true
    }

    /// Address and size of the node.
    #[inline]
    pub fn inner_ref(&self) -> InnerRef {
        InnerRef { at: self.at, size: self.header.size() }
    }

    /// The hash of the prefix that all keys below share.
    #[inline]
    pub fn prefix(&self, number: u32) -> PrefixHash {
        PrefixHash::from_word(self.hash ^ self.header.salt(number))
    }

    /// Whether slot `number` is the last one of the type of a node that grows in place.
    pub fn is_last_in_place(&self, number: usize) -> bool {
        let size = self.header.size();
        number == size.slots() && size.next_in_place().is_some()
    }

    /// The hash field of the node.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Slot `number`.
    #[inline]
    pub fn slot(&self, number: usize) -> NodeSlot {
        NodeSlot::from_word(self.slots[number].load(Relaxed))
    }

    /// Prefetches the processor cache line of slot `likely`, or of the last slot.
    #[inline]
    pub(super) fn prefetch(&self, likely: usize) {
        std::hint::black_box(self.slot(likely.min(self.slots.len() - 1)));
    }

    /// Searches for the slot of `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> SlotSearch {
        find(self.header.size(), step_at(key, self.header.depth()), |number| self.slot(number))
    }

    /// The children, in the order of their slots.
    pub fn children(&self) -> impl Iterator<Item = (Step, NodeSlot)> {
        let slots = (0..self.slots.len()).map(|number| (number, self.slot(number)));
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

    /// Records that slot `number` now holds `slot`, unless the copy is older than the slot. A slot without a child must be
    /// of the same generation.
    pub fn learn(&self, number: usize, slot: NodeSlot) {
        let Some(known) = self.slots.get(number) else { return };
        if slot.is_occupied() || slot.generation() == self.header.generation() {
            known.store(slot.word(), Relaxed);
            self.advance();
        }
    }

    /// Copies all slots of a node that was just read.
    pub(super) fn refresh<B: Deref<Target = [u8]>>(&self, node: &Inner<B>) {
        for (number, slot) in node.slots().enumerate() {
            self.slots[number].store(slot.word(), Relaxed);
        }
        self.version.fetch_and(!LOST, Relaxed);
        self.advance();
    }

    /// Records that an insert that followed this copy lost its slot to another client, so that other slots have
    /// probably changed as well.
    pub(super) fn mark_lost(&self) {
        self.version.fetch_or(LOST, Release);
    }

    /// Whether the last insert that followed this copy lost its slot, and the node was not read since.
    pub fn is_outdated(&self) -> bool {
        self.version.load(Relaxed) & LOST != 0
    }

    /// Invalidates the copies that threads made of this copy.
    fn advance(&self) {
        self.version.fetch_add(1, Release);
    }

    /// Marks the copy as evicted: it receives no more updates.
    pub(super) fn mark_evicted(&self) {
        self.version.fetch_or(EVICTED, Release);
    }

    /// The version of the copy.
    #[inline]
    pub(super) fn version(&self) -> u32 {
        self.version.load(Acquire)
    }

    /// Duplicates the copy for one thread.
    pub(super) fn duplicate(&self) -> Arc<Self> {
        let copy = Self::of(self.at, self.header, self.hash, |number| self.slot(number));
        copy.version.store(self.version.load(Relaxed) & LOST, Relaxed);
        copy
    }

    /// Whether this is a copy of `node`, in the same state.
    pub(super) fn is_copy_of<B: Deref<Target = [u8]>>(&self, node: &Inner<B>) -> bool {
        (self.header, self.hash) == (node.header(), node.hash())
    }

    /// Records a use at time `now`. The field is written only if it changes, because many threads share it.
    #[inline]
    pub(super) fn touch(&self, now: u32) {
        if self.used.load(Relaxed) != now {
            self.used.store(now, Relaxed);
        }
    }

    /// Time since the last use; 0 if another thread recorded a later time than `now`.
    pub(super) fn age(&self, now: u32) -> u32 {
        now.wrapping_sub(self.used.load(Relaxed)).cast_signed().max(0).cast_unsigned()
    }

    /// Bytes of the copy.
    pub(super) fn bytes(&self) -> usize {
        Self::bytes_of(self.header.size())
    }

    /// Bytes of a copy of a node of `size`.
    pub(super) const fn bytes_of(size: NodeSize) -> usize {
        8 * (1 + size.slots()) + OVERHEAD
    }
}

/// Allocates a copy of a node of `SLOTS` slots, slot 0 included.
fn allocate<const SLOTS: usize>(
    at: Remote<RawInner>,
    header: NodeHeader,
    hash: u64,
    slot: impl Fn(usize) -> NodeSlot,
) -> Arc<CachedNode> {
    Arc::new(CachedNode {
        at,
        header,
        hash,
        version: AtomicU32::new(0),
        used: AtomicU32::new(0),
        slots: std::array::from_fn::<_, SLOTS, _>(|number| AtomicU64::new(slot(number).word())),
    })
}
