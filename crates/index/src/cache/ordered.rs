//! An ordered, concurrent cache with a byte budget, for nodes that cover ranges of keys.
//!
//! ```text
//! root: branches by lower key -> branch: runs by lower key -> run: nodes by lower key -> node
//! ```
//!
//! All lists are immutable, and the root is behind one atomic pointer. A search takes no lock and allocates nothing; it
//! writes shared memory only to record the time of a node's last use, and only while nodes are being admitted. A change
//! copies one run, one branch, and the root: two lists of at most 64 pointers, and one of a pointer per 1,000 to 4,000
//! nodes. (The paper uses a lock-free skip list, Sherman §4.2.3; searches of contiguous arrays touch fewer cache
//! lines.)
//!
//! A full cache admits one miss in [`ADMISSION_PERIOD`]. A node that many operations miss is admitted soon and evicted
//! late; nodes with equally many uses rarely replace each other, so that a cache that is too small costs its users
//! little more than no cache. Eviction draws two cached nodes at random and removes the one whose last use is older
//! (power of two choices).

use super::prefixes::Prefixes;
use crate::key::{compare, prefix};
use arc_swap::ArcSwap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// The maximum number of nodes in a run, and of runs in a branch; a longer list is split.
const LIST_MAX: usize = 64;

/// Attempts to draw a node: each finds one with the probability that a random place of a branch has a run, and a random
/// place of a run a node.
const DRAWS_MAX: usize = 1000;

/// The number of misses, on average, of which a full cache admits one.
const ADMISSION_PERIOD: u64 = 256;

/// A cacheable node, which covers keys from its lower key on.
pub trait Ranged {
    /// The smallest key that it covers.
    fn lower(&self) -> &[u8];
    /// Bytes that the node occupies in the cache.
    fn bytes(&self) -> usize;
}

/// A cached node, in one allocation with the time of its last use.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot<T> {
    /// The cache's tick when the node was last used.
    used: AtomicU64,
    /// The first bytes of the node, where its search begins, share a cache line with `used`.
    node: T,
}

impl<T> Slot<T> {
    /// A node outside of the cache.
    pub fn uncached(node: T) -> Self {
        Self { used: AtomicU64::new(0), node }
    }
}

impl<T> Deref for Slot<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.node
    }
}

/// An element of a sorted list.
trait Sorted {
    fn lower(&self) -> &[u8];
}

impl<T: Ranged> Sorted for Slot<T> {
    fn lower(&self) -> &[u8] {
        self.node.lower()
    }
}

/// Elements by increasing lower key, with the keys' first eight bytes beside them.
#[derive(Debug)]
struct SortedList<E>(Prefixes<Arc<E>>);

impl<E: Sorted> SortedList<E> {
    fn new(elements: Vec<Arc<E>>) -> Self {
        Self(Prefixes::new(elements.into_iter().map(|element| (prefix(element.lower()), element))))
    }

    /// One list of `elements`, or two if they are too many, or none.
    fn split(mut elements: Vec<Arc<E>>) -> Vec<Arc<Self>> {
        let mut lists = Vec::new();
        if elements.len() > LIST_MAX {
            let right = elements.split_off(elements.len() / 2);
            lists.push(Arc::new(Self::new(elements)));
            elements = right;
        }
        if !elements.is_empty() {
            lists.push(Arc::new(Self::new(elements)));
        }
        lists
    }

    fn to_vec(&self) -> Vec<Arc<E>> {
        self.0.items().cloned().collect()
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&Arc<E>> {
        self.0.get(at)
    }

    /// The number of elements that begin at or below `key`.
    #[inline]
    fn at_or_below(&self, key: &[u8]) -> usize {
        self.0.at_or_below(prefix(key), |at| {
            compare(self.0.get(at).map_or(&[][..], |element| element.lower()), key)
        })
    }

    /// The number of the last element that begins at or below `key`, or else 0.
    #[inline]
    fn covering(&self, key: &[u8]) -> usize {
        if self.0.len() <= 1 {
            return 0;
        }
        self.at_or_below(key).saturating_sub(1)
    }
}

impl<E: Sorted> Sorted for SortedList<E> {
    fn lower(&self) -> &[u8] {
        self.get(0).map_or(&[], |first| first.lower())
    }
}

type Run<T> = SortedList<Slot<T>>;
type Branch<T> = SortedList<Run<T>>;
type Root<T> = SortedList<Branch<T>>;

/// The place of a run: the numbers of its branch, and of the run in the branch.
type RunPosition = (usize, usize);

impl<T: Ranged> Root<T> {
    #[inline]
    fn position(&self, key: &[u8]) -> RunPosition {
        let branch = self.covering(key);
        (branch, self.get(branch).map_or(0, |runs| runs.covering(key)))
    }

    #[inline]
    fn run(&self, (branch, run): RunPosition) -> Option<&Arc<Run<T>>> {
        self.get(branch)?.get(run)
    }

    fn slots(&self, position: RunPosition) -> Vec<Arc<Slot<T>>> {
        self.run(position).map_or_else(Vec::new, |run| run.to_vec())
    }

    /// Draws two nodes at random and returns the one used longer ago; `None` if there are none, or if no attempt finds
    /// one.
    fn victim(&self, random: &mut u64) -> Option<Arc<Slot<T>>> {
        let draws = [self.draw(random)?, self.draw(random)?];
        draws.into_iter().min_by_key(|slot| slot.used.load(Ordering::Relaxed))
    }

    /// Draws a node; all have the same probability.
    fn draw(&self, random: &mut u64) -> Option<Arc<Slot<T>>> {
        (0..DRAWS_MAX).find_map(|_| {
            let runs = self.get(below(random, self.0.len()))?;
            runs.get(below(random, LIST_MAX))?.get(below(random, LIST_MAX)).cloned()
        })
    }

    /// This root with `slots` instead of the nodes of the run at `position`.
    fn with(&self, (branch, run): RunPosition, slots: Vec<Arc<Slot<T>>>) -> Self {
        let mut runs = self.get(branch).map_or_else(Vec::new, |runs| runs.to_vec());
        runs.splice(run..(run + 1).min(runs.len()), Run::split(slots));
        let mut branches = self.to_vec();
        branches.splice(branch..(branch + 1).min(branches.len()), Branch::split(runs));
        Self::new(branches)
    }
}

/// A node after [`OrderedCache::insert`].
#[derive(Debug)]
pub struct Inserted<T> {
    /// The node in its cached form.
    pub node: Arc<Slot<T>>,
    /// Whether the cache contains it.
    pub admitted: bool,
    /// Number of nodes that were removed for it: evicted ones, and one with the same lower key.
    pub removed: u32,
}

/// An ordered cache of `T` within a byte budget.
#[derive(Debug)]
pub struct OrderedCache<T> {
    root: ArcSwap<Root<T>>,
    /// Serializes writers; holds the state of the random generator.
    writer: Mutex<u64>,
    tick: AtomicU64,
    misses: AtomicU64,
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl<T: Ranged> OrderedCache<T> {
    /// An empty cache of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            root: ArcSwap::from_pointee(Root::new(Vec::new())),
            writer: Mutex::new(0),
            tick: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// Returns the bytes that the cache may use at most.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Nodes in the cache.
    pub fn len(&self) -> usize {
        let root = self.root.load();
        root.0.items().flat_map(|runs| runs.0.items()).map(|run| run.0.len()).sum()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with the node of the greatest lower key at or below `key`, which may not cover the key.
    #[inline]
    pub fn find<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Slot<T>>) -> R) -> Option<R> {
        let root = self.root.load();
        let run = root.run(root.position(key))?;
        let slot = run.get(run.at_or_below(key).checked_sub(1)?)?;
        // While no node is admitted, the tick does not change, and readers write nothing.
        let tick = self.tick.load(Ordering::Relaxed);
        if slot.used.load(Ordering::Relaxed) != tick {
            slot.used.store(tick, Ordering::Relaxed);
        }
        Some(look(slot))
    }

    /// Decides after a miss whether a node of `bytes` bytes is worth inserting: always where it fits, otherwise once in
    /// 256 misses on average.
    pub fn admits(&self, bytes: usize) -> bool {
        if bytes > self.bytes_max {
            return false;
        }
        if self.bytes() + bytes <= self.bytes_max {
            return true;
        }
        // A regular choice could always meet the same node of a periodic workload.
        let miss = self.misses.fetch_add(1, Ordering::Relaxed);
        mix(miss).is_multiple_of(ADMISSION_PERIOD)
    }

    /// Inserts a node, replaces one with the same lower key, and evicts others to stay within the budget. Does not
    /// insert a node that is larger than the budget, nor while another thread changes the cache.
    pub fn insert(&self, node: T) -> Inserted<T> {
        let slot = Arc::new(Slot::uncached(node));
        let mut inserted = Inserted { node: Arc::clone(&slot), admitted: false, removed: 0 };
        let mut random = match self.writer.try_lock() {
            Ok(random) => random,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return inserted,
        };
        if slot.bytes() <= self.bytes_max {
            slot.used.store(self.tick.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.insert_slot(&mut random, slot, &mut inserted);
        }
        inserted
    }

    fn insert_slot(&self, random: &mut u64, slot: Arc<Slot<T>>, inserted: &mut Inserted<T>) {
        if let Some(same) = self.find(slot.lower(), Arc::clone).filter(|found| found.lower() == slot.lower())
        {
            self.remove_slot(&same);
            inserted.removed += 1;
        }
        while self.bytes() + slot.bytes() > self.bytes_max {
            let Some(victim) = self.root.load().victim(random) else { return };
            self.remove_slot(&victim);
            inserted.removed += 1;
        }
        self.bytes.fetch_add(slot.bytes(), Ordering::Relaxed);
        let root = self.root.load();
        let position = root.position(slot.lower());
        let mut slots = root.slots(position);
        let at = slots.partition_point(|other| other.lower() < slot.lower());
        slots.insert(at, slot);
        self.root.store(Arc::new(root.with(position, slots)));
        inserted.admitted = true;
    }

    /// Removes `node`, if it still is in the cache.
    pub fn remove(&self, node: &Arc<Slot<T>>) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.remove_slot(node);
    }

    /// Removes a node, if it is in the cache. The caller is the only writer.
    fn remove_slot(&self, slot: &Arc<Slot<T>>) {
        let root = self.root.load();
        let position = root.position(slot.lower());
        let mut slots = root.slots(position);
        let Some(at) = slots.iter().position(|other| Arc::ptr_eq(other, slot)) else { return };
        slots.remove(at);
        self.root.store(Arc::new(root.with(position, slots)));
        self.bytes.fetch_sub(slot.bytes(), Ordering::Relaxed);
    }
}

/// A random number below `limit`.
fn below(random: &mut u64, limit: usize) -> usize {
    *random = random.wrapping_add(1);
    ((u128::from(mix(*random)) * limit as u128) >> 64) as usize
}

/// A number whose bits all depend on all bits of `number` (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug)]
    struct Piece(Vec<u8>);

    impl Ranged for Piece {
        fn lower(&self) -> &[u8] {
            &self.0
        }
        fn bytes(&self) -> usize {
            100
        }
    }

    /// Keys that share their first eight bytes in groups, so that prefixes tie.
    fn key(number: u64) -> Vec<u8> {
        [(number / 7).to_be_bytes(), number.to_be_bytes()].concat()
    }

    #[test]
    fn finds_what_a_map_finds() {
        let cache = OrderedCache::new(usize::MAX);
        let mut model = BTreeMap::new();
        for step in 0..3000u64 {
            let number = step * 7919 % 5003;
            let piece = cache.insert(Piece(key(number))).node;
            model.insert(piece.0.clone(), piece);
            if step % 5 == 0 {
                let victim = model.remove(&key(step * 31 % 5003));
                if let Some(piece) = victim {
                    cache.remove(&piece);
                }
            }
        }
        assert_eq!((cache.len(), cache.bytes()), (model.len(), 100 * model.len()));
        for number in 0..5010 {
            let found = cache.find(&key(number), |piece| piece.0.clone());
            assert_eq!(found, model.range(..=key(number)).next_back().map(|(key, _)| key.clone()));
        }
    }

    #[test]
    fn stays_within_its_budget_and_keeps_what_is_used() {
        let cache = OrderedCache::new(100 * 100);
        for number in 0..1000 {
            cache.insert(Piece(key(number)));
            assert!(cache.bytes() <= cache.bytes_max());
            assert!(
                cache.find(&key(0), |piece| piece.0 == key(0)).unwrap_or(false) || number > 20,
                "{number}"
            );
        }
        assert_eq!(cache.len(), 100);
        let recent = (500..1000).filter(|&n| cache.find(&key(n), |piece| piece.0 == key(n)) == Some(true));
        assert!(recent.count() > 80, "the ones used longest ago go first");
    }

    #[test]
    fn a_full_cache_admits_few_misses_and_others_all() {
        let cache = OrderedCache::<Piece>::new(100 * 100);
        assert!(!cache.admits(10_001), "a node larger than the budget");
        for number in 0..100 {
            assert!(cache.admits(100));
            cache.insert(Piece(key(number)));
        }
        let admitted = (0..256_000).filter(|_| cache.admits(100)).count();
        assert!((800..1200).contains(&admitted), "{admitted} of 256,000");
    }

    #[test]
    fn every_cached_node_is_drawn_equally_often() {
        // Runs of one node between runs of many: most keys are removed again in half of the range.
        let cache = OrderedCache::new(usize::MAX);
        let all: Vec<_> = (0..4096).map(|number| cache.insert(Piece(key(number))).node).collect();
        all.iter()
            .take(2048)
            .enumerate()
            .filter(|(at, _)| at % 32 != 0)
            .for_each(|(_, node)| cache.remove(node));
        let (root, mut random) = (cache.root.load(), 0);
        let draws = (0..42_240).filter(|_| root.draw(&mut random).unwrap().0 < key(2048)).count();
        assert!((1_000..1_560).contains(&draws), "{draws} of 42,240 draws, of 64 nodes of 2,112");
    }

    #[test]
    fn readers_beside_a_writer_find_nodes_at_or_below_their_key() {
        let cache = OrderedCache::new(100 * 500);
        cache.insert(Piece(key(0)));
        let write = || {
            for step in 0..20_000u64 {
                let piece = cache.insert(Piece(key(1 + mix(step) % 2_000))).node;
                if step % 3 == 0 {
                    cache.remove(&piece);
                }
            }
        };
        let read = || {
            for step in 0..100_000 {
                let wanted = key(mix(step) % 2_000);
                if let Some(lower) = cache.find(&wanted, |piece| piece.0.clone()) {
                    assert!(lower <= wanted);
                }
            }
        };
        std::thread::scope(|scope| {
            [scope.spawn(write), scope.spawn(read)].map(|thread| thread.join().unwrap())
        });
        assert_eq!(cache.bytes(), 100 * cache.len());
        let cached = (0..=2_000)
            .filter(|&number| cache.find(&key(number), |piece| piece.0 == key(number)) == Some(true));
        assert_eq!(cached.count(), cache.len(), "every member is found");
    }

    #[test]
    fn an_insertion_counts_the_nodes_that_it_removes() {
        let cache = OrderedCache::new(100 * 2);
        let changes = [1, 2, 2, 3].map(|number| cache.insert(Piece(key(number))));
        assert_eq!(
            changes.map(|change| (change.admitted, change.removed)),
            [(true, 0), (true, 0), (true, 1), (true, 1)]
        );
        let none = OrderedCache::new(99).insert(Piece(key(1)));
        assert_eq!((none.admitted, none.removed), (false, 0));
    }

    #[test]
    fn a_node_larger_than_the_budget_is_not_cached() {
        let cache = OrderedCache::new(99);
        cache.insert(Piece(key(1)));
        assert!(cache.is_empty());
    }
}
