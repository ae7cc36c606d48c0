//! The configuration of a memory node.

use super::event::NodeEvents;
use super::store::NodeFile;
use crate::stream::{AcceptedTokens, ServerTls};
use std::net::SocketAddr;
use std::time::Duration;

/// The default limit of connections.
pub const CONNECTIONS_MAX_DEFAULT: usize = 10_000;
/// The default time for which a memory node's threads poll before they sleep.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// The configuration of a memory node to start.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Host memory, bytes.
    pub host_bytes: u64,
    /// Device memory, bytes; `None`: 256 KiB, or the memory of the device that executes the verbs, if that is
    /// less.
    pub device_bytes: Option<u64>,
    /// The file that keeps its memory; without a file, the memory ends with the memory node.
    pub file: Option<NodeFile>,
    /// The accepted tokens: a compute node must know one of them.
    pub token: Option<AcceptedTokens>,
    /// The certificate that it presents, and the authorities that it trusts; without TLS, all bytes are sent
    /// unencrypted.
    pub tls: Option<ServerTls>,
    /// The channel for events.
    pub events: Option<NodeEvents>,
    /// Threads, at most 1024; 0: one for each processor, at most four.
    pub threads: usize,
    /// The limit of connections, 1 to 1,048,576.
    pub connections_max: usize,
    /// The time for which its threads poll before they sleep, at most a second.
    pub spin: Duration,
}

/// Maximum threads of a memory node.
const THREADS_MAX: usize = 1024;
/// Maximum connections of a memory node.
const CONNECTIONS_MAX: usize = 1 << 20;
/// The longest time for which threads poll.
const SPIN_MAX: Duration = Duration::from_secs(1);

impl NodeSpec {
    /// Describes why a memory node cannot have these numbers; returns `None` if it can.
    pub(super) fn refuse(&self) -> Option<String> {
        if self.threads > THREADS_MAX {
            return Some(format!("it has at most {THREADS_MAX} threads, not {}", self.threads));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections_max) {
            let connections = self.connections_max;
            return Some(format!("it has 1 to {CONNECTIONS_MAX} connections, not {connections}"));
        }
        if self.spin > SPIN_MAX {
            return Some(format!("its threads poll for at most {SPIN_MAX:?}, not {:?}", self.spin));
        }
        None
    }

    /// A configuration with defaults.
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
