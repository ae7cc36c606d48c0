//! The index cache: what a compute node keeps of the tree (Sherman §4.2.3).
//!
//! A cache never makes an answer wrong: it only says where to look, and what is found there is checked against
//! its fences and its level.

pub mod filter;
mod ordered;
mod prefixes;

pub use ordered::{OrderedCache, Ranged, Slot};
pub use prefixes::Prefixes;
