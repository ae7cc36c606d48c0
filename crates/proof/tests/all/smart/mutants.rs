//! SMART trees that are broken deliberately: the checks must notice each mutant within a bounded number of seeds, and
//! must accept the intact tree on the same seed.

use crate::radix::{POLLS_MAX, expired_lease_is_noticed, noticed};
use farwood_index::mutant::Mutant;
use farwood_index::ordered::System;
use farwood_index::smart::{NodeSizing, SmartConfig, SmartVariant};
use farwood_proof::seeds::loopback::LoopbackCase;
use farwood_proof::seeds::simulator::SimulatorCase;
use farwood_proof::workload::{CHURNING, GROWING, MIXED};

/// A run on the loopback fabric with as many removals as insertions, and with large caches.
fn churning(seed: u64) -> LoopbackCase {
    churning_in(SmartVariant::RearLock, seed)
}

/// As [`churning`], in a variant.
fn churning_in(variant: SmartVariant, seed: u64) -> LoopbackCase {
    let mut case = LoopbackCase::new(System::Smart, seed);
    case.plan.use_smart(SmartConfig { options: variant.features(), ..SmartConfig::default() });
    (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (40, CHURNING, 1 << 20);
    case.steps = 120;
    case.polls_max = POLLS_MAX;
    case
}

/// A run in which nodes grow in place and are replaced: keys differ in one of 48 bytes.
pub(super) fn growing_in_place(seed: u64) -> LoopbackCase {
    let mut case = LoopbackCase::new(System::Smart, seed);
    let mut options = SmartVariant::ALL[(seed % 6) as usize].0.features();
    options.node_sizing = NodeSizing::Typed;
    case.plan.use_smart(SmartConfig { options, ..SmartConfig::default() });
    (case.plan.keys, case.plan.cache_bytes) = (240, [0, 1 << 20][(seed % 2) as usize]);
    case.plan.mix = [GROWING, CHURNING][(seed / 2 % 2) as usize];
    case.steps = 90;
    case.polls_max = POLLS_MAX;
    case
}

/// A run with a few hot keys, which clients read and write at the same time.
fn hot(seed: u64) -> LoopbackCase {
    let mut case = churning(seed);
    case.plan.use_smart(SmartConfig {
        options: SmartVariant::WriteCombining.features(),
        ..SmartConfig::default()
    });
    (case.plan.keys, case.plan.mix) = (3, MIXED);
    (case.compute_nodes, case.clients) = (2, 8);
    case
}

#[test]
fn an_unlock_before_the_write_back_is_noticed() {
    noticed("unlock first", churning, Mutant::UnlockFirst);
}

/// A lock in device memory that is handed over before the write-back.
#[test]
fn a_hand_over_before_the_write_back_is_noticed() {
    let in_place = |seed| churning_in(SmartVariant::InPlace, seed);
    noticed("hand-over first", in_place, Mutant::UnlockFirst);
}

#[test]
fn swapping_a_slot_before_the_leaf_is_marked_is_noticed() {
    let swapping = |seed| churning_in(SmartVariant::LockFree, seed);
    noticed("swap unmarked", swapping, Mutant::SwapUnmarked);
}

#[test]
fn replacing_a_node_whose_slots_are_not_frozen_is_noticed() {
    let swapping = |seed| churning_in(SmartVariant::Art, seed);
    noticed("swap unfrozen", swapping, Mutant::SwapUnfrozen);
}

#[test]
fn trusting_a_miss_of_any_age_is_noticed() {
    noticed("miss trusted", churning, Mutant::MissUnchecked);
}

#[test]
fn leaving_out_the_reverse_check_is_noticed() {
    noticed("no reverse check", churning, Mutant::NoReverseCheck);
}

#[test]
fn trusting_the_size_in_the_parent_is_noticed() {
    noticed("hint trusted", growing_in_place, Mutant::HintTrusted);
}

/// Read delegation and write combining as published: a client may share the result of a request that was posted before
/// its own call.
#[test]
fn sharing_the_result_of_an_earlier_post_is_noticed() {
    noticed("shares late", hot, Mutant::SharesLate);
}

#[test]
fn a_lease_that_expires_under_a_frozen_client_is_noticed() {
    expired_lease_is_noticed(|seed| {
        let mut case = SimulatorCase::with_faults(System::Smart, seed);
        case.plan
            .use_smart(SmartConfig { options: SmartVariant::RearLock.features(), ..SmartConfig::default() });
        case
    });
}
