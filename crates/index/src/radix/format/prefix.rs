//! Hashes of all prefixes of a key, computed in one pass: each from the one before it and one byte.
//!
//! The step function is a bijection of the hash and a bijection of the byte. So prefixes of one length that differ
//! only in their last byte never collide, and extending two prefixes that do not collide by the same bytes never makes
//! them collide.

/// Hash of a prefix of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixHash(u64);

impl PrefixHash {
    /// The hash of the empty prefix.
    pub const EMPTY: Self = Self(0x9E37_79B9_7F4A_7C15);

    /// The hash of `prefix`.
    #[inline]
    pub fn of(prefix: &[u8]) -> Self {
        prefix.iter().fold(Self::EMPTY, |hash, &byte| hash.then(byte))
    }

    /// The hash of the prefix with `byte` appended.
    #[inline]
    #[must_use]
    pub const fn then(self, byte: u8) -> Self {
        // Multiplication by an odd factor and a right-shift xor: both are invertible.
        let product = (self.0 ^ byte as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Self(product ^ product >> 32)
    }

    /// The hashes of all prefixes of `key`, from the empty prefix to the whole key.
    pub fn all(key: &[u8]) -> impl Iterator<Item = Self> {
        let next = key.iter().scan(Self::EMPTY, |hash, &byte| {
            *hash = hash.then(byte);
            Some(*hash)
        });
        std::iter::once(Self::EMPTY).chain(next)
    }

    /// The hash that a word holds.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The hash as a word.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The hash with every bit depending on every other, for callers that use only some of its bits.
    #[inline]
    pub const fn mixed(self) -> u64 {
        mixed(self.0)
    }

    /// Assigns the hash to one of `count` buckets (jump consistent hashing). If one bucket is added, hashes move only
    /// to the new bucket.
    #[inline]
    pub fn jump_bucket(self, count: u16) -> u16 {
        let mut random = self.mixed();
        let (mut bucket, mut next) = (0, 0);
        while next < i64::from(count) {
            bucket = next;
            random = random.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
            let share = (1_u64 << 31) as f64 / ((random >> 33) + 1) as f64;
            next = ((bucket + 1) as f64 * share) as i64;
        }
        bucket as u16
    }
}

/// Mixes a word so that every bit depends on every other (the finalizer of MurmurHash3).
#[inline]
pub const fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    word = (word ^ word >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    word ^ word >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_yields_the_hash_of_every_prefix() {
        let key = b"lyrics";
        let all: Vec<_> = PrefixHash::all(key).collect();
        assert_eq!(all.len(), 7);
        for (depth, hash) in all.iter().enumerate() {
            assert_eq!(*hash, PrefixHash::of(&key[..depth]));
            assert_eq!(PrefixHash::from_word(hash.word()), *hash);
        }
        assert_eq!(all.iter().map(|hash| hash.word()).collect::<BTreeSet<_>>().len(), 7);
    }

    #[test]
    fn short_keys_do_not_collide() {
        let mut seen = BTreeSet::new();
        for first in 0..=255 {
            for second in 0..=255 {
                assert!(seen.insert(PrefixHash::of(&[first, second]).mixed()));
                for tail in [[0; 6], [255; 6]] {
                    let key: Vec<u8> = [&[first, second][..], &tail].concat();
                    assert!(seen.insert(PrefixHash::of(&key).mixed()));
                }
            }
        }
    }

    #[test]
    fn jump_buckets_are_even_and_hashes_move_only_to_the_new_one() {
        for count in 1..9_u16 {
            let mut filled = vec![0; usize::from(count)];
            for number in 0..10_000_u32 {
                let hash = PrefixHash::of(&number.to_be_bytes());
                let bucket = hash.jump_bucket(count);
                filled[usize::from(bucket)] += 1;
                let next = hash.jump_bucket(count + 1);
                assert!(next == bucket || next == count);
            }
            let even = 10_000 / i32::from(count);
            assert!(filled.iter().all(|&filled: &i32| (filled - even).abs() < even / 5), "{filled:?}");
        }
    }
}
