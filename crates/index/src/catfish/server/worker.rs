//! A worker of the server: it changes the tree, in commits ([`server`](super) lists the steps).

use super::super::head::{COMMITS, ENTRIES, ROOT, ROOTS, ROOTS_WORDS};
use super::super::records::draft::RecordDraft;
use super::super::records::finished::{FinishedRecords, PlacedRecords};
use super::super::records::{IdKind, Record, payload_max};
use super::super::tree::bulk::{entries_per_node, tile};
use super::super::tree::change::Change;
use super::super::tree::draft::{Draft, PlacedDraft, Underfull};
use super::super::tree::layout::{
    Entry, LINE_WORDS, Layout, NodeRef, UNDER_WAY, image, next_generation, stores_of_line,
};
use super::super::tree::rectangle::{Item, Rectangle};
use super::records::RecordNodes;
use super::slots::NodeSlots;
use super::snapshot::Nodes;
use super::tree_draft::TreeDraft;
use super::writer::{Role, WriterGuard};
use super::{ServerSettings, StoreGranularity, TreeServer};
use crate::coverage;
use crate::error::IndexError;
use crate::mutant::Mutant;
use farwood_fabric::chunk_limit;
use farwood_fabric::chunks::{self, CHUNK_BYTES, ChunkOwner, TakenChunk};
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

/// Maximum groups that a writer commits before the next worker becomes the writer: the writer's own client waits for
/// all of them.
const GROUPS_MAX: usize = 4;

/// The changes of the workers that one commit contains.
type Group<'q> = WriterGuard<'q, Vec<Change>, Result<Vec<bool>, IndexError>>;

fn only_removals(changes: &[Change]) -> bool {
    changes.iter().all(Change::is_removal)
}

/// Checks that an index can make the change.
///
/// # Errors
/// [`IndexError::BadId`], [`IndexError::TooLong`].
pub(in crate::catfish) fn check_change(
    change: &Change,
    ids: IdKind,
    layout: &Layout,
) -> Result<(), IndexError> {
    match change {
        Change::Put(record) => check_record(record, ids, layout),
        Change::Delete(id) | Change::Move(id, _) => id.check(ids),
        Change::Insert(_) | Change::Remove(_) | Change::Update(..) if ids.is_unique() => {
            Err(IndexError::BadId(
                "the index has records; put, delete and move records instead of items".to_owned(),
            ))
        }
        Change::Insert(_) | Change::Remove(_) | Change::Update(..) => Ok(()),
    }
}

fn check_record(record: &Record, ids: IdKind, layout: &Layout) -> Result<(), IndexError> {
    record.id.check(ids)?;
    let (most, found) = (payload_max(layout), record.payload.len());
    if found > most { Err(IndexError::TooLong { most, found }) } else { Ok(()) }
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
        self.apply(&[Change::Insert(*item)]).await.map(drop)
    }

    /// Removes one item that is equal to `item`; `false`: there is none. Costs as [`insert`](Self::insert). If the pool
    /// has too few slots to reinsert the other items of an underfull node, that node stays as it is.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn remove(&self, item: &Item) -> Result<bool, IndexError> {
        Ok(self.apply(&[Change::Remove(*item)]).await? == [true])
    }

    /// Gives an item other bounds, in one commit; `false`: there is no such item. Costs as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn update(&self, item: &Item, bounds: Rectangle) -> Result<bool, IndexError> {
        Ok(self.apply(&[Change::Update(*item, bounds)]).await? == [true])
    }

    /// Makes changes in their order, all of them in one commit; yields for each whether it found its item. The commit
    /// also contains the changes of other workers that wait at the same time. Costs as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert); none of the changes is made. Changes that do not fit into the pool do not prevent
    /// those of other workers.
    pub async fn apply(&self, changes: &[Change]) -> Result<Vec<bool>, IndexError> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        for change in changes {
            check_change(change, self.tree.ids, &self.tree.layout)?;
        }
        match self.tree.writer.submit(changes.to_vec(), changes.len()).await {
            Role::Write(group) => self.commit_groups(group).await,
            Role::Done(found) => {
                self.client.fabric().record_coverage(coverage::COMMITTED_BY_ANOTHER);
                found
            }
        }
    }

    /// Commits the changes of a group, and those of the workers that arrive meanwhile; yields the outcome of the
    /// worker's own.
    async fn commit_groups(&self, mut group: Group<'_>) -> Result<Vec<bool>, IndexError> {
        let own = self.commit_group(&mut group).await;
        for _ in 1..GROUPS_MAX {
            if !group.take_more() {
                break;
            }
            self.commit_group(&mut group).await;
        }
        own.expect("the first group contains the changes of its writer")
    }

    /// Commits the changes of a group; yields the outcome of the worker's own, if the group contains them.
    async fn commit_group(&self, group: &mut Group<'_>) -> Option<Result<Vec<bool>, IndexError>> {
        let mut own = None;
        if group.work().len() > 1 {
            self.client.fabric().record_coverage(coverage::GROUP_COMMIT);
            let changes = group.work().flatten().cloned().collect::<Vec<_>>();
            // If the changes do not all fit, or a node that one of them needs is damaged, each worker's are committed
            // alone.
            if let Ok(found) = self.commit(&changes, Underfull::Dissolve).await {
                let mut rest = found.as_slice();
                while let Some(count) = group.first().map(Vec::len) {
                    let (first, after) = rest.split_at(count);
                    own = group.grant_first(Ok(first.to_vec())).or(own);
                    rest = after;
                }
            }
        }
        while let Some(changes) = group.first() {
            let found = self.commit_alone(changes).await;
            own = group.grant_first(found).or(own);
        }
        own
    }

    /// Commits the changes of one worker.
    async fn commit_alone(&self, changes: &[Change]) -> Result<Vec<bool>, IndexError> {
        match self.commit(changes, Underfull::Dissolve).await {
            Err(IndexError::Fabric(FabricError::PoolFull { .. })) if only_removals(changes) => {
                self.commit(changes, Underfull::Keep).await
            }
            found => found,
        }
    }

    /// Drafts changes and commits them, if one of them finds its item; yields for each whether it does.
    async fn commit(&self, changes: &[Change], underfull: Underfull) -> Result<Vec<bool>, IndexError> {
        let tree = self.tree;
        let (root, records_root) = tree.roots();
        let nodes = Nodes::new(self.server.local(), &tree.layout);
        let record_nodes = RecordNodes::new(self.server.local(), &tree.layout);
        let mut draft = TreeDraft {
            tree: Draft::of(&tree.layout, &nodes, root),
            records: records_root.map(|root| RecordDraft::of(&tree.layout, &record_nodes, root)),
        };
        let applied: Vec<_> =
            changes.iter().map(|change| draft.apply(change, underfull)).collect::<Result<_, _>>()?;
        let visits = nodes.visits.get() + record_nodes.visits() + draft.visits();
        let is_made = applied.iter().any(|applied| applied.made);
        if is_made && draft.records.is_some() {
            draft.tree.renew_root()?;
        }
        let finished = is_made.then(|| (draft.tree.finish(), draft.records.map(RecordDraft::finish)));
        self.server.compute(visits * tree.settings.visit_ns).await;
        let found = applied.iter().map(|applied| applied.found).collect();
        let Some((finished, records)) = finished else { return Ok(found) };
        let reserve = if only_removals(changes) { 0 } else { NodeSlots::RESERVED };
        let of_records = records.as_ref().map_or(0, FinishedRecords::slots);
        let slots = self.take_slots(finished.slots() + of_records, reserve).await?;
        let (for_tree, for_records) = slots.nodes.split_at(finished.slots());
        let placed = finished.place(for_tree);
        let records = records.map(|records| records.place(&tree.layout, for_records));
        let made = changes.iter().zip(&applied).filter(|(_, applied)| applied.made);
        let made: Vec<_> = made.map(|(change, _)| change.clone()).collect();
        let gained = applied.iter().map(|applied| applied.gained).sum();
        self.publish(placed, records, gained, made).await?;
        slots.commit();
        Ok(found)
    }

    /// Stores the nodes of a commit, then its roots.
    async fn publish(
        &self,
        placed: PlacedDraft,
        records: Option<PlacedRecords>,
        gained: i64,
        changes: Vec<Change>,
    ) -> Result<(), IndexError> {
        let tree = self.tree;
        let root_first = tree.is_broken(Mutant::RootFirst);
        if root_first {
            self.store_root(placed.root)?;
        }
        for (at, level, entries) in &placed.nodes {
            self.store_node(*at, *level, entries).await?;
        }
        let mut retired: Vec<_> = placed.retired.into_iter().map(NodeRef::offset).collect();
        let records_root = match records {
            None => None,
            Some(records) => {
                for (at, words) in &records.nodes {
                    self.store_words(*at, words).await?;
                }
                let stored = if tree.is_broken(Mutant::RecordsLater) { tree.roots().1 } else { None };
                self.store_roots(placed.root, stored.unwrap_or(records.root)).await?;
                retired.extend(records.retired.into_iter().map(NodeRef::offset));
                Some(records.root)
            }
        };
        if !root_first {
            self.store_root(placed.root)?;
        }
        if tree.is_broken(Mutant::RecordsLater)
            && let Some(records) = records_root
        {
            self.store_roots(placed.root, records).await?;
        }
        let now = self.client.fabric().now();
        let mut state = tree.state();
        (state.root, state.records) = (placed.root, records_root);
        state.commit += 1;
        state.entries = state.entries.saturating_add_signed(gained);
        let (commit, entries) = (state.commit, state.entries);
        state.slots.retire(retired, commit, now);
        drop(state);
        if let Some(journal) = &tree.journal {
            journal.lock().unwrap_or_else(PoisonError::into_inner).push(changes);
        }
        let head = tree.head_offset();
        self.server.local().store(head + ENTRIES, entries)?;
        self.server.local().store(head + COMMITS, commit)?;
        Ok(())
    }

    fn store_root(&self, root: NodeRef) -> Result<(), IndexError> {
        Ok(self.server.local().store(self.tree.head_offset() + ROOT, root.word())?)
    }

    /// Stores the roots of both trees of a commit in the place that does not hold those of the last one.
    async fn store_roots(&self, root: NodeRef, records: NodeRef) -> Result<(), IndexError> {
        let (tree, local) = (self.tree, self.server.local());
        let ServerSettings { grain, store_ns, .. } = tree.settings;
        let [first, second] = ROOTS.map(|roots| tree.head_offset() + roots);
        let current = local.load(tree.head_offset() + ROOT)?;
        let place = if local.load(first)? == current { second } else { first };
        let rear = place + 8 * (ROOTS_WORDS as u64 - 1);
        let words = [(place, root), (place + 8, records), (rear, root)];
        for (at, word) in std::iter::once((rear, UNDER_WAY)).chain(words.map(|(at, node)| (at, node.word())))
        {
            local.store(at, word)?;
            if grain == StoreGranularity::Word {
                self.server.compute(store_ns).await;
            }
        }
        Ok(())
    }

    /// Stores a node of the R*-tree in its slot.
    async fn store_node(&self, at: NodeRef, level: u8, entries: &[Entry]) -> Result<(), IndexError> {
        self.store_words(at, &image(&self.tree.layout, at, level, entries)).await
    }

    /// Stores the words of a node in its slot, in ascending order, line by line.
    async fn store_words(&self, at: NodeRef, words: &[u64]) -> Result<(), IndexError> {
        let (tree, local) = (self.tree, self.server.local());
        let ServerSettings { grain, store_ns, .. } = tree.settings;
        let withdraw = usize::from(tree.is_broken(Mutant::LineNotWithdrawn));
        for (line, words) in words.as_chunks::<LINE_WORDS>().0.iter().enumerate() {
            let start = at.offset() + 8 * (line * LINE_WORDS) as u64;
            let mut stores = stores_of_line(words);
            if grain == StoreGranularity::Word {
                for (word, value) in stores.skip(withdraw) {
                    local.store(start + 8 * word as u64, value)?;
                    self.server.compute(store_ns).await;
                }
            } else {
                for (word, value) in stores.by_ref().take(1).skip(withdraw) {
                    local.store(start + 8 * word as u64, value)?;
                }
                local.store_line(start, words)?;
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
        let Some(TakenChunk { chunk, .. }) = taken else {
            return Err(chunk_limit::pool_full(self.client, [tree.layout.node]).await.into());
        };
        if chunk.start().address().offset() + CHUNK_BYTES > NodeRef::REACH {
            chunks::give_back(self.client, chunk).await?;
            let chunks = NodeRef::REACH / CHUNK_BYTES;
            return Err(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }.into());
        }
        tree.add_chunk(chunk, &[]);
        Ok(())
    }

    /// Loads items into the empty tree of an index of repeated ids, filling nodes to the share `fill` (0 to 1), in one
    /// commit.
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; [`IndexError::BadId`] if the ids of the index are unique; a full pool, which leaves
    /// the tree empty.
    pub async fn bulk_load(&self, items: &[Item], fill: f64) -> Result<(), IndexError> {
        if self.tree.ids.is_unique() {
            return Err(IndexError::BadId("the index has records; load records".to_owned()));
        }
        let _guard = self.tree.writer.lock().await;
        if self.tree.entries() > 0 {
            return Err(IndexError::NotEmpty);
        }
        if items.is_empty() {
            return Ok(());
        }
        let (placed, taken) = self.store_tree(items, fill).await?;
        self.publish(placed, None, items.len().cast_signed() as i64, Vec::new()).await?;
        taken.into_iter().for_each(TakenSlots::commit);
        Ok(())
    }

    /// Loads records with different ids into the empty trees, filling nodes to the share `fill` (0 to 1), in one
    /// commit.
    ///
    /// # Errors
    /// As [`bulk_load`](Self::bulk_load); [`IndexError::BadId`] if two records have the same id.
    pub async fn bulk_load_records(&self, mut records: Vec<Record>, fill: f64) -> Result<(), IndexError> {
        let tree = self.tree;
        for record in &records {
            check_record(record, tree.ids, &tree.layout)?;
        }
        records.sort_by(|one, other| (one.id.word(), &one.id).cmp(&(other.id.word(), &other.id)));
        if let Some((twice, _)) =
            records.iter().zip(records.iter().skip(1)).find(|(one, other)| one.id == other.id)
        {
            return Err(IndexError::BadId(format!("two records have the id {}", twice.id)));
        }
        let _guard = tree.writer.lock().await;
        if tree.entries() > 0 {
            return Err(IndexError::NotEmpty);
        }
        let (_, Some(root)) = tree.roots() else {
            return Err(IndexError::BadId("the index has rectangles without records".to_owned()));
        };
        if records.is_empty() {
            return Ok(());
        }
        let items: Vec<_> =
            records.iter().map(|record| Item { bounds: record.bounds, id: record.id.word() }).collect();
        let (placed, mut taken) = self.store_tree(&items, fill).await?;
        let stored = RecordNodes::new(self.server.local(), &tree.layout);
        let finished = RecordDraft::of(&tree.layout, &stored, root).load(records, fill)?;
        let slots = self.take_slots(finished.slots(), NodeSlots::RESERVED).await?;
        let records = finished.place(&tree.layout, &slots.nodes);
        taken.push(slots);
        self.publish(placed, Some(records), items.len().cast_signed() as i64, Vec::new()).await?;
        taken.into_iter().for_each(TakenSlots::commit);
        Ok(())
    }

    /// Stores a tree of items, without its root in the head; yields its root, and the slots of its nodes.
    async fn store_tree(
        &self,
        items: &[Item],
        fill: f64,
    ) -> Result<(PlacedDraft, Vec<TakenSlots<'_>>), IndexError> {
        let before = self.tree.state().root;
        let per_node = entries_per_node(&self.tree.layout, fill);
        let (mut level, mut taken) = (0, Vec::new());
        let mut below: Vec<_> =
            items.iter().map(|item| Entry { bounds: item.bounds, word: item.id }).collect();
        loop {
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
                let root = NodeRef::from_word(root.word).expect("the word of a reference");
                return Ok((PlacedDraft { nodes: Vec::new(), root, retired: vec![before] }, taken));
            }
            (below, level) = (above, level + 1);
        }
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
