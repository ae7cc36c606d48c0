//! Tests of radix trees on seeds, for SMART and for Sphinx.

use farwood_index::mutant::Mutant;
use farwood_index::ordered::{OrderedConfig, System};
use farwood_index::{radix, smart};
use farwood_proof::crash_points::{CrashCase, InterruptedOperation};
use farwood_proof::seeds::loopback::LoopbackCase;
use farwood_proof::seeds::simulator::SimulatorCase;
use farwood_proof::seeds::{loopback, mutants, runner, simulator};
use farwood_testkit::campaign::size;

/// A test's module and name.
pub(crate) type Test = (&'static str, &'static str);

/// Seeds within which every mutant must be noticed.
const MUTANT_SEEDS: u64 = 400;
/// The bound of a mutant's run in polls, many times the usual number: a mutant may loop.
pub(crate) const POLLS_MAX: u64 = 3_000_000;

/// Runs seeds in the simulator without faults: every answer is explained.
pub(crate) fn simulated_without_faults(test: Test, system: System) {
    let case = |seed| SimulatorCase::new(system, seed);
    let report = runner::expect_success(test, size(25, 100), case, simulator::outcome);
    // A node that a client left closed may remain, in one of 150 runs; each run is checked for other changes.
    assert_eq!((report.met.faults(), report.explained_errors), (0, 0));
}

/// Runs seeds in the simulator with faults: every answer is explained, and every error by a fault. A thousand seeds
/// pass every coverage mark in `own_marks`, those of the system, and every mark of radix trees.
pub(crate) fn simulated_with_faults(test: Test, system: System, own_marks: &[&'static str]) {
    let case = |seed| SimulatorCase::with_faults(system, seed);
    let report = runner::expect_success(test, size(25, 100), case, simulator::outcome);
    if report.totals.runs >= 1_000 {
        let marks = radix::tree::MARKS.iter().chain(own_marks);
        let missed: Vec<_> = marks.filter(|mark| !report.marks.contains_key(**mark)).collect();
        assert!(missed.is_empty(), "no client passed {missed:?}");
    }
    // In a few runs a compute node ends before it has sent the verb that triggers a fault.
    assert!(report.counted * 50 >= report.totals.runs * 49, "{} are counted", report.counted);
}

/// Runs seeds that failed once, each with a description of the bug.
pub(crate) fn regressions(system: System, seeds: &[(u64, &str)]) {
    for &(seed, bug) in seeds {
        let mut case = SimulatorCase::with_faults(system, seed);
        case.plan.use_earlier_options();
        if let Err(what) = simulator::outcome(&case) {
            panic!("seed {seed} ({bug}): {what}");
        }
    }
}

/// Runs seeds on the loopback fabric: every answer is explained.
pub(crate) fn interleaved(test: Test, system: System) {
    let seeds = size(60, 240);
    let totals =
        runner::expect_success(test, seeds, |seed| LoopbackCase::new(system, seed), loopback::outcome);
    if totals.runs >= seeds {
        let costs = totals.costs;
        for (what, count) in [
            ("torn copies", costs.torn),
            ("nodes read again", costs.moved),
            ("locks lost", costs.lock),
            ("slots lost", costs.cas_failures),
            ("trees of five levels", totals.levels[5]),
        ] {
            assert!(count > 0, "no {what}: {totals:?}");
        }
    }
}

/// Runs seeds in which operations are dropped before they are answered: no lock stays held, and every answer is
/// explained.
pub(crate) fn dropped_operations(test: Test, system: System) {
    let seeds = size(60, 120);
    let case = |seed| LoopbackCase::with_drops(system, seed);
    let totals = runner::expect_success(test, seeds, case, loopback::outcome);
    assert!(totals.dropped > 50 || totals.runs < seeds, "{totals:?}");
}

/// The cases of a radix tree, by the bytes of an entry up to which its value lies in the leaf. Keys are numbers of
/// 8 bytes in steps of 10, so 26 of them share their first seven bytes.
pub(crate) fn crash_cases(config: impl Fn(usize) -> OrderedConfig) -> Vec<CrashCase> {
    let case = |name, keys, change, mark: &str| {
        let mark = radix::tree::MARKS.iter().copied().find(|known| *known == mark);
        let config = config(smart::SmartConfig::default().inline_bytes);
        CrashCase { name, config, keys, fill: 1.0, removed: (0, 0), change, mark }
    };
    // Each value is an overflow value.
    let overflow = |case: CrashCase| CrashCase { config: config(12), ..case };
    vec![
        case("a get", 30, InterruptedOperation::Get(70), ""),
        case("a scan", 30, InterruptedOperation::Scan, ""),
        case("an update", 30, InterruptedOperation::Put(70), ""),
        case("a new key", 30, InterruptedOperation::Put(75), ""),
        case("a leaf splits", 27, InterruptedOperation::Put(265), "radix: a leaf split"),
        case("a prefix splits", 30, InterruptedOperation::Put(1 << 32), "radix: a prefix split"),
        case("a node grows", 16, InterruptedOperation::Put(75), "radix: a node replaced by a larger one"),
        case("a leaf moves", 30, InterruptedOperation::PutLong(70, 100), "radix: a leaf that moved"),
        case("a removal", 30, InterruptedOperation::Remove(70), ""),
        case("a node is removed", 28, InterruptedOperation::Remove(270), "radix: a node removed"),
        case("a compute node leaves", 30, InterruptedOperation::Leave, ""),
        overflow(case("an overflow value is replaced", 30, InterruptedOperation::Put(70), "")),
        overflow(case("an overflow value is inserted", 30, InterruptedOperation::Put(75), "")),
        overflow(case("an overflow value is removed", 30, InterruptedOperation::Remove(70), "")),
    ]
}

/// Expects that a mutant is noticed on the loopback fabric.
pub(crate) fn noticed(name: &str, intact: impl Fn(u64) -> LoopbackCase, mutant: Mutant) {
    let mutate = |case: &mut LoopbackCase| case.mutant = Some(mutant);
    mutants::expect_noticed(name, MUTANT_SEEDS, loopback::outcome, intact, mutate);
}

/// Expects that a lease that expires under a frozen client is noticed.
pub(crate) fn expired_lease_is_noticed(intact: impl Fn(u64) -> SimulatorCase) {
    let mutate = |case: &mut SimulatorCase| case.mutant = Some(Mutant::LeaseExpires);
    mutants::expect_noticed("the lease expires", MUTANT_SEEDS, simulator::outcome, intact, mutate);
}
