//! Shrinks a run that found something: fewer faults, operations, clients and keys that still find the same kind.

use crate::FarIndex;
use crate::case::Case;
use crate::finding::CheckedRun;
use crate::history_run::run;
use farwood_sim::Tracing;

/// Runs of a shrinking, at most.
const RUNS_MAX: u32 = 400;

/// A smaller case with a finding of the same kind, and its outcome with a trace.
pub(crate) fn shrink<I: FarIndex>(case: &Case, outcome: &CheckedRun) -> (Case, CheckedRun) {
    let mut shrinking = Shrinking { case: case.clone(), original: outcome, runs: 0 };
    loop {
        let before = shrinking.size();
        shrinking.shrink_rules::<I>();
        shrinking.shrink_number::<I>(|case| &mut case.operations, 1);
        shrinking.shrink_clients::<I>();
        shrinking.shrink_number::<I>(|case| &mut case.keys, 1);
        if shrinking.size() == before || shrinking.runs >= RUNS_MAX {
            break;
        }
    }
    let traced = run::<I>(&shrinking.case, Tracing::Full);
    (shrinking.case, traced)
}

struct Shrinking<'o> {
    case: Case,
    original: &'o CheckedRun,
    runs: u32,
}

impl Shrinking<'_> {
    fn size(&self) -> (usize, u64, usize, u64) {
        let Case { rules, operations, clients, keys, .. } = &self.case;
        (rules.len(), *operations, *clients, *keys)
    }

    /// Keeps `smaller` if it finds the same.
    fn try_case<I: FarIndex>(&mut self, smaller: Case) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let found = run::<I>(&smaller, Tracing::Off).finding;
        let same = matches!((&found, &self.original.finding), (Some(new), Some(old)) if new.is_like(old));
        if same {
            self.case = smaller;
        }
        same
    }

    /// Leaves out faults: first half of them at a time, then fewer.
    fn shrink_rules<I: FarIndex>(&mut self) {
        let mut size = self.case.rules.len().div_ceil(2);
        while size > 0 {
            let mut first = 0;
            while first < self.case.rules.len() {
                let mut smaller = self.case.clone();
                smaller.rules.drain(first..(first + size).min(self.case.rules.len()));
                if !self.try_case::<I>(smaller) {
                    first += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Lowers a number: to half, then by less.
    fn shrink_number<I: FarIndex>(&mut self, number: impl Fn(&mut Case) -> &mut u64, least: u64) {
        let mut step = (*number(&mut self.case) - least).div_ceil(2);
        while step > 0 {
            let mut smaller = self.case.clone();
            let value = number(&mut smaller);
            let fits = *value >= least + step;
            *value = value.saturating_sub(step);
            if !(fits && self.try_case::<I>(smaller)) {
                step /= 2;
            }
        }
    }

    fn shrink_clients<I: FarIndex>(&mut self) {
        while self.case.clients > 1 {
            let mut smaller = self.case.clone();
            smaller.clients -= 1;
            if !self.try_case::<I>(smaller) {
                break;
            }
        }
    }
}
