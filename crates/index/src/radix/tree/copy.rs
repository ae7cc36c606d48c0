//! Copies of inner nodes and leaves, and the proof that a copy, with its reverse pointer, is of a single object.
//!
//! Memory is reused at once, so that a READ may return a part of an earlier object and a part of the current one. The
//! reverse pointer changes by a separate CAS, so no checksum can cover it. It lies between the *front* of the object,
//! the word that counts the objects that used the memory, and a word that is salted with the front: the checksum of a
//! leaf, or the hash of an inner node. The WRITE of a new object places these words in that order. So the reverse
//! pointer belongs to the object
//!
//! - if equal versions at both ends prove that no WRITE overlapped the READ ([`Capability::VersionPair`]): the front is
//!   one of the pair, the word salted with it is the other;
//! - if the fabric reads whole lines and the three words are in one line, as they are in all slots that are larger than
//!   what such a pair proves ([`Heap`](crate::radix::heap::Heap)), and in all typed nodes. The bytes after them are
//!   proven separately: those of a leaf by its checksum, those of a node with a slot for each byte by the generation in
//!   a slot without a child and by the reverse pointer of a child. A search of a typed node passes over the children of
//!   other keys, which prove nothing. So its last slot must have no child, and the order of the READ must make that
//!   slot and the front a pair, or the front is read before and after the node;
//! - otherwise, if the front has the same value before and after the READ.

use crate::error::IndexError;
use crate::radix::inner::{Inner, InnerRef, NodeHeader, RawInner};
use crate::radix::leaf::{Leaf, LeafRef, RawLeaf};
use crate::radix::slot::NodeSlot;
use farwood_fabric::{
    Capabilities, Capability, Checked, Client, Fabric, Read, Remote, Words, all, read, read_bytes, u64_at,
};

/// Bytes of the front, the reverse pointer and the word that is salted with the front.
const FRONT_BYTES: u64 = 24;
/// Bytes of a line.
const LINE_BYTES: u64 = 64;

/// A copy of an inner node that was just read.
pub(crate) type InnerCopy = Inner<Checked<RawInner>>;
/// A copy of a leaf that was just read.
pub(crate) type LeafCopy = Leaf<Checked<RawLeaf>>;

/// The bytes of an object that a client reads, and whether its last word proves that the copy is of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) bytes: usize,
    pub(crate) has_rear: bool,
}

impl InnerRef {
    /// The bytes of the slots in use.
    #[inline]
    pub(crate) fn extent(self) -> Extent {
        Extent { bytes: self.size.bytes(), has_rear: !self.size.is_typed() }
    }

    /// The node with all slots that it has memory for.
    pub(crate) fn whole(self) -> Self {
        Self { size: self.size.largest_in_place(), ..self }
    }
}

impl LeafRef {
    /// The bytes of the leaf.
    #[inline]
    pub(crate) fn extent(self) -> Extent {
        Extent { bytes: self.class.bytes(), has_rear: true }
    }
}

/// Whether a copy of an object at `at` that passes its check is proven to be of one object.
#[inline]
pub(crate) fn proves<T: ?Sized>(promised: &Capabilities, at: Remote<T>, extent: Extent) -> bool {
    let has_pair = extent.has_rear && promised.has(Capability::VersionPair(extent.bytes));
    has_pair || in_one_line(promised, at.address().offset())
}

/// Whether a copy of the front, the reverse pointer and the word that is salted with the front is proven to be of one
/// object.
#[inline]
pub(super) fn proves_front<T: ?Sized>(promised: &Capabilities, at: Remote<T>) -> bool {
    promised.has(Capability::VersionPair(FRONT_BYTES as usize))
        || in_one_line(promised, at.address().offset())
}

fn in_one_line(promised: &Capabilities, offset: u64) -> bool {
    promised.whole_bytes as u64 >= LINE_BYTES && offset % LINE_BYTES + FRONT_BYTES <= LINE_BYTES
}

/// Whether the order of a READ makes the first and the last word of an object a pair.
#[inline]
pub(crate) fn is_ordered(promised: &Capabilities, extent: Extent) -> bool {
    extent.has_rear || promised.has(Capability::VersionPair(extent.bytes))
}

/// Whether the last word of a copy that passed its check is of the same object as its front: the rear of an object, or
/// a slot of a typed node that has no child, and so has the generation of the node. A copy of a typed node that lacks
/// slots in use is no proof of anything, and is read again.
#[inline]
pub(crate) fn ends_with_object(extent: Extent, copy: &[u8]) -> bool {
    let lacks_slots = || NodeHeader::from_word(front_of(copy)).size().bytes() > copy.len();
    extent.has_rear || !NodeSlot::from_word(u64_at(copy, copy.len() - 8)).is_occupied() || lacks_slots()
}

/// The READ of header, reverse pointer and hash of an inner node.
pub(crate) fn read_front(node: Remote<RawInner>) -> Read<Words> {
    read_bytes(node.part(0), FRONT_BYTES as usize)
}

/// The front of a copy.
#[inline]
pub(crate) fn front_of(bytes: &[u8]) -> u64 {
    u64_at(bytes, 0)
}

/// Reads the fronts of several objects. [1 RT]
pub(crate) async fn fronts<F: Fabric, T: ?Sized>(
    client: &Client<F>,
    objects: impl Iterator<Item = Remote<T>>,
) -> Result<Vec<u64>, IndexError> {
    words(client, objects.map(|at| at.part(0))).await
}

/// Reads several words. [1 RT]
pub(crate) async fn words<F: Fabric>(
    client: &Client<F>,
    addresses: impl Iterator<Item = Remote<u64>>,
) -> Result<Vec<u64>, IndexError> {
    let words = client.post(all(addresses.map(read))).await?;
    Ok(words.map(farwood_fabric::Fetched::<u64>::whole_word).collect())
}
