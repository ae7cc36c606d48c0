//! From a key to the node that covers it: the cache, the top of the tree, and the way down.

use super::Sherman;
use super::cached::{CachedInner, Top};
use super::layout::LEVEL;
use super::node::{Node, RawNode};
use super::split::Orphan;
use crate::cache::Slot;
use crate::error::IndexError;
use crate::marks;
use crate::retry::Retry;
use crate::sabotage::Sabotage;
use arc_swap::ArcSwapAny;
use farwood_fabric::{Checked, Client, Fabric, Parallel as _, Remote, client_table, read, read_bytes};
use std::ops::Deref;
use std::sync::Arc;

/// Tries at a copy that stays torn, with pauses: some two seconds. Longer than any WRITE takes, its writer being
/// alive and running.
pub(super) const TORN_TRIES_MAX: u32 = 2_000;
/// The same while holding the node's lock, when nobody writes.
const TORN_TRIES_LOCKED: u32 = 64;
/// Restarts from the root.
pub(super) const RESTARTS_MAX: u32 = 10_000;
/// Steps to the right before the way down is tried afresh, at first; twice as many each time.
pub(super) const STEPS_RIGHT_MAX: u32 = 3;

/// Where a key lies, seen from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// In the node.
    Here,
    /// In the sibling, or right of it.
    Right(Remote<RawNode>),
    /// The pointer was stale: the node is of another level, was freed, or lies right of the key.
    Astray,
}

/// Who said where a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A copy of its parent, of some age.
    Cache,
    /// Its parent, just now.
    Parent,
}

/// A node's copy as it came from afar.
pub(super) type Copy<'l> = Node<'l, Checked<RawNode>>;

impl Sherman {
    /// Reads the node at `at`. [1 RT, and 1 for each torn copy]
    pub(super) async fn read_node<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        operation: &'static str,
    ) -> Result<Copy<'_>, IndexError> {
        self.read_until(client, at, Retry::new(operation, TORN_TRIES_MAX)).await
    }

    /// Reads the node at `at`, whose lock this client holds. [1 RT]
    pub(super) async fn read_locked<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        operation: &'static str,
    ) -> Result<Copy<'_>, IndexError> {
        self.read_until(client, at, Retry::new(operation, TORN_TRIES_LOCKED)).await
    }

    /// Reads the nodes at `at` and `other`, in one doorbell. [1 RT, and 1 for each torn copy]
    pub(super) async fn read_both<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        other: Remote<RawNode>,
        operation: &'static str,
    ) -> Result<(Copy<'_>, Copy<'_>), IndexError> {
        let mut retry = Retry::new(operation, TORN_TRIES_MAX);
        let bytes = self.layout.node_bytes;
        loop {
            let (node, other_node) = client.post(read_bytes(at, bytes).and(read_bytes(other, bytes))).await?;
            match (node.check(&self.layout), other_node.check(&self.layout)) {
                (Ok(node), Ok(other_node)) => {
                    return Ok((
                        self.decode(at, node, operation)?,
                        self.decode(other, other_node, operation)?,
                    ));
                }
                (Err(_), _) => torn(client, &mut retry, at).await?,
                (Ok(_), Err(_)) => torn(client, &mut retry, other).await?,
            }
        }
    }

    async fn read_until<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        mut retry: Retry,
    ) -> Result<Copy<'_>, IndexError> {
        loop {
            let copy = client.post(read_bytes(at, self.layout.node_bytes)).await?;
            if let Ok(copy) = copy.check(&self.layout) {
                return self.decode(at, copy, retry.operation());
            }
            client.fabric().mark(marks::TORN_NODE);
            torn(client, &mut retry, at).await?;
        }
    }

    /// The node in a copy that is one version.
    #[inline]
    pub(super) fn decode(
        &self,
        at: Remote<RawNode>,
        copy: Checked<RawNode>,
        operation: &'static str,
    ) -> Result<Copy<'_>, IndexError> {
        Node::decode(&self.layout, copy).map_err(|what| damaged(operation, at, what))
    }

    /// The leaf that should cover `key`, and whether its parent was read for it just now.
    /// [0 RT when the cache knows; else the way down]
    #[inline]
    pub(super) async fn leaf_for<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<(Remote<RawNode>, Source), IndexError> {
        if let Some(leaf) = self.cached_leaf(key) {
            client.note(|costs| costs.cache_hits += 1);
            return Ok((leaf, Source::Cache));
        }
        client.note(|costs| costs.cache_misses += 1);
        match self.descend(client, key, 0).await? {
            Some(leaf) => Ok((leaf, Source::Parent)),
            None => unreachable!("every tree has leaves"),
        }
    }

    #[inline]
    fn cached_leaf(&self, key: &[u8]) -> Option<Remote<RawNode>> {
        self.cache.find(key, |node| node.covers(key).then(|| node.child(node.child_covering(key)))).flatten()
    }

    /// The cached level-1 node that covers `key`.
    pub(super) fn cached_parent(&self, key: &[u8]) -> Option<Arc<Slot<CachedInner>>> {
        self.cache.find(key, |node| node.covers(key).then(|| Arc::clone(node))).flatten()
    }

    /// Drops what steered towards a node that does not cover `key` (Sherman §4.2.3).
    pub(super) fn misled<F: Fabric>(&self, client: &Client<F>, key: &[u8]) {
        client.note(|costs| costs.moved += 1);
        match self.cached_parent(key) {
            Some(parent) => {
                client.fabric().mark(marks::CACHE_MISLED);
                self.cache.remove(&parent);
            }
            None => self.top.store(None),
        }
    }

    /// Drops all that is cached of the way to `key`, so that the next way down starts at the root.
    pub(super) fn forget<F: Fabric>(&self, client: &Client<F>, key: &[u8]) {
        self.misled(client, key);
        self.top.store(None);
    }

    /// The node at `level` that should cover `key`; `None` where the tree is not that high.
    /// [0 RT from the cached top two levels down to `level` + 1, then 1 per level]
    pub(super) async fn descend<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        level: u8,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        let mut restarts = Retry::new("descend", RESTARTS_MAX);
        let mut steps_max = STEPS_RIGHT_MAX;
        loop {
            let top = self.top(client).await?;
            if top.level <= level {
                return Ok((top.level == level).then_some(top.root));
            }
            if steps_max > STEPS_RIGHT_MAX {
                // Only a shorter way is at stake: one that the pool has no room for is walked to the right.
                if self.settle_root(client, &top, key).await.is_err() {
                    client.fabric().mark(marks::NOT_ADOPTED);
                }
            }
            if let Some(at) = self.descend_from(client, &top, key, level, steps_max).await? {
                return Ok(Some(at));
            }
            self.forget(client, key);
            steps_max = steps_max.saturating_mul(2);
            restarts.again(client).await?;
        }
    }

    /// Grows the tree over a root that was split, by a client that died or was stopped before it could do so: no way
    /// from such a root leads to what went to its sibling. [0 RT where the root covers `key`]
    async fn settle_root<F: Fabric>(
        &self,
        client: &Client<F>,
        top: &Top,
        key: &[u8],
    ) -> Result<(), IndexError> {
        if top.node.as_ref().is_none_or(|root| root.covers(key)) {
            return Ok(());
        }
        let root = self.read_node(client, top.root, "descend").await?;
        if let (Some(lower), Some(sibling)) = (root.upper(), root.sibling()) {
            client.fabric().mark(marks::ROOT_SETTLED);
            let orphan = Orphan { lower: lower.to_vec(), at: sibling };
            Box::pin(self.adopt(client, orphan, root.level() + 1)).await?;
        }
        Ok(())
    }

    /// From the cached top down; `None` where a pointer on the way was stale.
    async fn descend_from<F: Fabric>(
        &self,
        client: &Client<F>,
        top: &Top,
        key: &[u8],
        level: u8,
        steps_max: u32,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        let Some(root) = &top.node else { unreachable!("a root above level 0 is an inner node") };
        let covered = root.covers(key);
        let start = if covered {
            Arc::clone(root)
        } else if steps_max == STEPS_RIGHT_MAX {
            client.fabric().mark(marks::ROOT_OUTGROWN);
            return Ok(None);
        } else {
            // The root was read just now, and was split: what went to its siblings is found through them.
            match self.fetch_inner(client, root.at, top.level, key, steps_max).await? {
                Some(node) => node,
                None => return Ok(None),
            }
        };
        let child = start.child_covering(key);
        let (mut at, mut at_level) = (start.child(child), top.level - 1);
        while at_level > level {
            let second = (covered && at_level + 1 == top.level).then(|| &top.below[child]);
            let known = second.and_then(ArcSwapAny::load_full).filter(|node| node.covers(key));
            let node = match known {
                Some(node) => node,
                None => match self.fetch_inner(client, at, at_level, key, steps_max).await? {
                    Some(node) => node,
                    None => return Ok(None),
                },
            };
            if let Some(slot) = second.filter(|_| node.at == at) {
                slot.store(Some(Arc::clone(&node)));
            }
            at = node.child(node.child_covering(key));
            at_level -= 1;
        }
        Ok(Some(at))
    }

    /// Reads the inner node that covers `key` at or right of `at`, and caches it if it is of level 1. `None`: the
    /// pointer was stale. [1 RT per node]
    pub(super) async fn fetch_inner<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        level: u8,
        key: &[u8],
        steps_max: u32,
    ) -> Result<Option<Arc<Slot<CachedInner>>>, IndexError> {
        let mut at = at;
        let mut left = None;
        for _ in 0..=steps_max {
            let node = self.read_node(client, at, "descend").await?;
            match whereabouts(&node, level, key) {
                Whereabouts::Here => return Ok(Some(self.remember(at, &node))),
                Whereabouts::Right(sibling) => {
                    client.fabric().mark(marks::STEPPED_RIGHT_INNER);
                    client.note(|costs| costs.moved += 1);
                    // The cached top does not know this node: the next way down reads it again.
                    self.top.store(None);
                    (left, at) = (Some(at), sibling);
                }
                Whereabouts::Astray => {
                    if let Some(left) = left.filter(|_| node.freed()) {
                        Box::pin(self.revive(client, left, at)).await?;
                    }
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Copies an inner node, and caches it if it is of level 1.
    pub(super) fn remember<B: Deref<Target = [u8]>>(
        &self,
        at: Remote<RawNode>,
        node: &Node<'_, B>,
    ) -> Arc<Slot<CachedInner>> {
        let copy = CachedInner::copy(at, node);
        if copy.level == 1 { self.cache.insert(copy) } else { Arc::new(Slot::uncached(copy)) }
    }

    /// The level-1 node that covers `key`, or `None` where the root is a leaf.
    pub(super) async fn parent_for<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<Option<Arc<Slot<CachedInner>>>, IndexError> {
        if let Some(parent) = self.cached_parent(key) {
            client.note(|costs| costs.cache_hits += 1);
            return Ok(Some(parent));
        }
        client.note(|costs| costs.cache_misses += 1);
        let mut restarts = Retry::new("scan", RESTARTS_MAX);
        let mut steps_max = STEPS_RIGHT_MAX;
        loop {
            let Some(at) = self.descend(client, key, 1).await? else { return Ok(None) };
            if let Some(parent) = self.fetch_inner(client, at, 1, key, steps_max).await? {
                return Ok(Some(parent));
            }
            self.forget(client, key);
            steps_max = steps_max.saturating_mul(2);
            restarts.again(client).await?;
        }
    }

    /// The top of the tree, as cached. [0 RT; 2 where it is not]
    pub(super) async fn top<F: Fabric>(&self, client: &Client<F>) -> Result<Arc<Top>, IndexError> {
        if let Some(top) = self.top.load_full() {
            return Ok(top);
        }
        let mut restarts = Retry::new("descend", RESTARTS_MAX);
        loop {
            let root = self.root_word(client).await?;
            let node = self.read_node(client, root, "descend").await?;
            if node.freed() {
                Box::pin(self.replace_root(client, root)).await?;
                restarts.again(client).await?;
                continue;
            }
            let top = match node.level() {
                0 => Top::leaf(root),
                _ => Top::inner(self.remember(root, &node)),
            };
            let top = Arc::new(top);
            self.top.store(Some(Arc::clone(&top)));
            return Ok(top);
        }
    }

    /// Where the root is now. [1 RT]
    pub(super) async fn root_word<F: Fabric>(
        &self,
        client: &Client<F>,
    ) -> Result<Remote<RawNode>, IndexError> {
        let word = client.post(read(self.entry.root())).await?;
        let Ok(word) = word.check(&()) else { unreachable!("words are whole") };
        Remote::from_word(word.word()).ok_or_else(|| {
            damaged("descend", self.entry.root().part(0), "the root pointer is null".to_owned())
        })
    }
}

/// Tries at a torn copy before it is asked whether its writer has died, and between two times that it is asked.
const TRIES_PER_LOOK: u32 = 40;

/// Ends the identities of all clients that are gone: what one was writing is whole then.
pub(super) async fn bury_the_dead<F: Fabric>(client: &Client<F>) -> Result<(), IndexError> {
    for resident in client_table::residents(client).await? {
        if resident.client != client.fabric().identity() {
            client.fabric().revoke(resident.client).await?;
        }
    }
    Ok(())
}

/// Notes a torn copy and lets its writer finish; should that have died, its identity is ended.
pub(super) async fn torn<F: Fabric>(
    client: &Client<F>,
    retry: &mut Retry,
    at: Remote<RawNode>,
) -> Result<(), IndexError> {
    client.note(|costs| costs.torn += 1);
    let operation = retry.operation();
    if retry.tries() > 0 && retry.tries().is_multiple_of(TRIES_PER_LOOK) {
        bury_the_dead(client).await?;
    }
    retry.again(client).await.map_err(|error| match error {
        IndexError::Exhausted { tries, .. } => damaged(
            operation,
            at,
            format!(
                "it stays half-written ({tries} reads): its writer died, or is stopped, in the middle of a WRITE"
            ),
        ),
        other => other,
    })
}

/// Where a key lies, seen from a leaf that `source` led to: what its fences say.
#[inline]
pub(super) fn believed(fences: Whereabouts, leaf: &Copy<'_>, source: Source) -> Whereabouts {
    match leaf.layout.sabotage {
        Some(Sabotage::NoFenceCheck) if leaf.level() == 0 => Whereabouts::Here,
        Some(Sabotage::CacheBelieved) if source == Source::Cache && leaf.level() == 0 => Whereabouts::Here,
        _ => fences,
    }
}

/// Where `key` lies, seen from a node that should be of `level` (Sherman §4.2.3: fences and level are checked on
/// every fetch).
#[inline]
pub(super) fn whereabouts<B: Deref<Target = [u8]>>(node: &Node<'_, B>, level: u8, key: &[u8]) -> Whereabouts {
    if node.level() != level || node.freed() || node.is_right_of(key) {
        return Whereabouts::Astray;
    }
    if !node.is_left_of(key) {
        return Whereabouts::Here;
    }
    node.sibling().map_or(Whereabouts::Astray, Whereabouts::Right)
}

/// What is wrong with a leaf of which an entry is no version of it, although nobody writes.
pub(super) const HALF_WRITTEN: &str = "an entry stays half-written, and nobody is writing it";

/// What is wrong with an entry whose value is nowhere.
pub(super) const NO_LINK: &str = "an entry links no value";

/// The error for a node that is not what the tree says it is.
pub(super) fn damaged(operation: &'static str, at: Remote<RawNode>, what: String) -> IndexError {
    IndexError::Damaged { operation, at: at.to_string(), what }
}

const _: () = assert!(LEVEL == 8, "the check of a copy looks at the level before the node is decoded");
