//! crossbeam's lock-free skip list.

use std::ops::Bound;

use crossbeam_skiplist::SkipMap;

use super::stored_bytes::StoredBytes;
use super::{Peer, Sizes};
use crate::Result;

/// Creates an empty skip list for keys and values of `sizes`.
pub(super) fn open(sizes: Sizes) -> Box<dyn Peer> {
    match sizes {
        Sizes { key_bytes: 8, value_bytes: 8 } => Box::new(Skiplist::<u64, u64>(SkipMap::new())),
        Sizes { key_bytes: 8, .. } => Box::new(Skiplist::<u64, Box<[u8]>>(SkipMap::new())),
        _ => Box::new(Skiplist::<Box<[u8]>, Box<[u8]>>(SkipMap::new())),
    }
}

struct Skiplist<K, V>(SkipMap<K, V>);

impl<K: StoredBytes, V: StoredBytes> Peer for Skiplist<K, V> {
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        let found = K::with_query(key, |key| self.0.get(key));
        Ok(found.map(|found| found.value().with_bytes(|bytes| value.copy_from_slice(bytes))).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(K::of(key), V::of(value));
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.compare_insert(K::of(key), V::of(value), |_| false);
        Ok(())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(K::with_query(key, |key| self.0.remove(key)).is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        // The range keeps its bounds, so they cannot be borrowed from the key as bytes.
        let from = K::of(from);
        let range = self.0.range::<K, _>((Bound::Included(&from), Bound::Unbounded));
        let mut count = 0;
        for entry in range.take(limit) {
            entry.key().with_bytes(|key| entry.value().with_bytes(|value| visit(key, value)));
            count += 1;
        }
        Ok(count)
    }
}
