//! Creating and opening spatial indexes: the directory entry and its parameters.
//!
//! ```text
//! parameters of a Catfish index in its directory entry (128 bytes, little endian)
//! + 0  2  blocks of a node, 1 to 64       + 2  2  the memory node that has the tree
//! + 4  4  bytes of a ring of messages, in one direction
//! + 8  1  coordinates: 0 not stated, 1 planar, 2 degrees
//! + 9  1  ids: 0 numbers that may repeat, 1 unique numbers, 2 unique texts
//! +10     zero
//! ```
//!
//! The entry's root word points to the [head](super::head), and never changes.

use super::Catfish;
use super::coordinates::CoordinateSystem;
use super::head::{HEAD_BYTES, INDEX, PORT, ROOTS, RawHead, first_slot, word_of};
use super::records::page::{BLOCKS_LEAST, page_image};
use super::records::{IdKind, RECORD_RING_BYTES_LEAST};
use super::server::lease::ServerLease;
use super::server::{ServerSettings, TreeServer};
use super::tree::layout::{
    BLOCKS_DEFAULT, BLOCKS_MAX, FORMAT, Layout, NodeRef, RING_BYTES, RING_BYTES_DEFAULT, Scheme, image,
};
use crate::error::IndexError;
use crate::lifecycle;
use crate::params::{self, Codec, Parameters};
use farwood_fabric::chunk_limit;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, ChunkOwner, TakenChunk};
use farwood_fabric::directory::Entry;
use farwood_fabric::{Capability, Chain as _, Client, ClientId, Fabric, NodeId, Remote, Server, read, write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The kind of Catfish indexes in the directory.
pub const KIND: u32 = params::KIND_CATFISH;

/// The configuration of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatfishConfig {
    /// Blocks of a node, of 7 entries and 320 bytes each.
    pub blocks: usize,
    /// The memory node of the tree, whose server may change it.
    pub node: NodeId,
    /// Bytes of a ring of messages, in one direction.
    pub ring_bytes: u64,
    /// The ids, and whether the index has records.
    pub ids: IdKind,
    /// The meaning of the coordinates.
    pub coordinates: CoordinateSystem,
}

impl Default for CatfishConfig {
    /// Nodes of 42 entries on memory node 0; the coordinates are not stated.
    fn default() -> Self {
        Self {
            blocks: BLOCKS_DEFAULT,
            node: NodeId(0),
            ring_bytes: RING_BYTES_DEFAULT,
            ids: IdKind::default(),
            coordinates: CoordinateSystem::Unstated,
        }
    }
}

impl CatfishConfig {
    fn sizes(&self) -> Layout {
        let &Self { blocks, node, ring_bytes, .. } = self;
        Layout { blocks, node, index: 0, scheme: Scheme::Pair, ring_bytes }
    }

    /// The same configuration with the largest nodes of at most `bytes` bytes.
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] for less than 384 or more than 20,544 bytes.
    pub fn with_node_bytes(self, bytes: usize) -> Result<Self, IndexError> {
        let sized = |blocks| Self { blocks, ..self };
        let (least, most) = (sized(1).node_bytes(), sized(BLOCKS_MAX).node_bytes());
        if !(least..=most).contains(&bytes) {
            return Err(IndexError::BadSizes(format!("nodes of {bytes} bytes; give {least} to {most}")));
        }
        let blocks = (1..=BLOCKS_MAX).rev().find(|blocks| sized(*blocks).node_bytes() <= bytes);
        Ok(sized(blocks.unwrap_or(1)))
    }

    /// Checks the sizes, as [`Catfish::create`] does, without a pool.
    ///
    /// # Errors
    /// [`IndexError::BadSizes`].
    pub fn check(&self) -> Result<(), IndexError> {
        if !(1..=BLOCKS_MAX).contains(&self.blocks) {
            let blocks = self.blocks;
            return Err(IndexError::BadSizes(format!(
                "nodes have 1 to {BLOCKS_MAX} blocks of 7 entries, not {blocks}"
            )));
        }
        if self.ids.is_unique() && self.blocks < BLOCKS_LEAST {
            let least = Self { blocks: BLOCKS_LEAST, ..*self }.node_bytes();
            return Err(IndexError::BadSizes(format!(
                "an index of unique ids has nodes of at least {least} bytes, not {}",
                self.node_bytes()
            )));
        }
        if self.ids.is_unique() && self.ring_bytes < RECORD_RING_BYTES_LEAST {
            return Err(IndexError::BadSizes(format!(
                "an index of unique ids has rings of at least {RECORD_RING_BYTES_LEAST} bytes, not {}",
                self.ring_bytes
            )));
        }
        if !is_ring(self.ring_bytes) {
            let (least, most, bytes) = (RING_BYTES.start(), RING_BYTES.end(), self.ring_bytes);
            return Err(IndexError::BadSizes(format!(
                "rings have {least} to {most} bytes, a multiple of 64, not {bytes}"
            )));
        }
        Ok(())
    }

    /// Bytes of a node.
    pub fn node_bytes(&self) -> usize {
        self.sizes().node_bytes()
    }

    /// Entries that a node holds.
    pub fn entries_max(&self) -> usize {
        self.sizes().entries_max()
    }
}

/// Reads a directory entry as that of a spatial index. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] if the entry does not describe a spatial index of this version.
pub fn describe(entry: &Entry) -> Result<CatfishConfig, IndexError> {
    params::decode(entry)
}

impl Parameters for CatfishConfig {
    const KIND: u32 = KIND;
    const FORMAT: u32 = FORMAT;
    const NAME: &'static str = "a spatial index";

    fn fields(&mut self, codec: &mut Codec) {
        let (mut node, mut ring_bytes) = (usize::from(self.node.0), self.ring_bytes as usize);
        codec.u16(0, &mut self.blocks, 1..=BLOCKS_MAX);
        codec.u16(2, &mut node, 0..=usize::from(u16::MAX));
        codec.u32(4, &mut ring_bytes, *RING_BYTES.start() as usize..=*RING_BYTES.end() as usize);
        codec.choice(8, &mut self.coordinates, CoordinateSystem::ALL);
        codec.choice(9, &mut self.ids, IdKind::ALL);
        if self.ids.is_unique()
            && (self.blocks < BLOCKS_LEAST || ring_bytes < RECORD_RING_BYTES_LEAST as usize)
        {
            codec.refuse(format!(
                "records in nodes of {} blocks and rings of {ring_bytes} bytes",
                self.blocks
            ));
        }
        (self.node, self.ring_bytes) = (NodeId(node as u16), ring_bytes as u64);
        if !is_ring(self.ring_bytes) {
            codec.refuse(format!("rings of {ring_bytes} bytes"));
        }
    }
}

/// Reads the pointer to the head of an index. [1 RT]
pub(super) async fn find_head<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
    layout: &Layout,
) -> Result<Remote<RawHead>, IndexError> {
    let word = client.post(read(entry.root().at())).await?.whole_word();
    let head = entry.root().open_pointer(word)?;
    head.filter(|head| begins_chunk(client, layout, *head)).ok_or_else(|| {
        let head = head.map_or_else(|| "0".to_owned(), |head| head.to_string());
        let what = format!("{head} is not the first byte of a chunk of memory node {}", layout.node);
        IndexError::Damaged { operation: "open", at: entry.root().at().to_string(), what }
    })
}

impl Catfish {
    /// Creates the index `name`, empty, and opens it.
    ///
    /// # Errors
    /// [`IndexError::IndexExists`], [`IndexError::BadName`], [`IndexError::BadSizes`], [`IndexError::Unsafe`]; a full
    /// pool or directory.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: CatfishConfig,
    ) -> Result<Self, IndexError> {
        client.fabric().find_added_nodes().await?;
        check_config(client, config)?;
        let new = params::new_entry(name, &config);
        let entry = lifecycle::create(client, &new, async |entry| {
            let layout = layout_of(client, config, entry.number)?;
            write_empty_tree(client, entry, &layout, config.ids).await
        })
        .await?;
        Self::assemble(client, entry).await
    }

    /// Opens the index `name`.
    ///
    /// # Errors
    /// [`IndexError::NoSuchIndex`], [`IndexError::WrongFormat`], [`IndexError::Unsafe`].
    pub async fn open<F: Fabric>(client: &Client<F>, name: &str) -> Result<Self, IndexError> {
        let entry = lifecycle::find(client, name).await?;
        Self::assemble(client, entry).await
    }

    async fn assemble<F: Fabric>(client: &Client<F>, entry: Entry) -> Result<Self, IndexError> {
        let config = describe(&entry)?;
        let layout = layout_of(client, config, entry.number)?;
        lifecycle::mark_open(client, &entry).await?;
        let head = find_head(client, &entry, &layout).await?;
        let lease = Arc::new(ServerLease::new(head));
        let (root, ids) = (AtomicU64::new(0), config.ids);
        Ok(Self { layout, ids, head, entry, lease, root, verifies_hashes: true, mutant: None })
    }

    /// Serves the index: this compute node alone changes it, in the memory of its memory node.
    /// [3 RT, and 1 for each 128 chunks; reads each node in place]
    ///
    /// # Errors
    /// [`IndexError::Served`] where a live compute node serves it; [`IndexError::Damaged`]; the errors of the fabric.
    pub async fn serve<F: Fabric, S: Server>(
        &self,
        client: &Client<F>,
        server: &S,
        settings: ServerSettings,
    ) -> Result<TreeServer, IndexError> {
        let at = ((self.layout, self.ids), self.head, self.entry.slot);
        TreeServer::claim(client, server, at, &self.lease, settings).await
    }

    /// The compute node that serves the index; it may have crashed. [1 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn served_by<F: Fabric>(&self, client: &Client<F>) -> Result<Option<ClientId>, IndexError> {
        self.lease.holder(client).await
    }

    /// The port at which the server listens for requests over an ordinary socket, on the machine of its memory node.
    /// [2 RT]
    ///
    /// # Errors
    /// [`IndexError::NotServed`]: there is no server, or it does not listen; the errors of the fabric.
    pub async fn port<F: Fabric>(&self, client: &Client<F>) -> Result<u16, IndexError> {
        let not_served = || IndexError::NotServed { name: self.entry.name.clone() };
        self.lease.holder(client).await?.ok_or_else(not_served)?;
        let port = client.post(read(word_of(self.head, PORT))).await?;
        u16::try_from(port.whole_word()).ok().filter(|port| *port != 0).ok_or_else(not_served)
    }

    /// Marks the index as closed by this compute node, so that others may drop it. [at most 2 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn close<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        lifecycle::mark_closed(client, &self.entry).await
    }
}

/// Whether an address can be that of a head: the first byte of a chunk of the index's memory node.
fn begins_chunk<F: Fabric>(client: &Client<F>, layout: &Layout, head: Remote<RawHead>) -> bool {
    let chunk = Chunk { node: layout.node, number: head.address().offset() / CHUNK_BYTES };
    let exists = (1..client.fabric().shape().chunks()).contains(&chunk.number);
    exists && chunk.start().address() == head.address()
}

/// Takes the first chunk of an index, and writes a head and an empty root there.
async fn write_empty_tree<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
    layout: &Layout,
    ids: IdKind,
) -> Result<Remote<RawHead>, IndexError> {
    let owner = ChunkOwner { client: client.fabric().identity(), entry: entry.slot };
    let taken = chunks::take(client, layout.node, owner, CHUNK_BYTES).await?;
    let Some(TakenChunk { chunk, .. }) = taken else {
        return Err(chunk_limit::pool_full(client, [layout.node]).await.into());
    };
    let head: Remote<RawHead> = chunk.start().part(0);
    let bytes_of = |words: Vec<u64>| words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>();
    let slot = first_slot(head);
    let root = NodeRef::new(slot.address().offset(), 1);
    let mut nodes = bytes_of(image(layout, root, 0, &[]));
    let mut words = vec![0; HEAD_BYTES as usize];
    let mut set = |offset: u64, word: u64| words[offset as usize..][..8].copy_from_slice(&word.to_le_bytes());
    set(0, root.word());
    set(INDEX, entry.number);
    if ids.is_unique() {
        let records = NodeRef::new(root.offset() + layout.node_bytes() as u64, 1);
        nodes.extend(bytes_of(page_image(layout, records, &[])));
        for (at, word) in [root, records, root].into_iter().enumerate() {
            set(ROOTS[0] + 8 * at as u64, word.word());
        }
    }
    client.post(write(slot, &nodes).then(write(head, &words))).await?;
    Ok(head)
}

fn is_ring(bytes: u64) -> bool {
    RING_BYTES.contains(&bytes) && bytes.is_multiple_of(64)
}

fn check_config<F: Fabric>(client: &Client<F>, config: CatfishConfig) -> Result<(), IndexError> {
    config.check()?;
    let shape = client.fabric().shape();
    if config.node.0 >= shape.nodes {
        let nodes = shape.nodes;
        let node = config.node;
        return Err(IndexError::BadSizes(format!("the pool has {nodes} memory nodes; there is no {node}")));
    }
    layout_of(client, config, 0).map(|_| ())
}

pub(super) fn layout_of<F: Fabric>(
    client: &Client<F>,
    config: CatfishConfig,
    index: u64,
) -> Result<Layout, IndexError> {
    let missing = |capability| IndexError::Unsafe {
        capability,
        remedy: "create the index with smaller nodes (--node-bytes)",
    };
    let capabilities = client.fabric().capabilities();
    let CatfishConfig { blocks, node, ring_bytes, .. } = config;
    let sizes = Layout { blocks, node, index, scheme: Scheme::Pair, ring_bytes };
    let scheme = Scheme::choose(capabilities, sizes.node_bytes()).map_err(missing)?;
    if let Some(capability) = capabilities.missing(&[Capability::ArrivalSeesWrite, Capability::WriteUpward]) {
        return Err(missing(capability));
    }
    Ok(Layout { scheme, ..sizes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::tests::check_codec;

    #[test]
    fn parameters_are_read_back_and_unknown_values_are_refused() {
        let config = CatfishConfig {
            blocks: 64,
            node: NodeId(259),
            ring_bytes: 4096,
            coordinates: CoordinateSystem::Degrees,
            ids: IdKind::Text,
        };
        assert_eq!(params::encode(&config)[..11], [64, 0, 3, 1, 0, 16, 0, 0, 2, 2, 0]);
        check_codec(&config, &[(0, 0), (0, 65), (4, 1), (5, 0), (7, 1), (8, 3), (9, 3)]);
        assert_eq!(
            params::encode(&CatfishConfig::default())[8..10],
            [0, 0],
            "indexes without the fields do not state them"
        );
    }
}
