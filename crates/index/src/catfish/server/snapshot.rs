//! The server's own searches: in place, in a snapshot of the tree.

use super::super::SearchSink;
use super::super::tree::draft::StoredNodes;
use super::super::tree::filter::{entries, matching};
use super::super::tree::layout::{
    Entry, Head, InPlace, LINE_BYTES, Layout, NodeRef, NodeWords, damage_of, entry_of, head_of,
};
use super::super::tree::nearest::{Near, Nearest};
use super::super::tree::rectangle::{Item, Query};
use super::worker::Worker;
use super::{TreeServer, damaged};
use crate::error::IndexError;
use farwood_fabric::{Fabric, MemoryWork, Server, ServerMemory};

/// Bytes of a node that are prefetched when the search pushes it.
const PREFETCHED_BYTES: u64 = 2048;
/// Initial capacity of the stack of nodes to visit.
const STACK_NODES: usize = 64;

/// The tree of one commit, held: none of its slots is used again while the snapshot exists.
pub(super) struct Snapshot<'t> {
    tree: &'t TreeServer,
    pub(super) root: NodeRef,
    /// The root of the tree by id.
    pub(super) records: Option<NodeRef>,
    commit: u64,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.tree.state().slots.release(self.commit);
    }
}

/// A copy of a node, by lines.
type CopiedLines = Vec<[u8; LINE_BYTES]>;

/// Reads nodes of a snapshot, and counts them. Memory can be damaged, so each node is checked on each visit.
pub(super) struct Nodes<'s, L> {
    pub(super) local: &'s L,
    pub(super) layout: Layout,
    pub(super) visits: std::cell::Cell<u64>,
}

impl<'s, L: ServerMemory> Nodes<'s, L> {
    pub(super) fn new(local: &'s L, layout: &Layout) -> Self {
        Self { local, layout: *layout, visits: std::cell::Cell::default() }
    }

    pub(super) fn damaged(&self, node: NodeRef, what: String) -> IndexError {
        damaged(self.layout.at(node), what)
    }

    /// The node that `node` names, `below` a node of that level, and its head.
    pub(super) fn at(&self, node: NodeRef, below: Option<u8>) -> Result<(InPlace<'s, L>, Head), IndexError> {
        self.visits.set(self.visits.get() + 1);
        let (local, offset) = (self.local, node.offset());
        // A node whose last word lies in the memory node lies there as a whole.
        let last = local.load(offset + self.layout.node_bytes() as u64 - 8)?;
        let first = local.load(offset)?;
        if first != node.version() || last != node.version() {
            let what = format!("versions {first:#x} and {last:#x}, not those of {node}");
            return Err(self.damaged(node, what));
        }
        let node_words = InPlace { local, offset };
        let head = head_of(&node_words);
        match head.contradiction(&self.layout, below) {
            None => Ok((node_words, head)),
            Some(what) => Err(self.damaged(node, what)),
        }
    }

    /// As [`at`](Self::at); yields a copy of the node, whose hash is not checked.
    pub(super) fn copied(&self, node: NodeRef, below: Option<u8>) -> Result<Vec<u8>, IndexError> {
        let (words, _) = self.at(node, below)?;
        let mut copy = CopiedLines::default();
        self.copy_to(&mut copy, &words)?;
        Ok(copy.into_flattened())
    }

    fn copy_to(&self, copy: &mut CopiedLines, words: &InPlace<'s, L>) -> Result<(), IndexError> {
        copy.resize(self.layout.node_bytes() / LINE_BYTES, [0; LINE_BYTES]);
        Ok(self.local.load_lines(words.offset, copy)?)
    }

    /// As [`at`](Self::at), and checks the hash of the node; yields a copy of it.
    pub(super) fn verified(&self, node: NodeRef, below: Option<u8>) -> Result<(Vec<u8>, Head), IndexError> {
        let (words, head) = self.at(node, below)?;
        let mut copy = CopiedLines::default();
        self.verify_copy(node, &words, &mut copy)?;
        Ok((copy.into_flattened(), head))
    }

    /// Copies a node, and checks the hash of the copy.
    fn verify_copy(
        &self,
        node: NodeRef,
        words: &InPlace<'s, L>,
        copy: &mut CopiedLines,
    ) -> Result<(), IndexError> {
        self.copy_to(copy, words)?;
        damage_of(copy.as_flattened()).map_or(Ok(()), |what| Err(self.damaged(node, what)))
    }

    /// The reference in the entry at `position` of the inner node `parent`.
    pub(super) fn child(&self, parent: NodeRef, position: usize, word: u64) -> Result<NodeRef, IndexError> {
        NodeRef::from_word(word).ok_or_else(|| self.damaged(parent, format!("child {position} is {word:#x}")))
    }
}

/// Nodes that a search will visit, each with the level of its parent.
type ToVisit = Vec<(NodeRef, Option<u8>)>;

impl<L: ServerMemory> Nodes<'_, L> {
    /// One step of a search: the items of a leaf that match, or the children of an inner node that may contain one.
    #[inline]
    fn search_node(
        &self,
        words: &impl NodeWords,
        (at, head): (NodeRef, Head),
        query: &Query,
        found: &mut impl SearchSink,
        to_visit: &mut ToVisit,
    ) -> Result<(), IndexError> {
        let prefetched = PREFETCHED_BYTES.min(self.layout.node_bytes() as u64);
        let mut damage = None;
        matching(words, (head.level, head.entries), query, |position| {
            let entry = entry_of(words, position);
            if head.level == 0 {
                found.item(Item { bounds: entry.bounds, id: entry.word });
                return;
            }
            match self.child(at, position, entry.word) {
                Ok(child) => {
                    self.local.fetch_ahead(child.offset(), prefetched);
                    to_visit.push((child, Some(head.level)));
                }
                Err(error) => damage = Some(error),
            }
        });
        damage.map_or(Ok(()), Err)
    }
}

impl<L: ServerMemory> StoredNodes for Nodes<'_, L> {
    fn load(&self, word: u64, below: Option<u8>) -> Result<(NodeRef, u8, Vec<Entry>), IndexError> {
        let Some(node) = NodeRef::from_word(word) else {
            return Err(IndexError::Damaged {
                operation: "serve",
                at: format!("memory node {}", self.layout.node),
                what: format!("a reference is {word:#x}"),
            });
        };
        let (bytes, head) = self.verified(node, below)?;
        let entries: Vec<_> = entries(&bytes.as_slice(), head.entries).collect();
        if head.level > 0 {
            for (position, entry) in entries.iter().enumerate() {
                self.child(node, position, entry.word)?;
            }
        }
        Ok((node, head.level, entries))
    }
}

impl TreeServer {
    /// Holds the current tree.
    pub(super) fn hold(&self) -> Snapshot<'_> {
        let mut state = self.state();
        let (root, records, commit) = (state.root, state.records, state.commit);
        state.slots.hold(commit);
        Snapshot { tree: self, root, records, commit }
    }
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Adds the items that match to `found`. They are those of one version of the tree, which was current at some
    /// moment during the call. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::Damaged`]; the errors of the fabric.
    pub async fn search(&self, query: &Query, found: &mut impl SearchSink) -> Result<(), IndexError> {
        self.search_in(&self.tree.hold(), query, found).await
    }

    /// As [`search`](Self::search), in a snapshot.
    pub(super) async fn search_in(
        &self,
        snapshot: &Snapshot<'_>,
        query: &Query,
        found: &mut impl SearchSink,
    ) -> Result<(), IndexError> {
        let visits = self.server.local().execute(TreeSearch { snapshot, query, found })?;
        self.server.compute(visits * self.tree.settings.visit_ns).await;
        Ok(())
    }

    /// Finds the `count` items nearest to `point`, nearest first, in one version of the tree, which was current at some
    /// moment during the call. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::Damaged`]; the errors of the fabric.
    pub async fn nearest(&self, point: [f64; 2], count: usize) -> Result<Vec<Near>, IndexError> {
        self.nearest_in(&self.tree.hold(), point, count).await
    }

    /// As [`nearest`](Self::nearest), in a snapshot.
    pub(super) async fn nearest_in(
        &self,
        snapshot: &Snapshot<'_>,
        point: [f64; 2],
        count: usize,
    ) -> Result<Vec<Near>, IndexError> {
        let search = TreeNearest { snapshot, point, count };
        let (found, visits) = self.server.local().execute(search)?;
        self.server.compute(visits * self.tree.settings.visit_ns).await;
        Ok(found)
    }
}

/// A search in a snapshot; its result is the number of nodes that it visits.
struct TreeSearch<'s, 't, S> {
    snapshot: &'s Snapshot<'t>,
    query: &'s Query,
    found: &'s mut S,
}

impl<S: SearchSink> MemoryWork for TreeSearch<'_, '_, S> {
    type Done = Result<u64, IndexError>;

    fn run<M: ServerMemory>(self, memory: &M) -> Self::Done {
        let nodes = Nodes::new(memory, &self.snapshot.tree.layout);
        let mut copy = CopiedLines::default();
        let mut stack = Vec::with_capacity(STACK_NODES);
        stack.push((self.snapshot.root, None));
        while let Some((at, below)) = stack.pop() {
            let (words, head) = nodes.at(at, below)?;
            if self.snapshot.tree.settings.verifies_searches {
                nodes.verify_copy(at, &words, &mut copy)?;
                nodes.search_node(&copy.as_flattened(), (at, head), self.query, self.found, &mut stack)?;
            } else {
                nodes.search_node(&words, (at, head), self.query, self.found, &mut stack)?;
            }
        }
        Ok(nodes.visits.get())
    }
}

/// A search for the nearest items in a snapshot; its result is the items, and the number of nodes that it visits.
struct TreeNearest<'s, 't> {
    snapshot: &'s Snapshot<'t>,
    point: [f64; 2],
    count: usize,
}

impl MemoryWork for TreeNearest<'_, '_> {
    type Done = Result<(Vec<Near>, u64), IndexError>;

    fn run<M: ServerMemory>(self, memory: &M) -> Self::Done {
        let nodes = Nodes::new(memory, &self.snapshot.tree.layout);
        let mut copy = CopiedLines::default();
        let mut search = Nearest::new(self.point, self.count, self.snapshot.root);
        while let Some((at, below)) = search.next() {
            let (words, head) = nodes.at(at, below)?;
            let added = if self.snapshot.tree.settings.verifies_searches {
                nodes.verify_copy(at, &words, &mut copy)?;
                search.add_entries(head.level, entries(&copy.as_flattened(), head.entries))
            } else {
                search.add_entries(head.level, entries(&words, head.entries))
            };
            added.map_err(|word| nodes.damaged(at, format!("a child is {word:#x}")))?;
        }
        Ok((search.found(), nodes.visits.get()))
    }
}
