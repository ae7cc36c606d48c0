//! The server's side of the tree: the only one that changes it, in its own memory.
//!
//! A change is a commit ([`mod`](super) has the argument):
//!
//! 1. it is drafted beside the tree: copies of the nodes on its way, from leaf to root ([`draft`](super::draft));
//! 2. each new node is stored in a room that holds no node of the tree, with the room's next generation;
//! 3. the root word of the head is stored: this is the moment of the change;
//! 4. the rooms of the nodes that are no part of the tree any more rest until no search needs them.
//!
//! A server that dies leaves the tree of its last commit. Whoever serves the index next, having proven it gone, walks
//! that tree and takes every other room for free.

use super::bulk::{entries_per_node, tile};
use super::draft::{Draft, Placed, Stored};
use super::head::{
    COMMITS, ENTRIES, HEAD_BYTES, RING_CHUNKS, RING_CHUNKS_MAX, ROOT, RawHead, SERVER, TERM, word_of,
};
use super::layout::{
    Entry, InPlace, LINE_WORDS, Layout, NodeRef, entry_of, head_of, image, next_generation, stores_of_line,
};
use super::rectangle::{Item, Query};
use super::rooms::Rooms;
use super::scan::{entries, matching};
use super::turn::{Turn, Turns};
use super::{Answer, Near, Nearest, Request};
use crate::error::IndexError;
use crate::sabotage::Sabotage;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::{
    Client, Fabric, FabricError, LocalMemory, LockWord, Remote, Revocation, Server, Swapped, cas, read,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How finely a server's stores are spread over time: the laboratory lets READs in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// After each node.
    #[default]
    Node,
    /// After each line.
    Line,
    /// After each word.
    Word,
}

/// What a server's work costs where work is accounted for, and how long rooms rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Nanoseconds of processor time to look at a node.
    pub visit_ns: u64,
    /// Nanoseconds of processor time to store one [`Grain`].
    pub store_ns: u64,
    /// How finely stores are spread.
    pub grain: Grain,
    /// Nanoseconds that a room rests before it is used again.
    pub rest_ns: u64,
}

impl Default for ServerSettings {
    /// Nothing is accounted for.
    fn default() -> Self {
        Self { visit_ns: 0, store_ns: 0, grain: Grain::Node, rest_ns: Rooms::REST_NS }
    }
}

/// The tree as its server knows it. Workers share it.
#[derive(Debug)]
pub struct TreeServer {
    pub(super) layout: Layout,
    head: Remote<RawHead>,
    slot: u8,
    term: u64,
    settings: ServerSettings,
    state: Mutex<State>,
    turns: Turns,
    sabotage: Option<Sabotage>,
    /// Every change in the order of the commits, for those who check.
    journal: Option<Mutex<Vec<Request>>>,
}

#[derive(Debug)]
struct State {
    root: NodeRef,
    commit: u64,
    entries: u64,
    rooms: Rooms,
}

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

/// The tree of one commit, held: none of its rooms is used again while this lives.
struct Snapshot<'t> {
    tree: &'t TreeServer,
    root: NodeRef,
    commit: u64,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.tree.state().rooms.let_go(self.commit);
    }
}

/// Reads nodes of a snapshot, and counts them.
struct Nodes<'s, L> {
    local: &'s L,
    visits: std::cell::Cell<u64>,
}

impl<L: LocalMemory> Nodes<'_, L> {
    fn at(&self, node: NodeRef) -> InPlace<'_, L> {
        self.visits.set(self.visits.get() + 1);
        InPlace { local: self.local, offset: node.offset() }
    }
}

impl<L: LocalMemory> Stored for Nodes<'_, L> {
    fn load(&self, node: NodeRef) -> (u8, Vec<Entry>) {
        let node = self.at(node);
        let head = head_of(&node);
        (head.level, entries(&node, head.entries).collect())
    }
}

impl TreeServer {
    /// Becomes the server of the index with that head: nobody else may be. [3 RT, and for each 128 chunks 1]
    pub(super) async fn claim<F: Fabric, S: Server>(
        client: &Client<F>,
        server: &S,
        (layout, head, slot): (Layout, Remote<RawHead>, u8),
        settings: ServerSettings,
    ) -> Result<Self, IndexError> {
        take_office(client, head).await?;
        let root = server.local().load(head.address().offset() + ROOT)?;
        let Some(root) = NodeRef::from_word(root) else {
            return Err(damaged(head, format!("the root is {root:#x}")));
        };
        let state = State { root, commit: 0, entries: 0, rooms: Rooms::default() };
        let (state, turns) = (Mutex::new(state), Turns::default());
        let term = server.local().load(head.address().offset() + TERM)? + 1;
        server.local().store(head.address().offset() + TERM, term)?;
        let tree = Self { layout, head, slot, term, settings, state, turns, sabotage: None, journal: None };
        tree.recover(client, server).await?;
        Ok(tree)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker of this server, with a client and the memory of its own.
    pub fn worker<'t, F: Fabric, S: Server>(
        &'t self,
        client: &'t Client<F>,
        server: &'t S,
    ) -> Worker<'t, F, S> {
        Worker { tree: self, client, server }
    }

    /// Where the head is in the server's memory.
    pub(super) fn head_offset(&self) -> u64 {
        self.head.address().offset()
    }

    /// Which of the index's servers this is.
    pub(super) fn term(&self) -> u64 {
        self.term
    }

    /// The directory entry.
    pub(super) fn slot(&self) -> u8 {
        self.slot
    }

    /// Waits until nobody else of this server changes what it has to change alone.
    pub(super) async fn turn(&self) -> Turn<'_> {
        self.turns.take().await
    }

    /// Entries of the tree.
    pub fn entries(&self) -> u64 {
        self.state().entries
    }

    /// Commits since this server came.
    pub fn commits(&self) -> u64 {
        self.state().commit
    }

    /// Breaks the server on purpose.
    #[doc(hidden)]
    #[must_use]
    pub fn sabotage(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = Some(sabotage);
        self
    }

    /// Lets the server keep every change, in the order of the commits.
    #[doc(hidden)]
    #[must_use]
    pub fn with_journal(mut self) -> Self {
        self.journal = Some(Mutex::default());
        self
    }

    /// Takes the changes that were kept.
    #[doc(hidden)]
    pub fn take_journal(&self) -> Vec<Request> {
        let journal =
            self.journal.as_ref().map(|journal| journal.lock().unwrap_or_else(PoisonError::into_inner));
        journal.map(|mut journal| std::mem::take(&mut *journal)).unwrap_or_default()
    }

    pub(super) fn is_broken(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }

    /// Leaves the office, so that another may serve the index. [1 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn resign<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let mine = LockWord::held_by(client.fabric().identity());
        let _ = client.post(cas(word_of(self.head, SERVER), mine.word(), LockWord::FREE.word())).await?;
        Ok(())
    }

    /// Finds the rooms that hold no node of the tree, after whatever became of the last server.
    async fn recover<F: Fabric, S: Server>(&self, client: &Client<F>, server: &S) -> Result<(), IndexError> {
        let mut live = Vec::new();
        let root = self.state().root;
        let entries = self.live_rooms(server, root, &mut live)?;
        self.state().entries = entries;
        live.sort_unstable();
        let chunks = chunks::in_use(client, self.layout.node).await?;
        let rings = (0..RING_CHUNKS_MAX as u64)
            .map(|at| server.local().load(self.head_offset() + RING_CHUNKS + 8 * at));
        let rings: Vec<_> = rings.collect::<Result<_, _>>()?;
        for chunk in chunks.into_iter().filter(|chunk| chunk.entry == self.slot) {
            if !rings.contains(&chunk.chunk.start().address().offset()) {
                self.add_chunk(chunk.chunk, &live);
            }
        }
        Ok(())
    }

    /// The rooms of the tree below `node`, and how many entries its leaves have.
    fn live_rooms<S: Server>(
        &self,
        server: &S,
        node: NodeRef,
        live: &mut Vec<u64>,
    ) -> Result<u64, IndexError> {
        let place = InPlace { local: server.local(), offset: node.offset() };
        let head = head_of(&place);
        let version = server.local().load(node.offset())?;
        if version != node.version() || head.index != self.layout.index {
            let what = format!("version {version:#x} of index {}, not {node:?}", head.index);
            return Err(damaged(self.layout.at(node), what));
        }
        live.push(node.offset());
        if head.level == 0 {
            return Ok(head.entries as u64);
        }
        let mut entries = 0;
        for entry in 0..head.entries {
            let word = entry_of(&place, entry).word;
            let Some(child) = NodeRef::from_word(word) else {
                return Err(damaged(self.layout.at(node), format!("child {entry} is {word:#x}")));
            };
            entries += self.live_rooms(server, child, live)?;
        }
        Ok(entries)
    }

    /// Adds the rooms of a chunk that are not among `live`, which is sorted.
    fn add_chunk(&self, chunk: Chunk, live: &[u64]) {
        let start = chunk.start().address().offset();
        let head = self.head.address().offset();
        let first = if start == head { start + HEAD_BYTES } else { start };
        let bytes = self.layout.node_bytes() as u64;
        let rooms = (0..(start + CHUNK_BYTES - first) / bytes).map(|room| first + room * bytes);
        // The last room that is added is the first that is taken.
        self.state().rooms.add(rooms.rev().filter(|room| live.binary_search(room).is_err()));
    }

    fn hold(&self) -> Snapshot<'_> {
        let mut state = self.state();
        let (root, commit) = (state.root, state.commit);
        state.rooms.hold(commit);
        Snapshot { tree: self, root, commit }
    }
}

/// Enters this compute node as the server of the index, in place of one that is gone.
async fn take_office<F: Fabric>(client: &Client<F>, head: Remote<RawHead>) -> Result<(), IndexError> {
    let at = word_of(head, SERVER);
    let mine = LockWord::held_by(client.fabric().identity());
    let mut found = LockWord::FREE;
    loop {
        match client.post(cas(at, found.word(), mine.word())).await? {
            Swapped::Won => return Ok(()),
            Swapped::Lost(word) => found = LockWord::from_word(word),
        }
        let Some(holder) = found.holder() else { continue };
        if client.fabric().revoke(holder).await? == Revocation::Alive {
            return Err(IndexError::Served { by: holder });
        }
    }
}

/// Who serves the index. [1 RT]
pub(super) async fn in_office<F: Fabric>(
    client: &Client<F>,
    head: Remote<RawHead>,
) -> Result<Option<farwood_fabric::ClientId>, IndexError> {
    let word = client.post(read(word_of(head, SERVER))).await?;
    let Ok(word) = word.check(&()) else { unreachable!("words are whole") };
    Ok(LockWord::from_word(word.word()).holder())
}

fn damaged<T: ?Sized>(at: Remote<T>, what: String) -> IndexError {
    IndexError::Damaged { operation: "serve", at: at.to_string(), what }
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
        let _turn = tree.turns.take().await;
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
        Ok(self.server.local().store(self.tree.head.address().offset() + ROOT, root.word())?)
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
        let owner = Owner { client: self.client.fabric().identity(), entry: tree.slot };
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
        let _turn = tree.turns.take().await;
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

    /// Adds to `found` what the query is for, of the tree at one moment during the call. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn search(&self, query: &Query, found: &mut impl Answer) -> Result<(), IndexError> {
        let snapshot = self.tree.hold();
        let nodes = Nodes { local: self.server.local(), visits: std::cell::Cell::default() };
        let mut way = vec![snapshot.root];
        while let Some(at) = way.pop() {
            let node = nodes.at(at);
            let head = head_of(&node);
            matching(&node, (head.level, head.entries), query, |place| {
                let entry = entry_of(&node, place);
                match head.level {
                    0 => found.item(Item { bounds: entry.bounds, id: entry.word }),
                    _ => way.push(NodeRef::from_word(entry.word).expect("inner nodes name nodes")),
                }
            });
        }
        self.server.compute(nodes.visits.get() * self.tree.settings.visit_ns).await;
        Ok(())
    }

    /// The `count` items that are nearest to `point`, nearest first, of the tree at one moment during the call. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn nearest(&self, point: [f64; 2], count: usize) -> Result<Vec<Near>, IndexError> {
        let snapshot = self.tree.hold();
        let nodes = Nodes { local: self.server.local(), visits: std::cell::Cell::default() };
        let mut search = Nearest::new(point, count, snapshot.root);
        while let Some(at) = search.next() {
            let node = nodes.at(at);
            let head = head_of(&node);
            search.look(head.level, entries(&node, head.entries));
        }
        self.server.compute(nodes.visits.get() * self.tree.settings.visit_ns).await;
        Ok(search.found())
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
