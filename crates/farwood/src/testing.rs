//! Pools for the tests of programs that use this library.
//!
//! | the test needs | use |
//! |---|---|
//! | a pool for one process | [`Pool::anonymous`]: nothing has to be removed, also after a kill |
//! | several compute nodes, or several processes | [`ScratchPool`]: removed when the test ends |
//! | a pool over TCP (feature `tcp`) | `MemoryNode::start` on port 0, in the process of the test: see below |
//!
//! Tests of one program run at the same time, so each should have its own pool.
#![cfg_attr(
    feature = "tcp",
    doc = r#"
# A pool over TCP

```
use farwood::node::{MemoryNode, NodeSpec};
use farwood::{BTree, Pool};

// The operating system selects a free port.
let node = MemoryNode::start(&NodeSpec::new(([127, 0, 0, 1], 0).into(), 64 << 20))?;
let pool = Pool::open(format!("tcp://{}", node.address()))?;
let squares = pool.create_index::<u64, u64>("squares", &BTree::new())?;
squares.put(12, 144)?;
assert_eq!(squares.get(12)?, Some(144));
assert_eq!(pool.stats()?.clients.len(), 1);
// The clients come first: dropping the memory node ends its threads and frees its memory.
drop((squares, pool, node));
# Ok::<(), farwood::Error>(())
```
"#
)]

use crate::error::Result;
use crate::pool::Pool;
use crate::pool_options::PoolOptions;
use farwood_transport::fork::ForkCount;
use std::fmt;

/// A pool in shared memory with a name of its own, which is removed when the value is dropped, also by a panic. A test
/// that is killed leaves the pool; `farwood drop` removes it.
///
/// ```
/// use farwood::testing::ScratchPool;
/// use farwood::BTree;
///
/// let scratch = ScratchPool::new(64 << 20)?;
/// // Two compute nodes:
/// let (writer, reader) = (scratch.open()?, scratch.open()?);
/// writer.create_index::<u64, u64>("squares", &BTree::new())?.put(12, 144)?;
/// assert_eq!(reader.open_index::<u64, u64>("squares")?.get(12)?, Some(144));
/// # Ok::<(), farwood::Error>(())
/// ```
///
/// Keep the value as long as the handles of the pool: within half a second after the value was dropped, operations fail
/// with [`FabricError::MemoryLost`](crate::error::FabricError::MemoryLost). A forked child that drops the value removes
/// nothing.
pub struct ScratchPool {
    url: String,
    /// The process that removes the pool.
    forks: ForkCount,
}

impl ScratchPool {
    /// Creates a pool of one memory node with this memory in bytes: a multiple of 8 MiB, at least 16 MiB.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn new(memory_bytes: u64) -> Result<Self> {
        Self::with(&PoolOptions::new().memory_bytes(memory_bytes))
    }

    /// Creates a pool with these options.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn with(options: &PoolOptions) -> Result<Self> {
        // Process ids repeat in containers that share `/dev/shm`.
        let number = farwood_transport::random_number();
        let url = format!("shm://scratch-{}-{number:016x}", std::process::id());
        Pool::create(&url, options)?;
        Ok(Self { url, forks: ForkCount::now() })
    }

    /// The URL of the pool.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Attaches this process to the pool. Each call makes another compute node.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open(&self) -> Result<Pool> {
        Pool::open(&self.url)
    }
}

impl Drop for ScratchPool {
    fn drop(&mut self) {
        if self.forks.is_current() {
            // A test may have removed the pool itself.
            let _ = Pool::remove_by_force(&self.url);
        }
    }
}

impl fmt::Debug for ScratchPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScratchPool").field(&self.url).finish()
    }
}
