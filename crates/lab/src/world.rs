//! A simulated network with an index, opened at every compute node.

use crate::{FarIndex, LabError, LabResult, Space};
use farwood_sim::{World, WorldSpec, untimed};

/// A network and the index's handle at each compute node.
pub(crate) struct Lab<I> {
    pub(crate) world: World,
    pub(crate) indexes: Vec<I>,
}

impl<I: FarIndex> Lab<I> {
    /// Creates the index for `keys` keys, and opens it at every compute node, without virtual time.
    pub(crate) fn new(spec: WorldSpec, keys: u64, mutant: Option<&str>) -> LabResult<Self> {
        let memory_nodes = spec.memory_nodes;
        let bytes = I::node_bytes(keys, memory_nodes).next_multiple_of(8).max(8);
        let space = Space { memory_nodes, bytes, keys };
        let spec = WorldSpec { host_bytes: space.host_bytes(), ..spec };
        let world = World::new(spec).map_err(|error| LabError::index(error.to_string()))?;
        untimed(I::create(&world.untimed(0), space))?;
        let open = |node| {
            let mut index = untimed(I::open(&world.untimed(node), space))?;
            if let Some(name) = mutant {
                index.mutate(name);
            }
            Ok(index)
        };
        let indexes: LabResult<_> = (0..world.spec().compute_nodes).map(open).collect();
        Ok(Self { indexes: indexes?, world })
    }
}

/// The key with that number.
pub(crate) fn key<I: FarIndex>(number: u64) -> Vec<u8> {
    numbered(number, I::KEY_BYTES)
}

/// The value with that number.
pub(crate) fn value<I: FarIndex>(number: u64) -> Vec<u8> {
    numbered(number, I::VALUE_BYTES)
}

/// `bytes` bytes that begin with a number, in an order that is that of the numbers.
fn numbered(number: u64, bytes: usize) -> Vec<u8> {
    let width = bytes.min(8);
    let mut all = number.to_be_bytes()[8 - width..].to_vec();
    all.resize(bytes, 0xAB);
    all
}

/// The number at the beginning of a key or value.
pub(crate) fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}
