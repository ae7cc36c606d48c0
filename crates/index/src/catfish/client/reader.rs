//! Offloading: a client traverses the tree by READs (Catfish §III-B), several at a time (*multi-issue*, §IV-C).
//!
//! [`catfish`](super::super) proves that the answers are correct if the reader checks that every node has the
//! generation in its reference, and restarts the search after a failed check.

use super::super::head::{ROOT, word_of};
use super::super::tree::copy::{Hit, NodeCopy};
use super::super::tree::layout::{ExpectedNode, NodeRef, RawNode};
use super::super::tree::nearest::{Near, Nearest};
use super::super::tree::rectangle::Query;
use super::super::{Catfish, SearchSink};
use crate::coverage;
use crate::error::IndexError;
use crate::retry::Retry;
use farwood_fabric::{Checked, Client, Fabric, Fetched, Parallel as _, all, read, read_bytes};
use std::sync::atomic::Ordering;

/// The number of READs that a search has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Issue {
    /// One.
    One,
    /// All whose addresses are known.
    #[default]
    Many,
}

/// Maximum READs of one doorbell: a client keeps that many buffers.
pub(super) const READS_MAX: usize = 64;
/// Maximum READs of one doorbell of a nearest-neighbour search, which may not need the later ones.
const NEAR_READS_MAX: usize = 4;
/// Maximum restarts of a search.
pub(super) const STARTS_MAX: u32 = 10_000;

/// A client that traverses the tree by READs. Reuses its buffers in every search.
pub struct Reader<'t, F> {
    pub(super) tree: &'t Catfish,
    pub(super) client: &'t Client<F>,
    issue: Issue,
    verifies_hashes: bool,
    /// Nodes to fetch, with the levels of their parents.
    wanted: Vec<(NodeRef, u8)>,
}

/// The fetched node is not the node that this reference names, because the slot was reused.
pub(super) struct SlotReused(NodeRef);

/// The last restart of a search: the root with which the search began, and the node that its slot did not contain.
///
/// Slots of the current tree are not reused. So if the root is still the current one at the restart, the missing node
/// proves damage.
#[derive(Default)]
pub(super) struct LastRestart {
    of: Option<(u64, NodeRef)>,
    times: u32,
}

/// Restarts at the same node under the same root after which the tree counts as damaged. Two would prove it, and more
/// cost only microseconds.
const EQUAL_RESTARTS_MAX: u32 = 8;

impl LastRestart {
    /// Records a restart under the root `root`; returns whether it proves damage.
    fn is_damage(&mut self, root: u64, missing: NodeRef) -> bool {
        let of = Some((root, missing));
        self.times = if self.of == of { self.times + 1 } else { 1 };
        self.of = of;
        self.times >= EQUAL_RESTARTS_MAX
    }
}

impl<'t, F: Fabric> Reader<'t, F> {
    /// A reader of `tree`.
    pub fn new(tree: &'t Catfish, client: &'t Client<F>, issue: Issue) -> Self {
        let verifies_hashes = tree.verifies_hashes;
        Self { verifies_hashes, tree, client, issue, wanted: Vec::new() }
    }

    /// Verifies the hashes of all nodes, even if searches of this tree [skip them](Catfish::without_hash_checks).
    #[must_use]
    pub fn verifying_hashes(mut self) -> Self {
        self.verifies_hashes = true;
        self
    }

    /// Adds the items that match to `found`. They are those of one version of the tree, which was current at some
    /// moment during the call. [multi-issue: 1 RT for each level, and 1 for each 64 nodes of a level beyond the first
    /// 64; otherwise 1 for each node; 1 more if the root has changed since the last search; the search restarts if a
    /// slot was used again]
    ///
    /// # Errors
    /// [`IndexError::Exhausted`] after too many restarts; [`IndexError::Damaged`]; the errors of the fabric.
    pub async fn search(&mut self, query: &Query, found: &mut impl SearchSink) -> Result<(), IndexError> {
        let (mut starts, mut last) = (Retry::new("search", STARTS_MAX), LastRestart::default());
        loop {
            let searched = match self.root().await? {
                Ok((at, root)) => self.search_from(at, &root, query, found).await?,
                Err(reused) => Err(reused),
            };
            let Err(reused) = searched else { return Ok(()) };
            found.restart();
            self.restart(&mut starts, &mut last, &reused).await?;
        }
    }

    /// Prepares for another search of the tree.
    pub(super) async fn restart(
        &self,
        starts: &mut Retry,
        last: &mut LastRestart,
        SlotReused(missing): &SlotReused,
    ) -> Result<(), IndexError> {
        self.client.fabric().record_coverage(coverage::OVERTAKEN);
        if last.is_damage(self.tree.root.load(Ordering::Relaxed), *missing) {
            return Err(self.damaged(*missing, format!("it is not {missing}, which the tree names")));
        }
        starts.again(self.client).await
    }

    /// Searches the tree under `root`, whose address is `at`.
    pub(super) async fn search_from(
        &mut self,
        at: NodeRef,
        root: &Checked<RawNode>,
        query: &Query,
        found: &mut impl SearchSink,
    ) -> Result<Result<(), SlotReused>, IndexError> {
        self.wanted.clear();
        self.visit((at, None), root, query, found)?;
        let batch_max = if self.issue == Issue::Many { READS_MAX } else { 1 };
        while !self.wanted.is_empty() {
            let batch = self.wanted.len() - self.wanted.len().min(batch_max);
            let mut nodes = [None; READS_MAX];
            let count = self.wanted.len() - batch;
            for (node, wanted) in nodes.iter_mut().zip(self.wanted.drain(batch..)) {
                *node = Some(wanted);
            }
            let nodes = nodes.iter().take(count).flatten();
            let layout = &self.tree.layout;
            let reads = nodes.clone().map(|&(node, _)| read_bytes(layout.at(node), layout.node_bytes()));
            let copies = self.client.post(all(reads)).await?;
            for (&(node, below), copy) in nodes.zip(copies) {
                let copy = match self.check(node, copy) {
                    Ok(copy) => copy,
                    Err(reused) => return Ok(Err(reused)),
                };
                self.visit((node, Some(below)), &copy, query, found)?;
            }
        }
        Ok(Ok(()))
    }

    /// Adds the matching items of a leaf to `found`, or the matching children of an inner node to `wanted`.
    fn visit(
        &mut self,
        (at, below): (NodeRef, Option<u8>),
        node: &Checked<RawNode>,
        query: &Query,
        found: &mut impl SearchSink,
    ) -> Result<(), IndexError> {
        let copy = self.copy((at, below), node)?;
        let searched = copy.search(query, |hit| match hit {
            Hit::Item(item) => found.item(item),
            Hit::Child(child, level) => self.wanted.push((child, level)),
        });
        searched.map_err(|what| self.damaged(at, what))
    }

    /// The copy of a node, if the node can belong to the index, below a node of that level.
    fn copy<'b>(
        &self,
        (at, below): (NodeRef, Option<u8>),
        node: &'b Checked<RawNode>,
    ) -> Result<NodeCopy<'b>, IndexError> {
        let layout = &self.tree.layout;
        let copy = if self.verifies_hashes {
            NodeCopy::verified(node, layout, below)
        } else {
            NodeCopy::new(node, layout, below)
        };
        copy.map_err(|what| self.damaged(at, what))
    }

    pub(super) fn damaged(&self, at: NodeRef, what: String) -> IndexError {
        IndexError::Damaged { operation: "search", at: self.tree.layout.at(at).to_string(), what }
    }

    /// The copy, if it is the node that the reference names.
    pub(super) fn check(
        &self,
        node: NodeRef,
        copy: Fetched<RawNode>,
    ) -> Result<Checked<RawNode>, SlotReused> {
        let expected = ExpectedNode { node, scheme: self.tree.layout.scheme, mutant: self.tree.mutant };
        copy.check(&expected).map_err(|_| SlotReused(node))
    }

    /// Fetches the root and the reference to it, and stores the reference for the next search. [1 RT if the root is the
    /// one of the last search, otherwise 2]
    async fn root(&self) -> Result<Result<(NodeRef, Checked<RawNode>), SlotReused>, IndexError> {
        let layout = &self.tree.layout;
        let read_root = read(word_of(self.tree.head, ROOT));
        let fetch = |node| read_bytes(layout.at(node), layout.node_bytes());
        let guess = NodeRef::from_word(self.tree.root.load(Ordering::Relaxed));
        let (word, copy) = match guess {
            Some(guess) => {
                let (word, copy) = self.client.post(read_root.and(fetch(guess))).await?;
                (word, Some(copy))
            }
            None => (self.client.post(read_root).await?, None),
        };
        let word = word.whole_word();
        let Some(root) = NodeRef::from_word(word) else {
            let what = format!("the root is {word:#x}");
            return Err(IndexError::Damaged { operation: "search", at: self.tree.head.to_string(), what });
        };
        let copy = if let Some(copy) = copy.filter(|_| guess == Some(root)) {
            copy
        } else {
            self.tree.root.store(root.word(), Ordering::Relaxed);
            self.client.post(fetch(root)).await?
        };
        Ok(self.check(root, copy).map(|copy| (root, copy)))
    }

    /// Finds the `count` items nearest to `point`, nearest first, in one version of the tree, which was current at some
    /// moment during the call. [multi-issue: 1 RT for each 4 nodes that may contain such an item; otherwise 1 for each
    /// node; the root as in [`search`](Self::search)]
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub async fn nearest(&mut self, point: [f64; 2], count: usize) -> Result<Vec<Near>, IndexError> {
        let (mut starts, mut last) = (Retry::new("nearest", STARTS_MAX), LastRestart::default());
        loop {
            let reused = match self.root().await? {
                Ok((at, root)) => {
                    let mut search = Nearest::new(point, count, at);
                    let _ = search.next();
                    self.visit_near(&mut search, (at, None), &root)?;
                    match self.nearest_from(&mut search).await? {
                        Ok(()) => return Ok(search.found()),
                        Err(reused) => reused,
                    }
                }
                Err(reused) => reused,
            };
            self.restart(&mut starts, &mut last, &reused).await?;
        }
    }

    /// Visits nodes, nearest first, until none can contain a nearer item.
    pub(super) async fn nearest_from(
        &mut self,
        search: &mut Nearest,
    ) -> Result<Result<(), SlotReused>, IndexError> {
        let batch_max = if self.issue == Issue::Many { NEAR_READS_MAX } else { 1 };
        let layout = &self.tree.layout;
        loop {
            let nodes: Vec<_> = std::iter::from_fn(|| search.next()).take(batch_max).collect();
            if nodes.is_empty() {
                return Ok(Ok(()));
            }
            let reads = nodes.iter().map(|&(node, _)| read_bytes(layout.at(node), layout.node_bytes()));
            let copies = self.client.post(all(reads)).await?;
            for (&(node, below), copy) in nodes.iter().zip(copies) {
                let copy = match self.check(node, copy) {
                    Ok(copy) => copy,
                    Err(reused) => return Ok(Err(reused)),
                };
                self.visit_near(search, (node, below), &copy)?;
            }
        }
    }

    /// Adds the entries of a node to the search.
    pub(super) fn visit_near(
        &self,
        search: &mut Nearest,
        (at, below): (NodeRef, Option<u8>),
        node: &Checked<RawNode>,
    ) -> Result<(), IndexError> {
        let copy = self.copy((at, below), node)?;
        let added = search.add_entries(copy.level(), copy.entries());
        added.map_err(|word| self.damaged(at, format!("a child is {word:#x}")))
    }
}

impl<F> std::fmt::Debug for Reader<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("issue", &self.issue).finish_non_exhaustive()
    }
}
