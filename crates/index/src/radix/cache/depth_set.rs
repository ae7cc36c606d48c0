//! The depths at which a cache has had nodes: a search tries only prefixes of these lengths.

use crate::radix::key::KEY_BYTES_MAX;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const DEPTHS: usize = KEY_BYTES_MAX + 1;
const WORDS: usize = DEPTHS.div_ceil(64);
/// Depths whose nodes are counted.
const COUNTED: usize = 64;

/// A set of depths, from which none is removed, and approximate numbers of nodes.
#[derive(Debug)]
pub(crate) struct DepthSet {
    words: [AtomicU64; WORDS],
    counts: [AtomicU32; COUNTED],
    /// The depth with the most nodes.
    commonest: AtomicU32,
}

impl DepthSet {
    pub(crate) fn new() -> Self {
        Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
            commonest: AtomicU32::new(0),
        }
    }

    /// A copy of the set.
    pub(super) fn copy(&self) -> Self {
        Self {
            words: std::array::from_fn(|word| AtomicU64::new(self.word(word))),
            counts: std::array::from_fn(|depth| AtomicU32::new(self.counts[depth].load(Relaxed))),
            commonest: AtomicU32::new(self.commonest.load(Relaxed)),
        }
    }

    /// Records a new node.
    pub(crate) fn add(&self, depth: usize) {
        let (word, bit) = (&self.words[depth / 64], 1 << (depth % 64));
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
        let Some(count) = self.counts.get(depth) else { return };
        let count = count.fetch_add(1, Relaxed) + 1;
        let commonest = self.commonest();
        if depth != commonest && count >= self.counts[commonest].load(Relaxed) {
            self.commonest.store(depth as u32, Relaxed);
        }
    }

    /// Records that a node has left the cache.
    pub(super) fn subtract(&self, depth: usize) {
        if let Some(count) = self.counts.get(depth) {
            count.fetch_sub(1, Relaxed);
        }
    }

    /// Whether a node of that depth was added.
    #[inline]
    pub(crate) fn contains(&self, depth: usize) -> bool {
        self.word(depth / 64) >> (depth % 64) & 1 == 1
    }

    /// The depth with the most nodes, of the depths whose nodes are counted.
    #[inline]
    pub(super) fn commonest(&self) -> usize {
        self.commonest.load(Relaxed) as usize
    }

    /// The depths that are at most `last`, the greatest first.
    #[inline]
    pub(crate) fn down_from(&self, last: usize) -> impl Iterator<Item = usize> {
        let last = last.min(DEPTHS - 1);
        let (mut number, mut word) = (last / 64, self.word(last / 64) & (u64::MAX >> (63 - last % 64)));
        std::iter::from_fn(move || {
            while word == 0 {
                number = number.checked_sub(1)?;
                word = self.word(number);
            }
            let bit = 63 - word.leading_zeros() as usize;
            word &= !(1 << bit);
            Some(64 * number + bit)
        })
    }

    /// The depths from `first` on, the smallest first.
    #[inline]
    pub(super) fn up_from(&self, first: usize) -> impl Iterator<Item = usize> {
        let (mut number, mut word) = (first / 64, self.word(first / 64) & (u64::MAX << (first % 64)));
        std::iter::from_fn(move || {
            while word == 0 {
                number += 1;
                word = self.words.get(number)?.load(Relaxed);
            }
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            Some(64 * number + bit)
        })
    }

    #[inline]
    fn word(&self, number: usize) -> u64 {
        self.words.get(number).map_or(0, |word| word.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depths_are_listed_in_both_directions() {
        let set = DepthSet::new();
        assert_eq!((set.down_from(KEY_BYTES_MAX).next(), set.up_from(0).next()), (None, None));
        let depths = [0, 2, 63, 64, 200, KEY_BYTES_MAX];
        for depth in depths {
            set.add(depth);
        }
        for bound in [0, 1, 2, 3, 62, 63, 64, 65, 127, 128, 201, KEY_BYTES_MAX] {
            let down: Vec<_> = depths.iter().rev().copied().filter(|&depth| depth <= bound).collect();
            assert_eq!(set.down_from(bound).collect::<Vec<_>>(), down, "{bound}");
            let up: Vec<_> = depths.iter().copied().filter(|&depth| depth >= bound).collect();
            assert_eq!(set.up_from(bound).collect::<Vec<_>>(), up, "{bound}");
        }
        assert_eq!(set.up_from(KEY_BYTES_MAX + 1).next(), None);
    }

    #[test]
    fn the_commonest_depth_is_known() {
        let set = DepthSet::new();
        for depth in [1, 2, 3, 2] {
            set.add(depth);
        }
        assert_eq!(set.commonest(), 2);
        set.subtract(2);
        for depth in [3, 100, 100, 100] {
            set.add(depth);
        }
        assert_eq!(set.commonest(), 3);
    }
}
