//! Copies of a pool's memory, so that several worlds begin with the same loaded index.

use crate::fabric::SimFabric;
use crate::world::{World, untimed};
use farwood_fabric::chunks::{self, CHUNK_BYTES};
use farwood_fabric::client_table::{CLIENTS_MAX, state_offset};
use farwood_fabric::superblock::{HEADER_BYTES, HEADER_OFFSET};
use farwood_fabric::{Client, FabricError, NodeId, PoolShape};

/// A copy of the memory of all memory nodes, without the client table.
pub struct PoolImage {
    shape: PoolShape,
    nodes: Vec<NodeImage>,
    lock_tag: u16,
}

/// The memory of a node: of the host memory, the chunks that were ever taken.
struct NodeImage {
    host: Vec<u8>,
    device: Vec<u8>,
}

impl World {
    /// Copies the memory of all memory nodes. No task runs, and `client` takes no virtual time.
    ///
    /// # Errors
    /// A superblock is damaged.
    pub fn image(&self, client: &Client<SimFabric>) -> Result<PoolImage, FabricError> {
        let used = |node| untimed(chunks::taken(client, NodeId(node))).map(|taken| taken * CHUNK_BYTES);
        let used = (0..self.spec().memory_nodes).map(used).collect::<Result<Vec<_>, _>>()?;
        let device = self.device.borrow();
        let nodes = device.memory.iter().zip(used);
        let copy = |(node, used): (&crate::device::MemoryNode, u64)| NodeImage {
            host: node.host[..used as usize].to_vec(),
            device: node.device.clone(),
        };
        Ok(PoolImage { shape: device.shape, nodes: nodes.map(copy).collect(), lock_tag: device.lock_tag })
    }

    /// Replaces the memory of all memory nodes by that of another world, except for the client table and the headers:
    /// the compute nodes of this world remain entered, no index is open, and the host memory keeps its size.
    ///
    /// # Panics
    /// If the pools differ in more than the size of the host memory, or this one is too small.
    pub fn restore(&self, image: &PoolImage) {
        let mut device = self.device.borrow_mut();
        let shape = PoolShape { host_bytes: image.shape.host_bytes, ..device.shape };
        assert_eq!(shape, image.shape, "the image is of a pool of the same shape");
        let header = HEADER_OFFSET as usize + HEADER_BYTES;
        let (table, end) = (state_offset(0) as usize, state_offset(CLIENTS_MAX as u16) as usize);
        for (node, copy) in device.memory.iter_mut().zip(&image.nodes) {
            node.host[header..table].copy_from_slice(&copy.host[header..table]);
            node.host[end..copy.host.len()].copy_from_slice(&copy.host[end..]);
            node.device.copy_from_slice(&copy.device);
        }
        device.lock_tag = image.lock_tag;
    }
}

impl std::fmt::Debug for PoolImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolImage").field("shape", &self.shape).finish_non_exhaustive()
    }
}
