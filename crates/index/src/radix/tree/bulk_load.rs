//! Bulk loading: writes subtrees from sorted entries, each node of the size that it needs, and links them at the end.
//! The load keeps the nodes on the right edge of the tree in memory, and for Sphinx the address of each inner node,
//! which its hash table records at the end.

use super::RadixTree;
use super::damage::damaged_slot;
use super::find::partial_at;
use super::new_node::new_generation;
use super::node_handle::{NodeChange, NodeHandle, ParentPosition};
use super::policy::Policy;
use super::values::check_value;
use crate::error::IndexError;
use crate::memory::overflow::Link;
use crate::memory::slot::MemorySlot;
use crate::op::Op;
use crate::radix::heap::ObjectKind;
use crate::radix::inner::{
    self, Inner, InnerRef, NodeHeader, NodeSize, NodeState, RawInner, slot_of_all, slot_offset,
};
use crate::radix::key::{Step, check_key, common_prefix, step_at};
use crate::radix::leaf::{self, LeafEntry, LeafId, LeafRef, LeafValue, RawLeaf};
use crate::radix::prefix::PrefixHash;
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Client, Fabric, NodeId, Remote, Swapped, all, cas, write};

/// Objects that one doorbell writes.
const OBJECTS_PER_POST: usize = 64;

/// Writes new objects, many per doorbell.
struct BulkWriter<'c, F: Fabric, P: Policy> {
    op: Op<'c, F, RadixTree<P>>,
    objects: Vec<(Remote<[u8]>, Vec<u8>)>,
    /// The inner nodes that were created, if the system records nodes.
    nodes: Vec<NodeHandle>,
}

/// A subtree whose parent is not written yet.
struct Subtree {
    /// Some key in it. All keys in it share its first `depth` bytes.
    key: Vec<u8>,
    depth: usize,
    root: SubtreeRoot,
}

enum SubtreeRoot {
    /// A leaf, which needs the address of its parent.
    Leaf(LoadedValue),
    /// An inner node whose children are written. It needs the address of its parent, too.
    Inner(PlacedNode),
}

/// An inner node with its memory and its slots.
struct PlacedNode {
    at: Remote<RawInner>,
    header: NodeHeader,
    slots: Vec<(Step, NodeSlot)>,
}

/// An inner node that may get more children.
struct OpenNode {
    depth: usize,
    /// Its level, and the memory node of its parent, as far as its ancestors are known: a later key may add one above
    /// it. Both determine only where nodes are placed.
    level: u8,
    near: NodeId,
    children: Vec<Subtree>,
}

/// An inner node whose children are being written.
#[derive(Clone, Copy)]
struct LoadParent {
    at: Remote<RawInner>,
    header: NodeHeader,
    /// The memory node on which its children are placed.
    near: NodeId,
}

impl LoadParent {
    /// The partial key of `key` in this node.
    fn partial_of(self, key: &[u8]) -> u8 {
        partial_at(key, self.header.depth())
    }
}

/// A value to be written into a leaf, or the link to an overflow value.
enum LoadedValue {
    Inline(Vec<u8>),
    Overflow(Link),
}

impl LoadedValue {
    fn as_leaf_value(&self) -> LeafValue<'_> {
        match self {
            Self::Inline(value) => LeafValue::Inline(value),
            Self::Overflow(link) => LeafValue::Overflow(*link),
        }
    }
}

impl<F: Fabric, P: Policy> BulkWriter<'_, F, P> {
    async fn write(&mut self, at: Remote<[u8]>, bytes: Vec<u8>) -> Result<(), IndexError> {
        self.objects.push((at, bytes));
        if self.objects.len() == OBJECTS_PER_POST { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), IndexError> {
        if !self.objects.is_empty() {
            let writes = self.objects.iter().map(|(at, bytes)| write(*at, bytes));
            self.op.client.post(all(writes)).await?.for_each(drop);
            self.objects.clear();
        }
        Ok(())
    }

    /// Allocates memory that never held an object, because the tree is empty before it is loaded.
    async fn allocate<T>(
        &self,
        near: NodeId,
        kind: ObjectKind,
        bytes: usize,
    ) -> Result<MemorySlot<T>, IndexError> {
        self.op.index.heap.allocate(self.op.client, near, kind.slot_kind(bytes)).await
    }

    /// Writes the root of a subtree that is to be linked in the node `parent`; yields the slot that points to it.
    async fn write_root(
        &mut self,
        Subtree { key, depth, root }: Subtree,
        parent: LoadParent,
    ) -> Result<NodeSlot, IndexError> {
        match root {
            SubtreeRoot::Leaf(value) => self.write_leaf(&key, &value, parent).await,
            SubtreeRoot::Inner(node) => self.write_inner(&key[..depth], &node, parent).await,
        }
    }

    async fn write_leaf(
        &mut self,
        key: &[u8],
        value: &LoadedValue,
        parent: LoadParent,
    ) -> Result<NodeSlot, IndexError> {
        let tree = self.op.index;
        let entry = LeafEntry { key, value: value.as_leaf_value() };
        let Some(class) = entry.class(tree.options.grain) else {
            unreachable!("the length of an entry is checked before it is stored")
        };
        let memory: MemorySlot<RawLeaf> = self.allocate(parent.near, ObjectKind::Leaf, class.bytes()).await?;
        let reverse = Reverse::of_leaf(parent.at, parent.header.generation());
        let id = LeafId { number: tree.number, version: memory.next_version() };
        let leaf = leaf::image(class, reverse, id, entry);
        self.write(memory.at.part(0), leaf.into_bytes()).await?;
        Ok(NodeSlot::leaf(parent.partial_of(key), LeafRef { at: memory.at, class }))
    }

    async fn write_inner(
        &mut self,
        prefix: &[u8],
        PlacedNode { at, header, slots }: &PlacedNode,
        parent: LoadParent,
    ) -> Result<NodeSlot, IndexError> {
        let partial = parent.partial_of(prefix);
        let reverse = Reverse::of_inner(parent.at, parent.header.generation(), partial);
        let image = inner::image(reverse, *header, prefix, self.op.index.number, slots);
        if P::RECORDS_NODES {
            self.nodes.push(self.op.index.handle_of(*at, &Inner::new(&image[..])));
        }
        self.write(at.part(0), image).await?;
        Ok(NodeSlot::inner(partial, InnerRef { at: *at, size: header.size() }))
    }

    /// Allocates the memory of a node that has all its children, and writes them.
    async fn place(&mut self, node: OpenNode) -> Result<Subtree, IndexError> {
        let OpenNode { depth, level, near, children } = node;
        let partials = children.iter().filter(|child| child.key.len() > depth).count();
        let size = self.op.index.size_for(partials);
        let memory: MemorySlot<RawInner> =
            self.allocate(near, ObjectKind::Inner, size.memory_bytes()).await?;
        let header = NodeHeader::new(NodeState::Live, size, level, depth, new_generation(&memory, size));
        let parent = LoadParent { at: memory.at, header, near };
        let mut slots = Vec::with_capacity(children.len());
        let key = children[0].key[..depth].to_vec();
        for child in children {
            let step = step_at(&child.key, depth);
            slots.push((step, self.write_root(child, parent).await?));
        }
        Ok(Subtree { key, depth, root: SubtreeRoot::Inner(PlacedNode { at: memory.at, header, slots }) })
    }

    /// Writes a child of the root; yields its step and slot, to be linked. `None`: there is no child.
    async fn write_child_of_root(
        &mut self,
        mut edge: RightEdge,
        root: NodeHeader,
    ) -> Result<Option<(Step, NodeSlot)>, IndexError> {
        let Some(last) = edge.last.take() else { return Ok(None) };
        let child = edge.close(last, 0, self).await?;
        assert!(edge.open.is_empty(), "the keys below a child of the root share a byte");
        let step = step_at(&child.key, 0);
        let at = self.op.index.root;
        let slot = self.write_root(child, LoadParent { at, header: root, near: at.node() }).await?;
        Ok(Some((step, slot)))
    }
}

/// Right edge of the tree that is being built: nodes that may get more children, each deeper than the one before, and
/// the last child, which is complete. Everything left of it is written but the inner nodes whose parents are open, so
/// the edge has at most 257 of them for each byte of a key.
#[derive(Default)]
struct RightEdge {
    open: Vec<OpenNode>,
    last: Option<Subtree>,
}

impl RightEdge {
    /// Adds the next entry; its key is greater than all before it.
    async fn push<F: Fabric, P: Policy>(
        &mut self,
        key: &[u8],
        value: LoadedValue,
        writer: &mut BulkWriter<'_, F, P>,
    ) -> Result<(), IndexError> {
        let leaf = Subtree { key: key.to_vec(), depth: key.len(), root: SubtreeRoot::Leaf(value) };
        if let Some(last) = self.last.take() {
            let depth = common_prefix(&last.key, key);
            let last = self.close(last, depth, writer).await?;
            if self.open.last().is_none_or(|node| node.depth < depth) {
                self.open(&key[..depth], writer.op);
            }
            if let Some(node) = self.open.last_mut() {
                node.children.push(last);
            }
        }
        self.last = Some(leaf);
        Ok(())
    }

    /// Begins a node below the deepest open one.
    fn open<F: Fabric, P: Policy>(&mut self, prefix: &[u8], op: Op<'_, F, RadixTree<P>>) {
        let root = ParentPosition { node: op.index.root.node(), level: 0 };
        let parent = self.open.last().map(|node| ParentPosition { node: node.near, level: node.level });
        let parent = parent.unwrap_or(root);
        let near = op.index.policy.place_node(&op.fabric().shape(), parent, PrefixHash::of(prefix));
        let (depth, level) = (prefix.len(), parent.level.saturating_add(1));
        self.open.push(OpenNode { depth, level, near, children: Vec::new() });
    }

    /// Completes the nodes that are deeper than `depth`; yields the highest of them, or `last` if there are none.
    async fn close<F: Fabric, P: Policy>(
        &mut self,
        mut last: Subtree,
        depth: usize,
        writer: &mut BulkWriter<'_, F, P>,
    ) -> Result<Subtree, IndexError> {
        while let Some(mut node) = self.open.pop_if(|node| node.depth > depth) {
            node.children.push(last);
            last = writer.place(node).await?;
        }
        Ok(last)
    }
}

impl<P: Policy> RadixTree<P> {
    /// Loads strictly increasing keys into the empty tree; yields their number. Calls `progress` with the number of
    /// entries so far, once per child of the root. [1 RT for each 64 nodes and leaves, and for each overflow value]
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; [`IndexError::NotSorted`]; [`IndexError::BadSizes`]; the fabric's errors.
    pub async fn bulk_load<F, K, V>(
        &self,
        client: &Client<F>,
        entries: impl IntoIterator<Item = (K, V)>,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, IndexError>
    where
        F: Fabric,
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let op = Op::new(self, client, "load");
        let root = op.read_inner(InnerRef { at: self.root, size: NodeSize::All }).await?;
        if root.slots().any(NodeSlot::is_occupied) {
            return Err(IndexError::NotEmpty);
        }
        let mut writer = BulkWriter { op, objects: Vec::new(), nodes: Vec::new() };
        let mut last = Vec::new();
        let (mut count, mut edge, mut links) = (0, RightEdge::default(), Vec::new());
        for (key, value) in entries {
            let (key, value) = (key.as_ref(), value.as_ref());
            check_key(key)?;
            check_value(value)?;
            if count > 0 && last.as_slice() >= key {
                return Err(IndexError::NotSorted { entries: count });
            }
            // All keys below a child of the root share their first byte; it is written when the next child begins.
            if count > 0 && step_at(&last, 0) != step_at(key, 0) {
                links.extend(writer.write_child_of_root(std::mem::take(&mut edge), root.header()).await?);
                progress(count);
            }
            let stored = match op.write_overflow(key, value).await? {
                None => LoadedValue::Inline(value.to_vec()),
                Some(stored) => LoadedValue::Overflow(stored.link),
            };
            edge.push(key, stored, &mut writer).await?;
            last.clear();
            last.extend_from_slice(key);
            count += 1;
        }
        links.extend(writer.write_child_of_root(edge, root.header()).await?);
        writer.flush().await?;
        for (step, slot) in links {
            op.link_child_of_root(step, root.slot(slot_of_all(step)), slot).await?;
        }
        for node in writer.nodes {
            P::nodes_changed(op, NodeChange::Created(node), P::Lookup::default()).await;
        }
        Ok(count)
    }
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Links a subtree in the empty root. [1 RT]
    async fn link_child_of_root(self, step: Step, before: NodeSlot, new: NodeSlot) -> Result<(), IndexError> {
        let (number, root) = (slot_of_all(step), self.index.root);
        if before.child() != Child::Vacant {
            return Err(damaged_slot(self.name, root, number));
        }
        let at = root.part(slot_offset(number));
        if self.client.post(cas(at, before.word(), new.word())).await? != Swapped::Won {
            return Err(IndexError::NotEmpty);
        }
        if let Some(copy) = self.index.cache.search(&[], 0, self.fabric().thread()) {
            self.index.cache.learn(&copy, number, new);
        }
        Ok(())
    }
}
