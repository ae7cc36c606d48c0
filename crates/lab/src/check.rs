//! `check`: runs seeds on all processors until one finds something.

use crate::FarIndex;
use crate::case::{Case, CaseOptions};
use crate::finding::CheckedRun;
use crate::history_run::run;
use crate::report::{report, spans};
use crate::shrink::shrink;
use farwood_sim::{Trace, Tracing};
use farwood_testkit::seeds::{self, Sum};
use std::ops::Range;
use std::time::Duration;

/// The sum of the runs that found nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) runs: u64,
    pub(crate) operations: u64,
    pub(crate) faults: u64,
}

impl Sum for Totals {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.operations += other.operations;
        self.faults += other.faults;
    }
}

/// A run that found something.
#[derive(Debug)]
pub(crate) struct FoundSeed {
    pub(crate) case: Case,
    pub(crate) run: CheckedRun,
}

/// Runs seeds on all processors, until one finds something.
pub(crate) fn run_seeds<I: FarIndex>(
    range: Range<u64>,
    options: &CaseOptions,
) -> (Totals, Option<FoundSeed>) {
    let each = |seed| {
        let case = Case::new(seed, options);
        let run = run::<I>(&case, Tracing::Off);
        match run.finding {
            None => Ok(Totals { runs: 1, operations: run.operations, faults: run.faults.faults() }),
            Some(_) => Err(Box::new(FoundSeed { case, run })),
        }
    };
    let (totals, _, found) = seeds::run(range, Duration::MAX, each);
    (totals, found.map(|(_, found)| *found))
}

/// A finding that was shrunk.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) text: String,
    /// The events, the operations and the faults of the smallest run.
    pub(crate) trace: Trace,
}

/// Shrinks the run of a finding, and explains it. `program`: the command that calls this program.
pub(crate) fn explain<I: FarIndex>(found: &FoundSeed, program: &str) -> Explained {
    let (case, run) = shrink::<I>(&found.case, &found.run);
    let Some(finding) = &run.finding else { unreachable!("a run repeats") };
    let (text, spans) = (report(&case, &run, finding, program), spans(&run));
    Explained { text, trace: run.trace.with_operations(spans) }
}
