//! SMART in the laboratory, seed by seed: every variant on every card, with and without faults. Every answer must be
//! explained, and every error by a fault.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` that one; a failure names the command.

use farwood_proof::seeds::laboratory::{Case, Report, outcome};
use farwood_proof::seeds::many;
use std::time::Duration;

/// Seeds of the normal run.
const SEEDS: u64 = 100;

/// Runs the seeds that were asked for; panics with the first that fails.
fn all_right(test: &str, case: impl Fn(u64) -> Case + Sync) -> Report {
    let (report, _, failed) = many::run(many::asked(SEEDS), Duration::MAX, |seed| outcome(&case(seed)));
    tell(test, &report);
    if let Some((seed, what)) = failed {
        panic!(
            "seed {seed}: {what}\n{:?}\nagain: FARWOOD_SEEDS={seed}..{} cargo test -p farwood-proof --test \
             smart_lab {test}",
            case(seed),
            seed + 1
        );
    }
    report
}

#[expect(clippy::print_stdout, reason = "what was covered is for people who run more seeds")]
fn tell(test: &str, report: &Report) {
    println!("{test}: {report:#?}");
}

#[test]
fn without_faults_every_answer_is_explained() {
    let report = all_right("without_faults_every_answer_is_explained", Case::calm_smart);
    assert_eq!((report.met.faults(), report.excused, report.coverage.half_linked), (0, 0, 0));
}

#[test]
fn with_faults_every_answer_is_explained() {
    let report = all_right("with_faults_every_answer_is_explained", Case::of_smart);
    // Now and then a compute node is done before it has sent what a fault waits for.
    assert!(report.counted * 50 >= report.coverage.runs * 49, "{} are counted", report.counted);
}

/// Seeds that failed once, and what they found.
#[test]
fn what_was_found_stays_mended() {
    for (seed, found) in [
        (9, "a node below which nothing was kept scans from going on"),
        (43, "every client of a compute node took a chunk for itself"),
        (
            44,
            "who waited for a node's lock did not give back a leaf's that was in doubt, for which its holder waited",
        ),
        (
            92,
            "nobody waited for the lock of a node that was to be replaced, and so nobody took it from its dead holder",
        ),
    ] {
        if let Err(what) = outcome(&Case::of_smart(seed)) {
            panic!("seed {seed} ({found}): {what}");
        }
    }
}
