//! SMART on the loopback fabric, seed by seed: every variant, on fabrics that copy as shared memory does, as NICs do,
//! and without any order; keys of all lengths, some of them prefixes of others; values that outgrow their leaves.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use super::mutants::growing_in_place;
use crate::radix::{dropped_operations, interleaved};
use farwood_index::ordered::System;
use farwood_index::smart::{SmartConfig, SmartVariant};
use farwood_proof::seeds::loopback::{LoopbackCase, outcome};
use farwood_proof::seeds::runner;
use farwood_testkit::campaign::size;

#[test]
fn every_answer_is_explained() {
    interleaved((module_path!(), "every_answer_is_explained"), System::Smart);
}

#[test]
fn dropped_operations_leave_no_lock() {
    dropped_operations((module_path!(), "dropped_operations_leave_no_lock"), System::Smart);
}

/// Nodes grow in place while other clients read, fill, empty and replace them.
#[test]
fn nodes_that_grow_in_place_are_explained() {
    let test = (module_path!(), "nodes_that_grow_in_place_are_explained");
    let totals = runner::expect_success(test, size(90, 360), growing_in_place, outcome);
    assert!(totals.costs.cas_failures > 0, "no slots lost: {totals:?}");
}

/// Clients of a compute node combine their reads and writes of a few hot keys.
#[test]
fn combined_requests_are_explained() {
    let case = |seed| {
        let mut case = LoopbackCase::new(System::Smart, seed);
        case.plan.use_smart(SmartConfig {
            options: SmartVariant::WriteCombining.features(),
            ..SmartConfig::default()
        });
        (case.plan.keys, case.compute_nodes, case.clients) = (1 + seed % 4, 2, 8);
        case
    };
    let test = (module_path!(), "combined_requests_are_explained");
    runner::expect_success(test, size(60, 240), case, outcome);
}

/// Seed 593 failed once: the reverse pointer was read before a node was written and the rest after, so a scan took a
/// node in a reused slot for the node that had been there before.
#[test]
fn a_scan_rejects_a_node_in_a_reused_slot() {
    let mut case = LoopbackCase::new(System::Smart, 593);
    case.plan.use_earlier_options();
    if let Err(what) = outcome(&case) {
        panic!("seed 593: {what}");
    }
}
