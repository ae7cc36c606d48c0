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
    /// This process has opened the pool for reading only, or its token permits only reads. The change was not begun.
    ReadOnly,
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
        /// Chunks for indexes, of all memory nodes.
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

impl FabricError {
    /// The text without the remedy.
    pub fn description(&self) -> String {
        Description(self).to_string()
    }

    /// The remedy at the end of the text, for a user of the command `farwood`.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::OutOfRange { .. } | Self::Misaligned { .. } => Some("run `farwood check`"),
            Self::Revoked(_) => Some("open the pool again"),
            Self::Forked => Some("open the pool again in this process"),
            Self::ReadOnly => Some(
                "open the pool without --read-only, with the token for reading and writing if it requires one",
            ),
            Self::PoolFull { .. } => Some("drop an index, or give the pool more memory"),
            Self::NoMemory { .. } => Some("free memory there"),
            Self::NoClientSlot { .. } => Some("close some of them"),
            Self::NoDirectoryEntry { .. } => Some("drop one of them"),
            Self::Damaged { .. } => Some("save what can still be read, and create the pool again"),
            Self::DirectoryBusy(Some(_)) => Some("try again, or end that client"),
            Self::DirectoryBusy(None) => Some("create it again"),
            // The reasons of some of these contain a remedy.
            Self::NodeLost { .. }
            | Self::CannotPost { .. }
            | Self::MemoryLost { .. }
            | Self::Missing(_)
            | Self::NotAPool { .. } => None,
        }
    }
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Description(self).fmt(f)?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

/// Formats an error without its remedy.
struct Description<'a>(&'a FabricError);

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FabricError as E;
        match self.0 {
            E::OutOfRange { at, bytes } => {
                write!(f, "a verb of {bytes} B at {at} exceeds the memory node: a corrupt pointer")
            }
            E::Misaligned { at } => {
                write!(f, "a verb at {at} needs an address that is a multiple of 8: a corrupt pointer")
            }
            E::NodeLost { node, why } => write!(f, "memory node {node} cannot be reached: {why}"),
            E::CannotPost { node, why } => write!(f, "this machine cannot reach memory node {node}: {why}"),
            E::Revoked(client) => write!(f, "client {client} was considered crashed and revoked"),
            E::Forked => f.write_str(
                "this process is a forked child of the one that opened the pool, and must not use that handle",
            ),
            E::ReadOnly => f.write_str("this process may only read the pool"),
            E::MemoryLost { node, why } => write!(f, "the memory of memory node {node} is lost: {why}"),
            E::Missing(capability) => {
                write!(f, "this fabric lacks a capability that the index needs: {capability}")
            }
            E::PoolFull { chunk_bytes, .. } => {
                write!(f, "the pool is full: indexes have all its chunks of {}", ByteCount(*chunk_bytes))
            }
            E::NoMemory { node, why } => {
                write!(f, "the machine of memory node {node} has no memory left for the pool: {why}")
            }
            E::NoClientSlot { slots } => {
                write!(f, "live clients use all {slots} client slots of the pool")
            }
            E::NoDirectoryEntry { entries } => {
                write!(f, "the pool's directory is full: it has {entries} indexes")
            }
            E::NotAPool { node, why } => write!(f, "memory node {node} holds no usable pool: {why}"),
            E::Damaged { node, what } => {
                write!(f, "the tables of the pool on memory node {node} are damaged: {what}")
            }
            E::DirectoryBusy(Some(client)) => {
                write!(f, "client {client} holds the lock of the pool's directory")
            }
            E::DirectoryBusy(None) => {
                f.write_str("the lock of the pool's directory names no client: the pool is damaged")
            }
        }
    }
}

impl std::error::Error for FabricError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_description_and_the_remedy() {
        let full = FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 };
        assert_eq!(full.description(), "the pool is full: indexes have all its chunks of 8 MiB");
        assert_eq!(full.to_string(), format!("{}; {}", full.description(), full.remedy().unwrap()));
        let lost = FabricError::NodeLost { node: NodeId(1), why: "closed".to_owned() };
        assert_eq!((lost.to_string(), lost.remedy()), (lost.description(), None));
    }
}
