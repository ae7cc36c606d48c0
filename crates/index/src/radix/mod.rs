//! What the radix trees share: keys by the step, slots, inner nodes, leaves, the heap in which they lie, and how they
//! are read and changed ([`tree`]).
//!
//! All of it is pure but the heap and the tree. Keys are byte strings of any length; one may be a prefix of another,
//! for every inner node has a slot for the key that ends at it.

pub mod cached;
pub mod inner;
pub mod key;
mod lanes;
pub mod leaf;
pub mod node_cache;
pub mod prefix;
pub mod reverse;
mod shortcuts;
pub mod slot;
pub mod tree;
