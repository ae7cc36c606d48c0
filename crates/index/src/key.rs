//! Keys as byte strings of one length, at least eight bytes long: their order, and the keys before and after a key.

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

/// Returns the smallest key of the same length above `key`; `None`: there is none.
pub fn successor(mut key: Vec<u8>) -> Option<Vec<u8>> {
    step(&mut key, |byte| byte.overflowing_add(1)).then_some(key)
}

/// Decrements a key; returns `false` if it was the lowest.
pub(crate) fn decrement(key: &mut [u8]) -> bool {
    step(key, |byte| byte.overflowing_sub(1))
}

/// Adds or subtracts one from the last byte on; returns `false` on overflow of the key.
fn step(key: &mut [u8], by_one: impl Fn(u8) -> (u8, bool)) -> bool {
    for byte in key.iter_mut().rev() {
        let carried;
        (*byte, carried) = by_one(*byte);
        if !carried {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{decrement, successor};

    #[test]
    fn the_key_before_a_key() {
        let mut key = [1, 0, 0];
        assert!(decrement(&mut key));
        assert_eq!(key, [0, 255, 255]);
        assert!(!decrement(&mut [0, 0, 0]));
    }

    #[test]
    fn the_key_after_a_key() {
        assert_eq!(successor(vec![0, 255, 255]), Some(vec![1, 0, 0]));
        assert_eq!(successor(vec![255, 255]), None);
    }
}
