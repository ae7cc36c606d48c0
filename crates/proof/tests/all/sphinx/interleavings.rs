//! Sphinx on the loopback fabric, seed by seed: every variant, on fabrics that copy as shared memory does, as NICs do,
//! and in no useful order at all; keys of all lengths, some the beginnings of others; values that outgrow their
//! leaves. Every answer must be explained.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` that one; a failure names the command.

use farwood_proof::seeds::loopback::{Case, outcome};
use farwood_proof::seeds::{Coverage, many};

/// Seeds of the normal run.
const SEEDS: u64 = 240;

/// Runs the seeds that were asked for.
fn run_seeds(test: &str, count: u64, case: impl Fn(u64) -> Case + Sync) -> Coverage {
    many::all_right((module_path!(), test), count, case, outcome)
}

#[test]
fn every_answer_is_explained() {
    let coverage = run_seeds("every_answer_is_explained", SEEDS, |seed| Case::of(seed).of_sphinx());
    if coverage.runs >= SEEDS {
        let costs = coverage.costs;
        for (what, count) in [
            ("torn copies", costs.torn),
            ("nodes read again", costs.moved),
            ("locks lost", costs.lock),
            ("slots lost", costs.cas_failures),
            ("trees of five levels", coverage.levels[5]),
        ] {
            assert!(count > 0, "no {what}: {coverage:?}");
        }
    }
}

/// Operations that are dropped anywhere leave no lock and no wrong answer behind.
#[test]
fn dropped_operations_harm_nobody() {
    let case = |seed| Case::with_drops(seed).of_sphinx();
    let coverage = run_seeds("dropped_operations_harm_nobody", SEEDS / 2, case);
    assert!(coverage.dropped > 100 || coverage.runs < SEEDS / 2, "{coverage:?}");
}

/// A seed that failed once: a scan took a node that had come into the room of one that was gone for that one, for the
/// reverse pointer was read before the node was written, and the rest after.
#[test]
fn what_was_found_stays_mended() {
    if let Err(what) = outcome(&Case::of(515).of_sphinx()) {
        panic!("seed 515: {what}");
    }
}
