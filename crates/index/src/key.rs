//! Comparing keys: byte strings of one length, at least eight bytes long.

use std::cmp::Ordering;

/// The first eight bytes of a key as a number that sorts as the key does.
#[inline]
pub(crate) fn prefix(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[..8].try_into().expect("keys have at least eight bytes"))
}

/// Compares two keys of one length.
#[inline]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match prefix(a).cmp(&prefix(b)) {
        Ordering::Equal if a.len() > 8 => a[8..].cmp(&b[8..]),
        decided => decided,
    }
}
