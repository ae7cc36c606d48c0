//! Processing units of a memory node's NIC: each queue pair is served by one of them, first come, first served.
//!
//! READs and WRITEs pass immediately. An atomic occupies its unit until it releases its slot, and every later request
//! of the unit waits (head-of-line blocking).

use crate::queue::Key;
use std::collections::VecDeque;

/// One unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessingUnit {
    /// The atomic that occupies it.
    pub(crate) atomic: Option<Key>,
    /// Requests that wait for the atomic.
    pub(crate) waiting: VecDeque<Key>,
}
