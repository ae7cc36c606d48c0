//! Overflow values: values that are too long for their leaves, which hold a link to them ([`overflow`]).
//!
//! A change writes the parts of the new value before it searches for the leaf of the key, and frees the parts of the
//! old value after the leaf was written or unlinked. A change that stores nothing frees the parts that it has written.
//! The parts of an interrupted operation are lost until the index is dropped.

use super::{Policy, RadixTree};
use crate::error::IndexError;
use crate::marks;
use crate::memory::heap::Kind;
use crate::memory::overflow::{self, Far, Link, RawExtent, VALUE_BYTES_MAX};
use crate::memory::slot::{Room, RoomKind};
use crate::op::Op;
use farwood_fabric::{Fabric, NodeId};
use xxhash_rust::xxh3::xxh3_64;

/// An overflow value that no leaf links yet.
pub(super) struct StoredValue {
    pub(super) link: Link,
    pub(super) parts: Vec<Room<RawExtent>>,
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Writes a value as an overflow value if it is too long for a leaf. [0 RT; 1 if it is]
    pub(super) async fn write_overflow(
        self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<StoredValue>, IndexError> {
        let (tree, client) = (self.index, self.client);
        if key.len() + value.len() <= tree.options.inline_bytes {
            return Ok(None);
        }
        let nodes = u64::from(self.fabric().shape().nodes);
        let near = NodeId((xxh3_64(key) % nodes) as u16);
        let mut parts = Vec::new();
        for length in overflow::lengths(value.len()) {
            match tree.heap.allocate(client, near, overflow::room_kind(length)).await {
                Ok(part) => parts.push(part),
                Err(error) => {
                    tree.free_parts(parts);
                    return Err(error);
                }
            }
        }
        let (link, images) = overflow::lay_out(tree.entry.number, value, &mut parts);
        overflow::write_all(client, &images).await?;
        Ok(Some(StoredValue { link, parts }))
    }

    /// Frees an overflow value that its leaf no longer links. If that fails, the memory is lost until the index is
    /// dropped; the change of the leaf is complete. [0 RT; 1 for a value of several parts]
    pub(super) async fn free_overflow(self, replaced: Option<Link>) {
        let Some(link) = replaced else { return };
        if let Ok(parts) = overflow::rooms_of(self.client, self.index.entry.number, link).await {
            self.index.free_parts(parts);
        }
    }

    /// Reads the overflow value that `link` points to; `None` if it was replaced or removed after the link was read.
    /// [1 RT; 2 for a value of several parts]
    pub(crate) async fn read_overflow(self, link: Link) -> Result<Option<Far>, IndexError> {
        let found = overflow::follow(self.client, self.index.entry.number, link).await?;
        if found.is_none() {
            self.hit(marks::VALUE_MOVED);
        }
        Ok(found)
    }
}

impl<P: Policy> RadixTree<P> {
    pub(super) fn free_parts(&self, parts: Vec<Room<RawExtent>>) {
        for part in parts {
            self.heap.take_back(part);
        }
    }
}

pub(super) fn check_value(value: &[u8]) -> Result<(), IndexError> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(IndexError::TooLong { most: VALUE_BYTES_MAX, found: value.len() })
}

/// Overflow values have their own kind of memory, which differs from those of nodes and leaves.
const _: () = {
    const SLOT: RoomKind = RoomKind { bytes: 64, of: overflow::OF_EXTENTS };
    assert!(SLOT.of == Kind::Extent as u8 && Kind::Leaf as u8 != SLOT.of && Kind::Inner as u8 != SLOT.of);
};
