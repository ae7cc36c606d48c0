//! What an index tells its caller.

use farwood_fabric::{Capability, ClientId, FabricError, NodeId};
use std::fmt;

/// An operation on an index failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// The fabric failed.
    Fabric(FabricError),
    /// The sizes asked for cannot be.
    BadSizes(String),
    /// A key or value of another length than the index was created with.
    WrongLength {
        /// "key" or "value".
        what: &'static str,
        /// The index's length, bytes.
        expected: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// A value longer than any can be.
    TooLong {
        /// The longest, bytes.
        most: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// A range cannot be seen as it is at one moment; why not.
    NoSnapshot(&'static str),
    /// The fabric lacks a promise that the index's consistency rests on.
    Unsafe {
        /// The missing promise.
        capability: Capability,
        /// What to do.
        remedy: &'static str,
    },
    /// A node is not what the tree says it is, or stays torn: memory was damaged, or a WRITE of
    /// more than the fabric keeps whole was cut off.
    Damaged {
        /// The operation that met it.
        operation: &'static str,
        /// Where the node is.
        at: String,
        /// What is wrong with it.
        what: String,
    },
    /// Living clients had a lock for too long, one or several in turn.
    LockHeld {
        /// The operation that waited.
        operation: &'static str,
        /// Who has it now, where the lock tells.
        holder: Option<ClientId>,
        /// For how long this client waited, in milliseconds.
        waited_ms: u64,
    },
    /// A loop came to its bound: other clients changed the tree faster than this one could follow.
    Exhausted {
        /// The operation.
        operation: &'static str,
        /// How often it tried.
        tries: u32,
    },
    /// There is no index of that name.
    NoSuchIndex(String),
    /// There already is an index of that name.
    IndexExists(String),
    /// The name cannot be an index's.
    BadName(String),
    /// The directory entry is of another kind, or of another version of the format.
    WrongFormat(String),
    /// Another index of the pool has locks of another width in the same memory.
    MixedLocks {
        /// That index.
        other: String,
    },
    /// The index is open elsewhere.
    InUse {
        /// The index.
        name: String,
        /// Who has it open.
        client: ClientId,
    },
    /// Nobody serves the index, or whoever does is not answering.
    NotServed {
        /// The index.
        name: String,
    },
    /// All connections to the server of the index are taken.
    Crowded {
        /// The index.
        name: String,
        /// How many there are.
        connections: usize,
    },
    /// The index lies on another memory node than the one that is to serve it.
    Elsewhere {
        /// The index.
        name: String,
        /// Where it lies.
        node: NodeId,
    },
    /// The server came to its end, or another took its place, before it answered: what was asked was done, or not.
    ServerLost {
        /// The index.
        name: String,
    },
    /// Another compute node serves the index, and nobody else may change it.
    Served {
        /// Who does.
        by: ClientId,
    },
    /// Bulk loading needs an empty index.
    NotEmpty,
    /// Bulk loading needs strictly increasing keys.
    NotSorted {
        /// How many entries were in order.
        entries: u64,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric(error) => error.fmt(f),
            Self::BadSizes(why) | Self::BadName(why) | Self::WrongFormat(why) => f.write_str(why),
            Self::NoSnapshot(why) => write!(f, "there is no snapshot of the range: {why}"),
            Self::TooLong { most, found } => {
                write!(f, "the value has {found} bytes, and values have at most {most}")
            }
            Self::WrongLength { what, expected, found } => {
                write!(f, "the index has {what}s of {expected} bytes; this one has {found}")
            }
            Self::Unsafe { capability, remedy } => {
                write!(f, "the index needs \"{capability}\", which this fabric does not promise; {remedy}")
            }
            Self::Damaged { operation, at, what } => write!(
                f,
                "{operation}: the node at {at} is damaged: {what}; run `farwood check` for all of the damage, and load \
                 the index again"
            ),
            Self::LockHeld { operation, holder, waited_ms } => {
                let holder =
                    holder.map_or_else(|| "a client".to_owned(), |holder| format!("client {holder}"));
                write!(
                    f,
                    "{operation}: waited {waited_ms} ms for a lock that {holder} has, which is alive; resume or end \
                     its process (`farwood stat` names it)"
                )
            }
            Self::Exhausted { operation, tries } => {
                write!(f, "{operation}: gave up after {tries} tries under contention; try again")
            }
            Self::NoSuchIndex(name) => {
                write!(
                    f,
                    "there is no index '{name}' in the pool; `farwood stat` lists them, `farwood create` makes one"
                )
            }
            Self::IndexExists(name) => {
                write!(
                    f,
                    "there already is an index '{name}' in the pool; choose another name, or `farwood drop` it"
                )
            }
            Self::MixedLocks { other } => write!(
                f,
                "index '{other}' has locks of another width in the same memory of this pool, and a lock's word is of \
                 one width: create the index in a pool of its own"
            ),
            Self::InUse { name, client } => {
                write!(f, "client {client} has the index '{name}' open; end that client first")
            }
            Self::NotServed { .. }
            | Self::Crowded { .. }
            | Self::Elsewhere { .. }
            | Self::ServerLost { .. }
            | Self::Served { .. } => self.fmt_of_servers(f),
            Self::NotEmpty => {
                write!(
                    f,
                    "bulk loading needs an empty index; insert one by one, or drop the index and create it again"
                )
            }
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
    /// Whether a WRITE may have been executed of an operation that ended so.
    pub(crate) fn may_be_written(&self) -> bool {
        let full = |error: &FabricError| {
            matches!(error, FabricError::PoolFull { .. } | FabricError::NoMemory { .. })
        };
        matches!(self, Self::Fabric(error) if !full(error))
    }

    /// What concerns the server of a spatial index.
    fn fmt_of_servers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed { name } => write!(
                f,
                "nobody serves the index '{name}', so it can be searched only; start `farwood serve` with \
                 `--spatial {name}`"
            ),
            Self::Crowded { name, connections } => write!(
                f,
                "all {connections} connections to the server of the index '{name}' are taken; end a client, or start \
                 `farwood serve` with more `--connections`"
            ),
            Self::Elsewhere { name, node } => write!(
                f,
                "the index '{name}' lies on memory node {} of the pool, and only that one can serve it; start \
                 `farwood serve --spatial {name}` there",
                node.0
            ),
            Self::ServerLost { name } => write!(
                f,
                "the server of the index '{name}' was lost before it answered; whether it did what was asked, a search \
                 tells"
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
