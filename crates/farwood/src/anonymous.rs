//! Anonymous pools: shared memory that only this process can use.

use crate::attached_place::AttachedPlace;
use crate::attachment::Attachment;
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::pool_options::PoolOptions;
use farwood_transport::shm::{PoolName, ShmPool};
use std::sync::atomic::{AtomicU64, Ordering};

impl Pool {
    /// Creates a pool of one memory node without a name, for tests and for programs of one process. `memory_bytes` is a
    /// multiple of 8 MiB, at least 16 MiB; its pages are allocated as they are used, the first 8 MiB by this call,
    /// which takes about 10 ms.
    ///
    /// ```
    /// use farwood::{BTree, Pool};
    ///
    /// let pool = Pool::anonymous(16 << 20)?;
    /// let squares = pool.create_index::<u64, u64>("squares", &BTree::new())?;
    /// squares.put(12, 144)?;
    /// assert_eq!(squares.get(12)?, Some(144));
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// Nothing has to be removed: the kernel frees the memory when the last handle of the pool and of its indexes is
    /// dropped, or when the process ends, also if it is killed. (As with other pools, threads that have used the pool
    /// keep its memory until they use another pool, or end; so does a forked child until it drops its handles, calls
    /// `exec` or ends.)
    ///
    /// All kinds of indexes work in it, at the same cost in round trips as in shared memory. The differences to a pool
    /// with a name:
    ///
    /// - Only this attachment can use the pool: clone the [`Pool`] for other threads. A test of several compute nodes
    ///   needs a [`ScratchPool`](crate::testing::ScratchPool). A forked child is refused, and cannot open the pool.
    /// - No command and no function that takes a URL finds the pool: not [`Pool::open`], not [`Pool::remove`], not
    ///   [`doctor`](crate::doctor), not `farwood stat`. [`Pool::stats`] works.
    /// - The memory does not count towards the size of `/dev/shm`. The pool has no pages of hugetlbfs; the kernel may
    ///   collapse its pages into huge ones.
    /// - No journal is written, because no process survives that could complete an interrupted WRITE. So changes take
    ///   less time than in a pool with a name.
    ///
    /// # Errors
    /// [`Error::Pool`]: the size is invalid, or the machine has too little memory or no free file descriptor.
    pub fn anonymous(memory_bytes: u64) -> Result<Self> {
        Self::anonymous_with(&PoolOptions::new().memory_bytes(memory_bytes))
    }

    /// Creates a pool as [`anonymous`](Self::anonymous), with several memory nodes, for example, or with all memory
    /// allocated at once. It uses one file descriptor for each memory node.
    ///
    /// # Errors
    /// As [`anonymous`](Self::anonymous); [`Error::Pool`] also if the options have a group.
    pub fn anonymous_with(options: &PoolOptions) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let pool = options.spec(PoolName::anonymous(number)).and_then(|spec| ShmPool::anonymous(&spec));
        let pool = pool.map_err(|source| Error::Pool { operation: "create", source })?;
        Ok(Self::of(AttachedPlace::Anonymous(number), Attachment::Shm(pool)))
    }
}
