//! Catfish in the simulator, seed by seed: a server changes its tree while clients search it by READs, with and
//! without faults. The tree of one commit must give each answer.
//!
//! `FARWOOD_SEEDS=1000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use farwood_index::catfish::StoreGranularity;
use farwood_index::mutant::Mutant;
use farwood_proof::seeds::mutants;
use farwood_proof::seeds::runner;
use farwood_proof::seeds::spatial::{SpatialCase, SpatialReport, outcome};
use farwood_sim::NicModel;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_testkit::campaign::size;

/// Runs the requested seeds.
fn expect_success(test: &str, case: impl Fn(u64) -> SpatialCase + Sync) -> SpatialReport {
    runner::expect_success((module_path!(), test), size(20, 60), case, outcome)
}

/// Runs the requested seeds; fewer, because a search of records takes several times as long.
fn expect_success_with_records(test: &str, case: impl Fn(u64) -> SpatialCase + Sync) -> SpatialReport {
    runner::expect_success((module_path!(), test), size(6, 30), |seed| case(seed).with_records(), outcome)
}

#[test]
fn without_faults_one_commit_gives_each_answer() {
    let report = expect_success("without_faults_one_commit_gives_each_answer", SpatialCase::new);
    assert_eq!((report.met.faults(), report.explained_errors), (0, 0));
    assert!(
        report.raced * 10 > report.searches,
        "{} of {} searches ran during changes",
        report.raced,
        report.searches
    );
}

#[test]
fn with_faults_and_server_crashes_one_commit_gives_each_answer() {
    let report = expect_success(
        "with_faults_and_server_crashes_one_commit_gives_each_answer",
        SpatialCase::with_faults,
    );
    assert!(report.counted * 4 >= report.runs * 3, "{} of {} are counted", report.counted, report.runs);
    assert!(report.successors > 0 && report.marks.contains_key("a search that was overtaken"));
}

#[test]
fn by_message_and_by_reads_one_commit_gives_each_answer() {
    let calm = |seed| SpatialCase::new(seed).with_messages();
    let report = expect_success("by_message_and_by_reads_one_commit_gives_each_answer", calm);
    assert_eq!((report.met.faults(), report.explained_errors), (0, 0));
    assert!(report.marks.contains_key("a ring that is full"));
}

#[test]
fn by_message_with_faults_one_commit_gives_each_answer() {
    let faulty = |seed| SpatialCase::with_faults(seed).with_messages();
    let report = expect_success("by_message_with_faults_one_commit_gives_each_answer", faulty);
    assert!(report.successors > 0, "servers crash and are replaced");
}

/// Seeds of swarm runs that failed once; the comment next to each names the bug.
#[test]
fn seeds_that_failed_once_succeed() {
    for (seed, bug) in [
        (2063, "a late response arrived at the next connection of the same inbox"),
        (2774, "the same, in the middle of a response"),
        (3533, "the same, and the client took it for its own response"),
        (3663, "a closed connection was opened again without the request that had arrived"),
        (
            22_790,
            "a connection was closed before its client had seen it open, and the client never requested it again",
        ),
        (12_086, "heartbeats filled the queue of a slow NIC and delayed answers"),
        (
            8578,
            "a server lost the answer to its CAS, found that it was the server already, and did not serve",
        ),
        (
            1_882_926_687_977_576,
            "the limit of the virtual time was too short for 1,000 searches over a slow NIC that a fault slowed down",
        ),
        (2334, "the simulator's processors read a version pair in the direction in which it is written"),
    ] {
        if let Err(what) = outcome(&SpatialCase::swarm(seed)) {
            panic!("seed {seed} ({bug}): {what}");
        }
    }
}

#[test]
fn with_version_pairs_one_commit_gives_each_answer() {
    let faulty = |seed| SpatialCase::with_faults(seed).with_version_pairs();
    let report = expect_success("with_version_pairs_one_commit_gives_each_answer", faulty);
    assert!(report.raced > 0 && report.marks.contains_key("a search that was overtaken"));
}

#[test]
fn with_records_one_commit_gives_each_answer() {
    let report =
        expect_success_with_records("with_records_one_commit_gives_each_answer", SpatialCase::with_faults);
    assert!(report.raced * 10 > report.searches, "{} of {}", report.raced, report.searches);
    assert!(report.successors > 0 && report.marks.contains_key("a search that was overtaken"));
}

#[test]
fn with_records_by_message_one_commit_gives_each_answer() {
    let faulty = |seed| SpatialCase::with_faults(seed).with_messages();
    expect_success_with_records("with_records_by_message_one_commit_gives_each_answer", faulty);
}

#[test]
fn with_records_and_version_pairs_one_commit_gives_each_answer() {
    let faulty = |seed| SpatialCase::with_faults(seed).with_version_pairs();
    expect_success_with_records("with_records_and_version_pairs_one_commit_gives_each_answer", faulty);
}

/// Seeds within which every mutant must be noticed.
const MUTANT_SEEDS: u64 = 200;

/// A run without faults that reuses slots at once, and whose transfers overtake each other.
fn hasty(seed: u64) -> SpatialCase {
    let mut case = SpatialCase::new(seed);
    case.spec.card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
    case.spec.card.pcie.bytes_per_ns = 0.2;
    case.spec.stretch = 8;
    case.settings.reuse_delay_ns = 0;
    case.settings.grain = StoreGranularity::Word;
    case.stuck_after_ns = 1_000_000_000;
    case
}

fn noticed(mutant: Mutant) {
    let mutate = |case: &mut SpatialCase| case.mutant = Some(mutant);
    mutants::expect_noticed(&format!("{mutant:?}"), MUTANT_SEEDS, outcome, hasty, mutate);
}

#[test]
fn skipping_the_rear_version_is_noticed() {
    noticed(Mutant::NoRearVersion);
}

/// The front version is read last. The version that is read first detects a node that is not stored completely yet, but
/// no reference leads to such a node.
#[test]
fn skipping_the_front_version_is_noticed() {
    let mutate = |case: &mut SpatialCase| case.mutant = Some(Mutant::NoFrontVersion);
    mutants::expect_noticed(
        "NoFrontVersion by pairs",
        MUTANT_SEEDS,
        outcome,
        |seed| hasty(seed).with_version_pairs(),
        mutate,
    );
}

#[test]
fn storing_the_roots_one_after_the_other_is_noticed() {
    let mutate = |case: &mut SpatialCase| case.mutant = Some(Mutant::RecordsLater);
    let records = |seed| {
        let mut case = SpatialCase::new(seed).with_records();
        case.settings.grain = StoreGranularity::Word;
        case
    };
    mutants::expect_noticed("RecordsLater", MUTANT_SEEDS, outcome, records, mutate);
}

#[test]
fn ignoring_the_generation_of_a_reference_is_noticed() {
    noticed(Mutant::GenerationIgnored);
    let mutate = |case: &mut SpatialCase| case.mutant = Some(Mutant::GenerationIgnored);
    mutants::expect_noticed(
        "GenerationIgnored by pairs",
        MUTANT_SEEDS,
        outcome,
        |seed| hasty(seed).with_version_pairs(),
        mutate,
    );
}

/// Stores and a READ each proceed at a constant speed, so one rarely overtakes the other twice: seed 292 is the first
/// that notices.
#[test]
fn reading_a_version_pair_in_the_direction_of_writing_is_noticed() {
    const FIRST: u64 = 280;
    let upward = |case: &mut SpatialCase| case.spec.kept.cpu_sees_write = false;
    mutants::expect_noticed(
        "upward",
        MUTANT_SEEDS,
        outcome,
        |seed| SpatialCase::with_faults(FIRST + seed).with_version_pairs(),
        upward,
    );
}

#[test]
fn reusing_a_slot_with_its_old_generation_is_noticed() {
    noticed(Mutant::GenerationStays);
}

#[test]
fn changing_a_line_without_its_version_is_noticed() {
    noticed(Mutant::LineNotWithdrawn);
}

#[test]
fn keeping_a_consumed_message_is_noticed() {
    let messages = |seed| hasty(seed).with_messages();
    let mutate = |case: &mut SpatialCase| case.mutant = Some(Mutant::ConsumedStays);
    mutants::expect_noticed("ConsumedStays", MUTANT_SEEDS, outcome, messages, mutate);
}

/// Readers repeat their searches. A crash leaves a broken tree.
#[test]
fn writing_the_root_before_its_tree_is_noticed() {
    let crashing = |seed| {
        let mut case = hasty(seed);
        let fault = Fault::Crash { compute_node: 0, point: CrashPoint::At };
        case.spec.rules = vec![FaultRule { when: FaultTrigger::Time(50_000 + 7_919 * seed), fault }];
        case
    };
    let mutate = |case: &mut SpatialCase| case.mutant = Some(Mutant::RootFirst);
    mutants::expect_noticed("RootFirst", MUTANT_SEEDS, outcome, crashing, mutate);
}
