//! Runs in the simulator: a network in virtual time, with faults.
//!
//! A *counted* seed has at least 3 compute nodes, 8 clients, 1,000 answered operations on few keys, and 3 faults that
//! happened. [`SimulatorCase::with_faults`] draws one, [`SimulatorCase::new`] the same without faults.
//!
//! # Which errors a fault explains
//!
//! An operation may end with an error only in these cases:
//!
//! - `NodeLost`: one outage that is longer than the NIC's retries ([`RETRY_NS`](farwood_sim::fault::RETRY_NS)) took
//!   the memory node down or cut it off from this client's compute node while the operation ran, or shortly before, so
//!   that the operation still waited for the retries. Time in which the compute node was frozen does not count, because
//!   the loss of a detached post shows at the next post.
//! - `LockHeld`: a compute node was frozen for about as long as the index waits for a lock (20 s) while the operation
//!   ran.
//! - `Revoked`: the compute node was frozen for longer than the lease, in runs with a lease.
//! - `PoolFull`, `Damaged`, `Exhausted` and all others: never. Pools are large enough, and a WRITE is executed
//!   completely.
//!
//! An operation that lost its node may have taken effect, or may take effect later; so may an operation whose compute
//! node crashed. An operation that reached the time limit for a lock had no effect. A compute node that crashes may
//! leave for each of its clients one lock, which another client takes when it needs it, one node that no parent names,
//! one node that nothing links, and one incomplete merge. Each operation that lost its node may leave the same, except
//! the lock.

mod check;
mod draw;
mod faults;
mod run;

pub use draw::{FAULTS, OPERATIONS, SimulatorCase};
pub use run::{SimulatorRun, outcome, run};

use super::RunTotals;
use farwood_sim::Counts;
use farwood_sim::fault::FaultCounts;
use std::collections::BTreeMap;

/// Counters of several runs.
#[derive(Clone, Debug, Default)]
pub struct SimulatorReport {
    /// Operations and their costs.
    pub totals: RunTotals,
    /// Faults that happened.
    pub met: FaultCounts,
    /// Verbs.
    pub counts: Counts,
    /// Coverage marks, and the number of times that clients passed each.
    pub marks: BTreeMap<&'static str, u64>,
    /// Operations whose errors faults explain.
    pub explained_errors: u64,
    /// Runs that qualified as counted seeds.
    pub counted: u64,
    /// Virtual nanoseconds.
    pub nanoseconds: u64,
    /// Runs of the mutant whose versions start high: nodes, and entries of leaves, whose version has wrapped.
    pub wrapped: [u64; 2],
}

impl SimulatorReport {
    /// Adds another run's report.
    pub fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.met += other.met;
        self.counts += other.counts;
        for (mark, times) in &other.marks {
            *self.marks.entry(mark).or_default() += times;
        }
        self.explained_errors += other.explained_errors;
        self.counted += other.counted;
        self.nanoseconds += other.nanoseconds;
        self.wrapped[0] += other.wrapped[0];
        self.wrapped[1] += other.wrapped[1];
    }
}
