//! The snapshot of a pool over TCP that is dumped at one cut: a pool of its own, whose clients have all ended.

use super::error::BackupError;
use crate::attached_place::AttachedPlace;
#[cfg(feature = "tcp")]
use crate::attachment::Attachment;
use crate::error::{Error, Result};
use crate::pool::Pool;
#[cfg(feature = "tcp")]
use farwood_transport::any::PoolLocation;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::{Credentials, PoolAddress, PoolSnapshot, TcpError, TcpPool};

/// A snapshot of a pool, and this process's attachment to it.
#[derive(Debug)]
pub(super) struct DumpSnapshot {
    // Declared before the connections that keep the snapshot, so that it leaves first.
    pool: Pool,
    #[cfg(feature = "tcp")]
    kept: PoolSnapshot,
}

impl DumpSnapshot {
    /// Takes a snapshot of a pool that is open.
    pub(super) fn of(live: &Pool) -> Result<Self> {
        let attached = live.attached();
        match attached.place() {
            #[cfg(feature = "tcp")]
            AttachedPlace::Located(place @ PoolLocation::Tcp(address)) => Self::at(place, address),
            #[cfg(feature = "etcd")]
            AttachedPlace::Located(place @ PoolLocation::Etcd(etcd)) => {
                let found = etcd.discover().map_err(|source| Error::Etcd { operation: "dump", source })?;
                Self::at(place, &found)
            }
            AttachedPlace::Located(_) | AttachedPlace::Anonymous(_) => {
                let source = BackupError::NoSnapshot { pool: live.url() };
                Err(Error::Backup { operation: "dump", path: None, source })
            }
        }
    }

    #[cfg(feature = "tcp")]
    fn at(place: &PoolLocation, address: &PoolAddress) -> Result<Self> {
        let failed = |source| Error::Tcp { operation: "dump", source };
        let credentials = Credentials::find(address).map_err(failed)?;
        let (pool, kept) = TcpPool::open_snapshot(address, credentials).map_err(failed)?;
        let pool = Pool::of(AttachedPlace::Located(place.clone()), Attachment::Tcp(pool));
        Ok(Self { pool, kept })
    }

    /// The pool of the snapshot.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The cause of an error of a dump: the end of the snapshot, if it has ended.
    pub(super) fn explain(&mut self, error: Error) -> Error {
        #[cfg(feature = "tcp")]
        if !matches!(error, Error::Backup { .. })
            && let Err(source @ TcpError::SnapshotLost { .. }) = self.kept.check()
        {
            return Error::Tcp { operation: "dump", source };
        }
        error
    }
}
