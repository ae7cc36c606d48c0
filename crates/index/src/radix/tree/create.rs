//! What comes with every radix tree when it is created and opened: its root, its locks, its heap.

use super::find::damaged;
use super::scratch::Notebooks;
use super::{Guide, Options, Tree};
use crate::error::IndexError;
use crate::lifecycle;
use crate::lock::{LocalLocks, LockMemory, LockOptions, LockWidth, NodeLocks, Release};
use crate::memory::heap::{Heap, Kind};
use crate::memory::slot::Room;
use crate::params;
use crate::radix::cache::node_cache::NodeCache;
use crate::radix::inner::{self, Header, RawInner, Size, State};
use crate::radix::leaf::FRONT_BYTES;
use crate::radix::reverse::Reverse;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Capability, Client, Fabric, NodeId, Remote, read, write};

/// Locks of inner nodes; one is handed over within a compute node four times in a row, as Sherman's.
pub(crate) const NODE_LOCKS: LockOptions = LockOptions {
    memory: LockMemory::Host,
    width: LockWidth::Word,
    release: Release::Write,
    local: LocalLocks::Queued { hand_over_max: 4 },
};
/// Locks of leaves.
const LEAF_LOCKS: LockOptions =
    LockOptions { memory: LockMemory::Node, local: LocalLocks::Queued { hand_over_max: 0 }, ..NODE_LOCKS };
/// How readers tell a whole copy of a leaf; inner nodes have a hash of what never changes.
pub const CONSISTENCY: &str = "checksums";
/// What a generation begins with, in a room that nothing lay in.
const GENERATION_FIRST: u32 = 1;

impl<G: Guide> Tree<G> {
    /// The tree of a directory entry whose root is there, with what is its system's own.
    pub(crate) fn new<F: Fabric>(
        client: &Client<F>,
        entry: Entry,
        root: Remote<RawInner>,
        (options, guide): (Options, G),
        cache_bytes: usize,
    ) -> Self {
        let shape = client.fabric().shape();
        let nodes = NodeLocks::new(NODE_LOCKS, shape, 0);
        let leaves = NodeLocks::new(LEAF_LOCKS, shape, 0).sharing_doubts(&nodes);
        Self {
            options,
            number: entry.number as u32,
            root,
            nodes,
            leaves,
            cache: NodeCache::new(cache_bytes),
            notebooks: Notebooks::default(),
            heap: Heap::new(&entry),
            guide,
            sabotage: None,
            entry,
        }
    }

    /// What keys and values mean to whoever created the tree.
    pub fn kinds(&self) -> [u8; 2] {
        params::kinds(&self.entry)
    }

    /// Marks the tree as closed by this compute node, so that others may drop it. Nobody here may use it any more.
    /// [at most 2 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn close<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        lifecycle::mark_closed(client, &self.entry).await
    }

    /// Gives back what this compute node has of the tree's memory and does not use. [1 RT per memory node]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.heap.leave(client).await
    }
}

/// Marks a tree as open by this compute node; yields its root. [4 RT]
///
/// # Errors
/// [`IndexError::NoSuchIndex`], [`IndexError::Unsafe`], [`IndexError::Damaged`].
pub(crate) async fn enter<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
) -> Result<Remote<RawInner>, IndexError> {
    check_capabilities(client)?;
    lifecycle::mark_open(client, entry).await?;
    let Ok(root) = client.post(read(entry.root())).await?.check(&()) else { unreachable!("words are whole") };
    Remote::from_word(root.word())
        .ok_or_else(|| damaged("open", &entry.name, "the root pointer is null".to_owned()))
}

/// Takes room for the root of a new tree, and writes it, with `beside` behind it; yields the word of its pointer.
/// [2 RT and a chunk]
pub(crate) async fn plant<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
    beside: &[u8],
) -> Result<u64, IndexError> {
    let heap = Heap::new(entry);
    let nodes = u64::from(client.fabric().shape().nodes);
    let home = NodeId((entry.number % nodes) as u16);
    let kind = Kind::Inner.rooms(Size::All.bytes() + beside.len());
    let room: Room<RawInner> = heap.allocate(client, home, kind).await?;
    let header = Header::new(State::Live, Size::All, 0, 0, GENERATION_FIRST);
    // The root is linked by nothing but the directory, and by itself.
    let reverse = Reverse::of_inner(room.at, GENERATION_FIRST, 0);
    let mut bytes = inner::image((reverse, header), &[], entry.number as u32, &[]);
    bytes.extend_from_slice(beside);
    client.post(write(room.at, &bytes)).await?;
    heap.leave(client).await?;
    Ok(room.at.word())
}

/// A leaf's reader must see whose WRITEs came before, the front of a WRITE must not end half-way with its writer, and
/// what is written together with a leaf's lock must stay beside those who wait for the lock.
pub(crate) fn check_capabilities<F: Fabric>(client: &Client<F>) -> Result<(), IndexError> {
    let front = Capability::WriteSurvivesWriter(FRONT_BYTES);
    let needs = [Capability::ArrivalSeesWrite, front, Capability::WriteBesideCas];
    match client.fabric().capabilities().missing(&needs) {
        None => Ok(()),
        Some(capability) => Err(IndexError::Unsafe { capability, remedy: "use another fabric" }),
    }
}
