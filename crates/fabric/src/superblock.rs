//! The superblock's header, by which clients recognise a memory node of a pool. `pool_layout.rs` has the map of the
//! chunk around it.
//!
//! ```text
//! header    bytes
//! +  0        8    magic "FARWOOD\0"
//! +  8        4    layout version
//! + 12        2    this node's number
//! + 14        2    memory nodes of the pool
//! + 16        8    pool identity, the same on all its nodes
//! + 24        8    host memory that clients can address, bytes
//! + 32        8    device memory, bytes
//! + 40        8    chunk, bytes
//! + 48       16    zero
//! ```
//!
//! All numbers are little endian.

use crate::byte_count::ByteCount;
use crate::error::FabricError;
use crate::pointer::{NodeId, Packed};
use crate::pool_layout::{
    CHUNK_BYTES, DIRECTORY_ENTRIES, DIRECTORY_ENTRY_BYTES, DIRECTORY_FREE, DIRECTORY_OFFSET, HOST_BYTES_MAX,
    NEXT_CHUNK_OFFSET, NEXT_INDEX_OFFSET,
};
use crate::sealed_word::SealedWord;
use crate::server::ServerMemory;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "FARWOOD\0", read as a little-endian word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FARWOOD\0");
pub use crate::pool_layout::{
    DEVICE_BYTES_DEFAULT, HEADER_BYTES, HEADER_OFFSET, HOST_BYTES_MIN, HOST_LOCKS_BYTES, HOST_LOCKS_OFFSET,
    LAYOUT_VERSION, TRANSPORT_BYTES, TRANSPORT_OFFSET,
};

/// Reads the shape of the pool from the memory of node `node`.
///
/// # Errors
/// As [`PoolShape::from_header`].
pub fn shape_in(memory: &impl ServerMemory, node: NodeId) -> Result<PoolShape, FabricError> {
    let words = memory.load_line(HEADER_OFFSET)?;
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    PoolShape::from_header(node, &bytes)
}

/// The superblock's header in memory.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    node: u16,
    nodes: u16,
    pool: u64,
    host_bytes: u64,
    device_bytes: u64,
    chunk_bytes: u64,
    zero: [u64; 2],
}

/// The number and the size of a pool's memory nodes. All nodes of a pool have the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Identity of the pool, drawn at random at its creation.
    pub pool: u64,
    /// Memory nodes.
    pub nodes: u16,
    /// Host memory that clients can address on each, bytes; a multiple of the chunk. Clients use as much of it as the
    /// [limit](crate::chunk_limit) of the memory node permits.
    pub host_bytes: u64,
    /// Device memory of each, bytes.
    pub device_bytes: u64,
}

impl PoolShape {
    /// Describes why a pool of this shape is impossible; returns `None` if it is possible.
    pub fn refuse(&self) -> Option<String> {
        let nodes_max = Packed::<u64>::NODES_MAX;
        if self.nodes == 0 || u32::from(self.nodes) > nodes_max {
            return Some(format!("a pool has 1 to {nodes_max} memory nodes, not {}", self.nodes));
        }
        if self.host_bytes < HOST_BYTES_MIN || !self.host_bytes.is_multiple_of(CHUNK_BYTES) {
            return Some(format!(
                "a memory node has a multiple of {} of memory, at least {}, not {}",
                ByteCount(CHUNK_BYTES),
                ByteCount(HOST_BYTES_MIN),
                ByteCount(self.host_bytes)
            ));
        }
        if self.host_bytes > HOST_BYTES_MAX {
            return Some(format!(
                "a memory node has at most {} of memory, not {}",
                ByteCount(HOST_BYTES_MAX),
                ByteCount(self.host_bytes)
            ));
        }
        if self.device_bytes < 64 || !self.device_bytes.is_multiple_of(64) || self.device_bytes > 1 << 32 {
            return Some(format!(
                "device memory is a multiple of 64 B, from 64 B to 4 GiB, not {}",
                ByteCount(self.device_bytes)
            ));
        }
        None
    }

    /// Chunks of each memory node that clients can address, including the superblock's.
    pub fn chunks(&self) -> u64 {
        self.host_bytes / CHUNK_BYTES
    }

    /// Encodes the header of memory node `node`, to be stored at [`HEADER_OFFSET`] before clients can reach the node.
    /// All other bytes are zero, except for [`PoolShape::first_words`].
    ///
    /// # Panics
    /// If the shape is impossible, or has no such node.
    pub fn header(&self, node: NodeId) -> [u8; HEADER_BYTES] {
        assert!(self.refuse().is_none() && node.0 < self.nodes, "node {node} of {self:?}");
        let header = Header {
            magic: MAGIC.to_le(),
            version: LAYOUT_VERSION.to_le(),
            node: node.0.to_le(),
            nodes: self.nodes.to_le(),
            pool: self.pool.to_le(),
            host_bytes: self.host_bytes.to_le(),
            device_bytes: self.device_bytes.to_le(),
            chunk_bytes: CHUNK_BYTES.to_le(),
            zero: [0; 2],
        };
        zerocopy::transmute!(header)
    }

    /// The words of a new memory node besides its header, with their offsets: counters, and free directory entries.
    pub fn first_words() -> impl Iterator<Item = (u64, u64)> {
        let counters = [NEXT_CHUNK_OFFSET, NEXT_INDEX_OFFSET].map(|offset| (offset, 1));
        let state = |entry| DIRECTORY_OFFSET + (entry * DIRECTORY_ENTRY_BYTES) as u64;
        let states = (0..DIRECTORY_ENTRIES).map(move |entry| (state(entry), DIRECTORY_FREE));
        let words = counters.into_iter().chain(states);
        words.map(|(offset, value)| (offset, SealedWord::sealed_at(offset, value)))
    }

    /// Decodes the header of memory node `node`.
    ///
    /// # Errors
    /// [`FabricError::NotAPool`] with the first mismatch: magic, layout version, node number, sizes, reserved bytes.
    pub fn from_header(node: NodeId, bytes: &[u8]) -> Result<Self, FabricError> {
        let refuse = |why: String| Err(FabricError::NotAPool { node, why });
        let Ok(header) = Header::read_from_bytes(bytes) else {
            return refuse(format!("{} are too few for a superblock", ByteCount(bytes.len() as u64)));
        };
        if u64::from_le(header.magic) != MAGIC {
            return refuse(format!("wrong magic {:#018x}; this is not Farwood's memory", header.magic));
        }
        let version = u32::from_le(header.version);
        if version != LAYOUT_VERSION {
            return refuse(format!(
                "layout version {version}, but this program supports {LAYOUT_VERSION}; use the Farwood that created \
                 the pool, or create it again"
            ));
        }
        if u16::from_le(header.node) != node.0 {
            return refuse(format!("its header is that of node {}", u16::from_le(header.node)));
        }
        if u64::from_le(header.chunk_bytes) != CHUNK_BYTES {
            return refuse(format!(
                "its chunks have {}, not {}",
                ByteCount(u64::from_le(header.chunk_bytes)),
                ByteCount(CHUNK_BYTES)
            ));
        }
        let shape = Self {
            pool: u64::from_le(header.pool),
            nodes: u16::from_le(header.nodes),
            host_bytes: u64::from_le(header.host_bytes),
            device_bytes: u64::from_le(header.device_bytes),
        };
        match shape.refuse() {
            Some(why) => refuse(why),
            None if node.0 >= shape.nodes => refuse(format!("node {node} of a pool of {}", shape.nodes)),
            None if header.zero != [0; 2] => refuse("reserved bytes of its header are not zero".to_owned()),
            None => Ok(shape),
        }
    }
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: PoolShape =
        PoolShape { pool: 7, nodes: 2, host_bytes: 64 << 20, device_bytes: DEVICE_BYTES_DEFAULT };

    #[test]
    fn a_header_is_read_back() {
        assert_eq!(PoolShape::from_header(NodeId(1), &SHAPE.header(NodeId(1))), Ok(SHAPE));
    }

    #[test]
    fn every_wrong_header_is_refused_with_its_reason() {
        let good = SHAPE.header(NodeId(0));
        for (byte, reason) in [
            (0, "magic"),
            (8, "version"),
            (12, "node 1"),
            (14, "nodes"),
            (24, "multiple"),
            (40, "chunks"),
            (56, "reserved"),
        ] {
            let mut bad = good;
            bad[byte] ^= 1;
            if byte == 14 {
                bad[14..16].copy_from_slice(&0u16.to_le_bytes());
            }
            let error = PoolShape::from_header(NodeId(0), &bad).unwrap_err().to_string();
            assert!(error.contains(reason), "byte {byte}: {error}");
        }
        assert!(PoolShape::from_header(NodeId(0), &good[..40]).is_err());
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert_eq!(SHAPE.refuse(), None);
        for shape in [
            PoolShape { nodes: 0, ..SHAPE },
            PoolShape { nodes: 257, ..SHAPE },
            PoolShape { host_bytes: CHUNK_BYTES, ..SHAPE },
            PoolShape { host_bytes: (64 << 20) + 4096, ..SHAPE },
            PoolShape { host_bytes: HOST_BYTES_MAX + CHUNK_BYTES, ..SHAPE },
            PoolShape { device_bytes: 0, ..SHAPE },
            PoolShape { device_bytes: 100, ..SHAPE },
        ] {
            assert!(shape.refuse().is_some(), "{shape:?}");
        }
    }
}
