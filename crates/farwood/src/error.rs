//! The error of the library: the operation, its object, the cause and the remedy.

use crate::kind::Type;
use crate::shell_word::shell_word;
use crate::unfit::Unfit;
use farwood_fabric::FabricError;
use farwood_index::IndexError;
#[cfg(feature = "geometry")]
use farwood_index::catfish::RecordId;
#[cfg(feature = "etcd")]
use farwood_transport::etcd::EtcdError;
#[cfg(feature = "rdma")]
use farwood_transport::rdma::RdmaError;
use farwood_transport::shm::ShmError;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::{FileFault, TcpError};
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call. Its message names the operation, the pool or index, and the remedy.
///
/// `Debug` prints the same message as `Display`, so that a `main` that returns this error shows it. To handle an error,
/// use [`is_full`](Self::is_full) and [`is_not_found`](Self::is_not_found), or the `source`: an [`IndexError`],
/// [`FabricError`], [`ShmError`], `TcpError`, `RdmaError` or `EtcdError`, which the crate re-exports.
///
/// ```
/// let error = farwood::Pool::open("shm://nowhere-at-all").unwrap_err();
/// assert!(error.is_not_found() && !error.is_full());
/// assert_eq!(format!("{error:?}"), error.to_string());
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the URL of a pool or an index.
    #[error("'{url}': {why}")]
    Url {
        /// The text.
        url: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// The files of a pool in shared memory could not be created, found, used or removed.
    #[error("{operation}: {source}")]
    Pool {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: ShmError,
    },
    /// The memory nodes of a pool over TCP could not be found or used.
    #[error("{operation}: {source}")]
    #[cfg(feature = "tcp")]
    Tcp {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: TcpError,
    },
    /// RDMA is not available, or the memory nodes of a pool over RDMA could not be found or used.
    #[error("{operation}: {source}")]
    #[cfg(feature = "rdma")]
    Rdma {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: RdmaError,
    },
    /// The pool is not registered in etcd, or etcd does not answer.
    #[error("{operation}: {source}")]
    #[cfg(feature = "etcd")]
    Etcd {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: EtcdError,
    },
    /// A pool over TCP cannot be created or removed with a URL.
    #[error(
        "{operation} {pool}: a pool over TCP consists of its running memory nodes; {}",
        remedy_of_served(operation)
    )]
    Served {
        /// The operation.
        operation: &'static str,
        /// The pool's URL.
        pool: String,
    },
    /// An operation on the pool failed.
    #[error("{operation} {pool}: {source}{}", more_memory(pool, source))]
    Fabric {
        /// The operation.
        operation: &'static str,
        /// The pool's URL.
        pool: String,
        /// The cause.
        source: FabricError,
    },
    /// An operation on the index failed.
    #[error("{operation} {url}: {}{}", source.cause(), more_memory_of_index(url, source))]
    Index {
        /// The operation.
        operation: &'static str,
        /// The index.
        url: String,
        /// The cause.
        source: IndexError,
    },
    /// The keys or values of the index have a type other than the one it was opened with.
    #[error(
        "open {url}: its {what} have the type {found}, not {expected}; open it with the types with which it was \
         created \
         (`farwood stat {}` shows them)",
        shell_word(url)
    )]
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
    #[error("{operation} {url}: the {what} {why}")]
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
    #[error("{operation} {url}: the {what} is {value}; {remedy}")]
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
    #[error("{operation} {url}: the record {id} {why}")]
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
    /// An index cannot be created with these options.
    #[error("create {url}: {why}")]
    Options {
        /// The index.
        url: String,
        /// The reason and the remedy.
        why: String,
    },
    /// This process has the index open.
    #[error("drop {url}: this process has it open; drop all its handles first")]
    OpenHere {
        /// The index.
        url: String,
    },
    /// Live processes are attached to the pool.
    #[error(
        "remove shm://{pool}: processes are attached to it ({}); end them, or use `farwood drop shm://{pool} --force`: \
         their operations then fail",
        list(processes)
    )]
    Attached {
        /// The pool's name.
        pool: String,
        /// Process numbers.
        processes: Vec<u64>,
    },
    /// The pool is damaged, so it is unknown whether it is in use.
    #[error("remove shm://{pool}: {source}{}", by_force(pool, source))]
    Unusable {
        /// The pool's name.
        pool: String,
        /// The damage.
        source: ShmError,
    },
    /// A call of the operating system failed.
    #[error("cannot {operation} {}: {source}", path.display())]
    System {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl std::fmt::Debug for Error {
    /// Prints the message, because a `main` that returns this error shows its `Debug` form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The way to create or remove a pool of running memory nodes.
fn remedy_of_served(operation: &str) -> &'static str {
    match operation {
        "create" => {
            "start each of them with `farwood serve`; creating the first index (`farwood create` with the URL of an \
             index) makes them a pool"
        }
        _ => {
            "stop each of them with SIGTERM, and remove the file of its --file; `farwood drop` with the URL of an \
             index removes an index"
        }
    }
}

/// The option that gives a full pool more memory.
fn more_memory(url: &str, error: &FabricError) -> &'static str {
    match error {
        FabricError::PoolFull { .. } if url.starts_with("shm://") => " (`farwood create --memory`)",
        FabricError::PoolFull { .. } if !url.is_empty() => {
            " (`farwood serve --memory`, for each memory node)"
        }
        _ => "",
    }
}

fn more_memory_of_index(url: &str, error: &IndexError) -> &'static str {
    match error {
        IndexError::Fabric(error) => more_memory(url, error),
        _ => "",
    }
}

/// The command that removes a damaged pool, unless the text of the damage names it.
fn by_force(pool: &str, damage: &ShmError) -> String {
    match damage {
        ShmError::SegmentLost { .. } | ShmError::JournalLost { .. } => String::new(),
        _ => format!("; to remove the pool nevertheless, use `farwood drop shm://{pool} --force`"),
    }
}

fn list(processes: &[u64]) -> String {
    let names: Vec<_> = processes.iter().map(|process| format!("process {process}")).collect();
    names.join(", ")
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The exit code for a missing pool or index.
const NOT_FOUND: u8 = 3;
/// The exit code for a full pool, table or memory.
const FULL: u8 = 5;

impl Error {
    /// Whether the cause is a lack of space: in the pool, its directory or client table, or the memory of the machine.
    pub fn is_full(&self) -> bool {
        self.exit_code() == FULL
    }

    /// Whether the pool or the index does not exist.
    pub fn is_not_found(&self) -> bool {
        self.exit_code() == NOT_FOUND
    }

    /// The exit code of a command that ends with this error of the operating system.
    pub fn exit_code_of(error: &io::Error) -> u8 {
        of_system(error)
    }

    /// The exit code of a command that ends with this error; the table is in `docs/cli.md`.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Url { .. }
            | Self::Served { .. }
            | Self::Unfit { .. }
            | Self::Argument { .. }
            | Self::Options { .. } => 2,
            Self::Type { .. } => 7,
            #[cfg(feature = "geometry")]
            Self::Geometry { .. } => 8,
            Self::OpenHere { .. } | Self::Attached { .. } => 9,
            Self::Pool { source, .. } | Self::Unusable { source, .. } => of_shm(source),
            #[cfg(feature = "tcp")]
            Self::Tcp { source, .. } => of_tcp(source),
            #[cfg(feature = "rdma")]
            Self::Rdma { source, .. } => of_rdma(source),
            #[cfg(feature = "etcd")]
            Self::Etcd { source, .. } => of_etcd(source),
            Self::Fabric { source, .. } => of_fabric(source),
            Self::Index { source, .. } => of_index(source),
            Self::System { source, .. } => of_system(source),
        }
    }
}

fn of_shm(error: &ShmError) -> u8 {
    match error {
        ShmError::BadName { .. } | ShmError::BadShape { .. } | ShmError::UnknownGroup { .. } => 2,
        ShmError::NotFound { .. } => NOT_FOUND,
        ShmError::Exists { .. } => 4,
        ShmError::NoSpace { .. } => FULL,
        ShmError::Permission { .. }
        | ShmError::ReadOnly { .. }
        | ShmError::ForeignOwner { .. }
        | ShmError::UntrustedGroup { .. }
        | ShmError::WideMode { .. } => 6,
        ShmError::TooSmall { .. }
        | ShmError::SegmentLost { .. }
        | ShmError::NotAFile { .. }
        | ShmError::JournalLost { .. } => 8,
        ShmError::BeingCreated { .. } => 9,
        ShmError::Pool { error, .. } => of_fabric(error),
        ShmError::Io { error, .. } => of_system(error),
        _ => 10,
    }
}

#[cfg(feature = "etcd")]
fn of_etcd(error: &EtcdError) -> u8 {
    match error {
        EtcdError::BadAddress { .. } | EtcdError::Access { .. } => 2,
        EtcdError::Refused { .. } => 6,
        EtcdError::NoAnswer { .. } | EtcdError::Incomplete { .. } => NOT_FOUND,
        EtcdError::Taken { .. } => 9,
        // The type is non-exhaustive.
        _ => 10,
    }
}

#[cfg(feature = "rdma")]
fn of_rdma(error: &RdmaError) -> u8 {
    match error {
        RdmaError::BadDevice { .. } => 2,
        RdmaError::NoLibrary(_) | RdmaError::NoDevices | RdmaError::NoDevice { .. } => NOT_FOUND,
        RdmaError::Unusable { .. } => 7,
        RdmaError::Pool(error) => of_tcp(error),
        // The type is non-exhaustive.
        _ => 10,
    }
}

#[cfg(feature = "tcp")]
fn of_tcp(error: &TcpError) -> u8 {
    match error {
        TcpError::BadAddress { .. }
        | TcpError::BadShape(_)
        | TcpError::Token { .. }
        | TcpError::Tls { .. } => 2,
        TcpError::NotThere { .. } | TcpError::NoPool { .. } => NOT_FOUND,
        error if error.lacks_descriptors() => 10,
        TcpError::Memory { .. } => FULL,
        TcpError::BadToken { .. } | TcpError::Unproven { .. } | TcpError::Untrusted { .. } => 6,
        TcpError::Unusable { .. } | TcpError::NotThisPool { .. } => 7,
        TcpError::File { fault, .. } => of_file(fault),
        TcpError::Unclean { .. } => 8,
        TcpError::Pool { error, .. } => of_fabric(error),
        _ => 10,
    }
}

#[cfg(feature = "tcp")]
fn of_file(fault: &FileFault) -> u8 {
    match fault {
        FileFault::InUse => 9,
        FileFault::Unfit(_) => 7,
        FileFault::Damaged(_) => 8,
        FileFault::System(source) => of_system(source),
        // The type is non-exhaustive.
        _ => 10,
    }
}

fn of_system(error: &io::Error) -> u8 {
    use io::ErrorKind::{
        FileTooLarge, IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    match error.kind() {
        NotFound | IsADirectory | NotADirectory => 2,
        StorageFull | QuotaExceeded | FileTooLarge => FULL,
        PermissionDenied | ReadOnlyFilesystem => 6,
        _ => 10,
    }
}

fn of_fabric(error: &FabricError) -> u8 {
    match error {
        FabricError::PoolFull { .. }
        | FabricError::NoMemory { .. }
        | FabricError::CannotPost { .. }
        | FabricError::NoClientSlot { .. }
        | FabricError::NoDirectoryEntry { .. } => FULL,
        FabricError::NotAPool { .. } | FabricError::Missing(_) => 7,
        FabricError::OutOfRange { .. }
        | FabricError::Misaligned { .. }
        | FabricError::Damaged { .. }
        | FabricError::DirectoryBusy(None)
        | FabricError::MemoryLost { .. } => 8,
        FabricError::DirectoryBusy(Some(_)) => 9,
        _ => 10,
    }
}

fn of_index(error: &IndexError) -> u8 {
    match error {
        IndexError::Fabric(error) => of_fabric(error),
        IndexError::BadSizes(_)
        | IndexError::BadId(_)
        | IndexError::SameHash
        | IndexError::MixedLocks { .. }
        | IndexError::WrongLength { .. }
        | IndexError::BadName(_)
        | IndexError::TooLong { .. }
        | IndexError::NoSnapshot(_)
        | IndexError::Elsewhere { .. }
        | IndexError::NotSorted { .. } => 2,
        IndexError::NoSuchIndex(_) => NOT_FOUND,
        IndexError::IndexExists(_) | IndexError::NotEmpty => 4,
        IndexError::NoAccess { .. } => 6,
        IndexError::Unsafe { .. } | IndexError::WrongFormat(_) => 7,
        IndexError::Damaged { .. } => 8,
        IndexError::LockHeld { .. }
        | IndexError::Exhausted { .. }
        | IndexError::InUse { .. }
        | IndexError::Served { .. }
        | IndexError::NotServed { .. }
        | IndexError::NoConnection { .. }
        | IndexError::NoAnswer { .. }
        | IndexError::BeingChanged { .. }
        | IndexError::Crowded { .. }
        | IndexError::ServerLost { .. } => 9,
        _ => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{ClientId, NodeId};

    #[test]
    fn exit_codes_follow_the_table() {
        let index = |source| Error::Index { operation: "get", url: "shm://p/i".to_owned(), source };
        let client = ClientId { slot: 1, epoch: 2 };
        for (error, code) in [
            (Error::Served { operation: "create", pool: "tcp://x:1".to_owned() }, 2),
            (index(IndexError::NoSuchIndex("i".to_owned())), 3),
            (index(IndexError::MixedLocks { other: "j".to_owned() }), 2),
            (index(IndexError::IndexExists("i".to_owned())), 4),
            (index(IndexError::Fabric(FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 })), 5),
            (index(IndexError::WrongFormat("format 9".to_owned())), 7),
            (
                index(IndexError::Fabric(FabricError::NotAPool { node: NodeId(0), why: "magic".to_owned() })),
                7,
            ),
            (index(IndexError::InUse { name: "i".to_owned(), client }), 9),
            (index(IndexError::Fabric(FabricError::DirectoryBusy(Some(client)))), 9),
            (index(IndexError::Fabric(FabricError::DirectoryBusy(None))), 8),
            (Error::OpenHere { url: "shm://p/i".to_owned() }, 9),
        ] {
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }

    #[test]
    fn full_and_not_found_are_distinguished() {
        let index = |source| Error::Index { operation: "put", url: "shm://p/i".to_owned(), source };
        let full = index(IndexError::Fabric(FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 }));
        let missing = index(IndexError::NoSuchIndex("i".to_owned()));
        assert!(full.is_full() && !full.is_not_found());
        assert!(missing.is_not_found() && !missing.is_full());
        assert_eq!(format!("{full:?}"), full.to_string());
    }

    #[test]
    fn a_full_pool_names_the_command_that_created_it() {
        let full = || IndexError::Fabric(FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 });
        let text =
            |url: &str| Error::Index { operation: "put", url: url.to_owned(), source: full() }.to_string();
        assert!(text("shm://p/i").ends_with("(`farwood create --memory`)"));
        for url in ["tcp://a:1/i", "rdma://a:1/i", "etcd://a:1/p/i"] {
            assert!(text(url).contains("`farwood serve --memory`") && !text(url).contains("create"), "{url}");
        }
    }

    #[test]
    fn file_faults_have_the_exit_codes_of_their_causes() {
        let code = |fault| {
            let source = TcpError::File { path: PathBuf::from("/f"), fault };
            Error::Tcp { operation: "serve", source }.exit_code()
        };
        let system = |kind: io::ErrorKind| code(FileFault::System(kind.into()));
        assert_eq!(system(io::ErrorKind::StorageFull), 5);
        assert_eq!(system(io::ErrorKind::PermissionDenied), 6);
        assert_eq!(system(io::ErrorKind::NotFound), 2);
        assert_eq!(system(io::ErrorKind::IsADirectory), 2);
        assert_eq!(system(io::ErrorKind::Other), 10);
        assert_eq!(code(FileFault::Unfit("size".to_owned())), 7);
        assert_eq!(code(FileFault::Damaged("papers".to_owned())), 8);
        assert_eq!(code(FileFault::InUse), 9);
    }

    #[test]
    fn an_error_names_one_operation() {
        let damaged = IndexError::Damaged { operation: "serve", at: "x".to_owned(), what: "torn".to_owned() };
        let held = IndexError::LockHeld { operation: "scan", holder: None, waited_ms: 7 };
        let exhausted = IndexError::Exhausted { operation: "split", tries: 9 };
        for (source, start) in [
            (damaged, "put shm://p/i: the node at x is damaged: torn"),
            (held, "put shm://p/i: waited 7 ms"),
            (exhausted, "put shm://p/i: gave up after 9 tries"),
        ] {
            let error = Error::Index { operation: "put", url: "shm://p/i".to_owned(), source };
            assert!(error.to_string().starts_with(start), "{error}");
        }
    }

    #[test]
    fn an_error_names_the_operation_the_index_and_the_remedy() {
        let source = IndexError::NoSuchIndex("words".to_owned());
        let error = Error::Index { operation: "open", url: "shm://demo/words".to_owned(), source };
        let text = error.to_string();
        for part in ["open", "shm://demo/words", "farwood create"] {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
    }
}
