//! Sherman in the simulator, seed by seed: every variant on every NIC, with and without faults. Every answer must be
//! explained, and every error by a fault.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use farwood_index::ordered::System;
use farwood_proof::seeds::runner;
use farwood_proof::seeds::simulator::{SimulatorCase, SimulatorReport, outcome, run};
use farwood_sim::{Trace, Tracing};
use farwood_testkit::campaign::size;

fn without_faults(seed: u64) -> SimulatorCase {
    SimulatorCase::new(System::Sherman, seed)
}

fn with_faults(seed: u64) -> SimulatorCase {
    SimulatorCase::with_faults(System::Sherman, seed)
}

/// Runs the requested seeds.
fn expect_success(test: &str, case: impl Fn(u64) -> SimulatorCase + Sync) -> SimulatorReport {
    runner::expect_success((module_path!(), test), size(25, 100), case, outcome)
}

#[test]
fn without_faults_every_answer_is_explained() {
    let report = expect_success("without_faults_every_answer_is_explained", without_faults);
    assert_eq!((report.met.faults(), report.explained_errors, report.totals.half_linked), (0, 0, 0));
}

#[test]
fn with_faults_every_answer_is_explained() {
    let report = expect_success("with_faults_every_answer_is_explained", with_faults);
    // In a few runs a compute node ends before it has sent the verb that triggers a fault.
    assert!(report.counted * 50 >= report.totals.runs * 49, "{} are counted", report.counted);
}

#[test]
fn values_of_any_length_are_correct_with_faults() {
    for seed in 0..size(15, 40) {
        let case = with_faults(seed).with_any_length();
        if let Err(what) = outcome(&case) {
            panic!("seed {seed} with values of any length: {what}");
        }
    }
}

/// Seeds that failed once; the comment next to each names the bug.
#[test]
fn seeds_that_failed_once_succeed() {
    for (seed, bug) in [
        (0, "the simulator kept the device borrowed while it revoked a client"),
        (
            55,
            "a live client kept a lock after an outage of its memory node that was longer than the NIC's retries",
        ),
        (5511, "two compute nodes each waited for a lock of unknown ownership at the other"),
        (902, "the ownership of a lock that clients kept taking was never resolved"),
        (
            2377,
            "no client waited for the lock of a marked node, so no client took it from its crashed holder",
        ),
        (557, "a failed attempt at a local lock released it, and two clients held it"),
    ] {
        if let Err(what) = outcome(&with_faults(seed)) {
            panic!("seed {seed} ({bug}): {what}");
        }
    }
    if let Err(what) = outcome(&SimulatorCase::swarm(System::Sherman, 39_977)) {
        panic!(
            "seed 39977 of a swarm (two clients in lockstep kept each other from undoing a merge): {what}"
        );
    }
}

/// The trace of a run.
fn trace(case: &SimulatorCase, tracing: Tracing) -> Trace {
    let mut case = case.clone();
    case.spec.tracing = tracing;
    let run = run(&case);
    if let Err(what) = run.outcome {
        panic!("seed {}: {what}", case.plan.seed);
    }
    run.trace
}

/// Compares every event of two runs, and every byte that READs fetched.
fn expect_equal(seed: u64, one: &Trace, other: &Trace) {
    let events = one.events().iter().zip(other.events());
    if let Some((one, other)) = events.clone().find(|(one, other)| one != other) {
        panic!("seed {seed}: {one:?} is not {other:?}");
    }
    assert_eq!(one.events().len(), other.events().len(), "seed {seed}");
    assert_eq!(one.digest(), other.digest(), "seed {seed}");
    assert!(one.events().len() > 10_000, "seed {seed}");
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 0..size(8, 25) {
        let case = with_faults(seed);
        expect_equal(seed, &trace(&case, Tracing::Full), &trace(&case, Tracing::Full));
    }
    let digest = |seed| trace(&with_faults(seed), Tracing::Digest).digest();
    assert_ne!(digest(1), digest(2), "other seeds give other runs");
}

/// Copying a transfer at once if nothing overlaps it gives the same run as copying it line by line.
#[test]
fn exhaustive_runs_are_the_same_runs() {
    for seed in 0..size(8, 25) {
        for case in [without_faults(seed), with_faults(seed)] {
            let mut exhaustive = case.clone();
            exhaustive.spec.exhaustive = true;
            expect_equal(seed, &trace(&case, Tracing::Full), &trace(&exhaustive, Tracing::Full));
        }
    }
}
