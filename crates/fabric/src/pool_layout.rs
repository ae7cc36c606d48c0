//! Offsets and sizes of everything in a memory node's first chunk.
//!
//! ```text
//! offset   bytes   host memory of every memory node
//!      0      64   unused (offset 0 means "none")
//!     64      64   header, written before clients can reach the node         -> superblock.rs
//!    128       8   next chunk: the first chunk never taken, a sealed word     -> chunks.rs
//!    136       8   next index number, a sealed word          (node 0 only)
//!    144       8   directory lock, a lock word               (node 0 only)
//!    152       8   limit: the number of chunks that are used, a sealed word, or 0 -> chunk_limit.rs
//!    160      96   zero
//!    256   16384   directory: 64 entries of 256 bytes        (node 0 only)  -> directory.rs
//!  16640   16128   zero
//!  32768  262144   client table: 4096 slots of 64 bytes      (node 0 only)  -> client_table.rs
//! 294912  8 x n    chunk table: one word per chunk                          -> chunks.rs
//!   4 MiB  262144  lock table in host memory: 32768 words, for indexes that do not use device memory
//!   5 MiB   1 MiB  reserved for the transport
//!   8 MiB   ...    chunk 1; everything above lies in chunk 0
//! ```

use crate::ids::CLIENTS_MAX;
use crate::pointer::{Memory, NodeId, Packed, Remote};

/// Version of the map above, and of every map that it refers to.
pub const LAYOUT_VERSION: u32 = 2;

/// Bytes of a chunk (Sherman §4.2.4).
pub const CHUNK_BYTES: u64 = 8 << 20;

/// Offset of the header, bytes.
pub const HEADER_OFFSET: u64 = 64;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;

/// Offset of the number of the first chunk that was never taken, bytes.
pub(crate) const NEXT_CHUNK_OFFSET: u64 = 128;
/// Offset of the number of the next index, bytes.
pub(crate) const NEXT_INDEX_OFFSET: u64 = 136;

/// Offset of the directory's lock word, bytes.
pub(crate) const DIRECTORY_LOCK_OFFSET: u64 = 144;
/// Offset of the number of chunks that clients take, bytes.
pub(crate) const CHUNK_LIMIT_OFFSET: u64 = 152;
/// Offset of the directory, bytes.
pub(crate) const DIRECTORY_OFFSET: u64 = 256;
/// Entries of the directory: one bit each in a client's slot.
pub const DIRECTORY_ENTRIES: usize = 64;
/// Bytes of a directory entry.
pub const DIRECTORY_ENTRY_BYTES: usize = 256;

/// The state of a directory entry without an index.
pub(crate) const DIRECTORY_FREE: u64 = 0;

/// Offset of the client table, bytes.
pub(crate) const CLIENT_TABLE_OFFSET: u64 = 32 << 10;
/// Bytes of a slot of the client table.
pub const CLIENT_SLOT_BYTES: usize = 64;

/// Offset of the chunk table, bytes.
pub(crate) const CHUNK_TABLE_OFFSET: u64 = 294_912;

/// Offset of the lock table in host memory, bytes.
pub const HOST_LOCKS_OFFSET: u64 = 4 << 20;
/// Bytes of the lock table in host memory: as many words as a ConnectX-5's device memory holds.
pub const HOST_LOCKS_BYTES: u64 = 256 << 10;

/// Offset of the memory that is reserved for the transport, bytes.
pub const TRANSPORT_OFFSET: u64 = 5 << 20;
/// Bytes that are reserved for the transport.
pub const TRANSPORT_BYTES: u64 = 1 << 20;

/// Smallest host memory of a node, bytes: the superblock's chunk and one to use.
pub const HOST_BYTES_MIN: u64 = 2 * CHUNK_BYTES;
/// Largest host memory of a node, bytes: the limit of the chunk table or of packed pointers, whichever is less.
pub(crate) const HOST_BYTES_MAX: u64 = {
    let by_table = (HOST_LOCKS_OFFSET - CHUNK_TABLE_OFFSET) / 8 * CHUNK_BYTES;
    let by_packed = Packed::<u64>::BYTES_MAX;
    if by_table < by_packed { by_table } else { by_packed }
};
/// Default device memory of a node, bytes: that of a ConnectX-5 (Sherman §4.3).
pub const DEVICE_BYTES_DEFAULT: u64 = 256 << 10;

/// Returns the pointer to the word at `offset` of a memory node's first chunk.
pub(crate) const fn word(node: NodeId, offset: u64) -> Remote<u64> {
    match Remote::new(node, Memory::Host, offset) {
        Some(word) => word,
        None => panic!("the header lies above offset 0"),
    }
}

const _: () = assert!(HEADER_OFFSET + HEADER_BYTES as u64 == NEXT_CHUNK_OFFSET);
const _: () = assert!(NEXT_CHUNK_OFFSET + 8 == NEXT_INDEX_OFFSET);
const _: () = assert!(NEXT_INDEX_OFFSET + 8 == DIRECTORY_LOCK_OFFSET);
const _: () = assert!(DIRECTORY_LOCK_OFFSET + 8 == CHUNK_LIMIT_OFFSET);
const _: () = assert!(CHUNK_LIMIT_OFFSET + 8 <= DIRECTORY_OFFSET);
const _: () =
    assert!(DIRECTORY_OFFSET + (DIRECTORY_ENTRIES * DIRECTORY_ENTRY_BYTES) as u64 <= CLIENT_TABLE_OFFSET);
const _: () = assert!(DIRECTORY_ENTRIES <= u64::BITS as usize, "a client's slot has one bit per entry");
const _: () = assert!(CLIENT_TABLE_OFFSET + (CLIENTS_MAX * CLIENT_SLOT_BYTES) as u64 == CHUNK_TABLE_OFFSET);
const _: () = assert!(CHUNK_TABLE_OFFSET.is_multiple_of(8));
const _: () = assert!(HOST_LOCKS_OFFSET + HOST_LOCKS_BYTES <= TRANSPORT_OFFSET);
const _: () = assert!(TRANSPORT_OFFSET + TRANSPORT_BYTES <= CHUNK_BYTES);
