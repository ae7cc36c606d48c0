//! Statistics of pools and indexes.

use crate::attachment::Unseen;
use crate::entry::{EntryLayout, IndexEntry};
use crate::error::{Error, Result};
use crate::pool::Pool;
use farwood_fabric::chunk_limit;
use farwood_fabric::chunks::{self, CHUNK_BYTES};
use farwood_fabric::client_table::{self, AttachedClient, DamagedSlot};
use farwood_fabric::directory::{self, DamagedEntry, TypedEntry};
use farwood_fabric::{ClientId, Fabric as _, NodeId};
use farwood_index::IndexError;
use farwood_index::catfish::ServerStats;
#[cfg(feature = "rdma")]
use farwood_transport::rdma::NodeDevice;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::Pages;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::NodeReport;

/// The state of a pool, from its tables.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolStats {
    /// The memory nodes.
    pub nodes: Vec<NodeStats>,
    /// The clients in its client table.
    pub clients: Vec<ClientStats>,
    /// The damaged slots of its client table. They stay unused, and whether live clients have them is unknown.
    pub damaged_slots: Vec<DamagedSlot>,
    /// The indexes in its directory, by name.
    pub indexes: Vec<IndexUse>,
    /// The damaged entries of its directory: whether they have indexes is unknown.
    pub damaged_entries: Vec<DamagedEntry>,
}

/// One memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStats {
    /// Host memory, bytes.
    pub memory_bytes: u64,
    /// Host memory to which it can grow, bytes.
    pub memory_max_bytes: u64,
    /// Device memory, bytes.
    pub device_bytes: u64,
    /// Resident bytes of host and device memory.
    pub resident_bytes: u64,
    /// The pages, if this process can inspect them.
    pub pages: Option<Pages>,
    /// The report of the memory node, if it is a process.
    #[cfg(feature = "tcp")]
    pub report: Option<NodeReport>,
    /// The NIC that executes its verbs, if there is one.
    #[cfg(feature = "rdma")]
    pub card: Option<NodeDevice>,
    /// Chunks for indexes: all but that of the superblock.
    pub chunks: u64,
    /// Chunks that belong to indexes.
    pub chunks_used: u64,
}

/// A client of a pool: the attachment of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientStats {
    /// The identity of the client.
    pub client: ClientId,
    /// The process id of the client.
    pub process: u64,
    /// Whether it is the attachment that reads these statistics.
    pub is_own: bool,
    /// Whether the process is alive; if not, it has crashed.
    pub alive: bool,
    /// The indexes that the process has open.
    pub open: Vec<String>,
}

/// An index and its use of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexUse {
    /// The directory entry of the index.
    pub entry: IndexEntry,
    /// The number of chunks that the index owns on all memory nodes.
    pub chunks: u64,
    /// The statistics of the server of a spatial index; `None`: no process answers messages.
    pub server: Option<ServerStats>,
}

impl IndexUse {
    /// `entries` has the directory entry of each chunk in use.
    fn new(entry: IndexEntry, entries: &[u8]) -> Self {
        let chunks = entries.iter().map(|&slot| u64::from(slot == entry.slot)).sum();
        Self { entry, chunks, server: None }
    }
}

impl Pool {
    /// Reads the tables of the pool. [about 330 RT, 1 per 128 chunks, and at most 67 per spatial index]
    ///
    /// # Errors
    /// [`Error::Fabric`], [`Error::Pool`].
    pub fn stats(&self) -> Result<PoolStats> {
        let (indexes, damaged_entries) = self.survey()?;
        let (nodes, entries) = self.node_stats()?;
        let table = block_on(client_table::load(&*self.client("examine")?));
        let table = table.map_err(|source| self.fabric_failed("examine", source))?;
        let clients = self.client_stats(table.attached, &indexes)?;
        let mut indexes: Vec<_> = indexes.into_iter().map(|index| IndexUse::new(index, &entries)).collect();
        for index in &mut indexes {
            index.server = self.server_stats(&index.entry)?;
        }
        Ok(PoolStats { nodes, clients, damaged_slots: table.damaged, indexes, damaged_entries })
    }

    /// Lists the indexes by name, and the damaged entries of the directory. [64 RT]
    fn survey(&self) -> Result<(Vec<IndexEntry>, Vec<DamagedEntry>)> {
        let client = self.client("examine")?;
        let failed = |source| self.fabric_failed("examine", source);
        let directory::Survey { entries, damaged } = block_on(directory::survey(&*client)).map_err(failed)?;
        Ok((IndexEntry::by_name(entries), damaged))
    }

    /// Reads the entry of one index without opening it. [at most 64 RT, and 1 per 128 chunks]
    ///
    /// # Errors
    /// [`Error::Index`] if there is none; [`Error::Fabric`], [`Error::Pool`].
    pub fn index_use(&self, name: &str) -> Result<IndexUse> {
        let client = self.client("examine")?;
        let failed = |source| self.fabric_failed("examine", source);
        let found = block_on(directory::find_typed(&*client, name)).map_err(failed)?;
        let Some(TypedEntry { entry, types }) = found else {
            return Err(self.failed("examine", name, IndexError::NoSuchIndex(name.to_owned())));
        };
        let (_, entries) = self.node_stats()?;
        let mut index = IndexUse::new(IndexEntry::of(entry, types), &entries);
        index.server = self.server_stats(&index.entry)?;
        Ok(index)
    }

    /// The statistics of the server of a spatial index. A damaged index has none, and one that was just dropped.
    fn server_stats(&self, index: &IndexEntry) -> Result<Option<ServerStats>> {
        if !matches!(index.layout, Ok(EntryLayout::Spatial(_))) {
            return Ok(None);
        }
        let client = self.client("examine")?;
        let found = block_on(directory::find(&*client, &index.name))
            .map_err(|source| self.fabric_failed("examine", source))?;
        let Some(entry) = found else { return Ok(None) };
        match block_on(ServerStats::read(&client, &entry)) {
            Ok(stats) => Ok(stats),
            Err(IndexError::Fabric(source)) => Err(self.fabric_failed("examine", source)),
            Err(_) => Ok(None),
        }
    }

    /// The memory nodes, and the directory entry of each chunk in use.
    fn node_stats(&self) -> Result<(Vec<NodeStats>, Vec<u8>)> {
        let attachment = self.attached().attachment();
        let failed = |source| self.fabric_failed("examine", source);
        block_on(self.client("examine")?.fabric().find_added_nodes()).map_err(failed)?;
        let shape = attachment.shape();
        let memory = attachment.memory().map_err(|source| self.examined(source))?;
        let (mut nodes, mut entries) = (Vec::new(), Vec::new());
        for (node, memory) in (0..).zip(memory) {
            let client = self.client("examine")?;
            let in_use = block_on(chunks::in_use(&*client, NodeId(node))).map_err(failed)?;
            let memory_bytes = block_on(chunk_limit::memory_bytes(&*client, NodeId(node))).map_err(failed)?;
            nodes.push(NodeStats {
                memory_bytes,
                memory_max_bytes: shape.host_bytes,
                device_bytes: shape.device_bytes,
                resident_bytes: memory.resident_bytes,
                pages: memory.pages,
                #[cfg(feature = "tcp")]
                report: memory.report,
                #[cfg(feature = "rdma")]
                card: memory.card,
                chunks: (memory_bytes / CHUNK_BYTES).saturating_sub(1),
                chunks_used: in_use.len() as u64,
            });
            entries.extend(in_use.iter().map(|chunk| chunk.entry));
        }
        Ok((nodes, entries))
    }

    fn client_stats(
        &self,
        attached_clients: Vec<AttachedClient>,
        indexes: &[IndexEntry],
    ) -> Result<Vec<ClientStats>> {
        let attached = self.attached();
        let open = |bits: u64| {
            let names = indexes.iter().filter(|index| bits >> index.slot & 1 == 1);
            names.map(|index| index.name.clone()).collect()
        };
        let client = |resident: AttachedClient| {
            let is_own = resident.client == attached.attachment().identity();
            let alive = is_own
                || attached.attachment().is_alive(resident.client).map_err(|source| self.examined(source))?;
            Ok(ClientStats {
                client: resident.client,
                process: resident.process,
                is_own,
                alive,
                open: open(resident.open),
            })
        };
        attached_clients.into_iter().map(client).collect()
    }

    fn examined(&self, source: Unseen) -> Error {
        match source {
            Unseen::Shm(source) => Error::Pool { operation: "examine", source },
            #[cfg(feature = "tcp")]
            Unseen::Fabric(source) => self.fabric_failed("examine", source),
        }
    }

    /// Frees the slots of clients whose processes have crashed; returns their number.
    ///
    /// # Errors
    /// [`Error::Fabric`].
    pub fn sweep_clients(&self) -> Result<usize> {
        self.check_writer("sweep")?;
        let stats = self.stats()?;
        let gone = stats.clients.iter().filter(|client| !client.alive);
        let mut swept = 0;
        for client in gone {
            self.revoke(client.client)?;
            swept += 1;
        }
        Ok(swept)
    }

    /// Frees the locks of crashed clients in the lock tables of the pool; returns their number. This is optional: a
    /// client that needs such a lock takes it over. Locks of 16 bits do not name their holder and remain. [at most 70
    /// RT for each index, and 1 RT per 64 KiB of each lock table]
    ///
    /// # Errors
    /// [`Error::Fabric`], [`Error::Index`].
    pub fn sweep_locks(&self) -> Result<u64> {
        self.check_writer("sweep")?;
        let (mut freed, mut swept_options) = (0, Vec::new());
        for index in self.survey()?.0 {
            // The locks of an index that cannot be opened remain.
            let Ok(tree) = self.open_tree(&index.name, Some(0)) else { continue };
            let options = tree.ordered().locks();
            if swept_options.contains(&options) {
                continue;
            }
            swept_options.push(options);
            let swept = block_on(tree.ordered().sweep_locks(&*self.client("sweep")?));
            freed += swept.map_err(|error| self.failed("sweep", &index.name, error))?;
        }
        Ok(freed)
    }

    /// Refuses a process that may only read. [0 RT]
    fn check_writer(&self, operation: &'static str) -> Result<()> {
        let checked = self.client(operation)?.check_write();
        checked.map_err(|source| self.fabric_failed(operation, source))
    }

    fn revoke(&self, client: ClientId) -> Result<()> {
        use farwood_fabric::Fabric as _;
        let revoked = block_on(self.client("sweep")?.fabric().revoke(client));
        revoked.map(|_| ()).map_err(|source| self.fabric_failed("sweep", source))
    }
}
