//! A pool over TCP.

use crate::client::framed::Line;
use crate::client::{Credentials, Fresh, PoolAddress, ServedFabric, ServedPool};
use crate::error::TcpError;
use std::num::NonZeroU16;

/// A pool over TCP.
pub type TcpPool = ServedPool<Line>;
/// One client's connection to a pool over TCP.
pub type TcpFabric = ServedFabric<Line>;

impl TcpPool {
    /// Attaches this process to a pool, as a new compute node. Where all its memory nodes are fresh, they become a
    /// pool.
    ///
    /// # Errors
    /// [`TcpError::NotThere`], [`TcpError::BadToken`], [`TcpError::Unusable`], [`TcpError::NotThisPool`];
    /// [`TcpError::Pool`] where all client slots are taken.
    pub fn open(address: &PoolAddress, credentials: Credentials) -> Result<Self, TcpError> {
        Self::open_with(address, credentials, Fresh::Forms)
    }

    /// As [`open`](Self::open), where `fresh` says what memory nodes are that are all fresh.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`TcpError::NoPool`].
    pub fn open_with(
        address: &PoolAddress,
        credentials: Credentials,
        fresh: Fresh,
    ) -> Result<Self, TcpError> {
        Self::attach(address, credentials, NonZeroU16::MIN, fresh, |_| Ok(()))
    }
}
