//! TCP as a fabric: memory nodes are daemons, and their threads execute verbs.
//!
//! `client/` implements the compute node's side of networked fabrics, and `daemon/` the memory node's side. This module
//! combines them to pools over TCP, and exports the types that programs need.
//!
//! | file | contents |
//! |---|---|
//! | `pool.rs` | [`TcpPool`], [`TcpFabric`] |
//! | `restored.rs` | [`RestoredPool`]: memory nodes without threads, for tests of their logs |
//! | `exchange` | requests and responses over an ordinary socket, without verbs |

pub mod exchange;
mod pool;
mod restored;

pub use crate::client::framed::CAPABILITIES;
pub use crate::client::timeouts::REPLY_MAX;
pub use crate::client::{
    AddressOptions, Credentials, FreshNodePolicy, HostPort, NodeReport, PoolAddress, PoolSnapshot,
    ServedFabric, ServedPool, VerbTransport,
};
pub use crate::daemon::{
    CONNECTIONS_MAX_DEFAULT, Durability, FrozenLog, GoneClient, LATENCY_BUCKETS, LogMutant, LogReport,
    LogTuning, MemoryNode, NodeCounts, NodeEvent, NodeEvents, NodeFile, NodeMonitor, NodeSpec,
    SnapshotMutant, SummedEvent, TcpMemory, TcpServer,
};
pub use crate::error::{FileFault, TcpError};
pub use crate::stream::{
    AcceptedTokens, ClientTls, Identity, NONCE_BYTES, Nonce, Nonces, Proof, Prover, ServerTls, Token,
    secret_warning,
};
pub use pool::{TcpFabric, TcpPool};
#[doc(hidden)]
pub use restored::RestoredPool;
