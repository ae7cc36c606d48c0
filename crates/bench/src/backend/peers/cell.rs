//! Keys and values inside maps of this process: 8 bytes as a number, others on the heap.

use std::borrow::Borrow;

/// A key or value inside a map.
pub(super) trait Cell: Ord + Clone + Send + Sync + Borrow<Self::Query> + 'static {
    /// What a key is looked up by.
    type Query: Ord + ?Sized;

    fn of(bytes: &[u8]) -> Self;

    /// Calls `look` with what `bytes` are looked up by; allocates nothing.
    fn with_query<R>(bytes: &[u8], look: impl FnOnce(&Self::Query) -> R) -> R;

    /// Calls `see` with the bytes.
    fn with_bytes<R>(&self, see: impl FnOnce(&[u8]) -> R) -> R;
}

/// Eight bytes, big-endian, so that numbers are in the order of the bytes.
impl Cell for u64 {
    type Query = u64;

    fn of(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(bytes.try_into().expect("a store of numbers is opened for 8 bytes"))
    }

    fn with_query<R>(bytes: &[u8], look: impl FnOnce(&u64) -> R) -> R {
        look(&Self::of(bytes))
    }

    fn with_bytes<R>(&self, see: impl FnOnce(&[u8]) -> R) -> R {
        see(&self.to_be_bytes())
    }
}

impl Cell for Box<[u8]> {
    type Query = [u8];

    fn of(bytes: &[u8]) -> Box<[u8]> {
        bytes.into()
    }

    fn with_query<R>(bytes: &[u8], look: impl FnOnce(&[u8]) -> R) -> R {
        look(bytes)
    }

    fn with_bytes<R>(&self, see: impl FnOnce(&[u8]) -> R) -> R {
        see(self)
    }
}
