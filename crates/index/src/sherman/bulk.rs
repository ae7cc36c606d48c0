//! Bulk loading: a tree built from sorted entries, level by level, at a fill factor.
//!
//! The old root, an empty leaf, becomes the leftmost leaf, because any compute node may have cached its address. The
//! loader writes it after all other nodes, under its lock, as in a split: until then no client sees the new nodes, and
//! from then on every client does, through the sibling pointers or through the new root.

use super::Sherman;
use super::layout::Values;
use super::lock_node::LockedNode;
use super::node::{Fences, Node, RawNode};
use super::position::{LeafPointer, Source};
use super::split::UnlinkedSibling;
use crate::error::IndexError;
use crate::key::compare;
use crate::lock::HeldLock;
use crate::memory::allocator::Allocator;
use crate::memory::overflow::{self, RawOverflow};
use crate::memory::slot::{MemorySlot, SlotKind};
use crate::op::Op;
use farwood_fabric::{Client, Fabric, Remote, Swapped, all, write};
use std::cmp::Ordering;

/// Maximum nodes, or overflow objects, that one doorbell writes.
const NODES_PER_POST: usize = 64;
/// Bytes of buffered overflow objects at which the loader writes them.
const VALUE_BYTES_PER_POST: usize = 1 << 20;

/// The nodes of one level, from left to right.
#[derive(Default)]
struct Level {
    /// The lower fences of the nodes, concatenated.
    lowers: Vec<u8>,
    nodes: Vec<Remote<RawNode>>,
}

impl Level {
    fn push(&mut self, lower: &[u8], node: Remote<RawNode>) {
        self.lowers.extend_from_slice(lower);
        self.nodes.push(node);
    }

    fn lower(&self, at: usize) -> &[u8] {
        let bytes = self.lowers.len() / self.nodes.len();
        &self.lowers[at * bytes..(at + 1) * bytes]
    }
}

/// Buffers nodes and overflow objects, and writes many of them by one doorbell.
struct Writer<'c, F: Fabric> {
    client: &'c Client<F>,
    allocator: &'c Allocator,
    kind: SlotKind,
    nodes: Vec<(Remote<RawNode>, Vec<u8>)>,
    /// All slots that the loader has allocated for nodes.
    slots: Vec<MemorySlot<RawNode>>,
    /// Overflow objects that are not written yet.
    values: Vec<overflow::Image>,
    value_slots: Vec<MemorySlot<RawOverflow>>,
}

impl<F: Fabric> Writer<'_, F> {
    /// Allocates the slot of the next node; returns its address.
    async fn allocate(&mut self) -> Result<Remote<RawNode>, IndexError> {
        let slot = self.allocator.allocate_new(self.client, self.kind).await?;
        let at = slot.at;
        self.slots.push(slot);
        Ok(at)
    }

    /// Writes a node into the slot at `at`, one of the last that were allocated.
    async fn write(&mut self, at: Remote<RawNode>, mut node: Node<'_, Vec<u8>>) -> Result<(), IndexError> {
        let Some(slot) = self.slots.iter().rev().find(|slot| slot.at == at) else {
            unreachable!("the loader writes into slots that it allocated")
        };
        self.nodes.push((at, node.seal_in(slot).into_owned()));
        if self.nodes.len() == NODES_PER_POST { self.flush().await } else { Ok(()) }
    }

    /// Writes overflow objects.
    async fn write_values(&mut self, images: Vec<overflow::Image>) -> Result<(), IndexError> {
        self.values.extend(images);
        let bytes: usize = self.values.iter().map(|(_, bytes)| bytes.len()).sum();
        if self.values.len() >= NODES_PER_POST || bytes >= VALUE_BYTES_PER_POST {
            self.flush_values().await?;
        }
        Ok(())
    }

    async fn flush_values(&mut self) -> Result<(), IndexError> {
        if !self.values.is_empty() {
            overflow::write_all(self.client, &self.values).await?;
            self.values.clear();
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), IndexError> {
        if !self.nodes.is_empty() {
            self.client
                .post(all(self.nodes.iter().map(|(at, bytes)| write(*at, bytes))))
                .await?
                .for_each(drop);
            self.nodes.clear();
        }
        Ok(())
    }
}

impl Sherman {
    /// Loads `entries`, whose keys are strictly increasing, into the empty tree, and fills each node to the fraction
    /// `fill` (0 to 1). Calls `progress` with the number of entries loaded so far after each leaf. Returns the number
    /// of loaded entries. [1 RT per 64 nodes]
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; [`IndexError::NotSorted`]; [`IndexError::WrongLength`]; a full pool. In these cases
    /// the tree is unchanged, and later inserts use the memory that the load has allocated.
    pub async fn bulk_load<F, K, V>(
        &self,
        client: &Client<F>,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: f64,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, IndexError>
    where
        F: Fabric,
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let op = Op::new(self, client, "bulk load");
        let root = op.root_word().await?;
        let lowest = vec![0; self.layout.key_bytes];
        if op.read_node(root).await?.level() != 0 {
            return Err(IndexError::NotEmpty);
        }
        let leftmost = LeafPointer { at: root, source: Source::Cache };
        let LockedNode { held, at, node: old, .. } = op.lock_leaf(leftmost, &lowest).await?;
        let mut slots = Vec::new();
        let empty = old.sorted_slots(&mut slots).is_ok() && slots.is_empty();
        if at != root || old.upper().is_some() || !empty {
            held.give_up().await?;
            return Err(IndexError::NotEmpty);
        }
        let mut writer = Writer {
            client,
            allocator: &self.allocator,
            kind: self.layout.node_slots(),
            nodes: Vec::new(),
            slots: Vec::new(),
            values: Vec::new(),
            value_slots: Vec::new(),
        };
        let built = self.build(&mut writer, root, entries.into_iter(), fill, &mut progress).await;
        match built {
            Ok(built) => op.link_loaded(held, root, built, old.version()).await,
            Err(error) => {
                if !error.may_be_written() {
                    for slot in std::mem::take(&mut writer.slots) {
                        self.allocator.take_back(slot);
                    }
                    // Only a slot whose object was written may be reused under its version.
                    if writer.flush_values().await.is_ok() {
                        for slot in writer.value_slots {
                            self.allocator.take_back(slot);
                        }
                    }
                }
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// Builds leaves and inner levels and writes all but the leftmost leaf.
    async fn build<'t, F, K, V>(
        &'t self,
        writer: &mut Writer<'_, F>,
        root: Remote<RawNode>,
        entries: impl Iterator<Item = (K, V)>,
        fill: f64,
        progress: &mut impl FnMut(u64),
    ) -> Result<Built<'t>, IndexError>
    where
        F: Fabric,
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut leaves = Level::default();
        let (leftmost, count) = self.build_leaves(writer, root, entries, fill, progress, &mut leaves).await?;
        let mut top = None;
        for level in 1.. {
            let below = top.as_ref().unwrap_or(&leaves);
            if below.nodes.len() == 1 {
                break;
            }
            let mut above = Level::default();
            self.build_inner(writer, below, level, fill, &mut above).await?;
            top = Some(above);
        }
        writer.flush_values().await?;
        writer.flush().await?;
        let top = top.map_or(root, |top| top.nodes[0]);
        Ok(Built { leftmost, leaves, top, count })
    }

    async fn build_leaves<'t, F, K, V>(
        &'t self,
        writer: &mut Writer<'_, F>,
        root: Remote<RawNode>,
        entries: impl Iterator<Item = (K, V)>,
        fill: f64,
        progress: &mut impl FnMut(u64),
        leaves: &mut Level,
    ) -> Result<(Node<'t, Vec<u8>>, u64), IndexError>
    where
        F: Fabric,
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let lowest = vec![0; self.layout.key_bytes];
        leaves.push(&lowest, root);
        let mut leaf = Node::empty(&self.layout, 0, Fences { lower: &lowest, upper: None }, None);
        let mut leftmost = None;
        let (mut used, mut count) = (0, 0);
        let mut last: Vec<u8> = Vec::new();
        for (key, value) in entries {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.check_key(key)?;
            self.check_value(value)?;
            if count > 0 && compare(&last, key) != Ordering::Less {
                return Err(IndexError::NotSorted { entries: count });
            }
            if used == self.layout.leaf_fill(fill) {
                let next = writer.allocate().await?;
                leaf.set_upper(Some(key));
                leaf.set_sibling(Some(next));
                let fences = Fences { lower: key, upper: None };
                let full = std::mem::replace(&mut leaf, Node::empty(&self.layout, 0, fences, None));
                let at = leaves.nodes[leaves.nodes.len() - 1];
                leaves.push(key, next);
                self.put_leaf(writer, &mut leftmost, at, full).await?;
                progress(count);
                used = 0;
            }
            match self.layout.values {
                Values::Fixed => leaf.push_entry(used, key, value),
                Values::AnyLength => {
                    let (field, images) =
                        self.bulk_value_field(writer.client, value, &mut writer.value_slots).await?;
                    writer.write_values(images).await?;
                    leaf.push_entry(used, key, field.bytes());
                }
            }
            (used, count) = (used + 1, count + 1);
            last.clear();
            last.extend_from_slice(key);
        }
        let at = leaves.nodes[leaves.nodes.len() - 1];
        self.put_leaf(writer, &mut leftmost, at, leaf).await?;
        progress(count);
        let Some(leftmost) = leftmost else { unreachable!("the first leaf that is put is the leftmost") };
        Ok((leftmost, count))
    }

    /// Writes a complete leaf, or keeps it if it is the leftmost.
    async fn put_leaf<'t, F: Fabric>(
        &self,
        writer: &mut Writer<'_, F>,
        leftmost: &mut Option<Node<'t, Vec<u8>>>,
        at: Remote<RawNode>,
        leaf: Node<'t, Vec<u8>>,
    ) -> Result<(), IndexError> {
        if leftmost.is_none() {
            *leftmost = Some(leaf);
            return Ok(());
        }
        writer.write(at, leaf).await
    }

    /// Builds one inner level over `below`.
    async fn build_inner<F: Fabric>(
        &self,
        writer: &mut Writer<'_, F>,
        below: &Level,
        level: u8,
        fill: f64,
        above: &mut Level,
    ) -> Result<(), IndexError> {
        let children_per_node = self.layout.inner_fill(fill) + 1;
        let mut at = writer.allocate().await?;
        above.push(below.lower(0), at);
        for first in (0..below.nodes.len()).step_by(children_per_node) {
            let end = (first + children_per_node).min(below.nodes.len());
            let next = if end < below.nodes.len() { Some(writer.allocate().await?) } else { None };
            let upper = next.map(|_| below.lower(end));
            let fences = Fences { lower: below.lower(first), upper };
            let mut node = Node::empty(&self.layout, level, fences, next);
            node.set_leftmost(below.nodes[first]);
            for child in first + 1..end {
                node.push_child(below.lower(child), below.nodes[child]);
            }
            writer.write(at, node).await?;
            if let Some(next) = next {
                above.push(below.lower(end), next);
                at = next;
            }
        }
        Ok(())
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    /// Writes the leftmost leaf, which links all others, and swaps the root pointer to the top node.
    async fn link_loaded(
        self,
        held: HeldLock<'_, F>,
        root: Remote<RawNode>,
        mut built: Built<'_>,
        version: u32,
    ) -> Result<u64, IndexError> {
        built.leftmost.set_version(version);
        built.leftmost.seal();
        let linked = self.link_locked(root, &built).await;
        held.give_up().await?;
        let grown = linked?;
        if grown != Swapped::Won {
            // Another client has split a new leaf and added a root in the meantime, so the loader links the leaves one
            // by one.
            for leaf in 1..built.leaves.nodes.len() {
                let (lower, at) = (built.leaves.lower(leaf).to_vec(), built.leaves.nodes[leaf]);
                self.link_in_parent(UnlinkedSibling { lower, at }, 1).await?;
            }
        }
        Ok(built.count)
    }

    /// Writes the leftmost leaf and swaps the root pointer, under the old root's lock; returns the outcome of the swap.
    async fn link_locked(self, root: Remote<RawNode>, built: &Built<'_>) -> Result<Swapped, IndexError> {
        self.client.post(write(root, built.leftmost.bytes())).await?;
        self.index.top.store(None);
        if built.top == root {
            return Ok(Swapped::Won);
        }
        Ok(self.client.post(self.index.swap_root(root, built.top)?).await?)
    }
}

/// A loaded tree. All nodes except the leftmost leaf are written, and none is linked.
struct Built<'l> {
    leftmost: Node<'l, Vec<u8>>,
    leaves: Level,
    top: Remote<RawNode>,
    count: u64,
}
