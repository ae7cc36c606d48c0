//! Whether a failed operation has changed something.
#![expect(
    clippy::match_same_arms,
    reason = "all variants are listed; the last arm is for variants of later versions"
)]

use super::Error;
use super::kind::ErrorKind;
use super::operation::{OperationClass, class_of};
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

/// The effect of an operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: no entry, record, index or pool was changed.
    None,
    /// The operation may have taken effect, wholly or, if it makes several changes, in part.
    Unknown,
}

impl Error {
    /// Whether the operation has changed something.
    ///
    /// After an error of a read the effect is always [`Effect::None`]. After an error of a change it is
    /// [`Effect::Unknown`] if the change may have been posted or sent: after the loss of a memory node or of a server,
    /// an answer that did not arrive, a revocation, a fork, and if a resource for a further post was missing. After a
    /// full pool, a lock timeout or an invalid argument it is [`Effect::None`].
    ///
    /// A call that makes several batches ([`put_many`](crate::spatial::Spatial::put_many), say) has the effect
    /// [`Effect::Unknown`] as soon as one of them is committed. An error that leaves
    /// [`Spatial::change`](crate::spatial::Spatial::change) concerns the call that failed there: changes of earlier
    /// calls of the editor are committed.
    pub fn effect(&self) -> Effect {
        match class_of(self.operation()) {
            OperationClass::Read => Effect::None,
            OperationClass::Change => self.effect_of_change(),
            OperationClass::Steps => self.effect_of_steps(),
        }
    }

    /// The effect of several changes: the first ones are kept, unless an argument was refused before.
    fn effect_of_steps(&self) -> Effect {
        match self {
            Self::Url { .. } | Self::Unfit { .. } | Self::Argument { .. } | Self::Thread { .. } => {
                Effect::None
            }
            // A process that may only read has made no earlier change, either.
            error if error.kind() == ErrorKind::ReadOnly => Effect::None,
            _ => Effect::Unknown,
        }
    }

    fn effect_of_change(&self) -> Effect {
        match self {
            Self::Url { .. }
            | Self::Feature { .. }
            | Self::Served { .. }
            | Self::Type { .. }
            | Self::Unfit { .. }
            | Self::Argument { .. }
            | Self::Options { .. }
            | Self::OpenHere { .. }
            | Self::Attached { .. }
            | Self::Thread { .. }
            | Self::Unusable { .. } => Effect::None,
            #[cfg(feature = "rdma")]
            Self::NoReader { .. } => Effect::None,
            #[cfg(feature = "geometry")]
            Self::Geometry { .. } => Effect::None,
            #[cfg(feature = "backup")]
            Self::Backup { source: BackupError::NotRemoved { .. }, .. } => Effect::Unknown,
            // The indexes of a failed restore are removed.
            #[cfg(feature = "backup")]
            Self::Backup { .. } => Effect::None,
            Self::Pool { operation: "remove", source } => of_removal(source),
            Self::Pool { source, .. } => of_shm(source),
            #[cfg(feature = "tcp")]
            Self::Tcp { source, .. } => of_tcp(source),
            #[cfg(feature = "rdma")]
            Self::Rdma { source: RdmaError::Pool(source), .. } => of_tcp(source),
            #[cfg(feature = "rdma")]
            Self::Rdma { .. } => Effect::None,
            // A registration without an answer may exist until its lease ends.
            #[cfg(feature = "etcd")]
            Self::Etcd { source: EtcdError::NoAnswer { .. }, .. } => Effect::Unknown,
            #[cfg(feature = "etcd")]
            Self::Etcd { .. } => Effect::None,
            Self::Fabric { source, .. } => of_fabric(source),
            Self::Index { source, .. } => of_index(source),
            Self::TimedOut { .. } | Self::System { .. } => Effect::Unknown,
        }
    }
}

/// The effect of the removal of a pool, which removes one file after another.
fn of_removal(error: &ShmError) -> Effect {
    match error {
        ShmError::Permission { .. } | ShmError::ReadOnly { .. } | ShmError::Io { .. } => Effect::Unknown,
        error => of_shm(error),
    }
}

/// The effect of the creation of a pool, which removes its files after a failure.
fn of_shm(error: &ShmError) -> Effect {
    match error {
        ShmError::Pool { error, .. } => of_fabric(error),
        ShmError::Io { .. } => Effect::Unknown,
        ShmError::BadName { .. }
        | ShmError::BadShape { .. }
        | ShmError::UnknownGroup { .. }
        | ShmError::UnknownUser { .. }
        | ShmError::NotFound { .. }
        | ShmError::Exists { .. }
        | ShmError::NoSpace { .. }
        | ShmError::Permission { .. }
        | ShmError::ReadOnly { .. }
        | ShmError::ForeignOwner { .. }
        | ShmError::UntrustedGroup { .. }
        | ShmError::WideMode { .. }
        | ShmError::TooSmall { .. }
        | ShmError::SegmentLost { .. }
        | ShmError::NotAFile { .. }
        | ShmError::JournalLost { .. }
        | ShmError::Unsaved { .. }
        | ShmError::BeingCreated { .. } => Effect::None,
        // The type is non-exhaustive.
        _ => Effect::Unknown,
    }
}

#[cfg(feature = "tcp")]
fn of_tcp(error: &TcpError) -> Effect {
    match error {
        TcpError::Pool { error, .. } => of_fabric(error),
        // The file of a memory node that stops may lack the last changes.
        TcpError::System { .. }
        | TcpError::Card { .. }
        | TcpError::File { fault: FileFault::System(_), .. } => Effect::Unknown,
        TcpError::BadAddress { .. }
        | TcpError::BadShape(_)
        | TcpError::Listen { .. }
        | TcpError::Memory { .. }
        | TcpError::Token { .. }
        | TcpError::Tls { .. }
        | TcpError::File { .. }
        | TcpError::Unclean { .. }
        | TcpError::NotThere { .. }
        | TcpError::BadToken { .. }
        | TcpError::ReadOnlyToken { .. }
        | TcpError::SnapshotBusy { .. }
        | TcpError::SnapshotLost { .. }
        | TcpError::SnapshotDenied { .. }
        | TcpError::Unproven { .. }
        | TcpError::Untrusted { .. }
        | TcpError::Unusable { .. }
        | TcpError::NoPool { .. }
        | TcpError::NotThisPool { .. } => Effect::None,
        // The type is non-exhaustive.
        _ => Effect::Unknown,
    }
}

/// The effect of a change that ends with an error of the fabric. `IndexError::may_be_written` agrees for the errors of
/// verbs and of memory.
fn of_fabric(error: &FabricError) -> Effect {
    match error {
        // No memory for an object: nothing links it. No slot, no entry, no lock: nothing was begun.
        FabricError::PoolFull { .. }
        | FabricError::NoMemory { .. }
        | FabricError::NoClientSlot { .. }
        | FabricError::NoDirectoryEntry { .. }
        | FabricError::ReadOnly
        | FabricError::DirectoryBusy(_) => Effect::None,
        FabricError::NodeLost { .. }
        | FabricError::CannotPost { .. }
        | FabricError::Revoked(_)
        | FabricError::Forked
        | FabricError::MemoryLost { .. }
        | FabricError::Missing(_)
        | FabricError::NotAPool { .. }
        | FabricError::OutOfRange { .. }
        | FabricError::Misaligned { .. }
        | FabricError::Damaged { .. } => Effect::Unknown,
        // The type is non-exhaustive.
        _ => Effect::Unknown,
    }
}

fn of_index(error: &IndexError) -> Effect {
    match error {
        IndexError::Fabric(error) => of_fabric(error),
        // The server may execute the request.
        IndexError::NoAnswer { .. } | IndexError::ServerLost { .. } => Effect::Unknown,
        IndexError::BadSizes(_)
        | IndexError::WrongLength { .. }
        | IndexError::TooLong { .. }
        | IndexError::BadId(_)
        | IndexError::SameHash
        | IndexError::NoSnapshot(_)
        | IndexError::Unsafe { .. }
        | IndexError::Damaged { .. }
        | IndexError::LockHeld { .. }
        | IndexError::Exhausted { .. }
        | IndexError::Unfinished { .. }
        | IndexError::NoSuchIndex(_)
        | IndexError::IndexExists(_)
        | IndexError::BadName(_)
        | IndexError::WrongFormat(_)
        | IndexError::MixedLocks { .. }
        | IndexError::InUse { .. }
        | IndexError::NotServed { .. }
        | IndexError::NoConnection { .. }
        | IndexError::BeingChanged { .. }
        | IndexError::NoAccess { .. }
        | IndexError::Crowded { .. }
        | IndexError::Elsewhere { .. }
        | IndexError::Served { .. }
        | IndexError::NotEmpty
        | IndexError::NotSorted { .. } => Effect::None,
        // The type is non-exhaustive.
        _ => Effect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{ClientId, NodeId};

    const CLIENT: ClientId = ClientId { slot: 1, epoch: 2 };

    fn effect(operation: &'static str, source: impl Into<IndexError>) -> Effect {
        Error::Index { operation, url: "shm://p/i".to_owned(), source: source.into() }.effect()
    }

    fn lost() -> FabricError {
        FabricError::NodeLost { node: NodeId(0), why: "closed".to_owned() }
    }

    fn full() -> FabricError {
        FabricError::PoolFull { chunks: 2, chunk_bytes: 8 << 20 }
    }

    #[test]
    fn reads_change_nothing() {
        for operation in ["get", "scan", "count", "open", "examine"] {
            assert_eq!(effect(operation, lost()), Effect::None, "{operation}");
        }
    }

    #[test]
    fn a_change_may_take_effect_before_a_memory_node_is_lost() {
        for error in [lost(), FabricError::Revoked(CLIENT), FabricError::Forked] {
            assert_eq!(effect("put", error), Effect::Unknown);
        }
        assert_eq!(effect("insert", IndexError::ServerLost { name: "i".to_owned() }), Effect::Unknown);
        assert_eq!(
            effect("insert", IndexError::NoAnswer { name: "i".to_owned(), seconds: 10 }),
            Effect::Unknown
        );
    }

    #[test]
    fn a_refused_change_has_no_effect() {
        assert_eq!(effect("put", full()), Effect::None);
        let held = IndexError::LockHeld { operation: "put", holder: Some(CLIENT), waited_ms: 7 };
        assert_eq!(effect("put", held), Effect::None);
        assert_eq!(effect("drop", FabricError::DirectoryBusy(Some(CLIENT))), Effect::None);
        assert_eq!(effect("create", IndexError::IndexExists("i".to_owned())), Effect::None);
    }

    #[test]
    fn a_process_that_may_only_read_changes_nothing() {
        for operation in ["put", "put many", "sweep", "create", "drop"] {
            assert_eq!(effect(operation, FabricError::ReadOnly), Effect::None, "{operation}");
        }
    }

    #[test]
    fn batches_before_the_failed_one_stay() {
        assert_eq!(effect("put the rest of", full()), Effect::Unknown);
        assert_eq!(effect("put the rest of", IndexError::SameHash), Effect::Unknown);
        assert_eq!(effect("an operation of another crate", IndexError::SameHash), Effect::Unknown);
    }
}
