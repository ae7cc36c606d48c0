//! Pooled memory for the nodes that an operation reads. Without it, an operation would allocate memory for each node
//! that is not cached.
//!
//! An operation takes a scratch from the pool of its tree when it first needs one, and returns it at its end. If
//! another client is using the pool at that moment, the operation allocates a new scratch instead of waiting.

use super::copy::InnerCopy;
use super::node_handle::Route;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::RawInner;
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
        let scratch = self.scratch();
        let reusable = scratch
            .spare
            .iter_mut()
            .position(|spare| Arc::get_mut(spare).map(|copy| copy.fill(at, node)).is_some());
        let copy = match reusable {
            Some(number) => scratch.spare.swap_remove(number),
            None => CachedNode::copy(at, node),
        };
        scratch.fresh.push(Arc::clone(&copy));
        copy
    }

    /// Records a node of which only one slot was read.
    pub(super) fn record_slot(&mut self, node: CachedNode) -> Arc<CachedNode> {
        let scratch = self.scratch();
        let copy = Arc::new(node);
        scratch.fresh.push(Arc::clone(&copy));
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
    fn clear(&mut self) {
        self.route.clear();
        self.spare.append(&mut self.fresh);
        self.spare.truncate(SPARE_COPIES_MAX);
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
