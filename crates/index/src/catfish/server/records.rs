//! The server's view of the tree by id: its nodes, and lookups in a snapshot.

use super::super::records::lookup::{FoundRecords, WantedNode};
use super::super::records::node::{RecordNode, StoredRecordNodes, read_blob, visit_blob};
use super::super::records::page::{StoredPayload, StoredRecord, blobs_layout, decode_blob, records_layout};
use super::super::records::{Record, RecordId};
use super::super::tree::layout::{Layout, NodeRef};
use super::super::tree::nearest::Near;
use super::super::tree::rectangle::{Item, Query};
use super::snapshot::{Nodes, Snapshot};
use super::worker::Worker;
use crate::error::IndexError;
use farwood_fabric::{Fabric, Server, ServerMemory};

/// Reads nodes of the tree by id, and of blobs.
pub(super) struct RecordNodes<'s, L> {
    layout: Layout,
    nodes: Nodes<'s, L>,
    blobs: Nodes<'s, L>,
}

impl<'s, L: ServerMemory> RecordNodes<'s, L> {
    pub(super) fn new(local: &'s L, layout: &Layout) -> Self {
        let (nodes, blobs) =
            (Nodes::new(local, &records_layout(layout)), Nodes::new(local, &blobs_layout(layout)));
        Self { layout: *layout, nodes, blobs }
    }

    /// The number of nodes that were read.
    pub(super) fn visits(&self) -> u64 {
        self.nodes.visits.get() + self.blobs.visits.get()
    }

    /// The stored records with these words in the tree under `root`.
    fn find(&self, root: NodeRef, words: Vec<u64>) -> Result<FoundRecords, IndexError> {
        let (mut found, mut wanted) = (FoundRecords::default(), vec![WantedNode::root(root, words)]);
        while let Some(next) = wanted.pop() {
            let copy = self.nodes.copied(next.node, next.below)?;
            let added = found.add(&copy, &self.layout, &next, &mut wanted);
            added.map_err(|what| self.nodes.damaged(next.node, what))?;
        }
        Ok(found)
    }

    /// The whole record.
    fn whole(&self, stored: StoredRecord) -> Result<Record, IndexError> {
        let StoredRecord { id, bounds, payload } = stored;
        let payload = match payload {
            StoredPayload::Inline(payload) => payload,
            StoredPayload::Blob(root, bytes) => read_blob(&self.layout, self, (root, bytes))?,
        };
        Ok(Record { id, bounds, payload })
    }

    /// Collects the slots of the tree below a node; yields how many records its pages have.
    pub(super) fn live_slots(
        &self,
        (word, below): (u64, Option<u8>),
        live: &mut Vec<u64>,
    ) -> Result<u64, IndexError> {
        let (at, node) = self.load_node(word, below)?;
        live.push(at.offset());
        match node {
            RecordNode::Page(records) => {
                for record in &records {
                    if let StoredPayload::Blob(root, bytes) = record.payload {
                        visit_blob(&self.layout, self, (root, bytes), |node| live.push(node.offset()))?;
                    }
                }
                Ok(records.len() as u64)
            }
            RecordNode::Inner(level, children) => {
                let below = |child: u64, live: &mut Vec<u64>| self.live_slots((child, Some(level)), live);
                children.iter().map(|child| below(child.word, live)).sum()
            }
        }
    }
}

impl<L: ServerMemory> StoredRecordNodes for RecordNodes<'_, L> {
    fn load_node(&self, word: u64, below: Option<u8>) -> Result<(NodeRef, RecordNode), IndexError> {
        let node = NodeRef::from_word(word).ok_or_else(|| IndexError::Damaged {
            operation: "serve",
            at: format!("memory node {}", self.layout.node),
            what: format!("a reference is {word:#x}"),
        })?;
        let bytes = self.nodes.copied(node, below)?;
        let decoded = RecordNode::decode(&bytes, &self.layout, below);
        decoded.map(|decoded| (node, decoded)).map_err(|what| self.nodes.damaged(node, what))
    }

    fn load_blob(&self, node: NodeRef, level: u8) -> Result<Vec<u8>, IndexError> {
        let bytes = self.blobs.copied(node, None)?;
        let decoded = decode_blob(&bytes, &self.blobs.layout, level);
        decoded.map(|()| bytes).map_err(|what| self.blobs.damaged(node, what))
    }
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// The record of an id. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::BadId`], also if the index has no records; [`IndexError::Damaged`]; the errors of the fabric.
    pub async fn get(&self, id: &RecordId) -> Result<Option<Record>, IndexError> {
        id.check(self.tree.ids)?;
        let snapshot = self.tree.hold();
        let (nodes, root) = self.record_nodes(&snapshot)?;
        let found = nodes.find(root, vec![id.word()])?.with_word(id.word());
        let stored = found.into_iter().find(|record| record.id == *id);
        let record = stored.map(|stored| nodes.whole(stored)).transpose()?;
        self.server.compute(nodes.visits() * self.tree.settings.visit_ns).await;
        Ok(record)
    }

    /// The records that match, in one version of the trees, which was current at some moment during the call. [0 RT]
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn search_records(&self, query: &Query) -> Result<Vec<Record>, IndexError> {
        let snapshot = self.tree.hold();
        let mut items: Vec<Item> = Vec::new();
        self.search_in(&snapshot, query, &mut items).await?;
        self.records_of(&snapshot, &items).await
    }

    /// The records of the `count` items nearest to `point`, nearest first. Otherwise as
    /// [`search_records`](Self::search_records).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn nearest_records(&self, point: [f64; 2], count: usize) -> Result<Vec<Record>, IndexError> {
        let snapshot = self.tree.hold();
        let near = self.nearest_in(&snapshot, point, count).await?;
        let items: Vec<_> = near.into_iter().map(|Near { item, .. }| item).collect();
        self.records_of(&snapshot, &items).await
    }

    async fn records_of(&self, snapshot: &Snapshot<'_>, items: &[Item]) -> Result<Vec<Record>, IndexError> {
        let (nodes, root) = self.record_nodes(snapshot)?;
        let found = nodes.find(root, items.iter().map(|item| item.id).collect())?;
        let stored = found.of_items(items).map_err(|what| nodes.nodes.damaged(root, what))?;
        let records = stored.into_iter().map(|stored| nodes.whole(stored)).collect::<Result<_, _>>()?;
        self.server.compute(nodes.visits() * self.tree.settings.visit_ns).await;
        Ok(records)
    }

    /// The nodes of the tree by id, and its root in a snapshot.
    fn record_nodes(
        &self,
        snapshot: &Snapshot<'_>,
    ) -> Result<(RecordNodes<'_, S::Local>, NodeRef), IndexError> {
        self.tree.ids.check_records()?;
        let root = snapshot.records.expect("a tree of unique ids has a tree by id");
        Ok((RecordNodes::new(self.server.local(), &self.tree.layout), root))
    }
}
