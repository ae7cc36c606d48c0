//! Reading nodes: a torn copy is read again until it is one version of the node.

use super::Sherman;
use super::layout::LEVEL;
use super::node::{Node, RawNode};
use super::options::Leaves;
use crate::coverage;
use crate::error::IndexError;
use crate::op::Op;
use crate::retry::{Retry, reap_crashed_clients};
use farwood_fabric::{Checked, CpuWork, Fabric, Parallel as _, Remote, Torn, read, read_bytes};

/// Maximum reads of a node that stays torn. With the pauses they take about two seconds, longer than a WRITE of a
/// running client.
pub(super) const TORN_TRIES_MAX: u32 = 2_000;
/// The duration of these reads, milliseconds.
const TORN_WAIT_MS: u64 = 2_000;
/// Reads of a torn node whose lock this client holds, when no other client writes it.
const TORN_TRIES_LOCKED: u32 = 64;
/// Torn reads before the liveness of the writer is checked, and between two checks.
const TRIES_PER_LIVENESS_CHECK: u32 = 40;

/// Damage of a leaf with a torn entry that no client is writing.
pub(super) const HALF_WRITTEN: &str = "an entry is half-written, and no client is writing it";
/// Damage of an entry without a valid link to its value.
pub(super) const NO_LINK: &str = "an entry links no value";

/// A copy of a node as it was read.
pub(super) type NodeCopy<'l> = Node<'l, Checked<RawNode>>;

impl<'a, F: Fabric> Op<'a, F, Sherman> {
    /// Reads the node at `at`. [1 RT, and 1 for each torn copy]
    pub(super) async fn read_node(self, at: Remote<RawNode>) -> Result<NodeCopy<'a>, IndexError> {
        self.read_until_whole(at, Retry::new(self.name, TORN_TRIES_MAX)).await
    }

    /// Reads the node at `at`, whose lock this client holds. [1 RT]
    pub(super) async fn read_locked(self, at: Remote<RawNode>) -> Result<NodeCopy<'a>, IndexError> {
        self.read_until_whole(at, Retry::new(self.name, TORN_TRIES_LOCKED)).await
    }

    /// Reads the nodes at `at` and `other` in one doorbell. [1 RT, and 1 for each torn copy]
    pub(super) async fn read_both(
        self,
        at: Remote<RawNode>,
        other: Remote<RawNode>,
    ) -> Result<(NodeCopy<'a>, NodeCopy<'a>), IndexError> {
        let layout = &self.index.layout;
        let mut retry = Retry::new(self.name, TORN_TRIES_MAX);
        let bytes = layout.node_bytes;
        loop {
            let reads = read_bytes(at, bytes).and(read_bytes(other, bytes));
            let (node, other_node) = self.client.post(reads).await?;
            match (node.check(layout), other_node.check(layout)) {
                (Ok(node), Ok(other_node)) => {
                    return Ok((self.decode(at, node)?, self.decode(other, other_node)?));
                }
                (Err(_), _) => self.wait_for_writer(&mut retry, at).await?,
                (Ok(_), Err(_)) => self.wait_for_writer(&mut retry, other).await?,
            }
        }
    }

    async fn read_until_whole(
        self,
        at: Remote<RawNode>,
        mut retry: Retry,
    ) -> Result<NodeCopy<'a>, IndexError> {
        let layout = &self.index.layout;
        loop {
            let copy = self.client.post(read_bytes(at, layout.node_bytes)).await?;
            if let Ok(copy) = copy.check(layout) {
                return self.decode(at, copy);
            }
            self.hit(coverage::TORN_NODE);
            self.wait_for_writer(&mut retry, at).await?;
        }
    }

    /// Decodes a copy that is one version of the node at `at`.
    #[inline]
    pub(super) fn decode(
        self,
        at: Remote<RawNode>,
        copy: Checked<RawNode>,
    ) -> Result<NodeCopy<'a>, IndexError> {
        Node::decode(&self.index.layout, copy).map_err(|what| self.damaged(at, what))
    }

    /// Finds the entry of `key` in a copy of a leaf, as [`Node::find`] does.
    #[inline]
    pub(super) fn find(self, leaf: &NodeCopy<'_>, key: &[u8]) -> Result<Option<usize>, Torn> {
        self.charge_search();
        leaf.find(key)
    }

    /// Charges the search of a leaf.
    #[inline]
    pub(super) fn charge_search(self) {
        if self.index.layout.leaves == Leaves::TwoLevel {
            self.fabric().charge(CpuWork::UnsortedLeaf);
        }
    }

    /// Reads the root pointer. [1 RT]
    pub(super) async fn root_word(self) -> Result<Remote<RawNode>, IndexError> {
        let root = self.index.entry.root();
        let word = self.client.post(read(root.at())).await?;
        root.open_pointer(word.whole_word())?.ok_or_else(|| {
            self.named("descend").damaged(root.at().part(0), "the root pointer is null".to_owned())
        })
    }

    /// Counts a torn copy of the node at `at` and waits for its writer; revokes the identity of a crashed writer.
    pub(super) async fn wait_for_writer(
        self,
        retry: &mut Retry,
        at: Remote<RawNode>,
    ) -> Result<(), IndexError> {
        self.client.note(|costs| costs.torn += 1);
        if retry.tries() > 0 && retry.tries().is_multiple_of(TRIES_PER_LIVENESS_CHECK) {
            reap_crashed_clients(self.client).await?;
        }
        match retry.again(self.client).await {
            Err(IndexError::Exhausted { operation, tries }) => {
                Err(self.named(operation).stays_torn(at, tries).await?)
            }
            other => other,
        }
    }

    /// The error for a node that stays torn: if a client is stopped in the middle of a WRITE, it holds the node's lock;
    /// otherwise the node is damaged. [1 RT]
    async fn stays_torn(self, at: Remote<RawNode>, tries: u32) -> Result<IndexError, IndexError> {
        let locked = self.on(&self.index.locks).foreign_lock(at, TORN_WAIT_MS).await?;
        let what = || format!("it stays half-written ({tries} reads), and no client is writing it");
        Ok(locked.unwrap_or_else(|| self.damaged(at, what())))
    }

    /// The error for a damaged node at `at`.
    pub(super) fn damaged(self, at: Remote<RawNode>, what: String) -> IndexError {
        IndexError::Damaged { operation: self.name, at: at.to_string(), what }
    }
}

const _: () = assert!(LEVEL == 8, "the check of a copy reads the level before the node is decoded");
