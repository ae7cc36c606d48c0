//! A global lock table as it lies in far memory: what is held in it, and freeing what the gone have left.
//!
//! A lock word names its holder under an epoch. Once that identity has been revoked, nothing of it lands any more and
//! what it was writing is whole, so its lock guards nothing: whoever takes it over goes on as with a free one. So it
//! may as well be freed when nobody needs it, by a CAS that expects exactly the word that was found.

use super::{GlobalLock, LockMemory, LockOptions, LockWidth};
use crate::error::IndexError;
use crate::retry::bury_the_dead;
use farwood_fabric::{Client, Fabric, LockWord, NodeId, Remote, Revocation, Swapped, Words, cas, read_bytes};

/// Bytes of a lock table that are read at a time.
const TABLE_BYTES_PER_READ: usize = 1024;

/// A word of a lock table that was not free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldWord {
    /// Its number in the table.
    pub(crate) number: usize,
    pub(crate) at: Remote<u64>,
    /// What it held.
    pub(crate) word: u64,
}

/// The words of the table of memory node `node` that were not free at one look. [1 RT per KiB]
pub(crate) async fn words_held<F: Fabric>(
    client: &Client<F>,
    options: LockOptions,
    node: NodeId,
) -> Result<Vec<HeldWord>, IndexError> {
    let table = GlobalLock::at(options, node, 0).word();
    let bytes = GlobalLock::table_bytes(options, client.fabric().shape());
    let mut held = Vec::new();
    for offset in (0..bytes).step_by(TABLE_BYTES_PER_READ) {
        let length = TABLE_BYTES_PER_READ.min(bytes - offset);
        let words = client.post(read_bytes(table.part::<Words>(offset as u64), length)).await?;
        let Ok(words) = words.check(&()) else { unreachable!("words are whole") };
        for (at, word) in words.as_chunks().0.iter().enumerate() {
            let (number, word) = (offset / 8 + at, u64::from_le_bytes(*word));
            if word != LockWord::FREE.word() {
                held.push(HeldWord { number, at: table.part(8 * number as u64), word });
            }
        }
    }
    Ok(held)
}

/// Frees all locks in the tables of a pool's memory nodes whose holders are gone; yields how many there were. Locks of
/// the living stay, and so do packed ones, which do not say under which epoch they are held. Locks that lie in nodes
/// are in no table. [1 RT per KiB of table; 1 and a revocation for each lock that is held]
///
/// # Errors
/// The fabric's.
pub(crate) async fn sweep<F: Fabric>(client: &Client<F>, options: LockOptions) -> Result<u64, IndexError> {
    if options.memory == LockMemory::Node || options.width == LockWidth::Packed {
        return Ok(0);
    }
    bury_the_dead(client).await?;
    let mut freed = 0;
    for node in 0..client.fabric().shape().nodes {
        for held in words_held(client, options, NodeId(node)).await? {
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
