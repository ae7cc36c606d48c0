//! The format of inner nodes and leaves in remote memory, and keys as sequences of steps. All functions are pure.

pub mod inner;
pub mod key;
pub mod leaf;
pub mod object;
pub mod prefix;
pub mod reverse;
pub mod slot;
