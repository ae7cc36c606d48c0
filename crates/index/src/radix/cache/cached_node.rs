//! Copies of inner nodes, of some age.
//!
//! A search goes from copy to copy, and stops where none leads on. Nothing that is cached makes an answer wrong: what
//! it led to says itself what it is. A copy learns what others' changes it hears about, slot by slot.

use crate::radix::inner::{Found, Header, Inner, RawInner, Size, covers, find, step_of};
use crate::radix::key::{Step, step_at};
use crate::radix::prefix::PrefixHash;
use crate::radix::slot::Slot;
use farwood_fabric::Remote;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The bit of a version that says that the copy was dropped from the cache.
pub(super) const DROPPED: u32 = 1 << 31;
/// What a copy takes besides its slots, bytes: its own words, the counters of an [`Arc`], the allocator's.
const OVERHEAD: usize = 64;

/// A copy of an inner node, of some age: in one piece, so that a search that comes to it from the table finds header
/// and slots together.
#[derive(Debug)]
pub struct CachedNode<S: ?Sized = [AtomicU64]> {
    /// Where the node is.
    pub at: Remote<RawInner>,
    /// Its header, live.
    pub header: Header,
    hash: u64,
    /// Advances with each change of the copy; [`DROPPED`] for good when it is dropped from the cache.
    version: AtomicU32,
    /// When it was used last.
    used: AtomicU32,
    slots: S,
}

impl CachedNode {
    /// Bytes of the largest.
    pub(super) const BYTES_MAX: usize = Self::bytes_of(Size::All);

    /// A copy of what was just read.
    pub fn copy<B: Deref<Target = [u8]>>(at: Remote<RawInner>, node: &Inner<B>) -> Arc<Self> {
        Self::of(at, node.header(), node.hash(), |number| node.slot(number))
    }

    fn of(at: Remote<RawInner>, header: Header, hash: u64, slot: impl Fn(usize) -> Slot) -> Arc<Self> {
        match header.size() {
            Size::Four => made_of::<{ 1 + Size::Four.slots() }>(at, header, hash, slot),
            Size::Sixteen => made_of::<{ 1 + Size::Sixteen.slots() }>(at, header, hash, slot),
            Size::FortyEight => made_of::<{ 1 + Size::FortyEight.slots() }>(at, header, hash, slot),
            Size::All => made_of::<{ 1 + Size::All.slots() }>(at, header, hash, slot),
        }
    }

    /// Becomes a copy of what was just read, if that has as many slots.
    pub fn fill<B: Deref<Target = [u8]>>(&mut self, at: Remote<RawInner>, node: &Inner<B>) -> bool {
        if node.slots().len() != self.slots.len() {
            return false;
        }
        (self.at, self.header, self.hash) = (at, node.header(), node.hash());
        self.refresh(node);
        true
    }

    /// The hash of what all keys below have in common.
    #[inline]
    pub fn prefix(&self, number: u32) -> PrefixHash {
        PrefixHash::from_word(self.hash ^ self.header.salt(number))
    }

    /// Slot number `number`.
    #[inline]
    pub fn slot(&self, number: usize) -> Slot {
        Slot::from_word(self.slots[number].load(Relaxed))
    }

    /// The line of the processor's cache with slot `likely`, or the last slot, is wanted soon.
    #[inline]
    pub(super) fn approach(&self, likely: usize) {
        std::hint::black_box(self.slot(likely.min(self.slots.len() - 1)));
    }

    /// Looks for how `key` goes on.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Found {
        find(self.header.size(), step_at(key, self.header.depth()), |number| self.slot(number))
    }

    /// The children, in the order of their slots.
    pub fn children(&self) -> impl Iterator<Item = (Step, Slot)> {
        let slots = (0..self.slots.len()).map(|number| (number, self.slot(number)));
        let occupied = slots.filter(|(_, slot)| slot.is_occupied());
        occupied.map(|(number, slot)| (step_of(number, slot), slot))
    }

    /// Whether a key may be below this node.
    #[inline]
    pub fn covers(&self, key: &[u8], number: u32) -> bool {
        covers(self.header, self.hash, key, number)
    }

    /// Whether all keys below this node begin with `prefix`, which is as long as its depth.
    pub fn is_of(&self, prefix: &[u8], number: u32) -> bool {
        prefix.len() == self.header.depth() && self.covers(prefix, number)
    }

    /// A slot is now that. A slot without a child is believed only of the same generation.
    pub fn learn(&self, number: usize, slot: Slot) {
        if slot.is_occupied() || slot.generation() == self.header.generation() {
            self.slots[number].store(slot.word(), Relaxed);
            self.advance();
        }
    }

    /// Takes over all slots of what was just read.
    pub(super) fn refresh<B: Deref<Target = [u8]>>(&self, node: &Inner<B>) {
        for (number, slot) in node.slots().enumerate() {
            self.slots[number].store(slot.word(), Relaxed);
        }
        self.advance();
    }

    /// Copies of this copy are out of date.
    fn advance(&self) {
        self.version.fetch_add(1, Release);
    }

    /// The copy is dropped from the cache: nobody tells it any more what it should learn.
    pub(super) fn drop_out(&self) {
        self.version.fetch_or(DROPPED, Release);
    }

    /// Which state of the copy this is.
    #[inline]
    pub(super) fn version(&self) -> u32 {
        self.version.load(Acquire)
    }

    /// The same again, for one thread.
    pub(super) fn duplicate(&self) -> Arc<Self> {
        Self::of(self.at, self.header, self.hash, |number| self.slot(number))
    }

    /// Whether it is a copy of that node, in the same state.
    pub(super) fn is_of_node<B: Deref<Target = [u8]>>(&self, node: &Inner<B>) -> bool {
        (self.header, self.hash) == (node.header(), node.hash())
    }

    /// It was used at that time. What is written by many only changes where it says something new.
    #[inline]
    pub(super) fn touch(&self, now: u32) {
        if self.used.load(Relaxed) != now {
            self.used.store(now, Relaxed);
        }
    }

    /// How long before `now` it was used last; 0 where somebody's `now` is later already.
    pub(super) fn age(&self, now: u32) -> u32 {
        now.wrapping_sub(self.used.load(Relaxed)).cast_signed().max(0).cast_unsigned()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        Self::bytes_of(self.header.size())
    }

    /// Bytes that a copy of a node of that size takes.
    pub(super) const fn bytes_of(size: Size) -> usize {
        8 * (1 + size.slots()) + OVERHEAD
    }
}

/// A copy of a node of `SLOTS` slots, with that of the key that ends there.
fn made_of<const SLOTS: usize>(
    at: Remote<RawInner>,
    header: Header,
    hash: u64,
    slot: impl Fn(usize) -> Slot,
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
