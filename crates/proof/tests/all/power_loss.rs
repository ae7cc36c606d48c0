//! Power failures of one and of three memory nodes, for every ordered index. `FARWOOD_CUTS` sets the number of failures
//! of each test.

use farwood_index::ordered::System;
use farwood_proof::power_loss::{Level, PowerLoss, PowerLossReport};
use farwood_transport::tcp::LogMutant;

fn cuts(usual: u64) -> u64 {
    std::env::var("FARWOOD_CUTS").map_or(usual, |text| text.parse().expect("FARWOOD_CUTS is a number"))
}

fn run(system: System, level: Level, nodes: u16) -> PowerLossReport {
    let seed = farwood_transport::random_number();
    let run = PowerLoss { system, level, nodes, mutant: None, seed, cuts: cuts(20) };
    run.run().unwrap_or_else(|why| panic!("{why}"))
}

fn at_always(system: System) {
    run(system, Level::Always, 3);
}

fn at_interval(system: System) {
    let report = run(system, Level::Interval, 3);
    assert!(report.lost_changes > 0, "nothing is lost: {report:?}");
}

#[test]
fn sherman_at_always() {
    at_always(System::Sherman);
}

/// The locks of one memory node are answered before they are on the disk.
#[test]
fn sherman_at_always_on_one_memory_node() {
    run(System::Sherman, Level::Always, 1);
}

#[test]
fn smart_at_always() {
    at_always(System::Smart);
}

#[test]
fn sphinx_at_always() {
    at_always(System::Sphinx);
}

#[test]
fn sherman_at_interval() {
    at_interval(System::Sherman);
}

#[test]
fn smart_at_interval() {
    at_interval(System::Smart);
}

#[test]
fn sphinx_at_interval() {
    at_interval(System::Sphinx);
}

/// Runs a defect until it is noticed.
fn is_noticed(system: System, level: Level, mutant: LogMutant) {
    let run = PowerLoss { system, level, nodes: 3, mutant: Some(mutant), seed: 1, cuts: 2_000 };
    let noticed = run.run();
    assert!(noticed.is_err(), "{mutant:?} is not noticed: {noticed:?}");
}

#[test]
fn answers_before_the_disk_are_noticed() {
    is_noticed(System::Sherman, Level::Always, LogMutant::AnswersEarly);
}

#[test]
fn ignored_checksums_are_noticed() {
    is_noticed(System::Sherman, Level::Interval, LogMutant::ChecksumIgnored);
}

#[test]
fn requests_without_a_cut_are_noticed() {
    is_noticed(System::Sherman, Level::Interval, LogMutant::CutForgotten);
}
