//! Shortcuts: the nodes where traversals ended. A traversal for the same key starts there again, and skips the copies
//! above.
//!
//! In a tree of names, a path has ten nodes and more, and a search waits for two cache lines at each. Keys with the
//! same hash share one entry of the table, which contains the result of the last search. An entry is a hint: a
//! traversal uses the node only if it covers the key, and validates its result as from any other start.

use crate::radix::inner::RawInner;
use farwood_fabric::{Packed, Remote};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use xxhash_rust::xxh3::xxh3_64;

/// Part of the cache budget that the table may use, as a divisor.
const SHARE: usize = 64;
/// Minimum number of entries of a table.
const ENTRIES_MIN: usize = 1 << 10;
/// Bits of an entry that hold the address of the node. The others hold bits of the key's hash.
const ADDRESS: u64 = (1 << Packed::<RawInner>::BITS) - 1;

/// A table of the nodes where traversals ended.
#[derive(Debug)]
pub(super) struct Shortcuts {
    /// Allocated when the first entry is stored.
    entries: OnceLock<Box<[AtomicU64]>>,
    /// Number of entries of the table; 0: there is no table.
    count: usize,
}

impl Shortcuts {
    /// Shortcuts for a cache with a budget of `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let fit = bytes_max / SHARE / size_of::<AtomicU64>();
        let count = if fit >= ENTRIES_MIN { 1 << fit.ilog2() } else { 0 };
        Self { entries: OnceLock::new(), count }
    }

    /// The node at which the last traversal ended that was for `key` or for another key with nearly the same hash.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<Remote<RawInner>> {
        let entries = self.entries.get()?;
        let hash = xxh3_64(key);
        let word = entries[hash as usize & (entries.len() - 1)].load(Relaxed);
        if (word ^ hash) & !ADDRESS != 0 {
            return None;
        }
        Packed::unpack(word)
    }

    /// Records that a traversal for `key` ended at the node at `at`. Calls `allocated` with the bytes of the table when
    /// it is allocated.
    pub(super) fn put(&self, key: &[u8], at: Remote<RawInner>, allocated: impl FnOnce(usize)) {
        if self.count == 0 {
            return;
        }
        let entries = self.entries.get_or_init(|| {
            allocated(self.count * size_of::<AtomicU64>());
            (0..self.count).map(|_| AtomicU64::new(0)).collect()
        });
        let hash = xxh3_64(key);
        entries[hash as usize & (entries.len() - 1)]
            .store(hash & !ADDRESS | Packed::pack(at).bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId};

    fn at(number: u64) -> Remote<RawInner> {
        Remote::new(NodeId(3), Memory::Host, 4096 + 8 * number).expect("it is not null")
    }

    #[test]
    fn a_key_has_its_last_shortcut_and_other_keys_rarely_have_it() {
        let shortcuts = Shortcuts::new(1 << 20);
        assert_eq!(shortcuts.get(b"a"), None);
        shortcuts.put(b"a", at(1), drop);
        assert_eq!(shortcuts.get(b"a"), Some(at(1)));
        shortcuts.put(b"a", at(2), |_| panic!("the table is allocated once"));
        assert_eq!(shortcuts.get(b"a"), Some(at(2)));
        let others = (0..100_000_u32).filter(|key| shortcuts.get(&key.to_le_bytes()).is_some()).count();
        assert!(others < 5, "{others}");
    }

    #[test]
    fn the_table_stays_within_its_part_of_the_budget() {
        for bytes_max in [0, 1 << 19, (1 << 19) - 1, 1 << 20, 3 << 20] {
            let shortcuts = Shortcuts::new(bytes_max);
            let mut bytes = 0;
            (0..50_000_u32)
                .for_each(|key| shortcuts.put(&key.to_le_bytes(), at(1), |allocated| bytes += allocated));
            assert!(bytes <= bytes_max / SHARE);
            assert_eq!(bytes > 0, bytes_max >= 1 << 19, "{bytes_max}");
        }
    }
}
