//! The ring of immediates of a memory node: many senders, one receiver; the crash of one sender does not block others.
//!
//! ```text
//! in the transport's own memory, 5 MiB into the segment
//! +  0   8   tail: position of the next immediate (a hint; the slots are authoritative)
//! +  8   8   head: position of the receiver
//! + 64   8 x 4096 slots
//!
//!  63            33  32  31                              0
//! +-----------------+---+---------------------------------+
//! |     lap 31      | F |            immediate            |   F = 1: full
//! +-----------------+---+---------------------------------+
//! ```
//!
//! A slot of lap n is empty until a sender's CAS fills it, and is empty for lap n + 1 after the receiver has taken its
//! immediate. A sender that crashes between filling a slot and moving the tail leaves a stale hint, which the next
//! sender corrects.

use super::sys::{AccessFault, Mapping, monotonic_nanoseconds};
use farwood_fabric::superblock::{TRANSPORT_BYTES, TRANSPORT_OFFSET};
use std::thread;

const SLOTS: u64 = 4096;
const TAIL: u64 = TRANSPORT_OFFSET;
const HEAD: u64 = TRANSPORT_OFFSET + 8;
const FIRST_SLOT: u64 = TRANSPORT_OFFSET + 64;
const FULL: u64 = 1 << 32;
const LAP_SHIFT: u32 = 33;
const LAPS: u64 = 1 << 31;
/// The time that a sender waits for a free slot, nanoseconds.
const SEND_MAX: u64 = 10_000_000_000;

/// One memory node's ring of immediates.
pub(super) struct ImmediateRing<'a> {
    memory: &'a Mapping,
}

fn empty(ticket: u64) -> u64 {
    (ticket / SLOTS % LAPS) << LAP_SHIFT
}

fn slot_of(ticket: u64) -> u64 {
    FIRST_SLOT + 8 * (ticket % SLOTS)
}

impl<'a> ImmediateRing<'a> {
    /// Returns the ring in a memory node's segment.
    pub(super) fn of(memory: &'a Mapping) -> Self {
        Self { memory }
    }

    /// Adds an immediate; waits while the ring is full. `Ok(false)`: it stayed full for ten seconds.
    pub(super) fn send(&self, immediate: u32) -> Result<bool, AccessFault> {
        let deadline = monotonic_nanoseconds() + SEND_MAX;
        loop {
            let ticket = self.memory.load(TAIL)?;
            let empty = empty(ticket);
            let found =
                self.memory.compare_exchange(slot_of(ticket), empty, empty | FULL | u64::from(immediate))?;
            if found == empty {
                self.memory.compare_exchange(TAIL, ticket, ticket + 1)?;
                return Ok(true);
            }
            if found & !(FULL - 1) == empty | FULL {
                // Another sender filled the slot, and has not advanced the tail yet or has crashed.
                self.memory.compare_exchange(TAIL, ticket, ticket + 1)?;
            } else {
                // The slot is still full from the previous lap: the receiver is slow or has crashed.
                if monotonic_nanoseconds() > deadline {
                    return Ok(false);
                }
                thread::yield_now();
            }
        }
    }

    /// Takes the oldest immediate, if there is one. Only one process receives.
    pub(super) fn receive(&self) -> Option<u32> {
        const WITHIN: &str = "the queue lies within the segment";
        let ticket = self.memory.load(HEAD).expect(WITHIN);
        let slot = self.memory.load(slot_of(ticket)).expect(WITHIN);
        if slot & !(FULL - 1) != empty(ticket) | FULL {
            return None;
        }
        self.memory.write_up(slot_of(ticket), &empty(ticket + SLOTS).to_ne_bytes()).expect(WITHIN);
        self.memory.write_up(HEAD, &(ticket + 1).to_ne_bytes()).expect(WITHIN);
        Some(slot as u32)
    }
}

const _: () = assert!(64 + 8 * SLOTS <= TRANSPORT_BYTES);
const _: () = assert!(LAP_SHIFT + LAPS.trailing_zeros() == u64::BITS);
