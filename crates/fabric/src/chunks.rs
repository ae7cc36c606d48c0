//! Chunks: the pool's memory in pieces of 8 MiB, and the table of their owners.
//!
//! ```text
//! chunk table, one word per chunk, at offset 294912 of its memory node; 0: never taken, or about to be; otherwise a
//! sealed word (sealed_word.rs) with the value
//!  51 50 49     44 43                12 11         0
//! +-----+---------+--------------------+------------+
//! |  1  | entry 6 | epoch of the owner |  its slot  |   taken: it allocates objects for that directory entry
//! +-----+---------+--------------------+------------+
//! |  2  |    0    |                0                |   freed, can be taken again
//! +-----+---------+---------------------------------+
//! |  3  | entry 6 |          used / 64 B            |   used up to there for that entry; its index has the rest
//! +-----+---------+---------------------------------+
//! ```
//!
//! A client takes a chunk by a compare-and-swap of the chunk's own word. The counter of taken chunks only says where to
//! begin, so a counter that is too low does not allocate a chunk twice.
//!
//! Sherman §4.2.4 allocates chunks by remote procedure call to the memory node's CPU; here the allocation is
//! one-sided.

use crate::chunk_limit;
use crate::client::Client;
use crate::error::FabricError;
use crate::fabric::{Fabric, Revocation};
use crate::fetched::Words;
use crate::ids::{CLIENTS_MAX, ClientId};
use crate::little_endian::u64_at;
use crate::pointer::{Memory, NodeId, Remote};
use crate::pool_layout::{
    CHUNK_LIMIT_OFFSET, CHUNK_TABLE_OFFSET, DIRECTORY_ENTRIES, NEXT_CHUNK_OFFSET, word,
};
use crate::sealed_word::SealedWord;
use crate::verb::{Swapped, cas, read, read_bytes, write};

pub use crate::pool_layout::CHUNK_BYTES;

const USED_UNIT: u64 = 64;
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

/// The state of a chunk, according to its word in the chunk table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// No client took it yet, or a client is about to.
    New,
    /// A client allocates objects in it.
    Taken(ChunkOwner),
    /// Its index was dropped, or never used it.
    Freed,
    /// Objects of an index fill its first `used` bytes, and no client allocates in it.
    Rest { entry: u8, used: u64 },
}

const STATE_SHIFT: u32 = 50;
const ENTRY_SHIFT: u32 = 44;
const EPOCH_SHIFT: u32 = 12;
const TAKEN: u64 = 1;
const FREED: u64 = 2;
const REST: u64 = 3;
/// The word of a chunk that no client took yet: the only word of the table that is not sealed.
const NEW_WORD: u64 = 0;

impl ChunkState {
    /// The state as a sealed value; `None`: the word of a new chunk is not sealed.
    fn value(self) -> Option<u64> {
        let (state, entry, rest) = match self {
            Self::New => return None,
            Self::Taken(ChunkOwner { client, entry }) => {
                assert!(usize::from(client.slot) < CLIENTS_MAX, "client slot {}", client.slot);
                (TAKEN, entry, u64::from(client.epoch) << EPOCH_SHIFT | u64::from(client.slot))
            }
            Self::Freed => (FREED, 0, 0),
            Self::Rest { entry, used } => (REST, entry, used.div_ceil(USED_UNIT)),
        };
        assert!(usize::from(entry) < DIRECTORY_ENTRIES, "directory entry {entry}");
        Some(state << STATE_SHIFT | u64::from(entry) << ENTRY_SHIFT | rest)
    }

    /// The state of a sealed value; `None` if no client stores that value.
    fn from_value(value: u64) -> Option<Self> {
        let entry = (value >> ENTRY_SHIFT) as u8 % DIRECTORY_ENTRIES as u8;
        let rest = value & ((1 << ENTRY_SHIFT) - 1);
        let slot = (rest % (1 << EPOCH_SHIFT)) as u16;
        match value >> STATE_SHIFT {
            TAKEN => {
                let client = ClientId { slot, epoch: (rest >> EPOCH_SHIFT) as u32 };
                Some(Self::Taken(ChunkOwner { client, entry }))
            }
            FREED if entry == 0 && rest == 0 => Some(Self::Freed),
            REST if rest <= CHUNK_BYTES / USED_UNIT => Some(Self::Rest { entry, used: rest * USED_UNIT }),
            _ => None,
        }
    }

    /// The directory entry that the chunk belongs to.
    const fn entry(self) -> Option<u8> {
        match self {
            Self::Taken(ChunkOwner { entry, .. }) | Self::Rest { entry, .. } => Some(entry),
            Self::New | Self::Freed => None,
        }
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
        // Cannot fail: a number that was read from far memory is checked before it becomes that of a `Chunk`. It is at
        // least 1, and below the count of chunks of its memory node.
        let Some(start) = Remote::new(self.node, Memory::Host, self.number * CHUNK_BYTES) else {
            unreachable!("chunk 0 is never allocated")
        };
        start
    }

    const fn table_word(self) -> SealedWord {
        SealedWord::new(word(self.node, CHUNK_TABLE_OFFSET + 8 * self.number))
    }

    fn word_of(self, state: ChunkState) -> u64 {
        state.value().map_or(NEW_WORD, |value| self.table_word().seal(value))
    }

    /// Decodes the chunk's word in the table.
    fn state_of(self, word: u64) -> Result<ChunkState, FabricError> {
        if word == NEW_WORD {
            return Ok(ChunkState::New);
        }
        let value = self.table_word().open(word)?;
        ChunkState::from_value(value).ok_or_else(|| self.table_word().damaged(word))
    }
}

/// The counter of a memory node: the first chunk that was never taken.
const fn counter(node: NodeId) -> SealedWord {
    SealedWord::new(word(node, NEXT_CHUNK_OFFSET))
}

/// A chunk that a client has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenChunk {
    /// The chunk.
    pub chunk: Chunk,
    /// Bytes in use, from the front.
    pub used: u64,
    /// Whether no client has taken the chunk before: its bytes are zero.
    pub is_new: bool,
}

/// Takes a chunk of memory node `node`: a partly used one of the same index with at least `room_bytes` free, a freed
/// one, or a new one; `None` if the node is full. [1 RT, +1 RT per 128 chunks
/// of the table, +1 for a partly used or freed chunk, +2 for a new chunk] A chunk whose word is damaged stays unused.
///
/// # Errors
/// If the fabric fails or the counter is damaged.
pub async fn take<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: ChunkOwner,
    room_bytes: u64,
) -> Result<Option<TakenChunk>, FabricError> {
    let (mut next, limit) = counter_and_limit(client, node).await?;
    let table = words_below(client, node, next).await?;
    for &(chunk, word, ref state) in &table {
        let &Ok(ChunkState::Rest { entry, used }) = state else { continue };
        let fits = entry == owner.entry && used + room_bytes <= CHUNK_BYTES;
        if fits && retake(client, chunk, word, owner).await? {
            return Ok(Some(TakenChunk { chunk, used, is_new: false }));
        }
    }
    // Freed chunks before new ones: the memory of a new chunk is not provisioned yet, and stays so.
    for &(chunk, word, ref state) in &table {
        if *state == Ok(ChunkState::Freed) && retake(client, chunk, word, owner).await? {
            provision(client, chunk).await?;
            return Ok(Some(TakenChunk { chunk, used: 0, is_new: false }));
        }
    }
    // The counter is a hint: only the CAS of the chunk's own word allocates the chunk.
    while next < limit {
        let chunk = Chunk { node, number: next };
        let advanced = cas(counter(node).at(), counter(node).seal(next), counter(node).seal(next + 1));
        match client.post(advanced).await? {
            Swapped::Won if retake(client, chunk, NEW_WORD, owner).await? => {
                provision(client, chunk).await?;
                return Ok(Some(TakenChunk { chunk, used: 0, is_new: true }));
            }
            Swapped::Won => next += 1,
            Swapped::Lost(found) => next = counted(client, node, found)?.max(next + 1),
        }
    }
    Ok(None)
}

/// Provisions the memory of a chunk that this client has taken, or returns the chunk.
async fn provision<F: Fabric>(client: &Client<F>, chunk: Chunk) -> Result<(), FabricError> {
    let provisioned = client.fabric().provision(chunk.start().address(), CHUNK_BYTES).await;
    if provisioned.is_err() {
        give_back(client, chunk).await?;
    }
    provisioned
}

async fn retake<F: Fabric>(
    client: &Client<F>,
    chunk: Chunk,
    word: u64,
    owner: ChunkOwner,
) -> Result<bool, FabricError> {
    let taken = chunk.word_of(ChunkState::Taken(owner));
    Ok(client.post(cas(chunk.table_word().at(), word, taken)).await? == Swapped::Won)
}

/// Takes over a chunk of memory node `node` from a crashed owner of the same index. The caller derives its used part
/// from its contents. `None`: there is none. [1 RT, +1 RT per 128 chunks, +`revoke` for each owner, +1 for the CAS]
///
/// # Errors
/// If the fabric fails or the counter is damaged.
pub async fn inherit<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: ChunkOwner,
) -> Result<Option<Chunk>, FabricError> {
    let mut alive = vec![owner.client];
    for (chunk, word, state) in table(client, node).await?.1 {
        let Ok(ChunkState::Taken(before)) = state else { continue };
        if before.entry != owner.entry || alive.contains(&before.client) {
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
/// If there is no such entry, or `used` exceeds a chunk.
pub async fn leave_rest<F: Fabric>(
    client: &Client<F>,
    chunk: Chunk,
    entry: u8,
    used: u64,
) -> Result<(), FabricError> {
    assert!(usize::from(entry) < DIRECTORY_ENTRIES && used <= CHUNK_BYTES, "{used} bytes for entry {entry}");
    let word = chunk.word_of(ChunkState::Rest { entry, used });
    client.post(write(chunk.table_word().at(), &word.to_le_bytes())).await
}

/// Reads the number of chunks of `node` that were ever taken, including the superblock's. [1 RT]
///
/// # Errors
/// If the fabric fails or the counter is damaged.
pub async fn taken<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<u64, FabricError> {
    let found = client.post(read(counter(node).at())).await?.whole_word();
    counted(client, node, found)
}

/// Reads the first chunk of `node` that was never taken, and the limit of its chunks. [1 RT]
async fn counter_and_limit<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<(u64, u64), FabricError> {
    const LIMIT: usize = (CHUNK_LIMIT_OFFSET - NEXT_CHUNK_OFFSET) as usize;
    let found = client.post(read_bytes(counter(node).at().part::<Words>(0), LIMIT + 8)).await?;
    let found = found.whole_words();
    let word = |at: usize| u64_at(&found, at);
    let limit = chunk_limit::decode(&client.fabric().shape(), node, word(LIMIT))?;
    Ok((counted(client, node, word(0))?, limit))
}

/// Decodes the counter of `node`.
fn counted<F: Fabric>(client: &Client<F>, node: NodeId, word: u64) -> Result<u64, FabricError> {
    let next = counter(node).open(word)?;
    // Chunk 0 is the superblock's.
    let possible = (1..=client.fabric().shape().chunks()).contains(&next);
    if possible { Ok(next) } else { Err(counter(node).damaged(word)) }
}

/// Frees a chunk that no pointer leads into. [1 RT]
///
/// # Errors
/// If the fabric fails.
pub async fn give_back<F: Fabric>(client: &Client<F>, chunk: Chunk) -> Result<(), FabricError> {
    client.post(write(chunk.table_word().at(), &chunk.word_of(ChunkState::Freed).to_le_bytes())).await
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
    let mut in_use = Vec::new();
    for (chunk, _, state) in table(client, node).await?.1 {
        let state = state?;
        let client = if let ChunkState::Taken(owner) = state { Some(owner.client) } else { None };
        in_use.extend(state.entry().map(|entry| InUse { chunk, entry, client }));
    }
    Ok(in_use)
}

/// Reads the chunks of `node` that belong to a directory entry. A chunk whose word is damaged belongs to none.
/// [1 RT, +1 RT per 128 chunks]
///
/// # Errors
/// If the fabric fails or the counter is damaged.
pub async fn of_entry<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    entry: u8,
) -> Result<Vec<Chunk>, FabricError> {
    let mut chunks = table(client, node).await?.1;
    chunks.retain(|(_, _, state)| matches!(state, Ok(state) if state.entry() == Some(entry)));
    Ok(chunks.into_iter().map(|(chunk, ..)| chunk).collect())
}

/// The state of a memory node's counter and chunk table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkAudit {
    /// Descriptions of damaged words.
    pub damage: Vec<String>,
    /// The chunks of the directory entry.
    pub of_entry: Vec<Chunk>,
}

/// Reads the counter, the limit and the whole chunk table of `node`, because the counter is only a hint. [1 RT, +1 RT
/// per 128 chunks that clients can address]
///
/// # Errors
/// If the fabric fails.
pub async fn audit<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    entry: u8,
) -> Result<ChunkAudit, FabricError> {
    let mut audit = ChunkAudit::default();
    match counter_and_limit(client, node).await {
        Err(FabricError::Damaged { what, .. }) => audit.damage.push(what),
        found => drop(found?),
    }
    for (chunk, _, state) in words_below(client, node, client.fabric().shape().chunks()).await? {
        match state {
            Ok(state) if state.entry() == Some(entry) => audit.of_entry.push(chunk),
            Ok(_) => {}
            Err(FabricError::Damaged { what, .. }) => audit.damage.push(what),
            Err(error) => return Err(error),
        }
    }
    Ok(audit)
}

/// A chunk, its word in the table, and the state that the word encodes.
type TableEntry = (Chunk, u64, Result<ChunkState, FabricError>);

/// Reads the counter, and the words of all chunks below it.
async fn table<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<(u64, Vec<TableEntry>), FabricError> {
    let taken = taken(client, node).await?;
    Ok((taken, words_below(client, node, taken).await?))
}

/// Reads the words of all chunks below number `end`. [1 RT per 128 chunks]
async fn words_below<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    end: u64,
) -> Result<Vec<TableEntry>, FabricError> {
    let mut table = Vec::new();
    for first in (0..end).step_by(TABLE_WORDS_PER_READ as usize) {
        let from = Chunk { node, number: first }.table_word().at().part::<Words>(0);
        let count = TABLE_WORDS_PER_READ.min(end - first);
        let words = client.post(read_bytes(from, 8 * count as usize)).await?;
        for (number, &word) in (first..).zip(words.whole_words().as_chunks().0) {
            let word = u64::from_le_bytes(word);
            let chunk = Chunk { node, number };
            // Chunk 0 is the superblock's.
            if number > 0 {
                table.push((chunk, word, chunk.state_of(word)));
            }
        }
    }
    Ok(table)
}

const _: () = assert!(CHUNK_BYTES / USED_UNIT < 1 << ENTRY_SHIFT);
const _: () = assert!(CLIENTS_MAX <= 1 << EPOCH_SHIFT && EPOCH_SHIFT + u32::BITS == ENTRY_SHIFT);
const _: () = assert!(DIRECTORY_ENTRIES <= 1 << (STATE_SHIFT - ENTRY_SHIFT));

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: Chunk = Chunk { node: NodeId(1), number: 7 };
    const OWNER: ChunkOwner = ChunkOwner { client: ClientId { slot: 4095, epoch: u32::MAX }, entry: 63 };

    #[test]
    fn a_state_is_read_back_and_flipped_bits_are_refused() {
        let full = ChunkState::Rest { entry: 63, used: CHUNK_BYTES };
        for state in
            [ChunkState::Taken(OWNER), ChunkState::Freed, full, ChunkState::Rest { entry: 0, used: 0 }]
        {
            let word = CHUNK.word_of(state);
            assert_eq!(CHUNK.state_of(word), Ok(state));
            assert!((0..64).all(|bit| CHUNK.state_of(word ^ 1 << bit).is_err()), "{state:?}");
        }
        assert_eq!(CHUNK.state_of(NEW_WORD), Ok(ChunkState::New));
    }

    #[test]
    fn words_that_no_client_stores_are_refused() {
        let too_full = REST << STATE_SHIFT | (CHUNK_BYTES / USED_UNIT + 1);
        for value in [0, 1, FREED << STATE_SHIFT | 1, too_full] {
            assert!(CHUNK.state_of(CHUNK.table_word().seal(value)).is_err(), "{value:#x}");
        }
        let other = Chunk { number: 8, ..CHUNK };
        assert!(CHUNK.state_of(other.word_of(ChunkState::Freed)).is_err());
    }
}
