//! The last change of each block of memory.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of the table. Blocks with the same hash share one: a READ then waits for a change of another block.
const WORDS: usize = 1 << 16;
/// Bytes of a block, as a power of two.
const BLOCK_BITS: u32 = 10;

/// The number of the last record that changed each block.
#[derive(Debug)]
pub(super) struct Granules(Box<[AtomicU64]>);

impl Granules {
    pub(super) fn new() -> Self {
        Self((0..WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn words(offset: u64, bytes: u64) -> impl Iterator<Item = usize> {
        let (first, last) = (offset >> BLOCK_BITS, (offset + bytes.max(1) - 1) >> BLOCK_BITS);
        (first..=last).map(|block| (block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - 16)) as usize)
    }

    /// Records that `record` changes these bytes. The caller changes them afterwards, and holds the lock of the log.
    pub(super) fn mark(&self, offset: u64, bytes: u64, record: u64) {
        for word in Self::words(offset, bytes) {
            self.0[word].store(record, Ordering::Relaxed);
        }
        // A READ that sees one of the bytes then sees the mark, too.
        fence(Ordering::Release);
    }

    /// The last record that may have changed these bytes, which the caller has read before.
    pub(super) fn last(&self, offset: u64, bytes: u64) -> u64 {
        fence(Ordering::Acquire);
        Self::words(offset, bytes).map(|word| self.0[word].load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_change_is_marked() {
        let granules = Granules::new();
        granules.mark(1000, 3000, 7);
        assert_eq!([1000, 2048, 3999].map(|offset| granules.last(offset, 1)), [7; 3]);
        assert_eq!(granules.last(0, 1 << 20), 7);
        assert_eq!(granules.last(1 << 20, 64), 0);
    }
}
