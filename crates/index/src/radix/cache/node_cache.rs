//! The cache of inner nodes: copies by where they lie, within a budget of bytes.
//!
//! A table of buckets. A bucket is one line of the processor's cache, with its lock and three places, so that a search
//! that goes through millions of nodes waits for two lines at each: the bucket, and the copy. A copy is in either of
//! two buckets. Where both are full, the copy goes that was used longest ago; where the budget is used up, one of a few
//! that are drawn.

use super::cached_node::CachedNode;
use super::thread_cache::Lanes;
use crate::radix::inner::{Inner, RawInner};
use crate::radix::slot::Slot;
use crate::smart::shortcuts::Shortcuts;
use farwood_fabric::Remote;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Places of a bucket: what a line has room for.
const PLACES: usize = 3;
/// Buckets that are made together, when the first of them is needed, at most.
const PAGE_MAX: usize = 256;
/// Bytes of the budget for each bucket: full of the smallest nodes, a bucket has two of them on average.
const BYTES_PER_BUCKET: usize = 256;
/// Copies that are drawn of the whole cache, of which the one goes that was used longest ago. Of two many a copy would
/// go that is used all the time.
const DRAWN: usize = 5;
/// Buckets that are looked at for one of them, side by side: of large copies a budget has one for many buckets.
const WALK: usize = 64;

/// Places for copies of nodes with that hash of where they are, and a byte more of the hash of each.
#[derive(Debug, Default)]
struct Places {
    tags: [u8; PLACES],
    copies: [Option<Arc<CachedNode>>; PLACES],
}

/// A bucket, in a line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket(Mutex<Places>);

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// The place of the copy of the node at `at`.
    #[inline]
    fn find(&self, tag: u8, at: Remote<RawInner>) -> Option<usize> {
        (0..PLACES).find(|place| {
            self.tags[*place] == tag && self.copies[*place].as_ref().is_some_and(|copy| copy.at == at)
        })
    }

    /// The copy of the node at `at`, of which the slot `likely` is looked at before anything else is: the processor
    /// then waits for that line and the first one of the copy together.
    #[inline]
    fn copy(&self, tag: u8, at: Remote<RawInner>, likely: usize) -> Option<Arc<CachedNode>> {
        let tagged = self.tags.iter().zip(&self.copies).filter(|(other, _)| **other == tag);
        tagged
            .filter_map(|(_, copy)| copy.as_ref())
            .find(|copy| {
                copy.approach(likely);
                copy.at == at
            })
            .cloned()
    }

    /// A place for a new copy, and what would go from there: nothing, or else the copy that was used longest ago.
    fn room(&self, now: u32) -> (Leaving, usize) {
        let leaving = |place: usize| {
            self.copies[place].as_ref().map_or(Leaving::None, |copy| Leaving::Of(copy.age(now)))
        };
        (0..PLACES).map(|place| (leaving(place), place)).max().expect("there are places")
    }

    /// Takes what is in a place out of it.
    fn take(&mut self, place: usize) -> Option<Arc<CachedNode>> {
        let taken = self.copies[place].take()?;
        taken.drop_out();
        Some(taken)
    }
}

/// What goes for a new copy, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaving {
    /// A copy that was used so long ago.
    Of(u32),
    None,
}

/// Where a node's copy may be: in two buckets of a page.
#[derive(Clone, Copy)]
struct Spot {
    page: usize,
    buckets: [usize; 2],
    tag: u8,
}

/// The cache of a compute node for one index.
#[derive(Debug)]
pub struct NodeCache {
    pages: Box<[OnceLock<Box<[Bucket]>>]>,
    /// Buckets of a page.
    page_buckets: usize,
    lanes: Lanes,
    shortcuts: Shortcuts,
    bytes: AtomicUsize,
    bytes_max: usize,
    /// Advances with each copy that is put there.
    tick: AtomicU32,
}

impl NodeCache {
    /// A cache of at most `bytes_max` bytes; 0: no cache.
    pub fn new(bytes_max: usize) -> Self {
        let buckets = (bytes_max / BYTES_PER_BUCKET).max(usize::from(bytes_max > 0));
        let pages = buckets.div_ceil(PAGE_MAX);
        Self {
            page_buckets: buckets.checked_div(pages).unwrap_or(0),
            pages: (0..pages).map(|_| OnceLock::new()).collect(),
            lanes: Lanes::new(bytes_max),
            shortcuts: Shortcuts::new(bytes_max),
            bytes: AtomicUsize::new(0),
            bytes_max,
            tick: AtomicU32::new(1),
        }
    }

    /// Bytes in use, and the budget.
    pub fn bytes(&self) -> (usize, usize) {
        (self.bytes.load(Relaxed) + self.lanes.bytes() + self.shortcuts.bytes(), self.bytes_max)
    }

    #[inline]
    fn spot(&self, at: Remote<RawInner>) -> Spot {
        let hash = (at.word() >> 3).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let page = scaled(hash, self.pages.len());
        let hash = (hash ^ hash >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let buckets = [hash, hash.rotate_left(24)].map(|hash| scaled(hash, self.page_buckets));
        Spot { page, buckets, tag: hash as u8 }
    }

    /// A page, if it was ever needed.
    #[inline]
    fn page(&self, number: usize) -> Option<&[Bucket]> {
        self.pages.get(number)?.get().map(|page| &**page)
    }

    /// A page, which is needed now.
    fn page_made(&self, number: usize) -> &[Bucket] {
        self.pages[number].get_or_init(|| {
            self.bytes.fetch_add(self.page_bytes(), Relaxed);
            (0..self.page_buckets).map(|_| Bucket::default()).collect()
        })
    }

    fn page_bytes(&self) -> usize {
        self.page_buckets * size_of::<Bucket>()
    }

    /// The copy of the node at `at`, for that thread, which will look at slot `likely` if that is there.
    #[inline]
    pub fn get(&self, at: Remote<RawInner>, thread: usize, likely: usize) -> Option<Arc<CachedNode>> {
        let now = self.tick.load(Relaxed);
        self.lanes.get(thread, at.word(), || self.shared(at, likely), |copy| copy.touch(now))
    }

    /// The copy of the node at `at` that all threads share.
    #[inline]
    fn shared(&self, at: Remote<RawInner>, likely: usize) -> Option<Arc<CachedNode>> {
        let spot = self.spot(at);
        let page = self.page(spot.page)?;
        spot.buckets.iter().find_map(|bucket| page[*bucket].lock().copy(spot.tag, at, likely))
    }

    /// The node at which the way of `key` ended last, perhaps.
    #[inline]
    pub fn end_of(&self, key: &[u8]) -> Option<Remote<RawInner>> {
        self.shortcuts.get(key)
    }

    /// The way of `key` ended at the node at `at`.
    pub fn ended(&self, key: &[u8], at: Remote<RawInner>) {
        self.shortcuts.put(key, at);
    }

    /// Takes what was read; a copy of the same node is brought up to date.
    pub fn put<B: Deref<Target = [u8]>>(&self, at: Remote<RawInner>, node: &Inner<B>) {
        if CachedNode::bytes_of(node.header().size()) + self.page_bytes() > self.bytes_max {
            return;
        }
        let spot = self.spot(at);
        let page = self.page_made(spot.page);
        // Both at once, so that no node has two copies; always in this order.
        let [first, second] = spot.buckets;
        let (low, high) = (first.min(second), first.max(second));
        let mut both = [Some(page[low].lock()), (high > low).then(|| page[high].lock())];
        if high != second {
            both.reverse();
        }
        for places in both.iter_mut().flatten() {
            let Some(place) = places.find(spot.tag, at) else { continue };
            if let Some(known) = places.copies[place].as_ref().filter(|known| known.is_of_node(node)) {
                return known.refresh(node);
            }
            self.uncount(places.take(place));
        }
        let now = self.tick.fetch_add(1, Relaxed).wrapping_add(1);
        let copy = CachedNode::copy(at, node);
        copy.touch(now);
        self.bytes.fetch_add(copy.bytes(), Relaxed);
        // Where both have room, in the one that is looked at first.
        let roomiest = both.iter_mut().flatten().rev().max_by_key(|places| places.room(now).0);
        let places = roomiest.expect("there is a bucket");
        let place = places.room(now).1;
        self.uncount(places.take(place));
        (places.tags[place], places.copies[place]) = (spot.tag, Some(copy));
        drop(both);
        self.shrink();
    }

    /// A copy has left the cache.
    fn uncount(&self, gone: Option<Arc<CachedNode>>) {
        if let Some(gone) = gone {
            self.bytes.fetch_sub(gone.bytes(), Relaxed);
        }
    }

    /// A slot of the node at `at` was just seen to be that.
    pub fn learn(&self, at: Remote<RawInner>, number: usize, slot: Slot) {
        if let Some(node) = self.shared(at, number) {
            node.learn(number, slot);
        }
    }

    /// Drops the copy of the node at `at`.
    pub fn remove(&self, at: Remote<RawInner>) {
        let spot = self.spot(at);
        let Some(page) = self.page(spot.page) else { return };
        for bucket in spot.buckets {
            let mut places = page[bucket].lock();
            if let Some(place) = places.find(spot.tag, at) {
                self.uncount(places.take(place));
            }
        }
    }

    /// Drops copies until the budget is kept: of some that are drawn, the one that was used longest ago. It comes to
    /// an end, for pages, own copies and shortcuts take less than half of a budget, and the rest are copies that can
    /// be drawn.
    fn shrink(&self) {
        let now = self.tick.load(Relaxed);
        let mut chance = Draws(u64::from(now).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        while self.bytes().0 > self.bytes_max {
            let drawn = (0..DRAWN).filter_map(|_| self.draw(&mut chance, now));
            if let Some((_, at)) = drawn.max_by_key(|(age, _)| *age) {
                self.remove(at);
            }
        }
    }

    /// Some copy: the oldest of the first bucket that has one, from anywhere on; `None` where none is near.
    fn draw(&self, chance: &mut Draws, now: u32) -> Option<(u32, Remote<RawInner>)> {
        let page = self.page(chance.below(self.pages.len()))?;
        let start = chance.below(page.len());
        (0..WALK.min(page.len())).find_map(|step| {
            let places = page[(start + step) % page.len()].lock();
            let copies = places.copies.iter().flatten().map(|copy| (copy.age(now), copy.at));
            copies.max_by_key(|(age, _)| *age)
        })
    }
}

/// A hash, scaled to numbers below `count`.
#[inline]
fn scaled(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
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
    use super::*;
    use crate::radix::inner::{Header, Size, State, image};
    use crate::radix::reverse::Reverse;
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
            let twice = || (cache.get(at(0), 0, 1), cache.get(at(0), 0, 1));
            twice();
            let own = cache.bytes().0 - alone;
            assert_eq!(own, if budget == 1 << 30 { node_bytes() } else { 0 }, "small caches have none");
            let (first, second) = twice();
            assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
            let slot = Slot::vacant(1, 1);
            cache.learn(at(0), 2, slot);
            assert_eq!(cache.get(at(0), 0, 1).unwrap().slot(2), slot);
            cache.put(at(0), &node(1));
            assert_ne!(cache.get(at(0), 0, 1).unwrap().slot(2), slot);
            cache.put(at(0), &node(2));
            assert_eq!(cache.get(at(0), 0, 1).unwrap().header.generation(), 2);
            cache.remove(at(0));
            assert!(cache.get(at(0), 0, 1).is_none());
        }
    }

    #[test]
    fn the_budget_is_kept_and_what_is_used_stays() {
        const BUDGET: usize = 4000 * 176;
        let cache = NodeCache::new(BUDGET);
        cache.put(at(0), &node(1));
        for number in 1..8000 {
            cache.put(at(number), &node(1));
            assert!(cache.get(at(number), 0, 1).is_some() || cache.bytes().0 + 104 > BUDGET);
            cache.get(at(0), 0, 1);
        }
        let (used, budget) = cache.bytes();
        assert!(used <= budget && used > budget / 2, "{used} of {budget}");
        assert!(cache.get(at(0), 0, 1).is_some());
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
                if cache.get(at(hot), 0, 1).is_none() {
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
    fn every_budget_is_kept_with_nodes_of_every_size() {
        let of = |size| {
            let header = Header::new(State::Live, size, 0, 1, 1);
            Inner::new(image((Reverse::unlinked(1), header), b"a", 1, &[]))
        };
        for budget in (0..4096).step_by(8).chain([1 << 16, 1 << 20]) {
            let cache = NodeCache::new(budget);
            for number in 0..600 {
                cache.put(at(100 * number), &of(Size::ALL[number as usize % 4]));
                assert!(cache.bytes().0 <= budget, "{budget}");
            }
        }
    }

    #[test]
    fn of_large_nodes_too_what_is_used_stays() {
        const HOT: u64 = 10;
        let header = Header::new(State::Live, Size::All, 0, 1, 1);
        let node = Inner::new(image((Reverse::unlinked(1), header), b"a", 1, &[]));
        let cache = NodeCache::new(100 * CachedNode::BYTES_MAX);
        (0..HOT).for_each(|number| cache.put(at(100 * number), &node));
        let mut lost = 0;
        for number in HOT..HOT + 5_000 {
            cache.put(at(100 * number), &node);
            for hot in 0..HOT {
                if cache.get(at(100 * hot), 0, 1).is_none() {
                    lost += 1;
                    cache.put(at(100 * hot), &node);
                }
            }
        }
        assert!(lost < 50, "{lost} of 5,000 that were dropped were in use");
    }

    #[test]
    fn what_many_put_there_at_once_is_there_once() {
        let cache = NodeCache::new(1 << 20);
        std::thread::scope(|scope| {
            for generation in 1..5 {
                let cache = &cache;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        cache.put(at(number % 7), &node(generation));
                        cache.remove(at(number % 5));
                    }
                });
            }
        });
        (0..7).for_each(|number| cache.remove(at(number)));
        assert!((0..7).all(|number| cache.get(at(number), 0, 1).is_none()));
        assert_eq!(
            cache.bytes().0,
            cache.pages.iter().filter_map(OnceLock::get).count() * cache.page_bytes()
        );
    }

    #[test]
    fn what_was_used_later_than_now_is_young() {
        let copy = CachedNode::copy(at(0), &node(1));
        copy.touch(8);
        assert_eq!([7, 8, 10].map(|now| copy.age(now)), [0, 0, 2]);
        assert!(Leaving::None > Leaving::Of(u32::MAX));
    }

    #[test]
    fn a_copy_is_of_one_generation() {
        let cache = NodeCache::new(1 << 20);
        cache.put(at(0), &node(1));
        let one = cache.get(at(0), 0, 1).expect("it was put there");
        cache.put(at(0), &node(1));
        assert!(cache.get(at(0), 0, 1).is_some_and(|same| Arc::ptr_eq(&one, &same)));
        cache.learn(at(0), 1, Slot::vacant(7, 2));
        assert_eq!(one.slot(1), Slot::free(1));
        cache.put(at(0), &node(2));
        let two = cache.get(at(0), 0, 1).expect("it was put there");
        assert_eq!((two.header.generation(), one.header.generation()), (2, 1));
        cache.remove(at(0));
        assert!(cache.get(at(0), 0, 1).is_none());
        assert_eq!(cache.bytes().0, cache.page_bytes(), "the page stays");
    }

    #[test]
    fn without_a_budget_nothing_is_kept() {
        let cache = NodeCache::new(0);
        cache.put(at(0), &node(1));
        assert!(cache.get(at(0), 0, 1).is_none());
    }
}
