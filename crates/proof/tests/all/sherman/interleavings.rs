//! Sherman on the loopback fabric, with random interleavings that a seed determines. Every variant runs on fabrics that
//! copy bytes in the order of shared memory, in the order of NICs, and in any order. The history of every run must be
//! linearizable.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use farwood_index::ordered::System;
use farwood_index::sherman::options::LockRead;
use farwood_proof::seeds::loopback::{LoopbackCase, outcome};
use farwood_proof::seeds::{RunTotals, runner};
use farwood_testkit::campaign::size;

fn every_fabric(seed: u64) -> LoopbackCase {
    LoopbackCase::new(System::Sherman, seed)
}

fn with_drops(seed: u64) -> LoopbackCase {
    LoopbackCase::with_drops(System::Sherman, seed)
}

/// Runs the requested seeds, or the first `count`.
fn expect_success(test: &str, count: u64, case: impl Fn(u64) -> LoopbackCase + Sync) -> RunTotals {
    runner::expect_success((module_path!(), test), count, case, outcome)
}

#[test]
fn every_answer_is_explained() {
    // Trees of four levels are rare: with fewer seeds, none may have four levels.
    let seeds = size(240, 480);
    let totals = expect_success("every_answer_is_explained", seeds, every_fabric);
    if totals.runs >= seeds {
        let costs = totals.costs;
        for (what, count) in [
            ("torn copies", costs.torn),
            ("steps right and restarts", costs.moved),
            ("locks lost", costs.lock),
            ("hand-overs", costs.handed_over),
            ("cache hits", costs.cache_hits),
            ("cache misses", costs.cache_misses),
            ("trees of three levels", totals.levels[3]),
            ("trees of four levels", totals.levels[4]),
        ] {
            assert!(count > 0, "no {what}: {totals:?}");
        }
    }
}

/// Every variant with the option that posts the CAS of a lock and the READ of its node in one doorbell.
#[test]
fn a_lock_returns_its_node() {
    let case = |seed| {
        let mut case = every_fabric(seed);
        case.plan.sherman().options.lock_read = LockRead::Together;
        case
    };
    let seeds = size(60, 240);
    let totals = expect_success("a_lock_returns_its_node", seeds, case);
    assert!(totals.costs.lock > 0 || totals.runs < seeds, "{totals:?}");
}

/// Trees grow from empty while clients that create the next root are stalled.
#[test]
fn growing_trees_lose_no_root() {
    let seeds = size(120, 480);
    let totals = expect_success("growing_trees_lose_no_root", seeds, LoopbackCase::growing);
    // The root pointer changes under the root's lock, so every failed CAS is one on a lock.
    assert_eq!(totals.costs.cas_failures, totals.costs.lock, "{totals:?}");
    let grown: u64 = totals.levels[3..].iter().sum();
    assert!(grown > 0 || totals.runs < seeds, "no tree grew by two levels: {totals:?}");
}

/// The test drops operations at random points. They must leave no lock held, and the history must stay linearizable,
/// where a dropped operation may have taken effect or not.
#[test]
fn dropped_operations_leave_no_lock() {
    let seeds = size(60, 120);
    let totals = expect_success("dropped_operations_leave_no_lock", seeds, with_drops);
    if totals.runs >= seeds {
        assert!(totals.dropped > 50 && totals.locks_dropped > 5, "{totals:?}");
    }
}

/// An operation that was dropped after the split of an inner root and before the next root left keys that were not
/// reachable from the old root.
#[test]
fn a_parent_is_added_above_a_split_root() {
    if let Err(what) = outcome(&with_drops(1156)) {
        panic!("{what}");
    }
}
