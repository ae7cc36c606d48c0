//! Masked compare-and-swap on mlx5 devices: a raw work request. **It has not been verified on hardware**, so it is
//! posted only if the user requests it by name (`docs/rdma.md`), the device reports that it has it, and a
//! [test](super::atomics_probe) on memory of this process succeeds.
//!
//! rdma-core has no verb for it; it needs a raw request of 80 bytes for `mlx5dv_wr_raw_wqe`. Opcode and segments are
//! those of `mlx5dv.h`; the operation modifier, the masked segment and the query for atomics, which are not in that
//! header, follow the kernel and UCX. `sys.rs` is the unsafe half.
//!
//! # Map
//!
//! The request:
//!
//! ```text
//! all numbers are big endian
//! +  0   4   modifier 9 << 24 (extended atomic, 8 bytes) | index << 8, set by the driver | opcode 0x14
//! +  4   4   number of the queue pair << 8 | 5 units of 16 bytes
//! +  8   3   0
//! + 11   1   fence << 5 | completion << 2
//! + 12   4   0
//! + 16   8   address at the memory node
//! + 24   4   its key
//! + 28   4   0
//! + 32   8   new bits
//! + 40   8   expected bits
//! + 48   8   which bits are replaced
//! + 56   8   which bits are compared
//! + 64   4   8: bytes of the answer
//! + 68   4   key of the memory for the answer
//! + 72   8   its address
//! ```
//!
//! The query (`QUERY_HCA_CAP`), and the relevant fields of its answer:
//!
//! ```text
//! +  0   2   0x100
//! +  6   2   atomics << 1 | current values: 7
//!
//! +  0   1   status; 0 is success
//! + 24   1   byte order of 8-byte answers, in its upper two bits; not 0: that of the host
//! + 34   2   operations: 1 CAS, 2 fetch-and-add, 4 masked CAS, 8 masked fetch-and-add
//! + 38   2   sizes, a bit for each in bytes: 8
//! ```

#[allow(unsafe_code)]
pub(super) mod sys;

use zerocopy::big_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes, Unaligned};

/// Bytes of the request: five units of 16.
pub(super) const REQUEST_BYTES: usize = 80;
/// Minimum inline size of a queue pair for such requests, although none of them is inline.
///
/// libmlx5 divides a send queue into strides, each as long as the longest declared request, and counts a raw
/// request as one, whatever its length. Only plain atomics are declared: their three segments and an answer
/// fit one stride of 64 bytes, so a raw request would overlap the next one, or in a queue of one its own
/// beginning. With inline data of this length the stride is 192 bytes.
pub(super) const INLINE_BYTES_MIN: u32 = REQUEST_BYTES as u32;
/// `MLX5_OPCODE_ATOMIC_MASKED_CS`
pub(super) const OPCODE: u32 = 0x14;
/// Extended atomic, log2 of its bytes less 2.
const MODIFIER: u32 = 8 | (3 - 2);
/// `MLX5_WQE_CTRL_FENCE`: wait for earlier READs and atomics.
pub(super) const FENCE: u8 = 4 << 5;
/// `MLX5_WQE_CTRL_CQ_UPDATE`: with a completion.
pub(super) const COMPLETION: u8 = 2 << 2;

/// A masked compare-and-swap to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaskedCasRequest {
    /// Number of the queue pair, 24 bits.
    pub(super) queue_pair: u32,
    /// Whether it waits for earlier READs and atomics.
    pub(super) fenced: bool,
    /// Whether it makes a completion.
    pub(super) signalled: bool,
    /// Address and key at the memory node.
    pub(super) remote: (u64, u32),
    /// Expected bits and their mask.
    pub(super) compare: (u64, u64),
    /// New bits and their mask.
    pub(super) swap: (u64, u64),
    /// Address and key of the word that receives the answer.
    pub(super) answer: (u64, u32),
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    opcode: U32,
    queue_pair: U32,
    zero: [u8; 3],
    flags: u8,
    immediate: U32,
    address: U64,
    key: U32,
    zero_too: U32,
    swap: U64,
    compare: U64,
    swap_mask: U64,
    compare_mask: U64,
    answer_bytes: U32,
    answer_key: U32,
    answer_address: U64,
}

impl MaskedCasRequest {
    /// Returns the bytes of the request.
    pub(super) fn bytes(&self) -> [u8; REQUEST_BYTES] {
        let units = (REQUEST_BYTES / 16) as u32;
        let fence = if self.fenced { FENCE } else { 0 };
        let completion = if self.signalled { COMPLETION } else { 0 };
        zerocopy::transmute!(Layout {
            opcode: U32::new(MODIFIER << 24 | OPCODE),
            queue_pair: U32::new(self.queue_pair << 8 | units),
            zero: [0; 3],
            flags: fence | completion,
            immediate: U32::ZERO,
            address: U64::new(self.remote.0),
            key: U32::new(self.remote.1),
            zero_too: U32::ZERO,
            swap: U64::new(self.swap.0),
            compare: U64::new(self.compare.0),
            swap_mask: U64::new(self.swap.1),
            compare_mask: U64::new(self.compare.1),
            answer_bytes: U32::new(8),
            answer_key: U32::new(self.answer.1),
            answer_address: U64::new(self.answer.0),
        })
    }
}

/// The query for the device's atomics.
pub(super) const QUESTION: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0];
/// Bytes of the answer.
pub(super) const ANSWER_BYTES: usize = 16 + 4096;

const MASKED_CAS: u16 = 4;
const WORDS_OF_8: u16 = 8;

/// Checks that a device with this answer has masked compare-and-swap.
///
/// # Errors
/// The reason why the device lacks masked compare-and-swap.
pub(super) fn check(answer: &[u8; ANSWER_BYTES]) -> Result<(), &'static str> {
    let half = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
    if answer[0] != 0 {
        return Err("it does not report its atomics");
    }
    if half(34) & MASKED_CAS == 0 || half(38) & WORDS_OF_8 == 0 {
        return Err("it has no masked compare-and-swap of 8 bytes");
    }
    if answer[24] >> 6 == 0 {
        return Err("it answers atomics in network order");
    }
    Ok(())
}

/// Returns the bytes of a stride in a send queue of reliable connections whose requests have one memory
/// segment, or `inline` bytes in its place: control, address and atomic segment, and one of the two, in units
/// of 64.
const fn stride(inline: u32) -> u32 {
    let (segments, piece, data) = (3 * 16, 16, (4 + inline).next_multiple_of(16));
    (segments + if data > piece { data } else { piece }).next_multiple_of(64)
}

const _: () = assert!(size_of::<Layout>() == REQUEST_BYTES);
const _: () = assert!(stride(0) < REQUEST_BYTES as u32 && stride(INLINE_BYTES_MIN) >= REQUEST_BYTES as u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_offset() {
        let request = MaskedCasRequest {
            queue_pair: 0x0012_3456,
            fenced: true,
            signalled: true,
            remote: (0x0102_0304_0506_0708, 0xA1A2_A3A4),
            compare: (0x11, 0xFF),
            swap: (0x2200, 0xFF00),
            answer: (0x7F00_0000_1000, 0xB1B2_B3B4),
        };
        let bytes = request.bytes();
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((word(0), word(4), bytes[11], word(12)), (0x0900_0014, 0x1234_5605, 0x88, 0));
        assert_eq!((long(16), word(24), word(28)), (0x0102_0304_0506_0708, 0xA1A2_A3A4, 0));
        assert_eq!([long(32), long(40), long(48), long(56)], [0x2200, 0x11, 0xFF00, 0xFF]);
        assert_eq!((word(64), word(68), long(72)), (8, 0xB1B2_B3B4, 0x7F00_0000_1000));
        let silent = MaskedCasRequest { fenced: false, signalled: false, ..request }.bytes();
        assert_eq!(silent[11], 0);
    }

    #[test]
    fn only_a_device_that_reports_it_has_masked_cas() {
        let mut answer = [0; ANSWER_BYTES];
        let why = |answer: &[u8; ANSWER_BYTES]| check(answer).unwrap_err();
        assert!(why(&answer).contains("no masked"));
        (answer[35], answer[39]) = (0b1111, 0b1100);
        assert!(why(&answer).contains("network order"));
        answer[24] = 0b0100_0000;
        assert_eq!(check(&answer), Ok(()));
        assert!(
            why(&{
                let mut other = answer;
                other[35] = 0b1011;
                other
            })
            .contains("no masked")
        );
        assert!(
            why(&{
                let mut other = answer;
                other[39] = 0b0100;
                other
            })
            .contains("no masked")
        );
        answer[0] = 1;
        assert!(why(&answer).contains("does not report"));
    }
}
