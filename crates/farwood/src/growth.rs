//! The growth of pools: more memory on each memory node, or more memory nodes.

use crate::argument::Call;
use crate::attachment::Attachment;
#[cfg(feature = "tcp")]
use crate::error::Error;
use crate::error::Result;
use crate::pool::Pool;
use farwood_fabric::chunks::CHUNK_BYTES;
#[cfg(feature = "tcp")]
use farwood_fabric::directory::{self, Entry};
use farwood_fabric::{ByteCount, NodeId, chunk_limit};
#[cfg(feature = "tcp")]
use farwood_index::sphinx;
use farwood_transport::runtime::block_on;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::HostPort;

impl Pool {
    /// Gives each memory node `bytes` of memory, a multiple of 8 MiB, unless it has more. Processes that use the pool
    /// take the new memory when they need it. The memory can grow to
    /// [`memory_max_bytes`](crate::PoolOptions::memory_max_bytes), or for memory nodes over TCP to
    /// `NodeSpec::host_bytes_max`. [2 RT for each memory node]
    ///
    /// ```
    /// use farwood::{Pool, PoolOptions};
    ///
    /// # let url = format!("shm://doc-growth-{}", std::process::id());
    /// Pool::create(&url, &PoolOptions::new().memory_bytes(16 << 20))?;
    /// let pool = Pool::open(&url)?;
    /// pool.grow_memory(64 << 20)?;
    /// assert_eq!(pool.stats()?.nodes[0].memory_bytes, 64 << 20);
    /// # drop(pool);
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] and `Error::Tcp`: the memory cannot grow to that size, or the machine of a memory node has
    /// no space for it; [`Error::Fabric`]. Memory nodes before the one that failed have grown, and repeating the call
    /// continues.
    pub fn grow_memory(&self, bytes: u64) -> Result<()> {
        match self.attached().attachment() {
            Attachment::Shm(_) => self.grow_segments(bytes),
            #[cfg(feature = "tcp")]
            Attachment::Tcp(pool) => {
                pool.grow(bytes).map_err(|source| Error::Tcp { operation: "grow", source })
            }
            #[cfg(feature = "rdma")]
            Attachment::Rdma(pool) => {
                pool.grow(bytes).map_err(|source| Error::Tcp { operation: "grow", source })
            }
        }
    }

    fn grow_segments(&self, bytes: u64) -> Result<()> {
        let shape = self.attached().attachment().shape();
        let refuse = |remedy: String| {
            let url = self.url();
            Err(Call { operation: "grow", url }.refused("memory", ByteCount(bytes).to_string(), remedy))
        };
        if !bytes.is_multiple_of(CHUNK_BYTES) {
            return refuse(format!("give a multiple of {}", ByteCount(CHUNK_BYTES)));
        }
        if bytes > shape.host_bytes {
            return refuse(format!(
                "its memory can grow to {} for each memory node (`farwood create --memory-max`; it does not grow with \
                 --reserve or in huge pages); restore a dump into a larger pool",
                ByteCount(shape.host_bytes)
            ));
        }
        let client = self.client("grow")?;
        for node in (0..shape.nodes).map(NodeId) {
            block_on(chunk_limit::raise(&client, node, bytes))
                .map_err(|source| self.fabric_failed("grow", source))?;
        }
        Ok(())
    }

    /// Adds the memory node at `address`, which has fresh memory, to the pool; returns its number. Processes that use
    /// the pool find it by themselves, and spread new objects over it; existing objects stay where they are. All of
    /// them must reach it at that address. [about 20 RT]
    ///
    /// Sherman takes memory from all memory nodes in turn, Sphinx spreads inner nodes over all of them, and SMART uses
    /// the new memory node for the first two levels of an index, and when another one is full. A spatial index stays on
    /// its memory node.
    ///
    /// # Errors
    /// `Error::Tcp`: the memory node does not answer, belongs to another pool, or has other sizes than those of the
    /// pool; [`Error::Argument`]: pools in shared memory, and those with RDMA devices, have the memory nodes that they
    /// were created with.
    #[cfg(feature = "tcp")]
    pub fn add_memory_node(&self, address: &HostPort) -> Result<u16> {
        const OPERATION: &str = "grow";
        let fixed = |why: &str| {
            let url = self.url();
            Err(Call { operation: OPERATION, url }.refused("memory node", address.to_string(), why))
        };
        match self.attached().attachment() {
            Attachment::Shm(_) => fixed(
                "memory nodes in shared memory are files of one machine; give them more memory (`farwood grow \
                 --memory`)",
            ),
            Attachment::Tcp(pool) => {
                let failed = |source| Error::Tcp { operation: OPERATION, source };
                if let Some(name) = self.index_of_fixed_nodes()? {
                    let why = format!(
                        "an earlier version of Farwood created the index '{name}' for a pool that keeps its memory \
                         nodes; dump it, drop it, and restore it first"
                    );
                    return fixed(&why);
                }
                pool.add_node(address).map(|node| node.0).map_err(failed)
            }
            #[cfg(feature = "rdma")]
            Attachment::Rdma(_) => fixed(
                "clients connect to RDMA devices when they open the pool; restore a dump into a pool with more memory \
                 nodes",
            ),
        }
    }

    /// The name of an index that does not record its number of memory nodes.
    #[cfg(feature = "tcp")]
    fn index_of_fixed_nodes(&self) -> Result<Option<String>> {
        let client = self.client("grow")?;
        let listed = block_on(directory::list(&*client));
        let entries = listed.map_err(|source| self.fabric_failed("grow", source))?;
        let is_fixed = |entry: &Entry| entry.kind == sphinx::KIND && sphinx::table_nodes(entry).is_none();
        Ok(entries.into_iter().map(|typed| typed.entry).find(is_fixed).map(|entry| entry.name))
    }
}
