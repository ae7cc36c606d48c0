//! The depths at which searches for keys ended, for keys with many prefixes: the next search for the key tries the
//! prefix of this length first.
//!
//! Keys with the same hash share one entry of the table, which has the depth of the last search. A wrong depth costs a
//! search more probes, and does not change what it finds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use xxhash_rust::xxh3::xxh3_64;

/// Part of the cache budget that the table may use, as a divisor.
const SHARE: usize = 128;
/// Minimum number of entries of a table.
const ENTRIES_MIN: usize = 1 << 10;

/// A table of depths.
#[derive(Debug)]
pub(super) struct StartDepths {
    /// Allocated when the first entry is stored. An entry is 1 more than the depth; 0 is none.
    entries: OnceLock<Box<[AtomicU16]>>,
    /// Number of entries of the table; 0: there is no table.
    count: usize,
}

impl StartDepths {
    /// The depths for a cache with a budget of `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let fit = bytes_max / SHARE / size_of::<AtomicU16>();
        let count = if fit >= ENTRIES_MIN { 1 << fit.ilog2() } else { 0 };
        Self { entries: OnceLock::new(), count }
    }

    /// A copy of the table.
    pub(super) fn copy(&self) -> Self {
        let entries = OnceLock::new();
        if let Some(depths) = self.entries.get() {
            entries.get_or_init(|| depths.iter().map(|depth| AtomicU16::new(depth.load(Relaxed))).collect());
        }
        Self { entries, count: self.count }
    }

    /// Bytes that the table uses when it is allocated.
    pub(super) fn bytes_max(&self) -> usize {
        self.count * size_of::<AtomicU16>()
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        self.entries.get().map_or(0, |_| self.bytes_max())
    }

    /// The depth at which the last search ended that was for `key` or for another key with the same entry.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<usize> {
        let entries = self.entries.get()?;
        let depth = entries[xxh3_64(key) as usize & (entries.len() - 1)].load(Relaxed);
        usize::from(depth).checked_sub(1)
    }

    /// Records that a search for `key` ended at `depth`.
    pub(super) fn put(&self, key: &[u8], depth: usize) {
        if self.count == 0 {
            return;
        }
        let entries = self.entries.get_or_init(|| (0..self.count).map(|_| AtomicU16::new(0)).collect());
        entries[xxh3_64(key) as usize & (entries.len() - 1)].store(1 + depth as u16, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_last_depth() {
        let depths = StartDepths::new(1 << 20);
        assert_eq!((depths.get(b"a"), depths.bytes()), (None, 0));
        depths.put(b"a", 0);
        assert_eq!((depths.get(b"a"), depths.bytes()), (Some(0), depths.bytes_max()));
        depths.put(b"a", 4096);
        assert_eq!(depths.get(b"a"), Some(4096));
    }

    #[test]
    fn the_table_stays_within_its_part_of_the_budget() {
        for bytes_max in [0, 1 << 18, (1 << 18) - 1, 1 << 20, 3 << 20] {
            let depths = StartDepths::new(bytes_max);
            depths.put(b"a", 3);
            assert!(depths.bytes() <= bytes_max / SHARE);
            assert_eq!(depths.get(b"a").is_some(), bytes_max >= 1 << 18, "{bytes_max}");
        }
    }
}
