//! The exit codes of the command `farwood`: one for each kind of error, with exceptions.

use super::kind::of_system;
use super::{Error, ErrorKind};
#[cfg(feature = "backup")]
use crate::backup::BackupError;
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

impl Error {
    /// The exit code of a command that ends with this error of the operating system.
    #[doc(hidden)]
    pub fn exit_code_of(error: &io::Error) -> u8 {
        exception_of_system(error).unwrap_or_else(|| of_kind(of_system(error)))
    }

    /// The exit code of a command that ends with this error; the table is in `docs/cli.md`.
    #[doc(hidden)]
    pub fn exit_code(&self) -> u8 {
        self.exception().unwrap_or_else(|| of_kind(self.kind()))
    }

    /// The exit code of an error that differs from that of its kind.
    fn exception(&self) -> Option<u8> {
        match self {
            Self::Feature { .. } | Self::Served { .. } | Self::Unfit { .. } => Some(2),
            #[cfg(feature = "rdma")]
            Self::NoReader { .. } => Some(2),
            #[cfg(feature = "geometry")]
            Self::Geometry { .. } => Some(8),
            #[cfg(feature = "backup")]
            Self::Backup { source, .. } => match source {
                BackupError::Io(error) => exception_of_system(error),
                BackupError::CutOff { .. } | BackupError::Damaged { .. } | BackupError::NoSnapshot { .. } => {
                    Some(2)
                }
                _ => None,
            },
            Self::Pool { source, .. } | Self::Unusable { source, .. } => match source {
                ShmError::Pool { error, .. } => exception_of_fabric(error),
                ShmError::Io { error, .. } => exception_of_system(error),
                _ => None,
            },
            #[cfg(feature = "tcp")]
            Self::Tcp { source, .. } => exception_of_tcp(source),
            #[cfg(feature = "rdma")]
            Self::Rdma { source, .. } => match source {
                RdmaError::NoLibrary(_) | RdmaError::NoDevices | RdmaError::NoDevice { .. } => Some(3),
                RdmaError::Pool(error) => exception_of_tcp(error),
                _ => None,
            },
            #[cfg(feature = "etcd")]
            Self::Etcd { source: EtcdError::NoAnswer { .. } | EtcdError::Incomplete { .. }, .. } => Some(3),
            Self::Index { source: IndexError::NoSnapshot(_), .. } => Some(2),
            Self::Fabric { source, .. } | Self::Index { source: IndexError::Fabric(source), .. } => {
                exception_of_fabric(source)
            }
            Self::System { source, .. } => exception_of_system(source),
            _ => None,
        }
    }
}

/// The exit code of all errors of a kind but the exceptions.
const fn of_kind(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidArgument => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Exists => 4,
        ErrorKind::Full => 5,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnly => 6,
        ErrorKind::TypeMismatch | ErrorKind::Unsupported => 7,
        ErrorKind::Damaged => 8,
        ErrorKind::Busy | ErrorKind::Unreachable | ErrorKind::TimedOut => 9,
        ErrorKind::Revoked | ErrorKind::Forked | ErrorKind::System | ErrorKind::Other => 10,
    }
}

#[cfg(feature = "tcp")]
fn exception_of_tcp(error: &TcpError) -> Option<u8> {
    match error {
        // The pool was never opened.
        TcpError::NotThere { .. } => Some(3),
        TcpError::NotThisPool { .. } => Some(7),
        TcpError::File { fault: FileFault::System(error), .. } => exception_of_system(error),
        TcpError::Pool { error, .. } => exception_of_fabric(error),
        _ => None,
    }
}

/// A file of the command line does not exist, or is a directory.
fn exception_of_system(error: &io::Error) -> Option<u8> {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | IsADirectory | NotADirectory).then_some(2)
}

fn exception_of_fabric(error: &FabricError) -> Option<u8> {
    match error {
        FabricError::CannotPost { .. } => Some(5),
        // The memory node was lost during the operation.
        FabricError::NodeLost { .. } => Some(10),
        _ => None,
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
            (index(IndexError::NoSnapshot("a radix tree")), 2),
            (index(IndexError::Fabric(FabricError::CannotPost { node: NodeId(0), why: String::new() })), 5),
            (index(IndexError::Fabric(FabricError::NodeLost { node: NodeId(0), why: String::new() })), 10),
            (index(IndexError::ServerLost { name: "i".to_owned() }), 9),
            (index(IndexError::Fabric(FabricError::Forked)), 10),
            (index(IndexError::Fabric(FabricError::ReadOnly)), 6),
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
