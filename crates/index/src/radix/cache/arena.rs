//! The memory of a node cache: pages of words that are allocated one by one and never freed, so that a client may read
//! a word that is no longer part of what it searches. The client notices that afterwards ([`table`](super::table)).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Words of a line.
pub(super) const LINE_WORDS: usize = 8;

/// A line of the processor cache.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [AtomicU64; LINE_WORDS]);

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    fn copy(&self) -> Self {
        Self(std::array::from_fn(|word| AtomicU64::new(self.0[word].load(Relaxed))))
    }
}

/// Pages of words, which are numbered consecutively.
#[derive(Debug)]
pub(super) struct Arena {
    pages: Box<[OnceLock<Box<[Line]>>]>,
    page_words_log2: u32,
    allocated: AtomicU32,
}

impl Arena {
    /// An arena of at most `pages_max` pages of 2^`page_words_log2` words.
    pub(super) fn new(pages_max: usize, page_words_log2: u32) -> Self {
        let pages = (0..pages_max).map(|_| OnceLock::new()).collect();
        Self { pages, page_words_log2, allocated: AtomicU32::new(0) }
    }

    /// A copy of the arena and its pages, of a cache that no other thread uses.
    pub(super) fn copy(&self) -> Self {
        let page = |page: &OnceLock<Box<[Line]>>| {
            let copy = OnceLock::new();
            if let Some(lines) = page.get() {
                copy.get_or_init(|| lines.iter().map(Line::copy).collect());
            }
            copy
        };
        Self {
            pages: self.pages.iter().map(page).collect(),
            page_words_log2: self.page_words_log2,
            allocated: AtomicU32::new(self.allocated.load(Relaxed)),
        }
    }

    pub(super) fn page_words(&self) -> usize {
        1 << self.page_words_log2
    }

    pub(super) fn pages_max(&self) -> usize {
        self.pages.len()
    }

    /// Number of allocated pages. Their numbers are consecutive, from 0.
    pub(super) fn pages_allocated(&self) -> usize {
        self.allocated.load(Relaxed) as usize
    }

    /// Bytes of an arena of `pages_max` pages, none of which is allocated.
    pub(super) const fn fixed_bytes(pages_max: usize) -> usize {
        pages_max * size_of::<OnceLock<Box<[Line]>>>()
    }

    /// Bytes of the allocated pages.
    pub(super) fn bytes(&self) -> usize {
        self.pages_allocated() * self.page_words() * size_of::<u64>()
    }

    /// Allocates the next page; yields its number.
    pub(super) fn allocate(&self) -> Option<u32> {
        let number = self.allocated.load(Relaxed);
        let page = self.pages.get(number as usize)?;
        let line = || Line(std::array::from_fn(|_| AtomicU64::new(0)));
        page.get_or_init(|| (0..self.page_words() / LINE_WORDS).map(|_| line()).collect());
        self.allocated.store(number + 1, Relaxed);
        Some(number)
    }

    pub(super) fn first_word_of_page(&self, page: u32) -> u32 {
        page << self.page_words_log2
    }

    pub(super) fn page_of(&self, word: u32) -> u32 {
        word >> self.page_words_log2
    }

    /// The line with the word number `word`, which is a multiple of [`LINE_WORDS`].
    #[inline]
    pub(super) fn line(&self, word: u32) -> Option<&Line> {
        let block = self.block(word)?;
        block.lines.get(block.first / LINE_WORDS)
    }

    /// The words from number `word` on, to the end of their page.
    #[inline]
    pub(super) fn block(&self, word: u32) -> Option<Block<'_>> {
        let lines = self.pages.get(self.page_of(word) as usize)?.get()?;
        Some(Block { lines, first: word as usize & (self.page_words() - 1) })
    }
}

/// Consecutive words of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    lines: &'a [Line],
    first: usize,
}

impl Block<'_> {
    /// Word `number`; 0 after the end of the page, which only a client reaches whose block is used again meanwhile.
    #[inline]
    pub(super) fn word(&self, number: usize) -> u64 {
        let at = self.first + number;
        self.lines.get(at / LINE_WORDS).map_or(0, |line| line.0[at % LINE_WORDS].load(Relaxed))
    }

    #[inline]
    pub(super) fn set_word(&self, number: usize, word: u64) {
        let at = self.first + number;
        self.lines[at / LINE_WORDS].0[at % LINE_WORDS].store(word, Relaxed);
    }
}
