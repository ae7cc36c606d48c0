//! Errors of fabrics.

use crate::byte_count::ByteCount;
use crate::capability::Capability;
use crate::ids::ClientId;
use crate::pointer::{Address, NodeId};
use std::fmt;

/// A failure of a post or of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FabricError {
    /// A verb outside the memory node's memory: a corrupt pointer.
    OutOfRange {
        /// The address of the verb.
        at: Address,
        /// The length of the verb.
        bytes: usize,
    },
    /// A READ or an atomic at an address that is not a multiple of eight: a corrupt pointer.
    Misaligned {
        /// The address of the verb.
        at: Address,
    },
    /// A memory node cannot be reached.
    NodeLost {
        /// The memory node.
        node: NodeId,
        /// The transport's message.
        why: String,
    },
    /// This machine refuses a resource that a post needs.
    CannotPost {
        /// The memory node of the post.
        node: NodeId,
        /// The cause and the remedy.
        why: String,
    },
    /// This client was revoked, because another client considered it crashed. The remedy is to open the pool again.
    Revoked(ClientId),
    /// This process is a forked child of the one that opened the pool. The remedy is to open the pool again in this
    /// process.
    Forked,
    /// The memory of the pool was removed, truncated or replaced while this process was attached.
    MemoryLost {
        /// The memory node.
        node: NodeId,
        /// The file, what happened to it, and the remedy.
        why: String,
    },
    /// The fabric lacks a capability that the operation needs.
    Missing(Capability),
    /// No memory node has a free chunk.
    PoolFull {
        /// Chunks of all memory nodes, including those of the superblocks.
        chunks: u64,
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
    /// The operating system has no memory for a part of the pool that is used for the first time.
    NoMemory {
        /// The memory node.
        node: NodeId,
        /// The operating system's message.
        why: String,
    },
    /// Live clients use all slots of the client table.
    NoClientSlot {
        /// The number of slots.
        slots: usize,
    },
    /// All entries of the directory are in use.
    NoDirectoryEntry {
        /// The number of entries.
        entries: usize,
    },
    /// The memory holds no pool, a damaged pool, or a pool of another version.
    NotAPool {
        /// The memory node.
        node: NodeId,
        /// The first mismatch.
        why: String,
    },
    /// A table of the pool contradicts itself: memory was damaged.
    Damaged {
        /// The memory node of the table.
        node: NodeId,
        /// The damage.
        what: String,
    },
    /// A live client, or a word that names no client, holds the directory lock for too long.
    DirectoryBusy(Option<ClientId>),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { at, bytes } => {
                write!(
                    f,
                    "a verb of {bytes} B at {at} exceeds the memory node: a corrupt pointer; run `farwood check`"
                )
            }
            Self::Misaligned { at } => {
                write!(
                    f,
                    "a verb at {at} needs an address that is a multiple of 8: a corrupt pointer; run `farwood check`"
                )
            }
            Self::NodeLost { node, why } => write!(f, "memory node {node} cannot be reached: {why}"),
            Self::CannotPost { node, why } => {
                write!(f, "this machine cannot reach memory node {node}: {why}")
            }
            Self::Revoked(client) => {
                write!(f, "client {client} was considered crashed and revoked; open the pool again")
            }
            Self::Forked => f.write_str(
                "this process is a forked child of the one that opened the pool, and must not use that handle; \
                 open the pool again in this process",
            ),
            Self::MemoryLost { node, why } => write!(f, "the memory of memory node {node} is lost: {why}"),
            Self::Missing(capability) => {
                write!(f, "this fabric lacks a capability that the index needs: {capability}")
            }
            Self::PoolFull { chunk_bytes, .. } => write!(
                f,
                "the pool is full: indexes have all its chunks of {}; drop an index, or start again with a larger \
                 pool",
                ByteCount(*chunk_bytes)
            ),
            Self::NoMemory { node, why } => {
                write!(
                    f,
                    "the machine of memory node {node} has no memory left for the pool: {why}; free memory there"
                )
            }
            Self::NoClientSlot { slots } => {
                write!(f, "live clients use all {slots} client slots of the pool; close some of them")
            }
            Self::NoDirectoryEntry { entries } => {
                write!(f, "the pool's directory is full: it has {entries} indexes; drop one of them")
            }
            Self::NotAPool { node, why } => write!(f, "memory node {node} holds no usable pool: {why}"),
            Self::Damaged { node, what } => write!(
                f,
                "the tables of the pool on memory node {node} are damaged: {what}; save what can still be read, and \
                 create the pool again"
            ),
            Self::DirectoryBusy(Some(client)) => {
                write!(
                    f,
                    "client {client} holds the lock of the pool's directory; try again, or end that client"
                )
            }
            Self::DirectoryBusy(None) => {
                write!(
                    f,
                    "the lock of the pool's directory names no client: the pool is damaged; create it again"
                )
            }
        }
    }
}

impl std::error::Error for FabricError {}
