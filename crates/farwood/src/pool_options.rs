//! The options for creating a pool.

use farwood_fabric::chunk_limit;
use farwood_fabric::superblock::DEVICE_BYTES_DEFAULT;
use farwood_transport::shm::{Backing, PoolName, PoolSpec, ShmError, group_number};

/// The options for creating a pool.
///
/// ```
/// use farwood::PoolOptions;
///
/// let options = PoolOptions::new().memory_bytes(64 << 20).nodes(2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct PoolOptions {
    memory_bytes: u64,
    memory_max_bytes: Option<u64>,
    nodes: u16,
    device_bytes: u64,
    backing: Backing,
    group: Option<String>,
    mode: Option<u32>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PoolOptions {
    /// The default memory of each memory node in bytes: 1 GiB.
    pub const MEMORY_BYTES: u64 = 1 << 30;

    /// The default options: one memory node of 1 GiB, whose memory is allocated on demand. Only the user who creates
    /// the pool uses it.
    pub fn new() -> Self {
        Self {
            memory_bytes: Self::MEMORY_BYTES,
            memory_max_bytes: None,
            nodes: 1,
            device_bytes: DEVICE_BYTES_DEFAULT,
            backing: Backing::Growable,
            group: None,
            mode: None,
        }
    }

    /// Sets the memory of each memory node in bytes: a multiple of 8 MiB, at least 16 MiB. The default is 1 GiB.
    ///
    /// Each memory node uses 8 MiB for the superblock. From the remaining memory, each index uses 8 MiB for every
    /// process that inserts at the same time, plus the memory of its entries: about 32 B for each entry with keys and
    /// values of 8 bytes in leaves that are 80 % full. So 16 MiB are enough for one writing process and one index.
    pub fn memory_bytes(self, bytes: u64) -> Self {
        Self { memory_bytes: bytes, ..self }
    }

    /// Sets the memory to which [`Pool::grow_memory`](crate::Pool::grow_memory) can enlarge each memory node, in bytes.
    /// The default is 16 times its memory. Memory that is not used costs addresses only: no pages, and no space of the
    /// file system. Pools in huge pages, and those with [`reserve_memory`](Self::reserve_memory), do not grow.
    pub fn memory_max_bytes(self, bytes: u64) -> Self {
        Self { memory_max_bytes: Some(bytes), ..self }
    }

    /// Sets the number of memory nodes, 1 to 256. The default is 1.
    pub fn nodes(self, nodes: u16) -> Self {
        Self { nodes, ..self }
    }

    /// Sets the device memory of each memory node in bytes, which holds the locks. The default is 256 KiB, as on a
    /// ConnectX-5.
    pub fn device_bytes(self, bytes: u64) -> Self {
        Self { device_bytes: bytes, ..self }
    }

    /// Allocates all memory when the pool is created, so that a later access cannot fail for lack of memory. The
    /// default is to allocate memory on demand.
    pub fn reserve_memory(self) -> Self {
        Self { backing: Backing::Reserved, ..self }
    }

    /// Shares the pool with a group of users, by name or number. The default is none: only the user who creates the
    /// pool uses it. A process uses a shared pool, whoever created it, only if `FARWOOD_SHM_GROUP` names the group.
    pub fn group(self, group: impl Into<String>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// Sets the permissions of all files of the pool: 0600 and more, without execution and without writing by
    /// everybody. The default is 0600, or 0660 with a [`group`](Self::group). With 0640 or 0644, other users read the
    /// pool ([`Pool::open_read_only`](crate::Pool::open_read_only)) if `FARWOOD_SHM_OWNER` names the owner of its
    /// files, or `FARWOOD_SHM_GROUP` their group.
    pub fn mode(self, mode: u32) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// The options with a name, for shared memory.
    pub(crate) fn spec(&self, name: PoolName) -> Result<PoolSpec, ShmError> {
        Ok(PoolSpec {
            name,
            nodes: self.nodes,
            host_bytes: self.memory_bytes,
            host_bytes_max: Some(
                self.memory_max_bytes.unwrap_or_else(|| chunk_limit::default_max(self.memory_bytes)),
            ),
            device_bytes: self.device_bytes,
            backing: self.backing,
            group: self.group.as_deref().map(group_number).transpose()?,
            mode: self.mode,
        })
    }
}
