//! State of one operation while it searches for its key.

use super::copy::InnerCopy;
use super::node_handle::Route;
use super::options::NODE_LOCKS;
use super::scratch::{ScratchGuard, ScratchPool};
use crate::error::IndexError;
use crate::radix::cache::cached_node::{CachedNode, NodeIdentity};
use crate::radix::inner::{RawInner, SlotSearch};
use crate::radix::key::Step;
use crate::retry::Retry;
use farwood_fabric::{Client, Fabric, Remote};
use std::sync::Arc;

/// Maximum number of tries of an operation that concurrent changes interrupt.
const TRIES_MAX: u32 = 10_000;
/// Number of ambiguous reads before a slot is repaired, and between two repairs.
const TRIES_PER_REPAIR: u32 = 6;

/// The search of one operation for its key: the nodes it has read, its retries, and the depths at which it may start.
pub struct Traversal<'k, R: Route> {
    key: &'k [u8],
    retry: Retry,
    scratch: ScratchGuard<'k, R>,
    /// The traversal must start at a node whose depth is less than this.
    depth_limit: usize,
}

impl<'k, R: Route> Traversal<'k, R> {
    /// Starts the operation `name`, which searches for `key`. The key is empty in an operation on many keys.
    pub(crate) fn new(pool: &'k ScratchPool<R>, name: &'static str, key: &'k [u8]) -> Self {
        Self {
            key,
            retry: Retry::new(name, TRIES_MAX).watching(NODE_LOCKS),
            scratch: pool.guard(),
            depth_limit: usize::MAX,
        }
    }

    /// The key.
    #[inline]
    pub(crate) fn key(&self) -> &'k [u8] {
        self.key
    }

    /// Greatest depth at which the traversal may start: at most the length of the key.
    pub(crate) fn start_depth_max(&self) -> usize {
        self.key.len().min(self.depth_limit.saturating_sub(1))
    }

    /// Whether the depth of the next start is restricted.
    pub(crate) fn is_restricted(&self) -> bool {
        self.depth_limit != usize::MAX
    }

    /// Restricts the next start to nodes whose depth is less than `depth`, so that the traversal finds the parent of a
    /// node of that depth.
    pub(super) fn start_above(&mut self, depth: usize) {
        self.depth_limit = depth;
    }

    /// The route that the system (SMART or Sphinx) records; `None` if the operation has read nothing.
    #[inline]
    pub(crate) fn route(&self) -> Option<&R> {
        self.scratch.route()
    }

    /// The route that the system records.
    pub(crate) fn route_mut(&mut self) -> &mut R {
        self.scratch.route_mut()
    }

    /// The nodes that the operation has read, in order.
    #[inline]
    pub(crate) fn nodes_read(&self) -> &[Arc<CachedNode>] {
        self.scratch.fresh()
    }

    /// Number of nodes that the system itself has read.
    #[inline]
    pub(crate) fn nodes_read_by_system(&self) -> usize {
        self.scratch.route().map_or(0, Route::nodes_read)
    }

    /// The copy of the node at `at` that the operation has read.
    #[inline]
    pub(super) fn node_read(&self, at: Remote<RawInner>) -> Option<&Arc<CachedNode>> {
        self.scratch.fresh().iter().find(|fresh| fresh.at == at)
    }

    /// Whether the operation has read this copy itself.
    #[inline]
    pub(super) fn is_fresh(&self, node: &Arc<CachedNode>) -> bool {
        self.scratch.fresh().iter().any(|fresh| Arc::ptr_eq(fresh, node))
    }

    /// The deepest node that the operation has read and at which it may start, in the index with number `number`.
    pub(crate) fn deepest_node_read(&self, number: u32) -> Option<Arc<CachedNode>> {
        let allowed = self.scratch.fresh().iter().filter(|node| node.header.depth() < self.depth_limit);
        let covering = allowed.filter(|node| node.covers(self.key, number));
        covering.max_by_key(|node| node.header.depth()).cloned()
    }

    /// Records a node that was just read.
    pub(crate) fn record(&mut self, at: Remote<RawInner>, node: &InnerCopy) -> Arc<CachedNode> {
        self.scratch.record(at, node)
    }

    /// Records a node of which only the slot of the key was read.
    pub(super) fn record_slot(&mut self, node: NodeIdentity, found: (Step, SlotSearch)) -> Arc<CachedNode> {
        self.scratch.record_slot(node, found)
    }

    /// Records a node that was just read, and discards the earlier copy of it.
    pub(super) fn record_again(&mut self, at: Remote<RawInner>, node: &InnerCopy) -> Arc<CachedNode> {
        self.scratch.remove(at);
        self.scratch.record(at, node)
    }

    /// Forgets everything that was read, because it is stale.
    pub(super) fn clear(&mut self) {
        self.scratch.clear();
        self.depth_limit = usize::MAX;
    }

    /// Prepares another try.
    pub(crate) async fn retry<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        self.clear();
        self.retry.again(client).await
    }

    /// Prepares another try after another client changed the value of the key in between.
    pub(super) async fn retry_after_change<F: Fabric>(
        &mut self,
        client: &Client<F>,
    ) -> Result<(), IndexError> {
        self.clear();
        self.retry.again_after_change(client).await
    }

    /// Whether the ambiguous slot must be repaired before the next try.
    pub(super) fn repairs_now(&self) -> bool {
        self.retry.tries().is_multiple_of(TRIES_PER_REPAIR)
    }
}
