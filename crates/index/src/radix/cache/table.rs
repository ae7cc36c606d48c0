//! The table of a node cache: for the hash of a prefix, the memory with the copy of the node of this prefix.
//!
//! # Growth
//!
//! The table consists of segments of 64 buckets. A directory names the segment of every hash, by its first bits
//! (extendible hashing). When a segment is full, it is split into two, so that no insertion copies more than the
//! entries of one segment, and the table is as large as the number of copies requires.
//!
//! # Concurrency
//!
//! The caller of a function that adds, moves or removes entries holds the lock of the cache. A bucket has a version,
//! which is odd while one client changes its entries or the copies to which they point. A search takes no lock and
//! writes nothing: it compares the version before and after it has read the copy, and tries again if a change
//! interfered (a seqlock). So it may read memory that is used for another copy, and discards what it has read.
//!
//! ```text
//! bucket: one line           word 0     version 48 | entries whose bucket this is and which are in the next ones 16
//!                            word 1..8  entries
//! entry                      time of the last use 8 | bits of the hash 24 | number of the first word of the copy 32
//! entry of the directory     number of the first word of the segment, a multiple of 512 | 1 + its bits of the hash
//! ```

use super::arena::{Arena, Block, LINE_WORDS, Line};
use super::cached_node::NodeIdentity;
use super::stored_copy::StoredCopy;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Buckets of a segment.
const BUCKETS: u32 = 64;
/// Words of a segment.
pub(super) const SEGMENT_WORDS: u32 = BUCKETS * LINE_WORDS as u32;
/// Buckets in which an entry may be: the one that its hash names, and the next ones.
const WINDOW: u32 = 4;
/// Spins of a search before it gives up: the copy counts as absent.
const SPINS_MAX: u32 = 64;

const LOCKED: u64 = 1 << 16;
const DISPLACED: u64 = LOCKED - 1;
const TAG_SHIFT: u32 = 32;
const TAG: u64 = 0xFF_FFFF << TAG_SHIFT;
const USED_SHIFT: u32 = 56;

/// The hash of a prefix, as the table uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableKey(pub(super) u64);

impl TableKey {
    fn tag(self) -> u64 {
        self.0 << TAG_SHIFT & TAG
    }

    fn bucket(self, step: u32) -> u32 {
        ((self.0 >> 24) as u32 + step) % BUCKETS
    }
}

/// An entry of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheEntry(u64);

impl CacheEntry {
    pub(super) fn new(key: TableKey, copy: u32, used: u8) -> Self {
        Self(u64::from(used) << USED_SHIFT | key.tag() | u64::from(copy))
    }

    /// Number of the first word of the copy; 0 in a bucket's unused entry.
    pub(super) fn copy(self) -> u32 {
        self.0 as u32
    }

    fn is_of(self, key: TableKey) -> bool {
        self.0 & TAG == key.tag() && self.copy() != 0
    }

    /// Time since the last use.
    pub(super) fn age(self, now: u8) -> u8 {
        now.wrapping_sub((self.0 >> USED_SHIFT) as u8)
    }

    fn used_at(self, now: u8) -> Self {
        Self(self.0 & !(0xFF << USED_SHIFT) | u64::from(now) << USED_SHIFT)
    }

    /// The entry with the copy at another place.
    pub(super) fn moved_to(self, copy: u32) -> Self {
        Self(self.0 & !u64::from(u32::MAX) | u64::from(copy))
    }
}

/// A bucket whose version is odd, which excludes other writers, and makes searches try again.
pub(super) struct LockedBucket<'a>(&'a Line);

impl<'a> LockedBucket<'a> {
    fn lock(line: &'a Line) -> Self {
        let state = &line.0[0];
        loop {
            let seen = state.load(Relaxed);
            let locks = || state.compare_exchange_weak(seen, seen + LOCKED, Acquire, Relaxed).is_ok();
            if seen & LOCKED == 0 && locks() {
                // The changes that follow are not visible before the odd version.
                fence(Release);
                return Self(line);
            }
            // The holder of the lock copies at most one segment, and waits for nothing.
            std::hint::spin_loop();
        }
    }

    fn entry(&self, number: usize) -> CacheEntry {
        CacheEntry(self.0.0[number].load(Relaxed))
    }

    fn set(&self, number: usize, entry: CacheEntry) {
        self.0.0[number].store(entry.0, Relaxed);
    }

    fn clear(&self, number: usize) {
        self.0.0[number].store(0, Relaxed);
    }
}

impl Drop for LockedBucket<'_> {
    fn drop(&mut self) {
        self.0.0[0].fetch_add(LOCKED, Release);
    }
}

/// An entry of a locked bucket.
pub(super) struct LockedEntry<'a> {
    bucket: LockedBucket<'a>,
    number: usize,
    /// Number of buckets between the bucket that the hash names and this one.
    step: u32,
}

impl LockedEntry<'_> {
    pub(super) fn get(&self) -> CacheEntry {
        self.bucket.entry(self.number)
    }

    pub(super) fn set(&self, entry: CacheEntry) {
        self.bucket.set(self.number, entry);
    }

    pub(super) fn touch(&self, now: u8) {
        self.set(self.get().used_at(now));
    }
}

/// Whether an entry was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    Done,
    /// The buckets in which the entry may be are full.
    Full,
}

/// The directory of the segments.
#[derive(Debug)]
pub(super) struct Table {
    directory: Box<[AtomicU32]>,
}

impl Table {
    /// A table with a directory of 2^`bits` entries.
    pub(super) fn new(bits: u32) -> Self {
        Self { directory: (0..1_u32 << bits).map(|_| AtomicU32::new(0)).collect() }
    }

    /// A copy of the table, whose segments are in a copy of the arena.
    pub(super) fn copy(&self) -> Self {
        Self { directory: self.directory.iter().map(|entry| AtomicU32::new(entry.load(Relaxed))).collect() }
    }

    /// Bytes of a directory of 2^`bits` entries.
    pub(super) const fn fixed_bytes(bits: u32) -> usize {
        size_of::<AtomicU32>() << bits
    }

    fn bits(&self) -> u32 {
        self.directory.len().ilog2()
    }

    /// The number of the directory entry of a hash.
    #[inline]
    fn number(&self, key: TableKey) -> usize {
        // A shift by 64 bits is not defined; a directory of one entry has number 0.
        (key.0 >> 1 >> (63 - self.bits())) as usize & (self.directory.len() - 1)
    }

    /// Number of the first word of the segment of a hash.
    #[inline]
    fn segment(&self, key: TableKey) -> Option<u32> {
        let entry = self.directory[self.number(key)].load(Acquire);
        (entry != 0).then_some(entry & !(SEGMENT_WORDS - 1))
    }

    fn bucket(arena: &Arena, segment: u32, bucket: u32) -> &Line {
        arena.line(segment + bucket * LINE_WORDS as u32).expect("the page of a segment is allocated")
    }

    /// Calls `read` with the copies whose hashes may be `key` until it yields a value, and records a use at time
    /// `use_time`. `read` may see a copy that another client changes; then it is called again.
    #[inline]
    pub(super) fn search<R>(
        &self,
        arena: &Arena,
        key: TableKey,
        use_time: Option<u8>,
        read: impl Fn(StoredCopy<Block<'_>>) -> Option<R>,
    ) -> Option<R> {
        let segment = self.segment(key)?;
        for step in 0..WINDOW {
            let line = Self::bucket(arena, segment, key.bucket(step));
            let (found, displaced) = search_bucket(arena, line, key, &read)?;
            if let Some((number, entry, value)) = found {
                let used = use_time.map_or(entry, |now| entry.used_at(now));
                if used != entry {
                    // If the entry has changed, the use is not recorded.
                    let _ = line.0[number].compare_exchange(entry.0, used.0, Relaxed, Relaxed);
                }
                return Some(value);
            }
            if step == 0 && displaced == 0 {
                return None;
            }
        }
        None
    }

    /// Locks the entry with a copy of a node for which `is_wanted` holds.
    pub(super) fn lock<'a>(
        &self,
        arena: &'a Arena,
        key: TableKey,
        is_wanted: impl Fn(CacheEntry, NodeIdentity) -> bool,
    ) -> Option<LockedEntry<'a>> {
        let segment = self.segment(key)?;
        for step in 0..WINDOW {
            let bucket = LockedBucket::lock(Self::bucket(arena, segment, key.bucket(step)));
            for number in 1..LINE_WORDS {
                let entry = bucket.entry(number);
                let node = || StoredCopy(arena.block(entry.copy())?).identity();
                if entry.is_of(key) && node().is_some_and(|node| is_wanted(entry, node)) {
                    return Some(LockedEntry { bucket, number, step });
                }
            }
        }
        None
    }

    /// Adds an entry.
    pub(super) fn insert(&self, arena: &Arena, key: TableKey, entry: CacheEntry) -> Inserted {
        let Some(segment) = self.segment(key) else { return Inserted::Full };
        insert(arena, segment, key, entry)
    }

    /// Removes an entry.
    pub(super) fn remove(&self, arena: &Arena, key: TableKey, locked: &LockedEntry<'_>) {
        locked.bucket.clear(locked.number);
        if locked.step > 0 {
            let segment = self.segment(key).expect("an entry is in a segment");
            let before = Self::bucket(arena, segment, key.bucket(0)).0[0].fetch_sub(1, Relaxed);
            debug_assert!(before & DISPLACED > 0, "the bucket counts its displaced entries");
        }
    }

    /// Whether an entry can be added.
    pub(super) fn has_room(&self, arena: &Arena, key: TableKey) -> bool {
        let Some(segment) = self.segment(key) else { return false };
        let mut buckets = (0..WINDOW).map(|step| Self::bucket(arena, segment, key.bucket(step)));
        buckets.any(|line| line.0[1..].iter().any(|entry| entry.load(Relaxed) == 0))
    }

    /// The least recently used of the entries in the buckets of a hash.
    pub(super) fn oldest(&self, arena: &Arena, key: TableKey, now: u8) -> Option<CacheEntry> {
        let segment = self.segment(key)?;
        let buckets = (0..WINDOW).map(|step| Self::bucket(arena, segment, key.bucket(step)));
        let entries =
            buckets.flat_map(|line| line.0[1..].iter().map(|entry| CacheEntry(entry.load(Relaxed))));
        entries.filter(|entry| entry.copy() != 0).max_by_key(|entry| entry.age(now))
    }

    /// Whether the segment of a hash can be split, or does not exist yet.
    pub(super) fn can_split(&self, key: TableKey) -> bool {
        self.directory[self.number(key)].load(Relaxed) & (SEGMENT_WORDS - 1) <= self.bits()
    }

    /// Splits the segment of a hash, with a new segment of zeros, or adds the first segment. `key_of` yields the hash
    /// of the copy of an entry. Calls `dropped` with the entries for which there is no room.
    pub(super) fn split(
        &self,
        arena: &Arena,
        key: TableKey,
        new: u32,
        key_of: impl Fn(CacheEntry) -> Option<TableKey>,
        mut dropped: impl FnMut(CacheEntry),
    ) {
        let number = self.number(key);
        let entry = self.directory[number].load(Relaxed);
        if entry == 0 {
            self.directory.iter().for_each(|entry| entry.store(new | 1, Release));
            return;
        }
        let (segment, bits) = (entry & !(SEGMENT_WORDS - 1), (entry & (SEGMENT_WORDS - 1)) - 1);
        let half = 1_usize << (self.bits() - bits - 1);
        let first = number & !(2 * half - 1);
        let buckets: Vec<_> =
            (0..BUCKETS).map(|bucket| LockedBucket::lock(Self::bucket(arena, segment, bucket))).collect();
        let mut entries = Vec::with_capacity(buckets.len() * LINE_WORDS);
        for bucket in &buckets {
            entries
                .extend((1..LINE_WORDS).map(|number| bucket.entry(number)).filter(|entry| entry.copy() != 0));
            (1..LINE_WORDS).for_each(|number| bucket.clear(number));
            bucket.0.0[0].fetch_and(!DISPLACED, Relaxed);
        }
        for entry in entries {
            let to = key_of(entry).map(|key| (key, self.number(key) & half == 0));
            let placed = match to {
                Some((key, true)) => insert_locked(arena, segment, key, entry),
                Some((key, false)) => insert(arena, new, key, entry),
                None => Inserted::Full,
            };
            if placed == Inserted::Full {
                dropped(entry);
            }
        }
        self.directory[first..first + half]
            .iter()
            .for_each(|entry| entry.store(segment | (bits + 2), Release));
        self.directory[first + half..first + 2 * half]
            .iter()
            .for_each(|entry| entry.store(new | (bits + 2), Release));
        drop(buckets);
    }
}

/// Adds an entry to a segment.
fn insert(arena: &Arena, segment: u32, key: TableKey, entry: CacheEntry) -> Inserted {
    for step in 0..WINDOW {
        let bucket = LockedBucket::lock(Table::bucket(arena, segment, key.bucket(step)));
        if let Some(number) = (1..LINE_WORDS).find(|&number| bucket.entry(number).copy() == 0) {
            bucket.set(number, entry);
            drop(bucket);
            count_displaced(arena, segment, key, step);
            return Inserted::Done;
        }
    }
    Inserted::Full
}

/// Adds an entry to a segment whose buckets the caller has locked.
fn insert_locked(arena: &Arena, segment: u32, key: TableKey, entry: CacheEntry) -> Inserted {
    for step in 0..WINDOW {
        let line = Table::bucket(arena, segment, key.bucket(step));
        if let Some(free) = line.0[1..].iter().find(|free| free.load(Relaxed) == 0) {
            free.store(entry.0, Relaxed);
            count_displaced(arena, segment, key, step);
            return Inserted::Done;
        }
    }
    Inserted::Full
}

/// Counts an entry that is `step` buckets after the one that its hash names.
fn count_displaced(arena: &Arena, segment: u32, key: TableKey, step: u32) {
    if step > 0 {
        Table::bucket(arena, segment, key.bucket(0)).0[0].fetch_add(1, Relaxed);
    }
}

/// The number of the entry and the entry for which a search of a bucket yielded a value.
type FoundEntry<R> = Option<(usize, CacheEntry, R)>;

/// Searches a bucket; yields what it has found, and the number of displaced entries. `None`: other clients change the
/// bucket for a long time.
#[inline]
fn search_bucket<R>(
    arena: &Arena,
    line: &Line,
    key: TableKey,
    read: impl Fn(StoredCopy<Block<'_>>) -> Option<R>,
) -> Option<(FoundEntry<R>, u64)> {
    for _ in 0..SPINS_MAX {
        let state = line.0[0].load(Acquire);
        if state & LOCKED != 0 {
            std::hint::spin_loop();
            continue;
        }
        let found = (1..LINE_WORDS).find_map(|number| {
            let entry = CacheEntry(line.0[number].load(Relaxed));
            if !entry.is_of(key) {
                return None;
            }
            read(StoredCopy(arena.block(entry.copy())?)).map(|value| (number, entry, value))
        });
        fence(Acquire);
        if (line.0[0].load(Relaxed) ^ state) & !DISPLACED == 0 {
            return Some((found, state & DISPLACED));
        }
    }
    None
}
