//! Generated keys of eight letters, each one of 64: a tree of them has nodes with 64 children at its upper levels.

use std::path::Path;

use super::{FileKeys, KeyLength, Keys};

/// Letters of a key.
const LETTERS: u32 = 8;
/// The 64 letters.
const ALPHABET: [u8; 64] = *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";
/// Bits of a number that a key encodes.
const BITS: u32 = 6 * LETTERS;
const MASK: u64 = (1 << BITS) - 1;

/// Generates `count` keys of eight letters that are spread over all such keys.
pub fn letters(count: u32) -> Keys {
    let mut all: Vec<_> = (0..u64::from(count)).map(|rank| key(spread(rank))).collect();
    all.sort_unstable();
    let parsed = FileKeys::parse(Path::new("keys of eight letters"), &all.join(&b'\n'), KeyLength::Longest);
    Keys::File(parsed.expect("a bijection makes unique keys"))
}

/// A bijection on the numbers below 2 to the power of [`BITS`].
fn spread(rank: u64) -> u64 {
    let product = rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) & MASK;
    (product ^ product >> (BITS / 2)).wrapping_mul(0xBF58_476D_1CE4_E5B9) & MASK
}

fn key(number: u64) -> [u8; LETTERS as usize] {
    let letter = |at: u32| ALPHABET[(number >> (BITS - 6 * (at + 1)) & 63) as usize];
    [0, 1, 2, 3, 4, 5, 6, 7].map(letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_unique_and_fill_the_upper_levels() {
        let count = 100_000;
        let keys = letters(count);
        assert_eq!((keys.ranks(), keys.key_bytes()), (u64::from(count), 8));
        let of_length = |bytes: usize| -> usize {
            (0..u64::from(count)).map(|rank| keys.key(rank)[..bytes].to_vec()).collect::<BTreeSet<_>>().len()
        };
        assert_eq!((of_length(1), of_length(2), of_length(8)), (64, 4096, 100_000));
    }
}
