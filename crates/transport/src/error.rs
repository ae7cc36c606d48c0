//! What can go wrong with a pool over TCP: where, why, and what to do about it.

use farwood_fabric::FabricError;
use std::io;
use std::path::PathBuf;

/// An error of a memory node that was to be started, or of a pool that was to be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TcpError {
    /// That is no list of addresses.
    #[error("'{text}' names no memory nodes: {why}; write HOST:PORT, or several with commas between them")]
    BadAddress {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A memory node cannot have these sizes.
    #[error("a memory node cannot be started: {0}")]
    BadShape(String),
    /// A memory node could not listen.
    #[error("cannot listen on {address}: {source}; is another memory node there? choose another port")]
    Listen {
        /// Where.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no memory to be had.
    #[error("cannot take {bytes} bytes of memory: {source}; give the memory node less (--memory)")]
    Memory {
        /// How much was asked for.
        bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// The card that is to execute a memory node's verbs does not.
    #[error("the memory node's card {why}")]
    Card {
        /// Why, and what would help.
        why: String,
    },
    /// Anything else that the system refused a memory node.
    #[error("cannot {operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file of a token is not to be read, or holds none.
    #[error("{}: {why}; a token is a line of 16 to 1024 characters", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file of TLS is not to be read, or does not hold what it should.
    #[error("{}: {why}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why, and what would help.
        why: String,
    },
    /// A file cannot keep a memory node's memory.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why, and what would help.
        #[source]
        fault: FileFault,
    },
    /// A file's last memory node did not stop in an orderly way.
    #[error(
        "{}: the memory node that had it was not stopped but ended, so that what was being written then may be \
         half-written; take it up all the same (--accept-unclean) and `farwood check` its indexes, or remove it",
        path.display()
    )]
    Unclean {
        /// The file.
        path: PathBuf,
    },
    /// Nobody answers there.
    #[error(
        "no memory node answers at {address}: {why}; start one with `farwood serve --listen tcp://{address}`"
    )]
    NotThere {
        /// Where.
        address: String,
        /// Why.
        why: String,
    },
    /// The memory node wants another token.
    #[error(
        "the memory node at {address} refuses the token: {why}; name its file in FARWOOD_TOKEN_FILE, or in the URL \
         (?token-file=FILE), which comes first"
    )]
    BadToken {
        /// Where.
        address: String,
        /// In the memory node's words.
        why: String,
    },
    /// The memory node and this program do not trust each other, or only one of them speaks TLS.
    #[error(
        "no TLS with the memory node at {address}: {why}; tls-ca (or FARWOOD_TLS_CA) must name its authority, tls-cert \
         and tls-key a certificate if it asks for one, and where it speaks no TLS none of them"
    )]
    Untrusted {
        /// Where.
        address: String,
        /// Why.
        why: String,
    },
    /// What answers there cannot be used.
    #[error("the memory node at {address} cannot be used: {why}")]
    Unusable {
        /// Where.
        address: String,
        /// Why, and what would help.
        why: String,
    },
    /// The memory nodes are fresh, and whoever asked makes no pool of them.
    #[error(
        "{pool}: there is no pool yet, its memory is fresh; name all its memory nodes, and create an index in it \
         (`farwood create`)"
    )]
    NoPool {
        /// The pool's URL.
        pool: String,
    },
    /// The memory nodes do not make up the pool that the address says.
    #[error("{pool}: {why}")]
    NotThisPool {
        /// The pool's URL.
        pool: String,
        /// What does not fit.
        why: String,
    },
    /// The pool is there, and cannot be used.
    #[error("{pool}: {error}")]
    Pool {
        /// The pool's URL.
        pool: String,
        /// Why.
        error: FabricError,
    },
}

/// Why a file cannot keep a memory node's memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// Another memory node is at work with it.
    #[error("another memory node has it; stop that one, or name another file")]
    InUse,
    /// The system does not let it be made, read or written.
    #[error("{0}")]
    System(#[source] io::Error),
    /// It is of another kind, size or version.
    #[error("{0}")]
    Unfit(String),
    /// What it says of itself cannot be.
    #[error("{0}; remove it, or restore it from a copy")]
    Damaged(String),
}
