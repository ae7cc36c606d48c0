//! SMART trees that are broken on purpose: the checks must notice each within a bounded number of seeds, and find
//! nothing where the same seed is run with an intact tree. A canary that lives shows that the checks are blind to its
//! kind of fault.

use farwood_index::sabotage::Sabotage;
use farwood_index::smart::{Config, Variant};
use farwood_proof::seeds::{canary, laboratory, loopback};
use farwood_proof::sherman::{CHURNING, MIXED};

/// Seeds within which every fault must be noticed.
const SEEDS: u64 = 400;
/// Virtual time after which a run is stuck, nanoseconds, many times what it takes: a broken tree may run in circles.
const NANOSECONDS_MAX: u64 = 200_000_000;
/// The same in polls.
const POLLS_MAX: u64 = 3_000_000;

/// A run on the loopback whose entries come and go, in the caches of everybody.
fn churning(seed: u64) -> loopback::Case {
    let mut case = loopback::Case::of(seed).of_smart();
    case.plan.smart = Some(Config { options: Variant::RearLock.options(), ..Config::default() });
    (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (40, CHURNING, 1 << 20);
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
fn a_miss_that_is_believed_whatever_its_age() {
    caught("miss believed", Sabotage::MissBelieved);
}

#[test]
fn a_reverse_check_left_out() {
    caught("no reverse check", Sabotage::NoReverseCheck);
}

/// A hot key, whose readers and writers meet.
fn hot(seed: u64) -> loopback::Case {
    let mut case = churning(seed);
    case.plan.smart = Some(Config { options: Variant::WriteCombining.options(), ..Config::default() });
    (case.plan.keys, case.plan.mix) = (3, MIXED);
    (case.compute_nodes, case.clients) = (2, 8);
    case
}

/// Read delegation and write combining as published.
#[test]
fn a_share_in_what_was_posted_before() {
    let broken = |case: &mut loopback::Case| case.sabotage = Some(Sabotage::SharesLate);
    canary::caught("shares late", SEEDS, loopback::outcome, hot, broken);
}

#[test]
fn a_lease_that_expires_under_a_frozen_client() {
    let faulty = |seed| {
        let mut case = laboratory::Case::of_smart(seed);
        case.plan.smart = Some(Config { options: Variant::RearLock.options(), ..Config::default() });
        case.nanoseconds_max = case.nanoseconds_max.max(NANOSECONDS_MAX);
        case
    };
    let broken = |case: &mut laboratory::Case| case.sabotage = Some(Sabotage::LeaseExpires);
    canary::caught("the lease expires", SEEDS, laboratory::outcome, faulty, broken);
}
