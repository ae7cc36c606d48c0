//! The events of a memory node for its log.

use super::event_sums::SummedEvent;
use crate::wire::Code;
use farwood_fabric::{ByteCount, ClientId};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;

/// A compute node that did not leave the pool by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoneClient {
    /// The identity of the compute node.
    pub client: ClientId,
    /// The address of its first connection.
    pub from: Option<SocketAddr>,
}

/// An event for the operator.
#[derive(Clone, Debug)]
pub enum NodeEvent {
    /// A connection was refused.
    Refused {
        /// The address of the peer.
        from: Option<SocketAddr>,
        /// The code.
        code: Code,
        /// The reason.
        why: String,
    },
    /// A connection was closed for an invalid frame.
    BadFrame {
        /// The address of the peer.
        from: Option<SocketAddr>,
        /// The reason.
        why: String,
    },
    /// Within a second, further connections of one source were refused or closed.
    Repeated {
        /// The source; 0.0.0.0 stands for several sources.
        from: IpAddr,
        /// The kind of their events.
        event: SummedEvent,
        /// Their number without the first, which is a separate event.
        more: u64,
    },
    /// A compute node was revoked: other clients took it for crashed, and none of its verbs executes afterwards.
    Revoked(GoneClient),
    /// The connections of a compute node ended, and it did not leave the pool. No verb of it executes unless it
    /// connects again.
    Lost(GoneClient),
    /// The memory has returned to a cut, because a memory node of the pool had lost its last changes. All connections
    /// have ended.
    Returned {
        /// The cut: milliseconds since 1970, by the clocks of the memory nodes.
        cut: u64,
    },
    /// Its memory has grown.
    Grown {
        /// Host memory that clients use now, bytes.
        memory_bytes: u64,
    },
    /// Its pool has more memory nodes.
    Extended {
        /// Their number.
        nodes: u16,
    },
    /// A checkpoint could not be written. The memory node continues, and its log grows until a later attempt succeeds.
    CheckpointFailed {
        /// The file of the memory node.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A checkpoint was written, after others could not be.
    CheckpointWritten {
        /// The file of the memory node.
        path: PathBuf,
    },
    /// A client has made a snapshot, for `farwood dump --consistent`.
    SnapshotBegun {
        /// The address of the client.
        from: Option<SocketAddr>,
    },
    /// A snapshot has ended.
    SnapshotEnded {
        /// The memory that it had taken, bytes.
        bytes: u64,
        /// The reason, if it was not the end of the dump.
        why: Option<String>,
    },
    /// The RDMA device failed.
    Card(String),
    /// The registration in etcd failed, or works again.
    Discovery(String),
}

impl NodeEvent {
    /// Returns the name of the event, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused { .. } | Self::Repeated { event: SummedEvent::Refused, .. } => "refused",
            Self::BadFrame { .. } | Self::Repeated { event: SummedEvent::BadFrame, .. } => "bad_frame",
            Self::Revoked(_) => "revoked",
            Self::Lost(_) => "lost",
            Self::Returned { .. } => "returned",
            Self::Grown { .. } => "grown",
            Self::Extended { .. } => "extended",
            Self::CheckpointFailed { .. } => "checkpoint_failed",
            Self::CheckpointWritten { .. } => "checkpoint_written",
            Self::SnapshotBegun { .. } => "snapshot_begun",
            Self::SnapshotEnded { .. } => "snapshot_ended",
            Self::Card(_) => "card",
            Self::Discovery(_) => "discovery",
        }
    }

    /// Returns the address of the peer that caused the event. The address has no port if the event summarises several
    /// connections.
    pub fn from(&self) -> Option<String> {
        match self {
            Self::Refused { from, .. } | Self::BadFrame { from, .. } | Self::SnapshotBegun { from } => {
                from.map(|from| from.to_string())
            }
            Self::Repeated { from, .. } => Some(from.to_string()),
            Self::Revoked(gone) | Self::Lost(gone) => gone.from.map(|from| from.to_string()),
            Self::Card(_)
            | Self::Discovery(_)
            | Self::Returned { .. }
            | Self::Grown { .. }
            | Self::Extended { .. }
            | Self::CheckpointFailed { .. }
            | Self::CheckpointWritten { .. }
            | Self::SnapshotEnded { .. } => None,
        }
    }
}

/// The subject of a sentence about further connections.
fn connections(more: u64) -> String {
    match more {
        1 => "1 more connection was".to_owned(),
        more => format!("{more} more connections were"),
    }
}

impl fmt::Display for NodeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { why, .. } => write!(f, "a connection was refused: {why}"),
            Self::BadFrame { why, .. } => write!(f, "a connection was closed for an invalid frame: {why}"),
            Self::Repeated { event: SummedEvent::Refused, more, .. } => {
                write!(f, "{} refused within a second", connections(*more))
            }
            Self::Repeated { event: SummedEvent::BadFrame, more, .. } => {
                write!(f, "{} closed for invalid frames within a second", connections(*more))
            }
            Self::Card(why) => write!(f, "the RDMA device failed: {why}"),
            Self::Discovery(what) => f.write_str(what),
            Self::Grown { memory_bytes } => write!(f, "the memory has grown to {}", ByteCount(*memory_bytes)),
            Self::Extended { nodes } => write!(f, "the pool has {nodes} memory nodes now"),
            Self::CheckpointFailed { path, why } => write!(
                f,
                "cannot write a checkpoint of {}: {why}; the memory node continues, its log beside that file grows, \
                 and it tries again: free space on that file system",
                path.display()
            ),
            Self::CheckpointWritten { path } => {
                write!(f, "wrote a checkpoint of {}: the log is short again", path.display())
            }
            Self::SnapshotBegun { .. } => f.write_str("a snapshot of the memory has begun"),
            Self::SnapshotEnded { bytes, why: None } => {
                write!(f, "the snapshot of the memory has ended; it had taken {}", ByteCount(*bytes))
            }
            Self::SnapshotEnded { why: Some(why), .. } => f.write_str(why),
            Self::Returned { cut } => write!(
                f,
                "a memory node of the pool had lost its last changes, so the memory returned to cut {cut}, and all \
                 connections have ended"
            ),
            Self::Revoked(GoneClient { client, .. }) => write!(f, "client {client} was revoked"),
            Self::Lost(GoneClient { client, .. }) => {
                write!(f, "client {client} is lost: its connections ended, and it did not leave the pool")
            }
        }
    }
}

/// The channel of events; when it is full, events are dropped.
pub type NodeEvents = SyncSender<NodeEvent>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_sum_of_one_connection_is_a_singular() {
        let text = |more| {
            let from = Ipv4Addr::LOCALHOST.into();
            NodeEvent::Repeated { from, event: SummedEvent::Refused, more }.to_string()
        };
        assert_eq!(text(1), "1 more connection was refused within a second");
        assert_eq!(text(2), "2 more connections were refused within a second");
    }
}
