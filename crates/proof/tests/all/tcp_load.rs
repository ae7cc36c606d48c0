//! A short form of the load test that `cargo run --release -p farwood-proof --example load` runs for minutes.

use farwood_index::ordered::System;
use farwood_proof::children::rerun;
use farwood_proof::load::{Load, run_child};
use std::io::Write as _;

/// Runs the load of the test `name`, whose child processes call this function, too.
fn run_load(name: &str, system: System) {
    if run_child() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("farwood-load-test-{system}-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let program = || rerun(module_path!(), name);
    let report = Load { system, seconds: 8, processes: 3, clients: 3, seed: 1 }.run(&program, &folder);
    let _ = writeln!(std::io::stderr(), "{report}");
    report.expect_no_leak();
    assert!(report.kills > 5 && report.operations > 1_000, "{report}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn sherman_survives_killed_clients_under_load() {
    run_load("sherman_survives_killed_clients_under_load", System::Sherman);
}

#[test]
fn smart_survives_killed_clients_under_load() {
    run_load("smart_survives_killed_clients_under_load", System::Smart);
}

#[test]
fn sphinx_survives_killed_clients_under_load() {
    run_load("sphinx_survives_killed_clients_under_load", System::Sphinx);
}
