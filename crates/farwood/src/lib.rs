//! Farwood: sorted maps and spatial indexes that processes share, in far memory.
//!
//! Any number of processes share an index without a server between them and the data: the nodes of the tree are in the
//! memory of *memory nodes*, and every process reads and changes them with one-sided READ, WRITE and compare-and-swap.
//! On one machine the memory nodes are shared memory (`shm://`); over a network they are daemons (`tcp://`, or
//! `rdma://` if network cards execute the verbs; `node::MemoryNode`, `farwood serve`).
//!
//! ```
//! use farwood::{BTree, Pool, PoolOptions};
//!
//! # let url = format!("shm://doc-lib-{}", std::process::id());
//! # let url = url.as_str();
//! Pool::create(url, &PoolOptions::new().memory_bytes(64 << 20))?;
//! let pool = Pool::open(url)?;
//! let index = pool.open_or_create::<u64, u64>("squares", &BTree::new())?;
//! for number in 0..100 {
//!     index.put(number, number * number)?;
//! }
//! assert_eq!(index.get(12)?, Some(144));
//! let squares: Vec<u64> = index.scan(3..6).map(|entry| Ok(entry?.1)).collect::<Result<_, farwood::Error>>()?;
//! assert_eq!(squares, [9, 16, 25]);
//! # drop((index, pool));
//! Pool::remove(url)?;
//! # Ok::<(), farwood::Error>(())
//! ```
//!
//! | topic | see |
//! |---|---|
//! | pools of memory nodes, named by URL | [`Pool`], [`PoolOptions`] |
//! | a pool for this process alone, without a name | [`Pool::anonymous`] |
//! | pools for the tests of your program | [Testing](#testing-your-program), [`testing`] |
//! | typed indexes, usable from any thread | [`Index`] |
//! | keys of one length, the default: a B-link tree | [`BTree`] |
//! | keys and values of any length: radix trees | [`Radix`] with a cache of nodes, [`Hashed`] with a small filter |
//! | rectangles: an R*-tree (feature `spatial`) | [`spatial`] |
//! | points, lines and polygons in records (feature `geometry`) | [`spatial::Spatial::find`], [`spatial::geometry`] |
//! | conditional changes: counters, sessions, locks | [`Index::compare_exchange`], [`Index::fetch_update`] |
//! | range scans, forward or reverse, pages | [`Index::range`], [`Index::prefix`], [`index::Scan`] |
//! | a limit of the time that a call waits | [`Index::with_timeout`] |
//! | many keys in one call | [`Index::get_many`], [`Index::put_many`], [`Index::bulk_load`] |
//! | async calls from any task, such as with tokio | [`AsyncIndex`], `spatial::AsyncSpatial` |
//! | concurrent async operations on one thread | [`index::Session`], [`runtime::run_all`] |
//! | a server of your own, whose clients use READs while it is busy | [`adaptive`] |
//! | keys of several components, and your own types | [`types`], [`key_type!`] |
//! | the cost of an operation in round trips | `[n RT]` in the documentation of each method |
//! | errors, and what a program does after them | [`Error`], [`error::ErrorKind`], [`error::Effect`] |
//! | calls, errors, costs and durations by index and operation | [`Pool::metrics`], [`stats::Observer`] |
//! | a memory node in your process (feature `tcp`) | `node::MemoryNode` |
//! | huge pages for the caches of a process | [`runtime::into_huge_pages`] |
//! | backups, which also move indexes to another structure or version (feature `backup`) | `backup` |
//! | the pools of this machine, and the remains of crashed processes | [`doctor`] |
//!
//! # Fork
//!
//! A forked child may use the [`Pool`], [`Index`] and [`spatial::Spatial`] handles of its parent: the first call of the
//! child opens the pool and the index again, with a client slot, connections and caches of its own. Parent and child
//! can then use the pool at the same time. Dropping an inherited handle changes nothing for the parent.
//!
//! Objects in the middle of their work do not continue in the child: an [`index::Session`], an [`index::Scan`], an
//! [`AsyncIndex`] or a suspended future of the parent fails there with
//! [`FabricError::Forked`](error::FabricError::Forked). The remedy is to create another one from the handle. The same
//! error is returned by a handle whose pool cannot be opened again, as an [anonymous](Pool::anonymous) one; an explicit
//! [`Pool::open`] in the child has the reason. Counters of calls begin at 0 in the child, without an observer.
//!
//! A child keeps neither memory nor connections of its parent. If the parent is killed, its locks are released,
//! although the child lives.
//!
//! # Testing your program
//!
//! A test of one process uses [`Pool::anonymous`]: nothing has to be removed, also after a kill. A test of several
//! compute nodes or processes uses [`testing::ScratchPool`], which is removed when the test ends, also by a panic. A
//! test over TCP starts a memory node in its own process, on a free port; [`testing`] has an example.
//!
//! ```
//! use farwood::{BTree, Pool};
//!
//! let pool = Pool::anonymous(16 << 20)?;
//! let index = pool.create_index::<u64, u64>("squares", &BTree::new())?;
//! index.put(12, 144)?;
//! assert_eq!(index.get(12)?, Some(144));
//! # Ok::<(), farwood::Error>(())
//! ```
//!
//! Features: `spatial` and `geometry` (default), `tcp`, `rdma` and `etcd`; `serde` and `zerocopy` for values of other
//! types; `backup` for backups; `tracing` and `metrics` for observers. Without the first five, the library has indexes
//! with keys in shared memory only. The examples in `crates/farwood/examples` show one task each.
#![forbid(unsafe_code)]

pub mod adaptive;
mod anonymous;
mod answer;
mod argument;
mod async_index;
mod attached;
mod attached_place;
mod attachment;
#[cfg(feature = "backup")]
pub mod backup;
mod batch;
mod blocking;
mod bulk_load;
mod codec;
mod conditional;
mod conditional_calls;
pub mod doctor;
mod entry;
mod erased;
pub mod error;
mod growth;
mod handle;
mod heir;
mod index_stats;
mod inherited;
mod inline_bytes;
mod kind;
mod observe;
mod patience;
mod pool;
mod pool_options;
mod pool_stats;
mod range;
mod scan;
mod session;
mod shell_word;
mod span;
#[cfg(feature = "spatial")]
pub mod spatial;
mod structure;
mod task_driver;
pub mod testing;
mod thread_client;
mod tree;
mod typed_index;
mod unfit;
mod url;
mod width;

pub use async_index::AsyncIndex;
pub use codec::{Key, Value};
#[doc(inline)]
pub use error::{Error, Result};
pub use farwood_fabric::Access;
pub use pool::Pool;
pub use pool_options::PoolOptions;
pub use structure::{BTree, Hashed, Radix};
pub use typed_index::Index;
pub use url::Url;

/// The types that calls of an [`Index`] take and return.
pub mod index {
    pub use crate::answer::Answer;
    pub use crate::bulk_load::BulkLoad;
    pub use crate::patience::Interrupt;
    pub use crate::range::Range;
    pub use crate::scan::Scan;
    pub use crate::session::Session;
    pub use crate::structure::Structure;
    pub use crate::task_driver::Finished;
    pub use farwood_index::ordered::OrderedReport;
    pub use farwood_index::radix::tree::RadixReport;
    pub use farwood_index::sherman::{Direction, Problem, ShermanReport};
}

/// Statistics of pools and indexes, metrics of calls, and observers.
pub mod stats {
    pub use crate::entry::{EntryLayout, IndexEntry, IndexLayout, NodeSizes};
    pub use crate::index_stats::IndexStats;
    #[cfg(feature = "metrics")]
    pub use crate::observe::MetricsObserver;
    #[cfg(feature = "tracing")]
    pub use crate::observe::TracingObserver;
    pub use crate::observe::{
        CallOutcome, Latencies, Metrics, MetricsLevel, ObservedCall, Observer, OperationMetrics,
    };
    pub use crate::pool_stats::{ClientStats, IndexUse, NodeStats, PoolStats};
    pub use farwood_fabric::client_table::DamagedSlot;
    pub use farwood_fabric::directory::DamagedEntry;
    pub use farwood_fabric::{ClientId, Costs};
    pub use farwood_index::sherman::layout::Values;
    pub use farwood_transport::shm::Pages;
}

/// The types of keys and values, and their encodings.
pub mod types {
    #[cfg(feature = "zerocopy")]
    pub use crate::codec::Plain;
    #[cfg(feature = "serde")]
    pub use crate::codec::Serde;
    pub use crate::codec::{
        Bytes, Codec, Encode, KeyRange, Prefix, PrefixPart, StartsWith, Text, TypeName, View,
    };
    pub use crate::conditional::Counter;
    pub use crate::inline_bytes::InlineBytes;
    pub use crate::kind::{Kind, Type};
    pub use crate::unfit::Unfit;
    pub use crate::width::Width;
}

/// The variants and options of the papers' systems. Programs that reproduce figures need them.
pub mod papers {
    pub use farwood_index::consistency::Consistency;
    pub use farwood_index::lock::LockWidth;
    pub use farwood_index::ordered::System;
    pub use farwood_index::sherman::{ShermanFeatures, ShermanVariant};
    pub use farwood_index::smart::options::Scans;
    pub use farwood_index::smart::{Allocation, CachePolicy, NodeSizing, SmartFeatures, SmartVariant};
    pub use farwood_index::sphinx::{
        Eviction, Groups, LeafLocks, NodeReads, ScanStarts, SphinxFeatures, SphinxVariant, TraversalStart,
    };
}

/// Executors of a thread, and the memory of its process.
pub mod runtime {
    pub use farwood_transport::heap::into_huge_pages;
    pub use farwood_transport::runtime::{block_on, run_all};
}

/// Memory nodes: daemons that store the pages of a pool, in processes of their own or in yours.
#[cfg(any(feature = "tcp", feature = "rdma", feature = "etcd"))]
pub mod node {
    pub use farwood_fabric::chunk_limit::default_max as memory_max_default;
    #[cfg(feature = "etcd")]
    pub use farwood_transport::etcd::{EtcdAddress, Registrant, Registration};
    #[cfg(feature = "rdma")]
    pub use farwood_transport::rdma::{
        DeviceKind, DeviceMemoryLocation, DeviceReport, DeviceSpec, LinkKind, NodeDevice, serve as serve_rdma,
    };
    #[cfg(feature = "tcp")]
    pub use farwood_transport::tcp::{
        AcceptedTokens, Durability, GoneClient, HostPort, Identity, LATENCY_BUCKETS, LogReport, MemoryNode,
        NodeCounts, NodeEvent, NodeEvents, NodeFile, NodeMonitor, NodeReport, NodeSpec, ServerTls, Token,
        secret_warning,
    };
}

/// Parts for the commands and benchmarks of this repository, without a promise of stability.
#[doc(hidden)]
pub mod internal {
    pub use farwood_fabric::printable;
    pub use farwood_transport::any::AnyFabric;
    pub use farwood_transport::small_file;
}
