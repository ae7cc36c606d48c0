//! The errors of this crate.

use std::path::PathBuf;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter of a run is out of range or contradicts another one.
    #[error("{parameter}: {problem}; {remedy}")]
    Parameter {
        /// The parameter by its name on the command line, for example `--theta`.
        parameter: &'static str,
        /// The problem with its value.
        problem: String,
        /// Accepted values.
        remedy: String,
    },
    /// A line of a key file cannot be used as a key.
    #[error("{}:{line}: {problem}; {remedy}", file.display())]
    KeyFile {
        /// The key file.
        file: PathBuf,
        /// The line, counted from 1; 0 if the problem concerns the whole file.
        line: u64,
        /// The problem with the line.
        problem: String,
        /// The remedy.
        remedy: String,
    },
    /// A file could not be read.
    #[error("{option}: cannot read {}: {source}", file.display())]
    Read {
        /// The option of the command that names the file.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A value is invalid: it has parts of several writes, belongs to another key, or was not written by a run.
    #[error("a value of {bytes} B is invalid: {problem}")]
    Value {
        /// Length of the value in bytes.
        bytes: usize,
        /// The word that does not match.
        problem: String,
    },
    /// An index gave a wrong answer.
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    /// An index did not find a key that was loaded or inserted.
    #[error("wrong answer: the key of rank {0} is missing although it was loaded or inserted")]
    MissingKey(u64),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] farwood_index::IndexError),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] farwood_transport::shm::ShmError),
    /// Memory nodes of a pool over TCP failed, or could not be reached.
    #[error(transparent)]
    Tcp(#[from] farwood_transport::tcp::TcpError),
    /// RDMA is not available, or a pool over it failed.
    #[error(transparent)]
    Rdma(#[from] farwood_transport::rdma::RdmaError),
    /// The pool is not registered in etcd, or etcd does not answer.
    #[error(transparent)]
    Etcd(#[from] farwood_transport::etcd::EtcdError),
    /// The pool's fabric failed.
    #[error(transparent)]
    Fabric(#[from] farwood_fabric::FabricError),
    /// The description of a simulation is invalid.
    #[error(transparent)]
    World(#[from] farwood_sim::WorldError),
    /// A simulated run makes no progress.
    #[error("the simulator: {0}")]
    Stuck(#[from] farwood_sim::Stuck),
    /// A process of the run failed or died.
    #[error("compute node {compute_node}: {problem}")]
    Worker {
        /// The compute node, from 0.
        compute_node: usize,
        /// The problem.
        problem: String,
    },
    /// A process of a run could not be started, or the communication with it failed.
    #[error("{doing}: {source}")]
    Processes {
        /// The action that failed.
        doing: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A run record (one JSON line) cannot be read.
    #[error("record: {0}")]
    Record(String),
    /// A chart cannot be drawn.
    #[error("chart: {0}")]
    Chart(String),
    /// A peer failed, or does not support an operation.
    #[error("peer {peer}: {problem}")]
    Peer {
        /// The peer's name, for example `lmdb`.
        peer: &'static str,
        /// The problem.
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
