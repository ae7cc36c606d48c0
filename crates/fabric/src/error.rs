//! What can go wrong below the index, for the caller to act on.

use crate::capability::Capability;
use crate::ids::ClientId;
use crate::pointer::{Address, NodeId};
use std::fmt;

/// A post, or the fabric, failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FabricError {
    /// A verb outside the memory node's memory: a corrupt pointer.
    OutOfRange {
        /// Where the verb went.
        at: Address,
        /// How many bytes it was to touch.
        bytes: usize,
    },
    /// A READ or an atomic at an address that is not a multiple of eight: a corrupt pointer.
    Misaligned {
        /// Where the verb went.
        at: Address,
    },
    /// A memory node cannot be reached.
    NodeLost {
        /// Which.
        node: NodeId,
        /// Why, in the transport's words.
        why: String,
    },
    /// This machine, and not the memory node, refuses what a post needs.
    CannotPost {
        /// The memory node that the post was for.
        node: NodeId,
        /// Why, and what would help.
        why: String,
    },
    /// This client was revoked: another client took it for dead. Open the pool again.
    Revoked(ClientId),
    /// The fabric lacks something that the operation asked for.
    Missing(Capability),
    /// No memory node has a free chunk.
    PoolFull {
        /// Chunks of all memory nodes together.
        chunks: u64,
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
    /// The machine has no memory left behind the pool's promise.
    NoMemory {
        /// On which memory node.
        node: NodeId,
        /// In the operating system's words.
        why: String,
    },
    /// All slots of the client table are taken by living clients.
    NoClientSlot {
        /// Slots of the table.
        slots: usize,
    },
    /// All entries of the directory are taken.
    NoDirectoryEntry {
        /// Entries of the directory.
        entries: usize,
    },
    /// What lies at the superblock's place is not a pool, or not one that this version can use.
    NotAPool {
        /// On which memory node.
        node: NodeId,
        /// What is wrong with it.
        why: String,
    },
    /// The directory's lock is held for too long, by a living client, or by nobody that the word names.
    DirectoryBusy(Option<ClientId>),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { at, bytes } => {
                write!(
                    f,
                    "a verb over {bytes} bytes at {at} leaves the memory node: a corrupt pointer; run `farwood check`"
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
                write!(f, "client {client} was taken for dead and revoked; open the pool again")
            }
            Self::Missing(capability) => write!(f, "this fabric lacks the capability: {capability}"),
            Self::PoolFull { chunks, chunk_bytes } => write!(
                f,
                "the pool is full: all {chunks} chunks of {} MiB are taken; drop an index, or make the pool anew with \
                 more memory and load it again",
                chunk_bytes >> 20
            ),
            Self::NoMemory { node, why } => {
                write!(
                    f,
                    "memory node {node} has no memory left behind its promise: {why}; free memory on that machine"
                )
            }
            Self::NoClientSlot { slots } => {
                write!(f, "all {slots} client slots of the pool are taken by living clients; close some")
            }
            Self::NoDirectoryEntry { entries } => {
                write!(f, "the pool's directory is full ({entries} indexes); drop one")
            }
            Self::NotAPool { node, why } => write!(f, "memory node {node} holds no usable pool: {why}"),
            Self::DirectoryBusy(Some(client)) => {
                write!(f, "client {client} holds the pool's directory; try again, or end that client")
            }
            Self::DirectoryBusy(None) => {
                write!(
                    f,
                    "the pool's directory has a lock that names no client: it is damaged; make the pool again"
                )
            }
        }
    }
}

impl std::error::Error for FabricError {}
