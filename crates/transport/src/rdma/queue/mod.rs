//! Queue pairs: connecting two of them, and the meaning of their completions.
//!
//! # Map
//!
//! ```text
//! the description of a queue pair for the peer: four words
//! + 0   16   GID, in network order
//! +16    8   number << 0 (24 bits) | first PSN << 24 (24) | MTU << 48 (8) | READs and atomics in flight << 56 (8)
//! +24    8   LID << 0 (16 bits), the rest 0
//! ```
//!
//! The MTU is in the encoding of the verbs (1: 256 bytes, 5: 4096); the smaller of two is used.

use super::abi::sys::{AhAttr, QpAttr, numbers};
use super::device::Device;
use std::io;

#[allow(unsafe_code)]
pub(super) mod sys;

/// A queue pair, as it is described to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    /// 24 bits.
    pub(super) number: u32,
    /// 24 bits: the first packet sequence number.
    pub(super) first: u32,
    pub(super) mtu: u8,
    /// READs and atomics that it accepts, or sends, concurrently.
    pub(super) reads: u8,
}

const LOW_24: u64 = (1 << 24) - 1;
const FIRST_SHIFT: u32 = 24;
const MTU_SHIFT: u32 = 48;
const READS_SHIFT: u32 = 56;

impl Endpoint {
    /// Returns the words on the wire.
    pub(super) fn words(&self) -> [u64; 4] {
        assert!(u64::from(self.number.max(self.first)) <= LOW_24, "numbers of 24 bits: {self:?}");
        assert!((1..=5).contains(&self.mtu) && self.reads > 0, "an MTU and concurrent READs: {self:?}");
        let gid = u128::from_le_bytes(self.gid);
        let numbers = u64::from(self.number)
            | u64::from(self.first) << FIRST_SHIFT
            | u64::from(self.mtu) << MTU_SHIFT
            | u64::from(self.reads) << READS_SHIFT;
        [gid as u64, (gid >> 64) as u64, numbers, u64::from(self.lid)]
    }

    /// Decodes the words. `None`: they describe no queue pair.
    pub(super) fn from_words([low, high, numbers, lid]: [u64; 4]) -> Option<Self> {
        let gid = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
        let (mtu, reads) = ((numbers >> MTU_SHIFT) as u8, (numbers >> READS_SHIFT) as u8);
        let lid = u16::try_from(lid).ok()?;
        let (number, first) = ((numbers & LOW_24) as u32, (numbers >> FIRST_SHIFT & LOW_24) as u32);
        ((1..=5).contains(&mtu) && reads > 0).then_some(Self { gid, lid, number, first, mtu, reads })
    }
}

/// Inline bytes of a WRITE, if the device allows it: enough for an entry and an unlock.
pub(super) const INLINE_BYTES: u32 = 128;

/// Returns a random packet sequence number of 24 bits. It differs from that of the last queue pair of the
/// same number with high probability, so that a late packet is dropped.
pub(super) fn random_psn() -> u32 {
    (crate::random_number() & 0x00FF_FFFF) as u32
}

/// The acknowledgement timeout of a request: 4.096 µs << 17, half a second. After seven retries the memory
/// node is lost.
const TIMEOUT: u8 = 17;
const RETRIES: u8 = 7;
/// A WRITE_WITH_IMM without a posted receive is retried without limit (7); the client that posted it applies a time
/// limit.
const RETRIES_NOT_READY: u8 = 7;
/// The pause between such retries: 0.64 ms.
const NOT_READY_TIMER: u8 = 12;
/// The hop limit of a packet.
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

impl sys::QueuePair {
    /// Returns the description for the peer.
    pub(super) fn endpoint(&self, device: &Device, first: u32, reads: u8) -> Endpoint {
        Endpoint { gid: device.gid, lid: device.lid, number: self.number(), first, mtu: device.mtu, reads }
    }

    /// Connects the queue pair: from now on it executes the peer's requests.
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

    /// Enables sending, from packet `first` on, after it is connected.
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

    /// Ends the queue pair: when this returns `Ok`, the device drops arriving requests, and answers to its own
    /// requests. `between` runs when no further completion of it can arrive, because destroying it discards the
    /// remaining ones.
    ///
    /// # Errors
    /// The queue pair can be neither set to its error state nor destroyed: the device continues to serve it.
    pub(super) fn end(self, between: impl FnOnce()) -> Result<(), (Self, io::Error)> {
        let stopped = self.modify(QpAttr { qp_state: ERROR, ..QpAttr::default() }, STATE);
        between();
        match self.destroy() {
            // The queue pair stays in its error state, and keeps its memory.
            Err((pair, _)) if stopped.is_ok() => {
                std::mem::forget(pair);
                Ok(())
            }
            ended => ended,
        }
    }
}

/// Returns the meaning of an unsuccessful completion, and the remedy.
pub(super) fn why(status: u32, vendor: u32) -> String {
    // `enum ibv_wc_status`.
    let words = match status {
        1 => "a request was longer than its queue pair allows",
        2 => "the device refuses an operation on this queue pair",
        4 => "the device refuses a local buffer: a bug of Farwood",
        5 => "the queue pair ended during the request",
        7 => "the answer does not match the request",
        9 => "the memory node's device does not accept the request",
        10 => {
            "the memory node's device refuses the address or its key: it was restarted, or this is a bug of Farwood"
        }
        11 => "the memory node's device could not execute it",
        12 => "the memory node does not answer: it has stopped, or packets are lost (run `farwood doctor`)",
        13 => "its server does not receive messages",
        _ => "the device reports an error",
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
        fn an_endpoint_round_trips(
            gid in any::<[u8; 16]>(), lid in any::<u16>(), number in 0_u32..1 << 24, first in 0_u32..1 << 24,
            mtu in 1_u8..=5, reads in 1_u8..,
        ) {
            let endpoint = Endpoint { gid, lid, number, first, mtu, reads };
            prop_assert_eq!(Endpoint::from_words(endpoint.words()), Some(endpoint));
        }
    }

    #[test]
    fn words_that_describe_no_queue_pair_are_refused() {
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
    fn a_lost_memory_node_and_a_wrong_key_have_different_errors() {
        assert!(why(12, 0).contains("does not answer") && why(10, 0x88).contains("0x88"));
    }
}
