//! The allocation of a node cache's memory: pages of copies, which are filled one after the other and then cleaned, and
//! pages of table segments.
//!
//! A copy that is replaced, removed or moved leaves a gap in its page. The *cleaner* moves the copies of a few pages
//! together, so that a page becomes empty. If the budget is used up, the cleaner first evicts the least recently used
//! copies in these pages. So copies of any size use the same memory, and the pages are the sample from which copies are
//! evicted. One page is kept empty for the next cleaning.

use super::arena::Arena;
use super::cached_node::NodeIdentity;
use super::depth_set::DepthSet;
use super::stored_copy::{BlockClass, CopyWords, StoredCopy, WORDS_MAX};
use super::table::{CacheEntry, LockedEntry, SEGMENT_WORDS, Table, TableKey};
use std::sync::atomic::{Ordering::Release, fence};

/// Pages of which those with the fewest words in use are cleaned.
const SAMPLE: usize = 8;
/// Pages that are cleaned together.
const CLEANED: usize = 4;
/// Attempts to allocate a block.
const TRIES: usize = 4;
/// Part of the cleaned pages that is free afterwards, as a divisor.
const FREED_SHARE: usize = 4;
/// Part of the pages of copies that may be gaps while there is memory for new pages, as a divisor.
const GAPS_SHARE: usize = 6;

/// The table and the memory of a cache.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) arena: Arena,
    pub(super) table: Table,
    pub(super) depths: DepthSet,
    /// Low bits of the index number.
    pub(super) number: u32,
}

impl Store {
    /// The hash of the prefix of a node, as the table uses it.
    #[inline]
    pub(super) fn key(&self, node: NodeIdentity) -> TableKey {
        TableKey(node.prefix(self.number).mixed())
    }

    fn key_of(&self, entry: CacheEntry) -> Option<TableKey> {
        let node = StoredCopy(self.arena.block(entry.copy())?).identity()?;
        Some(self.key(node))
    }

    /// Locks the entry of the copy at word `copy`.
    pub(super) fn lock_copy(&self, key: TableKey, copy: u32) -> Option<LockedEntry<'_>> {
        self.table.lock(&self.arena, key, |entry, _| entry.copy() == copy)
    }
}

/// The use of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageUse {
    Table,
    /// `filled`: words up to the end of the last copy. `live`: words of copies that are in the table.
    Copies {
        filled: usize,
        live: usize,
    },
}

impl PageUse {
    const EMPTY: Self = Self::Copies { filled: 0, live: 0 };
}

/// A copy in the table.
#[derive(Clone, Copy, Debug)]
struct LiveCopy {
    age: u8,
    key: TableKey,
    at: u32,
    class: BlockClass,
}

/// Whether cleaning a page evicts copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleaning {
    Compacts,
    Evicts,
}

/// The pages of a cache.
#[derive(Clone, Debug, Default)]
pub(super) struct PageLog {
    pages: Vec<PageUse>,
    /// The page that is being filled.
    head: Option<u32>,
    /// Empty pages. One of them is for the cleaner.
    empty: Vec<u32>,
    /// Segments that are not part of the table.
    segments: Vec<u32>,
    /// Pages of copies, and the words in them that are part of a copy.
    copy_pages: usize,
    live: usize,
    random: Random,
    /// Memory for the cleaner.
    found: Vec<LiveCopy>,
}

impl PageLog {
    /// Bytes that a log needs for each page.
    pub(super) const BYTES_PER_PAGE: usize = size_of::<PageUse>();

    /// A log of at most `pages` pages.
    pub(super) fn new(pages: usize) -> Self {
        Self { pages: Vec::with_capacity(pages), ..Self::default() }
    }

    /// Allocates a block. `None`: there is no memory.
    pub(super) fn allocate(&mut self, store: &Store, class: BlockClass, now: u8) -> Option<u32> {
        for _ in 0..TRIES {
            if let Some(at) = self.append(&store.arena, class) {
                return Some(at);
            }
            self.head = None;
            let has_gaps = self.gaps(&store.arena) * GAPS_SHARE > self.copy_pages * store.arena.page_words();
            if has_gaps && self.clean(store, now, Cleaning::Compacts) {
                continue;
            }
            self.head = self.empty_page(&store.arena);
            if self.head.is_none() && !self.clean(store, now, Cleaning::Evicts) {
                return None;
            }
        }
        self.append(&store.arena, class)
    }

    /// Words of blocks that are part of copies.
    #[cfg(test)]
    pub(super) fn live_words(&self) -> usize {
        self.live
    }

    /// Words of the pages of copies that are in no copy.
    fn gaps(&self, arena: &Arena) -> usize {
        ((self.copy_pages - self.empty.len()) * arena.page_words()).saturating_sub(self.live)
    }

    /// Allocates a block at the head.
    fn append(&mut self, arena: &Arena, class: BlockClass) -> Option<u32> {
        let head = self.head?;
        let PageUse::Copies { filled, live } = &mut self.pages[head as usize] else {
            unreachable!("the head is a page of copies")
        };
        let at = *filled;
        if at + class.words() > arena.page_words() {
            return None;
        }
        (*filled, *live) = (at + class.words(), *live + class.words());
        self.live += class.words();
        let at = arena.first_word_of_page(head) + at as u32;
        // A client that reads a copy that was here before notices that the word has changed.
        fence(Release);
        arena.block(at)?.set_word(0, class.word());
        Some(at)
    }

    /// Records that a block is no longer part of a copy.
    pub(super) fn free(&mut self, arena: &Arena, at: u32, class: BlockClass) {
        if let PageUse::Copies { live, .. } = &mut self.pages[arena.page_of(at) as usize] {
            *live -= class.words();
            self.live -= class.words();
        }
    }

    /// An empty page for copies, if another one is left for the cleaner.
    fn empty_page(&mut self, arena: &Arena) -> Option<u32> {
        if self.empty.len() > 1 { self.empty.pop() } else { self.new_page(arena, PageUse::EMPTY) }
    }

    /// Allocates a page, if another one is left for the cleaner.
    fn new_page(&mut self, arena: &Arena, use_: PageUse) -> Option<u32> {
        let left = arena.pages_max() - arena.pages_allocated();
        (left > usize::from(self.empty.is_empty())).then(|| self.add_page(arena, use_))?
    }

    fn add_page(&mut self, arena: &Arena, use_: PageUse) -> Option<u32> {
        let page = arena.allocate()?;
        self.pages.push(use_);
        self.copy_pages += usize::from(use_ != PageUse::Table);
        Some(page)
    }

    /// Moves the copies of a few pages together, so that the last page with copies, which becomes the head, has room,
    /// and a page is empty. `false`: no pages can be cleaned.
    fn clean(&mut self, store: &Store, now: u8, cleaning: Cleaning) -> bool {
        let arena = &store.arena;
        let pages = self.pages_to_clean(arena);
        let count = pages.iter().flatten().count();
        self.found.clear();
        pages.iter().flatten().for_each(|page| self.find_copies(store, *page, now));
        let longest = self.found.iter().map(|copy| copy.class.words()).max().unwrap_or(1);
        let freed = (count * arena.page_words() / FREED_SHARE).max(WORDS_MAX);
        let kept_max = (count * (arena.page_words() + 1 - longest)).saturating_sub(freed);
        let live: usize = self.found.iter().map(|copy| copy.class.words()).sum();
        if count == 0 || cleaning == Cleaning::Compacts && live > kept_max {
            return false;
        }
        if self.empty.is_empty()
            && let Some(page) = self.add_page(arena, PageUse::EMPTY)
        {
            self.empty.push(page);
        }
        self.head = self.empty.pop();
        self.evict_oldest(store, kept_max);
        let mut copies = std::mem::take(&mut self.found);
        for page in pages.into_iter().flatten() {
            copies
                .iter()
                .filter(|copy| arena.page_of(copy.at) == page)
                .for_each(|copy| self.relocate(store, *copy));
            copies.retain(|copy| arena.page_of(copy.at) != page);
            debug_assert!(
                matches!(self.pages[page as usize], PageUse::Copies { live: 0, .. }),
                "it has no copies"
            );
            self.pages[page as usize] = PageUse::EMPTY;
            self.empty.push(page);
        }
        self.found = copies;
        true
    }

    /// The pages with the fewest words in use, of a random sample.
    fn pages_to_clean(&mut self, arena: &Arena) -> [Option<u32>; CLEANED] {
        let count = arena.pages_allocated();
        let first = self.random.below(count.max(1));
        let pages = (0..count).map(|number| ((first + number) % count) as u32);
        let filled = pages.filter_map(|page| match self.pages[page as usize] {
            PageUse::Copies { filled, live } if filled > 0 && self.head != Some(page) => Some((live, page)),
            _ => None,
        });
        let mut sample = [None; SAMPLE];
        sample.iter_mut().zip(filled).for_each(|(in_sample, page)| *in_sample = Some(page));
        sample.sort_unstable_by_key(|page| page.map_or(usize::MAX, |(live, _)| live));
        std::array::from_fn(|number| sample[number].map(|(_, page)| page))
    }

    /// Finds the copies of a page that are in the table.
    fn find_copies(&mut self, store: &Store, page: u32, now: u8) {
        let PageUse::Copies { filled, .. } = self.pages[page as usize] else { return };
        let first = store.arena.first_word_of_page(page);
        let mut next = 0;
        while next < filled {
            let at = first + next as u32;
            let copy = StoredCopy(store.arena.block(at).expect("the page is allocated"));
            let class = copy.class();
            next += class.words();
            let Some(key) = copy.identity().map(|node| store.key(node)) else { continue };
            if let Some(locked) = store.lock_copy(key, at) {
                self.found.push(LiveCopy { age: locked.get().age(now), key, at, class });
            }
        }
    }

    /// Evicts the least recently used of the copies that were found, until the others have at most `words_max` words.
    fn evict_oldest(&mut self, store: &Store, words_max: usize) {
        let mut words: usize = self.found.iter().map(|copy| copy.class.words()).sum();
        if words <= words_max {
            return;
        }
        self.found.sort_by_key(|copy| copy.age);
        while words > words_max
            && let Some(oldest) = self.found.pop()
        {
            words -= oldest.class.words();
            if let Some(locked) = store.lock_copy(oldest.key, oldest.at) {
                self.remove(store, oldest.key, locked);
            }
        }
    }

    /// Removes a copy from the table.
    pub(super) fn remove(&mut self, store: &Store, key: TableKey, locked: LockedEntry<'_>) {
        let at = locked.get().copy();
        let copy = StoredCopy(store.arena.block(at).expect("an entry leads to an allocated page"));
        let (class, depth) = (copy.class(), copy.header().depth());
        store.table.remove(&store.arena, key, &locked);
        drop(locked);
        store.depths.subtract(depth);
        self.free(&store.arena, at, class);
    }

    /// Moves a copy to the head.
    fn relocate(&mut self, store: &Store, LiveCopy { key, at, class, .. }: LiveCopy) {
        let Some(locked) = store.lock_copy(key, at) else { return };
        let to = self.append(&store.arena, class).or_else(|| {
            self.head = self.empty.pop();
            self.append(&store.arena, class)
        });
        let Some(to) = to else { return self.remove(store, key, locked) };
        let block = |at| store.arena.block(at).expect("an entry leads to an allocated page");
        let (from, target) = (block(at), block(to));
        (0..class.words()).for_each(|number| target.set_word(number, CopyWords::word(&from, number)));
        locked.set(locked.get().moved_to(to));
        drop(locked);
        self.free(&store.arena, at, class);
    }

    /// Makes room in the table for an entry: splits a segment, or evicts one of the copies whose entries are in the
    /// same buckets.
    pub(super) fn make_room(&mut self, store: &Store, key: TableKey, now: u8) -> bool {
        let Store { arena, table, .. } = store;
        if table.has_room(arena, key) {
            return true;
        }
        if table.can_split(key)
            && let Some(segment) = self.segment(store, now)
        {
            let mut dropped = Vec::new();
            table.split(arena, key, segment, |entry| store.key_of(entry), |entry| dropped.push(entry));
            for entry in dropped {
                self.forget(store, entry);
            }
        }
        if !table.has_room(arena, key)
            && let Some(oldest) = table.oldest(arena, key, now)
            && let Some(other) = store.key_of(oldest)
            && let Some(locked) = store.lock_copy(other, oldest.copy())
        {
            self.remove(store, other, locked);
        }
        table.has_room(arena, key)
    }

    /// Records that a copy is no longer in the table.
    fn forget(&mut self, store: &Store, entry: CacheEntry) {
        let copy = StoredCopy(store.arena.block(entry.copy()).expect("an entry leads to an allocated page"));
        store.depths.subtract(copy.header().depth());
        self.free(&store.arena, entry.copy(), copy.class());
    }

    /// Memory for a segment: zeros. If no page can be allocated, a page of copies becomes one of segments if the copies
    /// leave enough gaps, because the table, not the memory, limits their number then.
    fn segment(&mut self, store: &Store, now: u8) -> Option<u32> {
        let arena = &store.arena;
        if self.segments.is_empty() {
            let page = match self.new_page(arena, PageUse::Table) {
                Some(page) => page,
                None => self.convert_page(store, now)?,
            };
            let first = arena.first_word_of_page(page);
            let words = first..first + arena.page_words() as u32;
            self.segments.extend(words.step_by(SEGMENT_WORDS as usize).rev());
        }
        self.segments.pop()
    }

    /// Evicts the copies of a page, and makes it a page for segments.
    fn convert_page(&mut self, store: &Store, now: u8) -> Option<u32> {
        let arena = &store.arena;
        let has_gaps = self.gaps(arena) * FREED_SHARE > self.copy_pages * arena.page_words();
        let page = self.pages_to_clean(arena).into_iter().next().flatten().filter(|_| has_gaps)?;
        self.found.clear();
        self.find_copies(store, page, now);
        self.evict_oldest(store, 0);
        let block = arena.block(arena.first_word_of_page(page))?;
        fence(Release);
        (0..arena.page_words()).for_each(|number| block.set_word(number, 0));
        self.pages[page as usize] = PageUse::Table;
        self.copy_pages -= 1;
        Some(page)
    }
}

/// A random number generator (xorshift).
#[derive(Clone, Debug)]
struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }
}

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % count
    }
}
