//! The standard library's `BTreeMap` behind one `RwLock`, the simplest concurrent ordered map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::stored_bytes::StoredBytes;
use super::{Peer, Sizes};
use crate::Result;

/// Creates an empty map for keys and values of `sizes`.
pub(super) fn open(sizes: Sizes) -> Box<dyn Peer> {
    match sizes {
        Sizes { key_bytes: 8, value_bytes: 8 } => Box::new(Locked::<u64, u64>::default()),
        Sizes { key_bytes: 8, .. } => Box::new(Locked::<u64, Box<[u8]>>::default()),
        _ => Box::new(Locked::<Box<[u8]>, Box<[u8]>>::default()),
    }
}

struct Locked<K, V>(RwLock<BTreeMap<K, V>>);

impl<K, V> Default for Locked<K, V> {
    fn default() -> Self {
        Locked(RwLock::default())
    }
}

impl<K, V> Locked<K, V> {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<K, V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<K, V>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: StoredBytes, V: StoredBytes> Peer for Locked<K, V> {
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        let map = self.read();
        let found = K::with_query(key, |key| map.get(key));
        Ok(found.map(|found| found.with_bytes(|bytes| value.copy_from_slice(bytes))).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write().insert(K::of(key), V::of(value));
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write().entry(K::of(key)).or_insert_with(|| V::of(value));
        Ok(())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let mut map = self.write();
        Ok(K::with_query(key, |key| map.remove(key)).is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let map = self.read();
        let entries =
            K::with_query(from, |from| map.range::<K::Query, _>((Bound::Included(from), Bound::Unbounded)));
        let mut count = 0;
        for (key, value) in entries.take(limit) {
            key.with_bytes(|key| value.with_bytes(|value| visit(key, value)));
            count += 1;
        }
        Ok(count)
    }
}
