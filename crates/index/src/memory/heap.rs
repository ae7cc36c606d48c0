//! Memory for objects of several sizes: rooms of 64 to 8192 bytes, carved from chunks of 8 MiB one after the other.
//!
//! A room serves objects of one kind and size for as long as its index exists ([`slot`](super::slot)). What was
//! emptied is filled first. Rooms are wanted near others, on the same memory node, so that what is written into them
//! and the CAS that links it are one chain; there is a chunk for each memory node, taken when it is needed.
//!
//! What a compute node leaves of its chunks goes to the next one, and so does what one that died had of them
//! ([`inherit`](crate::memory::adopt)). The rooms that it emptied and kept do not yet; they come back when the index is
//! dropped.

use crate::error::IndexError;
use crate::marks;
use crate::memory::adopt::{Objects, ROOM_BYTES_MAX, inherit};
use crate::memory::chunks::{Turn, wait_for_another};
use crate::memory::free_list::{Spare, Which};
use crate::memory::overflow::{self, OF_EXTENTS};
use crate::memory::slot::{Room, RoomKind};
use crate::radix::leaf;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric, FabricError, NodeId};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes up to which equal versions in front and behind prove a copy on every card (docs/nic-model.md). In larger rooms
/// the first words are in one line (`tree/fetch.rs`).
const PAIR_BYTES: u32 = 1024;
/// Bytes of those words, and of a line.
const FRONT_BYTES: u64 = 24;
const LINE_BYTES: u64 = 64;

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
    objects: RadixObjects,
    state: Mutex<State>,
    /// Whether a client is taking a chunk.
    taking: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// By memory node: the chunk that is carved, and how much of it is used, bytes.
    chunks: BTreeMap<u16, (Chunk, u64)>,
    /// By memory node: emptied rooms.
    spare: BTreeMap<u16, Spare>,
    /// Bytes that were handed out, less those that came back.
    out: i64,
}

impl Heap {
    /// A heap for the index of a directory entry.
    pub fn new(entry: &Entry) -> Self {
        Self {
            entry: entry.slot,
            objects: RadixObjects { index: entry.number },
            state: Mutex::default(),
            taking: AtomicBool::new(false),
        }
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
        let (mut step, mut since) = (0, None);
        while step < nodes {
            let node = (near.0 + step) % nodes;
            if let Some(room) = self.carve(client, node, kind) {
                return Ok(room.cast());
            }
            let Some(_turn) = Turn::take(&self.taking) else {
                wait_for_another(client, &mut since).await;
                continue;
            };
            if let Some(room) = self.carve(client, node, kind) {
                return Ok(room.cast());
            }
            match self.take_chunk(client, NodeId(node), kind).await? {
                None => step += 1,
                Some(taken) => {
                    let before = self.state().chunks.insert(node, taken);
                    if let Some((chunk, used)) = before {
                        chunks::leave_rest(client, chunk, self.entry, used).await?;
                    }
                }
            }
        }
        let chunks = client.fabric().shape().chunks() * u64::from(nodes);
        Err(IndexError::Fabric(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }))
    }

    /// A chunk of that memory node with room for such an object, and how much of it is used: one of a client that is
    /// gone, or as [`chunks::take`] finds it.
    async fn take_chunk<F: Fabric>(
        &self,
        client: &Client<F>,
        node: NodeId,
        kind: RoomKind,
    ) -> Result<Option<(Chunk, u64)>, IndexError> {
        let owner = Owner { client: client.fabric().identity(), entry: self.entry };
        // So much of it may be left out before a large room.
        let bytes = kind.bytes + LINE_BYTES as u32;
        let inherited = inherit(client, (node, owner), bytes, &self.objects).await?;
        match inherited {
            Some(_) => Ok(inherited),
            None => Ok(chunks::take(client, node, owner, u64::from(bytes)).await?),
        }
    }

    fn carve<F: Fabric>(&self, client: &Client<F>, node: u16, kind: RoomKind) -> Option<Room<()>> {
        let mut state = self.state();
        if let Some(spare) = state.spare.get_mut(&node).and_then(|spare| spare.take(kind, Which::All)) {
            if spare.is_used() {
                client.fabric().mark(marks::ROOM_REUSED);
            }
            state.out += i64::from(kind.bytes);
            return Some(spare);
        }
        let (chunk, used) = state.chunks.get_mut(&node)?;
        let start = start_of(kind, *used);
        if start + u64::from(kind.bytes) > CHUNK_BYTES {
            return None;
        }
        let at = chunk.start().part(start);
        *used = start + u64::from(kind.bytes);
        state.out += i64::from(kind.bytes);
        Some(Room { at, version: None, kind })
    }

    /// Takes back a room of an object that was taken out of the index, or was never linked.
    pub fn take_back<T>(&self, room: Room<T>) {
        let mut state = self.state();
        let node = room.at.node().0;
        state.out -= i64::from(room.kind.bytes);
        state.spare.entry(node).or_default().put(room.cast());
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

/// Where the next room of that kind begins in a chunk of which `used` bytes are used.
fn start_of(kind: RoomKind, used: u64) -> u64 {
    let apart = used % LINE_BYTES + FRONT_BYTES > LINE_BYTES;
    if kind.bytes > PAIR_BYTES && apart { used.next_multiple_of(LINE_BYTES) } else { used }
}

/// How the nodes, leaves, values and tables of a radix tree are found: each of their words may be all that is not zero
/// of a room.
#[derive(Debug)]
struct RadixObjects {
    index: u64,
}

impl Objects for RadixObjects {
    fn end(&self, chunk: &[u8]) -> u64 {
        // Buckets of a table begin with what is not zero.
        const BUCKET_BYTES: usize = 64;
        let mut end = 0;
        for (number, word) in chunk.as_chunks::<8>().0.iter().enumerate() {
            let (at, word) = (8 * number, u64::from_le_bytes(*word));
            if word == 0 {
                continue;
            }
            end = end.max(at + BUCKET_BYTES);
            if word as u32 == self.index as u32 {
                end = end.max(at + leaf::LEAF_BYTES_MAX);
            }
            if word == self.index && at >= overflow::INDEX {
                let begin = at - overflow::INDEX;
                let room = overflow::room_of(&chunk[begin..]).unwrap_or(0) as usize;
                end = end.max(begin + room.min(ROOM_BYTES_MAX));
            }
        }
        end as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radix::leaf::{Class, Grain, LeafEntry, LeafId, LeafValue, image};
    use crate::radix::reverse::Reverse;

    #[test]
    fn large_rooms_begin_with_their_first_words_in_one_line() {
        let (small, large) = (Kind::Leaf.rooms(1024), Kind::Inner.rooms(2088));
        for used in (0..256).step_by(8) {
            assert_eq!(start_of(small, used), used);
            let start = start_of(large, used);
            assert!(start >= used && start < used + LINE_BYTES);
            assert_eq!(start / LINE_BYTES, (start + FRONT_BYTES - 1) / LINE_BYTES);
        }
    }

    #[test]
    fn the_last_object_ends_within_what_is_used() {
        let objects = RadixObjects { index: 77 };
        let mut chunk = vec![0; 1 << 20];
        assert_eq!(objects.end(&chunk), 0);
        let class = Class::for_entry(Grain::Words, 8, 4000).expect("it fits");
        let entry = LeafEntry { key: &[0; 8], value: LeafValue::Inline(&[0; 4000]) };
        let leaf = image(class, Reverse::unlinked(1), LeafId { number: 77, version: 1 }, entry);
        chunk[4096 + 56..][..class.bytes()].copy_from_slice(leaf.bytes());
        let end = objects.end(&chunk);
        assert!(end >= (4096 + 56 + class.bytes()) as u64 && end <= 4096 + 56 + 8192, "{end}");
    }
}
