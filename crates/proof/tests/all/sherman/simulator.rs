//! Sherman in the laboratory, seed by seed: every variant on every card, with and without faults. Every answer must be
//! explained, and every error by a fault.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` that one; a failure names the command.

use farwood_proof::seeds::laboratory::{Case, Report, outcome, run};
use farwood_proof::seeds::many;
use farwood_sim::{Trace, Tracing};

/// Seeds of the normal run.
const SEEDS: u64 = 100;

/// Runs the seeds that were asked for.
fn all_right(test: &str, count: u64, case: impl Fn(u64) -> Case + Sync) -> Report {
    many::all_right((module_path!(), test), count, case, outcome)
}

#[test]
fn without_faults_every_answer_is_explained() {
    let report = all_right("without_faults_every_answer_is_explained", SEEDS, Case::calm);
    assert_eq!((report.met.faults(), report.excused, report.coverage.half_linked), (0, 0, 0));
}

#[test]
fn with_faults_every_answer_is_explained() {
    let report = all_right("with_faults_every_answer_is_explained", SEEDS, Case::of);
    // Now and then a compute node is done before it has sent what a fault waits for.
    assert!(report.counted * 50 >= report.coverage.runs * 49, "{} are counted", report.counted);
}

#[test]
fn values_of_any_length_are_right_with_faults() {
    for seed in 0..40 {
        let case = Case::of(seed).with_any_length();
        if let Err(what) = outcome(&case) {
            panic!("seed {seed} with values of any length: {what}");
        }
    }
}

/// Seeds that failed once, and what they found.
#[test]
fn what_was_found_stays_mended() {
    for (seed, found) in [
        (0, "the laboratory kept the device borrowed while it revoked"),
        (
            55,
            "a lock stayed held by the living after its memory node was lost for longer than the card tries",
        ),
        (5511, "two compute nodes waited for locks that the other had in doubt"),
        (902, "a lock in doubt that clients kept taking stayed in doubt for ever"),
        (2377, "nobody waited for the lock of a marked node, and so nobody took it from its dead holder"),
        (557, "asking for a local lock's turn in vain passed the turn on, and two clients had it"),
    ] {
        if let Err(what) = outcome(&Case::of(seed)) {
            panic!("seed {seed} ({found}): {what}");
        }
    }
    if let Err(what) = outcome(&Case::swarmed(39_977)) {
        panic!(
            "seed 39977 of a swarm (two clients in step kept each other from taking a merge back): {what}"
        );
    }
}

/// The trace of a run.
fn trace(case: &Case, tracing: Tracing) -> Trace {
    let mut case = case.clone();
    case.spec.tracing = tracing;
    let run = run(&case);
    if let Err(what) = run.outcome {
        panic!("seed {}: {what}", case.plan.seed);
    }
    run.trace
}

/// Every event of two runs, and every byte that READs fetched.
fn same(seed: u64, one: &Trace, other: &Trace) {
    let events = one.events().iter().zip(other.events());
    if let Some((one, other)) = events.clone().find(|(one, other)| one != other) {
        panic!("seed {seed}: {one:?} is not {other:?}");
    }
    assert_eq!(one.events().len(), other.events().len(), "seed {seed}");
    assert_eq!(one.digest(), other.digest(), "seed {seed}");
    assert!(one.events().len() > 10_000, "seed {seed}");
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..SEEDS / 4 {
        let case = Case::of(seed);
        same(seed, &trace(&case, Tracing::Full), &trace(&case, Tracing::Full));
    }
    let digest = |seed| trace(&Case::of(seed), Tracing::Digest).digest();
    assert_ne!(digest(1), digest(2), "other seeds are other runs");
}

/// Transfers that are copied at once where nothing overlaps them show what transfers show that are copied line by line.
#[test]
fn exhaustive_runs_are_the_same_runs() {
    for seed in 0..SEEDS / 4 {
        for case in [Case::calm(seed), Case::of(seed)] {
            let mut exhaustive = case.clone();
            exhaustive.spec.exhaustive = true;
            same(seed, &trace(&case, Tracing::Full), &trace(&exhaustive, Tracing::Full));
        }
    }
}
