//! SMART in the simulator, seed by seed: every variant on every NIC, with and without faults.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use crate::radix::{regressions, simulated_with_faults, simulated_without_faults};
use farwood_index::ordered::System;
use farwood_index::smart;
use farwood_proof::seeds::simulator::{SimulatorCase, outcome};

#[test]
fn without_faults_every_answer_is_explained() {
    let test = (module_path!(), "without_faults_every_answer_is_explained");
    simulated_without_faults(test, System::Smart);
}

#[test]
fn with_faults_every_answer_is_explained() {
    let test = (module_path!(), "with_faults_every_answer_is_explained");
    simulated_with_faults(test, System::Smart, smart::MARKS);
}

#[test]
fn seeds_that_failed_once_succeed() {
    regressions(
        System::Smart,
        &[
            (9, "a node without live children stopped scans"),
            (
                2590,
                "a scan considered a node empty although its leaf had moved to another node during the search",
            ),
            (43, "every client of a compute node took its own chunk instead of sharing one"),
            (
                44,
                "a client that waited for a node's lock kept a leaf's lock of unknown ownership, and the holder of the \
                 node's lock waited for that",
            ),
            (
                92,
                "no client waited for the lock of a node being replaced, so no client took it from its crashed holder",
            ),
            (2932, "the simulator's pool was too small for chunks that were lost with the memory node"),
            (
                117_323,
                "a removal was complete, the replacement of its node was interrupted, and the check ignored the \
                 interrupted replacement",
            ),
            (
                222_485,
                "a detached post was lost before a freeze, and the check considered only the time after it",
            ),
            (232_173, "a node was closed for a replacement before its prefix was known to be ambiguous"),
            (
                932_236,
                "an insert failed to claim a slot and followed the pointer in it, but the pointer led to a node of a \
                 crashed client that was never linked",
            ),
            (
                264_470,
                "two compute nodes each waited for a lock of unknown ownership at the other, while holding the local \
                 lock that the other needed",
            ),
            (
                1_882_967_467_098_593,
                "a replacement whose memory node was lost released one of its two locks and dropped the other",
            ),
        ],
    );
}

/// A replacement whose memory node was lost released one of its two locks and dropped the other.
#[test]
fn a_lost_memory_node_leaves_no_lock_of_a_replacement() {
    let mut case = SimulatorCase::with_faults(System::Smart, 1_882_977_110_851_937);
    case.plan.use_typed_nodes();
    if let Err(what) = outcome(&case) {
        panic!("{what}");
    }
}
