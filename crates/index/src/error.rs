//! The errors of indexes.

use farwood_fabric::{Capability, ClientId, FabricError, NodeId};
use std::borrow::Cow;
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
    /// The change of another client stays unfinished. That client may have crashed, or is stopped; a client that may
    /// write would complete or undo the change, and this one may only read.
    Unfinished {
        /// The operation.
        operation: &'static str,
        /// The client, if a lock names it.
        by: Option<ClientId>,
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

impl IndexError {
    /// The text without the operation, for a message that begins with an operation.
    pub fn cause(&self) -> String {
        self.with_remedy(self.description())
    }

    /// The text without the operation and the remedy.
    pub fn description(&self) -> String {
        Description(self).to_string()
    }

    /// The remedy at the end of the text, for a user of the command `farwood`.
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = match self {
            Self::Fabric(error) => error.remedy()?,
            Self::Unsafe { remedy, .. } => remedy,
            Self::Damaged { .. } => "run `farwood check` to list all damage, and load the index again",
            Self::LockHeld { .. } => "resume or end its process (`farwood stat` names it)",
            Self::Exhausted { .. } => "try again",
            Self::Unfinished { .. } => {
                "try again after a process that may write has read the same entries, or run `farwood check` without \
                 --read-only"
            }
            Self::NoSuchIndex(_) => "`farwood stat` lists its indexes, `farwood create` creates one",
            Self::IndexExists(_) => "choose another name, or `farwood drop` it",
            Self::InUse { .. } => "end that client first",
            Self::SameHash => "change one of them",
            Self::NotEmpty => "insert one by one, or drop the index and create it again",
            Self::NotServed { .. }
            | Self::NoConnection { .. }
            | Self::NoAnswer { .. }
            | Self::BeingChanged { .. }
            | Self::NoAccess { .. }
            | Self::Crowded { .. }
            | Self::Elsewhere { .. }
            | Self::ServerLost { .. }
            | Self::Served { .. } => return Some(self.remedy_of_servers()),
            // The reasons of some of these contain a remedy.
            Self::BadSizes(_)
            | Self::WrongLength { .. }
            | Self::TooLong { .. }
            | Self::BadId(_)
            | Self::NoSnapshot(_)
            | Self::BadName(_)
            | Self::WrongFormat(_)
            | Self::MixedLocks { .. }
            | Self::NotSorted { .. } => return None,
        };
        Some(remedy.into())
    }

    /// The remedy of the errors that concern the server of a spatial index.
    fn remedy_of_servers(&self) -> Cow<'static, str> {
        let remedy = match self {
            Self::NotServed { name } => {
                return format!("start `farwood serve` with `--spatial {name}`").into();
            }
            Self::Elsewhere { name, .. } => {
                return format!("start `farwood serve --spatial {name}` there").into();
            }
            Self::NoConnection { .. } => {
                "let it continue (`kill -CONT`), or end it; `farwood stat` shows its process"
            }
            Self::NoAnswer { .. } => {
                "let it continue (`kill -CONT`), or end it, and then search the index to see whether the request was \
                 executed"
            }
            Self::BeingChanged { .. } => "try again, or end that client (`farwood stat` shows its process)",
            Self::NoAccess { .. } => {
                "give the token of its `farwood serve` in FARWOOD_TOKEN_FILE, or as token-file in the URL"
            }
            Self::Crowded { .. } => "end a client, or start `farwood serve` with more `--connections`",
            Self::ServerLost { .. } => "search the index to see whether the request was executed",
            Self::Served { .. } => "send it messages, or end it first (`farwood stat` names it)",
            other => unreachable!("{other:?} concerns no server"),
        };
        remedy.into()
    }

    fn with_remedy(&self, text: String) -> String {
        match self.remedy() {
            Some(remedy) => format!("{text}; {remedy}"),
            None => text,
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
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Damaged { operation, .. }
        | Self::LockHeld { operation, .. }
        | Self::Unfinished { operation, .. }
        | Self::Exhausted { operation, .. } = self
        {
            write!(f, "{operation}: ")?;
        }
        f.write_str(&self.cause())
    }
}

/// Formats an error without its operation and its remedy.
struct Description<'a>(&'a IndexError);

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use IndexError as E;
        match self.0 {
            E::Fabric(error) => f.write_str(&error.description()),
            E::BadSizes(why) | E::BadId(why) | E::BadName(why) | E::WrongFormat(why) => f.write_str(why),
            E::NoSnapshot(why) => write!(f, "no snapshot of the range is possible: {why}"),
            E::TooLong { .. } | E::WrongLength { .. } | E::SameHash => self.fmt_of_data(f),
            E::Unsafe { capability, .. } => {
                write!(f, "the index needs \"{capability}\", which this fabric does not guarantee")
            }
            E::Damaged { at, what, .. } => write!(f, "the node at {at} is damaged: {what}"),
            E::LockHeld { holder, waited_ms, .. } => {
                let holder =
                    holder.map_or_else(|| "a client".to_owned(), |holder| format!("client {holder}"));
                write!(f, "waited {waited_ms} ms for a lock that {holder} holds, which is alive")
            }
            E::Exhausted { tries, .. } => write!(f, "gave up after {tries} tries under contention"),
            E::Unfinished { by, .. } => {
                let by = by.map_or_else(|| "another client".to_owned(), |by| format!("client {by}"));
                write!(
                    f,
                    "{by} has left a change unfinished, which this process cannot complete because it may only read"
                )
            }
            E::NoSuchIndex(name) => write!(f, "the pool has no index '{name}'"),
            E::IndexExists(name) => write!(f, "the pool already has an index '{name}'"),
            E::MixedLocks { other } => write!(
                f,
                "index '{other}' of this pool has locks of another width in the same memory, and a lock word has one \
                 width: create the index in another pool"
            ),
            E::InUse { name, client } => write!(f, "client {client} has the index '{name}' open"),
            E::NotServed { .. }
            | E::NoConnection { .. }
            | E::NoAnswer { .. }
            | E::BeingChanged { .. }
            | E::NoAccess { .. }
            | E::Crowded { .. }
            | E::Elsewhere { .. }
            | E::ServerLost { .. }
            | E::Served { .. } => self.fmt_of_servers(f),
            E::NotEmpty => f.write_str("bulk loading needs an empty index"),
            E::NotSorted { entries } => {
                write!(
                    f,
                    "bulk loading needs strictly increasing keys; the key after the first {entries} is not"
                )
            }
        }
    }
}

impl Description<'_> {
    /// Formats the errors that concern a key, a value or an id.
    fn fmt_of_data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use IndexError as E;
        match self.0 {
            E::TooLong { most, found } => write!(f, "the value has {found} bytes; the limit is {most}"),
            E::WrongLength { what, expected, found } => {
                write!(f, "the index has {what}s of {expected} bytes; this one has {found}")
            }
            E::SameHash => f.write_str("more ids have the same hash than a node holds"),
            other => unreachable!("{other:?} concerns no data"),
        }
    }

    /// Formats the errors that concern the server of a spatial index.
    fn fmt_of_servers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use IndexError as E;
        match self.0 {
            E::NotServed { name } => write!(
                f,
                "no server serves the index '{name}', so it can only be searched by READs (`?search=reads` in the URL)"
            ),
            E::NoConnection { name, by, seconds } => write!(
                f,
                "the server of the index '{name}', client {by}, did not accept a connection for {seconds} s, and \
                 nothing was changed: it is stopped or overloaded"
            ),
            E::NoAnswer { name, seconds } => write!(
                f,
                "the server of the index '{name}' did not answer a request for {seconds} s, and may execute it later: \
                 it is stopped or overloaded"
            ),
            E::BeingChanged { name, by } => write!(
                f,
                "client {by} is changing the index '{name}' and did not end in time, and nothing was changed here"
            ),
            E::NoAccess { name, why } => {
                write!(f, "no access to the server of the index '{name}': {why}")
            }
            E::Crowded { name, connections } => {
                write!(f, "all {connections} connections to the server of the index '{name}' are in use")
            }
            E::Elsewhere { name, node } => write!(
                f,
                "memory node {} of the pool stores the index '{name}', and only that node can serve it",
                node.0
            ),
            E::ServerLost { name } => {
                write!(f, "the server of the index '{name}' was lost before it answered")
            }
            E::Served { by } => {
                write!(f, "client {by} serves the index, and only a server changes it")
            }
            other => unreachable!("{other:?} concerns no server"),
        }
    }
}

/// The text of an error contains that of its cause, so there is no source.
impl std::error::Error for IndexError {}

impl From<FabricError> for IndexError {
    fn from(error: FabricError) -> Self {
        Self::Fabric(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_operation_the_description_and_the_remedy() {
        let exhausted = IndexError::Exhausted { operation: "split", tries: 9 };
        assert_eq!(exhausted.description(), "gave up after 9 tries under contention");
        assert_eq!(exhausted.cause(), "gave up after 9 tries under contention; try again");
        assert_eq!(exhausted.to_string(), "split: gave up after 9 tries under contention; try again");
        let forked = IndexError::Fabric(FabricError::Forked);
        assert_eq!(forked.to_string(), FabricError::Forked.to_string());
        assert_eq!(forked.description(), FabricError::Forked.description());
        assert!(std::error::Error::source(&forked).is_none(), "the text contains that of the cause");
    }
}
