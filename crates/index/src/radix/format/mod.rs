//! The format of inner nodes and leaves in remote memory, and keys by the step. Pure.

pub mod inner;
pub mod key;
pub mod leaf;
pub mod prefix;
pub mod reverse;
pub mod slot;
