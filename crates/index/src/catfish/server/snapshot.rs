//! The server's own searches: in place, in a snapshot of the tree.

use super::super::SearchSink;
use super::super::tree::draft::StoredNodes;
use super::super::tree::filter::{entries, matching};
use super::super::tree::layout::{Entry, InPlace, NodeRef, entry_of, head_of};
use super::super::tree::nearest::{Near, Nearest};
use super::super::tree::rectangle::{Item, Query};
use super::TreeServer;
use super::worker::Worker;
use crate::error::IndexError;
use farwood_fabric::{Fabric, Server, ServerMemory};

/// Bytes of a node that are prefetched when the search pushes it.
const PREFETCHED_BYTES: u64 = 2048;
/// Initial capacity of the stack of nodes to visit.
const STACK_NODES: usize = 64;

/// The tree of one commit, held: none of its slots is used again while the snapshot exists.
pub(super) struct Snapshot<'t> {
    tree: &'t TreeServer,
    pub(super) root: NodeRef,
    commit: u64,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.tree.state().slots.release(self.commit);
    }
}

/// Reads nodes of a snapshot, and counts them.
pub(super) struct Nodes<'s, L> {
    pub(super) local: &'s L,
    pub(super) visits: std::cell::Cell<u64>,
}

impl<L: ServerMemory> Nodes<'_, L> {
    fn at(&self, node: NodeRef) -> InPlace<'_, L> {
        self.visits.set(self.visits.get() + 1);
        InPlace { local: self.local, offset: node.offset() }
    }
}

impl<L: ServerMemory> StoredNodes for Nodes<'_, L> {
    fn load(&self, node: NodeRef) -> (u8, Vec<Entry>) {
        let node = self.at(node);
        let head = head_of(&node);
        (head.level, entries(&node, head.entries).collect())
    }
}

impl TreeServer {
    /// Holds the current tree.
    fn hold(&self) -> Snapshot<'_> {
        let mut state = self.state();
        let (root, commit) = (state.root, state.commit);
        state.slots.hold(commit);
        Snapshot { tree: self, root, commit }
    }
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Adds the items that match to `found`, of the tree at one moment during the call. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn search(&self, query: &Query, found: &mut impl SearchSink) -> Result<(), IndexError> {
        let snapshot = self.tree.hold();
        let nodes = Nodes { local: self.server.local(), visits: std::cell::Cell::default() };
        let node_bytes = self.tree.layout.node_bytes() as u64;
        let mut stack = Vec::with_capacity(STACK_NODES);
        stack.push(snapshot.root);
        while let Some(at) = stack.pop() {
            let node = nodes.at(at);
            let head = head_of(&node);
            matching(&node, (head.level, head.entries), query, |position| {
                let entry = entry_of(&node, position);
                if head.level == 0 {
                    found.item(Item { bounds: entry.bounds, id: entry.word });
                } else {
                    let child = NodeRef::from_word(entry.word).expect("inner nodes name nodes");
                    nodes.local.fetch_ahead(child.offset(), PREFETCHED_BYTES.min(node_bytes));
                    stack.push(child);
                }
            });
        }
        self.server.compute(nodes.visits.get() * self.tree.settings.visit_ns).await;
        Ok(())
    }

    /// Finds the `count` items nearest to `point`, nearest first, of the tree at one moment during the call. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn nearest(&self, point: [f64; 2], count: usize) -> Result<Vec<Near>, IndexError> {
        let snapshot = self.tree.hold();
        let nodes = Nodes { local: self.server.local(), visits: std::cell::Cell::default() };
        let mut search = Nearest::new(point, count, snapshot.root);
        while let Some(at) = search.next() {
            let node = nodes.at(at);
            let head = head_of(&node);
            let added = search.add_entries(head.level, entries(&node, head.entries));
            added.expect("inner nodes name nodes");
        }
        self.server.compute(nodes.visits.get() * self.tree.settings.visit_ns).await;
        Ok(search.found())
    }
}
