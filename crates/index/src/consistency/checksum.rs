//! The consistency scheme "checksum": a hash over the bytes of one WRITE detects torn copies.
//!
//! ```text
//! guard of a node:     | hash 64 | ................... body ................... |
//! guard of an entry:   bit 0: the entry is in use; bits 1 to 16: count of its writes; bits 17 to 63: hash
//! ```
//!
//! The scheme requires only that the fabric does not tear aligned words: the hash of a mixture of two versions differs
//! from the stored hash, except with a probability of 2^-64 for a node and 2^-47 for an entry. The check rejects bytes
//! that changed at rest with the same probability.
//!
//! The count reveals an entry that changed and changed back between two READs; snapshots need it. It wraps after 2^16
//! writes: a snapshot misses a change if the entry was written exactly a multiple of 65,536 times between both READs
//! and has the same value again. At a write per microsecond that takes 65 ms, so if a reader stops for at least that
//! long between the READs, it misses a change with a probability of 2^-16. This case is accepted.
//!
//! The hash of an entry includes a *salt*: the version of the node and the slot of the entry. If a copy contains the
//! header of a node after a split and an entry, in use or free, from before the split, the check rejects the copy.

use super::EntryUse;
use farwood_fabric::{Torn, u64_at};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a hash.
pub const GUARD_BYTES: usize = 8;
const IN_USE: u64 = 1;
const ONE_WRITE: u64 = 2;
/// Bits of an entry's guard that are not its hash: whether it is in use, and the count of its writes.
const STATE_BITS: u32 = 17;
const STATE: u64 = (1 << STATE_BITS) - 1;

fn hash_at_front(guarded: &[u8]) -> u64 {
    u64_at(guarded, 0)
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

/// The guard of an entry with that state: its low bits are the state, the others the hash.
fn guard_of_entry(entry: &[u8], salt: u64, state: u64) -> u64 {
    let body = if state & IN_USE != 0 { &entry[GUARD_BYTES..] } else { &[] };
    xxh3_64_with_seed(body, salt ^ state.rotate_right(STATE_BITS)) & !STATE | state
}

/// Checks that a copy of an entry is one version of it, under that salt; returns whether the entry is in use.
#[inline]
pub fn check_entry(entry: &[u8], salt: u64) -> Result<bool, Torn> {
    let found = hash_at_front(entry);
    if found == guard_of_entry(entry, salt, found & STATE) { Ok(found & IN_USE != 0) } else { Err(Torn) }
}

/// Returns the state in the in-use bit of an entry, without checking the entry.
#[inline]
pub fn claimed_use(entry: &[u8]) -> EntryUse {
    if hash_at_front(entry) & IN_USE != 0 { EntryUse::InUse } else { EntryUse::Free }
}

/// Counts a write and writes the guard of an entry before the entry is written back.
pub fn seal_entry(entry: &mut [u8], salt: u64, state: EntryUse) {
    let count = (hash_at_front(entry) & STATE & !IN_USE).wrapping_add(ONE_WRITE) & STATE;
    let guard = guard_of_entry(entry, salt, count | if state == EntryUse::InUse { IN_USE } else { 0 });
    entry[..GUARD_BYTES].copy_from_slice(&guard.to_le_bytes());
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
    fn an_entry_that_changes_back_has_another_guard() {
        let mut entry = [3u8; 24];
        seal_entry(&mut entry, 1, EntryUse::InUse);
        let before = entry;
        for writes in 1..(1 << 16) {
            seal_entry(&mut entry, 1, EntryUse::InUse);
            assert_ne!(entry, before, "after {writes} writes");
        }
        seal_entry(&mut entry, 1, EntryUse::InUse);
        assert_eq!(entry, before, "the count has wrapped");
    }

    #[test]
    fn a_changed_bit_of_an_entry_is_detected() {
        for state in [EntryUse::InUse, EntryUse::Free] {
            let mut entry = [5u8; 24];
            seal_entry(&mut entry, 7, state);
            let bytes = if state == EntryUse::InUse { 24 } else { GUARD_BYTES };
            for bit in 0..8 * bytes {
                entry[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(check_entry(&entry, 7), Err(Torn), "bit {bit}");
                entry[bit / 8] ^= 1 << (bit % 8);
            }
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
