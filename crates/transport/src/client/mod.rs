//! The compute-node half of pools that memory nodes serve, shared by TCP and RDMA.
//!
//! | file | contents |
//! |---|---|
//! | `address.rs` | [`PoolAddress`]: the addresses of a pool's memory nodes |
//! | `host_port.rs` | [`HostPort`]: the address of one server |
//! | `options.rs` | [`AddressOptions`]: the parameters of such an address |
//! | `credentials.rs` | [`Credentials`]: the token and the certificates of a compute node |
//! | `dial.rs`, `endpoints.rs` | connecting to memory nodes, and the presence connection to node 0 |
//! | `formation.rs` | forming a pool of fresh memory nodes |
//! | `added_nodes.rs`, `growth.rs` | memory nodes that were added to a pool, and their addition |
//! | `known_cut.rs` | the highest cut that the compute node has seen |
//! | `returning.rs` | returning the memory nodes of a pool to a cut |
//! | `membership.rs` | entering the client table, fencing |
//! | `snapshot.rs` | [`PoolSnapshot`]: all memory nodes as they were at one cut |
//! | `pool.rs`, `attachment.rs`, `fabric.rs` | [`ServedPool`], [`ServedFabric`]: the pool as a fabric |
//! | `transport.rs` | [`VerbTransport`]: the differences between TCP and RDMA |
//! | `post.rs`, `in_flight.rs` | posts, and those in flight |
//! | `framed/` | connections that carry frames |
//! | `error.rs`, `timeouts.rs`, `reply_clock.rs` | errors and time limits of connections |

pub(crate) mod added_nodes;
mod address;
mod attachment;
mod credentials;
pub(crate) mod dial;
pub(crate) mod endpoints;
pub(crate) mod error;
mod fabric;
mod formation;
pub(crate) mod framed;
mod growth;
pub(crate) mod host_port;
pub(crate) mod in_flight;
pub(crate) mod known_cut;
mod membership;
mod options;
mod pool;
pub(crate) mod post;
pub(crate) mod reply_clock;
pub(crate) mod returning;
mod snapshot;
pub(crate) mod timeouts;
pub(crate) mod transport;

pub use address::PoolAddress;
pub use credentials::Credentials;
pub use fabric::ServedFabric;
pub use formation::FreshNodePolicy;
pub use host_port::HostPort;
pub use options::AddressOptions;
pub use pool::{NodeReport, ServedPool};
pub use snapshot::PoolSnapshot;
pub use transport::VerbTransport;
