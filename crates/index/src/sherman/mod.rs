//! Sherman.
pub mod inner;
pub mod layout;
pub mod leaf;
pub mod node;
pub mod options;
