//! crossbeam's lock-free skip list. Its `insert` removes an entry before it inserts the new one, and a concurrent get
//! would miss the key. So a put replaces the value inside its entry: numbers by an atomic store, others under a lock.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crossbeam_skiplist::SkipMap;

use super::stored_bytes::StoredBytes;
use super::{Peer, Sizes};
use crate::Result;

/// Creates an empty skip list for keys and values of `sizes`.
pub(super) fn open(sizes: Sizes) -> Box<dyn Peer> {
    match sizes {
        Sizes { key_bytes: 8, value_bytes: 8 } => Box::new(Skiplist::<u64, AtomicU64>(SkipMap::new())),
        Sizes { key_bytes: 8, .. } => Box::new(Skiplist::<u64, RwLock<Box<[u8]>>>(SkipMap::new())),
        _ => Box::new(Skiplist::<Box<[u8]>, RwLock<Box<[u8]>>>(SkipMap::new())),
    }
}

/// A value that a put replaces while others read it.
trait SharedValue: Send + Sync + 'static {
    fn of(bytes: &[u8]) -> Self;

    fn replace(&self, bytes: &[u8]);

    /// Calls `run` with the bytes.
    fn with_bytes<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R;
}

impl SharedValue for AtomicU64 {
    fn of(bytes: &[u8]) -> AtomicU64 {
        AtomicU64::new(u64::of(bytes))
    }

    fn replace(&self, bytes: &[u8]) {
        self.store(u64::of(bytes), Ordering::Release);
    }

    fn with_bytes<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R {
        self.load(Ordering::Acquire).with_bytes(run)
    }
}

impl SharedValue for RwLock<Box<[u8]>> {
    fn of(bytes: &[u8]) -> RwLock<Box<[u8]>> {
        RwLock::new(bytes.into())
    }

    fn replace(&self, bytes: &[u8]) {
        self.write().unwrap_or_else(PoisonError::into_inner).copy_from_slice(bytes);
    }

    fn with_bytes<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R {
        run(&self.read().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Skiplist<K, V>(SkipMap<K, V>);

impl<K: StoredBytes, V: SharedValue> Peer for Skiplist<K, V> {
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        let found = K::with_query(key, |key| self.0.get(key));
        Ok(found.map(|found| found.value().with_bytes(|bytes| value.copy_from_slice(bytes))).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.get_or_insert_with(K::of(key), || V::of(value)).value().replace(value);
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.get_or_insert_with(K::of(key), || V::of(value));
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
