//! Chunks: the pool's memory in pieces of 8 MiB, taken with one FAA, and the table that remembers by whom.
//!
//! ```text
//! chunk table, one word per chunk, at offset 294912 of its memory node
//!  63   62   61      56 55       48 47                  16 15         0
//! +----+----+----------+-----------+----------------------+------------+
//! | T  | F  |    0     |  entry 8  |  epoch of the owner  |  its slot  |
//! +----+----+----------+-----------+----------------------+------------+
//!   T: taken by that client for that directory entry    F: given back, free to be taken again
//!   0: never taken, or taken by a client that has not written its name yet
//! ```
//!
//! Sherman §4.2.4 takes chunks by remote procedure call from the memory node's CPU; here it is one-sided.

use crate::Fabric;
use crate::client::Client;
use crate::client_table::ClientId;
use crate::error::FabricError;
use crate::fetched::{Object, Torn};
use crate::pointer::{Memory, NodeId, Remote};
use crate::superblock::{CHUNK_TABLE_OFFSET, NEXT_CHUNK_OFFSET, word};
use crate::verb::{Swapped, cas, faa, read, read_bytes, write};

/// Bytes of a chunk (Sherman §4.2.4).
pub const CHUNK_BYTES: u64 = 8 << 20;

const TAKEN: u64 = 1 << 63;
const FREED: u64 = 1 << 62;
/// Table words fetched by one READ.
const TABLE_WORDS_PER_READ: u64 = 128;

/// Who a chunk belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The client that carves it.
    pub client: ClientId,
    /// The directory entry of the index that it serves.
    pub entry: u8,
}

impl Owner {
    const fn word(self) -> u64 {
        TAKEN | (self.entry as u64) << 48 | (self.client.epoch as u64) << 16 | self.client.slot as u64
    }

    const fn from_word(word: u64) -> Option<Self> {
        if word & TAKEN == 0 {
            return None;
        }
        let client = ClientId { slot: word as u16, epoch: (word >> 16) as u32 };
        Some(Self { client, entry: (word >> 48) as u8 })
    }
}

/// A chunk of a memory node; chunk 0 is the superblock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The memory node.
    pub node: NodeId,
    /// Its number within the node.
    pub number: u64,
}

impl Chunk {
    /// Where its bytes begin.
    pub fn start(self) -> Remote<[u8]> {
        let Some(start) = Remote::new(self.node, Memory::Host, self.number * CHUNK_BYTES) else {
            unreachable!("chunk 0 is never handed out")
        };
        start
    }

    fn table_word(self) -> Remote<u64> {
        word(self.node, CHUNK_TABLE_OFFSET + 8 * self.number)
    }
}

/// Takes a chunk of memory node `node`; `None` where all are taken.
/// [3 RT; once all were taken before: 2, a search of the table at 1 RT per 128 chunks, and 1 for the CAS]
pub async fn take<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: Owner,
) -> Result<Option<Chunk>, FabricError> {
    let chunks = client.fabric().shape().chunks();
    let next = word(node, NEXT_CHUNK_OFFSET);
    // An exhausted counter is only read, so that it never overflows.
    if taken(client, node).await? < chunks {
        let number = client.post(faa(next, 1)).await?;
        if number < chunks {
            let chunk = Chunk { node, number };
            client.post(write(chunk.table_word(), &owner.word().to_le_bytes())).await?;
            client.fabric().provision(chunk.start().address(), CHUNK_BYTES).await?;
            return Ok(Some(chunk));
        }
    }
    retake(client, node, owner).await
}

/// How many chunks of `node` were ever taken, with the superblock's. [1 RT]
pub async fn taken<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<u64, FabricError> {
    let next = client.post(read(word(node, NEXT_CHUNK_OFFSET))).await?;
    Ok(crate::client_table::whole(next).min(client.fabric().shape().chunks()))
}

async fn retake<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: Owner,
) -> Result<Option<Chunk>, FabricError> {
    for (chunk, word) in table(client, node).await? {
        if word == FREED && client.post(cas(chunk.table_word(), FREED, owner.word())).await? == Swapped::Won {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Gives back a chunk that nothing points into any more. [1 RT]
pub async fn give_back<F: Fabric>(client: &Client<F>, chunk: Chunk) -> Result<(), FabricError> {
    client.post(write(chunk.table_word(), &FREED.to_le_bytes())).await
}

/// The chunks of `node` that are in use, with their owners. [1 RT + 1 RT per 128 chunks]
pub async fn owned<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<Vec<(Chunk, Owner)>, FabricError> {
    let table = table(client, node).await?;
    Ok(table.into_iter().filter_map(|(chunk, word)| Some((chunk, Owner::from_word(word)?))).collect())
}

async fn table<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<Vec<(Chunk, u64)>, FabricError> {
    let taken = taken(client, node).await?;
    let mut table = Vec::new();
    for first in (0..taken).step_by(TABLE_WORDS_PER_READ as usize) {
        let from = word(node, CHUNK_TABLE_OFFSET + 8 * first).part::<Words>(0);
        let count = TABLE_WORDS_PER_READ.min(taken - first);
        let words = client.post(read_bytes(from, 8 * count as usize)).await?;
        let Ok(words) = words.check(&()) else { unreachable!("words are whole") };
        for (number, word) in (first..).zip(words.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            if number > 0 {
                table.push((Chunk { node, number }, word));
            }
        }
    }
    Ok(table)
}

/// Several words, each of which is read for itself.
struct Words;

impl Object for Words {
    type Format = ();
    fn check(_: &[u8], (): &()) -> Result<(), Torn> {
        Ok(())
    }
}

const _: () = assert!(CHUNK_TABLE_OFFSET.is_multiple_of(8));
const _: () = assert!(TAKEN & FREED == 0 && crate::client_table::CLIENTS_MAX <= 1 << 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_back() {
        let owner = Owner { client: ClientId { slot: 4095, epoch: u32::MAX }, entry: 63 };
        assert_eq!(Owner::from_word(owner.word()), Some(owner));
        assert_eq!(Owner::from_word(FREED), None);
        assert_eq!(Owner::from_word(0), None);
    }
}
