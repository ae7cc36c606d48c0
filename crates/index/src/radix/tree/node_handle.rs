//! The types by which the tree and the systems refer to inner nodes and traversals.

use crate::radix::inner::InnerRef;
use crate::radix::prefix::PrefixHash;
use farwood_fabric::NodeId;
use std::fmt;

/// Identity of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeHandle {
    /// Hash of the prefix that all keys below the node share.
    pub prefix: PrefixHash,
    /// Length of the prefix.
    pub depth: usize,
    /// Address and size.
    pub node: InnerRef,
    /// Number of nodes that used this memory.
    pub generation: u32,
}

/// A change of the set of inner nodes, after it was made in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// A node was created for a prefix.
    Created(NodeHandle),
    /// The node of a prefix was replaced.
    Replaced {
        /// The node that the new node replaces.
        old: NodeHandle,
        /// The node that replaced it.
        new: NodeHandle,
    },
    /// The node of a prefix was removed.
    Removed(NodeHandle),
}

impl NodeChange {
    /// The prefix of the node.
    pub fn prefix(self) -> PrefixHash {
        match self {
            Self::Created(node) | Self::Removed(node) | Self::Replaced { old: node, .. } => node.prefix,
        }
    }
}

/// The position of the parent of a new inner node.
#[derive(Clone, Copy, Debug)]
pub struct ParentPosition {
    /// Memory node of the parent.
    pub node: NodeId,
    /// Level of the parent.
    pub level: u8,
}

/// State that a system keeps during one operation. It is pooled: a new operation gets a cleared one.
pub trait Route: Default + fmt::Debug {
    /// Forgets what the operation has read.
    fn clear(&mut self);

    /// Number of nodes that the system itself has read in this operation.
    fn nodes_read(&self) -> usize;
}

impl Route for () {
    fn clear(&mut self) {}

    fn nodes_read(&self) -> usize {
        0
    }
}
