//! What differs between the systems: where a traversal starts, where new nodes are placed, and what a system records.

use super::Tree;
use super::traversal::Traversal;
use super::verify::Walk;
use crate::error::IndexError;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{InnerRef, RawInner};
use crate::radix::prefix::PrefixHash;
use crate::sabotage::Sabotage;
use farwood_fabric::{Fabric, NodeId, PoolShape, Remote};
use std::fmt;
use std::sync::Arc;

/// Identity of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeHandle {
    /// Hash of the prefix that all keys below the node share.
    pub prefix: PrefixHash,
    /// Address and size.
    pub node: InnerRef,
    /// Number of nodes that used this memory.
    pub generation: u32,
}

/// A change of the set of inner nodes, after it was made in the tree.
#[derive(Clone, Copy, Debug)]
pub enum NodeChange {
    /// A prefix got a node.
    Created(NodeHandle),
    /// The node of a prefix was replaced.
    Replaced {
        /// The node before.
        old: NodeHandle,
        /// The node that replaced it.
        new: NodeHandle,
    },
    /// A prefix lost its node.
    Removed(NodeHandle),
}

/// Where the parent of a new inner node is.
#[derive(Clone, Copy, Debug)]
pub struct ParentPosition {
    /// Memory node of the parent.
    pub node: NodeId,
    /// Level of the parent.
    pub level: u8,
}

/// Where a traversal ended.
#[derive(Clone, Copy, Debug)]
pub struct TraversalEnd {
    /// The last inner node.
    pub node: Remote<RawInner>,
    /// Number of inner nodes between the start and the end.
    pub hops: usize,
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

/// What a system adds to the tree.
#[expect(async_fn_in_trait, reason = "clients belong to one thread")]
pub trait Policy: Sized {
    /// Name of the system.
    const SYSTEM: &'static str;

    /// State of the system during one operation.
    type Route: Route;

    /// Chooses the memory node of a new inner node.
    fn place_node(&self, shape: &PoolShape, parent: ParentPosition, prefix: PrefixHash) -> NodeId;

    /// Yields the node at which a traversal starts; `None` for the root. The node covers the key of the traversal and
    /// is no deeper than the traversal allows. It was read in this traversal and is linked, or it is a cached copy that
    /// may be stale. [0 RT; an implementation states its own cost]
    async fn start<F: Fabric>(
        op: Op<'_, F, Tree<Self>>,
        traversal: &mut Traversal<'_, Self::Route>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let _ = (op, traversal);
        Ok(None)
    }

    /// Called when a traversal has ended. [0 RT; an implementation states its own cost]
    async fn finished<F: Fabric>(
        op: Op<'_, F, Tree<Self>>,
        traversal: &Traversal<'_, Self::Route>,
        end: TraversalEnd,
    ) {
        let _ = (op, traversal, end);
    }

    /// Called after a change of the set of inner nodes. A failure does not undo the change.
    /// [0 RT; an implementation states its own cost]
    async fn nodes_changed<F: Fabric>(op: Op<'_, F, Tree<Self>>, change: NodeChange) {
        let _ = (op, change);
    }

    /// Compares the nodes below the root with what the system has recorded, and reports differences.
    /// [0 RT; an implementation states its own cost]
    async fn verify<F: Fabric>(
        op: Op<'_, F, Tree<Self>>,
        nodes: &[NodeHandle],
        report: &mut Walk,
    ) -> Result<(), IndexError> {
        let _ = (op, nodes, report);
        Ok(())
    }

    /// Breaks the system on purpose, for tests that must notice.
    fn sabotage(&mut self, sabotage: Sabotage) {
        let _ = sabotage;
    }
}
