//! The growth of a memory node's memory and of its pool.
//!
//! The mapping has all memory that clients can address; the operating system allocates what they use. So memory grows
//! when the limit in the superblock does ([`chunk_limit`]), and no address changes.

use super::{Membership, NUMBERS, NodeFile, Store};
use crate::wire::{Code, Formation};
use farwood_fabric::superblock::HEADER_OFFSET;
use farwood_fabric::{ByteCount, NodeId, PoolShape, chunk_limit};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// The sizes of a memory node's memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct MemorySizes {
    /// Host memory that clients use.
    pub(in crate::daemon) memory: u64,
    /// Host memory to which it can grow.
    pub(in crate::daemon) memory_max: u64,
    /// Device memory.
    pub(in crate::daemon) device: u64,
}

impl Store {
    fn shape(&self, pool: u64, nodes: u16) -> PoolShape {
        PoolShape { pool, nodes, host_bytes: self.host_bytes, device_bytes: self.device_bytes }
    }

    /// The word of fresh memory that limits clients to its size, with its offset; `None`: they use all of it.
    pub(super) fn first_limit(&self) -> Option<(u64, u64)> {
        (self.first_memory_bytes < self.host_bytes).then(|| chunk_limit::word_of(self.first_memory_bytes))
    }

    /// Host memory that clients use, bytes.
    pub(in crate::daemon) fn memory_bytes(&self) -> u64 {
        self.memory_bytes_of(&self.membership())
    }

    fn memory_bytes_of(&self, membership: &Membership) -> u64 {
        if membership.formed == Formation::Blank {
            return self.first_memory_bytes;
        }
        let found = self.load(chunk_limit::OFFSET);
        let shape = self.shape(membership.pool, membership.nodes);
        // Clients that read a damaged limit fail; it limits nothing here.
        chunk_limit::bytes_in(&shape, NodeId(membership.node), found).unwrap_or(self.host_bytes)
    }

    /// Raises the limit to the size that was asked for at this start.
    ///
    /// # Errors
    /// As [`grow`](Self::grow).
    pub(super) fn grow_at_start(&self, file: &NodeFile) -> Result<(), String> {
        let is_enough = file.keeps_memory || self.first_memory_bytes <= self.memory_bytes();
        if is_enough || self.membership().formed != Formation::Whole {
            return Ok(());
        }
        self.grow(self.first_memory_bytes).map(drop).map_err(|(_, why)| why)
    }

    /// Raises the limit of the memory to `bytes`; a higher limit stays. Returns the limit.
    ///
    /// # Errors
    /// The memory cannot grow to that size, or the disk has no space for it.
    pub(in crate::daemon) fn grow(&self, bytes: u64) -> Result<u64, (Code, String)> {
        // The lock excludes another growth.
        let membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        if membership.formed != Formation::Whole {
            return Err((Code::WrongPool, "its pool is not complete".to_owned()));
        }
        let shape = PoolShape { host_bytes: bytes, ..self.shape(membership.pool, membership.nodes) };
        if let Some(why) = shape.refuse() {
            return Err((Code::OutOfRange, why));
        }
        if bytes > self.host_bytes {
            let most = ByteCount(self.host_bytes);
            return Err((
                Code::OutOfRange,
                format!(
                    "its memory can grow to {most}, which it was created with (`farwood serve --memory-max`)"
                ),
            ));
        }
        let before = self.memory_bytes_of(&membership);
        if bytes <= before {
            return Ok(before);
        }
        // The memory is allocated when clients take its chunks: that of a large file would take seconds here.
        let (offset, word) = chunk_limit::word_of(bytes);
        self.change(offset, &word.to_le_bytes());
        self.sync_log().map_err(|why| (Code::NoMemory, why))?;
        Ok(bytes)
    }

    /// Records that the pool has `nodes` memory nodes; a higher number stays. Changes before this are durable
    /// afterwards, and are before a cut that the answer has. Returns the number.
    ///
    /// # Errors
    /// The pool is not complete, or the log has failed.
    pub(in crate::daemon) fn extend(&self, nodes: u16) -> Result<u16, String> {
        let mut membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        if membership.formed != Formation::Whole {
            return Err("its pool is not complete".to_owned());
        }
        let shape = self.shape(membership.pool, nodes);
        if let Some(why) = shape.refuse() {
            return Err(why);
        }
        if nodes > membership.nodes {
            membership.nodes = nodes;
            // Locks that were answered early are before this change in the log.
            self.has_early_locks.store(false, Ordering::Release);
            self.change(HEADER_OFFSET, &shape.header(NodeId(membership.node)));
            self.set_header_word(NUMBERS, u64::from(membership.node) | u64::from(nodes) << 16);
            self.take_part_in_cuts();
        }
        if let Some(log) = &self.log {
            log.begin_next_cut();
        }
        self.sync_log()?;
        Ok(membership.nodes)
    }
}
