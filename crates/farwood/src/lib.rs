//! Farwood: tree indexes for far memory.
//!
//! An ordered index that any number of processes share, with no server between them and the data: the nodes of the
//! tree lie in the memory of *memory nodes*, and every process reads and changes them with one-sided READ, WRITE
//! and compare-and-swap. On one machine the memory nodes are shared memory (`shm://`); over a
//! network they are daemons (`tcp://`, or `rdma://` where network cards execute the verbs; [`MemoryNode`],
//! `farwood serve`).
//!
//! ```
//! use farwood::{IndexOptions, Pool, PoolOptions};
//!
//! # let url = format!("shm://doc-lib-{}", std::process::id());
//! # let url = url.as_str();
//! Pool::create(url, &PoolOptions { memory_bytes: 64 << 20, ..Default::default() })?;
//! let pool = Pool::open(url)?;
//! let index = pool.open_or_create::<u64, u64>("squares", &IndexOptions::default())?;
//! for number in 0..100 {
//!     index.put(&number, &(number * number))?;
//! }
//! assert_eq!(index.get(&12)?, Some(144));
//! let squares: Vec<u64> = index.scan(3..6).map(|entry| Ok(entry?.1)).collect::<Result<_, farwood::Error>>()?;
//! assert_eq!(squares, [9, 16, 25]);
//! # drop((index, pool));
//! Pool::remove(url)?;
//! # Ok::<(), farwood::Error>(())
//! ```
//!
//! | you want | see |
//! |---|---|
//! | a pool of memory nodes, by URL | [`Pool`] |
//! | an index with your types, from any thread | [`Index`] |
//! | keys of any length: a radix tree instead of a B-link tree | [`SmartOptions`], [`SphinxOptions`] |
//! | rectangles: an R*-tree | [`spatial`] |
//! | a range, forwards or backwards | [`Index::scan`], [`Index::scan_prefix`], [`Scan`] |
//! | many operations at once on one thread, async | [`Session`], [`run_all`] |
//! | keys and values of your own types | [`Codec`], [`Key`], [`Value`] |
//! | what an operation costs in round trips | `[n RT]` in each method's documentation, [`Session::take_costs`] |
//! | what went wrong | [`Error`] |
//! | a memory node of your own | [`MemoryNode`] |
//! | a process's full caches in pages of 2 MiB | [`into_huge_pages`] |
//! | pools and leftovers of the whole machine | [`doctor`] |
//!
//! The examples in `crates/farwood/examples` have one job each. The command `farwood` is built on this library alone.
#![forbid(unsafe_code)]

mod attachment;
mod codec;
pub mod doctor;
mod entry;
mod error;
mod index;
mod kind;
mod options;
mod pool;
mod scan;
mod session;
mod span;
#[cfg(feature = "spatial")]
pub mod spatial;
mod stats;
mod thread_client;
mod url;

pub use codec::{Bytes, Codec, Key, Padded, Text, Value, Width};
pub use entry::{EntryLayout, IndexEntry, IndexLayout, NodeSizes};
pub use error::{Error, Result, Type, Unfit};
pub use farwood_fabric::{ClientId, Costs, FabricError};
pub use farwood_index::IndexError;
pub use farwood_index::consistency::Consistency;
pub use farwood_index::lock::LockWidth;
pub use farwood_index::ordered::{System, Walk};
pub use farwood_index::sherman::layout::Values;
pub use farwood_index::sherman::{Direction, Options, Problem, Variant};
#[doc(hidden)]
pub use farwood_transport::any::AnyFabric;
#[cfg(feature = "etcd")]
pub use farwood_transport::etcd::{EtcdAddress, EtcdError, Registrant, Registration};
pub use farwood_transport::heap::into_huge_pages;
#[cfg(feature = "rdma")]
pub use farwood_transport::rdma::{
    CardKind, CardReport, DevicePlace, DeviceSpec, LinkKind, NodeCard, RdmaError, serve as serve_rdma,
};
pub use farwood_transport::runtime::{block_on, run_all};
pub use farwood_transport::shm::{Backing, Pages, ShmError};
#[cfg(feature = "tcp")]
pub use farwood_transport::tcp::{
    Identity, LATENCY_BUCKETS, MemoryNode, NodeCounts, NodeEvent, NodeEvents, NodeFile, NodeReport, NodeSpec,
    ServerTls, TcpError, Token,
};
pub use index::Index;
pub use kind::Kind;
pub use options::{
    CACHE_BYTES_DEFAULT, CreateOptions, FILTER_BYTES_DEFAULT, IndexOptions, SmartOptions, SphinxOptions,
};
pub use pool::{Pool, PoolOptions};
pub use scan::Scan;
pub use session::Session;
pub use stats::{ClientStats, IndexStats, IndexUse, NodeStats, PoolStats};
pub use url::Url;

/// What is SMART's own of an index: the steps of the paper, and how large nodes are.
pub mod smart {
    pub use farwood_index::smart::options::Scans;
    pub use farwood_index::smart::{Options, Rooms, Variant};
}

/// What is Sphinx's own of an index: its variants.
pub mod sphinx {
    pub use farwood_index::sphinx::{Begins, Groups, Options, Variant};
}

/// What all radix trees have.
pub mod radix {
    pub use farwood_index::radix::tree::Walk;
}

/// What is Sherman's own of an index.
pub mod sherman {
    pub use farwood_index::sherman::Walk;
}
