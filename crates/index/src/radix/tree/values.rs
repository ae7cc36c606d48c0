//! Values that are too long for their leaves: overflow values behind a link ([`overflow`]).

use super::{Policy, Tree};
use crate::error::IndexError;
use crate::memory::heap::Kind;
use crate::memory::overflow::{self, Far, Link, RawExtent, VALUE_BYTES_MAX};
use crate::memory::overflow_store::{self, OverflowMemory, UnlinkedValue};
use crate::memory::slot::{Room, RoomKind};
use farwood_fabric::{Client, Fabric, NodeId};
use xxhash_rust::xxh3::xxh3_64;

/// The memory of a tree, for overflow values on memory node `near`.
struct TreeMemory<'a, F, P: Policy> {
    tree: &'a Tree<P>,
    client: &'a Client<F>,
    near: NodeId,
}

impl<F: Fabric, P: Policy> OverflowMemory for TreeMemory<'_, F, P> {
    fn index(&self) -> u64 {
        self.tree.entry.number
    }

    async fn allocate(&self, kind: RoomKind) -> Result<Room<RawExtent>, IndexError> {
        self.tree.heap.allocate(self.client, self.near, kind).await
    }

    fn take_back(&self, slot: Room<RawExtent>) {
        self.tree.heap.take_back(slot);
    }
}

impl<P: Policy> Tree<P> {
    fn memory<'a, F: Fabric>(&'a self, client: &'a Client<F>, near: NodeId) -> TreeMemory<'a, F, P> {
        TreeMemory { tree: self, client, near }
    }

    /// Stores a value out of line if it is too long for a leaf. [0 RT; 1 if it is]
    pub(super) async fn stow<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<UnlinkedValue>, IndexError> {
        if key.len() + value.len() <= self.options.inline_bytes {
            return Ok(None);
        }
        let nodes = u64::from(client.fabric().shape().nodes);
        let near = NodeId((xxh3_64(key) % nodes) as u16);
        overflow_store::store(client, &self.memory(client, near), value).await.map(Some)
    }

    /// Frees an overflow value that no leaf links.
    pub(super) fn give_back<F: Fabric>(&self, client: &Client<F>, value: UnlinkedValue) {
        value.free(&self.memory(client, NodeId(0)));
    }

    /// Frees the overflow value that a leaf does not link any more. Failure loses its slots until the index is dropped;
    /// the change is complete all the same. [0 RT; 1 for a value of several parts]
    pub(super) async fn unlink<F: Fabric>(&self, client: &Client<F>, replaced: Option<Link>) {
        overflow_store::free(client, &self.memory(client, NodeId(0)), replaced).await;
    }

    /// Reads the value behind `link`; returns `None` if it was replaced or removed after the link was read. [1 RT; 2
    /// for a value of several parts]
    pub(crate) async fn far_value<F: Fabric>(
        &self,
        client: &Client<F>,
        link: Link,
    ) -> Result<Option<Far>, IndexError> {
        overflow_store::read(client, self.entry.number, link).await
    }
}

pub(super) fn check_value(value: &[u8]) -> Result<(), IndexError> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(IndexError::TooLong { most: VALUE_BYTES_MAX, found: value.len() })
}

/// Slots of overflow values have another kind than those of nodes and leaves.
const _: () = {
    const KIND: u8 = overflow::OF_EXTENTS;
    assert!(KIND == Kind::Extent as u8 && Kind::Leaf as u8 != KIND && Kind::Inner as u8 != KIND);
};
