//! Power failures of one and of three memory nodes, for every kind of index. `FARWOOD_CUTS` sets the number of failures
//! of each test.

use farwood_index::ordered::System;
use farwood_proof::power_loss::{IndexKind, Level, PowerLoss};
use farwood_transport::tcp::LogMutant;

/// Most cuts of one run; the next one begins with a new pool.
const CUTS_OF_A_RUN: u64 = 512;

fn cuts() -> u64 {
    std::env::var("FARWOOD_CUTS").map_or(96, |text| text.parse().expect("FARWOOD_CUTS is a number"))
}

fn run(kind: IndexKind, level: Level, nodes: u16) {
    let (mut left, mut lost_changes, first_seed) = (cuts(), 0, farwood_transport::random_number());
    // Runs with even and with odd seeds differ in the thread that syncs.
    let cuts_of_a_run = CUTS_OF_A_RUN.min(left.div_ceil(2));
    while left > 0 {
        let (seed, cuts) = (first_seed.wrapping_add(left / cuts_of_a_run), left.min(cuts_of_a_run));
        let report = PowerLoss { kind, level, nodes, mutant: None, seed, cuts }.run();
        lost_changes += report.unwrap_or_else(|why| panic!("{why}")).lost_changes;
        left -= cuts;
    }
    assert!(level == Level::Always || lost_changes > 0, "nothing is lost");
}

mod failures {
    use super::*;

    #[test]
    fn sherman_at_always() {
        run(IndexKind::Ordered(System::Sherman), Level::Always, 3);
    }

    /// The locks of one memory node are answered before they are on the disk.
    #[test]
    fn sherman_at_always_on_one_memory_node() {
        run(IndexKind::Ordered(System::Sherman), Level::Always, 1);
    }

    #[test]
    fn smart_at_always() {
        run(IndexKind::Ordered(System::Smart), Level::Always, 3);
    }

    #[test]
    fn sphinx_at_always() {
        run(IndexKind::Ordered(System::Sphinx), Level::Always, 3);
    }

    #[test]
    fn catfish_at_always() {
        run(IndexKind::Spatial, Level::Always, 3);
    }

    #[test]
    fn sherman_at_interval() {
        run(IndexKind::Ordered(System::Sherman), Level::Interval, 3);
    }

    #[test]
    fn smart_at_interval() {
        run(IndexKind::Ordered(System::Smart), Level::Interval, 3);
    }

    #[test]
    fn sphinx_at_interval() {
        run(IndexKind::Ordered(System::Sphinx), Level::Interval, 3);
    }
}

/// Runs a defect until it is noticed.
fn is_noticed(kind: IndexKind, level: Level, mutant: LogMutant) {
    let run = PowerLoss { kind, level, nodes: 3, mutant: Some(mutant), seed: 1, cuts: 4_000 };
    let noticed = run.run();
    assert!(noticed.is_err(), "{mutant:?} is not noticed: {noticed:?}");
}

#[test]
fn answers_before_the_disk_are_noticed() {
    is_noticed(IndexKind::Ordered(System::Sherman), Level::Always, LogMutant::AnswersEarly);
}

#[test]
fn answers_of_a_spatial_server_before_the_disk_are_noticed() {
    is_noticed(IndexKind::Spatial, Level::Always, LogMutant::AnswersEarly);
}

#[test]
fn ignored_checksums_are_noticed() {
    is_noticed(IndexKind::Ordered(System::Sherman), Level::Interval, LogMutant::ChecksumIgnored);
}

#[test]
fn requests_without_a_cut_are_noticed() {
    is_noticed(IndexKind::Ordered(System::Sherman), Level::Interval, LogMutant::CutForgotten);
}
