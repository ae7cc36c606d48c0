//! The statistics of a pool as JSON.

use farwood::stats::{ClientStats, IndexUse, NodeStats, PoolStats};
use serde_json::{Value, json};

/// The statistics as one line of JSON.
pub(super) fn of_stats(stats: &PoolStats) -> String {
    json!({
        "nodes": stats.nodes.iter().map(of_node).collect::<Vec<_>>(),
        "clients": stats.clients.iter().map(of_client).collect::<Vec<_>>(),
        "indexes": stats.indexes.iter().map(of_index).collect::<Vec<_>>(),
        "damaged_slots": stats.damaged_slots.len(),
        "damaged_entries": stats.damaged_entries.len(),
    })
    .to_string()
}

fn of_node(node: &NodeStats) -> Value {
    json!({
        "memory_bytes": node.memory_bytes,
        "device_bytes": node.device_bytes,
        "resident_bytes": node.resident_bytes,
        "chunks": node.chunks,
        "chunks_used": node.chunks_used,
    })
}

fn of_client(client: &ClientStats) -> Value {
    json!({
        "slot": client.client.slot,
        "epoch": client.client.epoch,
        "process": client.process,
        "is_own": client.is_own,
        "alive": client.alive,
        "open": client.open,
    })
}

fn of_index(index: &IndexUse) -> Value {
    json!({
        "name": index.entry.name,
        "number": index.entry.number,
        "chunks": index.chunks,
        "is_served": index.server.is_some(),
    })
}
