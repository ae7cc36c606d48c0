//! The file that keeps a memory node's memory: its options, and who may use it.

use super::{MemorySizes, bytes_of};
use crate::daemon::log::{Durability, LogTuning};
use crate::error::{FileFault, TcpError};
use crate::shm::{effective_user, is_trusted};
use farwood_fabric::ByteCount;
use farwood_fabric::chunks::CHUNK_BYTES;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The reason for refusing a file whose length or header does not match the requested sizes.
pub(super) const OTHER_SIZE: &str = "it is not a memory node's file, or of another size: give the \
    --device-memory that it was created with, or another file";

/// A file that keeps a memory node's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// The path. A missing file is created.
    pub path: PathBuf,
    /// Whether to accept a file whose last memory node did not stop cleanly. A WRITE at that time may be
    /// incomplete; checking an index (`farwood check`) finds such nodes.
    pub accept_unclean: bool,
    /// When changes are on the disk.
    pub durability: Durability,
    /// Whether to remove the fences of revoked clients. Clients that were attached before then have to open the pool
    /// again.
    pub clear_fences: bool,
    /// Whether an existing file keeps its memory, also if the memory node is started with more.
    pub keeps_memory: bool,
    /// For tests.
    #[doc(hidden)]
    pub log_tuning: LogTuning,
}

impl NodeFile {
    /// A file at `path`, which is on the disk when the memory node has stopped in order.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let durability = Durability::Orderly;
        let log_tuning = LogTuning::default();
        Self {
            path: path.into(),
            durability,
            accept_unclean: false,
            clear_fences: false,
            keeps_memory: false,
            log_tuning,
        }
    }

    /// Checks that a device may execute verbs: it would change the memory without the log.
    pub(in crate::daemon) fn check_durability_for_executor(&self) -> Result<(), TcpError> {
        if self.durability == Durability::Orderly {
            return Ok(());
        }
        let why = "an RDMA device changes memory without the log; give --durability orderly, or omit --rdma";
        Err(self.refused(FileFault::Unfit(why.to_owned())))
    }

    /// Checks that a device can execute verbs in it. The device pins the pages permanently, which disk file systems do
    /// not support, and its writes might never reach the disk.
    ///
    /// # Errors
    /// [`TcpError::File`].
    pub(in crate::daemon) fn check_for_executor(&self) -> Result<(), TcpError> {
        let refuse = |fault| Err(self.refused(fault));
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let there = if self.path.exists() { &*self.path } else { folder.unwrap_or(Path::new(".")) };
        match rustix::fs::statfs(there) {
            Ok(found) if found.f_type == libc::TMPFS_MAGIC => Ok(()),
            Ok(_) => refuse(FileFault::Unfit(
                "an RDMA device pins the pages of its memory, which only a tmpfs supports; name a file on one \
                 (/dev/shm), which outlives the memory node but not the machine, or omit --file or --rdma"
                    .to_owned(),
            )),
            Err(error) => refuse(FileFault::System(error.into())),
        }
    }

    /// Refuses a file of another user, who could have written anything into it.
    pub(super) fn check_owner(&self, metadata: &Metadata) -> Result<(), TcpError> {
        if is_trusted(metadata) {
            return Ok(());
        }
        let (owner, user) = (metadata.uid(), effective_user());
        let why =
            format!("it belongs to user {owner}, and this process is of user {user}; name another file");
        Err(self.refused(FileFault::System(io::Error::new(io::ErrorKind::PermissionDenied, why))))
    }

    pub(super) fn refused(&self, fault: FileFault) -> TcpError {
        TcpError::File { path: self.path.clone(), fault }
    }

    /// The sizes of the memory in an existing file of `bytes` bytes, which stays as large as it was created.
    pub(super) fn sizes_of(&self, bytes: u64, asked: MemorySizes) -> Result<MemorySizes, TcpError> {
        let host_bytes = bytes.checked_sub(bytes_of(0, asked.device));
        let Some(host_bytes) = host_bytes.filter(|bytes| bytes.is_multiple_of(CHUNK_BYTES)) else {
            return Err(self.refused(FileFault::Unfit(OTHER_SIZE.to_owned())));
        };
        if self.keeps_memory {
            let memory = asked.memory.min(host_bytes);
            return Ok(MemorySizes { memory, memory_max: host_bytes, ..asked });
        }
        if asked.memory > host_bytes {
            let why = format!(
                "its memory can grow to {}, which it was created with; give less --memory, or restore a dump into \
                 another file",
                ByteCount(host_bytes)
            );
            return Err(self.refused(FileFault::Unfit(why)));
        }
        Ok(MemorySizes { memory_max: host_bytes, ..asked })
    }
}
