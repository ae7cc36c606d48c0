//! Copies of inner nodes that a compute node keeps.

mod arena;
pub mod cached_node;
pub(crate) mod depth_set;
pub mod node_cache;
mod page_log;
mod start_depths;
mod stored_copy;
mod table;
mod view_pool;
