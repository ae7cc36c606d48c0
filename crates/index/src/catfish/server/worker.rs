//! A worker of the server: it changes the tree, each change in one commit ([`server`](super) lists the steps).

use super::super::head::{COMMITS, ENTRIES, ROOT};
use super::super::tree::bulk::{entries_per_node, tile};
use super::super::tree::draft::{Draft, PlacedDraft, Underfull};
use super::super::tree::layout::{Entry, LINE_WORDS, NodeRef, image, next_generation, stores_of_line};
use super::super::tree::rectangle::{Item, Rectangle};
use super::super::wire::message::Request;
use super::slots::NodeSlots;
use super::snapshot::Nodes;
use super::{ServerSettings, StoreGranularity, TreeServer};
use crate::error::IndexError;
use crate::mutant::Mutant;
use farwood_fabric::chunks::{self, CHUNK_BYTES, ChunkOwner};
use farwood_fabric::{Client, Fabric, FabricError, Server, ServerMemory as _};
use std::sync::PoisonError;

/// Longest wait for slots that readers may still read, nanoseconds, unless the delay of their reuse is longer.
const RETIRED_WAIT_NS_MAX: u64 = 1_000_000_000;
/// Pause between two attempts to take them, nanoseconds.
const RETIRED_WAIT_NS: u64 = 1_000_000;

/// A worker of the server.
pub struct Worker<'t, F, S> {
    pub(super) tree: &'t TreeServer,
    pub(super) client: &'t Client<F>,
    pub(super) server: &'t S,
}

/// Slots that were taken for a commit. They become free again when they are dropped before the commit.
struct TakenSlots<'t> {
    tree: &'t TreeServer,
    nodes: Vec<NodeRef>,
}

impl TakenSlots<'_> {
    /// The slots are part of the tree from now on.
    fn commit(mut self) {
        self.nodes.clear();
    }
}

impl Drop for TakenSlots<'_> {
    fn drop(&mut self) {
        if !self.nodes.is_empty() {
            self.tree.state().slots.add(self.nodes.drain(..).map(NodeRef::offset));
        }
    }
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Adds an item. Items may be equal. [0 RT; a new chunk as in [`chunks::take`]]
    ///
    /// # Errors
    /// The pool is full; [`IndexError::Damaged`].
    pub async fn insert(&self, item: &Item) -> Result<(), IndexError> {
        self.commit((1, Request::Insert(*item)), NodeSlots::RESERVED, |draft| {
            draft.insert(item).map(|()| true)
        })
        .await
        .map(drop)
    }

    /// Removes one item that is equal to `item`; `false`: there is none. Costs as [`insert`](Self::insert). If the pool
    /// has too few slots to reinsert the other items of an underfull node, that node stays as it is.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn remove(&self, item: &Item) -> Result<bool, IndexError> {
        let noted = || (-1, Request::Remove(*item));
        match self.commit(noted(), 0, |draft| draft.remove(item, Underfull::Dissolve)).await {
            Err(IndexError::Fabric(FabricError::PoolFull { .. })) => {
                self.commit(noted(), 0, |draft| draft.remove(item, Underfull::Keep)).await
            }
            removed => removed,
        }
    }

    /// Gives an item other bounds, in one commit; `false`: there is no such item. Costs as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn update(&self, item: &Item, bounds: Rectangle) -> Result<bool, IndexError> {
        let moved = Item { bounds, id: item.id };
        self.commit((0, Request::Update(*item, bounds)), NodeSlots::RESERVED, |draft| {
            let there = draft.remove(item, Underfull::Dissolve)?;
            if there {
                draft.insert(&moved)?;
            }
            Ok(there)
        })
        .await
    }

    /// Drafts a change and commits it; `false`: `change` has changed nothing. `added` is the number of entries that
    /// the tree gains; `reserve` slots stay unused.
    async fn commit(
        &self,
        (added, request): (i64, Request),
        reserve: usize,
        change: impl Fn(&mut Draft<'_, Nodes<'_, S::Local>>) -> Result<bool, IndexError>,
    ) -> Result<bool, IndexError> {
        let tree = self.tree;
        let _guard = tree.write_lock().await;
        let root = tree.state().root;
        let nodes = Nodes::new(self.server.local(), &tree.layout);
        let mut draft = Draft::of(&tree.layout, &nodes, root);
        let changed = change(&mut draft)?;
        let finished = changed.then(|| draft.finish());
        self.server.compute(nodes.visits.get() * tree.settings.visit_ns).await;
        let Some(finished) = finished else { return Ok(false) };
        let slots = self.take_slots(finished.slots(), reserve).await?;
        let placed = finished.place(&slots.nodes);
        self.publish(placed, added, Some(request)).await?;
        slots.commit();
        Ok(true)
    }

    /// Stores the nodes of a commit, then its root.
    async fn publish(
        &self,
        placed: PlacedDraft,
        added: i64,
        request: Option<Request>,
    ) -> Result<(), IndexError> {
        let tree = self.tree;
        let root_first = tree.is_broken(Mutant::RootFirst);
        if root_first {
            self.store_root(placed.root)?;
        }
        for (at, level, entries) in &placed.nodes {
            self.store_node(*at, *level, entries).await?;
        }
        if !root_first {
            self.store_root(placed.root)?;
        }
        let now = self.client.fabric().now();
        let mut state = tree.state();
        state.root = placed.root;
        state.commit += 1;
        state.entries = state.entries.saturating_add_signed(added);
        let (commit, entries) = (state.commit, state.entries);
        state.slots.retire(placed.retired.into_iter().map(NodeRef::offset), commit, now);
        drop(state);
        if let (Some(journal), Some(request)) = (&tree.journal, request) {
            journal.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        }
        let head = tree.head_offset();
        self.server.local().store(head + ENTRIES, entries)?;
        self.server.local().store(head + COMMITS, commit)?;
        Ok(())
    }

    fn store_root(&self, root: NodeRef) -> Result<(), IndexError> {
        Ok(self.server.local().store(self.tree.head_offset() + ROOT, root.word())?)
    }

    /// Stores a node in its slot, in ascending order, line by line.
    async fn store_node(&self, at: NodeRef, level: u8, entries: &[Entry]) -> Result<(), IndexError> {
        let (tree, local) = (self.tree, self.server.local());
        let ServerSettings { grain, store_ns, .. } = tree.settings;
        let words = image(&tree.layout, at, level, entries);
        let withdraw = usize::from(tree.is_broken(Mutant::LineNotWithdrawn));
        for (line, words) in words.chunks_exact(LINE_WORDS).enumerate() {
            let start = at.offset() + 8 * (line * LINE_WORDS) as u64;
            for (word, value) in stores_of_line(words).skip(withdraw) {
                local.store(start + 8 * word as u64, value)?;
                if grain == StoreGranularity::Word {
                    self.server.compute(store_ns).await;
                }
            }
            if grain == StoreGranularity::Line {
                self.server.compute(store_ns).await;
            }
        }
        if grain == StoreGranularity::Node {
            self.server.compute(store_ns).await;
        }
        Ok(())
    }

    /// Takes `count` slots, with their next generations, so that `reserve` or more stay unused. In a full pool it waits
    /// for retired slots. [0 RT; a new chunk as in [`chunks::take`]]
    async fn take_slots(&self, count: usize, reserve: usize) -> Result<TakenSlots<'_>, IndexError> {
        let (tree, fabric) = (self.tree, self.client.fabric());
        let delay_ns = tree.settings.reuse_delay_ns;
        let end_ns = fabric.now() + delay_ns.max(RETIRED_WAIT_NS_MAX);
        let offsets: Vec<_> = loop {
            let taken = tree.state().slots.take((count, reserve), fabric.now(), delay_ns);
            if let Some(offsets) = taken {
                break offsets;
            }
            let full = match self.take_chunk().await {
                Err(full @ IndexError::Fabric(FabricError::PoolFull { .. })) => full,
                taken => {
                    taken?;
                    continue;
                }
            };
            if tree.state().slots.unused() < count + reserve || fabric.now() >= end_ns {
                return Err(full);
            }
            fabric.sleep(RETIRED_WAIT_NS).await;
        };
        let generation = |offset: u64| -> Result<_, FabricError> {
            let before = self.server.local().load(offset)?;
            let stays = tree.is_broken(Mutant::GenerationStays) && before != 0;
            Ok(NodeRef::new(offset, if stays { before as u32 } else { next_generation(before) }))
        };
        let nodes: Result<Vec<_>, FabricError> = offsets.into_iter().map(generation).collect();
        Ok(TakenSlots { tree, nodes: nodes? })
    }

    /// Takes a chunk, and adds its slots.
    async fn take_chunk(&self) -> Result<(), IndexError> {
        let tree = self.tree;
        let owner = ChunkOwner { client: self.client.fabric().identity(), entry: tree.slot() };
        let taken = chunks::take(self.client, tree.layout.node, owner, CHUNK_BYTES).await?;
        let Some((chunk, _)) = taken else {
            let chunks = self.client.fabric().shape().chunks();
            return Err(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }.into());
        };
        if chunk.start().address().offset() + CHUNK_BYTES > NodeRef::REACH {
            chunks::give_back(self.client, chunk).await?;
            let chunks = NodeRef::REACH / CHUNK_BYTES;
            return Err(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }.into());
        }
        tree.add_chunk(chunk, &[]);
        Ok(())
    }

    /// Loads items into the empty tree, filling nodes to the share `fill` (0 to 1), in one commit.
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; a full pool, which leaves the tree empty.
    pub async fn bulk_load(&self, items: &[Item], fill: f64) -> Result<(), IndexError> {
        let tree = self.tree;
        let _guard = tree.write_lock().await;
        if tree.entries() > 0 {
            return Err(IndexError::NotEmpty);
        }
        if items.is_empty() {
            return Ok(());
        }
        let before = tree.state().root;
        let per_node = entries_per_node(&tree.layout, fill);
        let (mut level, mut taken) = (0, Vec::new());
        let mut below: Vec<_> =
            items.iter().map(|item| Entry { bounds: item.bounds, word: item.id }).collect();
        let root = loop {
            let lengths = tile(&mut below, per_node);
            let slots = self.take_slots(lengths.len(), NodeSlots::RESERVED).await?;
            let mut above = Vec::with_capacity(lengths.len());
            let mut rest = below.as_slice();
            for (length, &at) in lengths.into_iter().zip(&slots.nodes) {
                let (node, after) = rest.split_at(length);
                self.store_node(at, level, node).await?;
                let bounds = Rectangle::around(node.iter().map(|entry| &entry.bounds));
                above.push(Entry { bounds: bounds.expect("no node is empty"), word: at.word() });
                rest = after;
            }
            taken.push(slots);
            if let [root] = above.as_slice() {
                break NodeRef::from_word(root.word).expect("the word of a reference");
            }
            (below, level) = (above, level + 1);
        };
        self.publish(
            PlacedDraft { nodes: Vec::new(), root, retired: vec![before] },
            items.len().cast_signed() as i64,
            None,
        )
        .await?;
        taken.into_iter().for_each(TakenSlots::commit);
        Ok(())
    }

    /// Slots that hold no node of the tree.
    #[doc(hidden)]
    pub fn unused_slots(&self) -> usize {
        self.tree.state().slots.unused()
    }
}

impl<F, S> std::fmt::Debug for Worker<'_, F, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("tree", &self.tree).finish_non_exhaustive()
    }
}
