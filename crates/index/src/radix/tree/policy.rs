//! What differs between the systems: where a search begins, where new nodes go, and who hears of what changed.

use super::Tree;
use super::find::Way;
use super::verify::Walk;
use crate::error::IndexError;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{RawInner, Size};
use crate::radix::prefix::PrefixHash;
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, NodeId, PoolShape, Remote};
use std::sync::Arc;

/// What leads to an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The hash of what all keys below it begin with.
    pub prefix: PrefixHash,
    /// Where it is.
    pub node: Remote<RawInner>,
    /// How many slots it has.
    pub size: Size,
    /// How many nodes lay in its room.
    pub generation: u32,
}

/// What became of an inner node. It is so in the tree already.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A node for a prefix that had none.
    Born(Sign),
    /// A node for a prefix, and what takes its place.
    Replaced(Sign, Sign),
    /// A prefix has no node any more.
    Gone(Sign),
}

/// What a system adds to the tree.
#[expect(async_fn_in_trait, reason = "clients belong to one thread")]
pub trait Guide: Sized {
    /// The system's name.
    const SYSTEM: &'static str;

    /// The memory node for a new inner node whose keys begin with something of that hash, below a node that lies there
    /// and is of that level.
    fn home(&self, shape: &PoolShape, parent: (NodeId, u8), prefix: PrefixHash) -> NodeId;

    /// The node from which the way goes on, which covers the way's key and is not as deep as the way says: read on this
    /// way, and linked; or a cached copy, which may lead astray. `None`: the root. [0 RT, or what it says]
    async fn begin<F: Fabric>(
        tree: &Tree<Self>,
        client: &Client<F>,
        way: &mut Way<'_>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let _ = (tree, client, way);
        Ok(None)
    }

    /// Hears of a way that came to its end, at that node, so many nodes behind the one that it began at.
    /// [0 RT, or what it says]
    async fn arrived<F: Fabric>(
        tree: &Tree<Self>,
        client: &Client<F>,
        way: &Way<'_>,
        end: (Remote<RawInner>, usize),
    ) {
        let _ = (tree, client, way, end);
    }

    /// Hears of a change. What becomes of it, the change is done. [0 RT, or what it says]
    async fn changed<F: Fabric>(tree: &Tree<Self>, client: &Client<F>, event: Event) {
        let _ = (tree, client, event);
    }

    /// Compares the signs of all nodes below the root with what the system knows. [0 RT, or what it says]
    async fn check<F: Fabric>(
        tree: &Tree<Self>,
        client: &Client<F>,
        signs: &[Sign],
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        let _ = (tree, client, signs, walk);
        Ok(())
    }

    /// Breaks what is the system's own, for tests that want to notice.
    fn sabotage(&mut self, sabotage: Sabotage) {
        let _ = sabotage;
    }
}
