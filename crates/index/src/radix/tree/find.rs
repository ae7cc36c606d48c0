//! Finds the location of a key: starts at the deepest cached node above it, then reads nodes.

use super::RadixTree;
use super::copy::{InnerCopy, LeafCopy};
use super::damage::damaged_slot;
use super::options::NodeReads;
use super::policy::Policy;
use super::traversal::Traversal;
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::inner::{InnerRef, NodeSize, NodeState, RawInner, SlotSearch};
use crate::radix::key::common_prefix;
use crate::radix::leaf::{LeafRef, LeafState};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Fabric, Remote};
use std::sync::Arc;

/// Location of a key: the last inner node of its path, and the contents of the key's slot there.
pub(crate) struct Location {
    pub(crate) node: Arc<CachedNode>,
    /// The slot that points to `node`, if the traversal passed it.
    pub(crate) parent: Option<ParentLink>,
    pub(crate) target: SlotTarget,
}

/// A slot of an inner node that points to another inner node.
#[derive(Clone)]
pub(crate) struct ParentLink {
    pub(crate) node: Arc<CachedNode>,
    pub(crate) number: usize,
}

/// A slot of a known node: its number and contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotAt {
    pub(crate) number: usize,
    pub(crate) slot: NodeSlot,
}

/// A slot of a known node that points to a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafAt {
    pub(crate) number: usize,
    pub(crate) leaf: LeafRef,
}

/// Contents of the slot of a key.
#[derive(Debug)]
pub(crate) enum SlotTarget {
    /// A leaf, of this key or of another.
    Leaf(LeafAt),
    /// No child; a leaf may be inserted.
    Open(SlotAt),
    /// No child, and no slot of the node's type is free: another client is about to change the type, or has crashed.
    Outgrown,
    /// No child, and no leaf may be inserted: no slot is free, or the node is about to be replaced.
    Full { number: usize },
    /// An inner node of another prefix, and whether its reverse pointer confirms that the slot links it.
    OtherPrefix { at: SlotAt, child: Arc<CachedNode>, linked: bool },
}

impl Location {
    /// The leaf in the slot, if there is one.
    #[inline]
    pub(crate) fn leaf(&self) -> Option<LeafAt> {
        match self.target {
            SlotTarget::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// Number of the slot; 0 if the key has none.
    pub(crate) fn number(&self) -> usize {
        match self.target {
            SlotTarget::Leaf(LeafAt { number, .. })
            | SlotTarget::Open(SlotAt { number, .. })
            | SlotTarget::Full { number }
            | SlotTarget::OtherPrefix { at: SlotAt { number, .. }, .. } => number,
            SlotTarget::Outgrown => 0,
        }
    }
}

/// The conclusion about a key from a leaf that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafVerdict {
    /// The leaf is the leaf of the key.
    Match,
    /// The key is absent.
    Absent,
    /// The leaf proves neither.
    Ambiguous,
}

/// Result of following a slot to an inner node.
enum Followed {
    Node(Arc<CachedNode>),
    OtherPrefix { child: Arc<CachedNode>, linked: bool },
    Ambiguous,
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Finds the location of the traversal's key. [0 RT down to the deepest cached node; then 1 per node]
    pub(crate) async fn locate(
        self,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Location, IndexError> {
        loop {
            if let Some(location) = self.descend(traversal).await? {
                return Ok(location);
            }
        }
    }

    /// Descends from the start that the system chooses. `None`: a slot was ambiguous or a copy was stale.
    async fn descend(self, traversal: &mut Traversal<'_, P::Route>) -> Result<Option<Location>, IndexError> {
        let (key, mut parent) = (traversal.key(), None);
        let start = P::start(self, traversal).await?;
        let has_start = start.is_some();
        let mut node = match start {
            Some(node) => node,
            None => self.root(traversal).await?,
        };
        let target = loop {
            let (number, slot) = match node.find(key) {
                SlotSearch::Slot(number, slot) | SlotSearch::Free(number, slot) => (number, slot),
                SlotSearch::Full => break SlotTarget::Full { number: 0 },
                SlotSearch::Outgrown => break SlotTarget::Outgrown,
            };
            let at = SlotAt { number, slot };
            match slot.child() {
                Child::Inner(child) => match self.follow(&node, at, child, traversal).await? {
                    Followed::Node(child) => {
                        parent = Some(ParentLink { node, number });
                        node = child;
                    }
                    Followed::OtherPrefix { child, linked } => {
                        break SlotTarget::OtherPrefix { at, child, linked };
                    }
                    Followed::Ambiguous => {
                        self.resolve(&node, number, traversal).await?;
                        return Ok(None);
                    }
                },
                Child::Leaf(leaf) => break SlotTarget::Leaf(LeafAt { number, leaf }),
                Child::Free | Child::Vacant => break SlotTarget::Open(at),
                Child::Closed => break SlotTarget::Full { number },
                Child::Damaged if traversal.is_fresh(&node) => {
                    return Err(damaged_slot(self.name, node.at, number));
                }
                Child::Damaged => {
                    self.resolve(&node, number, traversal).await?;
                    return Ok(None);
                }
            }
        };
        if !(has_start && parent.is_none() || node.covers(key, self.index.number)) {
            self.forget_misleading_copies(&node, parent.as_ref());
            traversal.retry(self.client).await?;
            return Ok(None);
        }
        self.count_cache_use(traversal);
        P::finished(self, traversal, &node).await;
        Ok(Some(Location { node, parent, target }))
    }

    /// Removes the copies that led to a node which does not cover the key.
    fn forget_misleading_copies(self, node: &CachedNode, parent: Option<&ParentLink>) {
        self.hit(coverage::STALE_COPY_DROPPED);
        self.index.cache.remove(node);
        if let Some(parent) = parent {
            self.index.cache.remove(&parent.node);
        }
    }

    fn count_cache_use(self, traversal: &Traversal<'_, P::Route>) {
        self.client.note(|costs| {
            if traversal.nodes_read().len() == traversal.nodes_read_by_system() {
                costs.cache_hits += 1;
            } else {
                costs.cache_misses += 1;
            }
        });
    }

    /// A copy of the root that this operation has read. [0 RT; 1 if it has not read the root yet]
    async fn root(self, traversal: &mut Traversal<'_, P::Route>) -> Result<Arc<CachedNode>, IndexError> {
        let at = self.index.root;
        if let Some(root) = traversal.node_read(at) {
            return Ok(Arc::clone(root));
        }
        let node = InnerRef { at, size: NodeSize::All };
        if let Some(root) = self.read_slot_of_key(node, 0, traversal).await? {
            return Ok(root);
        }
        let root = self.read_inner(node).await?;
        Ok(self.keep(at, &root, traversal))
    }

    /// The copy of the node at `at` that this operation has read; or the cached one, if the traversal had to start
    /// above the deepest cached node.
    fn known(self, at: Remote<RawInner>, traversal: &Traversal<'_, P::Route>) -> Option<Arc<CachedNode>> {
        if let Some(fresh) = traversal.node_read(at) {
            return Some(Arc::clone(fresh));
        }
        let key = traversal.key();
        let deepest = || self.index.cache.search(key, key.len(), self.fabric().thread());
        traversal.is_restricted().then(deepest).flatten().filter(|node| node.at == at)
    }

    /// Keeps a node that was just read, for this operation and in the cache.
    fn keep(
        self,
        at: Remote<RawInner>,
        node: &InnerCopy,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Arc<CachedNode> {
        self.index.cache.put(at, node);
        traversal.record_again(at, node)
    }

    /// Follows a slot of `parent` to the inner node `child`. [0 RT if the child is [`known`](Self::known); otherwise
    /// 1]
    async fn follow(
        self,
        parent: &Arc<CachedNode>,
        SlotAt { number, slot }: SlotAt,
        child: InnerRef,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Followed, IndexError> {
        let (key, index_number, depth) = (traversal.key(), self.index.number, parent.header.depth());
        if let Some(child) = self.known(child.at, traversal) {
            // The prefix of a child that is one byte deeper has no further bytes to compare; the last node is checked
            // at the end.
            let is_next = child.header.depth() == depth + 1 && number > 0;
            if is_next || child.header.depth() > depth && child.covers(key, index_number) {
                return Ok(Followed::Node(child));
            }
        }
        let copy = self.read_inner(child).await?;
        let header = copy.header();
        if header.state() != Some(NodeState::Live) || !copy.reverse().is_linked() || header.depth() <= depth {
            return Ok(Followed::Ambiguous);
        }
        if header.size() != child.size {
            self.hit(coverage::SIZE_CORRECTED);
            self.set_size_hint(parent, number, InnerRef { size: header.size(), ..child });
        }
        if copy.covers(key, index_number) {
            return Ok(Followed::Node(self.keep(child.at, &copy, traversal)));
        }
        self.index.cache.put(child.at, &copy);
        let linked =
            copy.reverse() == Reverse::of_inner(parent.at, parent.header.generation(), slot.partial());
        Ok(Followed::OtherPrefix { child: CachedNode::copy(child.at, &copy), linked })
    }

    /// Whether a location proves that its key is absent.
    fn proves_absence(self, location: &Location, traversal: &Traversal<'_, P::Route>) -> bool {
        if self.index.mutant == Some(Mutant::MissUnchecked) {
            return true;
        }
        match location.target {
            SlotTarget::Open(_) | SlotTarget::Outgrown | SlotTarget::Full { .. } => {
                traversal.is_fresh(&location.node)
            }
            SlotTarget::OtherPrefix { linked, .. } => linked && traversal.is_fresh(&location.node),
            SlotTarget::Leaf(_) => false,
        }
    }

    /// Whether a location without a leaf proves that the key is absent. `false`: the caller tries again. [0 RT; as
    /// [`resolve`](Self::resolve)]
    pub(super) async fn is_absent(
        self,
        location: &Location,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let proven = self.proves_absence(location, traversal);
        if !proven {
            self.resolve(&location.node, location.number(), traversal).await?;
        }
        Ok(proven)
    }

    /// Returns what a leaf that was read through `location` proves about the traversal's key.
    #[inline]
    pub(crate) fn judge(
        self,
        leaf: &LeafCopy,
        location: &Location,
        traversal: &Traversal<'_, P::Route>,
    ) -> LeafVerdict {
        let (key, node, reverse) = (traversal.key(), &location.node, leaf.reverse());
        let is_same_key = leaf.key() == key;
        let trusted = self.index.mutant == Some(Mutant::NoReverseCheck);
        // A client that swaps the slot without a lock marks the leaf first, and may then fail. A node that this
        // operation has read linked the leaf at that time, whatever its state is now.
        let state = match leaf.state() {
            LeafState::Moved if self.index.options.swaps_leaves() && traversal.is_fresh(node) => {
                LeafState::Live
            }
            state => state,
        };
        let here = trusted || reverse == Reverse::of_leaf(node.at, node.header.generation());
        // A slot that was read alone may belong to a node that is not linked yet.
        let is_alone = self.index.options.node_reads == NodeReads::OneSlot && !node.is_whole();
        match state {
            LeafState::Live if is_same_key && (here || reverse.is_linked() && !is_alone) => {
                LeafVerdict::Match
            }
            LeafState::Live if !is_same_key => {
                let in_slot = common_prefix(leaf.key(), key) > node.header.depth();
                if here && in_slot { LeafVerdict::Absent } else { LeafVerdict::Ambiguous }
            }
            LeafState::Removed if is_same_key && traversal.is_fresh(node) => LeafVerdict::Absent,
            _ => LeafVerdict::Ambiguous,
        }
    }

    /// Handles an ambiguous slot of `node`: reads the node again if its copy is old; otherwise lets other clients
    /// proceed, and repairs the slot after several tries. [1 RT; more for a repair]
    pub(crate) async fn resolve(
        self,
        node: &Arc<CachedNode>,
        number: usize,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<(), IndexError> {
        if !traversal.is_fresh(node) {
            self.client.note(|costs| costs.moved += 1);
            return self.read_again(node, traversal).await;
        }
        self.retry_or_repair(node, number, traversal).await
    }

    /// Prepares another try after a slot was ambiguous although its node was just read. Repairs the slot after several
    /// tries.
    pub(crate) async fn retry_or_repair(
        self,
        node: &Arc<CachedNode>,
        number: usize,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<(), IndexError> {
        self.hit(coverage::AMBIGUOUS);
        traversal.retry(self.client).await?;
        if traversal.repairs_now() && self.client.may_write() {
            self.repair(node, number, traversal.key()).await?;
        }
        Ok(())
    }

    /// Reads a cached node again, and removes the copy if the node no longer exists. [1 RT]
    pub(crate) async fn read_again(
        self,
        node: &Arc<CachedNode>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<(), IndexError> {
        self.read_again_as(node, node.header.size(), traversal).await
    }

    /// As [`read_again`](Self::read_again); the node has probably grown in place to `size`.
    pub(super) async fn read_again_as(
        self,
        node: &Arc<CachedNode>,
        size: NodeSize,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<(), IndexError> {
        self.hit(coverage::READ_AGAIN);
        let copy = self.read_inner(InnerRef { at: node.at, size }).await?;
        if copy.header().is_of_node(node.header) && copy.reverse().is_linked() {
            self.keep(node.at, &copy, traversal);
        } else {
            self.hit(coverage::STALE_COPY_DROPPED);
            self.index.cache.remove(node);
            // A copy of the parent that still points to the node is as old.
            if let Some(parent) = self.cached_parent(node, traversal.key()) {
                self.index.cache.remove(&parent.node);
            }
            traversal.retry(self.client).await?;
        }
        Ok(())
    }
}

/// The partial key of `key` below a prefix of `depth` bytes; 0 if the key ends there.
pub(crate) fn partial_at(key: &[u8], depth: usize) -> u8 {
    key.get(depth).copied().unwrap_or(0)
}
