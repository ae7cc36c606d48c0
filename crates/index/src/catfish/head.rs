//! The head of an index: the root of its tree, the lease of its server, and the connections of its clients.
//!
//! ```text
//! head, the first 64 KiB of the index's first chunk, which lies on the index's memory node
//! +     0     8   root: reference to the root node; stored by the server, read by all clients
//! +     8     8   number of the index
//! +    16     8   entries of the tree, a hint: after a crash, maybe those of the commit before
//! +    24     8   commits of the current server, a hint
//! +    32     8   server: lock word of the compute node that may change the tree, changed by CAS; 0 = none
//! +    40     8   term: the number of servers that the index has had
//! +    48     8   port at which the server accepts requests over an ordinary socket; 0 = none
//! +    56     8   n: the server serves the first n connections only; 0 = all
//! +    64     8   heartbeat of the current server, stored in each interval: its utilisation
//! +    72     8   lookups that the current server has executed, a hint
//! +    80     8   lookups by READs that clients have reported to the current server, a hint
//! +    88    40   zero
//! +   128    24   roots A: root of the R*-tree; root of the tree by id of the same commit; the first word again
//! +   152    40   zero
//! +   192    24   roots B
//! +   216  3880   zero
//! +  4096  8 x n  offsets of the chunks that hold rings, in the order in which they were taken; 0 = none
//! +  8192 32768   512 connections of 64 bytes
//! + 40960   ..    zero
//!
//! connection i
//! +  0   8   owner: lock word of the client's compute node, changed by CAS; 0 = free
//! +  8   8   ask: term << 32 | ticket, incremented by each client that connects, in its last WRITE before it waits
//! + 16   8   inbox: remote pointer, where the client reads responses; 0 = in the connection's own memory
//! + 24   8   open: the ask that the server serves; all bits inverted after the server closed the connection
//! + 32   8   responses consumed, bytes, by the client's WRITE
//! + 40   8   memory: remote pointer to the connection's own memory, stored by the server
//! + 48  16   zero
//!
//! memory of a connection, for rings of r bytes: | requests, r | inbox: heartbeat 8 | zero 56 | responses, r |
//! ```
//!
//! An index with records ([`records`](super::records)) has two trees. The server stores both roots in A or B, the one
//! that has not the current root, and then the root, which each commit changes: so the roots of the current commit are
//! those that begin with the root. It first sets the last word to 0, and then stores the words in ascending order: a
//! copy of the 24 bytes that has the same word at both ends is whole, by the argument of [`layout`](super::layout). A
//! and B are lines of their own, which network cards do not tear.
//!
//! The root is one word: the tree under the root that a client reads was the complete, current tree at the moment of
//! the READ. Memory for rings belongs to its connection while the index exists, because a client of an earlier term may
//! still write into it. A connection changes its owner only when the owner has closed it or is proven to have crashed.

use super::tree::layout::RawNode;
use farwood_fabric::Remote;

/// Bytes of the head.
pub(super) const HEAD_BYTES: u64 = 64 << 10;
/// Connections of an index.
pub const CONNECTIONS_MAX: usize = 512;

/// The head of an index in far memory.
#[derive(Debug)]
pub(super) enum RawHead {}

/// Offsets within the head, bytes.
pub(super) const ROOT: u64 = 0;
pub(super) const INDEX: u64 = 8;
pub(super) const ENTRIES: u64 = 16;
pub(super) const COMMITS: u64 = 24;
pub(super) const SERVER: u64 = 32;
pub(super) const TERM: u64 = 40;
pub(super) const PORT: u64 = 48;
pub(super) const SERVED_CONNECTIONS: u64 = 56;
pub(super) const HEARTBEAT: u64 = 64;
pub(super) const LOOKUPS: u64 = 72;
pub(super) const OFFLOADED: u64 = 80;
/// Offsets of the two places for the roots of both trees.
pub(super) const ROOTS: [u64; 2] = [128, 192];
/// Words of such a place.
pub(super) const ROOTS_WORDS: usize = 3;
/// Bytes from the root to the end of these places.
pub(super) const ROOTS_BYTES: usize = 256;
pub(super) const RING_CHUNKS: u64 = 4096;
pub(super) const RING_CHUNKS_MAX: usize = 512;
pub(super) const CONNECTIONS: u64 = 8192;
pub(super) const CONNECTION_BYTES: u64 = 64;

/// Offsets within a connection, bytes.
pub(super) const OWNER: u64 = 0;
pub(super) const ASK: u64 = 8;
pub(super) const INBOX: u64 = 16;
pub(super) const OPEN: u64 = 24;
pub(super) const CONSUMED: u64 = 32;
pub(super) const MEMORY: u64 = 40;

/// Bits of a connection request that hold the ticket; the others hold the term.
pub(super) const TICKET_BITS: u32 = 32;

/// The value of `open` after the server has closed the connection of `ask`: the next server does not open it again.
pub(super) const fn closed(ask: u64) -> u64 {
    !ask
}

/// Bytes of an inbox before its ring; the first word is the heartbeat.
pub(super) const INBOX_HEAD_BYTES: u64 = 64;

/// A word of a head.
pub(super) fn word_of(head: Remote<RawHead>, offset: u64) -> Remote<u64> {
    head.part(offset)
}

/// Offset of a field of a connection within the head.
pub(super) const fn of_connection(connection: usize, field: u64) -> u64 {
    CONNECTIONS + CONNECTION_BYTES * connection as u64 + field
}

/// The first node slot, directly after the head.
pub(super) fn first_slot(head: Remote<RawHead>) -> Remote<RawNode> {
    head.part(HEAD_BYTES)
}

/// Bytes of a connection's own memory, for rings of `ring_bytes`.
pub(super) const fn connection_memory(ring_bytes: u64) -> u64 {
    2 * ring_bytes + INBOX_HEAD_BYTES
}

/// The root of the tree by id in the first [`ROOTS_BYTES`] of a head, with the root of the R*-tree of the same commit;
/// `None`: the copy is not of one moment.
pub(super) fn roots_of(words: &[u8]) -> Option<(u64, u64)> {
    let word = |offset: u64, at: usize| farwood_fabric::u64_at(words, offset as usize + 8 * at);
    let root = word(ROOT, 0);
    let current = |offset: &&u64| word(**offset, 0) == root && word(**offset, ROOTS_WORDS - 1) == root;
    ROOTS.iter().find(current).map(|&offset| (root, word(offset, 1)))
}

const _: () = assert!(ROOTS[0] > OFFLOADED && ROOTS[1] + 64 <= ROOTS_BYTES as u64);
const _: () = assert!(SERVED_CONNECTIONS + 8 <= 64, "the words that clients read often share a line");
const _: () = assert!(HEAD_BYTES.is_multiple_of(super::tree::layout::LINE_BYTES as u64));
const _: () = assert!(RING_CHUNKS + 8 * RING_CHUNKS_MAX as u64 <= CONNECTIONS);
const _: () = assert!(of_connection(CONNECTIONS_MAX, 0) <= HEAD_BYTES);
const _: () = assert!(MEMORY + 8 <= CONNECTION_BYTES);
