//! The errors of indexes.

use farwood_fabric::{Capability, ClientId, FabricError, NodeId};
use std::fmt;

/// An operation on an index failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// A verb of the operation failed.
    Fabric(FabricError),
    /// The requested sizes are invalid.
    BadSizes(String),
    /// The key or value does not have the length with which the index was created.
    WrongLength {
        /// "key" or "value".
        what: &'static str,
        /// The index's length, bytes.
        expected: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// The value is longer than the limit.
    TooLong {
        /// The limit, bytes.
        most: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// The id is invalid, or the index cannot hold it.
    BadId(String),
    /// More ids have the hash of this one than a node holds.
    SameHash,
    /// A snapshot of the range is impossible for the given reason.
    NoSnapshot(&'static str),
    /// The fabric lacks a guarantee on which the consistency of the index depends.
    Unsafe {
        /// The missing guarantee.
        capability: Capability,
        /// The remedy.
        remedy: &'static str,
    },
    /// A node contradicts the tree, or stays torn: memory was damaged, or a crash interrupted a WRITE that is longer
    /// than the fabric completes.
    Damaged {
        /// The operation that read the node.
        operation: &'static str,
        /// The address of the node.
        at: String,
        /// The damage.
        what: String,
    },
    /// One live client, or several in succession, held a lock for too long.
    LockHeld {
        /// The operation that waited.
        operation: &'static str,
        /// The present holder, if the lock names it.
        holder: Option<ClientId>,
        /// The time that this client waited, milliseconds.
        waited_ms: u64,
    },
    /// A retry loop reached its bound: other clients changed the tree faster than this one could follow.
    Exhausted {
        /// The operation.
        operation: &'static str,
        /// The number of attempts.
        tries: u32,
    },
    /// The pool has no index of that name.
    NoSuchIndex(String),
    /// The pool has an index of that name already.
    IndexExists(String),
    /// The name is invalid for an index.
    BadName(String),
    /// The directory entry has another kind, or another version of the format.
    WrongFormat(String),
    /// Another index of the pool uses locks of another width in the same memory.
    MixedLocks {
        /// That index.
        other: String,
    },
    /// The index is open elsewhere.
    InUse {
        /// The index.
        name: String,
        /// The client that has it open.
        client: ClientId,
    },
    /// No server serves the index.
    NotServed {
        /// The index.
        name: String,
    },
    /// The server of the index runs, but accepts no connection. Nothing was changed.
    NoConnection {
        /// The index.
        name: String,
        /// The server.
        by: ClientId,
        /// The time that the client waited, seconds.
        seconds: u64,
    },
    /// The server of the index runs, but does not answer a request, which it may execute later.
    NoAnswer {
        /// The index.
        name: String,
        /// The time that the client waited, seconds.
        seconds: u64,
    },
    /// Another client changes the index itself, and does not end. Nothing was changed.
    BeingChanged {
        /// The index.
        name: String,
        /// The other client.
        by: ClientId,
    },
    /// The server of the index and this client do not prove the same token to each other.
    NoAccess {
        /// The index.
        name: String,
        /// The reason.
        why: String,
    },
    /// All connections to the server of the index are in use.
    Crowded {
        /// The index.
        name: String,
        /// The number of connections.
        connections: usize,
    },
    /// The memory node that should serve the index does not store it.
    Elsewhere {
        /// The index.
        name: String,
        /// The memory node that stores it.
        node: NodeId,
    },
    /// The server stopped, or another one replaced it, before it answered: the request may have been executed.
    ServerLost {
        /// The index.
        name: String,
    },
    /// Another compute node serves the index, and only the server may change it.
    Served {
        /// The client that serves it.
        by: ClientId,
    },
    /// Bulk loading needs an empty index.
    NotEmpty,
    /// Bulk loading needs strictly increasing keys.
    NotSorted {
        /// The number of entries in order.
        entries: u64,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric(error) => error.fmt(f),
            Self::BadSizes(why) | Self::BadId(why) | Self::BadName(why) | Self::WrongFormat(why) => {
                f.write_str(why)
            }
            Self::NoSnapshot(why) => write!(f, "no snapshot of the range is possible: {why}"),
            Self::TooLong { .. } | Self::WrongLength { .. } | Self::SameHash => self.fmt_of_data(f),
            Self::Unsafe { capability, remedy } => {
                write!(f, "the index needs \"{capability}\", which this fabric does not guarantee; {remedy}")
            }
            Self::Damaged { operation, at, what } => write!(
                f,
                "{operation}: the node at {at} is damaged: {what}; run `farwood check` to list all damage, and load \
                 the index again"
            ),
            Self::LockHeld { operation, holder, waited_ms } => {
                let holder =
                    holder.map_or_else(|| "a client".to_owned(), |holder| format!("client {holder}"));
                write!(
                    f,
                    "{operation}: waited {waited_ms} ms for a lock that {holder} holds, which is alive; resume or end \
                     its process (`farwood stat` names it)"
                )
            }
            Self::Exhausted { operation, tries } => {
                write!(f, "{operation}: gave up after {tries} tries under contention; try again")
            }
            Self::NoSuchIndex(name) => {
                write!(
                    f,
                    "the pool has no index '{name}'; `farwood stat` lists its indexes, `farwood create` creates one"
                )
            }
            Self::IndexExists(name) => {
                write!(f, "the pool already has an index '{name}'; choose another name, or `farwood drop` it")
            }
            Self::MixedLocks { other } => write!(
                f,
                "index '{other}' of this pool has locks of another width in the same memory, and a lock word has one \
                 width: create the index in another pool"
            ),
            Self::InUse { name, client } => {
                write!(f, "client {client} has the index '{name}' open; end that client first")
            }
            Self::NotServed { .. }
            | Self::NoConnection { .. }
            | Self::NoAnswer { .. }
            | Self::BeingChanged { .. }
            | Self::NoAccess { .. }
            | Self::Crowded { .. }
            | Self::Elsewhere { .. }
            | Self::ServerLost { .. }
            | Self::Served { .. } => self.fmt_of_servers(f),
            Self::NotEmpty => f.write_str(
                "bulk loading needs an empty index; insert one by one, or drop the index and create it again",
            ),
            Self::NotSorted { entries } => {
                write!(
                    f,
                    "bulk loading needs strictly increasing keys; the key after the first {entries} is not"
                )
            }
        }
    }
}

impl IndexError {
    /// The text without the operation, for a message that begins with an operation.
    pub fn cause(&self) -> String {
        let text = self.to_string();
        match self {
            Self::Damaged { operation, .. }
            | Self::LockHeld { operation, .. }
            | Self::Exhausted { operation, .. } => {
                let rest = text.strip_prefix(operation).and_then(|rest| rest.strip_prefix(": "));
                rest.map_or_else(|| text.clone(), str::to_owned)
            }
            _ => text,
        }
    }

    /// Whether a WRITE of the failed operation may have been executed.
    pub(crate) fn may_be_written(&self) -> bool {
        matches!(self, Self::Fabric(_)) && !self.is_full()
    }

    /// Whether no memory was left for an object.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Fabric(FabricError::PoolFull { .. } | FabricError::NoMemory { .. }))
    }

    /// Formats the errors that concern a key, a value or an id.
    fn fmt_of_data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { most, found } => {
                write!(f, "the value has {found} bytes; the limit is {most}")
            }
            Self::WrongLength { what, expected, found } => {
                write!(f, "the index has {what}s of {expected} bytes; this one has {found}")
            }
            Self::SameHash => {
                f.write_str("more ids have the same hash than a node holds; change one of them")
            }
            other => unreachable!("{other:?} concerns no data"),
        }
    }

    /// Formats the errors that concern the server of a spatial index.
    fn fmt_of_servers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed { name } => write!(
                f,
                "no server serves the index '{name}', so it can only be searched by READs (`?search=reads` in the \
                 URL); start `farwood serve` with `--spatial {name}`"
            ),
            Self::NoConnection { name, by, seconds } => write!(
                f,
                "the server of the index '{name}', client {by}, did not accept a connection for {seconds} s, and \
                 nothing was changed: it is stopped or overloaded; let it continue (`kill -CONT`), or end it; `farwood \
                 stat` shows its process"
            ),
            Self::NoAnswer { name, seconds } => write!(
                f,
                "the server of the index '{name}' did not answer a request for {seconds} s, and may execute it later: \
                 it is stopped or overloaded; let it continue (`kill -CONT`), or end it, and then search the index to \
                 see whether the request was executed"
            ),
            Self::BeingChanged { name, by } => write!(
                f,
                "client {by} is changing the index '{name}' and did not end in time, and nothing was changed here; try \
                 again, or end that client (`farwood stat` shows its process)"
            ),
            Self::NoAccess { name, why } => write!(
                f,
                "no access to the server of the index '{name}': {why}; give the token of its `farwood serve` in \
                 FARWOOD_TOKEN_FILE, or as token-file in the URL"
            ),
            Self::Crowded { name, connections } => write!(
                f,
                "all {connections} connections to the server of the index '{name}' are in use; end a client, or start \
                 `farwood serve` with more `--connections`"
            ),
            Self::Elsewhere { name, node } => write!(
                f,
                "memory node {} of the pool stores the index '{name}', and only that node can serve it; start \
                 `farwood serve --spatial {name}` there",
                node.0
            ),
            Self::ServerLost { name } => write!(
                f,
                "the server of the index '{name}' was lost before it answered; search the index to see whether the \
                 request was executed"
            ),
            Self::Served { by } => write!(
                f,
                "client {by} serves the index, and only a server changes it; send it messages, or end it first \
                 (`farwood stat` names it)"
            ),
            other => unreachable!("{other:?} concerns no server"),
        }
    }
}

impl std::error::Error for IndexError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Fabric(error) => Some(error),
            _ => None,
        }
    }
}

impl From<FabricError> for IndexError {
    fn from(error: FabricError) -> Self {
        Self::Fabric(error)
    }
}
