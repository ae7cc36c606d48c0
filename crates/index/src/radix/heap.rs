//! Memory for objects of several sizes: rooms of 64 to 8192 bytes, carved from chunks of 8 MiB one after the other.
//!
//! A room serves objects of one kind and size for as long as its index exists ([`reclaim`](crate::reclaim)). What was
//! emptied is filled first. Rooms are wanted near others, on the same memory node, so that what is written into them
//! and the CAS that links it are one chain; there is a chunk for each memory node, taken when it is needed.
//!
//! What a compute node leaves of its chunks goes to the next one. The rooms that it emptied and kept do not yet; they
//! come back when the index is dropped.

use crate::error::IndexError;
use crate::extent::OF_EXTENTS;
use crate::marks;
use crate::reclaim::{Room, RoomKind};
use crate::retry::Retry;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::{Client, Fabric, FabricError, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tries while another client of the compute node takes a chunk.
const TRIES_MAX: u32 = 20_000;

/// What lies in a room, for rooms keep their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Inner = 0,
    /// A value out of line, or a part of one.
    Extent = OF_EXTENTS as isize,
    Leaf = 2,
    Subtable = 3,
    Directory = 4,
}

impl Kind {
    /// The rooms of `bytes` bytes that hold such objects.
    pub fn rooms(self, bytes: usize) -> RoomKind {
        RoomKind { bytes: bytes as u32, of: self as u8 }
    }
}

/// Rooms for one index.
#[derive(Debug)]
pub struct Heap {
    entry: u8,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By memory node: the chunk that is carved, and how much of it is used, bytes.
    chunks: BTreeMap<u16, (Chunk, u64)>,
    /// Memory nodes of which a chunk is being taken.
    taking: BTreeSet<u16>,
    /// Emptied rooms, by kind and memory node.
    spare: BTreeMap<(RoomKind, u16), Vec<Room<()>>>,
    /// Bytes that were handed out, less those that came back.
    out: i64,
}

impl Heap {
    /// A heap for the index at directory entry `entry`.
    pub fn new(entry: u8) -> Self {
        Self { entry, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A room of that kind on memory node `near`, or another where that has none.
    /// [0 RT; at the end of a chunk as in [`chunks::take`]]
    ///
    /// # Errors
    /// [`FabricError::PoolFull`] where no memory node has a chunk.
    pub async fn allocate<F: Fabric, T>(
        &self,
        client: &Client<F>,
        near: NodeId,
        kind: RoomKind,
    ) -> Result<Room<T>, IndexError> {
        let nodes = client.fabric().shape().nodes;
        for step in 0..nodes {
            let node = (near.0 + step) % nodes;
            let mut retry = Retry::new("allocate", TRIES_MAX);
            loop {
                if let Some(room) = self.carve(client, node, kind) {
                    return Ok(room.cast());
                }
                // One client takes a chunk for all of its compute node.
                let Some(taking) = self.begin(node) else {
                    retry.again(client).await?;
                    continue;
                };
                if let Some(room) = self.carve(client, node, kind) {
                    return Ok(room.cast());
                }
                let owner = Owner { client: client.fabric().identity(), entry: self.entry };
                let taken = chunks::take(client, NodeId(node), owner, u64::from(kind.bytes)).await?;
                let Some((chunk, used)) = taken else { break };
                let before = self.state().chunks.insert(node, (chunk, used));
                drop(taking);
                if let Some((chunk, used)) = before {
                    chunks::leave_rest(client, chunk, self.entry, used).await?;
                }
            }
        }
        let chunks = client.fabric().shape().chunks() * u64::from(nodes);
        Err(IndexError::Fabric(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }))
    }

    /// The turn to take a chunk of a memory node, unless another client of the compute node has it.
    fn begin(&self, node: u16) -> Option<Taking<'_>> {
        let mine = self.state().taking.insert(node);
        mine.then(|| Taking { heap: self, node })
    }

    fn carve<F: Fabric>(&self, client: &Client<F>, node: u16, kind: RoomKind) -> Option<Room<()>> {
        let mut state = self.state();
        if let Some(spare) = state.spare.get_mut(&(kind, node)).and_then(Vec::pop) {
            if spare.is_used() {
                client.fabric().mark(marks::ROOM_REUSED);
            }
            state.out += i64::from(kind.bytes);
            return Some(spare);
        }
        let (chunk, used) = state.chunks.get_mut(&node)?;
        if *used + u64::from(kind.bytes) > CHUNK_BYTES {
            return None;
        }
        let at = chunk.start().part(*used);
        *used += u64::from(kind.bytes);
        state.out += i64::from(kind.bytes);
        Some(Room { at, version: None, kind })
    }

    /// Takes back a room of an object that was taken out of the index, or was never linked.
    pub fn take_back<T>(&self, room: Room<T>) {
        let mut state = self.state();
        let node = room.at.node().0;
        state.out -= i64::from(room.kind.bytes);
        state.spare.entry((room.kind, node)).or_default().push(room.cast());
    }

    /// Bytes that this compute node has taken for objects, less those that it took back.
    pub fn bytes(&self) -> i64 {
        self.state().out
    }

    /// Gives back what is left of the chunks, for the next compute node. [1 RT for each]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let chunks = std::mem::take(&mut self.state().chunks);
        for (chunk, used) in chunks.into_values() {
            chunks::leave_rest(client, chunk, self.entry, used).await?;
        }
        Ok(())
    }
}

/// The turn to take a chunk.
struct Taking<'h> {
    heap: &'h Heap,
    node: u16,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.heap.state().taking.remove(&self.node);
    }
}
