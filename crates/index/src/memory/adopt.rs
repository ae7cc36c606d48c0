//! Adopting the chunks of crashed compute nodes. No header records how much of such a chunk is in use. The bytes of the
//! chunk show it: every object can be recognized, and the memory after the last object contains no linked object.

use crate::coverage;
use crate::error::IndexError;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, ChunkOwner};
use farwood_fabric::{Client, Fabric, NodeId, Words, read_bytes};

/// Bytes of the largest slot, in indexes with slots of several sizes: a quarter of a chunk, so that little of a chunk
/// stays unused.
pub const SLOT_BYTES_MAX: usize = CHUNK_BYTES as usize / 4;
/// Bytes of a chunk that one READ fetches.
const BYTES_PER_READ: u64 = 256 << 10;
/// The used part of a chunk is a multiple of this, bytes.
const UNIT_BYTES: u64 = 64;

/// Recognizes the objects of an index in the bytes of a chunk.
pub trait Objects {
    /// Returns the end of the last object in a chunk, or a later offset: every object is recognized, but the bytes of a
    /// value may look like an object as well.
    fn end(&self, chunk: &[u8]) -> u64;
}

/// Adopts a chunk of memory node `node` from a crashed client, with `bytes` free bytes; returns it with the number of
/// its used bytes. No client writes after them, because the client that owned the chunk is revoked. [as
/// [`chunks::inherit`]; 1 RT per 256 KiB of the chunk]
pub(crate) async fn adopt<F: Fabric>(
    client: &Client<F>,
    node: NodeId,
    owner: ChunkOwner,
    bytes: u32,
    objects: &impl Objects,
) -> Result<Option<(Chunk, u64)>, IndexError> {
    while let Some(chunk) = chunks::inherit(client, node, owner).await? {
        client.fabric().record_coverage(coverage::CHUNK_ADOPTED);
        let end = objects.end(&read_chunk(client, chunk).await?);
        let used = end.next_multiple_of(UNIT_BYTES).min(CHUNK_BYTES);
        if used + u64::from(bytes) <= CHUNK_BYTES {
            return Ok(Some((chunk, used)));
        }
        chunks::leave_rest(client, chunk, owner.entry, used).await?;
    }
    Ok(None)
}

/// Reads a whole chunk. [1 RT per 256 KiB]
async fn read_chunk<F: Fabric>(client: &Client<F>, chunk: Chunk) -> Result<Vec<u8>, IndexError> {
    let mut all = Vec::with_capacity(CHUNK_BYTES as usize);
    for from in (0..CHUNK_BYTES).step_by(BYTES_PER_READ as usize) {
        let copy =
            client.post(read_bytes(chunk.start().part::<Words>(from), BYTES_PER_READ as usize)).await?;
        let bytes = copy.whole_words();
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(BYTES_PER_READ));
