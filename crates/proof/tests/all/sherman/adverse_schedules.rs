//! What can go wrong, one test for each of twelve things, aimed at in the laboratory.

use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::sabotage::Sabotage;
use farwood_index::sherman::{Variant, layout::Sizes};
use farwood_proof::seeds::laboratory::{Case, Report, outcome};
use farwood_proof::sherman::{CHURNING, GROWING, MIXED};
use farwood_sim::fault::{CrashPoint, Fault, Rule, When};

/// Runs the cases of some seeds, and adds up what they met.
fn right(seeds: u64, case: impl Fn(u64) -> Case) -> Report {
    let mut sum = Report::default();
    for seed in 0..seeds {
        let case = case(seed);
        match outcome(&case) {
            Ok(report) => sum.add(&report),
            Err(what) => panic!("seed {seed}: {what}\n{case:?}"),
        }
    }
    sum
}

/// Sherman with 64-bit locks, no faults yet.
fn sherman(seed: u64) -> Case {
    let mut case = Case::calm(seed);
    case.plan.config.options = Variant::Sherman.options();
    case
}

fn hit(report: &Report, mark: &str) {
    assert!(report.marks.contains_key(mark), "nobody met {mark}: {:?}", report.marks);
}

#[test]
fn any_single_verb_is_late_by_a_millisecond() {
    let report = right(60, |seed| {
        let mut case = sherman(seed);
        let when = When::Verb { compute_node: (seed % 3) as usize, number: 1 + seed * 5 };
        case.spec.rules = vec![Rule { when, fault: Fault::Delay { nanoseconds: 1_000_000 } }];
        case
    });
    assert!(report.met.delays >= 55, "{:?}", report.met);
}

#[test]
fn a_client_freezes_for_longer_than_others_wait_for_its_lock() {
    let report = right(12, |seed| {
        let mut case = sherman(seed);
        let when = When::Verb { compute_node: 1, number: 50 + 7 * seed };
        case.spec.rules =
            vec![Rule { when, fault: Fault::Freeze { compute_node: 1, nanoseconds: 21_000_000_000 } }];
        case
    });
    hit(&report, "a lock given up");
    hit(&report, "a lock's holder lives");
}

/// Every verb of the first few hundred, before, at and after: each operation is cut off at each of its verbs.
#[test]
fn a_client_dies_at_each_verb_of_each_operation() {
    let report = right(180, |seed| {
        let mut case = sherman(seed % 6);
        case.operations = 300;
        let point = [CrashPoint::Before, CrashPoint::At, CrashPoint::After][(seed % 3) as usize];
        let when = When::Verb { compute_node: 1, number: 1 + seed / 3 };
        case.spec.rules = vec![Rule { when, fault: Fault::Crash { compute_node: 1, point } }];
        case
    });
    assert_eq!(report.met.crashes, 180);
    hit(&report, "a lock taken from the dead");
}

/// The room of a node that was taken out is the next that is filled, while everybody's caches still lead there.
#[test]
fn emptied_rooms_are_used_again_at_once() {
    let report = right(60, |seed| {
        let mut case = sherman(seed);
        (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (90, CHURNING, 1 << 20);
        case
    });
    hit(&report, "a merge");
    hit(&report, "a room used again");
    hit(&report, "the cache misled");
}

/// Where READs do not copy upward, version pairs prove nothing: hashes do.
#[test]
fn lines_are_read_in_any_order() {
    let report = right(30, |seed| {
        let mut case = sherman(seed);
        case.plan.config.consistency = None;
        case.spec.kept.version_pair_bytes_max = 0;
        case.spec.promised.version_pair_bytes_max = 0;
        case.spec.card.pcie.bytes_per_ns = 0.2;
        case.spec.stretch = 8;
        case
    });
    hit(&report, "a torn node");
}

/// The versions of new nodes and of their entries wrap after a few writes.
#[test]
fn versions_wrap() {
    let report = right(40, |seed| {
        let mut case = sherman(seed);
        case.plan.config.consistency = Some(Consistency::Versions);
        case.sabotage = Some(Sabotage::VersionsHigh);
        // Where transfers take long, READs find entries in the middle of the WRITE that wraps their version.
        (case.spec.card.pcie.bytes_per_ns, case.spec.stretch) = (0.2, 8);
        case
    });
    let [nodes, entries] = report.young;
    assert!(nodes > 100 && entries > 1_000, "{nodes} nodes and {entries} entries have wrapped");
    hit(&report, "a torn node");
    hit(&report, "a torn entry");
}

/// Whoever would win a lock finds that a rival was faster, once: no CAS on a lock wins at its first attempt.
#[test]
fn every_race_for_a_lock_is_lost_once() {
    let report = right(40, |seed| {
        let mut case = sherman(seed);
        (case.plan.keys, case.outrun) = (12, Some(5_000));
        case
    });
    let costs = report.coverage.costs;
    let won = costs.cas - costs.cas_failures;
    // What is won at once lies in host memory: chunks, and the root.
    assert!(report.met.outrun > 10_000 && report.met.outrun * 21 > won * 20, "{:?}, {won} won", report.met);
}

#[test]
fn races_for_roots_and_orphans_are_lost() {
    let report = right(40, |seed| {
        let mut case = sherman(seed);
        case.plan.keys = 12;
        case
    });
    assert!(report.coverage.costs.cas_failures > 1_000, "{:?}", report.coverage.costs);
    hit(&report, "an orphan adopted by another");
}

#[test]
fn scans_meet_splits() {
    let report = right(60, |seed| {
        let mut case = sherman(seed);
        (case.plan.keys, case.plan.mix) = (240, farwood_proof::sherman::Mix { scans: 40, ..GROWING });
        case.plan.cache_bytes = 1 << 20;
        case
    });
    hit(&report, "a step right in a scan");
}

#[test]
fn all_nodes_share_a_few_locks() {
    let report = right(30, |seed| {
        let mut case = sherman(seed);
        (case.plan.mix, case.spec.device_bytes, case.spec.memory_nodes) = (MIXED, Some(64), 1);
        case
    });
    assert!(report.coverage.costs.lock > 1_000, "{:?}", report.coverage.costs);
}

#[test]
fn two_compute_nodes_split_the_root_with_empty_caches() {
    let report = right(60, |seed| {
        let mut case = sherman(seed);
        case.plan.config.sizes = Sizes { key_bytes: 24, value_bytes: 8, node_bytes: 256 };
        (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (240, GROWING, 0);
        case.spec.compute_nodes = 2;
        case
    });
    hit(&report, "the race for the root lost");
    hit(&report, "the next root was there");
}

#[test]
fn device_memories_of_all_sizes() {
    for kib in [64, 128, 256] {
        right(6, |seed| Case {
            spec: farwood_sim::WorldSpec { device_bytes: Some(kib << 10), ..sherman(seed).spec },
            ..sherman(seed)
        });
    }
}

/// Packed locks share a word, and are released by masked CAS, not by a WRITE that a neighbour's CAS would swallow.
#[test]
fn neighbours_take_and_release_packed_locks_of_one_word() {
    let report = right(30, |seed| {
        let mut case = sherman(seed);
        case.plan.config.options.lock.width = LockWidth::Packed;
        (case.spec.device_bytes, case.spec.memory_nodes) = (Some(64), 1);
        case
    });
    assert!(report.counts.masked_cas > 10_000, "{:?}", report.counts);
}

/// A client freezes for longer than the lease, is revoked, loses its locks, and wakes up: what it sends does no harm,
/// and it is told.
#[test]
fn a_client_that_was_only_slow_wakes_up_after_it_was_revoked() {
    let report = right(60, |seed| {
        let mut case = sherman(seed);
        let when = When::Verb { compute_node: 1, number: 50 + 7 * seed };
        let fault = Fault::Freeze { compute_node: 1, nanoseconds: 15_000_000 + seed * 100_000 };
        case.spec.rules = vec![Rule { when, fault }];
        case.operations = 20_000;
        case.with_lease()
    });
    hit(&report, "a lock taken from the dead");
    assert!(report.excused >= 20, "only {} operations were told that they are revoked", report.excused);
}
