//! The wire protocol of compute nodes and memory nodes, over a stream of bytes. Pure: functions from bytes to bytes.
//!
//! Frames follow each other without gaps. All numbers are little endian. Frames are decoded in the receive buffer;
//! only their execution copies data.
//!
//! # Map
//!
//! ```text
//! every frame, in both directions
//! +  0   4   bytes of the frame, with this header: a multiple of 8, 24 to 1,048,576
//! +  4   1   kind, below
//! +  5   1   code: the control, or the reason of a refusal, failure or end; otherwise 0
//! +  6   2   count: verbs of a request; verbs executed before the one that failed; bytes of a text; otherwise 0
//! +  8   8   tag: chosen by the sender of a request, returned with the answer
//! + 16   8   cut: the highest cut that the sender knows, in requests and their answers; 0: none
//! + 24  ..   body, by kind
//!
//! kind  body                                                                            sent by
//!    1  hello: below. Only as the first frame of a connection                           compute node
//!    2  welcome: below                                                                  memory node
//!    3  refused: a text. The connection ends                                            memory node
//!    4  request: `count` verbs for this memory node, executed in order                  compute node
//!    5  reply: for each READ its bytes, padded to a multiple of 8; for each atomic      memory node
//!       the old word, 8 bytes; for each WRITE nothing
//!    6  failed: `count` verbs were executed, and the next one failed; the body is        memory node
//!       the reply to the executed ones
//!    7  control: selected by `code`; four words                                          compute node
//!    8  answer to a control: code 0 and four words, or another code and a text          memory node
//!    9  goodbye: everything before it was answered; the connection ends                 memory node
//!   10  challenge: the answer to a hello, if a token is required                         memory node
//!   11  proof: the answer to a challenge                                                 compute node
//!
//! hello, 80 bytes
//! +  0   8   magic "FARWIRE\0"
//! +  8   4   version, 4
//! + 12   4   0
//! + 16   8   identity of the pool; 0: any
//! + 24   2   number of the memory node in it; 65535: any
//! + 26   2   1: the next two fields identify a client; 0: none yet
//! + 28   2   slot of the client table
//! + 30   2   1: the client has a token, and the next nonce is random; 0: it has none
//! + 32   4   epoch of the slot
//! + 36   4   0
//! + 40   8   connection number: of several connections with the same identity and number, the newest is valid
//! + 48  32   nonce of the compute node, or 0
//!
//! challenge, 32 bytes: nonce of the memory node. Only if the memory node requires a token
//! proof, 32 bytes: HMAC-SHA256 of "farwood compute node" and both nonces, the compute node's first; the key is the
//! token
//!
//! welcome, 88 bytes
//! +  0   8   magic "FARWIRE\0"
//! +  8   4   version, 4
//! + 12   1   0: no pool yet, 1: part of a pool that is being formed, 2: part of a complete pool, 3: its last changes
//!            are lost, 4: it has returned to a cut and waits for the others
//! + 13   1   1: it begins cuts if its pool has several memory nodes (`--durability interval`); 0: it does not
//! + 14   2   0
//! + 16   8   identity of the pool, or 0
//! + 24   2   number of this memory node, or 0
//! + 26   2   memory nodes of the pool, or 0
//! + 28   4   0: the token permits everything, or none is required; 1: it permits only READs, CountConnections and Stat
//! + 32   8   host memory, bytes
//! + 40   8   device memory, bytes
//! + 48   8   incarnation: random for fresh memory; renewed after a crash, and when the fences are cleared
//! + 56  32   proof of the memory node: as above, of "farwood memory node"; 0 if it requires no token
//!
//! verb, 16 bytes and its operands
//! +  0   1   1 READ, 2 WRITE, 3 WRITE_WITH_IMM, 4 CAS, 5 masked CAS, 6 FAA
//! +  1   3   0
//! +  4   4   bytes that it reads or writes; 8 for atomics
//! +  8   8   remote pointer
//! + 16  ..   WRITE: the bytes, padded to a multiple of 8
//!            WRITE_WITH_IMM: the immediate, 8 bytes, then as WRITE
//!            CAS: compare 8, swap 8
//!            masked CAS: compare 8, its mask 8, swap 8, its mask 8
//!            FAA: add 8
//! ```

mod frame;
mod greeting;
mod numbers;
mod request;
#[cfg(test)]
mod tests;

pub use frame::{CUT_WORD, Frame, Malformed, header_words, put_cut, put_frame, put_text, put_words};
pub use greeting::{Formation, GreetingError, Hello, LogKind, Welcome, nonce_of};
pub use numbers::{Code, Control, FrameKind};
pub use request::{RequestFrame, Verbs, WireOp, WireVerb};

/// "FARWIRE\0", read as a little-endian word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FARWIRE\0");
/// The version of the formats above.
pub const VERSION: u32 = 5;
/// Bytes of the largest frame. Bounds the memory that a connection takes on either side.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 24;
/// Bytes of a verb without its operands.
pub const VERB_BYTES: usize = 16;
/// Bytes of the largest READ or WRITE of one verb; four fit into a frame with their headers.
pub const VERB_DATA_MAX: usize = 240 << 10;
/// The third word of [`Control::Fence`] if the client fences itself, because it leaves.
pub const FENCED_BY_ITSELF: u64 = 1;
/// The number of an unknown node.
pub const ANY_NODE: u16 = u16::MAX;

const _: () = assert!(HEADER_BYTES + 4 * (VERB_BYTES + 8 + VERB_DATA_MAX) <= FRAME_BYTES_MAX);
const _: () = assert!(VERB_DATA_MAX.is_multiple_of(8) && FRAME_BYTES_MAX.is_multiple_of(8));
