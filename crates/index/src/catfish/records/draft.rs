//! A draft of changes of the tree by id: the new nodes, and the nodes that they replace. All functions are pure.
//!
//! As the [draft](super::super::tree::draft) of the R*-tree, it copies each stored node that it changes once. A page
//! that is too long is divided between two words; a page or inner node that is less than 40 % full is merged with a
//! neighbour below the same parent if both fit into one node. An empty node is removed.

use super::super::tree::draft::{as_fresh, fresh};
use super::super::tree::layout::{Layout, NodeRef};
use super::super::tree::rectangle::Rectangle;
use super::blob::{groups, parts};
use super::finished::{FinishedRecords, FreshNode};
use super::node::{RecordNode, StoredRecordNodes, set_first_least, visit_blob};
use super::page::{Child, StoredPayload, StoredRecord, bytes_of_records, child_for, is_inline};
use super::{Record, RecordId};
use crate::error::IndexError;

/// Share of a node below which it is merged with a neighbour, percent.
const LEAST_PERCENT: usize = 40;

/// Changes of the tree by id that are not committed yet.
pub(in crate::catfish) struct RecordDraft<'s, S> {
    pub(super) layout: &'s Layout,
    pub(super) stored: &'s S,
    nodes: Vec<FreshNode>,
    pub(super) root: u64,
    pub(super) retired: Vec<NodeRef>,
    /// Visits of new nodes.
    visits: u64,
}

/// A path from the root: each inner node with the position of the child that follows.
type Path = Vec<(usize, usize)>;

impl<'s, S: StoredRecordNodes> RecordDraft<'s, S> {
    /// A draft that begins with the tree under `root`.
    pub(in crate::catfish) fn of(layout: &'s Layout, stored: &'s S, root: NodeRef) -> Self {
        Self { layout, stored, nodes: Vec::new(), root: root.word(), retired: Vec::new(), visits: 0 }
    }

    /// The number of times that a change has visited a node that the draft had copied or added before.
    pub(in crate::catfish) const fn visits(&self) -> u64 {
        self.visits
    }

    /// Stores a record in the place of the one with its id; yields that one.
    ///
    /// # Errors
    /// As [`StoredRecordNodes::load_node`]; [`IndexError::SameHash`]. The draft must
    /// not be committed then.
    pub(in crate::catfish) fn put(&mut self, record: &Record) -> Result<Option<StoredRecord>, IndexError> {
        let (at, path) = self.open_page(record.id.word())?;
        let payload = self.payload(&record.id, &record.payload);
        let new = StoredRecord { id: record.id.clone(), bounds: record.bounds, payload };
        let records = self.page(at);
        let old = match records.binary_search_by(|other| other.key().cmp(&new.key())) {
            Ok(position) => Some(std::mem::replace(&mut records[position], new)),
            Err(position) => {
                records.insert(position, new);
                None
            }
        };
        if let Some(old) = &old {
            self.retire_payload(&old.payload)?;
        }
        self.divide(at, path)?;
        Ok(old)
    }

    /// Removes the record of an id; yields it.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(in crate::catfish) fn remove(&mut self, id: &RecordId) -> Result<Option<StoredRecord>, IndexError> {
        if self.get(id)?.is_none() {
            return Ok(None);
        }
        let (at, path) = self.open_page(id.word())?;
        let records = self.page(at);
        let found = records.binary_search_by(|other| other.key().cmp(&(id.word(), id.text())));
        let Ok(position) = found else { unreachable!("the page holds the record that was found") };
        let old = records.remove(position);
        self.retire_payload(&old.payload)?;
        self.merge(at, path)?;
        Ok(Some(old))
    }

    /// Gives a record other bounds; yields the old ones.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(in crate::catfish) fn set_bounds(
        &mut self,
        id: &RecordId,
        bounds: Rectangle,
    ) -> Result<Option<Rectangle>, IndexError> {
        if self.get(id)?.is_none() {
            return Ok(None);
        }
        let (at, _) = self.open_page(id.word())?;
        let record = self.page(at).iter_mut().find(|record| record.id == *id);
        Ok(record.map(|record| std::mem::replace(&mut record.bounds, bounds)))
    }

    /// The record of an id.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(in crate::catfish) fn get(&self, id: &RecordId) -> Result<Option<StoredRecord>, IndexError> {
        let (mut word, mut below) = (self.root, None);
        loop {
            let loaded;
            let node = if let Some(number) = as_fresh(word) {
                self.node(number)
            } else {
                loaded = self.stored.load_node(word, below)?.1;
                &loaded
            };
            match node {
                RecordNode::Page(records) => {
                    return Ok(records.iter().find(|record| record.id == *id).cloned());
                }
                RecordNode::Inner(level, children) => {
                    (word, below) = (children[child_for(children, id.word())].word, Some(*level));
                }
            }
        }
    }

    fn node(&self, number: usize) -> &RecordNode {
        match &self.nodes[number] {
            FreshNode::Node(node) => node,
            FreshNode::BlobBytes(_) | FreshNode::BlobReferences(..) => {
                unreachable!("a blob is no part of the tree")
            }
        }
    }

    fn node_mut(&mut self, number: usize) -> &mut RecordNode {
        match &mut self.nodes[number] {
            FreshNode::Node(node) => node,
            FreshNode::BlobBytes(_) | FreshNode::BlobReferences(..) => {
                unreachable!("a blob is no part of the tree")
            }
        }
    }

    fn page(&mut self, number: usize) -> &mut Vec<StoredRecord> {
        match self.node_mut(number) {
            RecordNode::Page(records) => records,
            RecordNode::Inner(..) => unreachable!("a path ends at a page"),
        }
    }

    fn children(&mut self, number: usize) -> &mut Vec<Child> {
        match self.node_mut(number) {
            RecordNode::Inner(_, children) => children,
            RecordNode::Page(_) => unreachable!("a page has no children"),
        }
    }

    pub(super) fn add(&mut self, node: FreshNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The node that `word` names, copied into the draft.
    fn open(&mut self, word: u64, below: Option<u8>) -> Result<usize, IndexError> {
        if let Some(number) = as_fresh(word) {
            self.visits += 1;
            return Ok(number);
        }
        let (at, node) = self.stored.load_node(word, below)?;
        self.retired.push(at);
        Ok(self.add(FreshNode::Node(node)))
    }

    fn open_child(&mut self, parent: usize, position: usize) -> Result<usize, IndexError> {
        let level = self.node(parent).level();
        let child = self.open(self.children_of(parent)[position].word, Some(level))?;
        self.children(parent)[position].word = fresh(child);
        Ok(child)
    }

    fn children_of(&self, number: usize) -> &[Child] {
        match self.node(number) {
            RecordNode::Inner(_, children) => children,
            RecordNode::Page(_) => &[],
        }
    }

    /// The page for records with that word, and the path to it, copied into the draft.
    fn open_page(&mut self, word: u64) -> Result<(usize, Path), IndexError> {
        let mut at = self.open(self.root, None)?;
        self.root = fresh(at);
        let mut path = Path::new();
        while let RecordNode::Inner(_, children) = self.node(at) {
            let position = child_for(children, word);
            path.push((at, position));
            at = self.open_child(at, position)?;
        }
        Ok((at, path))
    }

    /// Divides a page that is too long, and the inner nodes above it that get too many children.
    fn divide(&mut self, mut at: usize, mut path: Path) -> Result<(), IndexError> {
        loop {
            let (size, max) = self.node(at).size(self.layout);
            if size <= max {
                return Ok(());
            }
            let (least, sibling) = match self.node_mut(at) {
                RecordNode::Inner(level, children) => {
                    let upper = children.split_off(children.len() / 2);
                    (upper[0].least, RecordNode::inner(*level, upper))
                }
                RecordNode::Page(records) => {
                    let upper = split_point(records, max).map(|point| records.split_off(point));
                    let upper = upper.ok_or(IndexError::SameHash)?;
                    (upper[0].id.word(), RecordNode::Page(upper))
                }
            };
            let word = fresh(self.add(FreshNode::Node(sibling)));
            let Some((parent, position)) = path.pop() else {
                let level = self.node(at).level() + 1;
                let children = vec![Child { least: 0, word: fresh(at) }, Child { least, word }];
                self.root = fresh(self.add(FreshNode::Node(RecordNode::Inner(level, children))));
                return Ok(());
            };
            self.children(parent).insert(position + 1, Child { least, word });
            at = parent;
        }
    }

    /// Merges nodes along a path that are too short, and removes empty ones.
    fn merge(&mut self, mut at: usize, mut path: Path) -> Result<(), IndexError> {
        while let Some((parent, position)) = path.pop() {
            let (size, max) = self.node(at).size(self.layout);
            if self.node(at).is_empty() {
                let children = self.children(parent);
                children.remove(position);
                set_first_least(children);
            } else if size < max * LEAST_PERCENT / 100 {
                self.merge_with_neighbour(parent, position)?;
            }
            at = parent;
        }
        loop {
            let root = self.open(self.root, None)?;
            match self.node(root) {
                RecordNode::Inner(_, children) if children.is_empty() => {
                    *self.node_mut(root) = RecordNode::Page(Vec::new());
                }
                RecordNode::Inner(_, children) if children.len() == 1 => {
                    self.root = children[0].word;
                    if as_fresh(self.root).is_some() {
                        continue;
                    }
                    return Ok(());
                }
                _ => {}
            }
            self.root = fresh(root);
            return Ok(());
        }
    }

    /// Merges a child of `parent` with one of its neighbours, if both fit into one node.
    fn merge_with_neighbour(&mut self, parent: usize, position: usize) -> Result<(), IndexError> {
        let neighbours = [position.checked_sub(1), Some(position + 1)];
        for other in neighbours.into_iter().flatten() {
            let Some(&Child { word, .. }) = self.children_of(parent).get(other) else { continue };
            let level = self.node(parent).level();
            let size = match as_fresh(word) {
                Some(number) => self.node(number).size(self.layout),
                None => self.stored.load_node(word, Some(level))?.1.size(self.layout),
            };
            let own = self.open_child(parent, position)?;
            if size.0 + self.node(own).size(self.layout).0 > size.1 {
                continue;
            }
            let (left, right) = (position.min(other), position.max(other));
            let (into, from) = (self.open_child(parent, left)?, self.open_child(parent, right)?);
            let Child { least, .. } = self.children(parent).remove(right);
            let emptied = std::mem::replace(self.node_mut(from), RecordNode::Page(Vec::new()));
            match (self.node_mut(into), emptied) {
                (RecordNode::Page(records), RecordNode::Page(more)) => records.extend(more),
                (RecordNode::Inner(_, children), RecordNode::Inner(_, mut more)) => {
                    if let Some(first) = more.first_mut() {
                        first.least = least;
                    }
                    children.extend(more);
                }
                _ => unreachable!("neighbours have the same level"),
            }
            return Ok(());
        }
        Ok(())
    }

    /// The payload of a new record, in the page or in new nodes of a blob.
    pub(super) fn payload(&mut self, id: &RecordId, payload: &[u8]) -> StoredPayload {
        if is_inline(self.layout, id.text().len(), payload.len()) {
            return StoredPayload::Inline(payload.to_vec());
        }
        let layout = self.layout;
        let mut level: Vec<_> =
            parts(layout, payload).map(|part| fresh(self.add(FreshNode::BlobBytes(part.to_vec())))).collect();
        for number in 1.. {
            let &[root] = level.as_slice() else {
                let above = groups(layout, &level)
                    .map(|group| fresh(self.add(FreshNode::BlobReferences(number, group.to_vec()))));
                level = above.collect();
                continue;
            };
            return StoredPayload::Blob(root, payload.len() as u32);
        }
        unreachable!("each level has fewer nodes than the one below")
    }

    /// Retires the nodes of a payload that the new tree does not contain.
    fn retire_payload(&mut self, payload: &StoredPayload) -> Result<(), IndexError> {
        match payload {
            StoredPayload::Blob(root, bytes) if as_fresh(*root).is_none() => {
                visit_blob(self.layout, self.stored, (*root, *bytes), |node| self.retired.push(node))
            }
            StoredPayload::Blob(..) | StoredPayload::Inline(_) => Ok(()),
        }
    }

    /// Finishes the draft, and orders its nodes: children before parents. Each node needs a slot.
    pub(in crate::catfish) fn finish(self) -> FinishedRecords {
        let mut finished =
            FinishedRecords { nodes: self.nodes, order: Vec::new(), root: self.root, retired: self.retired };
        if let Some(root) = as_fresh(finished.root) {
            finished.order_below(root);
        }
        finished
    }
}

/// The position at which the records of a page that is too long are divided: between two words, so that both parts are
/// at most `max` bytes long and of similar length. `None`: there is none.
fn split_point(records: &[StoredRecord], max: usize) -> Option<usize> {
    let whole = bytes_of_records(records);
    let mut before = 0;
    let mut best = None;
    for position in 1..records.len() {
        before += records[position - 1].bytes();
        let longer = before.max(whole - before);
        let divides = records[position - 1].id.word() != records[position].id.word();
        if divides && longer <= max && best.is_none_or(|(least, _)| longer < least) {
            best = Some((longer, position));
        }
    }
    best.map(|(_, position)| position)
}
