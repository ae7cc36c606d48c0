//! Creates and opens radix trees: root, locks and heap.

use super::damage::damaged;
use super::options::{NODE_LOCKS, NodeSizing};
use super::scratch::ScratchPool;
use super::{Policy, RadixTree, TreeOptions};
use crate::error::IndexError;
use crate::lifecycle;
use crate::lock::NodeLocks;
use crate::memory::slot::MemorySlot;
use crate::op::Op;
use crate::params;
use crate::radix::cache::node_cache::NodeCache;
use crate::radix::heap::{Heap, ObjectKind};
use crate::radix::inner::{self, NodeHeader, NodeSize, NodeState, RawInner};
use crate::radix::leaf::FRONT_BYTES;
use crate::radix::reverse::Reverse;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Capability, Client, Fabric, NodeId, Remote, read, write};

/// The scheme by which readers detect a torn copy of a leaf. Inner nodes have a hash of the fields that never change.
pub const CONSISTENCY: &str = "checksums";
/// First generation in unused memory.
const GENERATION_FIRST: u32 = 1;

/// The node cache of a tree with these options.
fn node_cache(options: TreeOptions, number: u32, cache_bytes: usize) -> NodeCache {
    let cache = NodeCache::new(cache_bytes, number).with_policy(options.cache_policy);
    match options.node_sizing {
        NodeSizing::Preallocated => cache.with_whole_nodes(),
        NodeSizing::Fitting | NodeSizing::Typed => cache,
    }
}

impl<P: Policy> RadixTree<P> {
    /// The tree of a directory entry, whose root exists.
    pub(crate) fn new<F: Fabric>(
        client: &Client<F>,
        entry: Entry,
        root: Remote<RawInner>,
        options: TreeOptions,
        policy: P,
        cache_bytes: usize,
    ) -> Self {
        let (shape, number) = (client.fabric().shape(), entry.number as u32);
        let nodes = NodeLocks::new(NODE_LOCKS, shape, 0);
        let leaves = NodeLocks::of_objects(options.leaf_lock.options(), shape, 0).sharing_uncertain(&nodes);
        Self {
            options,
            number,
            root,
            nodes,
            leaves,
            cache: node_cache(options, number, cache_bytes),
            scratch: ScratchPool::default(),
            heap: Heap::new(&entry).with(&options),
            policy,
            mutant: None,
            entry,
        }
    }

    /// Types of keys and values, as the creator of the tree numbered them.
    pub fn kinds(&self) -> [u8; 2] {
        params::kinds(&self.entry)
    }

    /// Marks the tree as closed by this compute node, so that another one may drop it. No client of this compute node
    /// may use the tree afterwards. [at most 2 RT]
    ///
    /// # Errors
    /// The fabric's errors.
    pub async fn close<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        lifecycle::mark_closed(client, &self.entry).await
    }

    /// Completes what this compute node has postponed, and returns the memory that it has allocated for the tree and
    /// does not use. [1 RT per memory node; in Sphinx 2 RT more for each change of a table that was postponed]
    ///
    /// # Errors
    /// The fabric's errors.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.complete_changes(client).await;
        self.heap.leave(client).await
    }

    /// Completes what this compute node has postponed: changes of Sphinx's tables that would have had to wait for a
    /// split. Answers do not depend on them. [0 RT; 2 for each change]
    pub async fn complete_changes<F: Fabric>(&self, client: &Client<F>) {
        P::complete_changes(Op::new(self, client, "complete")).await;
    }
}

/// Marks a tree as open by this compute node; yields its root. [4 RT]
///
/// # Errors
/// [`IndexError::NoSuchIndex`], [`IndexError::Unsafe`], [`IndexError::Damaged`].
pub(crate) async fn open_root<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
) -> Result<Remote<RawInner>, IndexError> {
    check_capabilities(client)?;
    lifecycle::mark_open(client, entry).await?;
    let root = client.post(read(entry.root().at())).await?.whole_word();
    let root = entry.root().open_pointer(root)?;
    root.ok_or_else(|| damaged("open", &entry.name, "the root pointer is null".to_owned()))
}

/// Allocates and writes the root of a new tree, followed by the bytes `after`; yields the pointer to it. [2 RT and
/// a chunk]
pub(crate) async fn create_root<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
    after: &[u8],
) -> Result<Remote<RawInner>, IndexError> {
    let heap = Heap::new(entry);
    let nodes = u64::from(client.fabric().shape().nodes);
    let home = NodeId((entry.number % nodes) as u16);
    let kind = ObjectKind::Inner.slot_kind(NodeSize::All.bytes() + after.len());
    let memory: MemorySlot<RawInner> = heap.allocate(client, home, kind).await?;
    let header = NodeHeader::new(NodeState::Live, NodeSize::All, 0, 0, GENERATION_FIRST);
    // Only the directory links the root; its reverse pointer names the root itself.
    let reverse = Reverse::of_inner(memory.at, GENERATION_FIRST, 0);
    let mut bytes = inner::image(reverse, header, &[], entry.number as u32, &[]);
    bytes.extend_from_slice(after);
    client.post(write(memory.at, &bytes)).await?;
    heap.leave(client).await?;
    Ok(memory.at)
}

/// Checks that the fabric has the capabilities that the tree relies on: a reader of a leaf sees all earlier WRITEs, the
/// front of a WRITE executes completely or not at all if its writer crashes, and a WRITE that includes a lock word does
/// not interfere with the CAS of waiting clients.
pub(crate) fn check_capabilities<F: Fabric>(client: &Client<F>) -> Result<(), IndexError> {
    let front = Capability::WriteSurvivesWriter(FRONT_BYTES);
    let needs = [Capability::ArrivalSeesWrite, front, Capability::WriteBesideCas];
    match client.fabric().capabilities().missing(&needs) {
        None => Ok(()),
        Some(capability) => Err(IndexError::Unsafe { capability, remedy: "use another fabric" }),
    }
}
