//! The chunks of an index: a compute node obtains chunks, allocates slots in them, and leaves their rests to others
//! (Sherman §4.2.4).
//!
//! A compute node adopts the chunk of a crashed client if there is one; otherwise it takes the rest that another
//! compute node returned, or a new chunk. One client at a time takes a chunk, so that the clients of a compute node do
//! not take one each.

use super::adopt::{Objects, adopt};
use super::slot::{MemorySlot, SlotKind};
use crate::error::IndexError;
use farwood_fabric::chunk_limit;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, ChunkOwner, TakenChunk};
use farwood_fabric::{Client, Fabric, NodeId};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pause before a client checks again whether another has taken a chunk, nanoseconds: the first and the longest.
const PAUSE_NS: u64 = 1_000;
const PAUSE_NS_MAX: u64 = 1_000_000;

/// The chunks that a compute node obtains for one index.
#[derive(Debug)]
pub(crate) struct Chunks<O> {
    entry: u8,
    objects: O,
    /// Whether a client is taking a chunk.
    taking: AtomicBool,
}

/// A chunk in which a compute node allocates slots.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    chunk: Chunk,
    /// Bytes in use, from the front.
    used: u64,
    /// Whether the bytes after those in use are zero.
    is_new: bool,
}

/// The right of one client to take a chunk; released on drop.
pub(crate) struct TakeGuard<'a>(&'a AtomicBool);

impl Drop for TakeGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<O: Objects> Chunks<O> {
    /// Chunks for the index at directory entry `entry`.
    pub(crate) const fn new(entry: u8, objects: O) -> Self {
        Self { entry, objects, taking: AtomicBool::new(false) }
    }

    /// Acquires the right to take a chunk, unless another client of the compute node has it.
    pub(crate) fn try_begin(&self) -> Option<TakeGuard<'_>> {
        // Not `then_some`: dropping a guard releases the right.
        (!self.taking.swap(true, Ordering::Acquire)).then(|| TakeGuard(&self.taking))
    }

    fn owner<F: Fabric>(&self, client: &Client<F>) -> ChunkOwner {
        ChunkOwner { client: client.fabric().identity(), entry: self.entry }
    }

    /// Adopts a chunk of memory node `node` from a crashed client, with `bytes` free bytes.
    /// [as [`chunks::inherit`]; 1 RT per 256 KiB of the chunk]
    pub(crate) async fn adopt<F: Fabric>(
        &self,
        client: &Client<F>,
        node: NodeId,
        bytes: u32,
    ) -> Result<Option<OpenChunk>, IndexError> {
        let adopted = adopt(client, node, self.owner(client), bytes, &self.objects).await?;
        Ok(adopted.map(|(chunk, used)| OpenChunk { chunk, used, is_new: false }))
    }

    /// Takes a chunk of memory node `node` with `bytes` free bytes. [as [`chunks::take`]]
    pub(crate) async fn take<F: Fabric>(
        &self,
        client: &Client<F>,
        node: NodeId,
        bytes: u32,
    ) -> Result<Option<OpenChunk>, IndexError> {
        let taken = chunks::take(client, node, self.owner(client), u64::from(bytes)).await?;
        Ok(taken.map(|TakenChunk { chunk, used, is_new }| OpenChunk { chunk, used, is_new }))
    }

    /// Leaves the rest of a chunk for other compute nodes. [1 RT]
    pub(crate) async fn leave<F: Fabric>(
        &self,
        client: &Client<F>,
        open: OpenChunk,
    ) -> Result<(), IndexError> {
        Ok(chunks::leave_rest(client, open.chunk, self.entry, open.used).await?)
    }
}

impl OpenChunk {
    /// Bytes in use, from the front.
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    /// Allocates the slot that begins at byte `start`, which is at or after the end of the used bytes; `None` if it
    /// does not fit.
    pub(crate) fn carve<T>(&mut self, start: u64, kind: SlotKind) -> Option<MemorySlot<T>> {
        debug_assert!(start >= self.used, "slots do not overlap");
        let end = start + u64::from(kind.bytes);
        if end > CHUNK_BYTES {
            return None;
        }
        self.used = end;
        Some(MemorySlot { at: self.chunk.start().part(start), version: None, is_zero: self.is_new, kind })
    }
}

/// The error of a pool without free chunks. [1 RT for each memory node]
pub(crate) async fn pool_full<F: Fabric>(client: &Client<F>) -> IndexError {
    let nodes = (0..client.fabric().shape().nodes).map(NodeId);
    IndexError::Fabric(chunk_limit::pool_full(client, nodes).await)
}

/// Pauses a client that has waited since `since_ns` for another client to take a chunk, for a tenth of the time waited.
pub(crate) async fn wait_for_chunk<F: Fabric>(client: &Client<F>, since_ns: &mut Option<u64>) {
    let now = client.fabric().now();
    let waited = now - *since_ns.get_or_insert(now);
    client.fabric().sleep((waited / 10).clamp(PAUSE_NS, PAUSE_NS_MAX)).await;
}
