//! The consistency scheme "checksum": a hash over the bytes of one WRITE detects torn copies.
//!
//! ```text
//! guarded by a hash:   | hash 64 | ................... body ................... |
//! an entry's hash:     bit 0: the entry is in use; bits 1 to 63: hash
//! ```
//!
//! The scheme requires only that the fabric does not tear aligned words: the hash of a mixture of two versions differs
//! from the stored hash, except with a probability of 2^-63.
//!
//! The hash of an entry includes a *salt*: the version of the node and the slot of the entry. If a copy contains the
//! header of a node after a split and an entry, in use or free, from before the split, the check rejects the copy.

use super::EntryUse;
use farwood_fabric::Torn;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a hash.
pub const GUARD_BYTES: usize = 8;
const IN_USE: u64 = 1;

fn hash_at_front(guarded: &[u8]) -> u64 {
    u64::from_le_bytes(guarded[..GUARD_BYTES].try_into().expect("eight bytes"))
}

/// Checks the hash of the first `covered` bytes of a node.
#[inline]
pub fn check_node(node: &[u8], covered: usize) -> Result<(), Torn> {
    if hash_at_front(node) == xxh3_64(&node[GUARD_BYTES..covered]) { Ok(()) } else { Err(Torn) }
}

/// Writes the hash of the first `covered` bytes of a node.
pub fn seal_node(node: &mut [u8], covered: usize) {
    let hash = xxh3_64(&node[GUARD_BYTES..covered]);
    node[..GUARD_BYTES].copy_from_slice(&hash.to_le_bytes());
}

fn hash_of_entry(entry: &[u8], salt: u64, state: EntryUse) -> u64 {
    match state {
        EntryUse::InUse => xxh3_64_with_seed(&entry[GUARD_BYTES..], salt) | IN_USE,
        EntryUse::Free => xxh3_64_with_seed(&[], salt) & !IN_USE,
    }
}

/// Checks that a copy of an entry is not torn, and was written with the salt `salt`; returns whether the entry is in
/// use.
#[inline]
pub fn check_entry(entry: &[u8], salt: u64) -> Result<bool, Torn> {
    let found = hash_at_front(entry);
    let state = if found & IN_USE != 0 { EntryUse::InUse } else { EntryUse::Free };
    if found == hash_of_entry(entry, salt, state) { Ok(state == EntryUse::InUse) } else { Err(Torn) }
}

/// Returns the state of an entry by its in-use bit, without a check of the copy.
#[inline]
pub fn claimed_use(entry: &[u8]) -> EntryUse {
    if hash_at_front(entry) & IN_USE != 0 { EntryUse::InUse } else { EntryUse::Free }
}

/// Writes the hash of an entry before the entry is written back.
pub fn seal_entry(entry: &mut [u8], salt: u64, state: EntryUse) {
    let hash = hash_of_entry(entry, salt, state);
    entry[..GUARD_BYTES].copy_from_slice(&hash.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_of_two_versions_of_an_entry_is_torn() {
        let mut old = [1u8; 40];
        let mut new = [2u8; 40];
        seal_entry(&mut old, 9, EntryUse::InUse);
        seal_entry(&mut new, 9, EntryUse::InUse);
        for split in 1..40 {
            for (low, high) in [(&old, &new), (&new, &old)] {
                let mut mixed = [0u8; 40];
                mixed[..split].copy_from_slice(&low[..split]);
                mixed[split..].copy_from_slice(&high[split..]);
                assert_eq!(check_entry(&mixed, 9), Err(Torn), "split at {split}");
            }
        }
    }

    #[test]
    fn an_entry_of_another_version_of_its_node_is_torn() {
        let mut entry = [3u8; 24];
        for state in [EntryUse::InUse, EntryUse::Free] {
            seal_entry(&mut entry, 1, state);
            assert_eq!(check_entry(&entry, 1), Ok(state == EntryUse::InUse));
            assert_eq!(check_entry(&entry, 2), Err(Torn));
        }
    }

    #[test]
    fn a_changed_byte_of_a_node_is_detected() {
        let mut node = vec![5u8; 64];
        seal_node(&mut node, 64);
        for byte in 0..64 {
            node[byte] ^= 1;
            assert_eq!(check_node(&node, 64), Err(Torn));
            node[byte] ^= 1;
        }
        assert_eq!(check_node(&node, 64), Ok(()));
    }
}
