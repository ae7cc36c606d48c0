//! The controls of growth: more memory, and more memory nodes in the pool.

use super::event::NodeEvent;
use super::registry::Refusal;
use super::shared::Shared;
use crate::client::added_nodes;
use crate::wire::Code;

/// Gives the memory node `bytes` of memory, unless it has more; returns its memory.
pub(super) fn grow(shared: &Shared, bytes: u64) -> Result<[u64; 4], Refusal> {
    let before = shared.store.memory_bytes();
    let memory_bytes = shared.store.grow(bytes)?;
    if memory_bytes > before {
        shared.log(|| NodeEvent::Grown { memory_bytes });
    }
    Ok([memory_bytes, 0, 0, 0])
}

/// Records that the pool has `nodes` memory nodes, unless it has more; returns their number.
pub(super) fn extend(shared: &Shared, nodes: u16) -> Result<[u64; 4], Refusal> {
    if shared.executor.is_some() {
        let why = "no memory node can be added to a pool with RDMA devices, because clients connect their queue pairs \
                   when they open it";
        return Err((Code::WrongTransport, why.to_owned()));
    }
    let before = shared.store.membership().nodes;
    let nodes = shared.store.extend(nodes).map_err(|why| (Code::WrongPool, why))?;
    if nodes > before {
        shared.log(|| NodeEvent::Extended { nodes });
    }
    Ok([nodes.into(), 0, 0, 0])
}

/// Reads a page of the entry of an added memory node.
pub(super) fn address(shared: &Shared, [node, page]: [u64; 2]) -> Result<[u64; 4], Refusal> {
    let at = added_nodes::page(node, page);
    let at = at.ok_or_else(|| (Code::OutOfRange, "there is no such memory node or page".to_owned()))?;
    Ok([0, 8, 16, 24].map(|word| shared.store.load(at + word)))
}
