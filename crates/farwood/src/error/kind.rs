//! The kinds of errors, which a program acts on.

use super::Error;
#[cfg(feature = "backup")]
use crate::backup::BackupError;
use crate::unfit::Unfit;
use farwood_fabric::FabricError;
use farwood_index::IndexError;
#[cfg(feature = "etcd")]
use farwood_transport::etcd::EtcdError;
#[cfg(feature = "rdma")]
use farwood_transport::rdma::RdmaError;
use farwood_transport::shm::ShmError;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::{FileFault, TcpError};
use std::io;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pool or the index does not exist. A key or record that does not exist is not an error, but `None`.
    NotFound,
    /// The pool or the index exists already, or the index of a bulk load has entries.
    Exists,
    /// The pool, its directory, its client table, the memory of a machine or a file system is full.
    Full,
    /// Another client holds a lock, the index or the file, or changes faster than this one can follow.
    Busy,
    /// A memory node, the server of an index or etcd does not answer, or was lost.
    Unreachable,
    /// The deadline of the call has passed.
    TimedOut,
    /// Another client considered this one crashed and revoked it.
    Revoked,
    /// This process is a forked child of the one that opened the pool.
    Forked,
    /// The operating system, a memory node, the server of an index or etcd denies access.
    PermissionDenied,
    /// The index stores other types, or the record has no geometry.
    TypeMismatch,
    /// An argument of the call is invalid: a name, a size, a URL, an id, or a key or value that does not fit.
    InvalidArgument,
    /// The pool or the index has another format, or the fabric or this program lacks what the call needs.
    Unsupported,
    /// The pool or the index is damaged or lost.
    Damaged,
    /// The operating system refuses a call or a resource.
    System,
    /// None of the other kinds.
    Other,
    /// The call changes something, and this process has opened the pool for reading only; or its token permits only
    /// reads. Nothing has changed.
    ReadOnly,
}

/// An error that has a kind.
pub(crate) trait HasKind {
    fn kind(&self) -> ErrorKind;
}

impl HasKind for Error {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
}

impl HasKind for IndexError {
    fn kind(&self) -> ErrorKind {
        of_index(self)
    }
}

impl ErrorKind {
    /// All kinds, in the order of their declaration.
    pub(crate) const ALL: [Self; 16] = [
        Self::NotFound,
        Self::Exists,
        Self::Full,
        Self::Busy,
        Self::Unreachable,
        Self::TimedOut,
        Self::Revoked,
        Self::Forked,
        Self::PermissionDenied,
        Self::TypeMismatch,
        Self::InvalidArgument,
        Self::Unsupported,
        Self::Damaged,
        Self::System,
        Self::Other,
        Self::ReadOnly,
    ];

    /// The name of the kind in lower case, with `_` between words, for labels of metrics: `not_found`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::Full => "full",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Revoked => "revoked",
            Self::Forked => "forked",
            Self::PermissionDenied => "permission_denied",
            Self::TypeMismatch => "type_mismatch",
            Self::InvalidArgument => "invalid_argument",
            Self::Unsupported => "unsupported",
            Self::Damaged => "damaged",
            Self::System => "system",
            Self::Other => "other",
            Self::ReadOnly => "read_only",
        }
    }

    /// Whether the same call may succeed later without a remedy.
    const fn is_temporary(self) -> bool {
        match self {
            Self::Busy | Self::Unreachable | Self::TimedOut => true,
            Self::NotFound
            | Self::Exists
            | Self::Full
            | Self::Revoked
            | Self::Forked
            | Self::PermissionDenied
            | Self::TypeMismatch
            | Self::InvalidArgument
            | Self::Unsupported
            | Self::Damaged
            | Self::System
            | Self::Other
            | Self::ReadOnly => false,
        }
    }
}

impl Error {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        use ErrorKind as Kind;
        match self {
            Self::Url { .. } | Self::Argument { .. } | Self::Options { .. } => Kind::InvalidArgument,
            Self::Feature { .. } | Self::Served { .. } => Kind::Unsupported,
            #[cfg(feature = "rdma")]
            Self::NoReader { .. } => Kind::Unsupported,
            Self::Unfit { why, .. } => of_unfit(why),
            Self::Type { .. } => Kind::TypeMismatch,
            #[cfg(feature = "geometry")]
            Self::Geometry { .. } => Kind::TypeMismatch,
            #[cfg(feature = "backup")]
            Self::Backup { source, .. } => of_backup(source),
            Self::OpenHere { .. } | Self::Attached { .. } => Kind::Busy,
            Self::Pool { source, .. } | Self::Unusable { source, .. } => of_shm(source),
            #[cfg(feature = "tcp")]
            Self::Tcp { source, .. } => of_tcp(source),
            #[cfg(feature = "rdma")]
            Self::Rdma { source, .. } => of_rdma(source),
            #[cfg(feature = "etcd")]
            Self::Etcd { source, .. } => of_etcd(source),
            Self::Fabric { source, .. } => of_fabric(source),
            Self::Index { source, .. } => of_index(source),
            Self::TimedOut { .. } => Kind::TimedOut,
            Self::Thread { .. } => Kind::System,
            Self::System { source, .. } => of_system(source),
        }
    }

    /// Whether the same call may succeed later without a remedy: the kind is [`Busy`](ErrorKind::Busy),
    /// [`Unreachable`](ErrorKind::Unreachable) or [`TimedOut`](ErrorKind::TimedOut).
    ///
    /// A change that is not idempotent must not be repeated after an error whose [`effect`](Self::effect) is unknown: a
    /// second `insert` of the same key returns `false` if the first one has taken effect, and adding an item twice to a
    /// spatial index adds two items. Reads, and `put` of a key that only one client writes, may be repeated.
    ///
    /// ```
    /// use farwood::error::Effect;
    /// use farwood::{Index, Result};
    /// use std::time::Duration;
    ///
    /// const ATTEMPTS_MAX: u32 = 8;
    ///
    /// /// Inserts a key; returns whether this call has inserted it.
    /// fn insert_patiently(index: &Index<u64, u64>, key: u64, value: u64) -> Result<bool> {
    ///     let mut attempt = 0;
    ///     loop {
    ///         match index.insert(key, value) {
    ///             Err(error)
    ///                 if error.is_retryable() && error.effect() == Effect::None && attempt < ATTEMPTS_MAX =>
    ///             {
    ///                 std::thread::sleep(Duration::from_millis(1 << attempt));
    ///                 attempt += 1;
    ///             }
    ///             done => return done,
    ///         }
    ///     }
    /// }
    /// # let _ = insert_patiently;
    /// ```
    pub fn is_retryable(&self) -> bool {
        self.kind().is_temporary()
    }
}

#[cfg(feature = "backup")]
fn of_backup(error: &BackupError) -> ErrorKind {
    match error {
        BackupError::Io(error) => of_system(error),
        BackupError::Interrupted => ErrorKind::Other,
        BackupError::NotABackup | BackupError::OtherContents { .. } => ErrorKind::TypeMismatch,
        BackupError::Version { .. } | BackupError::Layout { .. } | BackupError::NoSnapshot { .. } => {
            ErrorKind::Unsupported
        }
        BackupError::InUse { .. } | BackupError::NotRemoved { .. } => ErrorKind::Busy,
        BackupError::CutOff { .. } | BackupError::Damaged { .. } => ErrorKind::Damaged,
        BackupError::NoSuchIndex { .. } => ErrorKind::NotFound,
        BackupError::IndexExists { .. } => ErrorKind::Exists,
        BackupError::Options { .. } | BackupError::Unfit { .. } | BackupError::InMemory { .. } => {
            ErrorKind::InvalidArgument
        }
    }
}

fn of_unfit(why: &Unfit) -> ErrorKind {
    match why {
        Unfit::NoText | Unfit::Malformed { .. } | Unfit::Unserialised { .. } => ErrorKind::TypeMismatch,
        Unfit::Length { .. }
        | Unfit::TooLong { .. }
        | Unfit::Nul { .. }
        | Unfit::Unreadable { .. }
        | Unfit::Respelled { .. } => ErrorKind::InvalidArgument,
    }
}

fn of_shm(error: &ShmError) -> ErrorKind {
    match error {
        ShmError::BadName { .. }
        | ShmError::BadShape { .. }
        | ShmError::UnknownGroup { .. }
        | ShmError::UnknownUser { .. } => ErrorKind::InvalidArgument,
        ShmError::NotFound { .. } => ErrorKind::NotFound,
        ShmError::Exists { .. } => ErrorKind::Exists,
        ShmError::NoSpace { .. } => ErrorKind::Full,
        ShmError::Permission { .. }
        | ShmError::ReadOnly { .. }
        | ShmError::ForeignOwner { .. }
        | ShmError::UntrustedGroup { .. }
        | ShmError::WideMode { .. } => ErrorKind::PermissionDenied,
        ShmError::TooSmall { .. }
        | ShmError::SegmentLost { .. }
        | ShmError::NotAFile { .. }
        | ShmError::JournalLost { .. }
        | ShmError::Unsaved { .. } => ErrorKind::Damaged,
        ShmError::BeingCreated { .. } => ErrorKind::Busy,
        ShmError::Pool { error, .. } => of_fabric(error),
        ShmError::Io { error, .. } => of_system(error),
        // The type is non-exhaustive.
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "etcd")]
fn of_etcd(error: &EtcdError) -> ErrorKind {
    match error {
        EtcdError::BadAddress { .. } | EtcdError::Access { .. } => ErrorKind::InvalidArgument,
        EtcdError::Refused { .. } => ErrorKind::PermissionDenied,
        EtcdError::NoAnswer { .. } | EtcdError::Incomplete { .. } => ErrorKind::Unreachable,
        EtcdError::Taken { .. } => ErrorKind::Busy,
        // The type is non-exhaustive.
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "rdma")]
fn of_rdma(error: &RdmaError) -> ErrorKind {
    match error {
        RdmaError::BadDevice { .. } | RdmaError::NoDevice { .. } => ErrorKind::InvalidArgument,
        RdmaError::NoLibrary(_) | RdmaError::NoDevices | RdmaError::Unusable { .. } => ErrorKind::Unsupported,
        RdmaError::Pool(error) => of_tcp(error),
        // The type is non-exhaustive.
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "tcp")]
fn of_tcp(error: &TcpError) -> ErrorKind {
    match error {
        TcpError::BadAddress { .. }
        | TcpError::BadShape(_)
        | TcpError::Token { .. }
        | TcpError::Tls { .. }
        | TcpError::NotThisPool { .. } => ErrorKind::InvalidArgument,
        TcpError::Listen { error, .. } | TcpError::System { error, .. } => of_system(error),
        TcpError::Memory { .. } if error.lacks_descriptors() => ErrorKind::System,
        TcpError::Memory { .. } | TcpError::SnapshotLost { .. } => ErrorKind::Full,
        TcpError::Card { .. } => ErrorKind::System,
        TcpError::File { fault, .. } => of_file(fault),
        TcpError::Unclean { .. } => ErrorKind::Damaged,
        TcpError::NotThere { .. } => ErrorKind::Unreachable,
        TcpError::BadToken { .. } | TcpError::Unproven { .. } | TcpError::Untrusted { .. } => {
            ErrorKind::PermissionDenied
        }
        TcpError::ReadOnlyToken { .. } | TcpError::SnapshotDenied { .. } => ErrorKind::ReadOnly,
        TcpError::SnapshotBusy { .. } => ErrorKind::Busy,
        TcpError::Unusable { .. } => ErrorKind::Unsupported,
        TcpError::NoPool { .. } => ErrorKind::NotFound,
        TcpError::Pool { error, .. } => of_fabric(error),
        // The type is non-exhaustive.
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "tcp")]
fn of_file(fault: &FileFault) -> ErrorKind {
    match fault {
        FileFault::InUse => ErrorKind::Busy,
        FileFault::Unfit(_) => ErrorKind::Unsupported,
        FileFault::Damaged(_) => ErrorKind::Damaged,
        FileFault::System(error) => of_system(error),
        // The type is non-exhaustive.
        _ => ErrorKind::Other,
    }
}

/// The kind of an error of the operating system. A missing file is no missing pool.
pub(super) fn of_system(error: &io::Error) -> ErrorKind {
    use io::ErrorKind::{
        FileTooLarge, OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge | OutOfMemory => ErrorKind::Full,
        PermissionDenied | ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        _ => ErrorKind::System,
    }
}

fn of_fabric(error: &FabricError) -> ErrorKind {
    match error {
        FabricError::NodeLost { .. } => ErrorKind::Unreachable,
        FabricError::CannotPost { .. } => ErrorKind::System,
        FabricError::Revoked(_) => ErrorKind::Revoked,
        FabricError::Forked => ErrorKind::Forked,
        FabricError::ReadOnly => ErrorKind::ReadOnly,
        FabricError::PoolFull { .. }
        | FabricError::NoMemory { .. }
        | FabricError::NoClientSlot { .. }
        | FabricError::NoDirectoryEntry { .. } => ErrorKind::Full,
        FabricError::NotAPool { .. } | FabricError::Missing(_) => ErrorKind::Unsupported,
        FabricError::OutOfRange { .. }
        | FabricError::Misaligned { .. }
        | FabricError::Damaged { .. }
        | FabricError::MemoryLost { .. }
        | FabricError::DirectoryBusy(None) => ErrorKind::Damaged,
        FabricError::DirectoryBusy(Some(_)) => ErrorKind::Busy,
        // The type is non-exhaustive.
        _ => ErrorKind::Other,
    }
}

fn of_index(error: &IndexError) -> ErrorKind {
    match error {
        IndexError::Fabric(error) => of_fabric(error),
        IndexError::BadSizes(_)
        | IndexError::WrongLength { .. }
        | IndexError::TooLong { .. }
        | IndexError::BadId(_)
        | IndexError::SameHash
        | IndexError::BadName(_)
        | IndexError::MixedLocks { .. }
        | IndexError::Elsewhere { .. }
        | IndexError::NotSorted { .. } => ErrorKind::InvalidArgument,
        IndexError::NoSnapshot(_) | IndexError::Unsafe { .. } | IndexError::WrongFormat(_) => {
            ErrorKind::Unsupported
        }
        IndexError::NoSuchIndex(_) => ErrorKind::NotFound,
        IndexError::IndexExists(_) | IndexError::NotEmpty => ErrorKind::Exists,
        IndexError::NoAccess { .. } => ErrorKind::PermissionDenied,
        IndexError::Damaged { .. } => ErrorKind::Damaged,
        IndexError::LockHeld { .. }
        | IndexError::Exhausted { .. }
        | IndexError::Unfinished { .. }
        | IndexError::InUse { .. }
        | IndexError::Served { .. }
        | IndexError::BeingChanged { .. }
        | IndexError::Crowded { .. } => ErrorKind::Busy,
        IndexError::NotServed { .. }
        | IndexError::NoConnection { .. }
        | IndexError::NoAnswer { .. }
        | IndexError::ServerLost { .. } => ErrorKind::Unreachable,
        // The type is non-exhaustive.
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{ClientId, NodeId};
    use std::path::PathBuf;

    const CLIENT: ClientId = ClientId { slot: 1, epoch: 2 };

    fn of_index_error(source: IndexError) -> Error {
        Error::Index { operation: "put", url: "shm://p/i".to_owned(), source }
    }

    fn of_fabric_error(source: FabricError) -> Error {
        Error::Fabric { operation: "examine", pool: "shm://p".to_owned(), source }
    }

    #[test]
    fn each_cause_has_its_kind() {
        let why = String::new;
        let node = NodeId(0);
        for (error, kind) in [
            (of_index_error(IndexError::NoSuchIndex("i".to_owned())), ErrorKind::NotFound),
            (of_index_error(IndexError::IndexExists("i".to_owned())), ErrorKind::Exists),
            (of_index_error(IndexError::InUse { name: "i".to_owned(), client: CLIENT }), ErrorKind::Busy),
            (of_index_error(IndexError::ServerLost { name: "i".to_owned() }), ErrorKind::Unreachable),
            (of_index_error(IndexError::WrongFormat("format 9".to_owned())), ErrorKind::Unsupported),
            (of_fabric_error(FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 }), ErrorKind::Full),
            (of_fabric_error(FabricError::CannotPost { node, why: why() }), ErrorKind::System),
            (of_fabric_error(FabricError::NodeLost { node, why: why() }), ErrorKind::Unreachable),
            (of_fabric_error(FabricError::Revoked(CLIENT)), ErrorKind::Revoked),
            (of_fabric_error(FabricError::Forked), ErrorKind::Forked),
            (of_fabric_error(FabricError::ReadOnly), ErrorKind::ReadOnly),
            (of_index_error(IndexError::Unfinished { operation: "get", by: None }), ErrorKind::Busy),
            (of_fabric_error(FabricError::DirectoryBusy(Some(CLIENT))), ErrorKind::Busy),
            (of_fabric_error(FabricError::DirectoryBusy(None)), ErrorKind::Damaged),
            (Error::OpenHere { url: "shm://p/i".to_owned() }, ErrorKind::Busy),
            (Error::Url { url: "x".to_owned(), why: why() }, ErrorKind::InvalidArgument),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
            let temporary = matches!(kind, ErrorKind::Busy | ErrorKind::Unreachable);
            assert_eq!(error.is_retryable(), temporary, "{error}");
        }
    }

    #[test]
    fn the_number_of_a_kind_is_its_position_in_the_list() {
        assert!(ErrorKind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
        let names: std::collections::BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), ErrorKind::ALL.len());
    }

    #[test]
    fn a_missing_file_is_no_missing_pool() {
        let system = |kind: io::ErrorKind| Error::System {
            operation: "examine",
            path: PathBuf::from("/f"),
            source: kind.into(),
        };
        assert_eq!(system(io::ErrorKind::NotFound).kind(), ErrorKind::System);
        assert_eq!(system(io::ErrorKind::StorageFull).kind(), ErrorKind::Full);
        assert_eq!(system(io::ErrorKind::PermissionDenied).kind(), ErrorKind::PermissionDenied);
    }

    #[cfg(feature = "rdma")]
    #[test]
    fn only_a_missing_pool_is_not_found() {
        let address = "10.0.0.1:7000".to_owned();
        let refused = TcpError::NotThere { address, why: "connection refused".to_owned() };
        let fresh = TcpError::NoPool { pool: "tcp://10.0.0.1:7000".to_owned() };
        for (error, kind) in [
            (Error::Tcp { operation: "open", source: refused }, ErrorKind::Unreachable),
            (Error::Tcp { operation: "open", source: fresh }, ErrorKind::NotFound),
            (
                Error::Rdma { operation: "open", source: RdmaError::NoLibrary("no libibverbs".to_owned()) },
                ErrorKind::Unsupported,
            ),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
