//! Memory for an index's objects, nodes and values: chunks taken from the memory nodes in turn, objects carved from
//! them locally (Sherman §4.2.4).
//!
//! Shared by the clients of a compute node. What a compute node leaves of its chunk is given back when it
//! leaves, and taken up by the next that allocates for the same index; a chunk of one that died is taken over, from
//! behind the last object that was written to it. Objects that were taken out of the index are
//! used again first ([`reclaim`](crate::memory::slot) says why that is safe).

use crate::error::IndexError;
use crate::marks;
use crate::memory::adopt::{Objects, inherit};
use crate::memory::free_list::{Give, Spare, Which};
use crate::memory::slot::{Room, RoomKind};
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::{Client, Fabric, FabricError, NodeId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Allocates objects for one index.
#[derive(Debug)]
pub struct Allocator {
    entry: u8,
    objects: Units,
    state: Mutex<State>,
    /// Whether a client is taking a chunk.
    taking: AtomicBool,
}

/// Objects that begin at multiples of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Units {
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

impl Units {
    fn room_bytes(&self, first_unit: &[u8]) -> u64 {
        match self.room_of {
            RoomOf::One(bytes) => u64::from(bytes),
            RoomOf::Told(told, otherwise) => told(first_unit).unwrap_or(u64::from(otherwise)),
        }
    }
}

impl Objects for Units {
    fn end(&self, chunk: &[u8]) -> u64 {
        let index = self.index.to_le_bytes();
        let units = chunk.chunks_exact(self.unit_bytes).enumerate();
        let objects = units.filter(|(_, unit)| unit[self.index_offset..][..8] == index);
        let ends = objects.map(|(number, unit)| {
            let begin = (number * self.unit_bytes) as u64;
            begin + self.room_bytes(unit).next_multiple_of(self.unit_bytes as u64)
        });
        ends.max().unwrap_or(0)
    }
}

/// The least rest of a chunk that is left to others when another chunk is taken, bytes.
const REST_BYTES_MIN: u64 = 64 << 10;

/// Pause before a client looks again whether another has taken a chunk, nanoseconds: at first, and at most.
const PAUSE_NS: u64 = 1_000;
const PAUSE_NS_MAX: u64 = 1_000_000;

/// Lets a client wait that began to wait for another's chunk at `since`: a tenth of the time that it has waited.
pub(crate) async fn wait_for_another<F: Fabric>(client: &Client<F>, since: &mut Option<u64>) {
    let now = client.fabric().now();
    let waited = now - *since.get_or_insert(now);
    client.fabric().sleep((waited / 10).clamp(PAUSE_NS, PAUSE_NS_MAX)).await;
}

/// Whose turn it is to take a chunk: one client's at a time, lest each takes one for itself. Given back on drop.
pub(crate) struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    /// The turn, unless another client of the compute node has it.
    pub(crate) fn take(taking: &'a AtomicBool) -> Option<Self> {
        // Not `then_some`: a turn that is made is given back.
        (!taking.swap(true, Ordering::Acquire)).then(|| Self(taking))
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
    spare: Spare,
    /// The memory node whose turn it is; drawn from the identity at first.
    next_node: Option<u16>,
    /// Objects that were handed out, less those that came back; those of other compute nodes come, too.
    out: i64,
}

impl Allocator {
    /// An allocator for the index at directory entry `entry`.
    pub fn new(entry: u8, objects: Units) -> Self {
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
        self.allocate_one(client, kind, Which::All).await
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
        self.allocate_one(client, kind, Which::New).await
    }

    async fn allocate_one<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: RoomKind,
        which: Which,
    ) -> Result<Room<T>, IndexError> {
        let mut since = None;
        loop {
            if let Some(room) = self.carve(client, kind, which) {
                return Ok(room);
            }
            let Some(turn) = Turn::take(&self.taking) else {
                wait_for_another(client, &mut since).await;
                continue;
            };
            if !self.has_room(kind, which) {
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
    fn has_room(&self, kind: RoomKind, which: Which) -> bool {
        let state = self.state();
        let left = state.chunk.as_ref().is_some_and(|(_, used)| used + u64::from(kind.bytes) <= CHUNK_BYTES);
        left || state.spare.has(kind, which)
    }

    fn carve<F: Fabric, T>(&self, client: &Client<F>, kind: RoomKind, which: Which) -> Option<Room<T>> {
        let mut state = self.state();
        if let Some(spare) = state.spare.take(kind, which) {
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
        state.spare.put(room.cast());
        state.out -= 1;
    }

    /// An object that was handed out is not the index's: it lists rooms, and its own is listed with them.
    pub fn give_away(&self) {
        self.state().out -= 1;
    }

    /// Takes back a room that was not filled, to be the last that is tried again.
    pub fn put_aside<T>(&self, room: Room<T>) {
        let mut state = self.state();
        state.spare.put_last(room.cast());
        state.out -= 1;
    }

    /// Whether the next object of that kind needs a chunk.
    pub fn is_dry(&self, kind: RoomKind) -> bool {
        !self.has_room(kind, Which::All)
    }

    /// Up to `count` of the emptied rooms, all or those above what is kept. Those that nothing was ever linked in are
    /// not among them: whoever takes over the chunk of a compute node that died takes them for what was not carved
    /// yet.
    pub fn give(&self, give: Give, count: usize) -> Vec<Room<()>> {
        self.state().spare.give(give, count)
    }

    /// Takes rooms that another compute node gave.
    pub fn receive(&self, rooms: impl IntoIterator<Item = Room<()>>) {
        let mut state = self.state();
        rooms.into_iter().for_each(|room| state.spare.put(room));
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
            let inherited = inherit(client, (NodeId(node), owner), bytes, &self.objects).await?;
            if inherited.is_some() {
                return Ok(inherited);
            }
        }
        Ok(None)
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
