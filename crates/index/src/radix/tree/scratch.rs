//! Pooled memory for the nodes that an operation reads. Without it, an operation would allocate memory for each node
//! that is not cached.
//!
//! An operation takes a scratch from the pool of its tree when it first needs one, and returns it at its end. If
//! another client is using the pool at that moment, the operation allocates a new scratch instead of waiting.

use super::copy::InnerCopy;
use super::node_handle::Route;
use crate::radix::cache::cached_node::{CachedNode, NodeIdentity};
use crate::radix::inner::{RawInner, SlotSearch};
use crate::radix::key::Step;
use farwood_fabric::Remote;
use std::sync::{Arc, Mutex};

/// Maximum number of unused scratches in a pool, which is the number of concurrent operations that need not allocate.
const POOLED_MAX: usize = 64;
/// Maximum number of unused copies in a scratch.
const SPARE_COPIES_MAX: usize = 16;

/// The unused scratches of a tree.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool<R>(Mutex<Vec<Scratch<R>>>);

/// Memory for the nodes that one operation reads.
#[derive(Debug, Default)]
struct Scratch<R> {
    /// The nodes that the operation has read. No other client updates these copies.
    fresh: Vec<Arc<CachedNode>>,
    /// State of the system.
    route: R,
    /// Copies that can be overwritten.
    spare: Vec<Arc<CachedNode>>,
}

/// The scratch of an operation, which is taken from the pool on first use.
pub(crate) struct ScratchGuard<'t, R: Route> {
    pool: &'t ScratchPool<R>,
    scratch: Option<Scratch<R>>,
}

impl<R: Route> ScratchPool<R> {
    /// A guard that takes a scratch on first use.
    #[inline]
    pub(super) fn guard(&self) -> ScratchGuard<'_, R> {
        ScratchGuard { pool: self, scratch: None }
    }
}

impl<R: Route> ScratchGuard<'_, R> {
    fn scratch(&mut self) -> &mut Scratch<R> {
        let pool = self.pool;
        self.scratch.get_or_insert_with(|| {
            let pooled = pool.0.try_lock().ok().and_then(|mut unused| unused.pop());
            pooled.unwrap_or_default()
        })
    }

    /// The nodes that the operation has read, in order.
    #[inline]
    pub(super) fn fresh(&self) -> &[Arc<CachedNode>] {
        self.scratch.as_ref().map_or(&[], |scratch| &scratch.fresh)
    }

    /// State of the system; `None` if the operation has not used its scratch.
    #[inline]
    pub(super) fn route(&self) -> Option<&R> {
        self.scratch.as_ref().map(|scratch| &scratch.route)
    }

    /// State of the system.
    pub(super) fn route_mut(&mut self) -> &mut R {
        &mut self.scratch().route
    }

    /// Records a node that was just read.
    pub(super) fn record(&mut self, at: Remote<RawInner>, node: &InnerCopy) -> Arc<CachedNode> {
        let spare = self.scratch().take_spare(CachedNode::is_whole, |spare| spare.fill(at, node));
        self.push_fresh(spare.unwrap_or_else(|| CachedNode::copy(at, node)))
    }

    /// Records a node of which the client read only one slot.
    pub(super) fn record_slot(&mut self, node: NodeIdentity, found: (Step, SlotSearch)) -> Arc<CachedNode> {
        let copy = || CachedNode::with_result(node, found);
        let spare = self.scratch().take_spare(|spare| !spare.is_whole(), |spare| *spare = copy());
        self.push_fresh(spare.unwrap_or_else(|| Arc::new(copy())))
    }

    fn push_fresh(&mut self, copy: Arc<CachedNode>) -> Arc<CachedNode> {
        self.scratch().fresh.push(Arc::clone(&copy));
        copy
    }

    /// Forgets the node at `at`.
    pub(super) fn remove(&mut self, at: Remote<RawInner>) {
        if let Some(scratch) = &mut self.scratch {
            scratch.fresh.retain(|fresh| fresh.at != at);
        }
    }

    /// Forgets everything that was read.
    pub(super) fn clear(&mut self) {
        if let Some(scratch) = &mut self.scratch {
            scratch.clear();
        }
    }
}

impl<R: Route> Scratch<R> {
    /// Overwrites an unused copy that is `suitable` with `fill`, and returns it. Copies of whole nodes keep the memory
    /// for their slots, so they are suitable only for whole nodes.
    fn take_spare(
        &mut self,
        suitable: impl Fn(&CachedNode) -> bool,
        fill: impl Fn(&mut CachedNode),
    ) -> Option<Arc<CachedNode>> {
        let mut copies = self.spare.iter_mut();
        let is_filled =
            |spare: &mut Arc<CachedNode>| suitable(spare) && Arc::get_mut(spare).map(&fill).is_some();
        copies.position(is_filled).map(|number| self.spare.swap_remove(number))
    }

    fn clear(&mut self) {
        self.route.clear();
        self.spare.append(&mut self.fresh);
        // The copies used last stay, which are of the kind that the workload needs.
        self.spare.drain(..self.spare.len().saturating_sub(SPARE_COPIES_MAX));
    }
}

impl<R: Route> Drop for ScratchGuard<'_, R> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut scratch) = self.scratch.take() else { return };
        scratch.clear();
        if let Ok(mut unused) = self.pool.0.try_lock()
            && unused.len() < POOLED_MAX
        {
            unused.push(scratch);
        }
    }
}
