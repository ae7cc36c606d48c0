//! Bulk loading: a tree built from sorted entries, level by level, at a fill factor.
//!
//! The old root, an empty leaf, becomes the leftmost leaf, because its address may be cached anywhere. It is
//! written when all else is, under its lock, as in a split: until then nobody sees the new nodes, and from then on
//! everybody does, through the sibling pointers if not yet through the new root.

use super::Sherman;
use super::change::Locked;
use super::descend::Source;
use super::layout::Values;
use super::node::{Fences, Node, RawNode};
use super::split::Orphan;
use crate::error::IndexError;
use crate::key::compare;
use crate::lock::Held;
use crate::memory::chunks::Allocator;
use crate::memory::overflow::{self, RawExtent};
use crate::memory::slot::{Room, RoomKind};
use farwood_fabric::{Client, Fabric, Remote, Swapped, all, cas, write};
use std::cmp::Ordering;

/// Nodes, or values out of line, that are written by one doorbell, at most.
const NODES_PER_POST: usize = 64;
/// Bytes of values out of line from which on they are written.
const VALUE_BYTES_PER_POST: usize = 1 << 20;

/// The nodes of one level, left to right.
#[derive(Default)]
struct Level {
    /// Lower fences, one after the other.
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

/// Nodes on their way to far memory, many to a doorbell.
struct Writer<'c, F: Fabric> {
    client: &'c Client<F>,
    allocator: &'c Allocator,
    kind: RoomKind,
    nodes: Vec<(Remote<RawNode>, Vec<u8>)>,
    /// All rooms that were taken.
    rooms: Vec<Room<RawNode>>,
    /// Values out of line, on their way.
    values: Vec<overflow::Image>,
    value_rooms: Vec<Room<RawExtent>>,
}

impl<F: Fabric> Writer<'_, F> {
    /// Takes the next room; yields where it is.
    async fn allocate(&mut self) -> Result<Remote<RawNode>, IndexError> {
        let room = self.allocator.allocate_new(self.client, self.kind).await?;
        let at = room.at;
        self.rooms.push(room);
        Ok(at)
    }

    /// Writes a node into the room at `at`, which is one of the last that were taken.
    async fn write(&mut self, at: Remote<RawNode>, mut node: Node<'_, Vec<u8>>) -> Result<(), IndexError> {
        let Some(room) = self.rooms.iter().rev().find(|room| room.at == at) else {
            unreachable!("the loader writes into rooms that it took")
        };
        self.nodes.push((at, node.seal_in(room).into_owned()));
        if self.nodes.len() == NODES_PER_POST { self.flush().await } else { Ok(()) }
    }

    /// Writes values out of line.
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
    /// Loads `entries`, whose keys are strictly increasing, into the empty tree, with nodes filled to the share
    /// `fill` (0 to 1). `progress` is called with the number of entries loaded so far, now and then. Yields how many
    /// entries were loaded. [1 RT per 64 nodes]
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; [`IndexError::NotSorted`]; [`IndexError::WrongLength`]; a full pool. The tree then
    /// is as it was; memory that was taken for it is used by later inserts.
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
        let root = self.root_word(client).await?;
        let lowest = vec![0; self.layout.key_bytes];
        if self.read_node(client, root, "bulk load").await?.level() != 0 {
            return Err(IndexError::NotEmpty);
        }
        let Locked { held, at, node: old, .. } =
            self.lock_leaf(client, (root, Source::Cache), &lowest, "bulk load").await?;
        let mut slots = Vec::new();
        let empty = old.sorted_slots(&mut slots).is_ok() && slots.is_empty();
        if at != root || old.upper().is_some() || !empty {
            held.give_up().await?;
            return Err(IndexError::NotEmpty);
        }
        let mut writer = Writer {
            client,
            allocator: &self.allocator,
            kind: self.layout.room_kind(),
            nodes: Vec::new(),
            rooms: Vec::new(),
            values: Vec::new(),
            value_rooms: Vec::new(),
        };
        let built = self.build(&mut writer, root, entries.into_iter(), fill, &mut progress).await;
        match built {
            Ok(built) => self.link(client, held, root, built, old.version()).await,
            Err(error) => {
                if !error.may_be_written() {
                    for room in std::mem::take(&mut writer.rooms) {
                        self.allocator.take_back(room);
                    }
                    // A room that says what lies in it has been written.
                    if writer.flush_values().await.is_ok() {
                        self.give_back(writer.value_rooms);
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
                    let (slot, images) = self.slot_of(writer.client, value, &mut writer.value_rooms).await?;
                    writer.write_values(images).await?;
                    leaf.push_entry(used, key, slot.bytes());
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

    /// Writes a finished leaf, or keeps it if it is the leftmost.
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

    /// Writes the leftmost leaf, which links all others, and makes the top the root.
    async fn link<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        root: Remote<RawNode>,
        mut built: Built<'_>,
        version: u32,
    ) -> Result<u64, IndexError> {
        built.leftmost.set_version(version);
        built.leftmost.seal();
        let linked = self.link_locked(client, root, &built).await;
        held.give_up().await?;
        let grown = linked?;
        if grown != Swapped::Won {
            // Another client has split a new leaf and grown the tree meanwhile: the leaves go in one by one.
            for leaf in 1..built.leaves.nodes.len() {
                let orphan =
                    Orphan { lower: built.leaves.lower(leaf).to_vec(), at: built.leaves.nodes[leaf] };
                self.adopt(client, orphan, 1).await?;
            }
        }
        Ok(built.count)
    }

    /// The two steps of it that need the root's lock; yields whether the tree has grown.
    async fn link_locked<F: Fabric>(
        &self,
        client: &Client<F>,
        root: Remote<RawNode>,
        built: &Built<'_>,
    ) -> Result<Swapped, IndexError> {
        client.post(write(root, built.leftmost.bytes())).await?;
        self.top.store(None);
        if built.top == root {
            return Ok(Swapped::Won);
        }
        Ok(client.post(cas(self.entry.root(), root.word(), built.top.word())).await?)
    }
}

/// A tree that is written but for its leftmost leaf, and not yet linked.
struct Built<'l> {
    leftmost: Node<'l, Vec<u8>>,
    leaves: Level,
    top: Remote<RawNode>,
    count: u64,
}
