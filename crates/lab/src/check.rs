//! `check`: runs seeds on all processors until one finds something.

use crate::FarIndex;
use crate::case::{Case, CaseOptions};
use crate::finding::{CheckedRun, report};
use crate::history_run::run;
use crate::shrink::shrink;
use farwood_sim::Tracing;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The sum of the runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) runs: u64,
    pub(crate) operations: u64,
    pub(crate) faults: u64,
}

/// The least seed that found something, of those that ran.
#[derive(Debug)]
pub(crate) struct FoundSeed {
    pub(crate) case: Case,
    pub(crate) outcome: CheckedRun,
}

/// Runs seeds on all processors; stops soon after one found something.
pub(crate) fn run_seeds<I: FarIndex>(
    seeds: Range<u64>,
    options: &CaseOptions,
) -> (Totals, Option<FoundSeed>) {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (totals, found) = (Mutex::new(Totals::default()), Mutex::new(None::<FoundSeed>));
    let work = || {
        while !stop.load(Relaxed) {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                break;
            }
            let case = Case::new(seed, options);
            let outcome = run::<I>(&case, Tracing::Off);
            let mut totals = totals.lock().expect("no thread panics while it holds the lock");
            totals.runs += 1;
            totals.operations += outcome.operations;
            totals.faults += outcome.faults.faults();
            drop(totals);
            if outcome.finding.is_some() {
                stop.store(true, Relaxed);
                let mut found = found.lock().expect("no thread panics while it holds the lock");
                if found.as_ref().is_none_or(|found| found.case.seed > seed) {
                    *found = Some(FoundSeed { case, outcome });
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let totals = totals.into_inner().expect("no thread panicked while it held the lock");
    (totals, found.into_inner().expect("no thread panicked while it held the lock"))
}

/// Shrinks the run of a finding; yields the text of the finding. `program`: the command that calls this program.
pub(crate) fn explain<I: FarIndex>(found: &FoundSeed, program: &str) -> String {
    let (case, outcome) = shrink::<I>(&found.case, &found.outcome);
    match &outcome.finding {
        Some(finding) => report(&case, &outcome, finding, program),
        None => unreachable!("a run repeats"),
    }
}
