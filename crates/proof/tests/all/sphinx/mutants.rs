//! Sphinx trees that are broken deliberately: the checks must notice each mutant within a bounded number of seeds, and
//! must accept the intact tree on the same seed.

use crate::radix::{POLLS_MAX, expired_lease_is_noticed, noticed};
use farwood_index::mutant::Mutant;
use farwood_index::ordered::System;
use farwood_index::sphinx::{Groups, SphinxConfig, SphinxFeatures, SphinxVariant};
use farwood_proof::seeds::loopback::{LoopbackCase, outcome};
use farwood_proof::seeds::runner;
use farwood_proof::seeds::simulator::SimulatorCase;
use farwood_proof::workload::{CHURNING, MIXED};
use std::time::Duration;

fn config() -> SphinxConfig {
    let groups = Groups::new(0).expect("0 is a valid number");
    SphinxConfig {
        options: SphinxFeatures { groups, ..SphinxVariant::Filter.features() },
        ..SphinxConfig::default()
    }
}

/// A run on the loopback fabric with as many removals as insertions, with a filter that holds all prefixes, and with
/// subtables that are split.
fn churning(seed: u64) -> LoopbackCase {
    let mut case = LoopbackCase::new(System::Sphinx, seed);
    case.plan.use_sphinx(config());
    (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (90, CHURNING, 1 << 10);
    case.steps = 120;
    case.polls_max = POLLS_MAX;
    case
}

#[test]
fn an_unlock_before_the_write_back_is_noticed() {
    // Few keys, so that two clients often change one leaf.
    let contended = |seed| {
        let mut case = churning(seed);
        (case.plan.keys, case.plan.mix) = (10, MIXED);
        case
    };
    noticed("unlock first", contended, Mutant::UnlockFirst);
}

#[test]
fn trusting_an_unchecked_entry_is_noticed() {
    noticed("entry trusted", churning, Mutant::EntryUnchecked);
}

#[test]
fn an_entry_that_is_not_confirmed_is_noticed() {
    noticed("entry unconfirmed", churning, Mutant::EntryUnconfirmed);
}

#[test]
fn an_entry_that_is_not_written_is_noticed() {
    noticed("entry forgotten", churning, Mutant::EntryForgotten);
}

#[test]
fn a_lease_that_expires_under_a_frozen_client_is_noticed() {
    expired_lease_is_noticed(|seed| {
        let mut case = SimulatorCase::with_faults(System::Sphinx, seed);
        case.plan.use_sphinx(config());
        case
    });
}

/// Not a mutant that must be noticed: if all entries have one of two fingerprints, every bucket is full of other nodes'
/// entries, and every answer is still correct.
#[test]
fn colliding_fingerprints_cost_only_round_trips() {
    let case = |seed| {
        let mut case = churning(seed);
        case.plan.mix = MIXED;
        case.mutant = Some(Mutant::PrintsNarrow);
        case
    };
    let (_, _, failed) = runner::run(0..60, Duration::MAX, |seed| outcome(&case(seed)));
    assert_eq!(failed, None);
}
