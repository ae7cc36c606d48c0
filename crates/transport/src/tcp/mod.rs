//! TCP as far memory: memory nodes are daemons, anywhere that TCP reaches.
//!
//! | file | what it knows |
//! |---|---|
//! | `wire/` | the frames, and nothing else |
//! | `token.rs` | [`Token`]: the secret that lets compute nodes in |
//! | `tls.rs`, `stream.rs` | [`ServerTls`], [`ClientTls`]: certificates; streams with and without TLS |
//! | `access.rs` | [`Credentials`]: what a compute node shows, and where it is found |
//! | `node.rs` | [`MemoryNode`]: a memory node; [`TcpServer`]: its own role |
//! | `store.rs` | its memory, and how verbs execute in it |
//! | `registry.rs` | who is connected to it, and who may not be any more |
//! | `card.rs` | `Card`: what executes verbs in the place of the memory node's threads |
//! | `connection.rs` | one connection: frames in, answers out |
//! | `worker.rs` | its threads |
//! | `counters.rs`, `event.rs` | [`NodeCounts`], [`NodeEvent`]: what it counts, and what it tells its log |
//! | `address.rs` | [`PoolAddress`]: where the memory nodes of a pool are |
//! | `pool.rs` | [`ServedPool`], [`ServedFabric`]: a pool of memory nodes as a fabric; [`TcpPool`], [`TcpFabric`] |
//! | `way.rs` | [`Way`]: what is different where a card executes verbs, and not the memory nodes' threads |
//! | `line.rs` | one thread's connections, shared by its clients |
//! | `link.rs` | one of them: bytes out, frames in, coming back after a loss |
//! | `posts.rs` | posts under way, and who waits for them |
//! | `post.rs` | a doorbell as frames |
//! | `reach.rs`, `dial.rs` | connecting |
//! | `exchange` | requests and responses over an ordinary socket, which no verb has to do with |
//! | `error.rs` | [`TcpError`]: what can go wrong, where, and what to do about it |

mod access;
mod address;
pub(crate) mod card;
mod connection;
mod counters;
pub(crate) mod dial;
mod error;
mod event;
pub mod exchange;
pub(crate) mod line;
mod link;
mod node;
mod pool;
pub(crate) mod post;
pub(crate) mod posts;
pub(crate) mod reach;
mod registry;
mod store;
pub(crate) mod stream;
mod tls;
mod token;
pub(crate) mod way;
pub mod wire;
mod worker;

pub use access::{Access, Credentials};
pub use address::PoolAddress;
pub use counters::{LATENCY_BUCKETS, NodeCounts};
pub(crate) use error::NoWay;
pub use error::{FileFault, TcpError};
pub use event::{NodeEvent, NodeEvents};
pub(crate) use link::FAREWELL_MAX;
pub use link::REPLY_MAX;
pub use node::{CONNECTIONS_MAX_DEFAULT, MemoryNode, NodeSpec, SPIN_DEFAULT, TcpMemory, TcpServer};
pub(crate) use pool::no_node;
pub use pool::{CAPABILITIES, Fresh, NodeReport, ServedFabric, ServedPool, TcpFabric, TcpPool};
pub use store::NodeFile;
pub use tls::{ClientTls, Identity, ServerTls};
pub use token::Token;
pub use way::Way;
