//! Sphinx in the simulator, seed by seed: every variant on every NIC, with and without faults.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use crate::radix::{regressions, simulated_with_faults, simulated_without_faults};
use farwood_index::ordered::System;
use farwood_index::sphinx;

#[test]
fn without_faults_every_answer_is_explained() {
    let test = (module_path!(), "without_faults_every_answer_is_explained");
    simulated_without_faults(test, System::Sphinx);
}

#[test]
fn with_faults_every_answer_is_explained() {
    let test = (module_path!(), "with_faults_every_answer_is_explained");
    simulated_with_faults(test, System::Sphinx, sphinx::MARKS);
}

#[test]
fn seeds_that_failed_once_succeed() {
    regressions(
        System::Sphinx,
        &[
            (311_084, "a node was closed for a replacement before its prefix was known to be ambiguous"),
            (
                427_298,
                "an entry written to a position that another entry had left replaced that entry at its new position",
            ),
            (
                800_013,
                "a node was already dead when it was locked, and was replaced though its slot held another node",
            ),
        ],
    );
}
