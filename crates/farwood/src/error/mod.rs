//! The error of the library: the operation, its object and the cause.
//!
//! | file | contents |
//! |---|---|
//! | `kind.rs` | [`ErrorKind`], [`Error::kind`], [`Error::is_retryable`] |
//! | `effect.rs` | [`Effect`], [`Error::effect`] |
//! | `operation.rs` | the names of all operations, and which of them change something |
//! | `message.rs` | `Display`, and the message of the command `farwood` |
//! | `help.rs` | [`Error::help`]: the remedy in terms of the library |
//! | `exit_code.rs` | the exit codes of the command `farwood` |
//! | `convert.rs` | conversions from the errors of memory nodes |

mod convert;
mod effect;
mod exit_code;
mod help;
mod kind;
mod message;
mod operation;

#[cfg(feature = "backup")]
use crate::backup::BackupError;
use crate::kind::Type;
use crate::unfit::Unfit;
pub use effect::Effect;
pub use farwood_fabric::FabricError;
pub use farwood_index::IndexError;
#[cfg(feature = "geometry")]
use farwood_index::catfish::RecordId;
#[cfg(feature = "etcd")]
pub use farwood_transport::etcd::EtcdError;
#[cfg(feature = "rdma")]
pub use farwood_transport::rdma::RdmaError;
pub use farwood_transport::shm::ShmError;
#[cfg(feature = "tcp")]
pub use farwood_transport::tcp::TcpError;
pub use kind::ErrorKind;
pub(crate) use kind::HasKind;
#[cfg(feature = "spatial")]
pub(crate) use operation::rest_of;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call.
///
/// | question | answer |
/// |---|---|
/// | What happened? | `Display`: the operation, the pool or index, and the cause |
/// | What kind of error is it? | [`kind`](Self::kind) |
/// | May the operation have taken effect? | [`effect`](Self::effect) |
/// | May the same call succeed later? | [`is_retryable`](Self::is_retryable) |
/// | What is the remedy? | [`help`](Self::help) |
///
/// The text of an error contains that of its cause, so `Error::source` returns `None`, and a program that prints the
/// chain of sources prints each cause once. The cause itself is a field of the variant: an [`IndexError`],
/// [`FabricError`], [`ShmError`], `TcpError`, `RdmaError` or `EtcdError`, which the crate re-exports. `Debug` prints
/// the structure.
///
/// ```
/// use farwood::error::{Effect, ErrorKind};
///
/// let error = farwood::Pool::open("shm://nowhere-at-all").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.effect(), Effect::None);
/// assert!(!error.is_retryable());
/// assert!(error.help().is_some_and(|remedy| remedy.contains("Pool::create")));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the URL of a pool or an index.
    Url {
        /// The text.
        url: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// The program was built without the feature that pools of this URL need.
    Feature {
        /// The text.
        url: String,
        /// The feature of the crate `farwood`.
        feature: String,
    },
    /// The files of a pool in shared memory could not be created, found, used or removed.
    Pool {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: ShmError,
    },
    /// The memory nodes of a pool over TCP could not be found or used.
    #[cfg(feature = "tcp")]
    Tcp {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: TcpError,
    },
    /// RDMA is not available, or the memory nodes of a pool over RDMA could not be found or used.
    #[cfg(feature = "rdma")]
    Rdma {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: RdmaError,
    },
    /// The pool is not registered in etcd, or etcd does not answer.
    #[cfg(feature = "etcd")]
    Etcd {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: EtcdError,
    },
    /// A pool over TCP cannot be created or removed with a URL.
    Served {
        /// The operation.
        operation: &'static str,
        /// The pool's URL.
        pool: String,
    },
    /// A pool over RDMA cannot be opened for reading only: a device executes every verb of a client.
    #[cfg(feature = "rdma")]
    NoReader {
        /// The pool's URL.
        pool: String,
    },
    /// An operation on the pool failed.
    Fabric {
        /// The operation.
        operation: &'static str,
        /// The pool's URL.
        pool: String,
        /// The cause.
        source: FabricError,
    },
    /// An operation on the index failed.
    Index {
        /// The operation.
        operation: &'static str,
        /// The index.
        url: String,
        /// The cause.
        source: IndexError,
    },
    /// The keys or values of the index have a type other than the one it was opened with.
    Type {
        /// The index.
        url: String,
        /// "keys" or "values".
        what: &'static str,
        /// The type with which it was opened.
        expected: Type,
        /// The type that the index records.
        found: Type,
    },
    /// A key or a value does not fit the index.
    Unfit {
        /// The operation.
        operation: &'static str,
        /// The index.
        url: String,
        /// "key" or "value".
        what: &'static str,
        /// The reason, with the permitted lengths.
        why: Unfit,
    },
    /// An argument of the call is out of range.
    Argument {
        /// The operation.
        operation: &'static str,
        /// The index.
        url: String,
        /// The argument.
        what: &'static str,
        /// Its value.
        value: String,
        /// The values that the call accepts.
        remedy: String,
    },
    /// A query needs the geometry of a record, whose payload has none that can be used.
    #[cfg(feature = "geometry")]
    Geometry {
        /// The operation.
        operation: &'static str,
        /// The index.
        url: String,
        /// The record.
        id: RecordId,
        /// The reason, and the remedy.
        why: String,
    },
    /// A backup cannot be written or restored.
    #[cfg(feature = "backup")]
    Backup {
        /// The operation: "dump" or "restore".
        operation: &'static str,
        /// The file; `None`: a stream of the caller.
        path: Option<PathBuf>,
        /// The cause.
        source: BackupError,
    },
    /// An index cannot be created with these options.
    Options {
        /// The index.
        url: String,
        /// The reason and the remedy.
        why: String,
    },
    /// This process has the index open.
    OpenHere {
        /// The index.
        url: String,
    },
    /// Live processes are attached to the pool.
    Attached {
        /// The pool's name.
        pool: String,
        /// Process numbers.
        processes: Vec<u64>,
    },
    /// The pool is damaged, so it is unknown whether it is in use.
    Unusable {
        /// The pool's name.
        pool: String,
        /// The damage.
        source: ShmError,
    },
    /// The time limit of the call has passed. Its locks are free, and a change may have been made or not.
    TimedOut {
        /// The operation.
        operation: &'static str,
        /// The index.
        url: String,
        /// The limit.
        after: Duration,
    },
    /// The operating system cannot start a thread.
    Thread {
        /// The operation.
        operation: &'static str,
        /// The pool's URL.
        pool: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A call of the operating system failed.
    System {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

#[cfg(feature = "backup")]
impl Error {
    /// The same error with the file of the backup, if it is one of a backup.
    pub(crate) fn about_file(mut self, file: &std::path::Path) -> Self {
        if let Self::Backup { path, .. } = &mut self {
            *path = Some(file.to_owned());
        }
        self
    }
}

/// The text of an error contains that of its cause, so there is no source.
impl std::error::Error for Error {}
