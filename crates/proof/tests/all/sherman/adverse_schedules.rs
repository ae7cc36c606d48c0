//! Adverse schedules in the simulator: each test provokes one kind of race, delay or crash.

use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::mutant::Mutant;
use farwood_index::ordered::System;
use farwood_index::sherman::{ShermanVariant, layout::Sizes};
use farwood_proof::seeds::simulator::{SimulatorCase, SimulatorReport, outcome};
use farwood_proof::workload::{CHURNING, GROWING, MIXED};
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_testkit::campaign::size;

/// Runs the cases of the first `seeds` seeds; yields the sum of their reports.
fn run_all(seeds: u64, case: impl Fn(u64) -> SimulatorCase) -> SimulatorReport {
    let mut sum = SimulatorReport::default();
    for seed in 0..seeds {
        let case = case(seed);
        match outcome(&case) {
            Ok(report) => sum.add(&report),
            Err(what) => panic!("seed {seed}: {what}\n{case:?}"),
        }
    }
    sum
}

/// A run of Sherman with 64-bit locks and without faults.
fn sherman(seed: u64) -> SimulatorCase {
    let mut case = SimulatorCase::new(System::Sherman, seed);
    case.plan.sherman().options = ShermanVariant::Sherman.features();
    case
}

fn expect_mark(report: &SimulatorReport, mark: &str) {
    assert!(report.marks.contains_key(mark), "no client passed {mark}: {:?}", report.marks);
}

#[test]
fn one_verb_is_delayed_by_a_millisecond() {
    let report = run_all(60, |seed| {
        let mut case = sherman(seed);
        let when = FaultTrigger::Verb { compute_node: (seed % 3) as usize, number: 1 + seed * 5 };
        case.spec.rules = vec![FaultRule { when, fault: Fault::Delay { nanoseconds: 1_000_000 } }];
        case
    });
    assert!(report.met.delays >= 55, "{:?}", report.met);
}

#[test]
fn a_client_freezes_for_longer_than_others_wait_for_its_lock() {
    let report = run_all(12, |seed| {
        let mut case = sherman(seed);
        // The variants of the paper never pause: 20 s of their retries are a minute of computation.
        case.plan.sherman().options = ShermanVariant::RECOMMENDED.features();
        let when = FaultTrigger::Verb { compute_node: 1, number: 50 + 7 * seed };
        case.spec.rules =
            vec![FaultRule { when, fault: Fault::Freeze { compute_node: 1, nanoseconds: 21_000_000_000 } }];
        case
    });
    expect_mark(&report, "a lock timeout");
    expect_mark(&report, "a live lock holder");
}

/// A crash before, at and after each of the first verbs: together they interrupt each operation at each of its verbs.
#[test]
fn a_client_crashes_at_each_verb() {
    let report = run_all(180, |seed| {
        let mut case = sherman(seed % 6);
        case.operations = 300;
        let point = [CrashPoint::Before, CrashPoint::At, CrashPoint::After][(seed % 3) as usize];
        let when = FaultTrigger::Verb { compute_node: 1, number: 1 + seed / 3 };
        case.spec.rules = vec![FaultRule { when, fault: Fault::Crash { compute_node: 1, point } }];
        case
    });
    assert_eq!(report.met.crashes, 180);
    expect_mark(&report, "a lock taken over");
}

/// The slot of an unlinked node is the next to be allocated, while all caches still point to it.
#[test]
fn freed_slots_are_reused_at_once() {
    let report = run_all(60, |seed| {
        let mut case = sherman(seed);
        (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (90, CHURNING, 1 << 20);
        case
    });
    expect_mark(&report, "a merge");
    expect_mark(&report, "a slot reused");
    expect_mark(&report, "a stale cached parent");
}

/// If READs do not copy upward, version pairs do not prove that a copy is not torn, and checksums are used.
#[test]
fn lines_are_read_in_any_order() {
    let report = run_all(30, |seed| {
        let mut case = sherman(seed);
        case.plan.sherman().consistency = None;
        case.spec.kept.version_pair_bytes_max = 0;
        case.spec.promised.version_pair_bytes_max = 0;
        case.spec.card.pcie.bytes_per_ns = 0.2;
        case.spec.stretch = 8;
        case
    });
    expect_mark(&report, "a torn node");
}

/// The versions of new nodes and of their entries wrap after a few WRITEs.
#[test]
fn versions_wrap() {
    for scheme in [Consistency::Versions, Consistency::ByteVersions] {
        versions_of_scheme_wrap(scheme);
    }
}

fn versions_of_scheme_wrap(scheme: Consistency) {
    let report = run_all(40, |seed| {
        let mut case = sherman(seed);
        case.plan.sherman().consistency = Some(scheme);
        case.mutant = Some(Mutant::VersionsHigh);
        // Long transfers let READs find entries in the middle of the WRITE that wraps their version.
        (case.spec.card.pcie.bytes_per_ns, case.spec.stretch) = (0.2, 8);
        case
    });
    let [nodes, entries] = report.wrapped;
    assert!(nodes > 100 && entries > 1_000, "{nodes} nodes and {entries} entries have wrapped");
    expect_mark(&report, "a torn node");
    expect_mark(&report, "a torn entry");
}

/// Another client acquires every lock once just before the client of the test: no CAS on a lock succeeds at its first
/// attempt.
#[test]
fn every_first_attempt_at_a_lock_fails() {
    let report = run_all(40, |seed| {
        let mut case = sherman(seed);
        (case.plan.keys, case.rival_holds_ns) = (12, Some(5_000));
        case
    });
    let costs = report.totals.costs;
    let won = costs.cas - costs.cas_failures;
    // The CAS that succeed at once are on host memory: chunks, and the root.
    assert!(report.met.outrun > 10_000 && report.met.outrun * 21 > won * 20, "{:?}, {won} won", report.met);
}

#[test]
fn races_to_link_roots_and_siblings_are_lost() {
    let report = run_all(40, |seed| {
        let mut case = sherman(seed);
        case.plan.keys = 12;
        case
    });
    assert!(report.totals.costs.cas_failures > 1_000, "{:?}", report.totals.costs);
    expect_mark(&report, "a sibling linked by another client");
}

#[test]
fn scans_meet_splits() {
    let report = run_all(60, |seed| {
        let mut case = sherman(seed);
        (case.plan.keys, case.plan.mix) = (240, farwood_proof::workload::Mix { scans: 40, ..GROWING });
        case.plan.cache_bytes = 1 << 20;
        case
    });
    expect_mark(&report, "a step right in a scan");
}

#[test]
fn all_nodes_share_a_few_locks() {
    let report = run_all(30, |seed| {
        let mut case = sherman(seed);
        (case.plan.mix, case.spec.device_bytes, case.spec.memory_nodes) = (MIXED, Some(64), 1);
        case
    });
    assert!(report.totals.costs.lock > 1_000, "{:?}", report.totals.costs);
}

#[test]
fn two_compute_nodes_split_the_root_without_caches() {
    let report = run_all(60, |seed| {
        let mut case = sherman(seed);
        case.plan.sherman().sizes = Sizes { key_bytes: 24, value_bytes: 8, node_bytes: 256 };
        (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (240, GROWING, 0);
        case.spec.compute_nodes = 2;
        case
    });
    expect_mark(&report, "the race for the root lost");
    expect_mark(&report, "the next root was present");
}

#[test]
fn device_memory_has_any_size() {
    for kib in [64, 128, 256] {
        run_all(6, |seed| SimulatorCase {
            spec: farwood_sim::WorldSpec { device_bytes: Some(kib << 10), ..sherman(seed).spec },
            ..sherman(seed)
        });
    }
}

/// Packed locks share a word. They are released by masked CAS, because a neighbour's CAS could undo a WRITE.
#[test]
fn packed_locks_of_one_word_are_independent() {
    let report = run_all(30, |seed| {
        let mut case = sherman(seed);
        case.plan.sherman().options.lock.width = LockWidth::Packed;
        (case.spec.device_bytes, case.spec.memory_nodes) = (Some(64), 1);
        case
    });
    assert!(report.counts.masked_cas > 10_000, "{:?}", report.counts);
}

/// A client freezes for longer than the lease, is revoked, loses its locks, and wakes up. Its verbs have no effect,
/// and its operations fail with `Revoked`.
#[test]
fn a_frozen_client_that_was_revoked_does_no_harm() {
    let report = run_all(size(15, 60), |seed| {
        let mut case = sherman(seed);
        let when = FaultTrigger::Verb { compute_node: 1, number: 50 + 7 * seed };
        let fault = Fault::Freeze { compute_node: 1, nanoseconds: 15_000_000 + seed * 100_000 };
        case.spec.rules = vec![FaultRule { when, fault }];
        case.operations = 20_000;
        case.with_lease()
    });
    expect_mark(&report, "a lock taken over");
    assert!(
        report.explained_errors >= size(5, 20),
        "only {} operations failed with Revoked",
        report.explained_errors
    );
}
