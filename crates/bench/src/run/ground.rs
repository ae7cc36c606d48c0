//! The ground of a run: a pool with an index in it, made, filled and removed by the parent.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
#[cfg(feature = "peers")]
use std::path::{Path, PathBuf};

use farwood_fabric::superblock::DEVICE_BYTES_DEFAULT;
use farwood_fabric::{Client, Fabric};
use farwood_index::drop_index;
use farwood_index::ordered::{Config, Ordered};
use farwood_transport::any::{AnyPool, Place};
use farwood_transport::rdma::{CardKind, DeviceSpec, RdmaPool, queue_pairs};
use farwood_transport::runtime::block_on;
use farwood_transport::shm::{Backing, Pages, PoolSpec, SegmentDir, ShmError, ShmPool, create};
use farwood_transport::tcp::{Credentials, Fresh, NodeReport, TcpError, TcpPool};

use super::crew::{Crew, Janitor, WorkerCommand};
use super::protocol::Litter;
use super::servers::{MemoryJob, start_memory};
use super::spec::{FILL, FabricKind};
use crate::keys::Keys;
use crate::values::fill_value;
use crate::{Error, Result};

/// How many entries pass between two calls of a progress callback.
const PROGRESS_STEP: u64 = 1 << 16;

/// A name that no other run has, also where several PID namespaces share the directory: the process number is for
/// people, and 64 random bits are against collisions.
pub(crate) fn unique(prefix: &str) -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{prefix}-{}-{random:016x}", std::process::id())
}

/// Where a run's pool comes from.
pub(crate) enum Site {
    /// It is made for the run.
    Own {
        /// How many memory nodes.
        memory_nodes: u16,
        /// The host memory of each, in bytes.
        host_bytes: u64,
        /// Over what.
        fabric: FabricKind,
        /// The processors of memory nodes that are processes; none: all.
        cpus: Vec<usize>,
    },
    /// It is there.
    Existing(Place),
}

/// Attaches this process to a pool.
pub(crate) fn open(place: &Place) -> Result<AnyPool> {
    Ok(match place {
        Place::Shm(name) => AnyPool::Shm(ShmPool::open(&SegmentDir::from_env(), name)?),
        Place::Tcp(address) => AnyPool::Tcp(TcpPool::open(address, Credentials::find(address)?)?),
        Place::Rdma(address) => {
            let device = DeviceSpec::find(address)?;
            let queue_pairs = queue_pairs(address)?;
            let credentials = Credentials::find(address)?;
            AnyPool::Rdma(RdmaPool::open(address, credentials, &device, queue_pairs, Fresh::Forms)?)
        }
        Place::Etcd(etcd) => open(&Place::Tcp(etcd.discover()?))?,
    })
}

/// An attached pool, which goes when the ground is dropped if it was made for the run.
pub(crate) struct Ground {
    pub(crate) pool: AnyPool,
    pub(crate) place: Place,
    /// The name of the run's index.
    pub(crate) index: String,
    /// Budget of each compute node's index cache, in bytes.
    pub(crate) cache_bytes: usize,
    is_own: bool,
    janitor: Option<Janitor>,
    /// The process of the memory nodes of a pool of its own over TCP. It ends with this one, however this ends.
    nodes: Option<Crew>,
}

impl Ground {
    /// Makes or finds the pool.
    pub(crate) fn prepare(site: &Site, worker: &WorkerCommand) -> Result<Ground> {
        let index = unique("bench");
        let mut nodes = None;
        let (place, is_own) = match site {
            Site::Own { memory_nodes, host_bytes, fabric: FabricKind::Tcp, cpus } => {
                let (nodes_max, cpus) = (*memory_nodes, cpus.clone());
                let job = MemoryJob { nodes: nodes_max, host_bytes: *host_bytes, cpus };
                let (crew, at) = start_memory(worker, job)?;
                nodes = Some(crew);
                // They ask for nothing, whatever the environment has for others.
                (Place::Tcp(format!("{}?environment=no", at.join(",")).parse()?), true)
            }
            Site::Own { .. } => (Place::Shm(index.parse()?), true),
            Site::Existing(place) => (place.clone(), false),
        };
        let litter = Litter {
            pool: nodes.is_none().then(|| place.to_string()),
            index: (!is_own).then(|| index.clone()),
            folders: Vec::new(),
        };
        if let (Site::Own { memory_nodes, host_bytes, .. }, Place::Shm(name)) = (site, &place) {
            let spec = PoolSpec {
                name: name.clone(),
                nodes: *memory_nodes,
                host_bytes: *host_bytes,
                device_bytes: DEVICE_BYTES_DEFAULT,
                backing: Backing::Growable,
            };
            create(&SegmentDir::from_env(), &spec)?;
        }
        let janitor = Some(Janitor::start(worker, litter)?);
        let pool = open(&place)?;
        Ok(Ground { pool, place, index, cache_bytes: 0, is_own, janitor, nodes })
    }

    /// Creates the run's index, for compute nodes with caches of that many bytes.
    pub(crate) fn create_index(&mut self, config: Config, cache_bytes: usize) -> Result<Ordered> {
        self.cache_bytes = cache_bytes;
        Ok(block_on(Ordered::create(&self.pool.client(), &self.index, config, cache_bytes))?)
    }

    /// Bytes of the pool that have pages, and which pages.
    pub(crate) fn memory(&self) -> Result<(u64, Option<Pages>)> {
        Ok(match &self.pool {
            AnyPool::Shm(pool) => {
                let memory = pool.memory()?;
                (memory.iter().map(|(_, bytes)| bytes).sum(), memory.first().map(|(pages, _)| *pages))
            }
            AnyPool::Tcp(pool) => (resident(&pool.reports()?), None),
            AnyPool::Rdma(pool) => (resident(&pool.reports()?), None),
        })
    }

    /// The card of this machine that reaches the pool, and where the memory nodes keep locks.
    pub(crate) fn card(&self) -> Option<String> {
        let AnyPool::Rdma(pool) = &self.pool else { return None };
        let card = pool.card();
        let soft = if card.kind == CardKind::SoftRoce { " (Soft-RoCE)" } else { "" };
        let on_card = pool.cards().iter().all(|node| node.device_on_card);
        let locks = if on_card { "on the card" } else { "in host memory" };
        Some(format!("{}{soft}, MTU {}, device memory {locks}", card.name, card.mtu_bytes))
    }
}

fn resident(reports: &[NodeReport]) -> u64 {
    reports.iter().map(|report| report.resident_bytes).sum()
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What fails here is tried again by the janitor.
        match &self.place {
            Place::Shm(name) if self.is_own => drop(SegmentDir::from_env().remove(name)),
            // Its memory nodes go when it has left.
            Place::Tcp(_) if self.is_own => {
                if let AnyPool::Tcp(pool) = &self.pool {
                    pool.leave();
                }
                self.nodes = None;
            }
            _ => drop(block_on(drop_index(&self.pool.client(), &self.index))),
        }
        self.janitor = None;
    }
}

/// A folder in memory, which goes when it is dropped.
#[cfg(feature = "peers")]
pub(crate) struct Folder {
    path: PathBuf,
    /// Goes after the folder.
    janitor: Option<Janitor>,
}

#[cfg(feature = "peers")]
impl Folder {
    /// Makes one beside the pools.
    pub(crate) fn make(worker: &WorkerCommand) -> Result<Folder> {
        let path = SegmentDir::from_env().path().join(unique("farwood-bench"));
        let litter = Litter { pool: None, index: None, folders: vec![path.clone()] };
        std::fs::create_dir(&path)
            .map_err(|source| Error::Processes { doing: format!("make {}", path.display()), source })?;
        let janitor = Some(Janitor::start(worker, litter)?);
        Ok(Folder { path, janitor })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(feature = "peers")]
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
        self.janitor = None;
    }
}

impl Litter {
    /// Removes everything that is still there. Nobody is left to be told what fails.
    pub(super) fn remove(&self) {
        let place = self.pool.as_deref().and_then(|url| pool_of(url).ok());
        match (place, &self.index) {
            (Some(place), Some(index)) => {
                if let Ok(pool) = open(&place) {
                    let _ = block_on(drop_index(&pool.client(), index));
                }
            }
            (Some(Place::Shm(name)), None) => {
                let _: std::result::Result<usize, ShmError> = SegmentDir::from_env().remove(&name);
            }
            // Memory nodes end by themselves.
            (Some(Place::Tcp(_) | Place::Rdma(_) | Place::Etcd(_)) | None, _) => {}
        }
        for folder in &self.folders {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Loads the keys of the ranks `0..count` into the empty index, at 80 % fill where nodes can be full, with values of
/// version 0.
pub(crate) async fn bulk_load<F: Fabric>(
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
    // What others insert goes into chunks of their own.
    index.leave(client).await?;
    if loaded == count {
        return Ok(());
    }
    Err(Error::WrongAnswer(format!("{loaded} of {count} keys were loaded")))
}

/// Where the pool is that a URL means.
pub(crate) fn pool_of(url: &str) -> Result<Place> {
    let url = url.trim_end_matches('/');
    if let Some(address) = url.strip_prefix("tcp://") {
        let refuse = |error: TcpError| {
            Error::parameter("--pool", error.to_string(), "give shm://NAME or tcp://HOST:PORT")
        };
        return Ok(Place::Tcp(address.parse().map_err(refuse)?));
    }
    if let Some(address) = url.strip_prefix("rdma://") {
        let refuse = |error: TcpError| Error::parameter("--pool", error.to_string(), "give rdma://HOST:PORT");
        return Ok(Place::Rdma(address.parse().map_err(refuse)?));
    }
    if let Some(address) = url.strip_prefix("etcd://") {
        return Ok(Place::Etcd(address.parse()?));
    }
    let Some(name) = url.strip_prefix("shm://") else {
        let problem = format!("{url} is no pool of shared memory or over TCP");
        return Err(Error::parameter(
            "--pool",
            problem,
            "give shm://NAME, tcp://HOST:PORT or rdma://HOST:PORT, or leave it out for a pool of its own",
        ));
    };
    Ok(Place::Shm(name.parse()?))
}

/// Where the pool is that a URL means, which must be of that fabric: a record names it.
pub(crate) fn pool_of_fabric(url: &str, fabric: FabricKind) -> Result<Place> {
    let place = pool_of(url)?;
    let (is, flag) = match place {
        Place::Shm(_) => (FabricKind::Shm, "--fabric shm"),
        Place::Tcp(_) | Place::Etcd(_) => (FabricKind::Tcp, "--fabric tcp"),
        Place::Rdma(_) => (FabricKind::Rdma, "--fabric rdma"),
    };
    if is == fabric {
        return Ok(place);
    }
    Err(Error::parameter(
        "--pool",
        format!("{url} is not of --fabric {}", fabric.name()),
        format!("say {flag}"),
    ))
}
