//! The R*-tree: its nodes in far memory, its changes as drafts, and the selection of the entries that a search needs.
//! All functions are pure.

pub(super) mod bulk;
pub(super) mod change;
pub(super) mod copy;
mod distance;
pub(super) mod draft;
pub(super) mod filter;
pub mod layout;
pub(super) mod nearest;
pub(super) mod rectangle;
mod rstar;
