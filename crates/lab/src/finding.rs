//! The result of a checked run.

use crate::world::number_of;
use farwood_sim::Trace;
use farwood_sim::fault::{FaultCounts, InjectedFault};
use farwood_sim::trace::micros;
use farwood_testkit::history::{ByteString, History, Violation};

/// Number of the client that reads everything at the end on compute node 0.
pub(crate) const FIRST_READER: u64 = 1_000;

/// What a checked run found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// No order of the operations on a key explains their answers.
    Violation(Violation),
    /// An operation ended with an error that no fault explains.
    Error { client: u64, what: String },
    /// The run does not end.
    Stuck(String),
    /// The code of the index panicked.
    Panic(String),
    /// An invariant does not hold at the end of the run.
    Invariant(String),
    /// The key's operations have too many possible orders.
    Undecided(ByteString),
}

impl Finding {
    /// Whether both are findings of one kind, so that a smaller run shows the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// One line.
    pub(crate) fn headline(&self) -> String {
        match self {
            Self::Violation(Violation { key, until, .. }) if *until < u64::MAX => {
                format!(
                    "key {}: no order of its operations explains the answer at {}",
                    number_of(key),
                    micros(*until)
                )
            }
            Self::Violation(Violation { key, what, .. }) => format!("key {}: {what}", number_of(key)),
            Self::Error { client, what } => format!("an operation of client {client} failed: {what}"),
            Self::Stuck(what) | Self::Panic(what) => what.clone(),
            Self::Invariant(what) => format!("an invariant does not hold at the end: {what}"),
            Self::Undecided(key) => {
                format!(
                    "key {}: too many possible orders; give more --keys or fewer --operations",
                    number_of(key)
                )
            }
        }
    }
}

/// A run: its size and what it found.
#[derive(Debug, Default)]
pub(crate) struct CheckedRun {
    /// Operations that were answered.
    pub(crate) operations: u64,
    pub(crate) history: History,
    pub(crate) faults: FaultCounts,
    pub(crate) finding: Option<Finding>,
    pub(crate) injected: Vec<InjectedFault>,
    /// The clients, and their numbers in the trace.
    pub(crate) traced: Vec<(u64, u32)>,
    pub(crate) trace: Trace,
}
