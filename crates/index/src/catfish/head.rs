//! The head of an index: where its tree begins, and who may change it.
//!
//! ```text
//! head, the first 4096 bytes of the index's first chunk, which lies on the index's memory node
//! +  0   8   root: reference to the root node; stored by the server, read by everybody
//! +  8   8   number of the index
//! + 16   8   entries of the tree, a hint
//! + 24   8   commits since the server came, a hint
//! + 32   8   server: lock word of the compute node that may change the tree, changed by CAS; 0 = nobody
//! + 40   ..  zero
//! ```
//!
//! The root is one word: what a client reads is the root of one tree that was, whole, at one moment.

use super::layout::RawNode;
use farwood_fabric::Remote;

/// Bytes of the head.
pub(super) const HEAD_BYTES: u64 = 4096;

/// The head of an index in far memory.
#[derive(Debug)]
pub(super) enum RawHead {}

/// Offsets within it, bytes.
pub(super) const ROOT: u64 = 0;
pub(super) const INDEX: u64 = 8;
pub(super) const ENTRIES: u64 = 16;
pub(super) const COMMITS: u64 = 24;
pub(super) const SERVER: u64 = 32;

/// A word of a head.
pub(super) fn word_of(head: Remote<RawHead>, offset: u64) -> Remote<u64> {
    head.part(offset)
}

/// The first room behind a head.
pub(super) fn first_room(head: Remote<RawHead>) -> Remote<RawNode> {
    head.part(HEAD_BYTES)
}

const _: () = assert!(SERVER + 8 <= 64, "what is read often shares a line");
const _: () = assert!(HEAD_BYTES.is_multiple_of(super::layout::LINE_BYTES as u64));
