//! Chunks: the pool's memory in pieces of 8 MiB, taken with one FAA, and the table that remembers by whom.
//!
//! ```text
//! chunk table, one word per chunk, at offset 294912 of its memory node
//!  63   62   61   60   56 55       48 47                  16 15         0
//! +----+----+----+-------+-----------+----------------------+------------+
//! | T  | F  | R  |   0   |  entry 8  |  epoch of the owner  |  its slot  |   T, R
//! +----+----+----+-------+-----------+----------------------+------------+
//! |                      |           |         used / 64 B, 48 bits      |   R alone
//! +----------------------+-----------+-----------------------------------+
//!   T: being carved by that client for that directory entry     F: given back, free to be taken again
//!   R: used up to there for that directory entry; the rest is free to be carved for it
//!   0: never taken, or taken by a client that has not written its name yet
//! ```
//!
//! Sherman §4.2.4 takes chunks by remote procedure call from the memory node's CPU; here it is one-sided.

use crate::client::Client;
use crate::error::FabricError;
use crate::fabric::{Fabric, Revocation};
use crate::fetched::{Words, whole_word};
use crate::ids::{CLIENTS_MAX, ClientId};
use crate::pointer::{Memory, NodeId, Remote};
use crate::pool_layout::{CHUNK_TABLE_OFFSET, NEXT_CHUNK_OFFSET, word};
use crate::verb::{Swapped, cas, faa, read, read_bytes, write};

pub use crate::pool_layout::CHUNK_BYTES;

const TAKEN: u64 = 1 << 63;
const FREED: u64 = 1 << 62;
const REST: u64 = 1 << 61;
const USED_UNIT: u64 = 64;
const USED_MASK: u64 = (1 << 48) - 1;
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

/// Takes a chunk of memory node `node`, new or with a rest of at least `room_bytes` that another client of the same
/// index left; with it, how much of it is used, bytes. `None` where there is none.
/// [1 RT, 1 RT per 128 chunks to look for rests, 1 for a rest's CAS; for a new chunk 2]
pub async fn take<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: Owner,
    room_bytes: u64,
) -> Result<Option<(Chunk, u64)>, FabricError> {
    let table = table(client, node).await?;
    for &(chunk, word) in &table {
        let used = (word & USED_MASK) * USED_UNIT;
        let fits = word & REST != 0 && entry_of(word) == owner.entry && used + room_bytes <= CHUNK_BYTES;
        if fits && retake(client, chunk, word, owner).await? {
            return Ok(Some((chunk, used)));
        }
    }
    let chunks = client.fabric().shape().chunks();
    // An exhausted counter is left alone, so that it never overflows.
    if (table.len() as u64) + 1 < chunks {
        let number = client.post(faa(word(node, NEXT_CHUNK_OFFSET), 1)).await?;
        if number < chunks {
            let chunk = Chunk { node, number };
            if let Err(error) = client.fabric().provision(chunk.start().address(), CHUNK_BYTES).await {
                give_back(client, chunk).await?;
                return Err(error);
            }
            client.post(write(chunk.table_word(), &owner.word().to_le_bytes())).await?;
            return Ok(Some((chunk, 0)));
        }
    }
    for &(chunk, word) in &table {
        if word == FREED && retake(client, chunk, word, owner).await? {
            if let Err(error) = client.fabric().provision(chunk.start().address(), CHUNK_BYTES).await {
                give_back(client, chunk).await?;
                return Err(error);
            }
            return Ok(Some((chunk, 0)));
        }
    }
    Ok(None)
}

async fn retake<F: Fabric>(
    client: &Client<F>,
    chunk: Chunk,
    word: u64,
    owner: Owner,
) -> Result<bool, FabricError> {
    Ok(client.post(cas(chunk.table_word(), word, owner.word())).await? == Swapped::Won)
}

/// Takes over a chunk of memory node `node` from an owner of the same index that is gone. How much of it is used,
/// only its bytes tell. `None`: there is none. [1 RT, 1 RT per 128 chunks, what it takes to ask about each owner, 1
/// for the CAS]
pub async fn inherit<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: Owner,
) -> Result<Option<Chunk>, FabricError> {
    let mut living = vec![owner.client];
    for (chunk, word) in table(client, node).await? {
        let Some(before) = Owner::from_word(word).filter(|before| before.entry == owner.entry) else {
            continue;
        };
        if living.contains(&before.client) {
            continue;
        }
        if client.fabric().revoke(before.client).await? == Revocation::Alive {
            living.push(before.client);
        } else if retake(client, chunk, word, owner).await? {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Leaves the rest of a chunk, of which `used` bytes are used, to the next client that allocates for directory
/// entry `entry`. [1 RT]
pub async fn leave_rest<F: Fabric>(
    client: &Client<F>,
    chunk: Chunk,
    entry: u8,
    used: u64,
) -> Result<(), FabricError> {
    let word = REST | u64::from(entry) << 48 | used.div_ceil(USED_UNIT);
    client.post(write(chunk.table_word(), &word.to_le_bytes())).await
}

/// How many chunks of `node` were ever taken, with the superblock's. [1 RT]
pub async fn taken<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<u64, FabricError> {
    let next = client.post(read(word(node, NEXT_CHUNK_OFFSET))).await?;
    Ok(whole_word(next).min(client.fabric().shape().chunks()))
}

/// Gives back a chunk that nothing points into any more. [1 RT]
pub async fn give_back<F: Fabric>(client: &Client<F>, chunk: Chunk) -> Result<(), FabricError> {
    client.post(write(chunk.table_word(), &FREED.to_le_bytes())).await
}

/// A chunk in use, as the table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The chunk.
    pub chunk: Chunk,
    /// The directory entry of the index that it serves.
    pub entry: u8,
    /// The client that carves it, if any does.
    pub client: Option<ClientId>,
}

/// The chunks of `node` that are in use. [1 RT + 1 RT per 128 chunks]
pub async fn in_use<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<Vec<InUse>, FabricError> {
    let in_use = |(chunk, word): (Chunk, u64)| {
        (word & (TAKEN | REST) != 0).then(|| InUse {
            chunk,
            entry: entry_of(word),
            client: Owner::from_word(word).map(|owner| owner.client),
        })
    };
    Ok(table(client, node).await?.into_iter().filter_map(in_use).collect())
}

const fn entry_of(word: u64) -> u8 {
    (word >> 48) as u8
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

const _: () = assert!((CHUNK_BYTES / USED_UNIT) < USED_MASK);
const _: () = assert!(CLIENTS_MAX <= 1 << 16);

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
