//! Operations on whole lock tables: list the held locks, and free those of crashed clients.
//!
//! A lock word names its holder and the holder's epoch. After that identity has been revoked, none of its verbs can
//! execute and its last WRITE is complete. So a client that takes the lock over continues as with a free lock. The
//! sweep frees such a lock earlier, by a CAS that expects exactly the word that it read.

use super::{GlobalLock, LockMemory, LockOptions, LockWidth};
use crate::error::IndexError;
use crate::retry::reap_crashed_clients;
use farwood_fabric::{
    Client, Fabric, Fetched, LockWord, NodeId, Remote, Revocation, Swapped, Words, all, cas, read, read_bytes,
};

/// Bytes of a lock table that one READ fetches.
const TABLE_BYTES_PER_READ: usize = 1024;
/// Bytes of a lock table that the READs of one doorbell fetch.
const TABLE_BYTES_PER_DOORBELL: usize = 64 << 10;
/// Lock words that one doorbell reads.
const WORDS_PER_DOORBELL: usize = 128;
/// READs of a held lock before it counts as abandoned.
const READS_MAX: usize = 100;
/// Pause between two of them, nanoseconds.
const READ_PAUSE_NS: u64 = 100_000;

/// A word of a lock table that was not free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldWord {
    /// The index of the lock in the lock table.
    pub(crate) number: usize,
    pub(crate) at: Remote<u64>,
    /// The content of the lock word.
    pub(crate) word: u64,
}

/// Reads the table of memory node `node` once; returns the words that were not free. [1 RT per 64 KiB]
pub(crate) async fn held_words<F: Fabric>(
    client: &Client<F>,
    options: LockOptions,
    node: NodeId,
) -> Result<Vec<HeldWord>, IndexError> {
    let table = GlobalLock::at(options, node, 0).word();
    let bytes = GlobalLock::table_bytes(options, &client.fabric().shape());
    let mut held = Vec::new();
    for start in (0..bytes).step_by(TABLE_BYTES_PER_DOORBELL) {
        let end = bytes.min(start + TABLE_BYTES_PER_DOORBELL);
        let reads = (start..end).step_by(TABLE_BYTES_PER_READ).map(|offset| {
            let length = TABLE_BYTES_PER_READ.min(end - offset);
            read_bytes(table.part::<Words>(offset as u64), length)
        });
        let words = client.post(all(reads)).await?;
        let words = words.into_iter().flat_map(|words| words.whole_words().as_chunks().0.to_vec());
        for (at, word) in words.enumerate() {
            let (number, word) = (start / 8 + at, u64::from_le_bytes(word));
            if word != LockWord::FREE.word() {
                held.push(HeldWord { number, at: table.part(8 * number as u64), word });
            }
        }
    }
    Ok(held)
}

/// Returns whether a lock of any memory node's table is held. [1 RT per 64 KiB of lock table]
pub(crate) async fn is_any_held<F: Fabric>(
    client: &Client<F>,
    options: LockOptions,
) -> Result<bool, IndexError> {
    client.fabric().find_added_nodes().await?;
    for node in 0..client.fabric().shape().nodes {
        if !held_words(client, options, NodeId(node)).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads a lock word until it is free, [`READS_MAX`] times; returns whether a READ found it free. [1 RT per READ]
pub(crate) async fn becomes_free<F: Fabric>(
    client: &Client<F>,
    word: Remote<u64>,
) -> Result<bool, IndexError> {
    for _ in 0..READS_MAX {
        let found = client.post(read(word)).await?.whole_word();
        if found == 0 {
            return Ok(true);
        }
        client.fabric().sleep(READ_PAUSE_NS).await;
    }
    Ok(false)
}

/// Reads lock words again until each was free once, [`READS_MAX`] times; returns those that were never free, with their
/// last content. [1 RT per 128 words and READ]
pub(crate) async fn stay_held<F: Fabric>(
    client: &Client<F>,
    mut held: Vec<HeldWord>,
) -> Result<Vec<HeldWord>, IndexError> {
    for _ in 0..READS_MAX {
        if held.is_empty() {
            break;
        }
        client.fabric().sleep(READ_PAUSE_NS).await;
        let mut still_held = Vec::new();
        for part in held.chunks(WORDS_PER_DOORBELL) {
            let words = client.post(all(part.iter().map(|held| read(held.at)))).await?;
            let words = words.into_iter().map(Fetched::whole_word);
            let found = part.iter().zip(words).map(|(held, word)| HeldWord { word, ..*held });
            still_held.extend(found.filter(|held| held.word != LockWord::FREE.word()));
        }
        held = still_held;
    }
    Ok(held)
}

/// Frees all locks of crashed clients in the lock tables of the pool; returns their number. Locks of live clients stay
/// held. So do packed locks, which do not name the epoch of their holder, and locks inside nodes, which are in no
/// table. [1 RT per 64 KiB of table; 1 and a revocation for each held lock]
///
/// # Errors
/// The errors of the fabric.
pub(crate) async fn sweep<F: Fabric>(client: &Client<F>, options: LockOptions) -> Result<u64, IndexError> {
    if options.memory == LockMemory::Node || options.width == LockWidth::Packed {
        return Ok(0);
    }
    reap_crashed_clients(client).await?;
    client.fabric().find_added_nodes().await?;
    let mut freed = 0;
    for node in 0..client.fabric().shape().nodes {
        for held in held_words(client, options, NodeId(node)).await? {
            let Some(holder) = LockWord::from_word(held.word).holder() else { continue };
            if holder == client.fabric().identity()
                || client.fabric().revoke(holder).await? == Revocation::Alive
            {
                continue;
            }
            let free = cas(held.at, held.word, LockWord::FREE.word());
            freed += u64::from(client.post(free).await? == Swapped::Won);
        }
    }
    Ok(freed)
}
