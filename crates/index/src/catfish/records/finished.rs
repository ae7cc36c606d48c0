//! A finished draft of the tree by id: its new nodes, and the slots and images that they get. All functions are pure.

use super::super::tree::draft::as_fresh;
use super::super::tree::layout::{Layout, NodeRef, image};
use super::blob::blob_image;
use super::node::RecordNode;
use super::page::{Child, StoredPayload, StoredRecord, page_image, records_layout};

/// A new node.
#[derive(Debug)]
pub(super) enum FreshNode {
    Node(RecordNode),
    /// A node of a blob, of level 0.
    BlobBytes(Vec<u8>),
    /// A node of a blob, of that level, with the words of its references.
    BlobReferences(u8, Vec<u64>),
}

/// A finished draft, whose nodes have no slots yet.
#[derive(Debug)]
pub(in crate::catfish) struct FinishedRecords {
    pub(super) nodes: Vec<FreshNode>,
    pub(super) order: Vec<usize>,
    pub(super) root: u64,
    pub(super) retired: Vec<NodeRef>,
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
    /// The number of slots that the draft needs.
    pub(in crate::catfish) fn slots(&self) -> usize {
        self.order.len()
    }

    /// Orders the nodes below a new node, and the node itself behind them.
    pub(super) fn order_below(&mut self, at: usize) {
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
