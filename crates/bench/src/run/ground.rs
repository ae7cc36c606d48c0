//! The ground of a run: a pool with an index in it, made, filled and removed by the parent.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
#[cfg(feature = "peers")]
use std::path::{Path, PathBuf};

use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::superblock::{DEVICE_BYTES_DEFAULT, HOST_BYTES_MIN};
use farwood_fabric::{Client, Fabric};
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Config, Options, Sherman, drop_index};
use farwood_transport::runtime::block_on;
use farwood_transport::shm::{Backing, Pages, PoolName, PoolSpec, SegmentDir, ShmError, ShmPool, create};

use super::crew::{Janitor, WorkerCommand};
use super::protocol::Litter;
use super::spec::FILL;
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
    },
    /// It is there, under this name.
    Existing(PoolName),
}

/// An attached pool, which goes when the ground is dropped if it was made for the run.
pub(crate) struct Ground {
    pub(crate) pool: ShmPool,
    pub(crate) name: PoolName,
    /// The name of the run's index.
    pub(crate) index: String,
    dir: SegmentDir,
    is_own: bool,
    janitor: Option<Janitor>,
}

impl Ground {
    /// Makes or finds the pool.
    pub(crate) fn prepare(site: &Site, worker: &WorkerCommand) -> Result<Ground> {
        let (dir, index) = (SegmentDir::from_env(), unique("bench"));
        let (name, is_own) = match site {
            Site::Own { .. } => (index.parse()?, true),
            Site::Existing(name) => (name.clone(), false),
        };
        let litter = Litter {
            pool: Some(name.to_string()),
            index: (!is_own).then(|| index.clone()),
            folders: Vec::new(),
        };
        if let Site::Own { memory_nodes, host_bytes } = site {
            let spec = PoolSpec {
                name: name.clone(),
                nodes: *memory_nodes,
                host_bytes: *host_bytes,
                device_bytes: DEVICE_BYTES_DEFAULT,
                backing: Backing::Growable,
            };
            create(&dir, &spec)?;
        }
        let janitor = Some(Janitor::start(worker, litter)?);
        let pool = ShmPool::open(&dir, &name)?;
        Ok(Ground { pool, name, index, dir, is_own, janitor })
    }

    /// Creates the run's index.
    pub(crate) fn create_index(&self, sizes: Sizes, options: Options, cache_bytes: usize) -> Result<Sherman> {
        let config = Config { sizes, options, ..Config::default() };
        Ok(block_on(Sherman::create(&self.pool.client(), &self.index, config, cache_bytes))?)
    }

    /// Bytes of the pool that have pages, and which pages.
    pub(crate) fn memory(&self) -> Result<(u64, Option<Pages>)> {
        let memory = self.pool.memory()?;
        Ok((memory.iter().map(|(_, bytes)| bytes).sum(), memory.first().map(|(pages, _)| *pages)))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What fails here is tried again by the janitor.
        if self.is_own {
            let _ = self.dir.remove(&self.name);
        } else {
            let _ = block_on(drop_index(&self.pool.client(), &self.index));
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
        let dir = SegmentDir::from_env();
        let pool: Option<PoolName> = self.pool.as_ref().and_then(|name| name.parse().ok());
        if let Some(name) = pool {
            match &self.index {
                Some(index) => {
                    if let Ok(pool) = ShmPool::open(&dir, &name) {
                        let _ = block_on(drop_index(&pool.client(), index));
                    }
                }
                None => {
                    let _: std::result::Result<usize, ShmError> = dir.remove(&name);
                }
            }
        }
        for folder in &self.folders {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Host memory that each of `memory_nodes` needs for `entries` entries, in bytes: leaves half full, what inner
/// nodes take, and the chunks that each compute node has begun.
pub(crate) fn host_bytes(sizes: Sizes, entries: u64, memory_nodes: u16, compute_nodes: usize) -> u64 {
    let Sizes { key_bytes, value_bytes, node_bytes } = sizes;
    let capacity =
        (node_bytes.saturating_sub(44 + 2 * key_bytes) / (key_bytes + value_bytes + 16)).max(1) as u64;
    let leaves = entries.div_ceil(capacity) * 2;
    let children = (node_bytes.saturating_sub(44 + 2 * key_bytes) / (key_bytes + 8)).max(2) as u64;
    let nodes = leaves + leaves * 3 / children + 64;
    let chunks = (nodes * node_bytes as u64).div_ceil(CHUNK_BYTES) * 5 / 4 + 2 * compute_nodes as u64 + 4;
    (chunks.div_ceil(u64::from(memory_nodes)) + 2) * CHUNK_BYTES.max(HOST_BYTES_MIN / 2)
}

/// A key or a value on its way into a tree; of the usual lengths it needs no memory of its own.
enum Bytes {
    Short([u8; SHORT_BYTES], usize),
    Long(Vec<u8>),
}

/// Bytes that are kept in place.
const SHORT_BYTES: usize = 16;

impl Bytes {
    fn new(bytes: usize) -> Bytes {
        if bytes <= SHORT_BYTES { Bytes::Short([0; SHORT_BYTES], bytes) } else { Bytes::Long(vec![0; bytes]) }
    }

    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Bytes::Short(all, bytes) => &mut all[..*bytes],
            Bytes::Long(all) => all,
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Short(all, bytes) => &all[..*bytes],
            Bytes::Long(all) => all,
        }
    }
}

/// Loads the keys of the ranks `0..count` into the empty index at 80 % fill, with values of version 0.
pub(crate) async fn bulk_load<F: Fabric>(
    client: &Client<F>,
    index: &Sherman,
    (keys, count): (&Keys, u64),
    value_bytes: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let entries = keys.ranks_in_key_order(count).into_iter().map(|rank| {
        let (mut key, mut value) = (Bytes::new(keys.key_bytes()), Bytes::new(value_bytes));
        keys.write_key(rank, key.as_mut());
        fill_value(value.as_mut(), rank, 0);
        (key, value)
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

/// The name of the pool that a URL means.
pub(crate) fn pool_of(url: &str) -> Result<PoolName> {
    let Some(name) = url.strip_prefix("shm://") else {
        let problem = format!("{url} is no pool of shared memory");
        return Err(Error::parameter(
            "--pool",
            problem,
            "give shm://NAME, or leave it out for a pool of its own",
        ));
    };
    Ok(name.trim_end_matches('/').parse()?)
}
