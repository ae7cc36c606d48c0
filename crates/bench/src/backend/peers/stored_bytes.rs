//! The types of keys and values in the in-process maps `btreemap` and `skiplist`: 8 bytes are stored as a number, other
//! lengths as bytes on the heap.

use std::borrow::Borrow;

/// The type of a key or value in a map.
pub(super) trait StoredBytes: Ord + Clone + Send + Sync + Borrow<Self::Query> + 'static {
    /// The borrowed form for lookups.
    type Query: Ord + ?Sized;

    /// Copies `bytes`.
    fn of(bytes: &[u8]) -> Self;

    /// Calls `run` with the lookup form of `bytes`, without an allocation.
    fn with_query<R>(bytes: &[u8], run: impl FnOnce(&Self::Query) -> R) -> R;

    /// Calls `run` with the bytes.
    fn with_bytes<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R;
}

/// Eight bytes in big-endian order, so that numbers sort like the byte strings.
impl StoredBytes for u64 {
    type Query = u64;

    fn of(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(bytes.try_into().expect("a store of numbers is opened for 8 bytes"))
    }

    fn with_query<R>(bytes: &[u8], run: impl FnOnce(&u64) -> R) -> R {
        run(&Self::of(bytes))
    }

    fn with_bytes<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R {
        run(&self.to_be_bytes())
    }
}

impl StoredBytes for Box<[u8]> {
    type Query = [u8];

    fn of(bytes: &[u8]) -> Box<[u8]> {
        bytes.into()
    }

    fn with_query<R>(bytes: &[u8], run: impl FnOnce(&[u8]) -> R) -> R {
        run(bytes)
    }

    fn with_bytes<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R {
        run(self)
    }
}
