//! The index cache: the nodes of the tree that a compute node keeps (Sherman §4.2.3).
//!
//! A stale cache never causes a wrong answer: it only names a node, and the client checks that node's fences and level.

pub mod filter;
mod ordered;
mod prefixes;

pub use ordered::{Inserted, OrderedCache, Ranged, Slot};
pub use prefixes::Prefixes;
