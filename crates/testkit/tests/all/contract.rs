//! The contract holds on a correct fabric, and its checks find every bug.

use farwood_testkit::contract::{Contract, contract, server_contract};
use farwood_testkit::loopback::{Bug, Copying, EVERYTHING, Faults, Loopback, Settings};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn a_correct_fabric_keeps_the_contract() {
    for seed in 0..5 {
        let loopback = Loopback::new(Settings { seed, ..Settings::default() });
        contract(&loopback);
        server_contract(&loopback);
        // Again, after every chunk was taken once.
        contract(&loopback);
    }
}

#[test]
fn a_fabric_that_cuts_transfers_keeps_the_contract() {
    // Posts that are dropped or detached in the middle of a transfer continue.
    for reads_stay_behind in [false, true] {
        let upward = Faults { reads: Copying::Upward, writes: Copying::Upward, ..Faults::NONE };
        let faults = Faults { reads_stay_behind, ..upward };
        contract(&Loopback::new(Settings { faults, ..Settings::default() }));
    }
}

#[test]
fn a_fabric_may_lack_masked_compare_and_swap() {
    let promises = farwood_fabric::Capabilities { masked_cas: false, ..EVERYTHING };
    contract(&Loopback::new(Settings { promises, ..Settings::default() }));
}

/// The names of the checks that fail on a fabric with a bug.
fn failing(bug: Bug) -> Vec<&'static str> {
    let checks = Contract::<Loopback>::CHECKS.iter().chain(Contract::<Loopback>::SERVER_CHECKS);
    let fails = |check: fn(&Loopback)| {
        let loopback = Loopback::new(Settings { bug: Some(bug), ..Settings::default() });
        catch_unwind(AssertUnwindSafe(|| check(&loopback))).is_err()
    };
    checks.filter(|(_, check)| fails(*check)).map(|(name, _)| *name).collect()
}

#[test]
fn every_bug_is_found_by_its_check() {
    let bugs = [
        (Bug::NeighbourCleared, "verbs::a_write_of_any_length_and_offset_leaves_its_neighbours_alone"),
        (Bug::ReadShort, "verbs::buffers_bring_no_old_bytes"),
        (Bug::MaskIgnored, "verbs::masked_compare_and_swap_keeps_to_its_masks"),
        (Bug::AddSaturates, "verbs::fetch_and_add_wraps"),
        (Bug::CasAlwaysSwaps, "verbs::compare_and_swap_wins_and_loses"),
        (Bug::CasReportsSuccess, "directories::the_directory_lock_excludes"),
        (Bug::CasReportsSuccess, "tables::one_of_several_clients_enters_a_slot"),
        (Bug::ChainReversed, "verbs::a_chain_executes_in_order"),
        (Bug::DetachedLost, "verbs::detached_posts_land"),
        (Bug::DetachedFailureSilent, "errors::a_detached_failure_shows_at_the_next_post"),
        (Bug::RangeUnchecked, "errors::verbs_out_of_range_are_refused_with_their_address"),
        (Bug::AlignmentUnchecked, "errors::misaligned_atomics_are_refused_with_their_address"),
        (Bug::IdentityShared, "tables::compute_nodes_have_identities_of_their_own"),
        (Bug::RevokesLiveClients, "tables::a_live_client_is_not_revoked"),
        (Bug::ClockBack, "tables::time_advances_and_sleeping_takes_time"),
        (Bug::DropCancels, "verbs::a_cancelled_post_still_lands"),
        (Bug::ImmediateFirst, "servers::immediates_arrive_in_order_after_their_bytes"),
    ];
    let found: Vec<_> = bugs.iter().map(|(bug, _)| failing(*bug)).collect();
    for ((bug, check), failing) in bugs.iter().zip(found) {
        assert!(failing.contains(check), "{bug:?} was not found by {check}, only by {failing:?}");
    }
}
