//! Memory for nodes: chunks taken from the memory nodes in turn, nodes carved from them locally
//! (Sherman §4.2.4).
//!
//! Shared by the clients of a compute node. What a compute node leaves of its chunk is given back when it
//! leaves, and taken up by the next that allocates for the same index.

use crate::error::IndexError;
use crate::marks;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::{Client, Fabric, FabricError, NodeId, Remote};
use std::sync::{Mutex, PoisonError};

/// Allocates objects of one size for one index.
#[derive(Debug)]
pub struct Allocator {
    entry: u8,
    object_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The chunk being carved, and how much of it is used, bytes.
    chunk: Option<(Chunk, u64)>,
    /// Objects that were allocated and never linked.
    spare: Vec<u64>,
    /// The memory node whose turn it is; drawn from the identity at first.
    next_node: Option<u16>,
    /// Chunks that were taken into use, oldest first.
    taken: Vec<Chunk>,
    /// Objects that were handed out and not given back.
    out: u64,
}

/// What an allocator had at some moment; see [`Allocator::mark`].
#[derive(Debug)]
pub struct Mark {
    chunk: Option<(Chunk, u64)>,
    taken: usize,
    out: u64,
}

impl Allocator {
    /// An allocator for objects of `object_bytes`, for the index at directory entry `entry`.
    pub fn new(entry: u8, object_bytes: usize) -> Self {
        Self { entry, object_bytes: object_bytes as u64, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for one object, not yet linked. [0 RT; at the end of a chunk as in [`chunks::take`]]
    ///
    /// # Errors
    /// [`FabricError::PoolFull`] where no memory node has a chunk.
    pub async fn allocate<F: Fabric, T: ?Sized>(&self, client: &Client<F>) -> Result<Remote<T>, IndexError> {
        loop {
            if let Some(object) = self.carve() {
                return Ok(object);
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
                state.taken.push(chunk);
                None
            }
        }
    }

    fn carve<T: ?Sized>(&self) -> Option<Remote<T>> {
        let mut state = self.state();
        if let Some(spare) = state.spare.pop() {
            state.out += 1;
            return Remote::from_word(spare);
        }
        let (chunk, used) = state.chunk.as_mut()?;
        if *used + self.object_bytes > CHUNK_BYTES {
            return None;
        }
        let object = chunk.start().part(*used);
        *used += self.object_bytes;
        state.out += 1;
        Some(object)
    }

    /// Objects that were allocated and not given back.
    pub fn allocated(&self) -> u64 {
        self.state().out
    }

    /// Remembers where the allocator is, for [`roll_back`](Self::roll_back).
    pub fn mark(&self) -> Mark {
        let state = self.state();
        Mark { chunk: state.chunk, taken: state.taken.len(), out: state.out }
    }

    /// Gives back all that was allocated since `mark`. None of it is linked, and nobody else has allocated.
    /// [1 RT per chunk]
    pub async fn roll_back<F: Fabric>(&self, client: &Client<F>, mark: Mark) -> Result<(), IndexError> {
        let since = {
            let mut state = self.state();
            (state.chunk, state.out) = (mark.chunk, mark.out);
            state.taken.split_off(mark.taken)
        };
        for chunk in since {
            chunks::give_back(client, chunk).await?;
        }
        Ok(())
    }

    /// Takes back an object that was never linked, so that no pointer to it exists.
    pub fn unlinked<T: ?Sized>(&self, object: Remote<T>) {
        let mut state = self.state();
        state.spare.push(object.word());
        state.out -= 1;
    }

    async fn take_chunk<F: Fabric>(&self, client: &Client<F>) -> Result<(Chunk, u64), IndexError> {
        let shape = *client.fabric().shape();
        let me = client.fabric().identity();
        let owner = Owner { client: me, entry: self.entry };
        let first = self.state().next_node.unwrap_or(me.slot % shape.nodes);
        for step in 0..shape.nodes {
            let node = (first + step) % shape.nodes;
            if let Some(taken) = chunks::take(client, NodeId(node), owner).await? {
                self.state().next_node = Some((node + 1) % shape.nodes);
                return Ok(taken);
            }
        }
        let chunks = shape.chunks() * u64::from(shape.nodes);
        Err(IndexError::Fabric(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }))
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
