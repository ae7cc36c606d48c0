//! Sphinx trees that are broken on purpose: the checks must notice each within a bounded number of seeds, and find
//! nothing where the same seed is run with an intact tree. A canary that lives shows that the checks are blind to its
//! kind of fault.

use farwood_index::sabotage::Sabotage;
use farwood_index::sphinx::{Config, Groups, Options, Variant};
use farwood_proof::seeds::{canary, laboratory, loopback, many};
use farwood_proof::sherman::{CHURNING, MIXED};
use std::time::Duration;

/// Seeds within which every fault must be noticed.
const SEEDS: u64 = 400;
/// The bound of a run in polls, many times what it takes: a broken tree may run in circles.
const POLLS_MAX: u64 = 3_000_000;

fn config() -> Config {
    let groups = Groups::new(0).expect("it is one");
    Config { options: Options { groups, ..Variant::Filter.options() }, ..Config::default() }
}

/// A run on the loopback whose entries come and go, with a filter that knows all nodes, and subtables that are split.
fn churning(seed: u64) -> loopback::Case {
    let mut case = loopback::Case::of(seed).of_sphinx();
    case.plan.sphinx = Some(config());
    (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (90, CHURNING, 1 << 10);
    case.steps = 120;
    case.polls_max = POLLS_MAX;
    case
}

fn caught(name: &str, sabotage: Sabotage) {
    let broken = |case: &mut loopback::Case| case.sabotage = Some(sabotage);
    canary::caught(name, SEEDS, loopback::outcome, churning, broken);
}

#[test]
fn an_unlock_before_the_write_back() {
    caught("unlock first", Sabotage::UnlockFirst);
}

#[test]
fn an_entry_that_is_believed() {
    caught("entry believed", Sabotage::EntryBelieved);
}

#[test]
fn an_entry_that_nobody_confirms() {
    caught("entry unconfirmed", Sabotage::EntryUnconfirmed);
}

#[test]
fn an_entry_that_is_forgotten() {
    caught("entry forgotten", Sabotage::EntryForgotten);
}

#[test]
fn a_lease_that_expires_under_a_frozen_client() {
    let faulty = |seed| {
        let mut case = laboratory::Case::of_sphinx(seed);
        case.plan.sphinx = Some(config());
        case
    };
    let broken = |case: &mut laboratory::Case| case.sabotage = Some(Sabotage::LeaseExpires);
    canary::caught("the lease expires", SEEDS, laboratory::outcome, faulty, broken);
}

/// Not a canary: where all entries have one of two prints, every bucket is full of others' entries, and every answer is
/// right.
#[test]
fn prints_that_collide_cost_round_trips_and_no_answer() {
    let case = |seed| {
        let mut case = churning(seed);
        case.plan.mix = MIXED;
        case.sabotage = Some(Sabotage::PrintsNarrow);
        case
    };
    let (_, _, failed) = many::run(0..60, Duration::MAX, |seed| loopback::outcome(&case(seed)));
    assert_eq!(failed, None);
}
