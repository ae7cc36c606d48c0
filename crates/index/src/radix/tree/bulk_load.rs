//! Bulk loading: builds subtrees from sorted entries, each node of the size that it needs, and links them at the end.

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
    /// The inner nodes that were created.
    nodes: Vec<NodeHandle>,
}

/// A subtree without a parent.
struct Subtree {
    /// Some key in it. All keys in it share its first `depth` bytes.
    key: Vec<u8>,
    depth: usize,
    root: SubtreeRoot,
}

enum SubtreeRoot {
    Leaf(LoadedValue),
    /// An inner node, with all its children.
    Inner(Vec<Subtree>),
}

/// An inner node whose children are being built.
#[derive(Clone, Copy)]
struct LoadParent {
    at: Remote<RawInner>,
    header: NodeHeader,
    /// Memory node on which the parent will be placed.
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

    /// Writes a subtree that is to be linked in the node `parent`; yields the slot that points to it.
    async fn write_subtree(
        &mut self,
        Subtree { key, depth, root }: Subtree,
        parent: LoadParent,
    ) -> Result<NodeSlot, IndexError> {
        match root {
            SubtreeRoot::Leaf(value) => self.write_leaf(&key, &value, parent).await,
            SubtreeRoot::Inner(children) => self.write_inner(&key, depth, children, parent).await,
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
        self.write(memory.at.part(0), leaf.bytes().to_vec()).await?;
        Ok(NodeSlot::leaf(parent.partial_of(key), LeafRef { at: memory.at, class }))
    }

    async fn write_inner(
        &mut self,
        key: &[u8],
        depth: usize,
        children: Vec<Subtree>,
        parent: LoadParent,
    ) -> Result<NodeSlot, IndexError> {
        let (tree, prefix) = (self.op.index, &key[..depth]);
        let partials = children.iter().filter(|child| child.key.len() > depth).count();
        let size = tree.size_for(partials);
        let position = ParentPosition { node: parent.near, level: parent.header.level() };
        let near = tree.policy.place_node(self.op.fabric().shape(), position, PrefixHash::of(prefix));
        let memory: MemorySlot<RawInner> =
            self.allocate(near, ObjectKind::Inner, size.memory_bytes()).await?;
        let level = parent.header.level() + 1;
        let header = NodeHeader::new(NodeState::Live, size, level, depth, new_generation(&memory, size));
        let node = LoadParent { at: memory.at, header, near };
        let mut slots = Vec::with_capacity(children.len());
        for child in children {
            let step = step_at(&child.key, depth);
            slots.push((step, Box::pin(self.write_subtree(child, node)).await?));
        }
        let partial = parent.partial_of(key);
        let reverse = Reverse::of_inner(parent.at, parent.header.generation(), partial);
        let image = inner::image(reverse, header, prefix, tree.number, &slots);
        self.nodes.push(tree.handle_of(node.at, &Inner::new(&image[..])));
        self.write(memory.at.part(0), image).await?;
        Ok(NodeSlot::inner(partial, InnerRef { at: memory.at, size }))
    }

    /// Writes a child of the root; yields its step and slot, to be linked. `None`: there is no child.
    async fn write_child_of_root(
        &mut self,
        edge: RightEdge,
        root: NodeHeader,
    ) -> Result<Option<(Step, NodeSlot)>, IndexError> {
        let Some(child) = edge.finish() else { return Ok(None) };
        let step = step_at(&child.key, 0);
        let at = self.op.index.root;
        let slot = self.write_subtree(child, LoadParent { at, header: root, near: at.node() }).await?;
        Ok(Some((step, slot)))
    }
}

/// Right edge of the tree that is being built: nodes that may get more children, each deeper than the one before, and
/// the last child, which is complete.
#[derive(Default)]
struct RightEdge {
    open: Vec<(usize, Vec<Subtree>)>,
    last: Option<Subtree>,
}

impl RightEdge {
    /// Adds the next entry; its key is greater than all before it.
    fn push(&mut self, key: &[u8], value: LoadedValue) {
        let leaf = Subtree { key: key.to_vec(), depth: key.len(), root: SubtreeRoot::Leaf(value) };
        if let Some(last) = self.last.take() {
            let depth = common_prefix(&last.key, key);
            let last = self.close(last, depth);
            match self.open.last_mut() {
                Some((open_depth, children)) if *open_depth == depth => children.push(last),
                _ => self.open.push((depth, vec![last])),
            }
        }
        self.last = Some(leaf);
    }

    /// Completes the nodes that are deeper than `depth`; yields the highest of them, or `last` if there are none.
    fn close(&mut self, mut last: Subtree, depth: usize) -> Subtree {
        while let Some((open_depth, mut children)) = self.open.pop_if(|(open_depth, _)| *open_depth > depth) {
            children.push(last);
            let key = children[0].key.clone();
            last = Subtree { key, depth: open_depth, root: SubtreeRoot::Inner(children) };
        }
        last
    }

    /// All entries, as one subtree.
    fn finish(mut self) -> Option<Subtree> {
        let last = self.last.take()?;
        let last = self.close(last, 0);
        match self.open.pop() {
            None => Some(last),
            Some(_) => unreachable!("the keys below a child of the root share a byte"),
        }
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
        let mut last: Option<Vec<u8>> = None;
        let (mut count, mut edge, mut links) = (0, RightEdge::default(), Vec::new());
        for (key, value) in entries {
            let (key, value) = (key.as_ref(), value.as_ref());
            check_key(key)?;
            check_value(value)?;
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err(IndexError::NotSorted { entries: count });
            }
            // All keys below a child of the root share their first byte; it is written when the next child begins.
            if last.as_deref().is_some_and(|last| step_at(last, 0) != step_at(key, 0)) {
                links.extend(writer.write_child_of_root(std::mem::take(&mut edge), root.header()).await?);
                progress(count);
            }
            let stored = match op.write_overflow(key, value).await? {
                None => LoadedValue::Inline(value.to_vec()),
                Some(stored) => LoadedValue::Overflow(stored.link),
            };
            edge.push(key, stored);
            last = Some(key.to_vec());
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
