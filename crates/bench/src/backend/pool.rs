//! The pool of a run, and the index in it. The parent process creates and loads them. They are removed even if the run
//! fails or is killed.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};

use farwood_fabric::superblock::DEVICE_BYTES_DEFAULT;
use farwood_fabric::{Client, Fabric};
use farwood_index::drop_index;
use farwood_index::ordered::{Ordered, OrderedConfig};
use farwood_transport::any::{AnyPool, PoolLocation};
use farwood_transport::rdma::{DeviceKind, DeviceSpec, RdmaPool, queue_pairs};
use farwood_transport::runtime::block_on;
use farwood_transport::shm::{Backing, Pages, PoolSpec, SegmentDir, ShmPool, create};
use farwood_transport::tcp::{Credentials, FreshNodePolicy, NodeReport, PoolAddress, TcpPool};
use serde::{Deserialize, Serialize};

use super::memory_nodes::MemoryNodesJob;
use crate::driver::cleanup::{CleanupGuard, CleanupJob};
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::worker::{Job, ParentConnection};
use crate::spec::fabric::{FabricKind, pool_place};
use crate::spec::node_files::NodeFiles;
use crate::spec::ordered::FILL;
use crate::workload::keys::Keys;
use crate::workload::values::fill_value;
use crate::{Error, Result};

/// Entries between two calls of a progress callback.
const PROGRESS_STEP: u64 = 1 << 16;

/// A name that no other run has, even if several PID namespaces share the directory: the process id helps diagnosis,
/// and 64 random bits prevent collisions.
pub(crate) fn unique_name(prefix: &str) -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{prefix}-{}-{random:016x}", std::process::id())
}

/// The source of a run's pool.
pub enum PoolSource {
    /// The run creates the pool.
    New {
        /// Number of memory nodes.
        memory_nodes: u16,
        /// Host memory of each memory node, in bytes.
        host_bytes: u64,
        /// The fabric, shared memory or TCP.
        fabric: FabricKind,
        /// The CPUs of memory nodes that are processes; empty: all.
        cpus: Vec<usize>,
        /// The files of memory nodes over TCP; `None`: their memory is anonymous.
        files: Option<NodeFiles>,
    },
    /// The pool exists.
    Existing(PoolLocation),
}

/// Attaches this process to a pool.
///
/// # Errors
/// The pool does not exist, or refuses the attachment.
pub fn open_pool(place: &PoolLocation) -> Result<AnyPool> {
    Ok(match place {
        PoolLocation::Shm(name) => AnyPool::Shm(ShmPool::open(&SegmentDir::from_env(), name)?),
        PoolLocation::Tcp(address) => AnyPool::Tcp(TcpPool::open(address, Credentials::find(address)?)?),
        PoolLocation::Rdma(address) => {
            let device = DeviceSpec::find(address)?;
            let queue_pairs = queue_pairs(address)?;
            let credentials = Credentials::find(address)?;
            AnyPool::Rdma(RdmaPool::open(
                address,
                credentials,
                &device,
                queue_pairs,
                FreshNodePolicy::FormPool,
            )?)
        }
        PoolLocation::Etcd(etcd) => open_pool(&PoolLocation::Tcp(etcd.discover()?))?,
    })
}

/// An attached pool. Dropping it removes the pool if the run created it, and otherwise only the run's index.
pub struct BenchPool {
    /// The attachment of this process.
    pub pool: AnyPool,
    /// The location of the pool.
    pub place: PoolLocation,
    /// The name of the run's index.
    pub index: String,
    is_new: bool,
    cleanup: Option<CleanupGuard>,
    /// The process that runs the memory nodes of a new pool over TCP. It exits when this process exits or is killed.
    memory_nodes: Option<WorkerProcesses>,
    /// The folder of their files, dropped after them.
    files: Option<TempFolder>,
}

impl BenchPool {
    /// Creates the pool, or attaches to an existing one.
    ///
    /// # Errors
    /// The pool cannot be created or opened, or a process does not start.
    pub fn open(source: &PoolSource, worker: &WorkerCommand) -> Result<BenchPool> {
        let index = unique_name("bench");
        let (mut memory_nodes, mut folder) = (None, None);
        let (place, is_new) = match source {
            PoolSource::New { memory_nodes: nodes, host_bytes, fabric: FabricKind::Tcp, cpus, files } => {
                folder =
                    files.as_ref().map(|files| TempFolder::create(worker, &files.directory)).transpose()?;
                let files = files.as_ref().zip(folder.as_ref());
                let files =
                    files.map(|(files, folder)| (files.durability.to_string(), folder.path().to_owned()));
                let job =
                    MemoryNodesJob { nodes: *nodes, host_bytes: *host_bytes, cpus: cpus.clone(), files };
                let (processes, addresses): (_, Vec<String>) = WorkerProcesses::start_one(worker, &job)?;
                memory_nodes = Some(processes);
                // These memory nodes need no credentials, so those of the environment are not sent to them.
                let nodes: PoolAddress = addresses.join(",").parse()?;
                let access = nodes.access().clone().ignoring_environment();
                (PoolLocation::Tcp(nodes.with_access(access)), true)
            }
            PoolSource::New { .. } => (PoolLocation::Shm(index.parse()?), true),
            PoolSource::Existing(place) => (place.clone(), false),
        };
        let created = StoreCleanup {
            pool: memory_nodes.is_none().then(|| place.to_string()),
            index: (!is_new).then(|| index.clone()),
            folders: Vec::new(),
        };
        if let (PoolSource::New { memory_nodes, host_bytes, .. }, PoolLocation::Shm(name)) = (source, &place)
        {
            let spec = PoolSpec {
                name: name.clone(),
                nodes: *memory_nodes,
                host_bytes: *host_bytes,
                host_bytes_max: None,
                device_bytes: DEVICE_BYTES_DEFAULT,
                backing: Backing::Growable,
                group: None,
                mode: None,
            };
            create(&SegmentDir::from_env(), &spec)?;
        }
        let cleanup = Some(CleanupGuard::start(worker, &created)?);
        let pool = open_pool(&place)?;
        Ok(BenchPool { pool, place, index, is_new, cleanup, memory_nodes, files: folder })
    }

    /// Creates the run's index, and opens it with a cache of `cache_bytes`.
    ///
    /// # Errors
    /// The errors of [`Ordered::create`].
    pub fn create_index(&self, config: OrderedConfig, cache_bytes: usize) -> Result<Ordered> {
        Ok(block_on(Ordered::create(&self.pool.client(), &self.index, config, cache_bytes))?)
    }

    /// The resident bytes of the pool, and the kind of its pages (known only for shared memory).
    ///
    /// # Errors
    /// A memory node does not answer.
    pub fn memory(&self) -> Result<(u64, Option<Pages>)> {
        Ok(match &self.pool {
            AnyPool::Shm(pool) => {
                let memory = pool.memory()?;
                (memory.iter().map(|(_, bytes)| bytes).sum(), memory.first().map(|(pages, _)| *pages))
            }
            AnyPool::Tcp(pool) => (resident(&pool.reports()?), None),
            AnyPool::Rdma(pool) => (resident(&pool.reports()?), None),
        })
    }

    /// The folder of the files of its memory nodes.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.files.as_ref().map(TempFolder::path)
    }

    /// Describes the RDMA device through which this machine reaches the pool, and the memory in which the memory nodes
    /// keep locks.
    pub(crate) fn rdma_device(&self) -> Option<String> {
        let AnyPool::Rdma(pool) = &self.pool else { return None };
        let card = pool.card();
        let soft = if card.kind == DeviceKind::SoftRoce { " (Soft-RoCE)" } else { "" };
        let on_card = pool.cards().iter().all(|node| node.device_on_card);
        let locks = if on_card { "on the NIC" } else { "in host memory" };
        Some(format!("{}{soft}, MTU {}, locks {locks}", card.name, card.mtu_bytes))
    }
}

fn resident(reports: &[NodeReport]) -> u64 {
    reports.iter().map(|report| report.resident_bytes).sum()
}

impl Drop for BenchPool {
    fn drop(&mut self) {
        // The cleanup process tries again if a removal fails here.
        match &self.place {
            PoolLocation::Shm(name) if self.is_new => drop(SegmentDir::from_env().remove(name)),
            // The memory nodes exit after this process has left the pool.
            PoolLocation::Tcp(_) if self.is_new => {
                if let AnyPool::Tcp(pool) = &self.pool {
                    pool.leave();
                }
                self.memory_nodes = None;
            }
            _ => drop(block_on(drop_index(&self.pool.client(), &self.index))),
        }
        self.cleanup = None;
    }
}

/// A folder that is removed on drop.
pub(crate) struct TempFolder {
    path: PathBuf,
    /// Dropped after the folder is removed.
    cleanup: Option<CleanupGuard>,
}

impl TempFolder {
    /// Creates a folder in `directory`.
    pub(crate) fn create(worker: &WorkerCommand, directory: &Path) -> Result<TempFolder> {
        let path = directory.join(unique_name("farwood-bench"));
        let created = StoreCleanup { pool: None, index: None, folders: vec![path.clone()] };
        std::fs::create_dir(&path)
            .map_err(|source| Error::Processes { doing: format!("create {}", path.display()), source })?;
        let cleanup = Some(CleanupGuard::start(worker, &created)?);
        Ok(TempFolder { path, cleanup })
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
        self.cleanup = None;
    }
}

/// The objects that a run creates outside its processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoreCleanup {
    /// The URL of a pool.
    pub(crate) pool: Option<String>,
    /// The name of an index: only the index is dropped, and the pool stays.
    pub(crate) index: Option<String>,
    pub(crate) folders: Vec<PathBuf>,
}

impl Job for StoreCleanup {
    const KIND: &'static str = "cleanup";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        self.run_at_close(parent);
        Ok(())
    }
}

impl CleanupJob for StoreCleanup {
    fn clean_up(&self) {
        let place = self.pool.as_deref().and_then(|url| pool_place(url).ok());
        match (place, &self.index) {
            (Some(place), Some(index)) => {
                if let Ok(pool) = open_pool(&place) {
                    let _ = block_on(drop_index(&pool.client(), index));
                }
            }
            (Some(PoolLocation::Shm(name)), None) => drop(SegmentDir::from_env().remove(&name)),
            // Memory nodes that a run started exit when its processes exit.
            (Some(PoolLocation::Tcp(_) | PoolLocation::Rdma(_) | PoolLocation::Etcd(_)) | None, _) => {}
        }
        for folder in &self.folders {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Loads the keys of the ranks `0..count` into the empty index, with values of version 0. Nodes of a fixed size are
/// filled to 80 %.
///
/// # Errors
/// The errors of [`Ordered::bulk_load`].
pub async fn bulk_load<F: Fabric>(
    client: &Client<F>,
    index: &Ordered,
    (keys, count): (&Keys, u64),
    value_bytes: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let entries = keys.ranks_in_key_order(count).into_iter().map(|rank| {
        let mut value = vec![0; value_bytes];
        fill_value(&mut value, rank, 0);
        (keys.key(rank), value)
    });
    let mut next = 0;
    let notice = |done| {
        if done >= next {
            progress(done, count);
            next = done + PROGRESS_STEP;
        }
    };
    let loaded = index.bulk_load(client, entries, FILL, notice).await?;
    // Returns unused chunks: the compute nodes of the run allocate from chunks that they take.
    index.leave(client).await?;
    if loaded == count {
        return Ok(());
    }
    Err(Error::WrongAnswer(format!("{loaded} of {count} keys were loaded")))
}
