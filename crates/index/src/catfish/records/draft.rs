//! A draft of changes of the tree by id: the new nodes, and the nodes that they replace. All functions are pure.
//!
//! As the [draft](super::super::tree::draft) of the R*-tree, it copies each stored node that it changes once. A page
//! that is too long is divided between two words; a page or inner node that is less than 40 % full is merged with a
//! neighbour below the same parent if both fit into one node. An empty node is removed.

use super::super::tree::draft::{as_fresh, fresh};
use super::super::tree::filter::entries;
use super::super::tree::layout::{Layout, NodeRef, damage_of, head_of, image};
use super::super::tree::rectangle::Rectangle;
use super::blob::{BlobWalk, blob_image, groups, parts};
use super::page::{
    Child, StoredPayload, StoredRecord, bytes_of_records, child_for, children_of, is_inline, page_bytes,
    page_image, records_layout, records_of,
};
use super::{Record, RecordId, too_many_of_one_word};
use crate::error::IndexError;

/// Reads stored nodes of the tree by id.
pub(in crate::catfish) trait StoredRecordNodes {
    /// Loads the node that `word` names, below a node of level `below`.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if there is no such node; the errors of the fabric.
    fn load_node(&self, word: u64, below: Option<u8>) -> Result<(NodeRef, RecordNode), IndexError>;

    /// Loads a node of a blob: its bytes.
    ///
    /// # Errors
    /// As [`load_node`](Self::load_node).
    fn load_blob(&self, node: NodeRef, level: u8) -> Result<Vec<u8>, IndexError>;
}

/// A node of the tree by id.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::catfish) enum RecordNode {
    Page(Vec<StoredRecord>),
    /// An inner node of that level. The least word of its first child is 0; the parent has the real one.
    Inner(u8, Vec<Child>),
}

/// Sets the least word of the first child of an inner node to 0: smaller words than the present ones go to this child,
/// and the children that split off it must have greater least words.
fn set_first_least(children: &mut [Child]) {
    if let Some(first) = children.first_mut() {
        first.least = 0;
    }
}

impl RecordNode {
    /// An inner node with these children.
    fn inner(level: u8, mut children: Vec<Child>) -> Self {
        set_first_least(&mut children);
        Self::Inner(level, children)
    }

    /// Decodes a copy of a node, below a node of level `below`, and checks its hash.
    ///
    /// # Errors
    /// Describes the damage.
    pub(in crate::catfish) fn decode(
        node: &[u8],
        layout: &Layout,
        below: Option<u8>,
    ) -> Result<Self, String> {
        let head = head_of(&node);
        let damage = damage_of(node).or_else(|| head.contradiction(&records_layout(layout), below));
        damage.map_or(Ok(()), Err)?;
        if head.level == 0 {
            return records_of(node, layout, head.entries).map(Self::Page);
        }
        children_of(entries(&node, head.entries)).map(|children| Self::Inner(head.level, children))
    }

    /// Its level.
    pub(in crate::catfish) const fn level(&self) -> u8 {
        match self {
            Self::Page(_) => 0,
            Self::Inner(level, _) => *level,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Page(records) => records.is_empty(),
            Self::Inner(_, children) => children.is_empty(),
        }
    }

    /// How full it is: its size, and that of a full node.
    fn size(&self, layout: &Layout) -> (usize, usize) {
        match self {
            Self::Page(records) => (bytes_of_records(records), page_bytes(layout)),
            Self::Inner(_, children) => (children.len(), layout.entries_max()),
        }
    }
}

/// Share of a node below which it is merged with a neighbour, percent.
const LEAST_PERCENT: usize = 40;

/// A new node.
#[derive(Debug)]
enum FreshNode {
    Node(RecordNode),
    /// A node of a blob, of level 0.
    BlobBytes(Vec<u8>),
    /// A node of a blob, of that level, with the words of its references.
    BlobReferences(u8, Vec<u64>),
}

/// Changes of the tree by id that are not committed yet.
pub(in crate::catfish) struct RecordDraft<'s, S> {
    layout: &'s Layout,
    stored: &'s S,
    nodes: Vec<FreshNode>,
    root: u64,
    retired: Vec<NodeRef>,
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
    /// As [`StoredRecordNodes::load_node`]; [`IndexError::BadId`] if too many ids have the same hash. The draft must
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

    fn add(&mut self, node: FreshNode) -> usize {
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
                    let upper = upper.ok_or_else(too_many_of_one_word)?;
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
    fn payload(&mut self, id: &RecordId, payload: &[u8]) -> StoredPayload {
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

/// Reads a blob.
pub(in crate::catfish) fn read_blob(
    layout: &Layout,
    stored: &impl StoredRecordNodes,
    (root, bytes): (u64, u32),
) -> Result<Vec<u8>, IndexError> {
    let damaged = |what| damaged_blob(root, what);
    let mut walk = BlobWalk::new(layout, root, bytes).map_err(damaged)?;
    while !walk.wanted().is_empty() {
        add_level(&mut walk, stored, damaged)?;
    }
    walk.payload().map_err(damaged)
}

/// Calls `visit` with each node of a blob. Does not read the nodes that hold the payload.
pub(in crate::catfish) fn visit_blob(
    layout: &Layout,
    stored: &impl StoredRecordNodes,
    (root, bytes): (u64, u32),
    mut visit: impl FnMut(NodeRef),
) -> Result<(), IndexError> {
    let damaged = |what| damaged_blob(root, what);
    let mut walk = BlobWalk::new(layout, root, bytes).map_err(damaged)?;
    loop {
        walk.wanted().iter().copied().for_each(&mut visit);
        if walk.level() == 0 {
            return walk.check_level().map_err(damaged);
        }
        add_level(&mut walk, stored, damaged)?;
    }
}

/// Reads the nodes that the walk wants.
fn add_level(
    walk: &mut BlobWalk,
    stored: &impl StoredRecordNodes,
    damaged: impl Fn(String) -> IndexError,
) -> Result<(), IndexError> {
    let level = walk.level();
    let load = |&node: &NodeRef| stored.load_blob(node, level);
    let nodes: Vec<_> = walk.wanted().iter().map(load).collect::<Result<_, _>>()?;
    walk.add(nodes.iter().map(Vec::as_slice)).map_err(damaged)
}

fn damaged_blob(root: u64, what: String) -> IndexError {
    IndexError::Damaged { operation: "serve", at: format!("{root:#x}"), what }
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

/// The position of the first record with the last word of a page; `None`: all have it.
fn last_word(page: &[StoredRecord]) -> Option<usize> {
    let last = page.last()?.id.word();
    page.iter().rposition(|record| record.id.word() != last).map(|before| before + 1)
}

/// A finished draft, whose nodes have no slots yet.
#[derive(Debug)]
pub(in crate::catfish) struct FinishedRecords {
    nodes: Vec<FreshNode>,
    order: Vec<usize>,
    root: u64,
    retired: Vec<NodeRef>,
}

/// A draft whose nodes have slots.
pub(in crate::catfish) struct PlacedRecords {
    /// Nodes to be stored, children before parents: the reference, and the words.
    pub(in crate::catfish) nodes: Vec<(NodeRef, Vec<u64>)>,
    /// The root of the new tree.
    pub(in crate::catfish) root: NodeRef,
    /// Nodes that the new tree does not contain.
    pub(in crate::catfish) retired: Vec<NodeRef>,
}

impl FinishedRecords {
    /// A tree of records in the order of their keys, in pages that are full to the share `fill` (0 to 1). `retired`:
    /// the nodes of the tree before.
    pub(in crate::catfish) fn bulk<S: StoredRecordNodes>(
        mut draft: RecordDraft<'_, S>,
        records: Vec<Record>,
        fill: f64,
    ) -> Result<Self, IndexError> {
        let layout = draft.layout;
        let (root, _) = draft.stored.load_node(draft.root, None)?;
        draft.retired.push(root);
        let page_max = (page_bytes(layout) as f64 * fill) as usize;
        let (mut level, mut page) = (Vec::new(), Vec::<StoredRecord>::new());
        let mut bytes = 0;
        for Record { id, bounds, payload } in records {
            let payload = draft.payload(&id, &payload);
            let record = StoredRecord { id, bounds, payload };
            bytes += record.bytes();
            page.push(record);
            if bytes > page_max
                && let Some(last) = last_word(&page)
            {
                let next = page.split_off(last);
                level.push(std::mem::replace(&mut page, next));
                bytes = bytes_of_records(&page);
            }
            if bytes > page_bytes(layout) {
                return Err(too_many_of_one_word());
            }
        }
        level.push(page);
        let mut children: Vec<_> = level
            .into_iter()
            .map(|page| {
                let least = page.first().map_or(0, |first| first.id.word());
                Child { least, word: fresh(draft.add(FreshNode::Node(RecordNode::Page(page)))) }
            })
            .collect();
        let per_node = ((layout.entries_max() as f64 * fill) as usize).max(2);
        for number in 1.. {
            if let [root] = children.as_slice() {
                draft.root = root.word;
                break;
            }
            let above = children.chunks(per_node).map(|group| {
                let node = FreshNode::Node(RecordNode::inner(number, group.to_vec()));
                Child { least: group[0].least, word: fresh(draft.add(node)) }
            });
            children = above.collect();
        }
        Ok(draft.finish())
    }

    /// The number of slots that the draft needs.
    pub(in crate::catfish) fn slots(&self) -> usize {
        self.order.len()
    }

    /// Orders the nodes below a new node, and the node itself behind them.
    fn order_below(&mut self, at: usize) {
        for child in self.fresh_below(at) {
            self.order_below(child);
        }
        self.order.push(at);
    }

    fn fresh_below(&self, at: usize) -> Vec<usize> {
        let blob_root = |record: &StoredRecord| match record.payload {
            StoredPayload::Blob(root, _) => as_fresh(root),
            StoredPayload::Inline(_) => None,
        };
        match &self.nodes[at] {
            FreshNode::Node(RecordNode::Page(records)) => records.iter().filter_map(blob_root).collect(),
            FreshNode::Node(RecordNode::Inner(_, children)) => {
                children.iter().filter_map(|child| as_fresh(child.word)).collect()
            }
            FreshNode::BlobReferences(_, references) => {
                references.iter().filter_map(|word| as_fresh(*word)).collect()
            }
            FreshNode::BlobBytes(_) => Vec::new(),
        }
    }

    /// Gives each node one of the slots.
    pub(in crate::catfish) fn place(mut self, layout: &Layout, slots: &[NodeRef]) -> PlacedRecords {
        assert_eq!(slots.len(), self.order.len(), "each node has a slot");
        let mut names = vec![None; self.nodes.len()];
        for (&number, &slot) in self.order.iter().zip(slots) {
            names[number] = Some(slot);
        }
        let name = |word: u64| match as_fresh(word) {
            Some(number) => names[number].expect("each node of the tree has a slot").word(),
            None => word,
        };
        let nodes = self
            .order
            .iter()
            .zip(slots)
            .map(|(&number, &at)| (at, image_of(layout, at, &mut self.nodes[number], name)));
        let nodes = nodes.collect();
        let root = NodeRef::from_word(name(self.root)).expect("a root is a reference");
        PlacedRecords { nodes, root, retired: self.retired }
    }
}

/// The words of a new node; `name` yields the reference for each word.
fn image_of(layout: &Layout, at: NodeRef, node: &mut FreshNode, name: impl Fn(u64) -> u64) -> Vec<u64> {
    match node {
        FreshNode::Node(RecordNode::Page(records)) => {
            for record in records.iter_mut() {
                if let StoredPayload::Blob(root, _) = &mut record.payload {
                    *root = name(*root);
                }
            }
            page_image(layout, at, records)
        }
        FreshNode::Node(RecordNode::Inner(level, children)) => {
            let entries: Vec<_> =
                children.iter().map(|child| Child { word: name(child.word), ..*child }.entry()).collect();
            image(&records_layout(layout), at, *level, &entries)
        }
        FreshNode::BlobBytes(bytes) => blob_image(layout, at, 0, bytes),
        FreshNode::BlobReferences(level, words) => {
            let body: Vec<u8> = words.iter().flat_map(|word| name(*word).to_le_bytes()).collect();
            blob_image(layout, at, *level, &body)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tree::layout::{Scheme, bytes_of};
    use super::super::page::{blobs_layout, decode_blob};
    use super::*;
    use farwood_fabric::NodeId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The bytes of stored nodes.
    struct Stored {
        layout: Layout,
        nodes: BTreeMap<u64, Vec<u8>>,
    }

    impl StoredRecordNodes for Stored {
        fn load_node(&self, word: u64, below: Option<u8>) -> Result<(NodeRef, RecordNode), IndexError> {
            let node = RecordNode::decode(&self.nodes[&word], &self.layout, below).unwrap();
            Ok((NodeRef::from_word(word).unwrap(), node))
        }

        fn load_blob(&self, node: NodeRef, level: u8) -> Result<Vec<u8>, IndexError> {
            let bytes = &self.nodes[&node.word()];
            decode_blob(bytes, &blobs_layout(&self.layout), level).unwrap();
            Ok(bytes.clone())
        }
    }

    /// A tree in memory.
    struct Tree {
        stored: Stored,
        root: NodeRef,
        slots: u64,
    }

    impl Tree {
        fn new() -> Self {
            let layout =
                Layout { blocks: 5, node: NodeId(0), index: 1, scheme: Scheme::Lines, ring_bytes: 1 << 16 };
            let root = NodeRef::new(64, 1);
            let mut tree = Self { stored: Stored { layout, nodes: BTreeMap::new() }, root, slots: 1 };
            tree.store(root, page_image(&layout, root, &[]));
            tree
        }

        fn store(&mut self, at: NodeRef, words: Vec<u64>) {
            let count = words.len();
            self.stored.nodes.insert(at.word(), bytes_of(words, count));
        }

        fn commit(&mut self, finished: FinishedRecords) {
            let slots: Vec<_> =
                (1..=finished.slots() as u64).map(|slot| NodeRef::new(64 * (self.slots + slot), 1)).collect();
            self.slots += slots.len() as u64;
            let placed = finished.place(&self.stored.layout.clone(), &slots);
            for (at, words) in placed.nodes {
                self.store(at, words);
            }
            for gone in placed.retired {
                assert!(self.stored.nodes.remove(&gone.word()).is_some(), "each node is retired once");
            }
            self.root = placed.root;
        }

        fn change<T>(&mut self, change: impl FnOnce(&mut RecordDraft<'_, Stored>) -> T) -> T {
            let mut draft = RecordDraft::of(&self.stored.layout, &self.stored, self.root);
            let done = change(&mut draft);
            let finished = draft.finish();
            self.commit(finished);
            done
        }

        fn record(&self, stored: &StoredRecord, seen: &mut usize) -> Record {
            let payload = match &stored.payload {
                StoredPayload::Inline(payload) => payload.clone(),
                StoredPayload::Blob(root, bytes) => {
                    visit_blob(&self.stored.layout, &self.stored, (*root, *bytes), |_| *seen += 1).unwrap();
                    read_blob(&self.stored.layout, &self.stored, (*root, *bytes)).unwrap()
                }
            };
            Record { id: stored.id.clone(), bounds: stored.bounds, payload }
        }

        /// Checks the tree below a node, whose words are at least `least` and less than `above`; yields its records.
        fn walk(
            &self,
            (word, below): (u64, Option<u8>),
            (least, above): (u64, Option<u64>),
            seen: &mut usize,
        ) -> Vec<Record> {
            *seen += 1;
            let (_, node) = self.stored.load_node(word, below).unwrap();
            assert!(below.is_none() || !node.is_empty(), "an empty node");
            match node {
                RecordNode::Page(records) => {
                    for record in &records {
                        let word = record.id.word();
                        assert!(
                            word >= least && above.is_none_or(|above| word < above),
                            "{word} is misplaced"
                        );
                    }
                    records.iter().map(|record| self.record(record, seen)).collect()
                }
                RecordNode::Inner(level, children) => {
                    let mut records = Vec::new();
                    for (position, child) in children.iter().enumerate() {
                        let least = if position == 0 { least } else { child.least };
                        let above = children.get(position + 1).map_or(above, |next| Some(next.least));
                        records.extend(self.walk((child.word, Some(level)), (least, above), seen));
                    }
                    records
                }
            }
        }

        /// All records; checks every invariant.
        fn records(&self) -> BTreeMap<RecordId, Record> {
            let mut seen = 0;
            let records = self.walk((self.root.word(), None), (0, None), &mut seen);
            assert_eq!(seen, self.stored.nodes.len(), "every node is reachable");
            let count = records.len();
            let records: BTreeMap<_, _> =
                records.into_iter().map(|record| (record.id.clone(), record)).collect();
            assert_eq!(records.len(), count, "every id is there once");
            records
        }

        fn get(&self, id: &RecordId) -> Option<Record> {
            let draft = RecordDraft::of(&self.stored.layout, &self.stored, self.root);
            let stored = draft.get(id).unwrap()?;
            Some(self.record(&stored, &mut 0))
        }
    }

    fn id() -> impl Strategy<Value = RecordId> {
        prop_oneof![
            4 => (0..300u64).prop_map(|number| RecordId::Number(number << 56 | number)),
            4 => (0..300u64).prop_map(|number| RecordId::from(&*format!("text {number}"))),
            1 => (0..3u64).prop_map(|number| RecordId::from(&*format!("same {number}"))),
        ]
    }

    fn payload() -> impl Strategy<Value = Vec<u8>> {
        let lengths = prop_oneof![6 => 0..40usize, 3 => 200..400usize, 1 => 1_300..9_000usize];
        (lengths, any::<u8>()).prop_map(|(length, byte)| (0..length).map(|at| byte ^ at as u8).collect())
    }

    fn bounds(at: u32) -> Rectangle {
        Rectangle::new([at.into(), -1.0], [f64::from(at) + 0.5, 2.0]).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        /// The tree holds the same records as a map after any changes, and keeps its invariants.
        #[test]
        fn a_tree_holds_the_records_of_a_map(
            batches in prop::collection::vec(
                prop::collection::vec((id(), 0..9u32, any::<u32>(), payload()), 1..60),
                1..30,
            ),
        ) {
            let (mut tree, mut map) = (Tree::new(), BTreeMap::<RecordId, Record>::new());
            for (number, batch) in batches.into_iter().enumerate() {
                let removes = if number % 3 == 2 { 7 } else { 2 };
                tree.change(|draft| {
                    for (id, kind, at, payload) in batch {
                        let old = map.get(&id).map(|record| record.bounds);
                        if kind < removes {
                            let removed = draft.remove(&id).unwrap();
                            assert_eq!(removed.map(|record| record.bounds), old);
                            map.remove(&id);
                        } else if kind == 8 {
                            assert_eq!(draft.set_bounds(&id, bounds(at)).unwrap(), old);
                            map.entry(id).and_modify(|record| record.bounds = bounds(at));
                        } else {
                            let record = Record { id: id.clone(), bounds: bounds(at), payload };
                            let replaced = draft.put(&record).unwrap();
                            assert_eq!(replaced.map(|record| record.bounds), old);
                            map.insert(id, record);
                        }
                    }
                });
                prop_assert_eq!(&tree.records(), &map);
            }
            for id in map.keys() {
                prop_assert_eq!(&tree.get(id), &map.get(id).cloned());
            }
            for id in map.into_keys() {
                prop_assert!(tree.change(|draft| draft.remove(&id).unwrap().is_some()));
            }
            prop_assert_eq!((tree.records().len(), tree.stored.nodes.len()), (0, 1));
        }

        /// A tree that was loaded at once holds the records, and takes changes.
        #[test]
        fn a_loaded_tree_holds_the_records(
            records in prop::collection::vec((id(), payload()), 0..600),
            fill in 0.3..1.0f64,
        ) {
            let record = |(id, payload): (RecordId, Vec<u8>)| Record { id, bounds: bounds(1), payload };
            let map: BTreeMap<_, _> = records.into_iter().map(record).map(|one| (one.id.clone(), one)).collect();
            let mut sorted: Vec<_> = map.values().cloned().collect();
            sorted.sort_by(|one, other| (one.id.word(), &one.id).cmp(&(other.id.word(), &other.id)));
            let mut tree = Tree::new();
            let draft = RecordDraft::of(&tree.stored.layout, &tree.stored, tree.root);
            let finished = FinishedRecords::bulk(draft, sorted, fill).unwrap();
            tree.commit(finished);
            prop_assert_eq!(&tree.records(), &map);
            // Smaller words than any before split the first page of each level.
            let small = |word: u64| {
                Record { id: RecordId::Number(word), bounds: bounds(2), payload: vec![2; 250] }
            };
            for word in 300..500 {
                tree.change(|draft| draft.put(&small(word)).unwrap());
            }
            prop_assert_eq!(tree.records().len(), map.len() + 200);
            for word in 300..500 {
                prop_assert!(tree.get(&RecordId::Number(word)).is_some());
                tree.change(|draft| draft.remove(&RecordId::Number(word)).unwrap());
            }
            prop_assert_eq!(&tree.records(), &map);
            for (number, (id, one)) in map.iter().enumerate() {
                if number % 2 == 0 {
                    tree.change(|draft| draft.remove(id).unwrap());
                } else {
                    tree.change(|draft| draft.put(&Record { payload: vec![1; 300], ..one.clone() }).unwrap());
                }
            }
            prop_assert_eq!(tree.records().len(), map.len() / 2);
        }
    }

    #[test]
    fn ids_with_one_hash_beyond_a_node_are_refused() {
        let tree = Tree::new();
        let record = |number: usize| Record {
            id: RecordId::from(&*format!("same {number}")),
            bounds: bounds(0),
            payload: vec![7; 100],
        };
        let mut draft = RecordDraft::of(&tree.stored.layout, &tree.stored, tree.root);
        let refused = (0..100).find_map(|number| draft.put(&record(number)).err());
        assert!(matches!(refused, Some(IndexError::BadId(_))), "{refused:?}");
    }

    #[test]
    fn a_damaged_page_is_described() {
        let layout = Tree::new().stored.layout;
        let at = NodeRef::new(64, 1);
        let record = |id: RecordId| StoredRecord {
            id,
            bounds: bounds(3),
            payload: StoredPayload::Inline(vec![9; 11]),
        };
        let records = [record(RecordId::Number(4)), record(RecordId::from("oak"))];
        let words = page_image(&layout, at, &records);
        let bytes = bytes_of(words.iter().copied(), words.len());
        assert_eq!(records_of(&bytes, &layout, 2).unwrap(), records);
        assert!(records_of(&bytes, &layout, 3).unwrap_err().contains("counts 3"));
        for position in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[position] ^= flip;
                let _ = records_of(&bytes, &layout, 2);
            }
        }
    }
}
