//! A memory node that is added in the simulator while clients work, with faults: every answer is explained.

use farwood_index::ordered::System;
use farwood_proof::seeds::runner;
use farwood_proof::seeds::simulator::{SimulatorCase, outcome};
use farwood_testkit::campaign::size;

fn expect_success(test: &str, system: System) {
    let case = |seed| SimulatorCase::with_faults(system, seed).with_added_node();
    let report = runner::expect_success((module_path!(), test), size(15, 60), case, outcome);
    assert!(report.counted * 50 >= report.totals.runs * 45, "{} are counted", report.counted);
}

#[test]
fn sherman_uses_an_added_memory_node() {
    expect_success("sherman_uses_an_added_memory_node", System::Sherman);
}

#[test]
fn smart_uses_an_added_memory_node() {
    expect_success("smart_uses_an_added_memory_node", System::Smart);
}

#[test]
fn sphinx_uses_an_added_memory_node() {
    expect_success("sphinx_uses_an_added_memory_node", System::Sphinx);
}
