//! The result of checking an index of any system.

use crate::radix::tree;
use crate::sherman;
use crate::sherman::Problem;

/// The result of checking an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderedReport {
    /// The result for a [`Sherman`](crate::sherman::Sherman).
    Sherman(sherman::ShermanReport),
    /// The result for a radix tree: SMART or Sphinx.
    Radix(tree::RadixReport),
}

macro_rules! dispatch {
    ($report:expr, $inner:ident => $what:expr) => {
        match $report {
            OrderedReport::Sherman($inner) => $what,
            OrderedReport::Radix($inner) => $what,
        }
    };
}

impl OrderedReport {
    /// The number of keys.
    pub fn entries(&self) -> u64 {
        dispatch!(self, report => report.entries)
    }

    /// The number of inner nodes and, in Sherman, of leaves. A leaf of a radix tree holds one key and is not counted.
    pub fn nodes(&self) -> u64 {
        match self {
            Self::Sherman(report) => report.nodes.iter().sum(),
            Self::Radix(report) => report.node_count(),
        }
    }

    /// The number of levels of nodes.
    pub fn levels(&self) -> usize {
        match self {
            Self::Sherman(report) => report.nodes.len(),
            Self::Radix(report) => report.height as usize,
        }
    }

    /// The number of unfinished changes. They are legal: the next client that needs a changed node completes or undoes
    /// its change.
    pub fn unfinished_changes(&self) -> u64 {
        match self {
            Self::Sherman(report) => report.half_linked + report.half_merged,
            Self::Radix(report) => report.unfinished_changes,
        }
    }

    /// The number of locks of crashed clients, which the next writer takes over.
    pub fn locks_of_crashed_clients(&self) -> u64 {
        dispatch!(self, report => report.locks_of_crashed_clients)
    }

    /// The number of locks that live clients held during the check. Each is also listed in the problems.
    pub fn locks_held(&self) -> u64 {
        dispatch!(self, report => report.locks_held)
    }

    /// Violated invariants; at most 1000 are listed.
    pub fn problems(&self) -> &[Problem] {
        dispatch!(self, report => &report.problems)
    }
}
