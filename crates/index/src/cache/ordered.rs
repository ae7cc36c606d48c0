//! An ordered, concurrent cache with a byte budget, for nodes that cover ranges of keys.
//!
//! ```text
//! root: branches by lower key -> branch: run cells by lower key -> run cell -> run: nodes by lower key -> node
//! ```
//!
//! Lists of branches, run cells, and nodes are immutable: a writer replaces them whole, behind atomic pointers. A
//! search takes no lock and allocates nothing; it writes shared memory only to record the time of a node's last use,
//! and only while nodes are being admitted. A change copies one run of at most 64 nodes. About one change in a thousand
//! splits or empties a run: it copies one branch and the root, which has one entry per 1,000 to 4,000 nodes. (The paper
//! uses a lock-free skip list, Sherman §4.2.3; searches of contiguous arrays touch fewer cache lines.)
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

/// The most nodes in a run, and run cells in a branch; a longer list is split.
const LIST_MAX: usize = 64;

/// The number of misses, on average, of which a full cache admits one.
const ADMISSION_PERIOD: u64 = 64;

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
    /// The node's number among the members of the cache; only the writer uses it.
    member: AtomicUsize,
}

impl<T> Slot<T> {
    /// A node outside of the cache.
    pub fn uncached(node: T) -> Self {
        Self { used: AtomicU64::new(0), node, member: AtomicUsize::new(0) }
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
    fn split(mut elements: Vec<Arc<E>>) -> Vec<Self> {
        let mut lists = Vec::new();
        if elements.len() > LIST_MAX {
            let right = elements.split_off(elements.len() / 2);
            lists.push(Self::new(elements));
            elements = right;
        }
        if !elements.is_empty() {
            lists.push(Self::new(elements));
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
        self.at_or_below(key).saturating_sub(1)
    }
}

type Run<T> = SortedList<Slot<T>>;

/// The current nodes of one range of keys, which are never none.
#[derive(Debug)]
struct RunCell<T> {
    lower: Box<[u8]>,
    run: ArcSwap<Run<T>>,
}

impl<T: Ranged> RunCell<T> {
    fn new(run: Run<T>) -> Self {
        let lower = run.get(0).map_or(&[][..], |slot| slot.lower()).into();
        Self { lower, run: ArcSwap::from_pointee(run) }
    }
}

impl<T> Sorted for RunCell<T> {
    fn lower(&self) -> &[u8] {
        &self.lower
    }
}

type Branch<T> = SortedList<RunCell<T>>;

impl<T> Sorted for Branch<T> {
    fn lower(&self) -> &[u8] {
        self.0.get(0).map_or(&[], |cell| cell.lower())
    }
}

type Root<T> = SortedList<Branch<T>>;

/// The place of a run cell: the numbers of its branch, and of the cell in the branch.
type CellPosition = (usize, usize);

impl<T: Ranged> Root<T> {
    #[inline]
    fn position(&self, key: &[u8]) -> CellPosition {
        let branch = self.covering(key);
        (branch, self.get(branch).map_or(0, |cells| cells.covering(key)))
    }

    #[inline]
    fn cell(&self, (branch, cell): CellPosition) -> Option<&Arc<RunCell<T>>> {
        self.get(branch)?.get(cell)
    }

    /// The last node before the run cell at `position`, which has no node at or below the wanted key.
    #[cold]
    fn last_before(&self, (branch, cell): CellPosition) -> Option<Arc<Slot<T>>> {
        let before = match cell.checked_sub(1) {
            Some(cell) => self.cell((branch, cell))?,
            None => self.get(branch.checked_sub(1)?)?.0.items().last()?,
        };
        before.run.load().0.items().last().cloned()
    }

    /// This root with `cells` instead of the run cell at `position`.
    fn with(&self, (branch, cell): CellPosition, cells: Vec<Arc<RunCell<T>>>) -> Self {
        let mut all = self.get(branch).map_or_else(Vec::new, |branch| branch.to_vec());
        all.splice(cell..(cell + 1).min(all.len()), cells);
        let mut branches = self.to_vec();
        let new = Branch::split(all).into_iter().map(Arc::new);
        branches.splice(branch..(branch + 1).min(branches.len()), new);
        Self::new(branches)
    }
}

/// The state of the writer.
#[derive(Debug)]
struct Writer<T> {
    random: u64,
    /// All cached nodes, in no order.
    members: Vec<Arc<Slot<T>>>,
}

/// An ordered cache of `T` within a byte budget.
#[derive(Debug)]
pub struct OrderedCache<T> {
    root: ArcSwap<Root<T>>,
    writer: Mutex<Writer<T>>,
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
            writer: Mutex::new(Writer { random: 0x2545_F491_4F6C_DD1D, members: Vec::new() }),
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
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).members.len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with the node of the greatest lower key at or below `key`, which may not cover the key.
    #[inline]
    pub fn find<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Slot<T>>) -> R) -> Option<R> {
        let root = self.root.load();
        let position = root.position(key);
        let run = root.cell(position)?.run.load();
        match run.at_or_below(key).checked_sub(1) {
            Some(at) => run.get(at).map(|slot| look(self.used(slot))),
            None => root.last_before(position).map(|slot| look(self.used(&slot))),
        }
    }

    /// Records a use of `slot`. While no node is admitted, the tick does not change, and readers write nothing.
    #[inline]
    fn used<'s>(&self, slot: &'s Arc<Slot<T>>) -> &'s Arc<Slot<T>> {
        let tick = self.tick.load(Ordering::Relaxed);
        if slot.used.load(Ordering::Relaxed) != tick {
            slot.used.store(tick, Ordering::Relaxed);
        }
        slot
    }

    /// Decides after a miss whether a node of `bytes` bytes is worth inserting: always where it fits, otherwise once in
    /// 64 misses on average.
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

    /// Inserts a node, replaces one with the same lower key, and evicts others to stay within the budget. Returns the
    /// node in its cached form. Does not insert a node that is larger than the budget, nor while another thread changes
    /// the cache.
    pub fn insert(&self, node: T) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot::uncached(node));
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return slot,
        };
        if slot.bytes() <= self.bytes_max {
            slot.used.store(self.tick.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.insert_slot(&mut writer, Arc::clone(&slot));
        }
        slot
    }

    fn insert_slot(&self, writer: &mut Writer<T>, slot: Arc<Slot<T>>) {
        if let Some(same) = self.find(slot.lower(), Arc::clone).filter(|found| found.lower() == slot.lower())
        {
            self.remove_slot(writer, &same);
        }
        while self.bytes() + slot.bytes() > self.bytes_max {
            let Some(victim) = writer.victim() else { return };
            self.remove_slot(writer, &victim);
        }
        self.bytes.fetch_add(slot.bytes(), Ordering::Relaxed);
        writer.add(&slot);
        let root = self.root.load();
        let position = root.position(slot.lower());
        let mut slots = root.cell(position).map_or_else(Vec::new, |cell| cell.run.load().to_vec());
        let at = slots.partition_point(|other| other.lower() < slot.lower());
        slots.insert(at, slot);
        self.store(&root, position, slots);
    }

    /// Removes `node`, if it still is in the cache.
    pub fn remove(&self, node: &Arc<Slot<T>>) {
        self.remove_slot(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner), node);
    }

    fn remove_slot(&self, writer: &mut Writer<T>, slot: &Arc<Slot<T>>) {
        let root = self.root.load();
        let position = root.position(slot.lower());
        let mut slots = root.cell(position).map_or_else(Vec::new, |cell| cell.run.load().to_vec());
        let Some(at) = slots.iter().position(|other| Arc::ptr_eq(other, slot)) else { return };
        slots.remove(at);
        self.store(&root, position, slots);
        self.bytes.fetch_sub(slot.bytes(), Ordering::Relaxed);
        writer.remove(slot);
    }

    /// Makes `slots` the nodes of the run cell at `position`.
    fn store(&self, root: &Root<T>, position: CellPosition, slots: Vec<Arc<Slot<T>>>) {
        match root.cell(position) {
            Some(cell) if (1..=LIST_MAX).contains(&slots.len()) => cell.run.store(Arc::new(Run::new(slots))),
            _ => {
                let cells = Run::split(slots).into_iter().map(|run| Arc::new(RunCell::new(run)));
                self.root.store(Arc::new(root.with(position, cells.collect())));
            }
        }
    }
}

impl<T> Writer<T> {
    fn add(&mut self, slot: &Arc<Slot<T>>) {
        slot.member.store(self.members.len(), Ordering::Relaxed);
        self.members.push(Arc::clone(slot));
    }

    fn remove(&mut self, slot: &Arc<Slot<T>>) {
        let member = slot.member.load(Ordering::Relaxed);
        self.members.swap_remove(member);
        if let Some(moved) = self.members.get(member) {
            moved.member.store(member, Ordering::Relaxed);
        }
    }

    /// Draws two nodes at random and returns the one used longer ago; `None` if there are none.
    fn victim(&mut self) -> Option<Arc<Slot<T>>> {
        let draws = [self.draw()?, self.draw()?];
        draws.into_iter().min_by_key(|slot| slot.used.load(Ordering::Relaxed))
    }

    fn draw(&mut self) -> Option<Arc<Slot<T>>> {
        self.random = self.random.wrapping_add(1);
        let at = (u128::from(mix(self.random)) * self.members.len() as u128) >> 64;
        self.members.get(at as usize).cloned()
    }
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
    fn a_full_cache_admits_few_misses_and_others_all() {
        let cache = OrderedCache::<Piece>::new(100 * 100);
        assert!(!cache.admits(10_001), "a node larger than the budget");
        for number in 0..100 {
            assert!(cache.admits(100));
            cache.insert(Piece(key(number)));
        }
        let admitted = (0..64_000).filter(|_| cache.admits(100)).count();
        assert!((800..1200).contains(&admitted), "{admitted} of 64,000");
    }

    #[test]
    fn every_cached_node_is_drawn_equally_often() {
        // Runs of one node between runs of many: most keys are removed again in half of the range.
        let cache = OrderedCache::new(usize::MAX);
        let all: Vec<_> = (0..4096).map(|number| cache.insert(Piece(key(number)))).collect();
        all.iter()
            .take(2048)
            .enumerate()
            .filter(|(at, _)| at % 32 != 0)
            .for_each(|(_, node)| cache.remove(node));
        let mut writer = cache.writer.lock().unwrap();
        let draws = (0..42_240).filter(|_| writer.draw().unwrap().0 < key(2048)).count();
        assert!((1_000..1_560).contains(&draws), "{draws} of 42,240 draws, of 64 nodes of 2,112");
    }

    #[test]
    fn readers_beside_a_writer_find_nodes_at_or_below_their_key() {
        let cache = OrderedCache::new(100 * 500);
        cache.insert(Piece(key(0)));
        let write = || {
            for step in 0..20_000u64 {
                let piece = cache.insert(Piece(key(1 + mix(step) % 2_000)));
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
    fn a_node_larger_than_the_budget_is_not_cached() {
        let cache = OrderedCache::new(99);
        cache.insert(Piece(key(1)));
        assert!(cache.is_empty());
    }
}
