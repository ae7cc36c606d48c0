//! Stored nodes of the tree by id, decoded, and how they are read. All functions are pure.

use super::super::tree::filter::entries;
use super::super::tree::layout::{Layout, NodeRef, damage_of, head_of};
use super::blob::BlobWalk;
use super::page::{
    Child, StoredRecord, bytes_of_records, children_of, page_bytes, records_layout, records_of,
};
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
pub(super) fn set_first_least(children: &mut [Child]) {
    if let Some(first) = children.first_mut() {
        first.least = 0;
    }
}

impl RecordNode {
    /// An inner node with these children.
    pub(super) fn inner(level: u8, mut children: Vec<Child>) -> Self {
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

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Page(records) => records.is_empty(),
            Self::Inner(_, children) => children.is_empty(),
        }
    }

    /// How full it is: its size, and that of a full node.
    pub(super) fn size(&self, layout: &Layout) -> (usize, usize) {
        match self {
            Self::Page(records) => (bytes_of_records(records), page_bytes(layout)),
            Self::Inner(_, children) => (children.len(), layout.entries_max()),
        }
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
