//! The result of the verification of a radix tree.

use crate::error::IndexError;
use crate::radix::inner::NodeSize;
use farwood_fabric::FabricError;
use std::fmt;

pub use crate::sherman::Problem;

/// Maximum number of listed problems.
const PROBLEMS_MAX: usize = 1000;

/// Statistics of the hash tables, if the tree has any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// Number of subtables.
    pub subtables: u64,
    /// Number of hash entries, including stale entries that name no node of the tree.
    pub entries: u64,
    /// Number of hash entries for which the subtables have space.
    pub entries_max: u64,
    /// Bytes of subtables and directories, including directories that were doubled.
    pub bytes: u64,
}

/// The result of the verification of a radix tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadixReport {
    /// Number of inner nodes of fixed size, with 4, 16, 48 and 256 slots.
    pub nodes: [u64; 4],
    /// Number of typed nodes, with 4, 8, 16, 32, 64, 128 and 256 slots in use.
    pub typed_nodes: [u64; 7],
    /// Number of keys.
    pub entries: u64,
    /// Bytes of the inner nodes, with the slots of typed nodes that are not in use.
    pub node_bytes: u64,
    /// Bytes of the leaves.
    pub leaf_bytes: u64,
    /// Number of overflow values: values that are stored outside their leaf.
    pub overflow_values: u64,
    /// Bytes of the overflow values.
    pub value_bytes: u64,
    /// Largest number of inner nodes on the path of a key.
    pub height: u64,
    /// Number of unfinished changes. The next client that needs the node or leaf completes or undoes them.
    pub unfinished_changes: u64,
    /// Number of unfinished changes that are the replacement of an inner node. The node is closed to inserts, and the
    /// next client that inserts there replaces it.
    pub closed: u64,
    /// Statistics of the hash tables.
    pub census: TableStatistics,
    /// Number of locks of crashed clients. The next writer takes them over.
    pub locks_of_crashed_clients: u64,
    /// Number of locks that live clients held during the whole verification. Each is also listed in `problems`.
    pub locks_held: u64,
    /// Violated invariants; at most 1000 are listed.
    pub problems: Vec<Problem>,
}

impl RadixReport {
    /// Number of inner nodes.
    pub fn node_count(&self) -> u64 {
        self.nodes.iter().chain(&self.typed_nodes).sum()
    }

    /// The counter of the nodes of a size.
    pub(crate) fn nodes_of(&mut self, size: NodeSize) -> &mut u64 {
        let number = size as usize;
        match number.checked_sub(self.nodes.len()) {
            None => &mut self.nodes[number],
            Some(typed) => &mut self.typed_nodes[typed],
        }
    }

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
