//! Values that identify the write that stored them.
//!
//! ```text
//! word 0              words 1, 2, … and the last few bytes
//! +-----------------+ +-------------------------------------+
//! | rank   version  | | mix(word 0, number of the word)     |
//! | 36 bit  28 bit  | | little-endian, cut at value_bytes   |
//! +-----------------+ +-------------------------------------+
//! ```
//!
//! Every fabric copies word 0 (8 aligned bytes) atomically, so it always names one write. Every other word is a
//! function of word 0, so [`verify`] rejects a value with words of two writes.

use crate::workload::random::mix;
use crate::{Error, Result};

/// Bits of a version; versions wrap above them.
pub const VERSION_BITS: u32 = 28;

/// Ranks that a value can name: 2^36.
pub const RANKS_MAX: u64 = 1 << (64 - VERSION_BITS);

/// Bytes of the smallest value, which holds rank and version.
pub const VALUE_BYTES_MIN: usize = 8;

const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;

/// Refuses a value length that cannot hold rank and version.
pub fn check_value_bytes(value_bytes: usize) -> Result<()> {
    if value_bytes >= VALUE_BYTES_MIN {
        return Ok(());
    }
    let problem = format!("{value_bytes} B cannot hold the rank and version by which values are verified");
    Err(Error::parameter("--value-bytes", problem, "give at least 8"))
}

/// Fills `value` with the value of version `version` of the key of rank `rank`.
///
/// `value` has at least [`VALUE_BYTES_MIN`] bytes; `rank` is below [`RANKS_MAX`]; only the low
/// [`VERSION_BITS`] of `version` are kept.
#[inline]
pub fn fill_value(value: &mut [u8], rank: u64, version: u64) {
    debug_assert!(rank < RANKS_MAX);
    let head = (rank << VERSION_BITS) | (version & VERSION_MASK);
    let (first, rest) = value.split_at_mut(8);
    first.copy_from_slice(&head.to_le_bytes());
    let (words, tail) = rest.as_chunks_mut::<8>();
    let tail_number = words.len() as u64 + 1;
    for (number, word) in (1..).zip(words) {
        *word = word_of(head, number).to_le_bytes();
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&word_of(head, tail_number).to_le_bytes()[..tail.len()]);
    }
}

/// The rank and version of `value`.
///
/// # Errors
/// The value has words of different writes.
#[inline]
pub fn verify(value: &[u8]) -> Result<(u64, u64)> {
    let Some((first, rest)) = value.split_first_chunk::<8>() else {
        return Err(refusal(value, "it is shorter than one word".to_owned()));
    };
    let head = u64::from_le_bytes(*first);
    let (words, tail) = rest.as_chunks::<8>();
    for (number, word) in (1..).zip(words) {
        if u64::from_le_bytes(*word) != word_of(head, number) {
            return Err(foreign_word(value, number));
        }
    }
    let tail_number = words.len() as u64 + 1;
    if !tail.is_empty() && *tail != word_of(head, tail_number).to_le_bytes()[..tail.len()] {
        return Err(foreign_word(value, tail_number));
    }
    Ok((head >> VERSION_BITS, head & VERSION_MASK))
}

/// The version of `value`.
///
/// # Errors
/// The value has words of different writes, or a value of another rank.
#[inline]
pub fn verify_for(rank: u64, value: &[u8]) -> Result<u64> {
    let (found, version) = verify(value)?;
    if found == rank {
        return Ok(version);
    }
    Err(refusal(value, format!("it belongs to rank {found}, not to rank {rank}")))
}

#[inline]
const fn word_of(head: u64, number: u64) -> u64 {
    mix(head ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93))
}

#[cold]
fn foreign_word(value: &[u8], number: u64) -> Error {
    refusal(value, format!("word {number} does not belong to the write that word 0 names"))
}

#[cold]
fn refusal(value: &[u8], problem: String) -> Error {
    Error::Value { bytes: value.len(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_length_identify_their_write() {
        for bytes in [8, 9, 15, 16, 64, 100, 1024] {
            let mut value = vec![0; bytes];
            for (rank, version) in [(0, 0), (1, 1), (RANKS_MAX - 1, VERSION_MASK), (123_456_789, 42)] {
                fill_value(&mut value, rank, version);
                assert_eq!(verify(&value).unwrap(), (rank, version));
                assert_eq!(verify_for(rank, &value).unwrap(), version);
                assert!(verify_for(rank ^ 1, &value).is_err());
            }
        }
    }

    #[test]
    fn a_value_with_words_of_two_writes_is_rejected() {
        let (mut old, mut new) = (vec![0; 20], vec![0; 20]);
        fill_value(&mut old, 5, 1);
        fill_value(&mut new, 5, 2);
        for cut in [8, 16] {
            let torn: Vec<u8> = new[..cut].iter().chain(&old[cut..]).copied().collect();
            assert!(matches!(verify(&torn), Err(Error::Value { bytes: 20, .. })), "cut at {cut}");
        }
    }

    #[test]
    fn short_values_are_refused() {
        assert!(check_value_bytes(8).is_ok());
        let error = check_value_bytes(7).unwrap_err().to_string();
        assert!(error.contains("--value-bytes") && error.contains("at least 8"), "{error}");
        assert!(verify(&[0; 7]).is_err());
    }
}
