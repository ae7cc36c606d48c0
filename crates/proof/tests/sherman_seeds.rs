//! Sherman on the loopback fabric, seed by seed: every variant on fabrics that copy as shared memory does, as NICs
//! do, and in no useful order at all. Every answer must be explained.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` that one; a failure names the command.

use farwood_index::sherman::options::LockRead;
use farwood_proof::seeds::loopback::{Case, outcome};
use farwood_proof::seeds::{Coverage, many};
use std::ops::Range;
use std::time::Duration;

/// Runs seeds; panics with the first that fails.
fn run_seeds(test: &str, seeds: Range<u64>, case: impl Fn(u64) -> Case + Sync) -> Coverage {
    let (coverage, _, failed) = many::run(seeds, Duration::MAX, |seed| outcome(&case(seed)));
    if let Some((seed, what)) = failed {
        panic!(
            "seed {seed}: {what}\n{:?}\nagain: FARWOOD_SEEDS={seed}..{} cargo test -p farwood-proof --test \
             sherman_seeds {test}",
            case(seed),
            seed + 1
        );
    }
    coverage
}

#[expect(clippy::print_stdout, reason = "what was covered is for people who run more seeds")]
fn report(test: &str, coverage: &Coverage) {
    println!("{test}: {coverage:#?}");
}

#[test]
fn every_answer_is_explained() {
    let asked = many::asked(SEEDS);
    let whole = asked.end - asked.start >= SEEDS;
    let coverage = run_seeds("every_answer_is_explained", asked, Case::of);
    report("every_answer_is_explained", &coverage);
    if whole {
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
    let coverage = run_seeds("a_lock_brings_its_node", many::asked(SEEDS), case);
    report("a_lock_brings_its_node", &coverage);
    assert!(coverage.costs.lock > 0 || coverage.runs < SEEDS, "{coverage:?}");
}

/// Trees grow from nothing while clients that are to make the next root are kept from running.
#[test]
fn growing_trees_lose_no_root() {
    let asked = many::asked(SEEDS * 2);
    let whole = asked.end - asked.start >= SEEDS * 2;
    let coverage = run_seeds("growing_trees_lose_no_root", asked, Case::growing);
    report("growing_trees_lose_no_root", &coverage);
    // The root pointer changes under the root's lock, so that every lost CAS is a lock that was taken.
    assert_eq!(coverage.costs.cas_failures, coverage.costs.lock, "{coverage:?}");
    let grown: u64 = coverage.levels[3..].iter().sum();
    assert!(grown > 0 || !whole, "no tree grew twice: {coverage:?}");
}

/// Operations that are dropped anywhere leave no lock and no wrong answer behind; whether they took effect, nobody
/// knows.
#[test]
fn dropped_operations_harm_nobody() {
    let asked = many::asked(SEEDS / 2);
    let whole = asked.end - asked.start >= SEEDS / 2;
    let coverage = run_seeds("dropped_operations_harm_nobody", asked, Case::with_drops);
    report("dropped_operations_harm_nobody", &coverage);
    if whole {
        assert!(coverage.dropped > 100 && coverage.locks_dropped > 10, "{coverage:?}");
    }
}

/// Seeds of the normal run.
const SEEDS: u64 = 240;

/// A client that was dropped between the split of an inner root and the next root left keys that no way from the old
/// root led to.
#[test]
fn a_split_root_without_a_parent_is_grown_over() {
    if let Err(what) = outcome(&Case::with_drops(1156)) {
        panic!("{what}");
    }
}
