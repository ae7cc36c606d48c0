//! What can go wrong in this room: every variant is something a caller can act on.

use std::path::PathBuf;

/// A result whose error is this room's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with what was being done and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter of a run is out of range or contradicts another one.
    #[error("{parameter}: {problem}; {remedy}")]
    Parameter {
        /// The parameter by its name on the command line, for example `--theta`.
        parameter: &'static str,
        /// What is wrong with its value.
        problem: String,
        /// What would be accepted.
        remedy: String,
    },
    /// A line of a key file cannot be used as a key.
    #[error("{}:{line}: {problem}; {remedy}", file.display())]
    KeyFile {
        /// The key file.
        file: PathBuf,
        /// The line, counted from 1; 0 when the whole file is meant.
        line: u64,
        /// What is wrong with the line.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A value does not verify: it is mixed from several writes, belongs to another key or is no value of ours.
    #[error("value of {bytes} B does not verify: {problem}")]
    Value {
        /// Length of the value in bytes.
        bytes: usize,
        /// Which word disagrees with which.
        problem: String,
    },
    /// An index gave an answer that it must not give.
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] farwood_index::IndexError),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] farwood_transport::shm::ShmError),
    /// The memory nodes of a pool over TCP failed, or were not there.
    #[error(transparent)]
    Tcp(#[from] farwood_transport::tcp::TcpError),
    /// RDMA is not to be had, or a pool over it.
    #[error(transparent)]
    Rdma(#[from] farwood_transport::rdma::RdmaError),
    /// etcd has no such pool, or does not answer.
    #[error(transparent)]
    Etcd(#[from] farwood_transport::etcd::EtcdError),
    /// The pool's fabric failed.
    #[error(transparent)]
    Fabric(#[from] farwood_fabric::FabricError),
    /// The laboratory cannot be as it was described.
    #[error(transparent)]
    World(#[from] farwood_sim::WorldError),
    /// A run in the laboratory stands still.
    #[error("the laboratory: {0}")]
    Stuck(#[from] farwood_sim::Stuck),
    /// A process of the run failed or died.
    #[error("compute node {compute_node}: {problem}")]
    Worker {
        /// The compute node, from 0.
        compute_node: usize,
        /// What became of it.
        problem: String,
    },
    /// The processes of a run could not be started or talked to.
    #[error("{doing}: {source}")]
    Processes {
        /// What was being done.
        doing: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A run record (one JSON line) cannot be read.
    #[error("record: {0}")]
    Record(String),
    /// A chart cannot be drawn.
    #[error("chart: {0}")]
    Chart(String),
    /// A peer cannot do what is asked of it, or failed.
    #[error("peer {peer}: {problem}")]
    Peer {
        /// The peer's name, for example `lmdb`.
        peer: &'static str,
        /// What failed.
        problem: String,
    },
}

impl Error {
    /// A [`Error::Parameter`] from its parts.
    pub fn parameter(
        parameter: &'static str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Error {
        Error::Parameter { parameter, problem: problem.into(), remedy: remedy.into() }
    }
}
