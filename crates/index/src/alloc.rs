//! Memory for an index's objects, nodes and values: chunks taken from the memory nodes in turn, objects carved from
//! them locally (Sherman §4.2.4).
//!
//! Shared by the clients of a compute node. What a compute node leaves of its chunk is given back when it
//! leaves, and taken up by the next that allocates for the same index; a chunk of one that died is taken over, from
//! behind the last object that was written to it. Objects that were taken out of the index are
//! used again first ([`reclaim`](crate::reclaim) says why that is safe).

use crate::error::IndexError;
use crate::marks;
use crate::reclaim::{Room, RoomKind};
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::{Client, Fabric, FabricError, NodeId, Words, read_bytes};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Allocates objects for one index.
#[derive(Debug)]
pub struct Allocator {
    entry: u8,
    objects: Objects,
    state: Mutex<State>,
    /// Whether a client is taking a chunk.
    taking: AtomicBool,
}

/// How the objects of an index are found among other bytes.
#[derive(Clone, Copy, Debug)]
pub struct Objects {
    /// The number of the index, which every object has at the same place: no two indexes of a pool ever have the same.
    pub index: u64,
    /// Where, bytes into the object.
    pub index_offset: usize,
    /// They begin at multiples of this, bytes.
    pub unit_bytes: usize,
    /// The bytes that the room of an object takes which begins with these.
    pub room_of: RoomOf,
}

/// How large the rooms of an index are.
#[derive(Clone, Copy, Debug)]
pub enum RoomOf {
    /// All of this size, bytes.
    One(u32),
    /// Of a size that the first unit tells, for those that say so; of this size, bytes, otherwise.
    Told(fn(&[u8]) -> Option<u64>, u32),
}

impl Objects {
    fn room_bytes(&self, first_unit: &[u8]) -> u64 {
        match self.room_of {
            RoomOf::One(bytes) => u64::from(bytes),
            RoomOf::Told(told, otherwise) => told(first_unit).unwrap_or(u64::from(otherwise)),
        }
    }

    /// Where the last object ends in a chunk's bytes, which begin at an object.
    fn end(&self, bytes: &[u8]) -> Option<u64> {
        let index = self.index.to_le_bytes();
        let mut units = bytes.chunks_exact(self.unit_bytes);
        let last = units.rposition(|unit| unit[self.index_offset..][..8] == index)?;
        let start = last * self.unit_bytes;
        Some(start as u64 + self.room_bytes(&bytes[start..]))
    }
}

/// Bytes of a chunk that are read at a time, at most.
const BYTES_PER_READ: usize = 256 << 10;
/// The least rest of a chunk that is left to others when another chunk is taken, bytes.
const REST_BYTES_MIN: u64 = 64 << 10;

/// Pause before a client looks again whether another has taken a chunk, nanoseconds.
const PAUSE_NS: u64 = 1_000;

/// Which rooms will do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rooms {
    All,
    /// Those that no old pointer leads to.
    New,
}

impl Rooms {
    fn fit(self, room: &Room<()>, kind: RoomKind) -> bool {
        room.kind == kind && (self == Self::All || room.version.is_none())
    }
}

/// Whose turn it is to take a chunk: one client's at a time, lest each takes one for itself. Given back on drop.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(taking: &'a AtomicBool) -> Option<Self> {
        (!taking.swap(true, Ordering::Acquire)).then_some(Self(taking))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct State {
    /// The chunk being carved, and how much of it is used, bytes.
    chunk: Option<(Chunk, u64)>,
    /// Rooms of objects that were taken out of the index, or never linked.
    spare: Vec<Room<()>>,
    /// The memory node whose turn it is; drawn from the identity at first.
    next_node: Option<u16>,
    /// Objects that were handed out, less those that came back; those of other compute nodes come, too.
    out: i64,
}

impl Allocator {
    /// An allocator for the index at directory entry `entry`.
    pub fn new(entry: u8, objects: Objects) -> Self {
        Self { entry, objects, state: Mutex::default(), taking: AtomicBool::new(false) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for one object of that kind, not yet linked. [0 RT; at the end of a chunk as in [`chunks::take`]]
    ///
    /// # Errors
    /// [`FabricError::PoolFull`] where no memory node has a chunk.
    pub async fn allocate<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: RoomKind,
    ) -> Result<Room<T>, IndexError> {
        self.allocate_one(client, kind, Rooms::All).await
    }

    /// As [`allocate`](Self::allocate), a room in which nothing that was linked ever lay: no old pointer leads there.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub async fn allocate_new<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: RoomKind,
    ) -> Result<Room<T>, IndexError> {
        self.allocate_one(client, kind, Rooms::New).await
    }

    async fn allocate_one<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: RoomKind,
        rooms: Rooms,
    ) -> Result<Room<T>, IndexError> {
        loop {
            if let Some(room) = self.carve(client, kind, rooms) {
                return Ok(room);
            }
            let Some(turn) = Turn::take(&self.taking) else {
                // A client of this compute node is taking a chunk.
                client.fabric().sleep(PAUSE_NS).await;
                continue;
            };
            if !self.has_room(kind, rooms) {
                let taken = self.take_chunk(client, kind.bytes).await?;
                let before = self.state().chunk.replace(taken);
                if let Some((chunk, used)) = before.filter(|(_, used)| CHUNK_BYTES - used >= REST_BYTES_MIN) {
                    chunks::leave_rest(client, chunk, self.entry, used).await?;
                }
            }
            drop(turn);
        }
    }

    /// Whether the next such object needs no chunk.
    fn has_room(&self, kind: RoomKind, rooms: Rooms) -> bool {
        let state = self.state();
        let left = state.chunk.as_ref().is_some_and(|(_, used)| used + u64::from(kind.bytes) <= CHUNK_BYTES);
        left || state.spare.iter().any(|room| rooms.fit(room, kind))
    }

    fn carve<F: Fabric, T>(&self, client: &Client<F>, kind: RoomKind, rooms: Rooms) -> Option<Room<T>> {
        let mut state = self.state();
        if let Some(at) = state.spare.iter().rposition(|room| rooms.fit(room, kind)) {
            let spare = state.spare.remove(at);
            if spare.version.is_some() {
                client.fabric().mark(marks::ROOM_REUSED);
            }
            state.out += 1;
            return Some(spare.cast());
        }
        let (chunk, used) = state.chunk.as_mut()?;
        if *used + u64::from(kind.bytes) > CHUNK_BYTES {
            return None;
        }
        let at = chunk.start().part(*used);
        *used += u64::from(kind.bytes);
        state.out += 1;
        Some(Room { at, version: None, kind })
    }

    /// Objects that this compute node has allocated, less those that it took back.
    pub fn allocated(&self) -> i64 {
        self.state().out
    }

    /// Takes back a room: of an object that was taken out of the index, or was never linked.
    pub fn take_back<T>(&self, room: Room<T>) {
        let mut state = self.state();
        state.spare.push(room.cast());
        state.out -= 1;
    }

    /// Takes back a room that was not filled, to be the last that is tried again.
    pub fn put_aside<T>(&self, room: Room<T>) {
        let mut state = self.state();
        state.spare.insert(0, room.cast());
        state.out -= 1;
    }

    /// Whether the next object of that kind needs a chunk.
    pub fn is_dry(&self, kind: RoomKind) -> bool {
        !self.has_room(kind, Rooms::All)
    }

    /// Up to `count` of the emptied rooms, if there are more than `keep`. Those that nothing was ever linked in are
    /// not among them: whoever takes over the chunk of a compute node that died takes them for what was not carved
    /// yet.
    pub fn give(&self, keep: usize, count: usize) -> Vec<Room<()>> {
        let mut state = self.state();
        let (mut used, new): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.spare).into_iter().partition(|room| room.version.is_some());
        let give = count.min(used.len().saturating_sub(keep));
        let given = used.split_off(used.len() - give);
        state.spare = new;
        state.spare.append(&mut used);
        given
    }

    /// Takes rooms that another compute node gave.
    pub fn receive(&self, rooms: impl IntoIterator<Item = Room<()>>) {
        self.state().spare.extend(rooms);
    }

    async fn take_chunk<F: Fabric>(
        &self,
        client: &Client<F>,
        bytes: u32,
    ) -> Result<(Chunk, u64), IndexError> {
        let shape = *client.fabric().shape();
        let me = client.fabric().identity();
        let owner = Owner { client: me, entry: self.entry };
        let first = self.state().next_node.unwrap_or(me.slot % shape.nodes);
        if let Some(inherited) = self.inherit(client, owner, bytes).await? {
            return Ok(inherited);
        }
        for step in 0..shape.nodes {
            let node = (first + step) % shape.nodes;
            if let Some(taken) = chunks::take(client, NodeId(node), owner, u64::from(bytes)).await? {
                self.state().next_node = Some((node + 1) % shape.nodes);
                return Ok(taken);
            }
        }
        let chunks = shape.chunks() * u64::from(shape.nodes);
        Err(IndexError::Fabric(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }))
    }

    /// Takes over a chunk with room from a client that is gone; with it, how much of it is used.
    async fn inherit<F: Fabric>(
        &self,
        client: &Client<F>,
        owner: Owner,
        bytes: u32,
    ) -> Result<Option<(Chunk, u64)>, IndexError> {
        for node in 0..client.fabric().shape().nodes {
            while let Some(chunk) = chunks::inherit(client, NodeId(node), owner).await? {
                client.fabric().mark(marks::CHUNK_INHERITED);
                let used = self.used(client, chunk).await?;
                if used + u64::from(bytes) <= CHUNK_BYTES {
                    return Ok(Some((chunk, used)));
                }
                chunks::leave_rest(client, chunk, self.entry, used).await?;
            }
        }
        Ok(None)
    }

    /// Bytes of a chunk up to behind the last object that was ever written to it, or more, where bytes of values look
    /// like one. Nobody writes to what is behind: the client that carved the chunk is gone. [1 RT per 256 KiB of what
    /// is free]
    async fn used<F: Fabric>(&self, client: &Client<F>, chunk: Chunk) -> Result<u64, IndexError> {
        let unit_bytes = self.objects.unit_bytes;
        let most = BYTES_PER_READ / unit_bytes * unit_bytes;
        let mut end = CHUNK_BYTES as usize / unit_bytes * unit_bytes;
        while end > 0 {
            let first = (end - 1) / most * most;
            let copy =
                client.post(read_bytes(chunk.start().part::<Words>(first as u64), end - first)).await?;
            let Ok(bytes) = copy.check(&()) else { unreachable!("words are whole") };
            if let Some(behind) = self.objects.end(&bytes) {
                return Ok((first as u64 + behind).min(CHUNK_BYTES));
            }
            end = first;
        }
        Ok(0)
    }

    /// Gives back what is left of the chunk, for the next compute node. [1 RT]
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let chunk = self.state().chunk.take();
        if let Some((chunk, used)) = chunk {
            chunks::leave_rest(client, chunk, self.entry, used).await?;
        }
        Ok(())
    }
}
