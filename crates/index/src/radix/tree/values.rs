//! Overflow values: values that are too long for their leaves, which hold a link to them ([`overflow`]).

use super::{Policy, RadixTree};
use crate::error::IndexError;
use crate::memory::adopt::SLOT_BYTES_MAX;
use crate::memory::overflow::{self, Link, OverflowValue, RawOverflow, VALUE_BYTES_MAX};
use crate::memory::overflow_store::{self, OverflowMemory, UnlinkedValue};
use crate::memory::slot::{MemorySlot, SlotKind};
use crate::op::Op;
use crate::radix::heap::ObjectKind;
use crate::radix::leaf::{LeafEntry, LeafValue};
use farwood_fabric::{Fabric, NodeId};
use xxhash_rust::xxh3::xxh3_64;

/// The value of a new entry, and the overflow value that holds it if it is too long for a leaf.
pub(super) struct NewLeafValue<'v> {
    value: &'v [u8],
    overflow: Option<UnlinkedValue>,
}

impl NewLeafValue<'_> {
    /// The entry of `key` with this value.
    pub(super) fn entry<'e>(&'e self, key: &'e [u8]) -> LeafEntry<'e> {
        let value = match &self.overflow {
            Some(overflow) => LeafValue::Overflow(overflow.link),
            None => LeafValue::Inline(self.value),
        };
        LeafEntry { key, value }
    }
}

/// The memory of a tree, for overflow values on memory node `near`.
struct TreeMemory<'a, F, P: Policy> {
    op: Op<'a, F, RadixTree<P>>,
    near: NodeId,
}

impl<F: Fabric, P: Policy> OverflowMemory for TreeMemory<'_, F, P> {
    fn index(&self) -> u64 {
        self.op.index.entry.number
    }

    async fn allocate(&self, kind: SlotKind) -> Result<MemorySlot<RawOverflow>, IndexError> {
        self.op.index.heap.allocate(self.op.client, self.near, kind).await
    }

    fn take_at_most(&self, kind: SlotKind) -> Option<MemorySlot<RawOverflow>> {
        self.op.index.heap.reuse_at_most(self.op.client, self.near, kind)
    }

    fn take_larger(&self, kind: SlotKind) -> Option<MemorySlot<RawOverflow>> {
        self.op.index.heap.reuse_larger(self.op.client, self.near, kind, SLOT_BYTES_MAX as u32)
    }

    fn convert<T>(&self, slot: MemorySlot<RawOverflow>, kind: SlotKind) -> MemorySlot<T> {
        self.op.index.heap.convert(slot, kind)
    }

    fn add_rests(&self, rests: Vec<MemorySlot<RawOverflow>>) {
        for rest in rests {
            self.op.index.heap.take_back(rest);
        }
    }

    fn take_back(&self, slot: MemorySlot<RawOverflow>) {
        self.op.index.heap.take_back(slot);
    }
}

impl<'a, F: Fabric, P: Policy> Op<'a, F, RadixTree<P>> {
    fn memory(self, near: NodeId) -> TreeMemory<'a, F, P> {
        TreeMemory { op: self, near }
    }

    /// Allocates a slot for a node or a leaf; if the pool is full, a larger slot of at most `bytes_max` bytes, or the
    /// front of a slot of overflow values.
    /// [as [`Heap::allocate`](crate::radix::heap::Heap::allocate); 1 RT more to divide a slot]
    pub(super) async fn fitting_memory<T>(
        self,
        near: NodeId,
        kind: SlotKind,
        bytes_max: u32,
    ) -> Result<MemorySlot<T>, IndexError> {
        match self.index.heap.allocate_fitting(self.client, near, kind, bytes_max).await {
            Err(error) if error.is_full() => {
                overflow_store::divide_for(self.client, &self.memory(near), kind).await?.ok_or(error)
            }
            allocated => allocated,
        }
    }

    /// Writes a value as an overflow value if it is too long for a leaf. [0 RT; 1 if it is]
    pub(super) async fn write_overflow(
        self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<UnlinkedValue>, IndexError> {
        if key.len() + value.len() <= self.index.options.inline_bytes {
            return Ok(None);
        }
        let nodes = u64::from(self.fabric().shape().nodes);
        let near = NodeId((xxh3_64(key) % nodes) as u16);
        overflow_store::store(self.client, &self.memory(near), value).await.map(Some)
    }

    /// Prepares the value of a new entry. [0 RT; 1 for an overflow value]
    pub(super) async fn new_value<'v>(
        self,
        key: &[u8],
        value: &'v [u8],
    ) -> Result<NewLeafValue<'v>, IndexError> {
        check_value(value)?;
        Ok(NewLeafValue { value, overflow: self.write_overflow(key, value).await? })
    }

    /// Frees a new overflow value unless a leaf links it, as `links` says of the result of the change. Returns that
    /// result.
    pub(super) fn linked<T>(
        self,
        new: NewLeafValue<'_>,
        changed: Result<T, IndexError>,
        links: impl FnOnce(&T) -> bool,
    ) -> Result<T, IndexError> {
        let is_linked = match &changed {
            Ok(changed) => links(changed),
            Err(error) => error.may_be_written(),
        };
        if let Some(overflow) = new.overflow
            && !is_linked
        {
            self.free_unlinked(overflow);
        }
        changed
    }

    /// Frees an overflow value that no leaf links.
    fn free_unlinked(self, value: UnlinkedValue) {
        value.free(&self.memory(NodeId(0)));
    }

    /// Frees an overflow value that its leaf no longer links. If that fails, the memory is lost until the index is
    /// dropped; the change of the leaf is complete. [0 RT; 1 for a value of several parts]
    pub(super) async fn free_overflow(self, replaced: Option<Link>) {
        overflow_store::free(self.client, &self.memory(NodeId(0)), replaced).await;
    }

    /// Reads the overflow value that `link` points to; `None` if it was replaced or removed after the link was read.
    /// [1 RT; 2 for a value of several parts]
    pub(crate) async fn read_overflow(self, link: Link) -> Result<Option<OverflowValue>, IndexError> {
        overflow_store::read(self.client, self.index.entry.number, link).await
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
    const KIND: u8 = overflow::OVERFLOW_KIND;
    assert!(
        KIND == ObjectKind::Overflow as u8
            && ObjectKind::Leaf as u8 != KIND
            && ObjectKind::Inner as u8 != KIND
    );
};
