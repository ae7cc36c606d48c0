//! Finds a key below an inner node, because any such key contains the bytes of the node's prefix.

use super::RadixTree;
use super::damage::damaged_slot;
use super::policy::Policy;
use crate::error::IndexError;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::NodeState;
use crate::radix::reverse::Reverse;
use crate::radix::slot::Child;
use farwood_fabric::Fabric;
use std::sync::Arc;

/// Result of the search for some key below an inner node.
pub(crate) enum SampleKey {
    /// One of the keys.
    Key(Vec<u8>),
    /// There are no keys.
    None,
    /// No key was found, and slot `number` of `node` led to an object that is not linked in it: the copies are stale,
    /// or a client crashed before it completed a change.
    Ambiguous { node: Arc<CachedNode>, number: usize },
}

/// The occupied slots of a node, the first one last.
fn occupied_slots(node: &Arc<CachedNode>) -> Vec<(Arc<CachedNode>, usize)> {
    let occupied = |number: &usize| node.slot(*number).is_occupied();
    (0..=node.header.size().slots()).rev().filter(occupied).map(|number| (Arc::clone(node), number)).collect()
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Finds some key below `node`. [1 RT for each node or leaf on the path]
    pub(crate) async fn sample_key(self, node: &Arc<CachedNode>) -> Result<SampleKey, IndexError> {
        const READS_MAX: usize = 1 << 16;
        let mut result = SampleKey::None;
        let mut pending = occupied_slots(node);
        for _ in 0..READS_MAX {
            let Some((parent, number)) = pending.pop() else { return Ok(result) };
            let slot = parent.slot(number);
            match slot.child() {
                Child::Leaf(leaf) => {
                    let leaf = self.read_leaf(leaf).await?;
                    let prefix = leaf.key().get(..node.header.depth());
                    if prefix.is_some_and(|prefix| node.has_prefix(prefix, self.index.number)) {
                        return Ok(SampleKey::Key(leaf.key().to_vec()));
                    }
                    result = SampleKey::Ambiguous { node: parent, number };
                }
                Child::Inner(child) => {
                    let copy = self.read_inner(child).await?;
                    let reverse = Reverse::of_inner(parent.at, parent.header.generation(), slot.partial());
                    if copy.header().state() != Some(NodeState::Live) || copy.reverse() != reverse {
                        result = SampleKey::Ambiguous { node: parent, number };
                    }
                    pending.extend(occupied_slots(&CachedNode::copy(child.at, &copy)));
                }
                Child::Damaged => return Err(damaged_slot(self.name, parent.at, number)),
                Child::Free | Child::Vacant | Child::Closed => {}
            }
        }
        Ok(SampleKey::Ambiguous { node: Arc::clone(node), number: 0 })
    }
}
