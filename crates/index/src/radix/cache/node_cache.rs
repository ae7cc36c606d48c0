//! The cache of inner nodes: copies by prefix, within a budget of bytes.
//!
//! A search finds the deepest cached node above a key: it tries the prefixes of the key whose lengths are depths of
//! cached nodes. The copies above that node need not be cached. It takes no lock (module `table`). Copies hold only
//! occupied slots (module `stored_copy`), and their memory is allocated in pages (module `page_log`).
//!
//! A prefix has at most one copy. Insertions and removals hold the lock of the cache; changes of a copy that keep its
//! size hold only that of its bucket.

use super::arena::{Arena, Block};
use super::cached_node::{CachedNode, NodeIdentity};
use super::depth_set::DepthSet;
use super::page_log::{PageLog, Store};
use super::start_depths::StartDepths;
use super::stored_copy::{BlockClass, CopyImage, Learned, StoredCopy};
use super::table::{CacheEntry, Inserted, LockedEntry, Table, TableKey};
use super::view_pool::ViewPool;
use crate::radix::inner::{Inner, NodeHeader, RawInner, SlotSearch};
use crate::radix::key::{Step, step_at};
use crate::radix::prefix::PrefixHash;
use crate::radix::slot::{Child, NodeSlot};
use crate::radix::tree::options::CachePolicy;
use farwood_fabric::Remote;
use std::ops::Deref;
use std::sync::atomic::{
    AtomicU8,
    Ordering::{Relaxed, Release},
    fence,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Logarithms of the fewest and of the most words of a page. The cleaner stops insertions for
/// about 0.1 ms if pages have the latter.
const PAGE_WORDS_LOG2: (u32, u32) = (9, 11);
/// Pages of a budget, if pages of this size are neither too small nor too large.
const PAGES: usize = 64;
/// Fewest pages of a cache: one for the table, one for copies, and an empty one.
const PAGES_MIN: usize = 3;
/// Bytes of the budget for each entry of the directory: one segment of the table.
const BYTES_PER_DIRECTORY_ENTRY: usize = 4096;
/// Ticks of the logical time in which as many words are inserted as the cache has. The time has 256 ticks, after which
/// an unused copy appears to be new.
const TICKS_PER_TURNOVER: usize = 64;
/// Prefixes that a search tries in each direction from the depth where it starts.
const PROBES_MAX: usize = 32;
/// Probes of a search after which the depth of its result is recorded.
const PROBES_FEW: usize = 2;

/// The cache of a compute node for one index.
#[derive(Debug)]
pub struct NodeCache {
    store: Store,
    log: Mutex<LockedState>,
    start_depths: StartDepths,
    views: ViewPool,
    /// Logical time.
    now: AtomicU8,
    /// Bytes that are allocated with the cache.
    fixed_bytes: usize,
    bytes_max: usize,
    /// The smallest block of a copy.
    class_min: BlockClass,
    policy: CachePolicy,
}

/// The state under the lock of the cache.
#[derive(Clone, Debug, Default)]
struct LockedState {
    pages: PageLog,
    /// Words that were inserted since the last tick of the logical time.
    inserted: usize,
}

/// What a search of a stored copy yields: the node, the slot of a step, and whether the other slots have probably
/// changed.
#[derive(Clone, Copy)]
struct FoundNode {
    node: NodeIdentity,
    step: Step,
    result: SlotSearch,
    is_lost: bool,
}

impl FoundNode {
    /// Whether the slot leads to another inner node.
    fn leads_on(&self) -> bool {
        matches!(self.result, SlotSearch::Slot(_, slot) if matches!(slot.child(), Child::Inner(_)))
    }
}

impl NodeCache {
    /// A cache of at most `bytes_max` bytes for the index with number `number`. With a budget of less than about
    /// 16 KiB, nothing is cached.
    pub fn new(bytes_max: usize, number: u32) -> Self {
        let (low, high) = PAGE_WORDS_LOG2;
        let page_words_log2 = (bytes_max / PAGES / size_of::<u64>()).max(1).ilog2().clamp(low, high);
        let page_bytes = size_of::<u64>() << page_words_log2;
        let bits = (bytes_max / BYTES_PER_DIRECTORY_ENTRY).max(1).next_power_of_two().ilog2();
        let start_depths = StartDepths::new(bytes_max);
        let other_bytes = size_of::<Self>() + Table::fixed_bytes(bits) + start_depths.bytes_max();
        let page_costs = page_bytes + Arena::fixed_bytes(1) + PageLog::BYTES_PER_PAGE;
        let addressable = (1_usize << 32) >> page_words_log2;
        let pages = (bytes_max.saturating_sub(other_bytes) / page_costs).min(addressable);
        let (pages, bits) = if pages < PAGES_MIN { (0, 0) } else { (pages, bits) };
        let fixed_bytes = size_of::<Self>() + Table::fixed_bytes(bits) + pages * (page_costs - page_bytes);
        let arena = Arena::new(pages, page_words_log2);
        Self {
            store: Store { arena, table: Table::new(bits), depths: DepthSet::new(), number },
            log: Mutex::new(LockedState { pages: PageLog::new(pages), inserted: 0 }),
            start_depths,
            views: ViewPool::default(),
            now: AtomicU8::new(0),
            fixed_bytes: if pages == 0 { 0 } else { fixed_bytes },
            bytes_max,
            class_min: BlockClass::fitting(0),
            policy: CachePolicy::RecentlyUsed,
        }
    }

    /// The cache, with as much memory for each copy as 256 slots take: for trees whose nodes are read and kept with all
    /// slots.
    #[must_use]
    pub fn with_whole_nodes(self) -> Self {
        Self { class_min: BlockClass::WHOLE_NODE, ..self }
    }

    /// The cache, with that eviction policy.
    #[must_use]
    pub fn with_policy(self, policy: CachePolicy) -> Self {
        Self { policy, ..self }
    }

    /// A copy of a cache that no other thread uses: it evicts and finds the same nodes.
    #[must_use]
    pub fn copy(&self) -> Self {
        let Store { arena, table, depths, number } = &self.store;
        Self {
            store: Store { arena: arena.copy(), table: table.copy(), depths: depths.copy(), number: *number },
            log: Mutex::new(self.lock().clone()),
            start_depths: self.start_depths.copy(),
            views: ViewPool::default(),
            now: AtomicU8::new(self.now()),
            ..*self
        }
    }

    /// Bytes in use, and the budget.
    pub fn bytes(&self) -> (usize, usize) {
        (self.fixed_bytes + self.store.arena.bytes() + self.start_depths.bytes(), self.bytes_max)
    }

    fn lock(&self) -> MutexGuard<'_, LockedState> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u8 {
        self.now.load(Relaxed)
    }

    /// The time at which a copy that is found counts as used; `None`: its age is the time since its insertion.
    #[inline]
    fn use_time(&self) -> Option<u8> {
        (self.policy == CachePolicy::RecentlyUsed).then(|| self.now())
    }

    /// Records that a copy was used now.
    fn note_use(&self, locked: &LockedEntry<'_>) {
        if let Some(now) = self.use_time() {
            locked.touch(now);
        }
    }

    /// The deepest cached node above `key` that is found and no deeper than `depth_max`, which is at most the length of
    /// the key; with the slot of the key. `thread` is going to use it.
    #[inline]
    pub fn search(&self, key: &[u8], depth_max: usize, thread: usize) -> Option<Arc<CachedNode>> {
        let FoundNode { node, step, result, is_lost } = self.deepest(key, depth_max)?;
        let mut view = CachedNode::with_result(node, (step, result));
        if is_lost {
            view.mark_outdated();
        }
        Some(self.views.share(thread, view))
    }

    /// As [`search`](Self::search). Begins with the prefix of the length that is most likely; if that leads to nothing,
    /// with the root.
    #[inline]
    fn deepest(&self, key: &[u8], depth_max: usize) -> Option<FoundNode> {
        let recorded = self.start_depths.get(key);
        let start = recorded.unwrap_or_else(|| self.store.depths.commonest()).min(depth_max);
        let (mut found, mut probes) = self.deepest_from(key, start, depth_max);
        if found.is_none() {
            let from_root = self.deepest_from(key, 0, depth_max);
            (found, probes) = (from_root.0, probes + from_root.1);
        }
        if let Some(found) = &found
            && probes > PROBES_FEW
            && depth_max == key.len()
            && recorded != Some(found.node.header.depth())
        {
            self.start_depths.put(key, found.node.header.depth());
        }
        found
    }

    /// Records that a traversal for `key` ended at a node of this depth below all nodes that a search has found. A
    /// search finds it only if the key has no more prefixes than a search tries, or begins there.
    pub fn record_end(&self, key: &[u8], depth: usize) {
        let prefixes = self.store.depths.up_from(0).take_while(|depth| *depth <= key.len());
        if prefixes.take(PROBES_MAX + 1).count() > PROBES_MAX {
            self.start_depths.put(key, depth);
        }
    }

    /// Tries the prefix of `start` bytes, then shorter ones up to the first that is cached, then longer ones as long as
    /// slots lead to them; yields the deepest node, and the number of probes.
    #[inline]
    fn deepest_from(&self, key: &[u8], start: usize, depth_max: usize) -> (Option<FoundNode>, usize) {
        let depths = &self.store.depths;
        let (mut prefix, mut hashed, mut probes) = (PrefixHash::EMPTY, 0, 1);
        let mut found = None;
        if let Some(first) = depths.down_from(start).next() {
            (prefix, hashed) = (extend(prefix, &key[..first]), first);
            found = self.probe(key, first, prefix);
            if found.is_none() && first > 0 {
                (found, probes) = self.deepest_above(key, first - 1);
            }
        }
        let leads_on = |found: &Option<FoundNode>| found.as_ref().is_none_or(FoundNode::leads_on);
        let mut deeper = depths.up_from(start + 1).take(PROBES_MAX);
        while start < depth_max && leads_on(&found) {
            let Some(depth) = deeper.next().filter(|depth| *depth <= depth_max) else { break };
            (prefix, hashed) = (extend(prefix, &key[hashed..depth]), depth);
            found = self.probe(key, depth, prefix).or(found);
            probes += 1;
        }
        (found, probes)
    }

    /// The deepest cached node above `key` that is no deeper than `depth_max`, and the number of probes.
    fn deepest_above(&self, key: &[u8], depth_max: usize) -> (Option<FoundNode>, usize) {
        let mut prefixes = [(0, PrefixHash::EMPTY); PROBES_MAX];
        let mut count = 0;
        for (depth, (other, _)) in self.store.depths.down_from(depth_max).zip(&mut prefixes) {
            (*other, count) = (depth, count + 1);
        }
        let (mut prefix, mut hashed) = (PrefixHash::EMPTY, 0);
        for (depth, hash) in prefixes[..count].iter_mut().rev() {
            prefix = extend(prefix, &key[hashed..*depth]);
            (*hash, hashed) = (prefix, *depth);
        }
        let mut probes = 0;
        let found = prefixes[..count].iter().find_map(|&(depth, prefix)| {
            probes += 1;
            self.probe(key, depth, prefix)
        });
        (found, probes)
    }

    /// Searches for `key` in the copy of the node with the prefix `prefix` of `depth` bytes.
    #[inline]
    fn probe(&self, key: &[u8], depth: usize, prefix: PrefixHash) -> Option<FoundNode> {
        let step = step_at(key, depth);
        self.read(prefix, depth, |node, copy| FoundNode {
            node,
            step,
            result: copy.find(step),
            is_lost: copy.is_lost(),
        })
    }

    /// Reads the copy of the node with the prefix `prefix` of `depth` bytes. `read` may see a copy that is being
    /// changed; then it is called again.
    #[inline]
    fn read<R>(
        &self,
        prefix: PrefixHash,
        depth: usize,
        read: impl Fn(NodeIdentity, StoredCopy<Block<'_>>) -> R,
    ) -> Option<R> {
        let Store { arena, table, number, .. } = &self.store;
        table.search(arena, TableKey(prefix.mixed()), self.use_time(), |copy| {
            let node = copy.identity()?;
            (node.header.depth() == depth && node.prefix(*number) == prefix).then(|| read(node, copy))
        })
    }

    /// Copies of all cached nodes above `key`, the highest first. That of the root has only the slot of the key.
    pub fn path(&self, key: &[u8]) -> Vec<Arc<CachedNode>> {
        let (mut prefix, mut hashed) = (PrefixHash::EMPTY, 0);
        let depths = self.store.depths.up_from(0).take_while(|depth| *depth <= key.len()).take(PROBES_MAX);
        let copies = depths.filter_map(|depth| {
            (prefix, hashed) = (extend(prefix, &key[hashed..depth]), depth);
            let copy = if depth == 0 {
                let FoundNode { node, step, result, .. } = self.probe(key, 0, prefix)?;
                CachedNode::with_result(node, (step, result))
            } else {
                let (node, slots) = self.read(prefix, depth, |node, copy| (node, copy.slots()))?;
                CachedNode::with_slots(node, slots)
            };
            Some(Arc::new(copy))
        });
        copies.collect()
    }

    /// Inserts a node that was just read, or updates the copy of it.
    pub fn put<B: Deref<Target = [u8]>>(&self, at: Remote<RawInner>, node: &Inner<B>) {
        let is_kept = self.policy == CachePolicy::RecentlyUsed || node.header().depth() > 0;
        if self.store.arena.pages_max() == 0 || !is_kept {
            return;
        }
        let node = NodeCopy::of(&self.store, at, node);
        if !self.refresh(&node) {
            self.insert(&mut self.lock(), &node);
        }
    }

    /// Overwrites a copy of the same node, if the new copy fits.
    fn refresh(&self, NodeCopy { identity, key, image }: &NodeCopy) -> bool {
        let Some((locked, copy)) = self.lock_copy_of(*key, *identity) else { return false };
        let fits = image.class() <= copy.class();
        if fits {
            image.store(copy.0, copy.class());
            self.note_use(&locked);
        }
        fits
    }

    /// Inserts a copy, in place of that of the same prefix.
    fn insert(&self, state: &mut LockedState, NodeCopy { key, image, identity }: &NodeCopy) {
        let (store, now) = (&self.store, self.now());
        let is_known = self.lock_prefix(*key).is_some();
        if !is_known && !state.pages.make_room(store, *key, now) {
            return;
        }
        let class = image.class().max(self.class_min);
        let Some(at) = state.pages.allocate(store, class, now) else { return };
        self.advance(state, class.words());
        self.write(image, at, class);
        if let Some(locked) = self.lock_prefix(*key) {
            return self.replace(state, locked, at);
        }
        match store.table.insert(&store.arena, *key, CacheEntry::new(*key, at, now)) {
            Inserted::Done => store.depths.add(identity.header.depth()),
            Inserted::Full => state.pages.free(&store.arena, at, class),
        }
    }

    /// Writes a copy to a new block, which clients that read a copy that was there before may still read.
    fn write(&self, image: &CopyImage, at: u32, class: BlockClass) {
        fence(Release);
        let block = self.store.arena.block(at).expect("the block is allocated");
        image.store(block, class);
    }

    /// Replaces a copy by that at word `at`.
    fn replace(&self, state: &mut LockedState, locked: LockedEntry<'_>, at: u32) {
        let arena = &self.store.arena;
        let before = locked.get().copy();
        let class = StoredCopy(arena.block(before).expect("an entry leads to an allocated page")).class();
        locked.set(locked.get().moved_to(at));
        self.note_use(&locked);
        drop(locked);
        state.pages.free(arena, before, class);
    }

    /// Advances the logical time after `words` words were inserted.
    fn advance(&self, state: &mut LockedState, words: usize) {
        let arena = &self.store.arena;
        state.inserted += words * TICKS_PER_TURNOVER;
        if state.inserted >= arena.pages_max() * arena.page_words() {
            state.inserted = 0;
            self.now.fetch_add(1, Relaxed);
        }
    }

    /// Records that slot `number` of a node now holds `slot`.
    pub fn learn(&self, node: &CachedNode, number: usize, slot: NodeSlot) {
        let identity = node.identity();
        let key = self.store.key(identity);
        let Some((locked, copy)) = self.lock_copy_of(key, identity) else { return };
        if copy.overwrite(number, slot).is_some() {
            return;
        }
        let mut image = CopyImage::of_stored(copy);
        if image.learn(number, slot) == Learned::Refused {
            return;
        }
        if image.class() <= copy.class() {
            return image.store(copy.0, copy.class());
        }
        drop(locked);
        self.learn_in_larger_block(identity, number, slot, &image);
    }

    /// Records that slot `number` of a node now holds `slot`, if the copy needs a larger block: that of `image`.
    fn learn_in_larger_block(
        &self,
        identity: NodeIdentity,
        number: usize,
        slot: NodeSlot,
        image: &CopyImage,
    ) {
        let (store, key) = (&self.store, self.store.key(identity));
        let mut state = self.lock();
        let Some(at) = state.pages.allocate(store, image.class(), self.now()) else { return };
        let class = image.class();
        self.advance(&mut state, class.words());
        // Another client may have changed the copy, or evicted it.
        let Some((locked, copy)) = self.lock_copy_of(key, identity) else {
            return state.pages.free(&store.arena, at, class);
        };
        let mut image = CopyImage::of_stored(copy);
        if image.learn(number, slot) == Learned::Refused || image.class() != class {
            drop(locked);
            return state.pages.free(&store.arena, at, class);
        }
        self.write(&image, at, class);
        self.replace(&mut state, locked, at);
    }

    /// Records that a node has grown in place, and now has this header.
    pub fn grow(&self, node: &CachedNode, header: NodeHeader) {
        let identity = node.identity();
        if let Some((_locked, copy)) = self.lock_copy_of(self.store.key(identity), identity) {
            copy.grow(header);
        }
    }

    /// Records that an insert that followed the copy of a node lost its slot to another client.
    pub fn mark_lost(&self, node: &CachedNode) {
        let identity = node.identity();
        if let Some((_locked, copy)) = self.lock_copy_of(self.store.key(identity), identity) {
            copy.mark_lost();
        }
    }

    /// Evicts the copy of a node.
    pub fn remove(&self, node: &CachedNode) {
        let (key, store) = (self.store.key(node.identity()), &self.store);
        let is_copy = |_, known: NodeIdentity| known.at == node.at && store.key(known) == key;
        let mut state = self.lock();
        if let Some(locked) = store.table.lock(&store.arena, key, is_copy) {
            state.pages.remove(store, key, locked);
        }
    }

    /// Locks the copy of a node.
    fn lock_copy_of(
        &self,
        key: TableKey,
        identity: NodeIdentity,
    ) -> Option<(LockedEntry<'_>, StoredCopy<Block<'_>>)> {
        let Store { arena, table, .. } = &self.store;
        let locked = table.lock(arena, key, |_, known| known.is_same_node(identity))?;
        let copy = StoredCopy(arena.block(locked.get().copy())?);
        Some((locked, copy))
    }

    /// Locks the copy of the node with a prefix.
    fn lock_prefix(&self, key: TableKey) -> Option<LockedEntry<'_>> {
        let store = &self.store;
        store.table.lock(&store.arena, key, |_, known| store.key(known) == key)
    }
}

/// A copy that is to be inserted.
struct NodeCopy {
    identity: NodeIdentity,
    key: TableKey,
    image: CopyImage,
}

impl NodeCopy {
    fn of<B: Deref<Target = [u8]>>(store: &Store, at: Remote<RawInner>, node: &Inner<B>) -> Self {
        let identity = NodeIdentity { at, header: node.header(), hash: node.hash() };
        Self { identity, key: store.key(identity), image: CopyImage::of_node(at, node) }
    }
}

/// The hash of a prefix with `bytes` appended.
#[inline]
fn extend(prefix: PrefixHash, bytes: &[u8]) -> PrefixHash {
    bytes.iter().fold(prefix, |prefix, &byte| prefix.then(byte))
}

#[cfg(test)]
mod tests;
