//! Entry versions of one byte at the front and at the rear, for fabrics whose NICs copy.
//!
//! ```text
//! guarded entry:       | version 8 | ........... body ........... | version 8 |
//! an entry's version:  bit 0: the entry is in use; bits 1 to 7: count of its writes
//! ```
//!
//! Nodes have the versions of [`versions`](super::versions); only entries differ. No byte is ever torn, so an entry may
//! begin at any byte. Its proof is the proof of [`versions`](super::versions), with another bound for the wrap-around:
//!
//! **Wrap-around.** The count wraps after 128 writes. A reader accepts a mixture only if exactly a multiple of 128
//! writes of the entry are placed while one READ samples it. Two facts exclude this on NICs. First, writers of an
//! entry follow each other: each holds the lock of the leaf, and posts its WRITE after the WRITE of the last holder
//! was acknowledged, at the earliest a round trip later. No NIC has a round trip below 0.5 µs, so 128 writes arrive in
//! no less than [`WRAP_NS`]. The fabric promises that a READ of a node samples all its bytes in less time
//! ([`Capability::BriefReads`](farwood_fabric::Capability::BriefReads)): a NIC executes it as one packet, with one DMA
//! read of at most 1 KiB, in about 0.1 µs. The time for which the READ waits before its first byte is sampled does not
//! count, nor a stop of the reader's process. Second, a NIC may acknowledge WRITEs before it places them, and place
//! several at once; 128 of them occupy PCIe for longer than the READ.
//!
//! Through shared memory and TCP a process copies, and the operating system may stop it in the middle: there, entries
//! have 32-bit versions.
//!
//! Two READs of one leaf may be further apart than [`WRAP_NS`]. A snapshot therefore requires that both of its READs
//! together take less.

use super::EntryUse;
use farwood_fabric::Torn;

/// Bytes of the two versions of an entry together.
pub const ENTRY_GUARD_BYTES: usize = 2;
/// The shortest time between the first and the last of 128 writes of an entry, nanoseconds.
pub const WRAP_NS: u64 = 127 * 500;
const IN_USE: u8 = 1;
const ONE_WRITE: u8 = 2;
/// The version of a free entry just below the wrap-around, for tests.
const ENTRY_HIGH: u8 = u8::MAX - IN_USE - 2 * ONE_WRITE;

fn set(entry: &mut [u8], version: u8) {
    let rear = entry.len() - 1;
    entry[0] = version;
    entry[rear] = version;
}

/// Checks that a copy of an entry is one version of it; returns whether the entry is in use.
#[inline]
pub fn check_entry(entry: &[u8]) -> Result<bool, Torn> {
    if entry[0] == entry[entry.len() - 1] { Ok(entry[0] & IN_USE != 0) } else { Err(Torn) }
}

/// Sets the version of an entry that was never in use just below the wrap-around.
pub(crate) fn raise_entry(entry: &mut [u8]) {
    set(entry, ENTRY_HIGH);
}

/// Writes the next version of an entry before the entry is written back.
pub fn seal_entry(entry: &mut [u8], state: EntryUse) {
    let next = (entry[0] & !IN_USE).wrapping_add(ONE_WRITE);
    set(entry, next | if state == EntryUse::InUse { IN_USE } else { 0 });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mixture_of_two_successive_versions_is_torn() {
        let mut entry = [0u8; 18];
        assert_eq!(check_entry(&entry), Ok(false));
        for state in [EntryUse::InUse, EntryUse::InUse, EntryUse::Free, EntryUse::InUse] {
            let before = entry;
            entry[1..17].iter_mut().for_each(|byte| *byte += 1);
            seal_entry(&mut entry, state);
            assert_eq!(check_entry(&entry), Ok(state == EntryUse::InUse));
            for stored in 1..18 {
                let mut mixed = before;
                mixed[..stored].copy_from_slice(&entry[..stored]);
                assert_eq!(check_entry(&mixed), Err(Torn), "{stored} bytes stored");
            }
        }
    }

    #[test]
    fn a_version_repeats_after_128_writes_and_not_before() {
        let mut entry = [0u8; 18];
        raise_entry(&mut entry);
        seal_entry(&mut entry, EntryUse::InUse);
        let before = entry;
        for writes in 1..128 {
            seal_entry(&mut entry, EntryUse::InUse);
            assert_ne!(entry, before, "after {writes} writes");
            assert_eq!(check_entry(&entry), Ok(true));
        }
        seal_entry(&mut entry, EntryUse::InUse);
        assert_eq!(entry, before);
        seal_entry(&mut entry, EntryUse::Free);
        assert_eq!(check_entry(&entry), Ok(false));
    }
}
