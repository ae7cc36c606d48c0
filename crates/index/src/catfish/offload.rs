//! Offloading: a client goes through the tree by READs (Catfish §III-B), several at a time (*multi-issue*, §IV-C).
//!
//! The module's parent has the argument why what is found is right. What has to be done for it here: every node is
//! checked for the generation that its reference names, and a search in which one does not pass begins again.

use super::head::{ROOT, word_of};
use super::layout::{Head, RawNode, Sought, entry_of, head_of};
use super::nearest::Nearest;
use super::rectangle::{Item, Query};
use super::scan::{entries, matching};
use super::{Answer, Catfish, Near, layout::NodeRef};
use crate::error::IndexError;
use crate::marks;
use crate::retry::Retry;
use farwood_fabric::{Checked, Client, Fabric, Fetched, Parallel as _, all, read, read_bytes};
use std::sync::atomic::Ordering;

/// How many READs a search has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Issue {
    /// One.
    One,
    /// Those of all nodes that are known and wanted.
    #[default]
    Many,
}

/// Most READs of one doorbell: what a client keeps buffers for.
const READS_MAX: usize = 64;
/// Most READs of one doorbell of a search for neighbours, which may turn out not to need the later ones.
const NEAR_READS_MAX: usize = 4;
/// How often a search begins again.
const STARTS_MAX: u32 = 10_000;

/// A client that goes through the tree by itself. Keeps its lists from search to search.
pub struct Reader<'t, F> {
    tree: &'t Catfish,
    client: &'t Client<F>,
    issue: Issue,
    /// Nodes to fetch.
    wanted: Vec<NodeRef>,
}

/// A fetched node was not the one that its reference names: its room was used again.
struct Overtaken;

impl<'t, F: Fabric> Reader<'t, F> {
    /// A reader of `tree`.
    pub fn new(tree: &'t Catfish, client: &'t Client<F>, issue: Issue) -> Self {
        Self { tree, client, issue, wanted: Vec::new() }
    }

    /// Adds to `found` what the query is for, of the tree at one moment during the call.
    /// [multi-issue: 1 RT for each level, and 1 for each 64 nodes of a level beyond the first 64; else 1 for each node;
    /// 1 more where the root is another than the last search's; again where the server overtakes]
    ///
    /// # Errors
    /// [`IndexError::Exhausted`] where the server overtakes all the time; [`IndexError::Damaged`]; the fabric's.
    pub async fn search(&mut self, query: &Query, found: &mut impl Answer) -> Result<(), IndexError> {
        let mut starts = Retry::new("search", STARTS_MAX);
        loop {
            let root = self.root().await?;
            if let Some((at, root)) = root
                && self.search_from(at, &root, query, found).await?.is_ok()
            {
                return Ok(());
            }
            found.forget();
            self.client.fabric().mark(marks::OVERTAKEN);
            starts.again(self.client).await?;
        }
    }

    async fn search_from(
        &mut self,
        at: NodeRef,
        root: &Checked<RawNode>,
        query: &Query,
        found: &mut impl Answer,
    ) -> Result<Result<(), Overtaken>, IndexError> {
        self.wanted.clear();
        self.look(at, root, query, found)?;
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
            let reads = nodes.clone().map(|&node| read_bytes(layout.at(node), layout.node_bytes()));
            let copies = self.client.post(all(reads)).await?;
            for (&node, copy) in nodes.zip(copies) {
                let Ok(copy) = self.check(node, copy) else { return Ok(Err(Overtaken)) };
                self.look(node, &copy, query, found)?;
            }
        }
        Ok(Ok(()))
    }

    /// Reports what a leaf has, or wants the children of an inner node.
    fn look(
        &mut self,
        at: NodeRef,
        node: &Checked<RawNode>,
        query: &Query,
        found: &mut impl Answer,
    ) -> Result<(), IndexError> {
        let words: &[u8] = node;
        let head = self.head(at, node)?;
        let mut damage = None;
        matching(&words, (head.level, head.entries), query, |place| {
            let entry = entry_of(&words, place);
            match (head.level, NodeRef::from_word(entry.word)) {
                (0, _) => found.item(Item { bounds: entry.bounds, id: entry.word }),
                (_, Some(child)) => self.wanted.push(child),
                (_, None) => damage = Some(format!("child {place} is {:#x}", entry.word)),
            }
        });
        damage.map_or(Ok(()), |what| Err(self.damaged(at, what)))
    }

    /// What the node says of itself, if that can be.
    fn head(&self, at: NodeRef, node: &Checked<RawNode>) -> Result<Head, IndexError> {
        let words: &[u8] = node;
        let head = head_of(&words);
        if head.index != self.tree.layout.index || head.entries > self.tree.layout.entries_max() {
            return Err(self.damaged(at, format!("{} entries of index {}", head.entries, head.index)));
        }
        Ok(head)
    }

    fn damaged(&self, at: NodeRef, what: String) -> IndexError {
        IndexError::Damaged { operation: "search", at: self.tree.layout.at(at).to_string(), what }
    }

    /// The copy, if it is the node that was looked for.
    fn check(&self, node: NodeRef, copy: Fetched<RawNode>) -> Result<Checked<RawNode>, Overtaken> {
        let sought = Sought { node, scheme: self.tree.layout.scheme, sabotage: self.tree.sabotage };
        copy.check(&sought).map_err(|_| Overtaken)
    }

    /// The root and its reference; `None`: it was overtaken.
    /// [1 RT where it still is the one that was last seen, else 2]
    async fn root(&self) -> Result<Option<(NodeRef, Checked<RawNode>)>, IndexError> {
        let layout = &self.tree.layout;
        let ask = read(word_of(self.tree.head, ROOT));
        let fetch = |node| read_bytes(layout.at(node), layout.node_bytes());
        let guess = NodeRef::from_word(self.tree.root.load(Ordering::Relaxed));
        let (word, copy) = match guess {
            Some(guess) => {
                let (word, copy) = self.client.post(ask.and(fetch(guess))).await?;
                (word, Some(copy))
            }
            None => (self.client.post(ask).await?, None),
        };
        let Ok(word) = word.check(&()) else { unreachable!("words are whole") };
        let Some(root) = NodeRef::from_word(word.word()) else {
            let what = format!("the root is {:#x}", word.word());
            return Err(IndexError::Damaged { operation: "search", at: self.tree.head.to_string(), what });
        };
        let copy = if let Some(copy) = copy.filter(|_| guess == Some(root)) {
            copy
        } else {
            self.tree.root.store(root.word(), Ordering::Relaxed);
            self.client.post(fetch(root)).await?
        };
        Ok(self.check(root, copy).ok().map(|copy| (root, copy)))
    }

    /// The `count` items that are nearest to `point`, nearest first, of the tree at one moment during the call.
    /// [multi-issue: 1 RT for each 4 nodes that may have one; else 1 for each; otherwise as
    /// [`search`](Self::search)]
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub async fn nearest(&mut self, point: [f64; 2], count: usize) -> Result<Vec<Near>, IndexError> {
        let mut starts = Retry::new("nearest", STARTS_MAX);
        loop {
            if let Some((at, root)) = self.root().await? {
                let mut search = Nearest::new(point, count, at);
                let _ = search.next();
                self.look_near(&mut search, at, &root)?;
                if self.nearest_from(&mut search).await?.is_ok() {
                    return Ok(search.found());
                }
            }
            self.client.fabric().mark(marks::OVERTAKEN);
            starts.again(self.client).await?;
        }
    }

    async fn nearest_from(&mut self, search: &mut Nearest) -> Result<Result<(), Overtaken>, IndexError> {
        let batch_max = if self.issue == Issue::Many { NEAR_READS_MAX } else { 1 };
        let layout = &self.tree.layout;
        loop {
            let nodes: Vec<_> = std::iter::from_fn(|| search.next()).take(batch_max).collect();
            if nodes.is_empty() {
                return Ok(Ok(()));
            }
            let reads = nodes.iter().map(|&node| read_bytes(layout.at(node), layout.node_bytes()));
            let copies = self.client.post(all(reads)).await?;
            for (&node, copy) in nodes.iter().zip(copies) {
                let Ok(copy) = self.check(node, copy) else { return Ok(Err(Overtaken)) };
                self.look_near(search, node, &copy)?;
            }
        }
    }

    fn look_near(
        &self,
        search: &mut Nearest,
        at: NodeRef,
        node: &Checked<RawNode>,
    ) -> Result<(), IndexError> {
        let words: &[u8] = node;
        let head = self.head(at, node)?;
        let looked = search.look(head.level, entries(&words, head.entries));
        looked.map_err(|word| self.damaged(at, format!("a child is {word:#x}")))
    }
}

impl<F> std::fmt::Debug for Reader<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("issue", &self.issue).finish_non_exhaustive()
    }
}
