//! Chunks: the pool's memory in pieces of 8 MiB, allocated by one FAA, and the table of their owners.
//!
//! ```text
//! chunk table, one word per chunk, at offset 294912 of its memory node
//!  63   62   61   60   56 55       48 47                  16 15         0
//! +----+----+----+-------+-----------+----------------------+------------+
//! | T  | F  | R  |   0   |  entry 8  |  epoch of the owner  |  its slot  |   T, R
//! +----+----+----+-------+-----------+----------------------+------------+
//! |                      |           |         used / 64 B, 48 bits      |   R alone
//! +----------------------+-----------+-----------------------------------+
//!   T: taken; that client allocates objects in it for that directory entry
//!   R: used up to that offset for that directory entry; the rest is free for the entry's index
//!   F: freed, can be taken again
//!   0: never taken, or taken by a client that has not written the word yet
//! ```
//!
//! Sherman §4.2.4 allocates chunks by remote procedure call to the memory node's CPU; here the allocation is
//! one-sided.

use crate::client::Client;
use crate::error::FabricError;
use crate::fabric::{Fabric, Revocation};
use crate::fetched::{Words, whole_word};
use crate::ids::{CLIENTS_MAX, ClientId};
use crate::pointer::{Memory, NodeId, Remote};
use crate::pool_layout::{CHUNK_TABLE_OFFSET, DIRECTORY_ENTRIES, NEXT_CHUNK_OFFSET, word};
use crate::verb::{Swapped, cas, faa, read, read_bytes, write};

pub use crate::pool_layout::CHUNK_BYTES;

const TAKEN: u64 = 1 << 63;
const FREED: u64 = 1 << 62;
const REST: u64 = 1 << 61;
/// All states of a table word.
const FLAGS: u64 = TAKEN | FREED | REST;
const USED_UNIT: u64 = 64;
const USED_MASK: u64 = (1 << 48) - 1;
/// Table words fetched by one READ.
const TABLE_WORDS_PER_READ: u64 = 128;

/// The owner of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOwner {
    /// The client that allocates objects in it.
    pub client: ClientId,
    /// The directory entry of the index that it belongs to.
    pub entry: u8,
}

impl ChunkOwner {
    fn word(self) -> u64 {
        assert!(usize::from(self.client.slot) < CLIENTS_MAX && usize::from(self.entry) < DIRECTORY_ENTRIES);
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
    /// The number of the chunk within its memory node.
    pub number: u64,
}

impl Chunk {
    /// The pointer to its first byte.
    pub fn start(self) -> Remote<[u8]> {
        let Some(start) = Remote::new(self.node, Memory::Host, self.number * CHUNK_BYTES) else {
            unreachable!("chunk 0 is never allocated")
        };
        start
    }

    fn table_word(self) -> Remote<u64> {
        word(self.node, CHUNK_TABLE_OFFSET + 8 * self.number)
    }
}

/// Takes a chunk of memory node `node`: a partly used one of the same index with at least `room_bytes` free, a new
/// one, or a freed one. Yields it with the number of used bytes; `None` if the node is full. [1 RT, +1 RT per 128
/// chunks of the table, +1 for a partly used chunk, +2 for a new chunk]
///
/// # Errors
/// If the fabric fails or the table is damaged.
pub async fn take<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: ChunkOwner,
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
    // An exhausted counter is not incremented, so that it never overflows.
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
    owner: ChunkOwner,
) -> Result<bool, FabricError> {
    Ok(client.post(cas(chunk.table_word(), word, owner.word())).await? == Swapped::Won)
}

/// Takes over a chunk of memory node `node` from a crashed owner of the same index. The caller derives its used part
/// from its contents. `None`: there is none. [1 RT, +1 RT per 128 chunks, +`revoke` for each owner, +1 for the CAS]
///
/// # Errors
/// If the fabric fails or the table is damaged.
pub async fn inherit<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: ChunkOwner,
) -> Result<Option<Chunk>, FabricError> {
    let mut alive = vec![owner.client];
    for (chunk, word) in table(client, node).await? {
        let Some(before) = ChunkOwner::from_word(word).filter(|before| before.entry == owner.entry) else {
            continue;
        };
        if alive.contains(&before.client) {
            continue;
        }
        if client.fabric().revoke(before.client).await? == Revocation::Alive {
            alive.push(before.client);
        } else if retake(client, chunk, word, owner).await? {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Releases a chunk with `used` used bytes. The next client that allocates for directory entry `entry` takes the
/// rest. [1 RT]
///
/// # Errors
/// If the fabric fails.
///
/// # Panics
/// If there is no such entry, or more is used than a chunk has.
pub async fn leave_rest<F: Fabric>(
    client: &Client<F>,
    chunk: Chunk,
    entry: u8,
    used: u64,
) -> Result<(), FabricError> {
    assert!(usize::from(entry) < DIRECTORY_ENTRIES && used <= CHUNK_BYTES, "{used} bytes for entry {entry}");
    let word = REST | u64::from(entry) << 48 | used.div_ceil(USED_UNIT);
    client.post(write(chunk.table_word(), &word.to_le_bytes())).await
}

/// Reads how many chunks of `node` were ever taken, including the superblock's. [1 RT]
///
/// # Errors
/// If the fabric fails or the counter is damaged.
pub async fn taken<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<u64, FabricError> {
    let next = whole_word(client.post(read(word(node, NEXT_CHUNK_OFFSET))).await?);
    if next == 0 {
        let why = "its number of taken chunks is 0, without the superblock's".to_owned();
        return Err(FabricError::NotAPool { node, why });
    }
    Ok(next.min(client.fabric().shape().chunks()))
}

/// Frees a chunk that no pointer leads into. [1 RT]
///
/// # Errors
/// If the fabric fails.
pub async fn give_back<F: Fabric>(client: &Client<F>, chunk: Chunk) -> Result<(), FabricError> {
    client.post(write(chunk.table_word(), &FREED.to_le_bytes())).await
}

/// A chunk in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The chunk.
    pub chunk: Chunk,
    /// The directory entry of the index that it belongs to.
    pub entry: u8,
    /// The client that allocates objects in it, if any.
    pub client: Option<ClientId>,
}

/// Reads the chunks of `node` that are in use. [1 RT, +1 RT per 128 chunks]
///
/// # Errors
/// If the fabric fails or the table is damaged.
pub async fn in_use<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<Vec<InUse>, FabricError> {
    let in_use = |(chunk, word): (Chunk, u64)| {
        (word & (TAKEN | REST) != 0).then(|| InUse {
            chunk,
            entry: entry_of(word),
            client: ChunkOwner::from_word(word).map(|owner| owner.client),
        })
    };
    Ok(table(client, node).await?.into_iter().filter_map(in_use).collect())
}

/// Why no client writes this word into the table, if none does.
fn refuse_word(word: u64) -> Option<&'static str> {
    let is_entry = usize::from(entry_of(word)) < DIRECTORY_ENTRIES;
    match word & FLAGS {
        TAKEN | REST if !is_entry => Some("an unknown directory entry"),
        TAKEN if usize::from(word as u16) >= CLIENTS_MAX => Some("an unknown client slot"),
        REST if (word & USED_MASK) * USED_UNIT > CHUNK_BYTES => Some("more used bytes than a chunk has"),
        TAKEN | REST => None,
        flags if word == flags && matches!(flags, 0 | FREED) => None,
        _ => Some("an impossible state"),
    }
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
            if let Some(why) = refuse_word(word) {
                let why = format!("the table names {why} for chunk {number}: {word:#x}");
                return Err(FabricError::NotAPool { node, why });
            }
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
    fn words_that_no_client_writes_are_refused() {
        let owner = ChunkOwner { client: ClientId { slot: 4095, epoch: u32::MAX }, entry: 63 };
        let full = REST | 63 << 48 | (CHUNK_BYTES / USED_UNIT);
        for word in [0, FREED, owner.word(), REST, full] {
            assert_eq!(refuse_word(word), None, "{word:#x}");
        }
        for word in [1, FREED | 1, FREED | TAKEN, owner.word() | 64 << 48, owner.word() | 4096, full + 1] {
            assert!(refuse_word(word).is_some(), "{word:#x}");
        }
    }

    #[test]
    fn an_owner_is_read_back() {
        let owner = ChunkOwner { client: ClientId { slot: 4095, epoch: u32::MAX }, entry: 63 };
        assert_eq!(ChunkOwner::from_word(owner.word()), Some(owner));
        assert_eq!(ChunkOwner::from_word(FREED), None);
        assert_eq!(ChunkOwner::from_word(0), None);
    }
}
