//! The server's own searches: in place, in a tree that is held meanwhile.

use super::draft::Stored;
use super::layout::{Entry, InPlace, NodeRef, entry_of, head_of};
use super::rectangle::{Item, Query};
use super::scan::{entries, matching};
use super::server::TreeServer;
use super::worker::Worker;
use super::{Answer, Near, Nearest};
use crate::error::IndexError;
use farwood_fabric::{Fabric, LocalMemory, Server};

/// Bytes of a node that are asked for when it is known that it will be looked at.
const FETCHED_AHEAD_BYTES: u64 = 2048;
/// Nodes that a search has before it, mostly at most.
const WAY_NODES: usize = 64;

/// The tree of one commit, held: none of its rooms is used again while this lives.
pub(super) struct Snapshot<'t> {
    tree: &'t TreeServer,
    pub(super) root: NodeRef,
    commit: u64,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.tree.state().rooms.let_go(self.commit);
    }
}

/// Reads nodes of a snapshot, and counts them.
pub(super) struct Nodes<'s, L> {
    pub(super) local: &'s L,
    pub(super) visits: std::cell::Cell<u64>,
}

impl<L: LocalMemory> Nodes<'_, L> {
    fn at(&self, node: NodeRef) -> InPlace<'_, L> {
        self.visits.set(self.visits.get() + 1);
        InPlace { local: self.local, offset: node.offset() }
    }
}

impl<L: LocalMemory> Stored for Nodes<'_, L> {
    fn load(&self, node: NodeRef) -> (u8, Vec<Entry>) {
        let node = self.at(node);
        let head = head_of(&node);
        (head.level, entries(&node, head.entries).collect())
    }
}

impl TreeServer {
    /// Holds the tree as it is.
    fn hold(&self) -> Snapshot<'_> {
        let mut state = self.state();
        let (root, commit) = (state.root, state.commit);
        state.rooms.hold(commit);
        Snapshot { tree: self, root, commit }
    }
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Adds to `found` what the query is for, of the tree at one moment during the call. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn search(&self, query: &Query, found: &mut impl Answer) -> Result<(), IndexError> {
        let snapshot = self.tree.hold();
        let nodes = Nodes { local: self.server.local(), visits: std::cell::Cell::default() };
        let node_bytes = self.tree.layout.node_bytes() as u64;
        let mut way = Vec::with_capacity(WAY_NODES);
        way.push(snapshot.root);
        while let Some(at) = way.pop() {
            let node = nodes.at(at);
            let head = head_of(&node);
            matching(&node, (head.level, head.entries), query, |place| {
                let entry = entry_of(&node, place);
                if head.level == 0 {
                    found.item(Item { bounds: entry.bounds, id: entry.word });
                } else {
                    let child = NodeRef::from_word(entry.word).expect("inner nodes name nodes");
                    nodes.local.fetch_ahead(child.offset(), FETCHED_AHEAD_BYTES.min(node_bytes));
                    way.push(child);
                }
            });
        }
        self.server.compute(nodes.visits.get() * self.tree.settings.visit_ns).await;
        Ok(())
    }

    /// The `count` items that are nearest to `point`, nearest first, of the tree at one moment during the call. [0 RT]
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
            let looked = search.look(head.level, entries(&node, head.entries));
            looked.expect("inner nodes name nodes");
        }
        self.server.compute(nodes.visits.get() * self.tree.settings.visit_ns).await;
        Ok(search.found())
    }
}
