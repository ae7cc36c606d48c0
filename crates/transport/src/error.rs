//! Errors of memory nodes, and of the pools that they serve, with remedies.

use crate::remedy;
use farwood_fabric::{ByteCount, FabricError};
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

/// An error of a memory node to start, or of a pool to open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TcpError {
    /// The text is not a list of addresses.
    #[error("'{text}': {why}")]
    BadAddress {
        /// The text.
        text: String,
        /// The reason why it is invalid, and the remedy.
        why: String,
    },
    /// A memory node cannot have these sizes.
    #[error("a memory node cannot be started: {0}")]
    BadShape(String),
    /// A memory node could not listen.
    #[error("cannot listen on {address}: {error}{}", self.suffix())]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// There is not enough memory.
    #[error("cannot take {} of memory: {error}{}", ByteCount(*bytes), self.suffix())]
    Memory {
        /// The requested bytes.
        bytes: u64,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The device that executes a memory node's verbs failed.
    #[error("the memory node's RDMA device: {why}")]
    Card {
        /// The reason, and the remedy.
        why: String,
    },
    /// Any other system error of a memory node.
    #[error("cannot {operation}: {error}")]
    System {
        /// The failed operation.
        operation: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file of a token is unreadable or holds no token.
    #[error("cannot use the token file {}: {why}{}", path.display(), self.suffix())]
    Token {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A file of TLS is unreadable or has the wrong content.
    #[error("{} ({option}): {why}", path.display())]
    Tls {
        /// The option or parameter that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason, and the remedy.
        why: String,
    },
    /// A file cannot keep a memory node's memory.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason, and the remedy.
        fault: FileFault,
    },
    /// The last memory node of a file did not stop cleanly.
    #[error(
        "{}: the last memory node on this file crashed, so that its last writes may be incomplete{}",
        path.display(),
        self.suffix()
    )]
    Unclean {
        /// The file.
        path: PathBuf,
    },
    /// No memory node answers at the address.
    #[error("{}{}", not_there(address, why), self.suffix())]
    NotThere {
        /// The address.
        address: String,
        /// The reason.
        why: String,
    },
    /// The memory node requires another token.
    #[error("the memory node at {address} refuses this client: {why}{}", self.suffix())]
    BadToken {
        /// The address.
        address: String,
        /// The memory node's message.
        why: String,
    },
    /// The token of this client permits only reads, and the client has not asked for reading only.
    #[error("the memory node at {address} permits only reads with this client's token{}", self.suffix())]
    ReadOnlyToken {
        /// The address.
        address: String,
    },
    /// The memory node does not know the token of this client.
    #[error("the memory node at {address} does not know this client's token: {why}{}", self.suffix())]
    Unproven {
        /// The address.
        address: String,
        /// The memory node's answer instead of the proof.
        why: String,
    },
    /// The memory node and this program do not trust each other, or only one of them uses TLS.
    #[error("no TLS with the memory node at {address}: {why}{}", self.suffix())]
    Untrusted {
        /// The address.
        address: String,
        /// The reason.
        why: String,
    },
    /// The memory node at the address cannot be used.
    #[error("the memory node at {address} cannot be used: {why}")]
    Unusable {
        /// The address.
        address: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// The memory node has another snapshot.
    #[error("the memory node at {address} makes no snapshot: {why}")]
    SnapshotBusy {
        /// The address.
        address: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// The snapshot of the memory node has ended.
    #[error("the memory node at {address}: {why}")]
    SnapshotLost {
        /// The address.
        address: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// The token of this client permits only reads, and a snapshot takes memory of the memory nodes.
    #[error("the memory node at {address} makes no snapshot for a client that may only read{}", self.suffix())]
    SnapshotDenied {
        /// The address.
        address: String,
    },
    /// The memory nodes are fresh, and the caller must not form a pool of them.
    #[error("{pool}: there is no pool yet: its memory nodes are fresh{}", self.suffix())]
    NoPool {
        /// The pool's URL.
        pool: String,
    },
    /// The memory nodes are not the pool that the address names.
    #[error("{pool}: {why}")]
    NotThisPool {
        /// The pool's URL.
        pool: String,
        /// The mismatch.
        why: String,
    },
    /// The pool exists, and cannot be used.
    #[error("{pool}: {error}")]
    Pool {
        /// The pool's URL.
        pool: String,
        /// The reason.
        error: FabricError,
    },
}

/// The reason that a process at the address closes a connection before it answers.
pub(crate) const CLOSED: &str = "it closed the connection";

impl TcpError {
    /// The text without the remedy.
    pub fn description(&self) -> String {
        match self {
            Self::Pool { pool, error } => format!("{pool}: {}", error.description()),
            Self::File { path, fault } => format!("{}: {}", path.display(), fault.description()),
            error => remedy::without(error, &error.suffix()),
        }
    }

    /// The remedy at the end of the text, for a user of the command `farwood`.
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = match self {
            Self::Listen { error, .. } => remedy_of_listen(error),
            Self::Memory { error, .. } => remedy_of_memory(error),
            Self::Token { .. } => {
                "it must hold a line of 16 to 1024 characters, or two of them during a rotation"
            }
            Self::File { fault, .. } => fault.remedy()?,
            Self::Unclean { .. } => {
                "accept it with --accept-unclean and run `farwood check` on its indexes, or remove it"
            }
            Self::NotThere { why, .. } if why.starts_with(CLOSED) => return None,
            Self::NotThere { address, .. } => {
                return Some(format!(
                    "start it with `farwood serve --listen tcp://{address}`, and with the --file and the other options \
                     that it had"
                ).into());
            }
            Self::BadToken { .. } => {
                "name the token's file in FARWOOD_TOKEN_FILE, or in the URL (?token-file=FILE), which takes precedence"
            }
            Self::ReadOnlyToken { .. } => {
                "open the pool read-only (--read-only), or name the file of the token for reading and writing"
            }
            Self::SnapshotDenied { .. } => {
                "name the file of the token for reading and writing, or omit --consistent to dump each index by itself"
            }
            Self::Unproven { .. } => {
                "check the address; if its memory nodes require no token, name none (?environment=no in the URL \
                 ignores FARWOOD_TOKEN_FILE)"
            }
            Self::Untrusted { .. } => {
                "name its authority in tls-ca (or FARWOOD_TLS_CA), and a certificate in tls-cert and tls-key if it \
                 requires one; omit all of them if it does not speak TLS"
            }
            Self::NoPool { .. } => "name all its memory nodes, and create an index in it (`farwood create`)",
            Self::Pool { error, .. } => error.remedy()?,
            // The reasons contain the remedies.
            Self::BadAddress { .. }
            | Self::BadShape(_)
            | Self::Card { .. }
            | Self::System { .. }
            | Self::Tls { .. }
            | Self::Unusable { .. }
            | Self::SnapshotBusy { .. }
            | Self::SnapshotLost { .. }
            | Self::NotThisPool { .. } => return None,
        };
        Some(remedy.into())
    }

    /// The end of the text: the remedy, unless another error that the text contains has added it.
    fn suffix(&self) -> String {
        match self {
            Self::Pool { .. } | Self::File { .. } => String::new(),
            error => remedy::suffix(error.remedy()),
        }
    }

    /// Whether this process or this machine has no free file descriptor.
    pub fn lacks_descriptors(&self) -> bool {
        match self {
            Self::Listen { error, .. } | Self::Memory { error, .. } => is_out_of_descriptors(error),
            _ => false,
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The action that lets a memory node take its memory.
fn remedy_of_memory(error: &io::Error) -> &'static str {
    if is_out_of_descriptors(error) {
        "raise the limit on open files (`ulimit -n`)"
    } else {
        "give the memory node less (--memory)"
    }
}

/// The action that lets a memory node listen.
fn remedy_of_listen(error: &io::Error) -> &'static str {
    if is_out_of_descriptors(error) {
        "raise the limit on open files (`ulimit -n`)"
    } else {
        "if another memory node listens there, choose another port"
    }
}

fn not_there(address: &str, why: &str) -> String {
    if why.starts_with(CLOSED) {
        return format!("the process at {address} does not answer as a memory node: {why}");
    }
    format!("no memory node answers at {address}: {why}")
}

/// The reason why a file cannot keep a memory node's memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// Another memory node uses it.
    #[error("another memory node uses it{}", self.suffix())]
    InUse,
    /// The system cannot create, read or write it.
    #[error("{_0}{}", self.suffix())]
    System(io::Error),
    /// It has another kind, size or version.
    #[error("{0}")]
    Unfit(String),
    /// Its header is invalid.
    #[error("{_0}{}", self.suffix())]
    Damaged(String),
}

impl FileFault {
    /// The text without the remedy.
    pub fn description(&self) -> String {
        remedy::without(self, &self.suffix())
    }

    /// The remedy at the end of the text.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::InUse => Some("stop that one, or name another file"),
            Self::System(error) => Some(remedy_of_file(error)),
            Self::Damaged(_) => Some(
                "put the file, with all files of its log, back from a copy; or start with another file, and restore a \
                 dump",
            ),
            // The reason contains the remedy.
            Self::Unfit(_) => None,
        }
    }

    fn suffix(&self) -> String {
        remedy::suffix(self.remedy())
    }
}

/// The action that lets a memory node use a file.
fn remedy_of_file(error: &io::Error) -> &'static str {
    use io::ErrorKind::{
        FileTooLarge, IsADirectory, NotADirectory, NotFound, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    match error.kind() {
        StorageFull | QuotaExceeded => {
            "its file system has less space than the memory node needs: free some, name a file on another file system, \
             or make the memory smaller (--memory)"
        }
        FileTooLarge => "raise the limit on file sizes (`ulimit -f`), or make the memory smaller (--memory)",
        ReadOnlyFilesystem => {
            "name a file on a file system that can be written, or mount this one read-write"
        }
        NotFound | NotADirectory => {
            "create the directory of the file first, or name a file in one that exists"
        }
        IsADirectory => "name a file in the directory",
        _ => "name a file that this user can create, read and write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults() -> [FileFault; 4] {
        let damaged = FileFault::Damaged("bad magic".to_owned());
        let full = FileFault::System(io::ErrorKind::StorageFull.into());
        [FileFault::InUse, full, FileFault::Unfit("it is a pipe".to_owned()), damaged]
    }

    fn errors() -> Vec<TcpError> {
        let (address, why) = ("10.0.0.1:7000".to_owned(), "refused".to_owned());
        let (pool, path) = ("tcp://10.0.0.1:7000".to_owned(), PathBuf::from("/f"));
        let error = || io::ErrorKind::AddrInUse.into();
        let no_descriptor = || io::Error::from_raw_os_error(libc::EMFILE);
        let mut errors = vec![
            TcpError::BadAddress { text: address.clone(), why: why.clone() },
            TcpError::BadShape(why.clone()),
            TcpError::Listen { address: address.clone(), error: error() },
            TcpError::Listen { address: address.clone(), error: no_descriptor() },
            TcpError::Memory { bytes: 1 << 20, error: error() },
            TcpError::Memory { bytes: 1 << 20, error: no_descriptor() },
            TcpError::Card { why: why.clone() },
            TcpError::System { operation: "listen", error: error() },
            TcpError::Token { path: path.clone(), why: why.clone() },
            TcpError::Tls { option: "tls-ca", path: path.clone(), why: why.clone() },
            TcpError::Unclean { path: path.clone() },
            TcpError::NotThere { address: address.clone(), why: why.clone() },
            TcpError::NotThere { address: address.clone(), why: CLOSED.to_owned() },
            TcpError::BadToken { address: address.clone(), why: why.clone() },
            TcpError::ReadOnlyToken { address: address.clone() },
            TcpError::Unproven { address: address.clone(), why: why.clone() },
            TcpError::Untrusted { address: address.clone(), why: why.clone() },
            TcpError::SnapshotBusy { address: address.clone(), why: why.clone() },
            TcpError::SnapshotLost { address: address.clone(), why: why.clone() },
            TcpError::SnapshotDenied { address: address.clone() },
            TcpError::Unusable { address, why: why.clone() },
            TcpError::NoPool { pool: pool.clone() },
            TcpError::NotThisPool { pool: pool.clone(), why },
            TcpError::Pool { pool, error: FabricError::Forked },
        ];
        errors.extend(faults().map(|fault| TcpError::File { path: path.clone(), fault }));
        errors
    }

    #[test]
    fn the_text_is_the_description_and_the_remedy() {
        for error in errors() {
            remedy::assert_in_text(&error, &error.description(), error.remedy());
        }
        for fault in faults() {
            remedy::assert_in_text(&fault, &fault.description(), fault.remedy());
        }
    }
}
