//! A little of the load that `cargo run --release -p farwood-proof --example load` puts on memory nodes for minutes.

use farwood_index::ordered::System;
use farwood_proof::children::rerun;
use farwood_proof::load::{Load, play};
use std::io::Write as _;

/// `name` is the test's: a process that it starts comes to the same place.
fn nothing_is_wrong_lost_or_left(name: &str, system: System) {
    if play() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("farwood-load-test-{system}-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let program = || rerun(module_path!(), name);
    let report = Load { system, seconds: 8, processes: 3, clients: 3, seed: 1 }.run(&program, &folder);
    let _ = writeln!(std::io::stderr(), "{report}");
    report.expect_flat();
    assert!(report.kills > 5 && report.operations > 2_000, "{report}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn sherman_under_load_with_clients_killed() {
    nothing_is_wrong_lost_or_left("sherman_under_load_with_clients_killed", System::Sherman);
}

#[test]
fn smart_under_load_with_clients_killed() {
    nothing_is_wrong_lost_or_left("smart_under_load_with_clients_killed", System::Smart);
}

#[test]
fn sphinx_under_load_with_clients_killed() {
    nothing_is_wrong_lost_or_left("sphinx_under_load_with_clients_killed", System::Sphinx);
}
