//! Sherman on the loopback fabric, seed by seed: every variant on fabrics that copy as shared memory does, as NICs
//! do, and in no useful order at all. Every answer must be explained.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` that one; a failure names the command.

use farwood_index::sherman::options::LockRead;
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
    let coverage = run_seeds("every_answer_is_explained", SEEDS, Case::of);
    if coverage.runs >= SEEDS {
        let costs = coverage.costs;
        for (what, count) in [
            ("torn copies", costs.torn),
            ("steps right and restarts", costs.moved),
            ("locks lost", costs.lock),
            ("hand-overs", costs.handed_over),
            ("cache hits", costs.cache_hits),
            ("cache misses", costs.cache_misses),
            ("trees of three levels", coverage.levels[3]),
            ("trees of four levels", coverage.levels[4]),
        ] {
            assert!(count > 0, "no {what}: {coverage:?}");
        }
    }
}

/// Lock and READ share a doorbell, in every variant.
#[test]
fn a_lock_brings_its_node() {
    let case = |seed| {
        let mut case = Case::of(seed);
        case.plan.config.options.lock_read = LockRead::Together;
        case
    };
    let coverage = run_seeds("a_lock_brings_its_node", SEEDS, case);
    assert!(coverage.costs.lock > 0 || coverage.runs < SEEDS, "{coverage:?}");
}

/// Trees grow from nothing while clients that are to make the next root are kept from running.
#[test]
fn growing_trees_lose_no_root() {
    let coverage = run_seeds("growing_trees_lose_no_root", SEEDS * 2, Case::growing);
    // The root pointer changes under the root's lock, so that every lost CAS is a lock that was taken.
    assert_eq!(coverage.costs.cas_failures, coverage.costs.lock, "{coverage:?}");
    let grown: u64 = coverage.levels[3..].iter().sum();
    assert!(grown > 0 || coverage.runs < SEEDS * 2, "no tree grew twice: {coverage:?}");
}

/// Operations that are dropped anywhere leave no lock and no wrong answer behind; whether they took effect, nobody
/// knows.
#[test]
fn dropped_operations_harm_nobody() {
    let coverage = run_seeds("dropped_operations_harm_nobody", SEEDS / 2, Case::with_drops);
    if coverage.runs >= SEEDS / 2 {
        assert!(coverage.dropped > 100 && coverage.locks_dropped > 10, "{coverage:?}");
    }
}

/// A client that was dropped between the split of an inner root and the next root left keys that no way from the old
/// root led to.
#[test]
fn a_split_root_without_a_parent_is_grown_over() {
    if let Err(what) = outcome(&Case::with_drops(1156)) {
        panic!("{what}");
    }
}
