//! From a key to the node that covers it: the cache, the top of the tree, and the descent.

use super::Sherman;
use super::cached::{CachedInner, Top};
use super::node::{Node, RawNode};
use super::position::{
    KeyPosition, LeafPointer, RESTARTS_MAX, RightSteps, STEPS_RIGHT_MAX, SearchTarget, Source, Traversal,
    locate,
};
use super::read::NodeCopy;
use super::split::UnlinkedSibling;
use crate::cache::{Ranged, Slot};
use crate::coverage;
use crate::error::IndexError;
use crate::op::Op;
use crate::retry::Retry;
use arc_swap::ArcSwapAny;
use farwood_fabric::{CpuWork, Fabric, Remote};
use std::ops::Deref;
use std::sync::Arc;

impl Sherman {
    #[inline]
    fn cached_leaf(&self, key: &[u8]) -> Option<Remote<RawNode>> {
        self.cache.find(key, |node| node.covers(key).then(|| node.child(node.child_covering(key)))).flatten()
    }

    /// Returns the cached level-1 node that covers `key`.
    pub(super) fn cached_parent(&self, key: &[u8]) -> Option<Arc<Slot<CachedInner>>> {
        self.cache.find(key, |node| node.covers(key).then(|| Arc::clone(node))).flatten()
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    /// Caches a copy of an inner node that was read, if it is of level 1 and the cache admits it.
    fn cache_inner<B: Deref<Target = [u8]>>(self, at: Remote<RawNode>, node: &Node<'_, B>) {
        if node.level() == 1 && self.index.cache.admits(CachedInner::bytes_of(node)) {
            self.insert_cached(CachedInner::copy(at, node));
        }
    }

    /// Copies an inner node that was read, and caches the copy if the node is of level 1 and the cache admits it.
    fn copy_inner<B: Deref<Target = [u8]>>(
        self,
        at: Remote<RawNode>,
        node: &Node<'_, B>,
    ) -> Arc<Slot<CachedInner>> {
        let copy = CachedInner::copy(at, node);
        if copy.level == 1 && self.index.cache.admits(copy.bytes()) {
            return self.insert_cached(copy);
        }
        Arc::new(Slot::uncached(copy))
    }

    /// Caches an inner node that this client wrote: instead of its former copy, or as one that was read.
    pub(super) fn cache_written<B: Deref<Target = [u8]>>(self, at: Remote<RawNode>, node: &Node<'_, B>) {
        if node.level() != 1 {
            return;
        }
        let former = self.index.cached_parent(node.lower()).filter(|former| former.at == at);
        if former.is_some() {
            self.insert_cached(CachedInner::copy(at, node));
        } else {
            self.cache_inner(at, node);
        }
    }

    /// Inserts a copy into the cache.
    fn insert_cached(self, copy: CachedInner) -> Arc<Slot<CachedInner>> {
        let inserted = self.index.cache.insert(copy);
        if inserted.admitted {
            self.fabric().charge(CpuWork::CacheAdmission);
        }
        (0..inserted.removed).for_each(|_| self.fabric().charge(CpuWork::CacheRemoval));
        inserted.node
    }

    /// Removes a node from the cache.
    pub(super) fn remove_cached(self, node: &Arc<Slot<CachedInner>>) {
        self.index.cache.remove(node);
        self.fabric().charge(CpuWork::CacheRemoval);
    }
}

impl<'a, F: Fabric> Op<'a, F, Sherman> {
    /// Returns the leaf that should cover `key`, and the origin of that pointer.
    /// [0 RT when the cache knows it; otherwise the descent]
    #[inline]
    pub(super) async fn leaf_for(self, key: &[u8]) -> Result<LeafPointer, IndexError> {
        if let Some(at) = self.index.cached_leaf(key) {
            self.client.note(|costs| costs.cache_hits += 1);
            return Ok(LeafPointer { at, source: Source::Cache });
        }
        self.client.note(|costs| costs.cache_misses += 1);
        match self.descend(SearchTarget { level: 0, key }).await? {
            Some(at) => Ok(LeafPointer { at, source: Source::Parent }),
            None => unreachable!("every tree has leaves"),
        }
    }

    /// Returns the next node to look at for the leaf of `key`, after the leaf at `at`, which does not cover it: the
    /// sibling (Lehman and Yao), or a leaf found from the root again. Where the parent, read for this operation, named
    /// the leaf, no parent names its sibling: the client that split the leaf has crashed, is stopped, or has not
    /// linked the sibling yet. This client links it.
    pub(super) async fn next_leaf(
        self,
        at: Remote<RawNode>,
        leaf: &NodeCopy<'_>,
        position: KeyPosition,
        key: &[u8],
        traversal: &mut Traversal,
    ) -> Result<Remote<RawNode>, IndexError> {
        if let KeyPosition::Right(sibling) = position
            && traversal.may_step_right_from(at)
        {
            self.hit(coverage::STEPPED_RIGHT);
            let links = traversal.source == Source::Parent && self.client.may_write();
            if let Some(lower) = leaf.upper().filter(|_| links) {
                self.hit(coverage::SIBLING_FOUND_UNLINKED);
                let unlinked = UnlinkedSibling { lower: lower.to_vec(), at: sibling };
                // The link only shortens later traversals: this one continues without it.
                Box::pin(self.try_link_in_parent(unlinked, 1)).await;
            }
            self.invalidate_parent(key);
            return Ok(sibling);
        }
        self.hit(coverage::RESTARTED);
        self.invalidate_path(key);
        if let Some(left) = traversal.left.take().filter(|_| leaf.freed()) {
            self.undo_merge(left, at).await?;
        }
        traversal.restart(self.client).await?;
        let leaf = self.leaf_for(key).await?;
        traversal.source = leaf.source;
        Ok(leaf.at)
    }

    /// As [`next_leaf`](Self::next_leaf), for inner nodes. Returns `None` where the tree does not have that level any
    /// more.
    pub(super) async fn next_inner(
        self,
        at: Remote<RawNode>,
        node: &NodeCopy<'_>,
        position: KeyPosition,
        target: SearchTarget<'_>,
        traversal: &mut Traversal,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        if let KeyPosition::Right(sibling) = position
            && traversal.may_step_right_from(at)
        {
            self.hit(coverage::STEPPED_RIGHT_INNER);
            self.client.note(|costs| costs.moved += 1);
            // A copy that named this node is older than the last split of this level.
            self.drop_from_top(target);
            return Ok(Some(sibling));
        }
        self.invalidate_path(target.key);
        if let Some(left) = traversal.left.take().filter(|_| node.freed()) {
            self.undo_merge(left, at).await?;
        }
        traversal.restart(self.client).await?;
        self.descend(target).await
    }

    /// Drops the cached parent that named a leaf which does not cover `key` (Sherman §4.2.3).
    pub(super) fn invalidate_parent(self, key: &[u8]) {
        self.client.note(|costs| costs.moved += 1);
        if let Some(parent) = self.index.cached_parent(key) {
            self.hit(coverage::STALE_PARENT);
            self.remove_cached(&parent);
        }
        self.drop_from_top(SearchTarget { level: 0, key });
    }

    /// Drops the copy among the two top levels that named a node which does not cover `target`. The others stay.
    fn drop_from_top(self, target: SearchTarget<'_>) {
        if let Some(top) = &*self.index.top.load() {
            top.drop_parent(target.level, target.key);
        }
    }

    /// The bound of the restarts of a search.
    pub(super) fn restarts(self) -> Retry {
        Retry::new(self.name, RESTARTS_MAX).watching(self.index.options.lock)
    }

    /// Drops all cached nodes on the path to `key`, so that the next descent starts at the root.
    pub(super) fn invalidate_path(self, key: &[u8]) {
        self.invalidate_parent(key);
        if let Some(top) = &*self.index.top.load() {
            top.drop_child(key);
            top.set_outdated();
        }
    }

    /// Returns the node that should cover `target`; `None` where the tree does not have that level.
    /// [0 RT from the cached top two levels down to the level above, then 1 per level]
    pub(super) async fn descend(
        self,
        target: SearchTarget<'_>,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        let op = self.named("descend");
        let mut restarts = op.restarts();
        let mut steps_max = STEPS_RIGHT_MAX;
        loop {
            let top = op.top().await?;
            if top.level <= target.level {
                return Ok((top.level == target.level).then_some(top.root));
            }
            if steps_max > STEPS_RIGHT_MAX && op.client.may_write() {
                // Failure only costs extra steps to the right, so a full pool is ignored.
                if op.link_root_sibling(&top, target.key).await.is_err() {
                    op.hit(coverage::NOT_LINKED);
                }
            }
            if let Some(at) = op.descend_from(&top, target, steps_max).await? {
                return Ok(Some(at));
            }
            op.invalidate_path(target.key);
            steps_max = steps_max.saturating_mul(2);
            restarts.again(op.client).await?;
        }
    }

    /// Adds a root above a root that was split by a client that crashed, or was stopped, before it could do so: no
    /// descent from such a root reaches the keys of its sibling. [0 RT where the root covers `key`]
    async fn link_root_sibling(self, top: &Top, key: &[u8]) -> Result<(), IndexError> {
        if top.node.as_ref().is_none_or(|root| root.covers(key)) {
            return Ok(());
        }
        let root = self.read_node(top.root).await?;
        if let (Some(lower), Some(sibling)) = (root.upper(), root.sibling()) {
            self.hit(coverage::ROOT_SIBLING_LINKED);
            let unlinked = UnlinkedSibling { lower: lower.to_vec(), at: sibling };
            Box::pin(self.link_in_parent(unlinked, root.level() + 1)).await?;
        }
        Ok(())
    }

    /// Descends from the cached top; returns `None` after a stale pointer.
    async fn descend_from(
        self,
        top: &Top,
        target: SearchTarget<'_>,
        steps_max: u32,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        let SearchTarget { level, key } = target;
        let Some(root) = &top.node else { unreachable!("a root above level 0 is an inner node") };
        let (mut at, mut second) = if root.covers(key) {
            let child = root.child_covering(key);
            (root.child(child), top.below.get(child))
        } else if steps_max == STEPS_RIGHT_MAX {
            self.hit(coverage::CACHED_ROOT_SPLIT);
            return Ok(None);
        } else {
            // The root, read for this operation, was split: its sibling pointers lead to the rest of the keys.
            match self.fetch_inner(root.at, SearchTarget { level: top.level, key }, steps_max).await? {
                Some((_, node)) => (node.child(node.child_covering(key)), None),
                None => return Ok(None),
            }
        };
        for level in (level + 1..top.level).rev() {
            let slot = second.take();
            let known = slot.and_then(ArcSwapAny::load_full).filter(|node| node.covers(key));
            if let Some(node) = known {
                at = node.child(node.child_covering(key));
                continue;
            }
            let fetched = self.fetch_inner(at, SearchTarget { level, key }, steps_max).await?;
            let Some((found, node)) = fetched else { return Ok(None) };
            match slot.filter(|_| found == at) {
                Some(slot) => slot.store(Some(self.copy_inner(found, &node))),
                None => self.cache_inner(found, &node),
            }
            at = node.child(node.child_covering(key));
        }
        Ok(Some(at))
    }

    /// Reads the inner node that covers `target` at or right of `at`; returns it with its address, or `None` where the
    /// pointer was stale. [1 RT per node]
    async fn fetch_inner(
        self,
        at: Remote<RawNode>,
        target: SearchTarget<'_>,
        steps_max: u32,
    ) -> Result<Option<(Remote<RawNode>, NodeCopy<'a>)>, IndexError> {
        let op = self.named("descend");
        let mut at = at;
        let (mut left, mut steps) = (None, RightSteps::default());
        while steps.may_step_from(at, steps_max.saturating_add(1)) {
            let node = op.read_node(at).await?;
            match locate(&node, target.level, target.key) {
                KeyPosition::Here => return Ok(Some((at, node))),
                KeyPosition::Right(sibling) => {
                    op.hit(coverage::STEPPED_RIGHT_INNER);
                    op.client.note(|costs| costs.moved += 1);
                    op.drop_from_top(target);
                    (left, at) = (Some(at), sibling);
                }
                KeyPosition::Stale => {
                    if let Some(left) = left.filter(|_| node.freed()) {
                        Box::pin(op.undo_merge(left, at)).await?;
                    }
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Returns the level-1 node that covers `key`, or `None` where the root is a leaf.
    pub(super) async fn parent_for(self, key: &[u8]) -> Result<Option<Arc<Slot<CachedInner>>>, IndexError> {
        if let Some(parent) = self.index.cached_parent(key) {
            self.client.note(|costs| costs.cache_hits += 1);
            return Ok(Some(parent));
        }
        self.client.note(|costs| costs.cache_misses += 1);
        let target = SearchTarget { level: 1, key };
        let mut restarts = self.named("scan").restarts();
        let mut steps_max = STEPS_RIGHT_MAX;
        loop {
            let Some(at) = self.descend(target).await? else { return Ok(None) };
            if let Some((at, parent)) = self.fetch_inner(at, target, steps_max).await? {
                return Ok(Some(self.copy_inner(at, &parent)));
            }
            self.invalidate_path(key);
            steps_max = steps_max.saturating_mul(2);
            restarts.again(self.client).await?;
        }
    }

    /// Returns the node of `target`'s level that covers its key: the cached parent at level 1, or else by a descent.
    pub(super) async fn inner_for(
        self,
        target: SearchTarget<'_>,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        match self.index.cached_parent(target.key).filter(|_| target.level == 1) {
            Some(parent) => Ok(Some(parent.at)),
            None => self.descend(target).await,
        }
    }

    /// Returns the top of the tree. [0 RT where it is cached, otherwise 2]
    pub(super) async fn top(self) -> Result<Arc<Top>, IndexError> {
        let before = self.index.top.load_full();
        if let Some(top) = before.as_ref().filter(|top| !top.is_outdated()) {
            return Ok(Arc::clone(top));
        }
        let op = self.named("descend");
        let mut restarts = op.restarts();
        loop {
            let root = op.root_word().await?;
            let node = op.read_node(root).await?;
            if node.freed() {
                if op.client.may_write() {
                    Box::pin(op.replace_freed_root(root)).await?;
                }
                restarts.again(op.client).await?;
                continue;
            }
            let top = match node.level() {
                0 => Top::leaf(root),
                _ => Top::inner(op.copy_inner(root, &node), before.as_deref()),
            };
            let top = Arc::new(top);
            op.index.top.store(Some(Arc::clone(&top)));
            return Ok(top);
        }
    }
}
