//! Memory for nodes: chunks taken from the memory nodes in turn, nodes carved from them locally
//! (Sherman §4.2.4).
//!
//! Shared by the clients of a compute node. What a compute node leaves of its chunk is given back when it
//! leaves, and taken up by the next that allocates for the same index; a chunk of one that died is taken over, from
//! behind the last object that was written to it. Objects that were taken out of the index are
//! used again first ([`reclaim`](crate::reclaim) says why that is safe).

use crate::error::IndexError;
use crate::marks;
use crate::reclaim::Room;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::{Client, Fabric, FabricError, NodeId, all, read};
use std::sync::{Mutex, PoisonError};

/// Allocates objects of one size for one index.
#[derive(Debug)]
pub struct Allocator {
    entry: u8,
    object_bytes: u64,
    stamp: Stamp,
    state: Mutex<State>,
}

/// What every object of an index has at the same place, and nothing else: the index's number.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Where, bytes into the object.
    pub offset: u64,
    /// The number of the index: no two indexes of a pool ever have the same.
    pub index: u64,
}

/// Objects whose stamps are read by one doorbell.
const STAMPS_PER_READ: u64 = 128;

/// Which rooms will do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rooms {
    All,
    /// Those that no old pointer leads to.
    New,
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
    /// An allocator for objects of `object_bytes`, for the index at directory entry `entry`.
    pub fn new(entry: u8, object_bytes: usize, stamp: Stamp) -> Self {
        Self { entry, object_bytes: object_bytes as u64, stamp, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for one object, not yet linked. [0 RT; at the end of a chunk as in [`chunks::take`]]
    ///
    /// # Errors
    /// [`FabricError::PoolFull`] where no memory node has a chunk.
    pub async fn allocate<F: Fabric, T>(&self, client: &Client<F>) -> Result<Room<T>, IndexError> {
        self.allocate_one(client, Rooms::All).await
    }

    /// As [`allocate`](Self::allocate), a room in which nothing that was linked ever lay: no old pointer leads there.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub async fn allocate_new<F: Fabric, T>(&self, client: &Client<F>) -> Result<Room<T>, IndexError> {
        self.allocate_one(client, Rooms::New).await
    }

    async fn allocate_one<F: Fabric, T>(
        &self,
        client: &Client<F>,
        rooms: Rooms,
    ) -> Result<Room<T>, IndexError> {
        loop {
            if let Some(room) = self.carve(client, rooms) {
                return Ok(room);
            }
            let (chunk, used) = self.take_chunk(client).await?;
            if let Some((chunk, used)) = self.install(chunk, used) {
                client.fabric().mark(marks::CHUNK_SPARE);
                // Another client of this compute node was faster: its chunk is used up first.
                chunks::leave_rest(client, chunk, self.entry, used).await?;
            }
        }
    }

    /// Takes a chunk into use, or gives it back where there is room in another.
    fn install(&self, chunk: Chunk, used: u64) -> Option<(Chunk, u64)> {
        let mut state = self.state();
        match state.chunk {
            Some((_, at)) if at + self.object_bytes <= CHUNK_BYTES => Some((chunk, used)),
            _ => {
                state.chunk = Some((chunk, used));
                None
            }
        }
    }

    fn carve<F: Fabric, T>(&self, client: &Client<F>, rooms: Rooms) -> Option<Room<T>> {
        let mut state = self.state();
        let fits = |room: &Room<()>| rooms == Rooms::All || room.version.is_none();
        if let Some(at) = state.spare.iter().rposition(fits) {
            let spare = state.spare.remove(at);
            if spare.version.is_some() {
                client.fabric().mark(marks::ROOM_REUSED);
            }
            state.out += 1;
            return Some(spare.cast());
        }
        let (chunk, used) = state.chunk.as_mut()?;
        if *used + self.object_bytes > CHUNK_BYTES {
            return None;
        }
        let at = chunk.start().part(*used);
        *used += self.object_bytes;
        state.out += 1;
        Some(Room { at, version: None })
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

    /// Whether the next object needs a chunk.
    pub fn is_dry(&self) -> bool {
        let state = self.state();
        let left = state.chunk.as_ref().is_some_and(|(_, used)| used + self.object_bytes <= CHUNK_BYTES);
        state.spare.is_empty() && !left
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

    async fn take_chunk<F: Fabric>(&self, client: &Client<F>) -> Result<(Chunk, u64), IndexError> {
        let shape = *client.fabric().shape();
        let me = client.fabric().identity();
        let owner = Owner { client: me, entry: self.entry };
        let first = self.state().next_node.unwrap_or(me.slot % shape.nodes);
        if let Some(inherited) = self.inherit(client, owner).await? {
            return Ok(inherited);
        }
        for step in 0..shape.nodes {
            let node = (first + step) % shape.nodes;
            if let Some(taken) = chunks::take(client, NodeId(node), owner, self.object_bytes).await? {
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
    ) -> Result<Option<(Chunk, u64)>, IndexError> {
        for node in 0..client.fabric().shape().nodes {
            while let Some(chunk) = chunks::inherit(client, NodeId(node), owner).await? {
                client.fabric().mark(marks::CHUNK_INHERITED);
                let used = self.used(client, chunk).await?;
                if used + self.object_bytes <= CHUNK_BYTES {
                    return Ok(Some((chunk, used)));
                }
                chunks::leave_rest(client, chunk, self.entry, used).await?;
            }
        }
        Ok(None)
    }

    /// Bytes of a chunk up to behind the last object that was ever written to it. Nobody writes to what is behind: the
    /// client that carved the chunk is gone. [1 RT per 128 objects]
    async fn used<F: Fabric>(&self, client: &Client<F>, chunk: Chunk) -> Result<u64, IndexError> {
        let mut end = CHUNK_BYTES / self.object_bytes;
        while end > 0 {
            let first = end.saturating_sub(STAMPS_PER_READ);
            let stamp_of = |object| chunk.start().part::<u64>(object * self.object_bytes + self.stamp.offset);
            let stamps = client.post(all((first..end).map(|object| read(stamp_of(object))))).await?;
            let written = (first..end).zip(stamps).filter_map(|(object, stamp)| {
                let Ok(stamp) = stamp.check(&()) else { unreachable!("words are whole") };
                (stamp.word() == self.stamp.index).then_some(object)
            });
            if let Some(last) = written.last() {
                return Ok((last + 1) * self.object_bytes);
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
