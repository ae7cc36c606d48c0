//! The far memory of an index.

use farwood_fabric::{Memory, NodeId, Remote};

/// Offset of the index's memory at every memory node: behind the chunk with the superblock.
const START: u64 = 8 << 20;

/// The far memory of an index: the same number of bytes at every memory node, zero at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Memory nodes.
    pub memory_nodes: u16,
    /// Bytes at each memory node.
    pub bytes: u64,
    /// Keys that the index has to hold.
    pub keys: u64,
}

impl Space {
    /// The object at `offset` of the space at memory node `node`.
    ///
    /// # Panics
    /// If the offset is beyond the space, or there is no such memory node.
    pub fn at<T: ?Sized>(self, node: u16, offset: u64) -> Remote<T> {
        assert!(node < self.memory_nodes && offset < self.bytes, "{node}:{offset:#x} is not in {self:?}");
        Remote::new(NodeId(node), Memory::Host, START + offset).expect("it is behind the superblock")
    }

    /// Bytes of host memory of each memory node.
    pub(crate) fn host_bytes(self) -> u64 {
        (START + self.bytes).next_multiple_of(8 << 20)
    }
}
