//! Connections that carry frames: verbs and controls of pools over TCP, controls of pools over RDMA.
//!
//! | file | contents |
//! |---|---|
//! | `connections.rs` | one thread's connections, shared by its clients |
//! | `connection.rs` | one of these connections: sends bytes, receives frames, reconnects after a loss |
//! | `encode.rs` | a doorbell as frames |

mod connection;
mod connections;
mod encode;

pub use connections::CAPABILITIES;
pub(crate) use connections::FrameConnections;
