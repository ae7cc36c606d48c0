//! Pools in shared memory whose files are on a disk: `$FARWOOD_SHM_DIR` names a directory of a disk file system.

use super::error::BackupError;
use super::image::{SavedPool, attach_alone, failed, in_use};
use crate::error::{Error, Result};
use crate::pool::expect_shm;
use crate::url::Url;
use farwood_transport::shm::{PoolName, Saving, SegmentDir, ShmPool};

impl SavedPool<'_> {
    /// Saves a pool whose files are on a disk ($FARWOOD_SHM_DIR) in these files: when it returns, they are complete
    /// there, and the pool can be opened after a reboot. The last process that leaves such a pool does the same, unless
    /// it is killed.
    ///
    /// # Errors
    /// [`Error::Backup`]: a process uses the pool, or it is in memory; [`Error::Pool`]: there is no such pool, or the
    /// files cannot be written; [`Error::Served`]: the memory of a pool over TCP is in its memory nodes.
    pub fn on_disk(self) -> Result<()> {
        let (dir, name) = self.place()?;
        let attached = attach_alone(&dir, &name)?;
        match attached.save().map_err(|source| Error::Pool { operation: "save", source })? {
            Saving::Saved => Ok(()),
            Saving::InUse => Err(in_use(&name, Vec::new())),
            Saving::InMemory => {
                let directory = dir.path().to_owned();
                Err(failed("save", BackupError::InMemory { pool: name.to_string(), directory }))
            }
        }
    }

    /// Accepts the files of a pool on a disk that was in use when the machine stopped: they are complete if all its
    /// processes had ended before the machine was shut down in order. After a power failure, each page of them may be
    /// old or new: restore a backup. A pool that can be opened is not changed.
    ///
    /// # Errors
    /// As [`on_disk`](Self::on_disk).
    pub fn accept_unclean(&self) -> Result<()> {
        let (dir, name) = self.place()?;
        ShmPool::accept_unsaved(&dir, &name).map_err(|source| Error::Pool { operation: "save", source })
    }

    fn place(&self) -> Result<(SegmentDir, PoolName)> {
        Ok((SegmentDir::from_env(), expect_shm(self.url().parse::<Url>()?, "save")?))
    }
}
