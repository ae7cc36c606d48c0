//! The result of checking an index of any system.

use crate::radix::tree;
use crate::sherman;
use crate::sherman::Problem;

/// The result of checking an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderedReport {
    /// A [`Sherman`](crate::sherman::Sherman).
    Sherman(sherman::ShermanReport),
    /// A radix tree of any system.
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
    /// Keys.
    pub fn entries(&self) -> u64 {
        dispatch!(self, report => report.entries)
    }

    /// Inner nodes, and leaves of several entries.
    pub fn nodes(&self) -> u64 {
        dispatch!(self, report => report.nodes.iter().sum())
    }

    /// Levels of nodes.
    pub fn levels(&self) -> usize {
        match self {
            Self::Sherman(report) => report.nodes.len(),
            Self::Radix(report) => report.height as usize,
        }
    }

    /// Unfinished changes, which are legal: the next client that needs one completes or undoes it.
    pub fn half_done(&self) -> u64 {
        match self {
            Self::Sherman(report) => report.half_linked + report.half_merged,
            Self::Radix(report) => report.unsettled,
        }
    }

    /// Locks of crashed clients, which the next writer takes over.
    pub fn locks_of_crashed_clients(&self) -> u64 {
        dispatch!(self, report => report.locks_of_crashed_clients)
    }

    /// Locks that live clients held during the check; each is also listed as a violation.
    pub fn locks_held(&self) -> u64 {
        dispatch!(self, report => report.locks_held)
    }

    /// Violated invariants; at most 1000 are listed.
    pub fn problems(&self) -> &[Problem] {
        dispatch!(self, report => &report.problems)
    }
}
