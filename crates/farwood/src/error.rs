//! The library's error: what was tried, on what, why it failed and what to do about it.

use crate::kind::Kind;
use crate::url::shell_word;
use farwood_fabric::FabricError;
use farwood_index::IndexError;
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

/// Why a call did not do what it was asked to. The text names the operation, the pool or index, and the remedy.
///
/// `Debug` prints the same sentence as `Display`, so that a `main` that returns this error shows it. What a program can
/// do something about, it asks [`is_full`](Self::is_full) and [`is_not_found`](Self::is_not_found), or takes from the
/// `source`: an [`IndexError`], [`FabricError`], [`ShmError`], [`TcpError`] or
/// [`EtcdError`], which the crate re-exports.
///
/// ```
/// let error = farwood::Pool::open("shm://nowhere-at-all").unwrap_err();
/// assert!(error.is_not_found() && !error.is_full());
/// assert_eq!(format!("{error:?}"), error.to_string());
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// That is no URL of a pool, or of an index.
    #[error("'{url}': {why}; pools are written shm://NAME or tcp://HOST:PORT, indexes with /INDEX behind it")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Pools of that kind are planned, and not built yet.
    #[error(
        "'{url}': pools over {scheme}:// are not built yet; use shm://NAME, shared memory of this machine, or \
         tcp://HOST:PORT"
    )]
    NotBuilt {
        /// What was given.
        url: String,
        /// `sim`.
        scheme: String,
    },
    /// The pool's files could not be made, found, used or removed.
    #[error("{operation}: {source}")]
    Pool {
        /// The operation.
        operation: &'static str,
        /// Why.
        source: ShmError,
    },
    /// The memory nodes of a pool over TCP could not be found or used.
    #[error("{operation}: {source}")]
    #[cfg(feature = "tcp")]
    Tcp {
        /// The operation.
        operation: &'static str,
        /// Why.
        source: TcpError,
    },
    /// RDMA is not to be had here, or the memory nodes of a pool over it could not be found or used.
    #[error("{operation}: {source}")]
    #[cfg(feature = "rdma")]
    Rdma {
        /// The operation.
        operation: &'static str,
        /// Why.
        source: RdmaError,
    },
    /// etcd has no such pool, or does not answer.
    #[error("{operation}: {source}")]
    #[cfg(feature = "etcd")]
    Etcd {
        /// The operation.
        operation: &'static str,
        /// Why.
        source: EtcdError,
    },
    /// A pool over TCP is made and removed where its memory nodes are.
    #[error(
        "{operation} {pool}: a pool over TCP is there while its memory nodes are; start each with `farwood serve`, end \
         it with SIGTERM; whoever creates the first index there makes them a pool"
    )]
    Served {
        /// The operation.
        operation: &'static str,
        /// The pool's URL.
        pool: String,
    },
    /// The pool failed.
    #[error("{operation} {pool}: {source}{}", more_memory(pool, source))]
    Fabric {
        /// The operation.
        operation: &'static str,
        /// The pool's URL.
        pool: String,
        /// Why.
        source: FabricError,
    },
    /// The index failed.
    #[error("{operation} {url}: {source}{}", more_memory_of_index(url, source))]
    Index {
        /// The operation.
        operation: &'static str,
        /// The index.
        url: String,
        /// Why.
        source: IndexError,
    },
    /// The index has keys or values of another type than it was opened with.
    #[error(
        "open {url}: its {what} are {found} and not {expected}; open it with the types that it was created with \
         (`farwood stat {}`)",
        shell_word(url)
    )]
    Type {
        /// The index.
        url: String,
        /// "keys" or "values".
        what: &'static str,
        /// The type that it was opened with.
        expected: Type,
        /// The type that it has.
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
        /// Why, and what would fit.
        why: Unfit,
    },
    /// An index cannot be created with these options.
    #[error("create {url}: {why}")]
    Options {
        /// The index.
        url: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// This process has the index open.
    #[error("drop {url}: this process has it open; drop all its handles first")]
    OpenHere {
        /// The index.
        url: String,
    },
    /// Living processes are attached to the pool.
    #[error(
        "remove shm://{pool}: processes are attached to it ({}); end them, or force it (`farwood drop shm://{pool} \
         --force`): they then keep the memory until they end",
        list(processes)
    )]
    Attached {
        /// The pool's name.
        pool: String,
        /// Process numbers.
        processes: Vec<u64>,
    },
    /// The pool is broken, so nobody can say whether it is in use.
    #[error(
        "remove shm://{pool}: {source}; to remove it all the same, force it (`farwood drop shm://{pool} --force`)"
    )]
    Unusable {
        /// The pool's name.
        pool: String,
        /// What is wrong with it.
        source: ShmError,
    },
    /// The operating system refused something.
    #[error("cannot {operation} {}: {source}", path.display())]
    System {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl std::fmt::Debug for Error {
    /// The sentence for people: what `main` prints of an error that it returns.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What keys or values are, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// What the bytes mean.
    pub kind: Kind,
    /// How many there are; `None`: any number.
    pub bytes: Option<usize>,
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bytes {
            Some(bytes) => write!(f, "{} of {bytes} bytes", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

/// Why a key or a value does not fit an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Its length is another than the index's.
    #[error("has {found} bytes, and the index has {expected}; give exactly as many")]
    Length {
        /// The index's length, bytes.
        expected: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// A text is longer than the index has room for.
    #[error(
        "is a text of {found} bytes, and the index has room for {most}; shorten it, or create an index with room for \
         more, if there is one (`farwood create --help`)"
    )]
    TooLong {
        /// The index's length, bytes.
        most: usize,
        /// The length given, bytes.
        found: usize,
    },
    /// A text holds a NUL, which stands for its end.
    #[error("holds a NUL at byte {at}, which marks the end of a text; use byte strings for such data")]
    Nul {
        /// Where, bytes.
        at: usize,
    },
    /// Text is expected, and the bytes are none.
    #[error("is no UTF-8 text; open the index with byte strings to see its bytes")]
    NoText,
    /// Words that cannot be read as what the index holds.
    #[error("'{text}' is no {expected}")]
    Unreadable {
        /// The words.
        text: String,
        /// What was expected.
        expected: String,
    },
}

/// What gives a pool more memory, where that is what it lacks.
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

fn list(processes: &[u64]) -> String {
    let names: Vec<_> = processes.iter().map(|process| format!("process {process}")).collect();
    names.join(", ")
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The exit code where a pool or an index is not there.
const NOT_FOUND: u8 = 3;
/// The exit code where something is full.
const FULL: u8 = 5;

impl Error {
    /// Whether something is full: the pool, its directory or client table, or the machine's memory.
    pub fn is_full(&self) -> bool {
        self.exit_code() == FULL
    }

    /// Whether the pool or the index is not there.
    pub fn is_not_found(&self) -> bool {
        self.exit_code() == NOT_FOUND
    }

    /// The exit code of a command that ends with this error; the table is in `docs/cli.md`.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Url { .. }
            | Self::NotBuilt { .. }
            | Self::Served { .. }
            | Self::Unfit { .. }
            | Self::Options { .. } => 2,
            Self::Type { .. } => 7,
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
        ShmError::BadName { .. } | ShmError::BadShape { .. } => 2,
        ShmError::NotFound { .. } => NOT_FOUND,
        ShmError::Exists { .. } => 4,
        ShmError::NoSpace { .. } => FULL,
        ShmError::Permission { .. } => 6,
        ShmError::TooSmall { .. } => 8,
        ShmError::BeingCreated { .. } => 9,
        ShmError::Pool { error, .. } => of_fabric(error),
        _ => 10,
    }
}

#[cfg(feature = "etcd")]
fn of_etcd(error: &EtcdError) -> u8 {
    match error {
        EtcdError::BadAddress { .. } => 2,
        EtcdError::NoAnswer { .. } | EtcdError::Incomplete { .. } => NOT_FOUND,
        EtcdError::Taken { .. } => 9,
        // The type may get more.
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
        // The type may get more.
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
        TcpError::Memory { .. } => FULL,
        TcpError::BadToken { .. } | TcpError::Untrusted { .. } => 6,
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
        // The type may get more.
        _ => 10,
    }
}

fn of_system(error: &io::Error) -> u8 {
    use io::ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
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
        FabricError::OutOfRange { .. } | FabricError::Misaligned { .. } => 8,
        FabricError::DirectoryBusy(_) => 9,
        _ => 10,
    }
}

fn of_index(error: &IndexError) -> u8 {
    match error {
        IndexError::Fabric(error) => of_fabric(error),
        IndexError::BadSizes(_)
        | IndexError::MixedLocks { .. }
        | IndexError::WrongLength { .. }
        | IndexError::BadName(_)
        | IndexError::TooLong { .. }
        | IndexError::NoSnapshot(_)
        | IndexError::Elsewhere { .. }
        | IndexError::NotSorted { .. } => 2,
        IndexError::NoSuchIndex(_) => NOT_FOUND,
        IndexError::IndexExists(_) | IndexError::NotEmpty => 4,
        IndexError::Unsafe { .. } | IndexError::WrongFormat(_) => 7,
        IndexError::Damaged { .. } => 8,
        IndexError::LockHeld { .. }
        | IndexError::Exhausted { .. }
        | IndexError::InUse { .. }
        | IndexError::Served { .. }
        | IndexError::NotServed { .. }
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
            (Error::NotBuilt { url: "sim://x".to_owned(), scheme: "sim".to_owned() }, 2),
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
            (Error::OpenHere { url: "shm://p/i".to_owned() }, 9),
        ] {
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }

    #[test]
    fn full_and_not_found_can_be_told() {
        let index = |source| Error::Index { operation: "put", url: "shm://p/i".to_owned(), source };
        let full = index(IndexError::Fabric(FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 }));
        let missing = index(IndexError::NoSuchIndex("i".to_owned()));
        assert!(full.is_full() && !full.is_not_found());
        assert!(missing.is_not_found() && !missing.is_full());
        assert_eq!(format!("{full:?}"), full.to_string());
    }

    #[test]
    fn what_is_full_is_made_larger_where_it_was_made() {
        let full = || IndexError::Fabric(FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 });
        let text =
            |url: &str| Error::Index { operation: "put", url: url.to_owned(), source: full() }.to_string();
        assert!(text("shm://p/i").ends_with("(`farwood create --memory`)"));
        for url in ["tcp://a:1/i", "rdma://a:1/i", "etcd://a:1/p/i"] {
            assert!(text(url).contains("`farwood serve --memory`") && !text(url).contains("create"), "{url}");
        }
    }

    #[test]
    fn faults_of_files_have_the_codes_of_what_they_are() {
        let code = |fault| {
            let source = TcpError::File { path: PathBuf::from("/f"), fault };
            Error::Tcp { operation: "serve", source }.exit_code()
        };
        let system = |kind: io::ErrorKind| code(FileFault::System(kind.into()));
        assert_eq!(system(io::ErrorKind::StorageFull), 5);
        assert_eq!(system(io::ErrorKind::PermissionDenied), 6);
        assert_eq!(system(io::ErrorKind::NotFound), 10);
        assert_eq!(code(FileFault::Unfit("size".to_owned())), 7);
        assert_eq!(code(FileFault::Damaged("papers".to_owned())), 8);
        assert_eq!(code(FileFault::InUse), 9);
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
