//! An ordered, concurrent cache with a byte budget, for nodes that cover ranges of keys.
//!
//! The paper uses a lock-free skip list. This cache is a two-level array behind one atomic pointer: a search consists
//! of two binary searches over contiguous numbers, takes no lock, and writes no shared memory; a change copies one run
//! of nodes and the list of runs. Searches outnumber changes by far: a change follows a miss, which costs round trips.
//!
//! Eviction draws two cached nodes at random and drops the one used longer ago (power of two choices).

use super::prefixes::Prefixes;
use crate::key::{compare, prefix};
use arc_swap::ArcSwap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Nodes in a run before it is split.
const RUN_MAX: usize = 64;

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

/// Nodes by increasing lower key, with the keys' first eight bytes beside them.
#[derive(Debug)]
struct Run<T>(Prefixes<Arc<Slot<T>>>);

/// All runs, in order; none is empty.
#[derive(Debug)]
struct Runs<T>(Prefixes<Arc<Run<T>>>);

/// An ordered cache of `T` within a byte budget.
#[derive(Debug)]
pub struct OrderedCache<T> {
    runs: ArcSwap<Runs<T>>,
    /// Serializes writers; holds the state of the random generator.
    writer: Mutex<u64>,
    tick: AtomicU64,
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl<T: Ranged> Run<T> {
    fn new(slots: Vec<Arc<Slot<T>>>) -> Self {
        Self(Prefixes::new(slots.into_iter().map(|slot| (prefix(slot.lower()), slot))))
    }

    fn lower(&self) -> &[u8] {
        self.slot(0).lower()
    }

    fn slot(&self, at: usize) -> &Arc<Slot<T>> {
        self.0.get(at).expect("the caller counted the nodes")
    }

    fn slots(&self) -> Vec<Arc<Slot<T>>> {
        self.0.items().cloned().collect()
    }

    /// The number of nodes that begin at or below `key`.
    #[inline]
    fn position(&self, key: &[u8]) -> usize {
        self.0.at_or_below(prefix(key), |at| compare(self.slot(at).lower(), key))
    }
}

impl<T: Ranged> Runs<T> {
    fn new(runs: Vec<Arc<Run<T>>>) -> Self {
        Self(Prefixes::new(runs.into_iter().map(|run| (prefix(run.lower()), run))))
    }

    fn run(&self, at: usize) -> &Run<T> {
        self.0.get(at).expect("the caller counted the runs")
    }

    /// The run that covers `key`.
    #[inline]
    fn run_of(&self, key: &[u8]) -> usize {
        self.0.at_or_below(prefix(key), |at| compare(self.run(at).lower(), key)).saturating_sub(1)
    }

    /// These runs with run `at` replaced by `new`, which may be empty or too long.
    fn with(&self, at: usize, new: Vec<Arc<Slot<T>>>) -> Self {
        let mut runs = Vec::with_capacity(self.0.len() + 1);
        runs.extend(self.0.items().take(at).cloned());
        if new.len() > RUN_MAX {
            let mut left = new;
            let right = left.split_off(left.len() / 2);
            runs.push(Arc::new(Run::new(left)));
            runs.push(Arc::new(Run::new(right)));
        } else if !new.is_empty() {
            runs.push(Arc::new(Run::new(new)));
        }
        runs.extend(self.0.items().skip(at + 1).cloned());
        Self::new(runs)
    }
}

impl<T: Ranged> OrderedCache<T> {
    /// An empty cache of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            runs: ArcSwap::from_pointee(Runs::new(Vec::new())),
            writer: Mutex::new(0x2545_F491_4F6C_DD1D),
            tick: AtomicU64::new(0),
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
        self.runs.load().0.items().map(|run| run.0.len()).sum()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with the node of the greatest lower key at or below `key`, which may not cover the key.
    #[inline]
    pub fn find<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Slot<T>>) -> R) -> Option<R> {
        let runs = self.runs.load();
        let run = runs.0.get(runs.run_of(key))?;
        let slot = run.0.get(run.position(key).checked_sub(1)?)?;
        // Without evictions and insertions the tick does not change, and readers write nothing.
        let tick = self.tick.load(Ordering::Relaxed);
        if slot.used.load(Ordering::Relaxed) != tick {
            slot.used.store(tick, Ordering::Relaxed);
        }
        Some(look(slot))
    }

    /// Inserts a node, replaces one with the same lower key, and evicts others to stay within the budget. Returns the
    /// node in its cached form.
    pub fn insert(&self, node: T) -> Arc<Slot<T>> {
        let tick = self.tick.fetch_add(1, Ordering::Relaxed) + 1;
        let slot = Arc::new(Slot { used: AtomicU64::new(tick), node });
        if slot.bytes() <= self.bytes_max {
            self.insert_slot(Arc::clone(&slot));
        }
        slot
    }

    fn insert_slot(&self, slot: Arc<Slot<T>>) {
        let mut random = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = self.runs.load_full();
        let at = runs.run_of(slot.lower());
        let mut slots: Vec<_> = runs.0.get(at).map_or_else(Vec::new, |run| run.slots());
        let position = slots.partition_point(|other| other.lower() < slot.lower());
        let mut bytes = self.bytes() + slot.bytes();
        let same = slots.get(position).is_some_and(|other| other.lower() == slot.lower());
        if same {
            bytes -= slots[position].node.bytes();
            slots[position] = slot;
        } else {
            slots.insert(position, slot);
        }
        let mut next = runs.with(at, slots);
        while bytes > self.bytes_max {
            let (run, slot) = victim(&next, &mut random);
            bytes -= next.run(run).slot(slot).bytes();
            next = without(&next, run, slot);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.runs.store(Arc::new(next));
    }

    /// Removes `node`, if it still is in the cache.
    pub fn remove(&self, node: &Arc<Slot<T>>) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = self.runs.load_full();
        let at = runs.run_of(node.lower());
        let Some(run) = runs.0.get(at) else { return };
        let Some(slot) = run.0.items().position(|slot| Arc::ptr_eq(slot, node)) else { return };
        self.bytes.store(self.bytes() - node.bytes(), Ordering::Relaxed);
        self.runs.store(Arc::new(without(&runs, at, slot)));
    }
}

fn without<T: Ranged>(runs: &Runs<T>, run: usize, slot: usize) -> Runs<T> {
    let mut slots = runs.run(run).slots();
    slots.remove(slot);
    runs.with(run, slots)
}

/// Draws two nodes at random and returns the one used longer ago.
fn victim<T: Ranged>(runs: &Runs<T>, random: &mut u64) -> (usize, usize) {
    let mut draw = || {
        let run = below(random, runs.0.len());
        (run, below(random, runs.run(run).0.len()))
    };
    let used = |(run, slot): (usize, usize)| runs.run(run).slot(slot).used.load(Ordering::Relaxed);
    let (one, other) = (draw(), draw());
    if used(one) <= used(other) { one } else { other }
}

/// A number below `limit`, by xorshift.
fn below(random: &mut u64, limit: usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    ((u128::from(*random) * limit as u128) >> 64) as usize
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
            let piece = cache.insert(Piece(key(number)));
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
    fn a_node_larger_than_the_budget_is_not_cached() {
        let cache = OrderedCache::new(99);
        cache.insert(Piece(key(1)));
        assert!(cache.is_empty());
    }
}
