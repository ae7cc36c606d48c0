//! Farwood: tree indexes for far memory.
//!
//! An ordered index that any number of processes share, with no server between them and the data: the nodes of the
//! tree lie in the memory of *memory nodes*, and every process reads and changes them with one-sided READ, WRITE
//! and compare-and-swap. On one machine the memory nodes are shared memory (`shm://`); over a
//! network they are daemons (`tcp://`, [`MemoryNode`], `farwood serve`).
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
//! | a range, forwards or backwards | [`Index::scan`], [`Scan`] |
//! | many operations at once on one thread, async | [`Session`], [`run_all`] |
//! | keys and values of your own types | [`Codec`], [`Key`], [`Value`] |
//! | what an operation costs in round trips | `[n RT]` in each method's documentation, [`Session::take_costs`] |
//! | what went wrong | [`Error`] |
//! | a memory node of your own | [`MemoryNode`] |
//! | pools and leftovers of the whole machine | [`doctor`] |
//!
//! The examples in `crates/farwood/examples` have one job each. The command `farwood` is built on this library alone.
#![forbid(unsafe_code)]

mod codec;
pub mod doctor;
mod entry;
mod error;
mod fabric;
mod index;
mod kind;
mod pool;
mod scan;
mod seats;
mod session;
mod spatial_index;
mod stats;
mod url;

pub use codec::{Bytes, Codec, Key, Padded, Text, Value, Width};
pub use entry::{IndexEntry, IndexLayout};
pub use error::{Error, Result, Type, Unfit};
pub use farwood_fabric::{ClientId, Costs, FabricError};
pub use farwood_index::IndexError;
pub use farwood_index::consistency::Consistency;
pub use farwood_index::lock::LockWidth;
pub use farwood_index::sherman::layout::Values;
pub use farwood_index::sherman::{Direction, Options, Problem, Variant, Walk};
#[doc(hidden)]
pub use farwood_transport::any::AnyFabric;
pub use farwood_transport::etcd::{EtcdAddress, EtcdError, Registrant, Registration};
pub use farwood_transport::runtime::{block_on, run_all};
pub use farwood_transport::shm::{Backing, Pages, ShmError};
pub use farwood_transport::tcp::{
    Identity, LATENCY_BUCKETS, MemoryNode, NodeCounts, NodeEvent, NodeEvents, NodeFile, NodeReport, NodeSpec,
    ServerTls, TcpError, Token,
};
pub use index::Index;
pub use kind::Kind;
pub use pool::{CACHE_BYTES_DEFAULT, IndexOptions, Pool, PoolOptions};
pub use scan::Scan;
pub use session::Session;
pub use stats::{ClientStats, IndexStats, IndexUse, NodeStats, PoolStats};
pub use url::Url;

/// Spatial indexes.
pub mod spatial {
    #[doc(hidden)]
    pub use crate::spatial_index::parts;
    pub use crate::spatial_index::{Editor, ServeOptions, Spatial};
    pub use farwood_index::catfish::{
        Config, Item, Near, NoRectangle, Notice, Problem, Query, Rectangle, Relation, Walk,
    };
}
