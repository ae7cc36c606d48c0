//! Lookups of records by READs.
//!
//! A lookup reads the roots of both trees of one commit. As a search of the R*-tree alone, it restarts if a slot was
//! used again, so it sees one version of both trees.

use super::super::head::{ROOTS_BYTES, roots_of};
use super::super::records::blob::BlobWalk;
use super::super::records::lookup::{FoundRecords, WantedNode};
use super::super::records::page::{StoredPayload, StoredRecord, blobs_layout, decode_blob};
use super::super::records::{Record, RecordId};
use super::super::tree::layout::{NodeRef, RawNode};
use super::super::tree::nearest::{Near, Nearest};
use super::super::tree::rectangle::{Item, Query};
use super::reader::{LastRestart, READS_MAX, Reader, STARTS_MAX, SlotReused};
use crate::error::IndexError;
use crate::retry::Retry;
use farwood_fabric::{Checked, Fabric, Fetched, Parallel as _, Read, Words, all, read_bytes};
use std::sync::atomic::Ordering;

/// The roots of both trees of one commit, and the root node of the R*-tree.
struct Roots {
    tree: NodeRef,
    records: NodeRef,
    node: Checked<RawNode>,
}

/// The outcome of one attempt: a slot may have been used again.
type Attempt<T> = Result<Result<T, SlotReused>, IndexError>;

/// Unwraps the outcome of an attempt, or ends this one.
macro_rules! attempt {
    ($outcome:expr) => {
        match $outcome {
            Ok(done) => done,
            Err(reused) => return Ok(Err(reused)),
        }
    };
}

/// Which records a lookup returns.
#[derive(Clone, Copy)]
enum Wanted<'w> {
    Id(&'w RecordId),
    Matching(&'w Query),
    Nearest([f64; 2], usize),
}

impl<F: Fabric> Reader<'_, F> {
    /// The record of an id. [1 RT, 1 for each level of the tree by id, and 1 for each level of a long payload; more if
    /// the search restarts]
    ///
    /// # Errors
    /// [`IndexError::BadId`], also if the index has no records; otherwise as [`search`](Self::search).
    pub async fn get(&mut self, id: &RecordId) -> Result<Option<Record>, IndexError> {
        id.check(self.tree.ids)?;
        Ok(self.records(Wanted::Id(id)).await?.pop())
    }

    /// The records that match, in no particular order. They are those of one version of the trees, which was current at
    /// some moment during the call. [as [`search`](Self::search), and 1 RT for each level of the tree by id and each
    /// 64 nodes of a level; 1 for each level of a long payload]
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn search_records(&mut self, query: &Query) -> Result<Vec<Record>, IndexError> {
        self.tree.check_records()?;
        self.records(Wanted::Matching(query)).await
    }

    /// The records of the `count` items nearest to `point`, nearest first. [as [`nearest`](Self::nearest), and as
    /// [`search_records`](Self::search_records) for the records]
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn nearest_records(
        &mut self,
        point: [f64; 2],
        count: usize,
    ) -> Result<Vec<Record>, IndexError> {
        self.tree.check_records()?;
        self.records(Wanted::Nearest(point, count)).await
    }

    async fn records(&mut self, wanted: Wanted<'_>) -> Result<Vec<Record>, IndexError> {
        let (mut starts, mut last) = (Retry::new("search", STARTS_MAX), LastRestart::default());
        loop {
            match self.try_records(wanted).await? {
                Ok(records) => return Ok(records),
                Err(reused) => self.restart(&mut starts, &mut last, &reused).await?,
            }
        }
    }

    async fn try_records(&mut self, wanted: Wanted<'_>) -> Attempt<Vec<Record>> {
        if let Wanted::Id(id) = wanted {
            let (_, records) = self.root_references().await?;
            let found = attempt!(self.stored(records, vec![id.word()]).await?).with_word(id.word());
            let record = found.into_iter().find(|record| record.id == *id);
            return self.whole(record.into_iter().collect()).await;
        }
        let roots = attempt!(self.roots().await?);
        let mut items: Vec<Item> = Vec::new();
        match wanted {
            Wanted::Id(_) => {}
            Wanted::Matching(query) => {
                attempt!(self.search_from(roots.tree, &roots.node, query, &mut items).await?);
            }
            Wanted::Nearest(point, count) => {
                let mut search = Nearest::new(point, count, roots.tree);
                let _ = search.next();
                self.visit_near(&mut search, (roots.tree, None), &roots.node)?;
                attempt!(self.nearest_from(&mut search).await?);
                items.extend(search.found().into_iter().map(|Near { item, .. }| item));
            }
        }
        let words = items.iter().map(|item| item.id).collect();
        let found = attempt!(self.stored(roots.records, words).await?);
        let records = found.of_items(&items).map_err(|what| self.damaged(roots.records, what))?;
        self.whole(records).await
    }

    /// Reads the roots of both trees, and the root node of the R*-tree. [1 RT if the root is that of the last search,
    /// otherwise 2; more while a commit stores its roots]
    async fn roots(&self) -> Attempt<Roots> {
        let layout = &self.tree.layout;
        let fetch = |node| read_bytes::<RawNode>(layout.at(node), layout.node_bytes());
        let guess = NodeRef::from_word(self.tree.root.load(Ordering::Relaxed));
        let early = match guess {
            Some(guess) => {
                let (words, copy) = self.client.post(self.read_roots().and(fetch(guess))).await?;
                self.references_in(words)?.map(|references| (references, Some(copy)))
            }
            None => None,
        };
        let ((tree, records), copy) = match early {
            Some(found) => found,
            None => (self.root_references().await?, None),
        };
        let copy = if let Some(copy) = copy.filter(|_| guess == Some(tree)) {
            copy
        } else {
            self.tree.root.store(tree.word(), Ordering::Relaxed);
            self.client.post(fetch(tree)).await?
        };
        Ok(self.check(tree, copy).map(|node| Roots { tree, records, node }))
    }

    fn read_roots(&self) -> Read<Words> {
        read_bytes(self.tree.head.part::<Words>(0), ROOTS_BYTES)
    }

    /// The references to the roots of both trees of one commit. [1 RT; more while a commit stores them]
    async fn root_references(&self) -> Result<(NodeRef, NodeRef), IndexError> {
        let mut tries = Retry::new("search", STARTS_MAX);
        loop {
            let words = self.client.post(self.read_roots()).await?;
            if let Some(references) = self.references_in(words)? {
                return Ok(references);
            }
            if tries.again(self.client).await.is_err() {
                let what = "it does not name the tree by id of its root".to_owned();
                return Err(self.damaged_head(what));
            }
        }
    }

    /// The references in a copy of the roots; `None`: a commit stores them at this moment.
    fn references_in(&self, words: Fetched<Words>) -> Result<Option<(NodeRef, NodeRef)>, IndexError> {
        let Ok(words) = words.check(&()) else { unreachable!("words are never torn") };
        let Some((tree, records)) = roots_of(&words) else { return Ok(None) };
        match (NodeRef::from_word(tree), NodeRef::from_word(records)) {
            (Some(tree), Some(records)) => Ok(Some((tree, records))),
            _ => Err(self.damaged_head(format!("the roots are {tree:#x} and {records:#x}"))),
        }
    }

    fn damaged_head(&self, what: String) -> IndexError {
        IndexError::Damaged { operation: "search", at: self.tree.head.to_string(), what }
    }

    /// The stored records with these words.
    async fn stored(&self, root: NodeRef, words: Vec<u64>) -> Attempt<FoundRecords> {
        let (mut found, mut wanted) = (FoundRecords::default(), vec![WantedNode::root(root, words)]);
        while !wanted.is_empty() {
            let batch = wanted.split_off(wanted.len() - wanted.len().min(READS_MAX));
            let nodes: Vec<_> = batch.iter().map(|wanted| wanted.node).collect();
            let copies = attempt!(self.fetch_all(&nodes).await?);
            for (from, copy) in batch.iter().zip(copies) {
                let added = found.add(&copy, &self.tree.layout, from, &mut wanted);
                added.map_err(|what| self.damaged(from.node, what))?;
            }
        }
        Ok(Ok(found))
    }

    /// The whole records. The levels of all long payloads are read together.
    async fn whole(&self, stored: Vec<StoredRecord>) -> Attempt<Vec<Record>> {
        let layout = &self.tree.layout;
        let (mut records, mut walks) = (Vec::with_capacity(stored.len()), Vec::new());
        for StoredRecord { id, bounds, payload } in stored {
            let payload = match payload {
                StoredPayload::Inline(payload) => payload,
                StoredPayload::Blob(root, bytes) => {
                    let walk = BlobWalk::new(layout, root, bytes).map_err(|what| damaged_blob(&id, what))?;
                    walks.push((records.len(), walk));
                    Vec::new()
                }
            };
            records.push(Record { id, bounds, payload });
        }
        while walks.iter().any(|(_, walk)| !walk.wanted().is_empty()) {
            let nodes: Vec<_> = walks.iter().flat_map(|(_, walk)| walk.wanted()).copied().collect();
            let mut copies = Vec::with_capacity(nodes.len());
            for batch in nodes.chunks(READS_MAX) {
                copies.extend(attempt!(self.fetch_all(batch).await?));
            }
            let mut rest = copies.as_slice();
            for (position, walk) in &mut walks {
                let (of_walk, others) = rest.split_at(walk.wanted().len());
                rest = others;
                let (id, level) = (&records[*position].id, walk.level());
                for node in of_walk {
                    decode_blob(node, &blobs_layout(layout), level).map_err(|what| damaged_blob(id, what))?;
                }
                if !of_walk.is_empty() {
                    let added = walk.add(of_walk.iter().map(|node| &**node));
                    added.map_err(|what| damaged_blob(id, what))?;
                }
            }
        }
        for (position, walk) in walks {
            let payload = walk.payload().map_err(|what| damaged_blob(&records[position].id, what))?;
            records[position].payload = payload;
        }
        Ok(Ok(records))
    }

    /// Reads nodes, and checks that they are those that the references name. [1 RT]
    async fn fetch_all(&self, nodes: &[NodeRef]) -> Attempt<Vec<Checked<RawNode>>> {
        let layout = &self.tree.layout;
        let reads = nodes.iter().map(|&node| read_bytes(layout.at(node), layout.node_bytes()));
        let copies = self.client.post(all(reads)).await?;
        Ok(nodes.iter().zip(copies).map(|(&node, copy)| self.check(node, copy)).collect())
    }
}

/// The error for a damaged payload.
fn damaged_blob(id: &RecordId, what: String) -> IndexError {
    IndexError::Damaged { operation: "search", at: format!("the payload of {id}"), what }
}
