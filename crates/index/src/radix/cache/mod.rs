//! Copies of inner nodes that a compute node keeps.

pub mod cached_node;
pub mod node_cache;
mod thread_cache;
