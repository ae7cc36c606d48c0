//! Versions at the front and at the rear: equal versions prove that no WRITE overlapped the READ.
//!
//! ```text
//! guarded by a pair:   | version 32 | ................ body ................ | version 32 |
//! an entry's version:  bit 0: the entry is in use; bits 1 to 31: count of its writes
//! ```
//!
//! **Proof.** The writer, which holds the node's lock, stores the front version, the body and the rear version in this
//! order, because a WRITE stores its bytes upward. Where READs fetch upward too (NICs, up to the size that the fabric
//! states) and do not overtake a WRITE midway, a READ that began before the WRITE was complete ends with the old rear
//! version after the new front one. Where a READ can overtake (two CPUs copying), the fabric fetches *downward*: the
//! reader sees the rear version v first, so every byte of write v was stored before; it sees the front version last, so
//! if that is still v, no byte of write v + 1 had been stored. In both cases equal versions mean that all bytes between
//! them have one version.
//!
//! **Wrap-around** (the paper's 4-bit versions wrap after 16 writes, so the paper repeats every READ that takes more
//! than 8 µs): an entry's version wraps after 2^31 writes and a node's after 2^32. A reader accepts a mixture only if,
//! during one READ, the entry is written exactly a multiple of that many times: at a write every 100 ns, that takes 214
//! s. READs of a working fabric are shorter, but a process may be stopped in the middle of a copy for that long. This
//! case is accepted and documented in `docs/papers.md`.

use super::EntryUse;
use farwood_fabric::{Torn, u32_at};

/// Bytes of the two versions of an entry together.
pub const ENTRY_GUARD_BYTES: usize = 8;
/// Bytes of one version.
const VERSION_BYTES: usize = 4;
const IN_USE: u32 = 1;
const ONE_WRITE: u32 = 2;
/// Versions just below the wrap-around, of a node and of an entry that is not in use: for tests.
pub(crate) const HIGH: u32 = u32::MAX - 2;
const ENTRY_HIGH: u32 = u32::MAX - IN_USE - 2 * ONE_WRITE;

fn version_at(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at)
}

/// Returns the version before and after `guarded`, if both are equal.
#[inline]
fn agreed(guarded: &[u8]) -> Result<u32, Torn> {
    let front = version_at(guarded, 0);
    if front == version_at(guarded, guarded.len() - VERSION_BYTES) { Ok(front) } else { Err(Torn) }
}

fn set(guarded: &mut [u8], version: u32) {
    let rear = guarded.len() - VERSION_BYTES;
    guarded[..VERSION_BYTES].copy_from_slice(&version.to_le_bytes());
    guarded[rear..].copy_from_slice(&version.to_le_bytes());
}

/// Checks that a copy of a node is one version of it, with respect to WRITEs of whole nodes.
#[inline]
pub fn check_node(node: &[u8]) -> Result<(), Torn> {
    agreed(node).map(|_| ())
}

/// Writes the version of a node before the whole node is written back.
pub fn seal_node(node: &mut [u8], version: u32) {
    set(node, version);
}

/// Checks that a copy of an entry is one version of it; returns whether the entry is in use.
#[inline]
pub fn check_entry(entry: &[u8]) -> Result<bool, Torn> {
    agreed(entry).map(|version| version & IN_USE != 0)
}

/// Sets the version of an entry that was never in use just below the wrap-around.
pub(crate) fn raise_entry(entry: &mut [u8]) {
    set(entry, ENTRY_HIGH);
}

/// Writes the next version of an entry before the entry is written back.
pub fn seal_entry(entry: &mut [u8], state: EntryUse) {
    let next = (version_at(entry, 0) & !IN_USE).wrapping_add(ONE_WRITE);
    set(entry, next | if state == EntryUse::InUse { IN_USE } else { 0 });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_changes_both_versions() {
        let mut entry = [0u8; 24];
        assert_eq!(check_entry(&entry), Ok(false));
        for state in [EntryUse::InUse, EntryUse::InUse, EntryUse::Free, EntryUse::InUse] {
            let before = entry;
            seal_entry(&mut entry, state);
            assert_eq!(check_entry(&entry), Ok(state == EntryUse::InUse));
            for half_written in 4..24 {
                let mut mixed = before;
                mixed[..half_written].copy_from_slice(&entry[..half_written]);
                let whole = half_written >= 24;
                // The low byte of the rear version is at 20: before it is stored, the two versions differ.
                assert_eq!(check_entry(&mixed).is_ok(), whole || half_written > 20, "{half_written}");
            }
        }
    }

    #[test]
    fn versions_wrap_without_changing_the_state() {
        let mut entry = [0u8; 24];
        set(&mut entry, u32::MAX);
        seal_entry(&mut entry, EntryUse::InUse);
        assert_eq!(version_at(&entry, 0), IN_USE);
        assert_eq!(check_entry(&entry), Ok(true));
        seal_entry(&mut entry, EntryUse::Free);
        assert_eq!((version_at(&entry, 0), check_entry(&entry)), (ONE_WRITE, Ok(false)));
    }

    #[test]
    fn a_node_with_unequal_versions_is_torn() {
        let mut node = vec![0u8; 256];
        seal_node(&mut node, 7);
        assert_eq!(check_node(&node), Ok(()));
        node[252] ^= 1;
        assert_eq!(check_node(&node), Err(Torn));
    }
}
