//! Queue pairs: how two of them are connected, and what their completions mean.
//!
//! # Map
//!
//! ```text
//! a queue pair, as it is described to the other side: four words
//! + 0   16   GID, in the order in which it goes over the wire
//! +16    8   number << 0 (24 bits) | first PSN << 24 (24) | MTU << 48 (8) | READs and atomics under way << 56 (8)
//! +24    8   LID << 0 (16 bits), else 0
//! ```
//!
//! The MTU counts as the verbs do (1: 256 bytes, 5: 4096); of two, the smaller is used.

use super::abi::sys::{AhAttr, QpAttr, numbers};
use super::device::Device;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;

#[allow(unsafe_code)]
pub(super) mod sys;

/// A queue pair as the other side must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    /// 24 bits.
    pub(super) number: u32,
    /// 24 bits: where its packets begin to count.
    pub(super) first: u32,
    pub(super) mtu: u8,
    /// READs and atomics that it takes, or sends, at a time.
    pub(super) reads: u8,
}

const LOW_24: u64 = (1 << 24) - 1;
const FIRST_SHIFT: u32 = 24;
const MTU_SHIFT: u32 = 48;
const READS_SHIFT: u32 = 56;

impl Endpoint {
    /// As it goes over the wire.
    pub(super) fn words(&self) -> [u64; 4] {
        let gid = u128::from_le_bytes(self.gid);
        let numbers = u64::from(self.number) & LOW_24
            | (u64::from(self.first) & LOW_24) << FIRST_SHIFT
            | u64::from(self.mtu) << MTU_SHIFT
            | u64::from(self.reads) << READS_SHIFT;
        [gid as u64, (gid >> 64) as u64, numbers, u64::from(self.lid)]
    }

    /// Reads it back. `None`: that is no queue pair.
    pub(super) fn from_words([low, high, numbers, lid]: [u64; 4]) -> Option<Self> {
        let gid = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
        let (mtu, reads) = ((numbers >> MTU_SHIFT) as u8, (numbers >> READS_SHIFT) as u8);
        let lid = u16::try_from(lid).ok()?;
        let (number, first) = ((numbers & LOW_24) as u32, (numbers >> FIRST_SHIFT & LOW_24) as u32);
        ((1..=5).contains(&mtu) && reads > 0).then_some(Self { gid, lid, number, first, mtu, reads })
    }
}

/// Bytes that a WRITE carries in its request, if the card lets it: enough for an entry and an unlock.
pub(super) const INLINE_BYTES: u32 = 128;

/// 24 bits that the last queue pair of the same number did not have, as likely as can be: a packet that is late finds
/// nobody.
pub(super) fn drawn() -> u32 {
    (RandomState::new().build_hasher().finish() & 0x00FF_FFFF) as u32
}

/// How long a request waits for its acknowledgement before it is sent again: 4.096 µs << 17, half a second. Seven
/// times, and the memory node is lost.
const TIMEOUT: u8 = 17;
const RETRIES: u8 = 7;
/// A WRITE_WITH_IMM that finds no receive is sent again without end (7); whoever posted it watches the clock.
const RETRIES_NOT_READY: u8 = 7;
/// After how long: 0.64 ms.
const NOT_READY_TIMER: u8 = 12;
/// Routers that a packet may pass.
const HOPS_MAX: u8 = 64;

// `enum ibv_qp_attr_mask`.
const STATE: i32 = 1;
const ACCESS: i32 = 1 << 3;
const PARTITION: i32 = 1 << 4;
const PORT: i32 = 1 << 5;
const PATH: i32 = 1 << 7;
const PATH_MTU: i32 = 1 << 8;
const ACK_TIMEOUT: i32 = 1 << 9;
const RETRY_COUNT: i32 = 1 << 10;
const NOT_READY_COUNT: i32 = 1 << 11;
const FIRST_IN: i32 = 1 << 12;
const READS_OUT: i32 = 1 << 13;
const NOT_READY: i32 = 1 << 15;
const FIRST_OUT: i32 = 1 << 16;
const READS_IN: i32 = 1 << 17;
const OTHER: i32 = 1 << 20;

// `enum ibv_qp_state`.
const INIT: u32 = 1;
const READY_TO_RECEIVE: u32 = 2;
const READY_TO_SEND: u32 = 3;
const ERROR: u32 = 6;

impl sys::Pair {
    /// Describes it to the other side.
    pub(super) fn endpoint(&self, device: &Device, first: u32, reads: u8) -> Endpoint {
        Endpoint { gid: device.gid, lid: device.lid, number: self.number(), first, mtu: device.mtu, reads }
    }

    /// Connects it: from now on it executes what the other side sends.
    pub(super) fn receive_from(&self, device: &Device, other: &Endpoint, reads: u8) -> io::Result<()> {
        let qp_access_flags = numbers::REMOTE_READ | numbers::REMOTE_WRITE | numbers::REMOTE_ATOMIC;
        let init = QpAttr { qp_state: INIT, qp_access_flags, port_num: device.port, ..QpAttr::default() };
        self.modify(init, STATE | PARTITION | PORT | ACCESS)?;
        let ah_attr = AhAttr {
            dgid: other.gid,
            sgid_index: device.gid_index,
            hop_limit: HOPS_MAX,
            dlid: other.lid,
            is_global: u8::from(device.link.is_ethernet()),
            port_num: device.port,
            ..AhAttr::default()
        };
        let ready = QpAttr {
            qp_state: READY_TO_RECEIVE,
            path_mtu: u32::from(other.mtu.min(device.mtu)),
            rq_psn: other.first,
            dest_qp_num: other.number,
            ah_attr,
            max_dest_rd_atomic: reads,
            min_rnr_timer: NOT_READY_TIMER,
            ..QpAttr::default()
        };
        self.modify(ready, STATE | PATH | PATH_MTU | OTHER | FIRST_IN | READS_IN | NOT_READY)
    }

    /// Lets it send, from packet `first` on, once it is connected.
    pub(super) fn send(&self, first: u32, reads: u8) -> io::Result<()> {
        let ready = QpAttr {
            qp_state: READY_TO_SEND,
            sq_psn: first,
            max_rd_atomic: reads,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES_NOT_READY,
            ..QpAttr::default()
        };
        let mask = STATE | ACK_TIMEOUT | RETRY_COUNT | NOT_READY_COUNT | FIRST_OUT | READS_OUT;
        self.modify(ready, mask)
    }

    /// Ends it: when this is `Ok`, whatever arrives for it is dropped, and so are answers to what it sent. `between` is
    /// done when no completion of it is still to come: destroying it forgets those that nobody took.
    ///
    /// # Errors
    /// It can be brought to neither its error state nor its end: then it stands, and the card goes on with it.
    pub(super) fn end(self, between: impl FnOnce()) -> Result<(), (Self, io::Error)> {
        let stopped = self.modify(QpAttr { qp_state: ERROR, ..QpAttr::default() }, STATE);
        between();
        match self.destroy() {
            // It stays in its error state, and takes its memory along.
            Err((pair, _)) if stopped.is_ok() => {
                std::mem::forget(pair);
                Ok(())
            }
            ended => ended,
        }
    }
}

/// What an unsuccessful completion means, and what would help.
pub(super) fn why(status: u32, vendor: u32) -> String {
    // `enum ibv_wc_status`.
    let words = match status {
        1 => "a request was longer than its queue pair allows",
        2 => "the card refuses an operation on this queue pair",
        4 => "the card refuses a local buffer: a bug of Farwood",
        5 => "the queue pair was ended while it was under way",
        7 => "the answer was not what was asked for",
        9 => "the memory node's card takes no such request",
        10 => {
            "the memory node's card refuses the address or its key: it was started anew, or this is a bug of Farwood"
        }
        11 => "the memory node's card could not execute it",
        12 => "the memory node does not answer: it is gone, or no packets come through (`farwood doctor`)",
        13 => "its server takes no messages",
        _ => "the card reports an error",
    };
    format!("{words} (verbs status {status}, vendor {vendor:#x})")
}

const _: () = assert!(LOW_24.count_ones() == FIRST_SHIFT && 2 * FIRST_SHIFT == MTU_SHIFT);
const _: () = assert!(MTU_SHIFT + u8::BITS == READS_SHIFT && READS_SHIFT + u8::BITS == u64::BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_queue_pair_survives_its_words(
            gid in any::<[u8; 16]>(), lid in any::<u16>(), number in 0_u32..1 << 24, first in 0_u32..1 << 24,
            mtu in 1_u8..=5, reads in 1_u8..,
        ) {
            let endpoint = Endpoint { gid, lid, number, first, mtu, reads };
            prop_assert_eq!(Endpoint::from_words(endpoint.words()), Some(endpoint));
        }
    }

    #[test]
    fn words_that_are_no_queue_pair_are_refused() {
        let good = Endpoint { gid: [1; 16], lid: 0, number: 17, first: 4, mtu: 3, reads: 16 }.words();
        assert!(Endpoint::from_words(good).is_some());
        for (at, word) in [
            (2, good[2] & !(0xFF << 48)),
            (2, good[2] | 0xFF << 48),
            (2, good[2] & !(0xFF << 56)),
            (3, 1 << 16),
        ] {
            let mut words = good;
            words[at] = word;
            assert_eq!(Endpoint::from_words(words), None, "word {at}: {word:#x}");
        }
    }

    #[test]
    fn a_memory_node_that_is_gone_is_told_from_a_wrong_key() {
        assert!(why(12, 0).contains("does not answer") && why(10, 0x88).contains("0x88"));
    }
}
