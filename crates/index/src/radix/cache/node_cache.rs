//! The cache of inner nodes: copies by address, within a budget of bytes.
//!
//! A hash table of buckets. A bucket is one line of the processor cache with a lock and three entries, so that a search
//! in a table of millions of nodes waits for two cache lines per node: the bucket and the copy. A copy is in one of two
//! buckets. If both are full, the least recently used copy is evicted; if the budget is used up, the least recently
//! used copy of a small random sample is.

use super::cached_node::CachedNode;
use super::thread_cache::ThreadCache;
use crate::radix::inner::{Inner, RawInner};
use crate::radix::slot::NodeSlot;
use farwood_fabric::Remote;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of entries of a bucket: as many as fit into a cache line.
const ENTRIES: usize = 3;
/// Maximum buckets of a page. The buckets of a page are allocated together, when the first of them is used.
const PAGE_MAX: usize = 256;
/// Bytes of the budget per bucket. If the cache is full of the smallest nodes, a bucket has two copies on average.
const BYTES_PER_BUCKET: usize = 256;
/// Copies in the random sample from which the least recently used one is evicted. With a sample of two, copies that are
/// in constant use are often evicted.
const SAMPLE: usize = 5;
/// Adjacent buckets that are searched for one copy of the sample. With large copies, most buckets are empty.
const SAMPLE_BUCKETS: usize = 64;

/// The entries of a bucket: copies of nodes whose addresses hash to the bucket, each with another byte of that hash.
#[derive(Debug, Default)]
struct BucketEntries {
    tags: [u8; ENTRIES],
    copies: [Option<Arc<CachedNode>>; ENTRIES],
}

/// A bucket in its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket(Mutex<BucketEntries>);

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, BucketEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BucketEntries {
    /// The number of the entry with the copy of the node at `at`.
    #[inline]
    fn find(&self, tag: u8, at: Remote<RawInner>) -> Option<usize> {
        (0..ENTRIES).find(|entry| {
            self.tags[*entry] == tag && self.copies[*entry].as_ref().is_some_and(|copy| copy.at == at)
        })
    }

    /// The copy of the node at `at`. Prefetches its slot `likely`, so that the processor waits for that line and the
    /// first line of the copy at the same time.
    #[inline]
    fn copy(&self, tag: u8, at: Remote<RawInner>, likely: usize) -> Option<Arc<CachedNode>> {
        let tagged = self.tags.iter().zip(&self.copies).filter(|(other, _)| **other == tag);
        tagged
            .filter_map(|(_, copy)| copy.as_ref())
            .find(|copy| {
                copy.prefetch(likely);
                copy.at == at
            })
            .cloned()
    }

    /// Picks the entry for a new copy. The entry is free, or holds the least recently used copy, which is evicted.
    fn victim(&self, now: u32) -> (Victim, usize) {
        let victim = |entry: usize| {
            self.copies[entry].as_ref().map_or(Victim::None, |copy| Victim::Aged(copy.age(now)))
        };
        (0..ENTRIES).map(|entry| (victim(entry), entry)).max().expect("a bucket has entries")
    }

    /// Removes the copy from an entry.
    fn take(&mut self, entry: usize) -> Option<Arc<CachedNode>> {
        let taken = self.copies[entry].take()?;
        taken.mark_evicted();
        Some(taken)
    }
}

/// The entry that a new copy replaces. The greatest value is the best choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// A copy, with the time since its last use.
    Aged(u32),
    None,
}

/// The two buckets of a page that may hold the copy of a node.
#[derive(Clone, Copy)]
struct CachePosition {
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
    threads: ThreadCache,
    /// Bytes of pages and copies.
    bytes: AtomicUsize,
    /// Bytes of the budget that other structures use.
    bytes_reserved: AtomicUsize,
    bytes_max: usize,
    /// Logical time: the number of copies that were inserted.
    tick: AtomicU32,
}

impl NodeCache {
    /// A cache of at most `bytes_max` bytes. With 0, nothing is cached.
    pub fn new(bytes_max: usize) -> Self {
        let buckets = (bytes_max / BYTES_PER_BUCKET).max(usize::from(bytes_max > 0));
        let pages = buckets.div_ceil(PAGE_MAX);
        Self {
            page_buckets: buckets.checked_div(pages).unwrap_or(0),
            pages: (0..pages).map(|_| OnceLock::new()).collect(),
            threads: ThreadCache::new(bytes_max),
            bytes: AtomicUsize::new(0),
            bytes_reserved: AtomicUsize::new(0),
            bytes_max,
            tick: AtomicU32::new(1),
        }
    }

    /// Bytes in use, and the budget.
    pub fn bytes(&self) -> (usize, usize) {
        (self.bytes_used(), self.bytes_max)
    }

    fn bytes_used(&self) -> usize {
        self.bytes.load(Relaxed) + self.threads.bytes() + self.bytes_reserved.load(Relaxed)
    }

    /// Counts `bytes` of another structure against the budget.
    pub fn reserve(&self, bytes: usize) {
        self.bytes_reserved.fetch_add(bytes, Relaxed);
    }

    #[inline]
    fn position(&self, at: Remote<RawInner>) -> CachePosition {
        let hash = (at.word() >> 3).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let page = scaled(hash, self.pages.len());
        let hash = (hash ^ hash >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let buckets = [hash, hash.rotate_left(24)].map(|hash| scaled(hash, self.page_buckets));
        CachePosition { page, buckets, tag: hash as u8 }
    }

    /// A page, if it was allocated.
    #[inline]
    fn page(&self, number: usize) -> Option<&[Bucket]> {
        self.pages.get(number)?.get().map(|page| &**page)
    }

    /// A page, which is allocated if necessary.
    fn page_or_allocate(&self, number: usize) -> &[Bucket] {
        self.pages[number].get_or_init(|| {
            self.bytes.fetch_add(self.page_bytes(), Relaxed);
            (0..self.page_buckets).map(|_| Bucket::default()).collect()
        })
    }

    fn page_bytes(&self) -> usize {
        self.page_buckets * size_of::<Bucket>()
    }

    /// The copy of the node at `at` for `thread`, which is going to read slot `likely`.
    #[inline]
    pub fn get(&self, at: Remote<RawInner>, thread: usize, likely: usize) -> Option<Arc<CachedNode>> {
        let now = self.tick.load(Relaxed);
        self.threads.get(thread, at.word(), || self.shared(at, likely), |copy| copy.touch(now))
    }

    /// The copy of the node at `at` that all threads share.
    #[inline]
    fn shared(&self, at: Remote<RawInner>, likely: usize) -> Option<Arc<CachedNode>> {
        let position = self.position(at);
        let page = self.page(position.page)?;
        position.buckets.iter().find_map(|bucket| page[*bucket].lock().copy(position.tag, at, likely))
    }

    /// Inserts a node that was just read, or updates the copy of it.
    pub fn put<B: Deref<Target = [u8]>>(&self, at: Remote<RawInner>, node: &Inner<B>) {
        if CachedNode::bytes_of(node.header().size()) + self.page_bytes() > self.bytes_max {
            return;
        }
        let position = self.position(at);
        let page = self.page_or_allocate(position.page);
        // Both buckets are locked, so that a node never has two copies; always in this order, to avoid a deadlock.
        let [first, second] = position.buckets;
        let (low, high) = (first.min(second), first.max(second));
        let mut both = [Some(page[low].lock()), (high > low).then(|| page[high].lock())];
        if high != second {
            both.reverse();
        }
        for entries in both.iter_mut().flatten() {
            let Some(entry) = entries.find(position.tag, at) else { continue };
            if let Some(known) = entries.copies[entry].as_ref().filter(|known| known.is_copy_of(node)) {
                return known.refresh(node);
            }
            self.uncount(entries.take(entry));
        }
        let now = self.tick.fetch_add(1, Relaxed).wrapping_add(1);
        let copy = CachedNode::copy(at, node);
        copy.touch(now);
        self.bytes.fetch_add(copy.bytes(), Relaxed);
        // If both buckets have a free entry, the copy goes into the one that lookups search first.
        let best = both.iter_mut().flatten().rev().max_by_key(|entries| entries.victim(now).0);
        let entries = best.expect("there is a bucket");
        let entry = entries.victim(now).1;
        self.uncount(entries.take(entry));
        (entries.tags[entry], entries.copies[entry]) = (position.tag, Some(copy));
        drop(both);
        self.shrink();
    }

    /// Subtracts the bytes of an evicted copy.
    fn uncount(&self, evicted: Option<Arc<CachedNode>>) {
        if let Some(evicted) = evicted {
            self.bytes.fetch_sub(evicted.bytes(), Relaxed);
        }
    }

    /// Records that slot `number` of the node at `at` was just seen to hold `slot`.
    pub fn learn(&self, at: Remote<RawInner>, number: usize, slot: NodeSlot) {
        if let Some(node) = self.shared(at, number) {
            node.learn(number, slot);
        }
    }

    /// Records that an insert that followed the copy of the node at `at` lost its slot to another client.
    pub fn mark_lost(&self, at: Remote<RawInner>) {
        if let Some(node) = self.shared(at, 0) {
            node.mark_lost();
        }
    }

    /// Evicts the copy of the node at `at`.
    pub fn remove(&self, at: Remote<RawInner>) {
        let position = self.position(at);
        let Some(page) = self.page(position.page) else { return };
        for bucket in position.buckets {
            let mut entries = page[bucket].lock();
            if let Some(entry) = entries.find(position.tag, at) {
                self.uncount(entries.take(entry));
            }
        }
    }

    /// Evicts copies until the cache is within its budget. The loop ends, because pages, duplicates of threads and
    /// reserved bytes are less than half of a budget, and the rest are copies that can be sampled.
    fn shrink(&self) {
        let now = self.tick.load(Relaxed);
        let mut random = Random(u64::from(now).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        while self.bytes_used() > self.bytes_max {
            let sample = (0..SAMPLE).filter_map(|_| self.sample(&mut random, now));
            if let Some((_, at)) = sample.max_by_key(|(age, _)| *age) {
                self.remove(at);
            }
        }
    }

    /// Age and address of a random copy: the oldest one of the first bucket that is not empty after a random position;
    /// `None` if the buckets near that position are empty.
    fn sample(&self, random: &mut Random, now: u32) -> Option<(u32, Remote<RawInner>)> {
        let page = self.page(random.below(self.pages.len()))?;
        let start = random.below(page.len());
        (0..SAMPLE_BUCKETS.min(page.len())).find_map(|step| {
            let entries = page[(start + step) % page.len()].lock();
            let copies = entries.copies.iter().flatten().map(|copy| (copy.age(now), copy.at));
            copies.max_by_key(|(age, _)| *age)
        })
    }
}

/// Scales a hash to a number below `count`.
#[inline]
fn scaled(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// A random number generator (xorshift).
struct Random(u64);

impl Random {
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
    use crate::radix::inner::{NodeHeader, NodeSize, NodeState, image};
    use crate::radix::reverse::Reverse;
    use farwood_fabric::{Memory, NodeId};

    fn at(number: u64) -> Remote<RawInner> {
        Remote::new(NodeId(0), Memory::Host, 4096 + 72 * number).expect("it is not null")
    }

    fn node(generation: u32) -> Inner<Vec<u8>> {
        let header = NodeHeader::new(NodeState::Live, NodeSize::Four, 0, 1, generation);
        Inner::new(image(Reverse::unlinked(generation), header, b"a", 1, &[]))
    }

    fn node_bytes() -> usize {
        CachedNode::copy(at(0), &node(1)).bytes()
    }

    #[test]
    fn a_threads_duplicates_are_updated_with_the_shared_copies() {
        for budget in [1 << 20, 1 << 30] {
            let cache = NodeCache::new(budget);
            cache.put(at(0), &node(1));
            let alone = cache.bytes().0;
            let twice = || (cache.get(at(0), 0, 1), cache.get(at(0), 0, 1));
            twice();
            let own = cache.bytes().0 - alone;
            assert_eq!(
                own,
                if budget == 1 << 30 { node_bytes() } else { 0 },
                "small caches have no duplicates"
            );
            let (first, second) = twice();
            assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
            let slot = NodeSlot::vacant(1, 1);
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
    fn the_budget_is_kept_and_a_node_in_use_stays() {
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

    /// The cache holds a few hundred nodes of the tree, and every search uses a tenth of them.
    #[test]
    fn a_small_cache_keeps_the_nodes_in_use() {
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
        assert!(lost < 20, "{lost} of 20,000 evictions hit a node in use");
        let (used, budget) = cache.bytes();
        assert!(used <= budget && used + node_bytes() > budget);
    }

    #[test]
    fn every_budget_is_kept_with_nodes_of_every_size() {
        let of = |size| {
            let header = NodeHeader::new(NodeState::Live, size, 0, 1, 1);
            Inner::new(image(Reverse::unlinked(1), header, b"a", 1, &[]))
        };
        for budget in (0..4096).step_by(8).chain([1 << 16, 1 << 20]) {
            let cache = NodeCache::new(budget);
            for number in 0..600 {
                cache.put(at(100 * number), &of(NodeSize::FIXED[number as usize % 4]));
                assert!(cache.bytes().0 <= budget, "{budget}");
            }
        }
    }

    #[test]
    fn large_nodes_in_use_stay() {
        const HOT: u64 = 10;
        let header = NodeHeader::new(NodeState::Live, NodeSize::All, 0, 1, 1);
        let node = Inner::new(image(Reverse::unlinked(1), header, b"a", 1, &[]));
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
        assert!(lost < 50, "{lost} of 5,000 evictions hit a node in use");
    }

    #[test]
    fn concurrent_puts_leave_one_copy() {
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
    fn a_copy_used_after_now_has_age_zero() {
        let copy = CachedNode::copy(at(0), &node(1));
        copy.touch(8);
        assert_eq!([7, 8, 10].map(|now| copy.age(now)), [0, 0, 2]);
        assert!(Victim::None > Victim::Aged(u32::MAX));
    }

    #[test]
    fn a_copy_holds_one_generation() {
        let cache = NodeCache::new(1 << 20);
        cache.put(at(0), &node(1));
        let one = cache.get(at(0), 0, 1).expect("it was inserted");
        cache.put(at(0), &node(1));
        assert!(cache.get(at(0), 0, 1).is_some_and(|same| Arc::ptr_eq(&one, &same)));
        cache.learn(at(0), 1, NodeSlot::vacant(7, 2));
        assert_eq!(one.slot(1), NodeSlot::free(1));
        cache.put(at(0), &node(2));
        let two = cache.get(at(0), 0, 1).expect("it was inserted");
        assert_eq!((two.header.generation(), one.header.generation()), (2, 1));
        cache.remove(at(0));
        assert!(cache.get(at(0), 0, 1).is_none());
        assert_eq!(cache.bytes().0, cache.page_bytes(), "the page stays allocated");
    }

    #[test]
    fn without_a_budget_nothing_is_cached() {
        let cache = NodeCache::new(0);
        cache.put(at(0), &node(1));
        assert!(cache.get(at(0), 0, 1).is_none());
    }
}
