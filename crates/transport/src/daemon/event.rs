//! The events of a memory node for its log.

use crate::wire::Code;
use farwood_fabric::ClientId;
use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;

/// Something that the operator may want to know.
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
    /// A compute node has left or was revoked: none of its verbs lands any more.
    Gone(ClientId),
    /// The RDMA device failed.
    Card(String),
    /// The registration in etcd failed, or works again.
    Discovery(String),
}

impl NodeEvent {
    /// Returns the name of the event, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::BadFrame { .. } => "bad_frame",
            Self::Gone(_) => "gone",
            Self::Card(_) => "card",
            Self::Discovery(_) => "discovery",
        }
    }

    /// Returns the address of the peer that the event is about.
    pub fn from(&self) -> Option<SocketAddr> {
        match self {
            Self::Refused { from, .. } | Self::BadFrame { from, .. } => *from,
            Self::Gone(_) | Self::Card(_) | Self::Discovery(_) => None,
        }
    }
}

impl fmt::Display for NodeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { why, .. } => write!(f, "a connection was refused: {why}"),
            Self::BadFrame { why, .. } => write!(f, "a connection was closed for an invalid frame: {why}"),
            Self::Card(why) => write!(f, "the RDMA device failed: {why}"),
            Self::Discovery(what) => f.write_str(what),
            Self::Gone(client) => write!(f, "client {client} left the pool or was revoked"),
        }
    }
}

/// The channel of events; when it is full, events are dropped.
pub type NodeEvents = SyncSender<NodeEvent>;
