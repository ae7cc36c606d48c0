//! What a memory node is started with.

use super::event::NodeEvents;
use super::store::NodeFile;
use crate::stream::{ServerTls, Token};
use std::net::SocketAddr;
use std::time::Duration;

/// Connections that a memory node takes unless told.
pub const CONNECTIONS_MAX_DEFAULT: usize = 10_000;
/// How long a memory node's threads look for work before they sleep, unless told.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// A memory node to be started.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Host memory, bytes.
    pub host_bytes: u64,
    /// Device memory, bytes; `None`: 256 KiB, or where a card executes the verbs what it has, if that is less.
    pub device_bytes: Option<u64>,
    /// The file that keeps its memory; without one, the memory is gone with the memory node.
    pub file: Option<NodeFile>,
    /// What compute nodes have to show.
    pub token: Option<Token>,
    /// What it shows compute nodes, and whom of them it believes; without, everything goes over the wire as it is.
    pub tls: Option<ServerTls>,
    /// Who is told what goes wrong.
    pub events: Option<NodeEvents>,
    /// Threads; 0: one for each processor, at most four.
    pub threads: usize,
    /// Most connections at a time.
    pub connections_max: usize,
    /// How long its threads look for work before they sleep.
    pub spin: Duration,
}

impl NodeSpec {
    /// A memory node with defaults.
    pub fn new(listen: SocketAddr, host_bytes: u64) -> Self {
        Self {
            listen,
            host_bytes,
            device_bytes: None,
            file: None,
            token: None,
            tls: None,
            events: None,
            threads: 0,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            spin: SPIN_DEFAULT,
        }
    }
}
