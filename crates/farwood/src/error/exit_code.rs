//! The exit codes of the command `farwood`.

use super::Error;
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

/// The exit code for a missing pool or index.
const NOT_FOUND: u8 = 3;
/// The exit code for a full pool, table or memory.
const FULL: u8 = 5;

impl Error {
    /// The exit code of a command that ends with this error of the operating system.
    #[doc(hidden)]
    pub fn exit_code_of(error: &io::Error) -> u8 {
        of_system(error)
    }

    /// The exit code of a command that ends with this error; the table is in `docs/cli.md`.
    #[doc(hidden)]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Url { .. }
            | Self::Feature { .. }
            | Self::Served { .. }
            | Self::Unfit { .. }
            | Self::Argument { .. }
            | Self::Options { .. } => 2,
            Self::Type { .. } => 7,
            #[cfg(feature = "geometry")]
            Self::Geometry { .. } => 8,
            Self::OpenHere { .. } | Self::Attached { .. } | Self::TimedOut { .. } => 9,
            Self::Thread { .. } => 10,
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
    use std::path::PathBuf;

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
}
