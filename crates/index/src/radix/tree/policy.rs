//! The differences between the systems: where a traversal starts, where new nodes are placed, and what a system
//! records.

use super::RadixTree;
use super::node_handle::{NodeChange, NodeHandle, ParentPosition, Route};
use super::report::RadixReport;
use super::traversal::Traversal;
use crate::error::IndexError;
use crate::memory::owned::ReachedChunks;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::InnerRef;
use crate::radix::prefix::PrefixHash;
use farwood_fabric::{Fabric, NodeId, Parallel, PoolShape};
use std::sync::Arc;

/// The extensions of one system (SMART or Sphinx) to the shared tree.
#[expect(async_fn_in_trait, reason = "clients belong to one thread")]
pub trait Policy: Sized {
    /// Name of the system.
    const SYSTEM: &'static str;

    /// State of the system during one operation.
    type Route: Route;

    /// What the system reads about a node before the set of inner nodes changes.
    type Lookup: Default;

    /// Chooses the memory node of a new inner node.
    fn place_node(&self, shape: &PoolShape, parent: ParentPosition, prefix: PrefixHash) -> NodeId;

    /// Yields the node at which a traversal starts; `None` for the root. The node covers the key of the traversal and
    /// is no deeper than the traversal allows. It was read in this traversal and is linked, or it is a cached copy that
    /// may be stale. [0 RT; an implementation states its own cost]
    async fn start<F: Fabric>(
        op: Op<'_, F, RadixTree<Self>>,
        traversal: &mut Traversal<'_, Self::Route>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let _ = (op, traversal);
        Ok(None)
    }

    /// Finds a node above `key` at which a scan of `count` keys may start, and the length of its prefix. The client
    /// reads the node and checks it. `None`: the scan starts at the root. [0 RT; an implementation states its own cost]
    async fn scan_start<F: Fabric>(
        op: Op<'_, F, RadixTree<Self>>,
        key: &[u8],
        count: usize,
    ) -> Result<Option<(InnerRef, usize)>, IndexError> {
        let _ = (op, key, count);
        Ok(None)
    }

    /// Called when a traversal has ended. [0 RT; an implementation states its own cost]
    async fn finished<F: Fabric>(
        op: Op<'_, F, RadixTree<Self>>,
        traversal: &Traversal<'_, Self::Route>,
        end: &CachedNode,
    ) {
        let _ = (op, traversal, end);
    }

    /// Posts verbs that precede a change of the node with `prefix`. In the same doorbell, the system reads what
    /// [`nodes_changed`](Self::nodes_changed) needs. [1 RT]
    async fn post_before_change<F: Fabric, V: Parallel>(
        op: Op<'_, F, RadixTree<Self>>,
        prefix: PrefixHash,
        verbs: V,
    ) -> Result<(V::Output, Self::Lookup), IndexError> {
        let _ = prefix;
        Ok((op.client.post(verbs).await?, Self::Lookup::default()))
    }

    /// Whether [`nodes_changed`](Self::nodes_changed) has an effect.
    const RECORDS_NODES: bool = false;

    /// Called after a change of the set of inner nodes. A failure does not undo the change. `lookup` is what was read
    /// before the change. [0 RT; an implementation states its own cost]
    async fn nodes_changed<F: Fabric>(
        op: Op<'_, F, RadixTree<Self>>,
        change: NodeChange,
        lookup: Self::Lookup,
    ) {
        let _ = (op, change, lookup);
    }

    /// Completes what the system has postponed. [0 RT; an implementation states its own cost]
    async fn complete_changes<F: Fabric>(op: Op<'_, F, RadixTree<Self>>) {
        let _ = op;
    }

    /// Compares the nodes below the root with what the system has recorded, and reports differences. Notes the system's
    /// own objects in `reached`. [0 RT; an implementation states its own cost]
    async fn verify<F: Fabric>(
        op: Op<'_, F, RadixTree<Self>>,
        nodes: &[NodeHandle],
        reached: &mut ReachedChunks,
        report: &mut RadixReport,
    ) -> Result<(), IndexError> {
        let _ = (op, nodes, reached, report);
        Ok(())
    }

    /// Turns the system into a mutant, which tests must detect.
    fn mutant(&mut self, mutant: Mutant) {
        let _ = mutant;
    }
}
