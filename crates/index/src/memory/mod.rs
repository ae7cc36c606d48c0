//! Memory of an index: chunks of the memory nodes, slots for objects in them, and values that are stored out of line.

pub mod adopt;
pub mod chunks;
pub mod free_list;
pub mod heap;
pub mod overflow;
pub mod slot;
