//! A pool over TCP.

use crate::client::framed::FrameConnections;
use crate::client::{Credentials, FreshNodePolicy, PoolAddress, PoolSnapshot, ServedFabric, ServedPool};
use crate::error::TcpError;
use std::num::NonZeroU16;

/// A pool over TCP.
pub type TcpPool = ServedPool<FrameConnections>;
/// One client's connection to a pool over TCP.
pub type TcpFabric = ServedFabric<FrameConnections>;

impl TcpPool {
    /// Attaches this process to a pool, as a new compute node. If all its memory nodes are fresh, they form a
    /// pool.
    ///
    /// # Errors
    /// [`TcpError::NotThere`], [`TcpError::BadToken`], [`TcpError::Unusable`], [`TcpError::NotThisPool`];
    /// [`TcpError::Pool`] if all client slots are taken.
    pub fn open(address: &PoolAddress, credentials: Credentials) -> Result<Self, TcpError> {
        Self::open_with(address, credentials, FreshNodePolicy::FormPool)
    }

    /// Attaches this process to an existing pool for reading only: it takes no slot of the client table, and every verb
    /// but READs is refused. A token for reading is enough.
    ///
    /// # Errors
    /// [`TcpError::NotThere`], [`TcpError::BadToken`], [`TcpError::Unusable`], [`TcpError::NotThisPool`];
    /// [`TcpError::NoPool`].
    pub fn open_read_only(address: &PoolAddress, credentials: Credentials) -> Result<Self, TcpError> {
        Self::attach_reader(address, credentials, ())
    }

    /// Attaches this process to a snapshot of an existing pool: all memory nodes as they were at one cut, while other
    /// clients change the live memory. In the snapshot, all clients have ended, and the changes of this process are
    /// visible to nobody else. The snapshot ends when the second value is dropped, or this process ends.
    ///
    /// # Errors
    /// As [`open_read_only`](Self::open_read_only); [`TcpError::SnapshotBusy`], [`TcpError::SnapshotDenied`].
    pub fn open_snapshot(
        address: &PoolAddress,
        credentials: Credentials,
    ) -> Result<(Self, PoolSnapshot), TcpError> {
        Self::attach_snapshot(address, credentials, ())
    }

    /// Like [`open`](Self::open); `fresh` determines what happens if all memory nodes are fresh.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`TcpError::NoPool`].
    pub fn open_with(
        address: &PoolAddress,
        credentials: Credentials,
        fresh: FreshNodePolicy,
    ) -> Result<Self, TcpError> {
        Self::attach(address, credentials, NonZeroU16::MIN, fresh, |_| Ok(()))
    }
}
