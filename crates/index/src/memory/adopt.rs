//! Chunks of compute nodes that are gone, taken over by the next that allocates for the same index. Nothing says how
//! much of one is used but its bytes: every object says that it is one, and behind the last nothing was ever linked.

use crate::error::IndexError;
use crate::marks;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, Owner};
use farwood_fabric::{Client, Fabric, NodeId, Words, read_bytes};

/// Bytes of the largest room, where rooms are of several sizes: a quarter of a chunk, so that little of one stays
/// empty.
pub const ROOM_BYTES_MAX: usize = CHUNK_BYTES as usize / 4;
/// Bytes of a chunk that are read at a time.
const BYTES_PER_READ: u64 = 256 << 10;
/// What the used part of a chunk is a multiple of, bytes.
const UNIT_BYTES: u64 = 64;

/// How the objects of an index are found among other bytes.
pub trait Objects {
    /// Where the room ends that reaches farthest, of the objects that begin in these bytes of a chunk, or farther:
    /// bytes of values may look like objects, but all objects look like objects.
    fn end(&self, chunk: &[u8]) -> u64;
}

/// Takes over a chunk of memory node `node` from a client that is gone, with room for `bytes` bytes; with it, how much
/// of it is used. Nobody writes to what is behind: who carved it is gone. [as [`chunks::inherit`]; 1 RT per 256 KiB of
/// the chunk]
pub(crate) async fn inherit<F: Fabric>(
    client: &Client<F>,
    (node, owner): (NodeId, Owner),
    bytes: u32,
    objects: &impl Objects,
) -> Result<Option<(Chunk, u64)>, IndexError> {
    while let Some(chunk) = chunks::inherit(client, node, owner).await? {
        client.fabric().mark(marks::CHUNK_INHERITED);
        let end = objects.end(&read_all(client, chunk).await?);
        let used = end.next_multiple_of(UNIT_BYTES).min(CHUNK_BYTES);
        if used + u64::from(bytes) <= CHUNK_BYTES {
            return Ok(Some((chunk, used)));
        }
        chunks::leave_rest(client, chunk, owner.entry, used).await?;
    }
    Ok(None)
}

/// The bytes of a chunk.
async fn read_all<F: Fabric>(client: &Client<F>, chunk: Chunk) -> Result<Vec<u8>, IndexError> {
    let mut all = Vec::with_capacity(CHUNK_BYTES as usize);
    for from in (0..CHUNK_BYTES).step_by(BYTES_PER_READ as usize) {
        let copy =
            client.post(read_bytes(chunk.start().part::<Words>(from), BYTES_PER_READ as usize)).await?;
        let Ok(bytes) = copy.check(&()) else { unreachable!("words are whole") };
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(BYTES_PER_READ));
