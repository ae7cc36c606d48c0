//! The result of a verification.

use crate::error::IndexError;
use farwood_fabric::FabricError;
use std::fmt;

pub use crate::sherman::Problem;

/// Most problems that are listed one by one.
const PROBLEMS_MAX: usize = 1000;

/// Statistics of the hash tables, if the tree has any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// Subtables.
    pub subtables: u64,
    /// RadixEntries; some may lead to no node.
    pub entries: u64,
    /// RadixEntries that fit into the subtables.
    pub entries_max: u64,
    /// Bytes of subtables and directories, including directories that were doubled.
    pub bytes: u64,
}

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadixReport {
    /// Inner nodes of 4, 16, 48 and 256 slots.
    pub nodes: [u64; 4],
    /// Keys.
    pub entries: u64,
    /// Bytes of the inner nodes.
    pub node_bytes: u64,
    /// Bytes of the leaves.
    pub leaf_bytes: u64,
    /// Overflow values.
    pub overflow_values: u64,
    /// Bytes of the overflow values.
    pub value_bytes: u64,
    /// Most inner nodes on the path of a key.
    pub height: u64,
    /// Unfinished changes, which the next client that needs the object repairs.
    pub unsettled: u64,
    /// Nodes among them that are closed: the next client that inserts there replaces the node.
    pub closed: u64,
    /// Statistics of the hash tables.
    pub census: TableStatistics,
    /// Locks of crashed clients: the next writer takes them over.
    pub locks_of_crashed_clients: u64,
    /// Locks that live clients held throughout; each is also a problem.
    pub locks_held: u64,
    /// Violated invariants; at most 1000 are listed.
    pub problems: Vec<Problem>,
}

impl RadixReport {
    pub(crate) fn problem(&mut self, at: impl fmt::Display, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { at: at.to_string(), what: what.into() });
        }
    }
}

/// Converts an error that reports damage to the text of a problem; passes on other errors.
pub(crate) fn problem_of(error: IndexError) -> Result<String, IndexError> {
    match error {
        IndexError::Damaged { what, .. } => Ok(what),
        IndexError::Fabric(FabricError::OutOfRange { .. } | FabricError::Misaligned { .. }) => {
            Ok("the pointer to it is outside of the pool's memory".to_owned())
        }
        error => Err(error),
    }
}
