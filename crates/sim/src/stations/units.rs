//! Processing units of a memory node's NIC: a queue pair is served by one of them, first come, first served.
//!
//! READs and WRITEs pass at once. An atomic occupies its unit until it leaves its slot, and what came behind it waits,
//! whatever it is and whomever it is for: head-of-line blocking.

use crate::queue::Key;
use std::collections::VecDeque;

/// One unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    /// The atomic that occupies it.
    pub(crate) atomic: Option<Key>,
    /// What waits behind it.
    pub(crate) waiting: VecDeque<Key>,
}
