//! The cache of inner nodes: copies by where they lie, within a budget of bytes.
//!
//! A search goes from copy to copy, and stops where none leads on. Nothing that is cached makes an answer wrong: what
//! it led to says itself what it is. A copy learns what others' changes it hears about, slot by slot.

use super::inner::{Found, Header, Inner, RawInner, Size, covers, find};
use super::key::{Step, step_at};
use super::lanes::Lanes;
use super::prefix::PrefixHash;
use super::slot::Slot;
use farwood_fabric::Remote;
use std::collections::HashMap; // keyed only
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, PoisonError, RwLock};

/// Parts of the cache that are locked apart.
const SHARDS: usize = 64;
/// Copies that are drawn of the whole cache, of which the one goes that was used longest ago. Of two, or of one part
/// of the cache, many a copy would go that is used all the time: with few hundred nodes a part has a handful.
const DRAWN: usize = 5;
/// What a copy takes besides its slots, bytes: itself, its counters, and its places in the table and the list.
const OVERHEAD: usize = 120;

/// A copy of an inner node, of some age: in one piece, so that a search that comes to it from the table finds header
/// and slots together.
#[derive(Debug)]
pub struct CachedNode<S: ?Sized = [AtomicU64]> {
    /// Where the node is.
    pub at: Remote<RawInner>,
    /// Its header, live.
    pub header: Header,
    hash: u64,
    /// Advances with each change of the copy, and when it is dropped from the cache.
    version: AtomicU32,
    /// When it was used last.
    used: AtomicU64,
    /// Where in the list of its part of the cache it is.
    place: AtomicUsize,
    slots: S,
}

impl CachedNode {
    /// Bytes of the largest.
    pub(super) const BYTES_MAX: usize = 8 * (1 + Size::All.slots()) + OVERHEAD;

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

    /// Looks for how `key` goes on.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Found {
        find(self.header.size(), step_at(key, self.header.depth()), |number| self.slot(number))
    }

    /// The children, in the order of their slots.
    pub fn children(&self) -> impl Iterator<Item = (Step, Slot)> {
        let slots = (0..self.slots.len()).map(|number| (number, self.slot(number)));
        slots.filter(|(_, slot)| slot.is_occupied()).map(|(number, slot)| {
            let step = if number == 0 { Step::End } else { Step::Byte(slot.partial()) };
            (step, slot)
        })
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

    fn refresh<B: Deref<Target = [u8]>>(&self, node: &Inner<B>) {
        for (number, slot) in node.slots().enumerate() {
            self.slots[number].store(slot.word(), Relaxed);
        }
        self.advance();
    }

    /// Copies of this copy are out of date.
    fn advance(&self) {
        self.version.fetch_add(1, Release);
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

    pub(super) fn bytes(&self) -> usize {
        8 * self.slots.len() + OVERHEAD
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
        used: AtomicU64::new(0),
        place: AtomicUsize::new(0),
        slots: std::array::from_fn::<_, SLOTS, _>(|number| AtomicU64::new(slot(number).word())),
    })
}

/// Hashes where a node is.
#[derive(Debug, Default)]
struct ByAddress(u64);

impl Hasher for ByAddress {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("addresses are words")
    }

    fn write_u64(&mut self, word: u64) {
        let product = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
}

#[derive(Debug, Default)]
struct Shard {
    nodes: HashMap<u64, Arc<CachedNode>, BuildHasherDefault<ByAddress>>, // keyed only
    /// Where they are, in an order that copies are drawn from.
    list: Vec<u64>,
}

impl Shard {
    /// Puts a copy there; yields the one that was there.
    fn put(&mut self, copy: Arc<CachedNode>) -> Option<Arc<CachedNode>> {
        let at = copy.at.word();
        let before = self.remove(at);
        copy.place.store(self.list.len(), Relaxed);
        self.list.push(at);
        self.nodes.insert(at, copy);
        before
    }

    fn remove(&mut self, at: u64) -> Option<Arc<CachedNode>> {
        let removed = self.nodes.remove(&at)?;
        removed.advance();
        let place = removed.place.load(Relaxed);
        self.list.swap_remove(place);
        if let Some(moved) = self.list.get(place) {
            self.nodes[moved].place.store(place, Relaxed);
        }
        Some(removed)
    }
}

/// The cache of a compute node for one index.
#[derive(Debug)]
pub struct NodeCache {
    shards: Box<[RwLock<Shard>]>,
    lanes: Lanes,
    bytes: AtomicUsize,
    bytes_max: usize,
    /// Advances with each insertion.
    tick: AtomicU64,
}

impl NodeCache {
    /// A cache of at most `bytes_max` bytes; 0: no cache.
    pub fn new(bytes_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        let lanes = Lanes::new(bytes_max);
        Self { shards, lanes, bytes: AtomicUsize::new(0), bytes_max, tick: AtomicU64::new(1) }
    }

    /// Bytes in use, and the budget.
    pub fn bytes(&self) -> (usize, usize) {
        (self.bytes.load(Relaxed) + self.lanes.bytes(), self.bytes_max)
    }

    fn shard(&self, at: u64) -> &RwLock<Shard> {
        let hash = (at >> 3).wrapping_mul(0xD1B5_4A32_D192_ED03);
        &self.shards[(hash >> 58) as usize % SHARDS]
    }

    /// The copy of the node at `at`, for that thread.
    #[inline]
    pub fn get(&self, at: Remote<RawInner>, thread: usize) -> Option<Arc<CachedNode>> {
        if self.bytes_max == 0 {
            return None;
        }
        let tick = self.tick.load(Relaxed);
        let touch = |node: &CachedNode| {
            if node.used.load(Relaxed) != tick {
                node.used.store(tick, Relaxed);
            }
        };
        self.lanes.get(thread, at.word(), || self.shared(at), touch)
    }

    /// The copy of the node at `at` that all threads share.
    #[inline]
    fn shared(&self, at: Remote<RawInner>) -> Option<Arc<CachedNode>> {
        let shard = self.shard(at.word()).read().unwrap_or_else(PoisonError::into_inner);
        shard.nodes.get(&at.word()).map(Arc::clone)
    }

    /// Takes what was read; a copy of the same node is brought up to date.
    pub fn put<B: Deref<Target = [u8]>>(&self, at: Remote<RawInner>, node: &Inner<B>) {
        if 8 * node.header().size().slots() + OVERHEAD > self.bytes_max {
            return;
        }
        let copy = CachedNode::copy(at, node);
        let mut shard = self.shard(at.word()).write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shard.nodes.get(&at.word())
            && known.header == copy.header
            && known.hash == copy.hash
        {
            return known.refresh(node);
        }
        copy.used.store(self.tick.fetch_add(1, Relaxed) + 1, Relaxed);
        let bytes = copy.bytes();
        let before = shard.put(copy).map_or(0, |before| before.bytes());
        drop(shard);
        self.bytes.fetch_add(bytes, Relaxed);
        self.bytes.fetch_sub(before, Relaxed);
        self.shrink();
    }

    /// A slot of the node at `at` was just seen to be that.
    pub fn learn(&self, at: Remote<RawInner>, number: usize, slot: Slot) {
        if let Some(node) = self.shared(at) {
            node.learn(number, slot);
        }
    }

    /// Drops the copy of the node at `at`.
    pub fn remove(&self, at: Remote<RawInner>) {
        let mut shard = self.shard(at.word()).write().unwrap_or_else(PoisonError::into_inner);
        if let Some(removed) = shard.remove(at.word()) {
            self.bytes.fetch_sub(removed.bytes(), Relaxed);
        }
    }

    /// Drops copies until the budget is kept: of some that are drawn, the one that was used longest ago.
    fn shrink(&self) {
        let mut chance = Draws(self.tick.load(Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        while self.bytes().0 > self.bytes_max {
            let drawn = (0..DRAWN).filter_map(|_| self.draw(&mut chance));
            if let Some((_, at)) = drawn.min_by_key(|(used, _)| *used) {
                self.remove(at);
            }
        }
    }

    /// Some copy: when it was used, and of what; `None` where nothing is.
    fn draw(&self, chance: &mut Draws) -> Option<(u64, Remote<RawInner>)> {
        let shard = &self.shards[chance.below(SHARDS)];
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        if shard.list.is_empty() {
            return None;
        }
        let node = &shard.nodes[&shard.list[chance.below(shard.list.len())]];
        Some((node.used.load(Relaxed), node.at))
    }
}

/// A sequence of numbers without a pattern that matters here (xorshift).
struct Draws(u64);

impl Draws {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % count
    }
}

#[cfg(test)]
mod tests {
    use super::super::inner::{State, image};
    use super::super::reverse::Reverse;
    use super::*;
    use farwood_fabric::{Memory, NodeId};

    fn at(number: u64) -> Remote<RawInner> {
        Remote::new(NodeId(0), Memory::Host, 4096 + 72 * number).expect("it is not null")
    }

    fn node(generation: u32) -> Inner<Vec<u8>> {
        let header = Header::new(State::Live, Size::Four, 0, 1, generation);
        Inner::new(image((Reverse::unlinked(generation), header), b"a", 1, &[]))
    }

    fn node_bytes() -> usize {
        CachedNode::copy(at(0), &node(1)).bytes()
    }

    #[test]
    fn a_threads_own_copies_are_as_the_shared_ones() {
        for budget in [1 << 20, 1 << 30] {
            let cache = NodeCache::new(budget);
            cache.put(at(0), &node(1));
            let alone = cache.bytes().0;
            let twice = || (cache.get(at(0), 0), cache.get(at(0), 0));
            twice();
            let own = cache.bytes().0 - alone;
            assert_eq!(own, if budget == 1 << 30 { node_bytes() } else { 0 }, "small caches have none");
            let (first, second) = twice();
            assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
            let slot = Slot::vacant(1, 1);
            cache.learn(at(0), 2, slot);
            assert_eq!(cache.get(at(0), 0).unwrap().slot(2), slot);
            cache.put(at(0), &node(1));
            assert_ne!(cache.get(at(0), 0).unwrap().slot(2), slot);
            cache.put(at(0), &node(2));
            assert_eq!(cache.get(at(0), 0).unwrap().header.generation(), 2);
            cache.remove(at(0));
            assert!(cache.get(at(0), 0).is_none());
        }
    }

    #[test]
    fn the_budget_is_kept_and_what_is_used_stays() {
        const BUDGET: usize = 4000 * 160;
        let cache = NodeCache::new(BUDGET);
        cache.put(at(0), &node(1));
        for number in 1..8000 {
            cache.put(at(number), &node(1));
            assert!(cache.get(at(number), 0).is_some() || cache.bytes().0 + 160 > BUDGET);
            cache.get(at(0), 0);
        }
        let (used, budget) = cache.bytes();
        assert!(used <= budget && used > budget / 2, "{used} of {budget}");
        assert!(cache.get(at(0), 0).is_some());
    }

    /// A tree of which the cache has room for a few hundred nodes, a tenth of them on every way.
    #[test]
    fn a_small_cache_keeps_what_is_used_as_well() {
        const HOT: u64 = 30;
        let cache = NodeCache::new(300 * node_bytes());
        (0..HOT).for_each(|number| cache.put(at(number), &node(1)));
        let mut lost = 0;
        for number in HOT..HOT + 20_000 {
            cache.put(at(number), &node(1));
            for hot in 0..HOT {
                if cache.get(at(hot), 0).is_none() {
                    lost += 1;
                    cache.put(at(hot), &node(1));
                }
            }
        }
        assert!(lost < 20, "{lost} of 20,000 that were dropped were in use");
        let (used, budget) = cache.bytes();
        assert!(used <= budget && used + node_bytes() > budget);
    }

    #[test]
    fn a_copy_is_of_one_generation() {
        let cache = NodeCache::new(1 << 20);
        cache.put(at(0), &node(1));
        let one = cache.get(at(0), 0).expect("it was put there");
        cache.put(at(0), &node(1));
        assert!(cache.get(at(0), 0).is_some_and(|same| Arc::ptr_eq(&one, &same)));
        cache.learn(at(0), 1, Slot::vacant(7, 2));
        assert_eq!(one.slot(1), Slot::free(1));
        cache.put(at(0), &node(2));
        let two = cache.get(at(0), 0).expect("it was put there");
        assert_eq!((two.header.generation(), one.header.generation()), (2, 1));
        cache.remove(at(0));
        assert!(cache.get(at(0), 0).is_none());
        assert_eq!(cache.bytes().0, 0);
    }

    #[test]
    fn without_a_budget_nothing_is_kept() {
        let cache = NodeCache::new(0);
        cache.put(at(0), &node(1));
        assert!(cache.get(at(0), 0).is_none());
    }
}
