//! The configuration of a memory node.

use super::event::NodeEvents;
use super::snapshot::SnapshotMutant;
use super::store::{MemorySizes, NodeFile};
use crate::stream::{AcceptedTokens, ServerTls};
use farwood_fabric::superblock::DEVICE_BYTES_DEFAULT;
use farwood_fabric::{ByteCount, PoolShape};
use std::net::SocketAddr;
use std::time::Duration;

/// The default limit of connections.
pub const CONNECTIONS_MAX_DEFAULT: usize = 10_000;
/// The time for which a memory node's threads poll before they sleep, by default, on a machine with enough processors.
const SPIN_DEFAULT: Duration = Duration::from_micros(50);
/// Processors of a machine whose memory nodes poll by default: twice the threads of a memory node, so that one memory
/// node leaves half of them to clients.
///
/// On 2 processors, two memory nodes that poll serve 6 clients with a third of the operations per second
/// (`docs/cli.md`, serve).
const SPIN_PROCESSORS_MIN: usize = 2 * THREADS_DEFAULT_MAX;
/// The maximum number of threads of a memory node by default.
pub(super) const THREADS_DEFAULT_MAX: usize = 4;

/// The configuration of a memory node to start.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Host memory, bytes. If its file has more, it keeps that.
    pub host_bytes: u64,
    /// Host memory to which it can grow, bytes; `None`: it cannot grow. The operating system allocates only what
    /// clients use. Memory that a device accesses does not grow, and a file keeps the number that it was created with.
    pub host_bytes_max: Option<u64>,
    /// Device memory, bytes; `None`: 256 KiB, or the memory of the device that executes the verbs, if that is
    /// less.
    pub device_bytes: Option<u64>,
    /// The file that keeps its memory; without a file, the memory ends with the memory node.
    pub file: Option<NodeFile>,
    /// The accepted tokens: a compute node must know one of them.
    pub token: Option<AcceptedTokens>,
    /// The tokens for reading: a compute node that knows only one of them executes READs, and nothing else. They need
    /// [`token`](Self::token), and must differ from it. A device that executes verbs cannot enforce them.
    pub read_token: Option<AcceptedTokens>,
    /// The certificate that it presents, and the authorities that it trusts; without TLS, all bytes are sent
    /// unencrypted.
    pub tls: Option<ServerTls>,
    /// The channel for events.
    pub events: Option<NodeEvents>,
    /// Threads, at most 1024; 0: one for each processor, at most four.
    pub threads: usize,
    /// The limit of connections, 1 to 1,048,576.
    pub connections_max: usize,
    /// The time for which its threads poll before they sleep, at most a second; by default 50 microseconds, or 0 on
    /// a machine with fewer than 8 processors.
    pub spin: Duration,
    /// The limit of the memory that a snapshot (`farwood dump --consistent`) takes beside that of the pool, bytes;
    /// `None`: a quarter of host memory.
    pub snapshot_bytes_max: Option<u64>,
    /// For tests.
    #[doc(hidden)]
    pub snapshot_mutant: Option<SnapshotMutant>,
}

/// Maximum threads of a memory node.
const THREADS_MAX: usize = 1024;
/// Maximum connections of a memory node.
const CONNECTIONS_MAX: usize = 1 << 20;
/// The longest time for which threads poll.
const SPIN_MAX: Duration = Duration::from_secs(1);

impl NodeSpec {
    /// The sizes of its memory.
    ///
    /// # Errors
    /// The reason, if no memory node can have them.
    pub(super) fn sizes(&self) -> Result<MemorySizes, String> {
        let sizes = MemorySizes {
            memory: self.host_bytes,
            memory_max: self.host_bytes_max.unwrap_or(self.host_bytes),
            device: self.device_bytes.unwrap_or(DEVICE_BYTES_DEFAULT),
        };
        let refuse =
            |host_bytes| PoolShape { pool: 1, nodes: 1, host_bytes, device_bytes: sizes.device }.refuse();
        let (most, memory) = (ByteCount(sizes.memory_max), ByteCount(sizes.memory));
        let too_little = || {
            let less = sizes.memory_max < sizes.memory;
            less.then(|| {
                format!("it can grow to {most} (--memory-max), which is less than its memory, {memory}")
            })
        };
        let refused = refuse(sizes.memory).or_else(too_little).or_else(|| refuse(sizes.memory_max));
        refused.map_or(Ok(sizes), Err)
    }

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
        self.refuse_read_token()
    }

    /// Describes why a device cannot execute the verbs of such a memory node; returns `None` if it can.
    pub(super) fn refuse_for_executor(&self) -> Option<String> {
        if self.host_bytes_max.is_some_and(|most| most != self.host_bytes) {
            let why = "an RDMA device registers all memory when the memory node starts, so it cannot grow: omit \
                       --memory-max, or --rdma";
            return Some(why.to_owned());
        }
        let why = "an RDMA device executes every verb of a client, so no token can permit only reads there: omit the \
                   token for reading, or serve the pool over TCP";
        self.read_token.as_ref().map(|_| why.to_owned())
    }

    /// Describes why the tokens for reading cannot be used; returns `None` if they can, or if there are none.
    fn refuse_read_token(&self) -> Option<String> {
        let read_token = self.read_token.as_ref()?;
        let Some(token) = &self.token else {
            return Some(
                "a token for reading restricts nobody while clients without a token may write: give it a token for \
                 reading and writing, too (--token-file)"
                    .to_owned(),
            );
        };
        token.overlaps(read_token).then(|| {
            "the token for reading is also the token for reading and writing: write another one to its file"
                .to_owned()
        })
    }

    /// A configuration with defaults.
    pub fn new(listen: SocketAddr, host_bytes: u64) -> Self {
        Self {
            listen,
            host_bytes,
            host_bytes_max: None,
            device_bytes: None,
            file: None,
            token: None,
            read_token: None,
            tls: None,
            events: None,
            threads: 0,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            spin: spin_on(std::thread::available_parallelism().map_or(1, usize::from)),
            snapshot_bytes_max: None,
            snapshot_mutant: None,
        }
    }
}

/// How long a memory node's threads poll by default on a machine with that many processors: threads that poll take the
/// processor from those that work.
fn spin_on(processors: usize) -> Duration {
    if processors < SPIN_PROCESSORS_MIN { Duration::ZERO } else { SPIN_DEFAULT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_nodes_poll_where_clients_have_processors_of_their_own() {
        assert_eq!([1, 2, 4, 7].map(spin_on), [Duration::ZERO; 4]);
        assert_eq!([8, 64].map(spin_on), [SPIN_DEFAULT; 2]);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spec = NodeSpec::new("127.0.0.1:0".parse().unwrap(), 16 << 20);
        assert_eq!(spec.spin, spin_on(processors));
    }
}
