//! Sphinx on the loopback fabric, seed by seed: every variant, on fabrics that copy as shared memory does, as NICs do,
//! and without any order; keys of all lengths, some of them prefixes of others; values that outgrow their leaves.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use crate::radix::{dropped_operations, interleaved};
use farwood_index::ordered::System;
use farwood_proof::seeds::loopback::{LoopbackCase, outcome};

#[test]
fn every_answer_is_explained() {
    interleaved((module_path!(), "every_answer_is_explained"), System::Sphinx);
}

#[test]
fn dropped_operations_leave_no_lock() {
    dropped_operations((module_path!(), "dropped_operations_leave_no_lock"), System::Sphinx);
}

/// Seed 515 failed once: the reverse pointer was read before a node was written and the rest after, so a scan took a
/// node in a reused slot for the node that had been there before.
#[test]
fn a_scan_rejects_a_node_in_a_reused_slot() {
    if let Err(what) = outcome(&LoopbackCase::new(System::Sphinx, 515)) {
        panic!("seed 515: {what}");
    }
}
