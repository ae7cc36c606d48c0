//! Where the ways of keys ended: a search for one of them again begins there, and skips the copies above.
//!
//! In a tree of names a way leads through ten nodes and more, and a search waits for two lines of memory at each. There
//! is one place for all keys of a hash, and the last of them has it. Nothing is believed of what it says: a search
//! begins at a node there only if its prefix is the key's, and what it finds is proven as everywhere.

use crate::radix::inner::RawInner;
use farwood_fabric::{Packed, Remote};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use xxhash_rust::xxh3::xxh3_64;

/// The part of a cache's budget that the places may take.
const SHARE: usize = 64;
/// Fewer places are not worth a look.
const PLACES_MIN: usize = 1 << 10;
/// The bits of a place that say where the node lies; the others are of the key's hash.
const AT: u64 = (1 << Packed::<RawInner>::BITS) - 1;

/// Where the ways of keys ended.
#[derive(Debug)]
pub(crate) struct Shortcuts {
    /// Made when the first of them is needed.
    places: OnceLock<Box<[AtomicU64]>>,
    /// How many places there are, once they are made; 0: there will be none.
    count: usize,
}

impl Shortcuts {
    /// Shortcuts for a cache of that budget.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let fit = bytes_max / SHARE / size_of::<AtomicU64>();
        let count = if fit >= PLACES_MIN { 1 << fit.ilog2() } else { 0 };
        Self { places: OnceLock::new(), count }
    }

    /// Bytes that the places take.
    pub(crate) fn bytes(&self) -> usize {
        self.places.get().map_or(0, |places| size_of_val(&**places))
    }

    /// Where the way of `key` ended, or that of another key with most of its hash.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Remote<RawInner>> {
        let places = self.places.get()?;
        let hash = xxh3_64(key);
        let word = places[hash as usize & (places.len() - 1)].load(Relaxed);
        if (word ^ hash) & !AT != 0 {
            return None;
        }
        Packed::unpack(word)
    }

    /// The way of `key` ended at the node at `at`.
    pub(crate) fn put(&self, key: &[u8], at: Remote<RawInner>) {
        if self.count == 0 {
            return;
        }
        let places = self.places.get_or_init(|| (0..self.count).map(|_| AtomicU64::new(0)).collect());
        let hash = xxh3_64(key);
        places[hash as usize & (places.len() - 1)].store(hash & !AT | Packed::pack(at).bits(), Relaxed);
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
    fn a_key_leads_where_it_led_last_and_others_seldom_do() {
        let shortcuts = Shortcuts::new(1 << 20);
        assert_eq!((shortcuts.get(b"a"), shortcuts.bytes()), (None, 0));
        shortcuts.put(b"a", at(1));
        assert_eq!(shortcuts.get(b"a"), Some(at(1)));
        shortcuts.put(b"a", at(2));
        assert_eq!(shortcuts.get(b"a"), Some(at(2)));
        let others = (0..100_000_u32).filter(|key| shortcuts.get(&key.to_le_bytes()).is_some()).count();
        assert!(others < 5, "{others}");
    }

    #[test]
    fn they_keep_to_their_part_of_the_budget() {
        for bytes_max in [0, 1 << 19, (1 << 19) - 1, 1 << 20, 3 << 20] {
            let shortcuts = Shortcuts::new(bytes_max);
            (0..50_000_u32).for_each(|key| shortcuts.put(&key.to_le_bytes(), at(1)));
            assert!(shortcuts.bytes() <= bytes_max / SHARE);
            assert_eq!(shortcuts.bytes() > 0, bytes_max >= 1 << 19, "{bytes_max}");
        }
    }
}
