//! Catfish in the laboratory, seed by seed: a server that changes its tree while clients search it by READs, with and
//! without faults. Every answer must be that of one tree.
//!
//! `FARWOOD_SEEDS=1000` runs more seeds, `FARWOOD_SEEDS=17..18` that one; a failure names the command.

use farwood_index::catfish::Grain;
use farwood_index::sabotage::Sabotage;
use farwood_proof::seeds::canary;
use farwood_proof::seeds::many;
use farwood_proof::seeds::spatial::{Case, Report, outcome};
use farwood_sim::Card;
use farwood_sim::fault::{CrashPoint, Fault, Rule, When};

/// Seeds of the normal run.
const SEEDS: u64 = 60;

/// Runs the seeds that were asked for.
fn all_right(test: &str, case: impl Fn(u64) -> Case + Sync) -> Report {
    many::all_right((module_path!(), test), SEEDS, case, outcome)
}

#[test]
fn without_faults_every_answer_is_one_tree_s() {
    let report = all_right("without_faults_every_answer_is_one_tree_s", Case::calm);
    assert_eq!((report.met.faults(), report.excused), (0, 0));
    assert!(
        report.raced * 10 > report.searches,
        "searches meet changes: {} of {}",
        report.raced,
        report.searches
    );
}

#[test]
fn with_faults_and_successors_every_answer_is_one_tree_s() {
    let report = all_right("with_faults_and_successors_every_answer_is_one_tree_s", Case::of);
    assert!(report.counted * 4 >= report.runs * 3, "{} of {} are counted", report.counted, report.runs);
    assert!(report.successors > 0 && report.marks.contains_key("a search that was overtaken"));
}

#[test]
fn by_message_and_by_reads_every_answer_is_one_tree_s() {
    let calm = |seed| Case::calm(seed).talking();
    let report = all_right("by_message_and_by_reads_every_answer_is_one_tree_s", calm);
    assert_eq!((report.met.faults(), report.excused), (0, 0));
    assert!(report.marks.contains_key("a ring that is full"));
}

#[test]
fn by_message_with_faults_every_answer_is_one_tree_s() {
    let faulty = |seed| Case::of(seed).talking();
    let report = all_right("by_message_with_faults_every_answer_is_one_tree_s", faulty);
    assert!(report.successors > 0, "servers crash, and others take their places");
}

/// Seeds of a swarm that failed once, and what they found.
#[test]
fn what_was_found_stays_mended() {
    for (seed, found) in [
        (2063, "a response that was owed came to the next connection of its inbox"),
        (2774, "the same, in the middle of its items"),
        (3533, "the same, and was taken for another's"),
        (3663, "a connection that was hung up was opened again, without the request that had come"),
        (
            22_790,
            "a connection was hung up before its client had seen it open, and was never asked for again",
        ),
        (12_086, "heartbeats piled up before a slow card, and answers came behind them"),
        (8578, "who had lost the answer to its CAS found itself in office, and would not serve"),
        (2334, "the laboratory's processors read a pair of versions in the direction in which it is written"),
    ] {
        if let Err(what) = outcome(&Case::swarmed(seed)) {
            panic!("seed {seed} ({found}): {what}");
        }
    }
}

#[test]
fn by_words_and_pairs_every_answer_is_one_tree_s() {
    let faulty = |seed| Case::of(seed).by_pairs();
    let report = all_right("by_words_and_pairs_every_answer_is_one_tree_s", faulty);
    assert!(report.raced > 0 && report.marks.contains_key("a search that was overtaken"));
}

/// Seeds within which every fault must be noticed.
const CANARY_SEEDS: u64 = 200;

/// A run without faults in which rooms are used again at once, and transfers overtake each other.
fn hasty(seed: u64) -> Case {
    let mut case = Case::calm(seed);
    case.spec.card = Card::named("cx5-100g").expect("it is one of the named");
    case.spec.card.pcie.bytes_per_ns = 0.2;
    case.spec.stretch = 8;
    case.settings.rest_ns = 0;
    case.settings.grain = Grain::Word;
    case.nanoseconds_max = 1_000_000_000;
    case
}

fn caught(sabotage: Sabotage) {
    let broken = |case: &mut Case| case.sabotage = Some(sabotage);
    canary::caught(&format!("{sabotage:?}"), CANARY_SEEDS, outcome, hasty, broken);
}

#[test]
fn line_versions_skipped_are_noticed() {
    caught(Sabotage::NoRearVersion);
}

/// The version that is read last. The one that is read first would tell of a node that is not stored whole yet, and to
/// none of those does a reference lead.
#[test]
fn a_front_version_skipped_is_noticed_by_words() {
    let broken = |case: &mut Case| case.sabotage = Some(Sabotage::NoFrontVersion);
    canary::caught("NoFrontVersion by pairs", CANARY_SEEDS, outcome, |seed| hasty(seed).by_pairs(), broken);
}

#[test]
fn a_reference_that_is_not_compared_is_noticed() {
    caught(Sabotage::GenerationIgnored);
    let broken = |case: &mut Case| case.sabotage = Some(Sabotage::GenerationIgnored);
    canary::caught(
        "GenerationIgnored by pairs",
        CANARY_SEEDS,
        outcome,
        |seed| hasty(seed).by_pairs(),
        broken,
    );
}

/// Stores and a READ go at their own steady paces, so that one seldom overtakes the other twice: of the seeds from 0
/// on, 292 is the first to notice.
#[test]
fn a_pair_that_is_read_in_the_direction_of_writing_is_noticed() {
    const FIRST: u64 = 280;
    let upward = |case: &mut Case| case.spec.kept.cpu_sees_write = false;
    canary::caught("upward", CANARY_SEEDS, outcome, |seed| Case::of(FIRST + seed).by_pairs(), upward);
}

#[test]
fn a_room_used_again_with_its_old_generation_is_noticed() {
    caught(Sabotage::GenerationStays);
}

#[test]
fn a_line_whose_version_stays_while_it_changes_is_noticed() {
    caught(Sabotage::LineNotWithdrawn);
}

#[test]
fn a_consumed_message_that_stays_is_noticed() {
    let talking = |seed| hasty(seed).talking();
    let broken = |case: &mut Case| case.sabotage = Some(Sabotage::ConsumedStays);
    canary::caught("ConsumedStays", CANARY_SEEDS, outcome, talking, broken);
}

/// To readers it is a search overtaken. What it breaks is the tree that a crash leaves.
#[test]
fn a_root_before_its_tree_is_noticed() {
    let crashing = |seed| {
        let mut case = hasty(seed);
        let fault = Fault::Crash { compute_node: 0, point: CrashPoint::At };
        case.spec.rules = vec![Rule { when: When::Time(50_000 + 7_919 * seed), fault }];
        case
    };
    let broken = |case: &mut Case| case.sabotage = Some(Sabotage::RootFirst);
    canary::caught("RootFirst", CANARY_SEEDS, outcome, crashing, broken);
}
