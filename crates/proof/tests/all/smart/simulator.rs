//! SMART in the laboratory, seed by seed: every variant on every card, with and without faults. Every answer must be
//! explained, and every error by a fault.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` that one; a failure names the command.

use farwood_index::{radix, smart};
use farwood_proof::seeds::laboratory::{Case, Report, outcome};
use farwood_proof::seeds::many;

/// Seeds of the normal run.
const SEEDS: u64 = 100;

/// Runs the seeds that were asked for.
fn all_right(test: &str, case: impl Fn(u64) -> Case + Sync) -> Report {
    many::all_right((module_path!(), test), SEEDS, case, outcome)
}

#[test]
fn without_faults_every_answer_is_explained() {
    let report = all_right("without_faults_every_answer_is_explained", Case::calm_smart);
    assert_eq!((report.met.faults(), report.excused, report.coverage.half_linked), (0, 0, 0));
}

#[test]
fn with_faults_every_answer_is_explained() {
    let report = all_right("with_faults_every_answer_is_explained", Case::of_smart);
    // A thousand seeds come along every rare path.
    if report.coverage.runs >= 1_000 {
        let missed: Vec<_> = radix::tree::MARKS
            .iter()
            .chain(smart::MARKS)
            .filter(|mark| !report.marks.contains_key(**mark))
            .collect();
        assert!(missed.is_empty(), "nobody came along {missed:?}");
    }
    // Now and then a compute node is done before it has sent what a fault waits for.
    assert!(report.counted * 50 >= report.coverage.runs * 49, "{} are counted", report.counted);
}

/// Seeds that failed once, and what they found.
#[test]
fn what_was_found_stays_mended() {
    for (seed, found) in [
        (9, "a node below which nothing was kept scans from going on"),
        (2590, "a scan took a node for empty whose leaf had moved while it was looked for"),
        (43, "every client of a compute node took a chunk for itself"),
        (
            44,
            "who waited for a node's lock did not give back a leaf's that was in doubt, for which its holder waited",
        ),
        (
            92,
            "nobody waited for the lock of a node that was to be replaced, and so nobody took it from its dead holder",
        ),
        (2932, "the laboratory's pool had no room for chunks that were lost with the memory node"),
        (
            117_323,
            "a node's replacement was cut off behind a removal that was done, and the check knew of none",
        ),
        (222_485, "a detached post was lost before a freeze, and the check looked only behind it"),
        (232_173, "a node was closed for a replacement before it was known that its prefix is unclear"),
        (
            932_236,
            "a slot that an insert had lost was believed, and was another node's, whose client had died before it was \
             linked",
        ),
        (
            264_470,
            "two compute nodes waited for locks that the other had in doubt, each with the local lock before its own",
        ),
    ] {
        if let Err(what) = outcome(&Case::of_smart(seed)) {
            panic!("seed {seed} ({found}): {what}");
        }
    }
}
