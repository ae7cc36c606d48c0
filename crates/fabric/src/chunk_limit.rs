//! The limit of a memory node's memory: the number of its chunks that clients take, the superblock's included.
//!
//! Clients address [`PoolShape::host_bytes`](crate::PoolShape) of each memory node, which stays the same for the
//! lifetime of a pool. The limit is at most that much. It is a sealed word of the superblock, which only grows; a
//! client reads it when it takes a chunk, so attached clients see the growth of a pool without any message. A word of
//! zeros means that all memory can be used.

use crate::client::Client;
use crate::error::FabricError;
use crate::fabric::Fabric;
use crate::pointer::NodeId;
use crate::pool_layout::{CHUNK_BYTES, CHUNK_LIMIT_OFFSET, HOST_BYTES_MAX, word};
use crate::sealed_word::SealedWord;
use crate::superblock::PoolShape;
use crate::verb::{Swapped, cas, read};

/// The offset of the word in the host memory of a memory node.
pub const OFFSET: u64 = CHUNK_LIMIT_OFFSET;
/// The factor by which a memory node can grow by default.
const GROWTH_DEFAULT: u64 = 16;
/// The word of a memory node without a limit.
const NO_LIMIT: u64 = 0;

const fn limit_word(node: NodeId) -> SealedWord {
    SealedWord::new(word(node, CHUNK_LIMIT_OFFSET))
}

/// The offset and the content of the word that limits a memory node to its first `bytes` bytes.
///
/// # Panics
/// If `bytes` is not a multiple of a chunk.
pub fn word_of(bytes: u64) -> (u64, u64) {
    assert!(bytes.is_multiple_of(CHUNK_BYTES), "a limit of {bytes} bytes");
    (CHUNK_LIMIT_OFFSET, SealedWord::sealed_at(CHUNK_LIMIT_OFFSET, bytes / CHUNK_BYTES))
}

/// The memory to which a memory node of `bytes` bytes can grow if nobody says otherwise, bytes: 16 times its memory, or
/// the most that a memory node can have.
pub const fn default_max(bytes: u64) -> u64 {
    let most = HOST_BYTES_MAX / CHUNK_BYTES * CHUNK_BYTES;
    match bytes.checked_mul(GROWTH_DEFAULT) {
        Some(grown) if grown <= most => grown,
        _ if bytes > most => bytes,
        _ => most,
    }
}

/// Decodes the word of memory node `node`, in chunks.
pub(crate) fn decode(shape: &PoolShape, node: NodeId, found: u64) -> Result<u64, FabricError> {
    if found == NO_LIMIT {
        return Ok(shape.chunks());
    }
    let chunks = limit_word(node).open(found)?;
    let is_possible = (1..=shape.chunks()).contains(&chunks);
    if is_possible { Ok(chunks) } else { Err(limit_word(node).damaged(found)) }
}

/// The bytes of memory that a memory node with the word `found` has, according to a process that has its memory.
///
/// # Errors
/// [`FabricError::Damaged`] if it is not a limit.
pub fn bytes_in(shape: &PoolShape, node: NodeId, found: u64) -> Result<u64, FabricError> {
    decode(shape, node, found).map(|chunks| chunks * CHUNK_BYTES)
}

/// The memory of `node` that clients use, bytes. [1 RT]
///
/// # Errors
/// If the fabric fails or the word is damaged.
pub async fn memory_bytes<F: Fabric>(client: &Client<F>, node: NodeId) -> Result<u64, FabricError> {
    let found = client.post(read(limit_word(node).at())).await?.whole_word();
    bytes_in(&client.fabric().shape(), node, found)
}

/// Raises the limit of `node` to `bytes`, a multiple of a chunk; a higher limit stays. Returns the limit, bytes. [2 RT,
/// and more if others raise it at the same time]
///
/// # Errors
/// [`FabricError::OutOfRange`] for more than clients can address; if the fabric fails or the word is damaged.
pub async fn raise<F: Fabric>(client: &Client<F>, node: NodeId, bytes: u64) -> Result<u64, FabricError> {
    let shape = client.fabric().shape();
    if !bytes.is_multiple_of(CHUNK_BYTES) || bytes > shape.host_bytes {
        let at = limit_word(node).at().address();
        return Err(FabricError::OutOfRange { at, bytes: usize::try_from(bytes).unwrap_or(usize::MAX) });
    }
    let mut found = client.post(read(limit_word(node).at())).await?.whole_word();
    loop {
        let before = bytes_in(&shape, node, found)?;
        if before >= bytes {
            return Ok(before);
        }
        let raised = limit_word(node).seal(bytes / CHUNK_BYTES);
        match client.post(cas(limit_word(node).at(), found, raised)).await? {
            Swapped::Won => return Ok(bytes),
            Swapped::Lost(other) => found = other,
        }
    }
}

/// The error of a pool whose memory nodes `nodes` have no free chunk, with the number of their chunks for indexes. [1
/// RT for each]
pub async fn pool_full<F: Fabric>(
    client: &Client<F>,
    nodes: impl IntoIterator<Item = NodeId>,
) -> FabricError {
    let mut chunks = 0;
    for node in nodes {
        match memory_bytes(client, node).await {
            // The first chunk of a memory node holds the tables of the pool.
            Ok(bytes) => chunks += bytes / CHUNK_BYTES - 1,
            Err(error) => return error,
        }
    }
    FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: PoolShape = PoolShape { pool: 7, nodes: 2, host_bytes: 64 << 20, device_bytes: 1 << 18 };

    #[test]
    fn a_limit_is_read_back_and_flipped_bits_are_refused() {
        let (offset, word) = word_of(16 << 20);
        assert_eq!(offset, CHUNK_LIMIT_OFFSET);
        assert_eq!(decode(&SHAPE, NodeId(1), word), Ok(2));
        assert!((0..64).all(|bit| decode(&SHAPE, NodeId(1), word ^ 1 << bit).is_err()));
    }

    #[test]
    fn a_memory_node_can_grow_sixteenfold_up_to_the_limit_of_pointers() {
        assert_eq!(default_max(16 << 20), 256 << 20);
        let most = default_max(HOST_BYTES_MAX / 2);
        assert!(most.is_multiple_of(CHUNK_BYTES) && most <= HOST_BYTES_MAX && most > HOST_BYTES_MAX / 2);
        assert_eq!(default_max(u64::MAX), u64::MAX, "it is refused elsewhere");
    }

    #[test]
    fn all_memory_is_used_without_a_limit_and_no_limit_exceeds_it() {
        assert_eq!(bytes_in(&SHAPE, NodeId(0), NO_LIMIT), Ok(64 << 20));
        assert_eq!(bytes_in(&SHAPE, NodeId(0), word_of(64 << 20).1), Ok(64 << 20));
        for bytes in [0, 72 << 20] {
            assert!(bytes_in(&SHAPE, NodeId(0), word_of(bytes).1).is_err(), "{bytes}");
        }
    }
}
