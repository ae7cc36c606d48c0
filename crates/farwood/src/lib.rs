//! Farwood: tree indexes for far memory.
//!
//! Any number of processes share an index without a server between them and the data: the nodes of the tree are in the
//! memory of *memory nodes*, and every process reads and changes them with one-sided READ, WRITE and compare-and-swap.
//! On one machine the memory nodes are shared memory (`shm://`); over a network they are daemons (`tcp://`, or
//! `rdma://` if network cards execute the verbs; `MemoryNode`, `farwood serve`).
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
//! | pools of memory nodes, named by URL | [`Pool`] |
//! | a pool for this process alone, without a name | [`Pool::anonymous`] |
//! | pools for the tests of your program | [Testing](#testing-your-program), [`testing`] |
//! | typed indexes, usable from any thread | [`Index`] |
//! | keys of any length: radix trees instead of a B-link tree | [`SmartOptions`], [`SphinxOptions`] |
//! | rectangles: an R*-tree (feature `spatial`) | [`spatial`] |
//! | points, lines and polygons in records (feature `geometry`) | [`spatial::Spatial::find`], [`geometry`] |
//! | range scans, forward or reverse | [`Index::scan`], [`Index::scan_prefix`], [`Scan`] |
//! | concurrent async operations on one thread | [`Session`], [`spatial::SpatialSession`], [`run_all`] |
//! | a server of your own, whose clients use READs while it is busy | [`adaptive`] |
//! | keys of several components, and your own types | [`Encode`], [`Codec`], [`key_type!`], `Serde`, `Plain` |
//! | the cost of an operation in round trips | `[n RT]` in the documentation of each method, [`Session::take_costs`] |
//! | errors, and what a program does after them | [`Error`], [`ErrorKind`], [`Effect`] |
//! | calls, errors, costs and durations by index and operation | [`Pool::metrics`], [`Observer`] |
//! | a memory node in your process (feature `tcp`) | `MemoryNode` |
//! | huge pages for the caches of a process | [`into_huge_pages`] |
//! | the pools of this machine, and the remains of crashed processes | [`doctor`] |
//!
//! # Fork
//!
//! A forked child must not use what its parent has opened: both would write as one compute node. So every use of an
//! inherited handle in the child ([`Pool`], [`Index`], [`Session`], [`Scan`], [`spatial::Spatial`], a suspended future)
//! fails with [`FabricError::Forked`], and dropping it there changes nothing for the parent. The remedy is to call
//! [`Pool::open`] in the child; the child can then use the pool at the same time as the parent, whether or not it has
//! dropped the inherited handles.
//!
//! A child keeps files and sockets of its parent open until it drops the handles, calls `exec` or ends; until then, a
//! parent that was killed counts as alive, and keeps its locks.
//!
//! # Testing your program
//!
//! A test of one process uses [`Pool::anonymous`]: nothing has to be removed, also after a kill. A test of several
//! compute nodes or processes uses [`testing::ScratchPool`], which is removed when the test ends, also by a panic. A
//! test over TCP starts a memory node in its own process, on a free port; [`testing`] has an example.
//!
//! ```
//! use farwood::{IndexOptions, Pool};
//!
//! let pool = Pool::anonymous(16 << 20)?;
//! let index = pool.create_index::<u64, u64>("squares", &IndexOptions::default())?;
//! index.put(12, 144)?;
//! assert_eq!(index.get(12)?, Some(144));
//! # Ok::<(), farwood::Error>(())
//! ```
//!
//! Features: `spatial` and `geometry` (default), `tcp`, `rdma` and `etcd`; `serde` and `zerocopy` for values of other
//! types; `tracing` and `metrics` for observers. Without the first five, the library has indexes with keys in shared
//! memory only. The examples in `crates/farwood/examples` show one task each.
#![forbid(unsafe_code)]

pub mod adaptive;
mod anonymous;
mod answer;
mod argument;
mod async_index;
mod attached;
mod attached_place;
mod attachment;
mod batch;
mod blocking;
mod bulk_load;
mod codec;
mod conditional;
mod conditional_calls;
mod contradiction;
pub mod doctor;
mod entry;
mod error;
mod handle;
mod index;
mod index_stats;
mod inline_bytes;
mod kind;
mod observe;
mod options;
mod pool;
mod range;
mod scan;
mod session;
mod shell_word;
mod span;
#[cfg(feature = "spatial")]
pub mod spatial;
mod stats;
mod task_driver;
pub mod testing;
mod thread_client;
mod tree;
mod unfit;
mod url;
mod width;

pub use answer::Answer;
pub use async_index::AsyncIndex;
pub use bulk_load::BulkLoad;
#[cfg(feature = "zerocopy")]
pub use codec::Plain;
#[cfg(feature = "serde")]
pub use codec::Serde;
pub use codec::{
    Bytes, Codec, Encode, Key, KeyRange, Prefix, PrefixPart, StartsWith, Text, TypeName, Value, View,
};
pub use conditional::Counter;
pub use entry::{EntryLayout, IndexEntry, IndexLayout, NodeSizes};
pub use error::{Effect, Error, ErrorKind, Result};
pub use farwood_fabric::client_table::DamagedSlot;
pub use farwood_fabric::directory::DamagedEntry;
pub use farwood_fabric::{ClientId, Costs, FabricError, printable};
#[cfg(feature = "geometry")]
pub use farwood_geometry as geometry;
pub use farwood_index::IndexError;
pub use farwood_index::consistency::Consistency;
pub use farwood_index::lock::LockWidth;
pub use farwood_index::ordered::{OrderedReport, System};
pub use farwood_index::sherman::layout::Values;
pub use farwood_index::sherman::{Direction, Problem, ShermanFeatures, ShermanVariant};
#[doc(hidden)]
pub use farwood_transport::any::AnyFabric;
#[cfg(feature = "etcd")]
pub use farwood_transport::etcd::{EtcdAddress, EtcdError, Registrant, Registration};
pub use farwood_transport::heap::into_huge_pages;
#[cfg(feature = "rdma")]
pub use farwood_transport::rdma::{
    DeviceKind, DeviceMemoryLocation, DeviceReport, DeviceSpec, LinkKind, NodeDevice, RdmaError,
    serve as serve_rdma,
};
pub use farwood_transport::runtime::{block_on, run_all};
pub use farwood_transport::shm::{Backing, Pages, ShmError};
pub use farwood_transport::small_file;
#[cfg(feature = "tcp")]
pub use farwood_transport::tcp::{
    AcceptedTokens, GoneClient, HostPort, Identity, LATENCY_BUCKETS, MemoryNode, NodeCounts, NodeEvent,
    NodeEvents, NodeFile, NodeMonitor, NodeReport, NodeSpec, ServerTls, TcpError, Token, secret_warning,
};
pub use index::Index;
pub use index_stats::IndexStats;
pub use inline_bytes::InlineBytes;
pub use kind::{Kind, Type};
#[cfg(feature = "metrics")]
pub use observe::MetricsObserver;
#[cfg(feature = "tracing")]
pub use observe::TracingObserver;
pub use observe::{CallOutcome, Latencies, Metrics, MetricsLevel, ObservedCall, Observer, OperationMetrics};
pub use options::{
    CACHE_BYTES_DEFAULT, CreateOptions, FILTER_BYTES_DEFAULT, IndexOptions, SmartOptions, SphinxOptions,
};
pub use pool::{MEMORY_NODES_MAX, Pool, PoolOptions};
pub use range::Range;
pub use scan::Scan;
pub use session::Session;
pub use stats::{ClientStats, IndexUse, NodeStats, PoolStats};
pub use task_driver::Finished;
pub use unfit::Unfit;
pub use url::Url;
pub use width::Width;

/// The variants and options of SMART.
pub mod smart {
    pub use farwood_index::smart::options::Scans;
    pub use farwood_index::smart::{NodeSizing, SmartFeatures, SmartVariant};
}

/// The variants and options of Sphinx.
pub mod sphinx {
    pub use farwood_index::sphinx::{Groups, SphinxFeatures, SphinxVariant, TraversalStart};
}

/// Radix trees in general.
pub mod radix {
    pub use farwood_index::radix::tree::RadixReport;
}

/// Sherman.
pub mod sherman {
    pub use farwood_index::sherman::ShermanReport;
}
