//! One flow of the server's work: changes, each in one commit ([`server`](super::server) has the steps).

use super::Request;
use super::bulk::{entries_per_node, tile};
use super::draft::{Draft, Placed};
use super::head::{COMMITS, ENTRIES, ROOT};
use super::layout::{Entry, LINE_WORDS, NodeRef, image, next_generation, stores_of_line};
use super::rectangle::Item;
use super::server::{Grain, ServerSettings, TreeServer};
use super::snapshot::Nodes;
use crate::error::IndexError;
use crate::sabotage::Sabotage;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Owner};
use farwood_fabric::{Client, Fabric, FabricError, LocalMemory as _, Server};
use std::sync::PoisonError;

/// One flow of the server's work.
pub struct Worker<'t, F, S> {
    pub(super) tree: &'t TreeServer,
    pub(super) client: &'t Client<F>,
    pub(super) server: &'t S,
}

/// Rooms that were taken and that nothing leads to: back they go, unless a commit keeps them.
struct Taken<'t> {
    tree: &'t TreeServer,
    rooms: Vec<NodeRef>,
}

impl Taken<'_> {
    /// They are part of the tree from now on.
    fn keep(mut self) {
        self.rooms.clear();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.rooms.is_empty() {
            self.tree.state().rooms.add(self.rooms.drain(..).map(NodeRef::offset));
        }
    }
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Adds an item. Items may be equal. [0 RT; a new chunk as in [`chunks::take`]]
    ///
    /// # Errors
    /// A full pool.
    pub async fn insert(&self, item: &Item) -> Result<(), IndexError> {
        self.commit((1, Request::Insert(*item)), |draft| {
            draft.insert(item);
            true
        })
        .await
        .map(|_| ())
    }

    /// Takes out an item; `false`: there is none like it. Of several that are equal one goes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn remove(&self, item: &Item) -> Result<bool, IndexError> {
        self.commit((-1, Request::Remove(*item)), |draft| draft.remove(item)).await
    }

    /// Puts an item at another place, in one moment; `false`: it was not at `item.bounds`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn update(&self, item: &Item, bounds: super::Rectangle) -> Result<bool, IndexError> {
        let moved = Item { bounds, id: item.id };
        self.commit((0, Request::Update(*item, bounds)), |draft| {
            let there = draft.remove(item);
            if there {
                draft.insert(&moved);
            }
            there
        })
        .await
    }

    /// Drafts a change and makes it the tree, if `change` says that there is one.
    async fn commit(
        &self,
        what: (i64, Request),
        change: impl Fn(&mut Draft<'_, Nodes<'_, S::Local>>) -> bool,
    ) -> Result<bool, IndexError> {
        let tree = self.tree;
        let _guard = tree.write_lock().await;
        let root = tree.state().root;
        let nodes = Nodes { local: self.server.local(), visits: std::cell::Cell::default() };
        let mut draft = Draft::of(&tree.layout, &nodes, root);
        let changed = change(&mut draft);
        let finished = changed.then(|| draft.finish());
        self.server.compute(nodes.visits.get() * tree.settings.visit_ns).await;
        let Some(finished) = finished else { return Ok(false) };
        let rooms = self.rooms(finished.rooms()).await?;
        let placed = finished.place(&rooms.rooms);
        self.publish(placed, what.0, Some(what.1)).await?;
        rooms.keep();
        Ok(true)
    }

    /// Stores the nodes of a commit, then its root.
    async fn publish(&self, placed: Placed, entries: i64, what: Option<Request>) -> Result<(), IndexError> {
        let tree = self.tree;
        let first = tree.is_broken(Sabotage::RootFirst);
        if first {
            self.store_root(placed.root)?;
        }
        for (at, level, entries) in &placed.nodes {
            self.store_node(*at, *level, entries).await?;
        }
        if !first {
            self.store_root(placed.root)?;
        }
        let now = self.client.fabric().now();
        let mut state = tree.state();
        state.root = placed.root;
        state.commit += 1;
        state.entries = state.entries.saturating_add_signed(entries);
        let (commit, entries) = (state.commit, state.entries);
        state.rooms.leave(placed.retired.into_iter().map(NodeRef::offset), commit, now);
        drop(state);
        if let (Some(journal), Some(what)) = (&tree.journal, what) {
            journal.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        }
        let head = tree.head_offset();
        self.server.local().store(head + ENTRIES, entries)?;
        self.server.local().store(head + COMMITS, commit)?;
        Ok(())
    }

    fn store_root(&self, root: NodeRef) -> Result<(), IndexError> {
        Ok(self.server.local().store(self.tree.head_offset() + ROOT, root.word())?)
    }

    /// Stores a node in its room, upward, line by line.
    async fn store_node(&self, at: NodeRef, level: u8, entries: &[Entry]) -> Result<(), IndexError> {
        let (tree, local) = (self.tree, self.server.local());
        let ServerSettings { grain, store_ns, .. } = tree.settings;
        let words = image(&tree.layout, at, level, entries);
        let withdraw = usize::from(tree.is_broken(Sabotage::LineNotWithdrawn));
        for (line, words) in words.chunks_exact(LINE_WORDS).enumerate() {
            let start = at.offset() + 8 * (line * LINE_WORDS) as u64;
            for (word, value) in stores_of_line(words).skip(withdraw) {
                local.store(start + 8 * word as u64, value)?;
                if grain == Grain::Word {
                    self.server.compute(store_ns).await;
                }
            }
            if grain == Grain::Line {
                self.server.compute(store_ns).await;
            }
        }
        if grain == Grain::Node {
            self.server.compute(store_ns).await;
        }
        Ok(())
    }

    /// `count` rooms with their next generations.
    async fn rooms(&self, count: usize) -> Result<Taken<'_>, IndexError> {
        let tree = self.tree;
        let offsets: Vec<_> = loop {
            let now = self.client.fabric().now();
            let taken = tree.state().rooms.take(count, now, tree.settings.rest_ns);
            match taken {
                Some(offsets) => break offsets,
                None => self.take_chunk().await?,
            }
        };
        let generation = |offset: u64| -> Result<_, FabricError> {
            let before = self.server.local().load(offset)?;
            let stays = tree.is_broken(Sabotage::GenerationStays) && before != 0;
            Ok(NodeRef::new(offset, if stays { before as u32 } else { next_generation(before) }))
        };
        let rooms: Result<Vec<_>, FabricError> = offsets.into_iter().map(generation).collect();
        Ok(Taken { tree, rooms: rooms? })
    }

    async fn take_chunk(&self) -> Result<(), IndexError> {
        let tree = self.tree;
        let owner = Owner { client: self.client.fabric().identity(), entry: tree.slot() };
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
            let rooms = self.rooms(lengths.len()).await?;
            let mut above = Vec::with_capacity(lengths.len());
            let mut rest = below.as_slice();
            for (length, &room) in lengths.into_iter().zip(&rooms.rooms) {
                let (node, behind) = rest.split_at(length);
                self.store_node(room, level, node).await?;
                let bounds = super::Rectangle::around(node.iter().map(|entry| &entry.bounds));
                above.push(Entry { bounds: bounds.expect("no node is empty"), word: room.word() });
                rest = behind;
            }
            taken.push(rooms);
            if let [root] = above.as_slice() {
                break NodeRef::from_word(root.word).expect("a room was named");
            }
            (below, level) = (above, level + 1);
        };
        self.publish(
            Placed { nodes: Vec::new(), root, retired: vec![before] },
            items.len().cast_signed() as i64,
            None,
        )
        .await?;
        taken.into_iter().for_each(Taken::keep);
        Ok(())
    }

    /// Rooms that hold no node of the tree.
    #[doc(hidden)]
    pub fn spare_rooms(&self) -> usize {
        self.tree.state().rooms.spare()
    }
}

impl<F, S> std::fmt::Debug for Worker<'_, F, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("tree", &self.tree).finish_non_exhaustive()
    }
}
