//! What a memory node tells its log: who was not let in, who was closed, who is gone.

use crate::wire::Code;
use farwood_fabric::ClientId;
use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;

/// Something that its operator may want to know.
#[derive(Clone, Debug)]
pub enum NodeEvent {
    /// A connection was not let in.
    Refused {
        /// From where it came.
        from: Option<SocketAddr>,
        /// Why.
        code: Code,
        /// In words.
        why: String,
    },
    /// A connection was closed because of what it sent.
    BadFrame {
        /// From where it came.
        from: Option<SocketAddr>,
        /// What was wrong.
        why: String,
    },
    /// A compute node has left, or was revoked: nothing of it lands any more.
    Gone(ClientId),
    /// Its card does not do what it should.
    Card(String),
    /// It is not on the list by which compute nodes find it, or is on it again.
    Discovery(String),
}

impl NodeEvent {
    /// Its name, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::BadFrame { .. } => "bad_frame",
            Self::Gone(_) => "gone",
            Self::Card(_) => "card",
            Self::Discovery(_) => "discovery",
        }
    }

    /// Where the connection came from that it is about.
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
            Self::Refused { why, .. } => write!(f, "a connection was not let in: {why}"),
            Self::BadFrame { why, .. } => write!(f, "a connection was closed for what it sent: {why}"),
            Self::Card(why) => write!(f, "the card does not do what it should: {why}"),
            Self::Discovery(what) => f.write_str(what),
            Self::Gone(client) => write!(f, "client {client} is gone: it has left, or was revoked"),
        }
    }
}

/// Where events go; those that nobody takes in time are dropped.
pub type NodeEvents = SyncSender<NodeEvent>;
