//! Leaves and inner nodes that are not linked yet.

use super::RadixTree;
use super::node_handle::{NodeHandle, ParentPosition};
use super::options::NodeSizing;
use super::policy::Policy;
use crate::error::IndexError;
use crate::memory::slot::MemorySlot;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::heap::ObjectKind;
use crate::radix::inner::{self, Inner, InnerRef, NodeHeader, NodeSize, NodeState, RawInner};
use crate::radix::key::Step;
use crate::radix::leaf::{self, Leaf, LeafClass, LeafEntry, LeafId, LeafRef, RawLeaf};
use crate::radix::prefix::PrefixHash;
use crate::radix::reverse::Reverse;
use crate::radix::slot::NodeSlot;
use farwood_fabric::{Cas, Fabric, NodeId, Remote, Write, cas, write};
use std::ops::{Deref, RangeInclusive};

/// A new leaf that is not linked yet.
pub(super) struct NewLeaf {
    class: LeafClass,
    memory: MemorySlot<RawLeaf>,
    image: Leaf<Vec<u8>>,
    /// Its reverse pointer when it is linked.
    linked: Reverse,
}

/// A new inner node that is not linked yet.
pub(super) struct NewInner {
    size: NodeSize,
    memory: MemorySlot<RawInner>,
    image: Vec<u8>,
    /// Its reverse pointer when it is linked.
    linked: Reverse,
}

/// The slot for which a new inner node is made: its node, and its partial key.
#[derive(Clone, Copy)]
pub(super) struct ParentSlot {
    pub(super) at: Remote<RawInner>,
    pub(super) header: NodeHeader,
    pub(super) partial: u8,
}

/// A node that links a new leaf: its address and generation.
#[derive(Clone, Copy)]
pub(super) struct LinkingNode {
    pub(super) at: Remote<RawInner>,
    pub(super) generation: u32,
}

impl From<&CachedNode> for LinkingNode {
    fn from(node: &CachedNode) -> Self {
        Self { at: node.at, generation: node.header.generation() }
    }
}

impl NewLeaf {
    /// The slot that points to the leaf.
    pub(super) fn slot(&self, partial: u8) -> NodeSlot {
        NodeSlot::leaf(partial, LeafRef { at: self.memory.at, class: self.class })
    }

    /// The memory node.
    pub(super) fn node(&self) -> NodeId {
        self.memory.at.node()
    }

    /// The WRITE of the leaf. In reused memory it leaves the lock word alone.
    pub(super) fn write(&self) -> Write<'_> {
        let bytes = if self.memory.is_used() { self.image.first_write() } else { self.image.bytes() };
        write(self.memory.at.part::<[u8]>(0), bytes)
    }

    /// The CAS that confirms the leaf as linked, if it needs one.
    pub(super) fn confirm(&self) -> Option<Cas> {
        confirm(&self.memory, leaf::REVERSE, self.linked)
    }

    /// The memory of the leaf, which was never linked.
    pub(super) fn into_memory(self) -> MemorySlot<RawLeaf> {
        after_unlinked_object(self.memory)
    }
}

impl NewInner {
    /// Address and size.
    pub(super) fn inner_ref(&self) -> InnerRef {
        InnerRef { at: self.memory.at, size: self.size }
    }

    /// The node as the parent of leaves.
    pub(super) fn as_linking_node(&self) -> LinkingNode {
        LinkingNode { at: self.memory.at, generation: self.generation() }
    }

    pub(super) fn generation(&self) -> u32 {
        self.image().header().generation()
    }

    /// The node as it was written.
    pub(super) fn image(&self) -> Inner<&[u8]> {
        Inner::new(&self.image[..])
    }

    /// The WRITE of the node.
    pub(super) fn write(&self) -> Write<'_> {
        write(self.memory.at, &self.image)
    }

    /// The CAS that confirms the node as linked, if it needs one.
    pub(super) fn confirm(&self) -> Option<Cas> {
        confirm(&self.memory, inner::REVERSE, self.linked)
    }

    /// Sets the children of the node, which is not written yet.
    pub(super) fn set_children(&mut self, prefix: &[u8], number: u32, children: &[(Step, NodeSlot)]) {
        let before = self.image();
        self.image = inner::image(before.reverse(), before.header(), prefix, number, children);
    }

    /// The memory of the node, which was never linked.
    pub(super) fn into_memory(self) -> MemorySlot<RawInner> {
        after_unlinked_object(self.memory)
    }
}

/// The CAS that confirms an object in reused memory as linked. In unused memory, no old pointer leads to the object,
/// and it is confirmed from the start.
fn confirm<T>(memory: &MemorySlot<T>, offset: u64, linked: Reverse) -> Option<Cas> {
    let before = Reverse::unlinked(memory.next_version());
    memory.is_used().then(|| cas(memory.at.part(offset), before.word(), linked.word()))
}

/// The generation of a new node of `size`. In memory of zeros, a typed node has generation 0, because its free slots
/// are then zero.
pub(super) fn new_generation(memory: &MemorySlot<RawInner>, size: NodeSize) -> u32 {
    if size.is_typed() && memory.is_zero { 0 } else { memory.next_version() }
}

/// Memory after an object that was written and never linked. If no object used the memory before, no pointer leads to
/// it.
fn after_unlinked_object<T>(MemorySlot { at, version, kind, .. }: MemorySlot<T>) -> MemorySlot<T> {
    let version = version.map(|version| version.wrapping_add(1));
    MemorySlot { at, version, is_zero: false, kind }
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Creates a leaf for `entry` on memory node `near`, to be linked in `parent`.
    /// [0 RT; as [`Heap::allocate`](crate::radix::heap::Heap::allocate)]
    pub(super) async fn new_leaf(
        self,
        parent: LinkingNode,
        near: NodeId,
        entry: LeafEntry<'_>,
    ) -> Result<NewLeaf, IndexError> {
        let grain = self.index.options.grain;
        let Some(class) = entry.class(grain) else {
            unreachable!("the length of an entry is checked before it is stored")
        };
        let kind = ObjectKind::Leaf.slot_kind(class.bytes());
        let bytes_max = leaf::LEAF_BYTES_MAX as u32;
        let memory: MemorySlot<RawLeaf> = self.fitting_memory(near, kind, bytes_max).await?;
        let Some(class) = LeafClass::of_bytes(grain, memory.kind.bytes as usize) else {
            unreachable!("the slots of leaves have the sizes of the classes of the index's grain")
        };
        let (linked, version) = (Reverse::of_leaf(parent.at, parent.generation), memory.next_version());
        let reverse = if memory.is_used() { Reverse::unlinked(version) } else { linked };
        let image = leaf::image(class, reverse, LeafId { number: self.index.number, version }, entry);
        Ok(NewLeaf { class, memory, image, linked })
    }

    /// Allocates memory for an inner node on memory node `near`. If the pool is full, the node may be larger than the
    /// first of `sizes`.
    pub(super) async fn inner_memory(
        self,
        near: NodeId,
        sizes: RangeInclusive<NodeSize>,
    ) -> Result<MemorySlot<RawInner>, IndexError> {
        let kind = ObjectKind::Inner.slot_kind(sizes.start().memory_bytes());
        let bytes_max = sizes.end().memory_bytes() as u32;
        self.fitting_memory(near, kind, bytes_max).await
    }

    /// Creates an inner node without children on memory node `near`, to be linked in `parent`.
    /// [as [`inner_memory`](Self::inner_memory)]
    pub(super) async fn new_inner(
        self,
        parent: ParentSlot,
        near: NodeId,
        sizes: RangeInclusive<NodeSize>,
        prefix: &[u8],
    ) -> Result<NewInner, IndexError> {
        let least = *sizes.start();
        let memory = self.inner_memory(near, sizes).await?;
        let size =
            if least.is_typed() { Some(least) } else { NodeSize::of_bytes(memory.kind.bytes as usize) };
        let Some(size) = size else { unreachable!("the slots of inner nodes have the sizes of inner nodes") };
        let generation = new_generation(&memory, size);
        let linked = Reverse::of_inner(parent.at, parent.header.generation(), parent.partial);
        let reverse = if memory.is_used() { Reverse::unlinked(generation) } else { linked };
        let level = parent.header.level() + 1;
        let header = NodeHeader::new(NodeState::Live, size, level, prefix.len(), generation);
        let image = inner::image(reverse, header, prefix, self.index.number, &[]);
        Ok(NewInner { size, memory, image, linked })
    }

    /// The memory node for a new node with `prefix` below `parent`.
    pub(super) fn place_node(self, parent: &CachedNode, prefix: &[u8]) -> NodeId {
        let position = ParentPosition { node: parent.at.node(), level: parent.header.level() };
        self.index.policy.place_node(&self.fabric().shape(), position, PrefixHash::of(prefix))
    }

    /// Confirms objects as linked. [1 RT if any needs it]
    pub(super) async fn confirm_all<const N: usize>(
        self,
        confirmations: [Option<Cas>; N],
    ) -> Result<(), IndexError> {
        let confirmations: Vec<_> = confirmations.into_iter().flatten().collect();
        if !confirmations.is_empty() {
            self.client.post(farwood_fabric::all(confirmations)).await?.for_each(drop);
        }
        Ok(())
    }
}

impl<P: Policy> RadixTree<P> {
    /// The possible sizes of a node with `children` children: from the smallest that fits to the largest.
    pub(super) fn sizes_for(&self, children: usize) -> RangeInclusive<NodeSize> {
        let least = self.size_for(children);
        least..=if least.is_typed() { NodeSize::Typed256 } else { NodeSize::All }
    }

    /// The size of a node with `children` children.
    pub(super) fn size_for(&self, children: usize) -> NodeSize {
        match self.options.node_sizing {
            NodeSizing::Fitting => NodeSize::fitting(children),
            NodeSizing::Preallocated => NodeSize::All,
            NodeSizing::Typed => NodeSize::typed(children),
        }
    }

    /// The identity of the inner node at `at`.
    pub(super) fn handle_of<B: Deref<Target = [u8]>>(
        &self,
        at: Remote<RawInner>,
        node: &Inner<B>,
    ) -> NodeHandle {
        let header = node.header();
        NodeHandle {
            prefix: node.prefix(self.number),
            depth: header.depth(),
            node: InnerRef { at, size: header.size() },
            generation: header.generation(),
        }
    }

    /// Frees the memory of a leaf that is no longer linked.
    pub(super) fn free_leaf(&self, leaf: LeafRef, version: u32) {
        let kind = ObjectKind::Leaf.slot_kind(leaf.class.bytes());
        self.heap.retire(MemorySlot { at: leaf.at, version: Some(version), is_zero: false, kind });
    }

    /// Frees the memory of a leaf that was never linked.
    pub(super) fn free_new_leaf(&self, leaf: NewLeaf) {
        self.heap.take_back(leaf.into_memory());
    }
}
