//! What the walker of an index of any system saw.

use crate::radix::tree;
use crate::sherman;
use crate::sherman::Problem;

/// What a walker saw, whatever it walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walk {
    /// A [`Sherman`](crate::sherman::Sherman).
    Sherman(sherman::Walk),
    /// A radix tree, of whatever system.
    Radix(tree::Walk),
}

macro_rules! each {
    ($seen:expr, $walk:ident => $what:expr) => {
        match $seen {
            Walk::Sherman($walk) => $what,
            Walk::Radix($walk) => $what,
        }
    };
}

impl Walk {
    /// Keys.
    pub fn entries(&self) -> u64 {
        each!(self, walk => walk.entries)
    }

    /// Inner nodes, and leaves where they are nodes of several entries.
    pub fn nodes(&self) -> u64 {
        each!(self, walk => walk.nodes.iter().sum())
    }

    /// Levels of nodes.
    pub fn levels(&self) -> usize {
        match self {
            Self::Sherman(walk) => walk.nodes.len(),
            Self::Radix(walk) => walk.height as usize,
        }
    }

    /// What was left half-way and is legal: whoever needs it ends it or takes it back.
    pub fn half_done(&self) -> u64 {
        match self {
            Self::Sherman(walk) => walk.half_linked + walk.half_merged,
            Self::Radix(walk) => walk.unsettled,
        }
    }

    /// Locks of clients that are gone: the next writer takes them over.
    pub fn locks_of_the_gone(&self) -> u64 {
        each!(self, walk => walk.locks_of_the_gone)
    }

    /// Locks that living clients held all the while; they are among the problems, too.
    pub fn locks_held(&self) -> u64 {
        each!(self, walk => walk.locks_held)
    }

    /// Violated invariants; at most 1000 are listed.
    pub fn problems(&self) -> &[Problem] {
        each!(self, walk => &walk.problems)
    }
}
