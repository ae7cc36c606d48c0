//! Every litmus program passes on a fabric that keeps its promise, and fails on one that breaks it.

use farwood_testkit::litmus::{Litmus, LitmusReport, expect_kept, litmus, server_litmus, server_upward};
use farwood_testkit::loopback::{Copying, EVERYTHING, Faults, Loopback, Settings};

const ITERATIONS: u64 = 3_000;

/// Runs the programs of these names on a fabric with these faults, which promises everything.
fn reports_of(faults: Faults, names: &[&str]) -> Vec<LitmusReport> {
    let loopback = Loopback::new(Settings { faults, ..Settings::default() });
    let programs = Litmus::<Loopback>::PROGRAMS.iter();
    let chosen: Vec<_> = programs.filter(|(name, _)| names.contains(name)).collect();
    assert_eq!(chosen.len(), names.len(), "programs of these names: {names:?}");
    chosen.iter().map(|(_, program)| program(&loopback, ITERATIONS)).collect()
}

fn broken(faults: Faults, names: &[&str]) {
    for report in reports_of(faults, names) {
        assert!(report.violations > 0, "{report}");
        assert_eq!(report.failed(), report.promised, "{report}");
    }
}

fn kept(faults: Faults, names: &[&str]) {
    for report in reports_of(faults, names) {
        assert!(report.violations == 0 && report.met > ITERATIONS / 100, "{report}");
    }
}

const UPWARD: Faults = Faults { reads: Copying::Upward, writes: Copying::Upward, ..Faults::NONE };

#[test]
fn a_correct_fabric_keeps_every_promise() {
    let loopback = Loopback::default();
    let reports = litmus(&loopback, ITERATIONS);
    expect_kept(&reports);
    for report in reports {
        assert!(report.violations == 0 && report.met > 0, "{report}");
    }
    let report = server_litmus(&loopback, ITERATIONS);
    assert!(report.promised && report.violations == 0 && report.met > 0, "{report}");
    let report = server_upward(&loopback, ITERATIONS);
    assert!(report.promised && report.violations == 0 && report.met > 0, "{report}");
}

#[test]
fn unpromised_orders_are_tried_and_reported() {
    let promises = farwood_fabric::Capabilities {
        version_pair_bytes_max: 0,
        whole_bytes: 8,
        masked_cas: false,
        ..EVERYTHING
    };
    let loopback = Loopback::new(Settings { promises, faults: UPWARD, ..Settings::default() });
    let reports = litmus(&loopback, ITERATIONS);
    expect_kept(&reports);
    let report = |start: &str| {
        let found = reports.iter().find(|report| report.name.starts_with(start));
        found.unwrap_or_else(|| panic!("no report on {start}")).to_string()
    };
    let pair = report("front/rear versions over 1024 bytes");
    assert!(
        pair.contains("not promised; violated ") && pair.contains(&format!("of {ITERATIONS} (")),
        "{pair}"
    );
    let masked = report("masked CAS");
    assert!(masked.contains("not promised") && masked.contains("the fabric has no masked CAS"), "{masked}");
    let beside = report("a WRITE beside");
    assert!(beside.contains("not promised; not seen violated here"), "{beside}");
}

#[test]
fn version_pairs_break_where_reads_and_writes_copy_the_same_way() {
    let names = ["version pair 64", "version pair 256", "version pair 1024"];
    broken(UPWARD, &names);
    broken(Faults { reads: Copying::Downward, writes: Copying::Downward, ..UPWARD }, &names);
    kept(Faults { reads: Copying::Downward, ..UPWARD }, &names);
    kept(Faults { reads: Copying::Whole, ..UPWARD }, &names);
    kept(Faults { reads_stay_behind: true, ..UPWARD }, &names);
}

#[test]
fn lines_break_where_words_are_copied_one_by_one() {
    broken(UPWARD, &["whole 16", "whole 64", "whole 128"]);
    kept(UPWARD, &["whole 8", "whole 8 device"]);
    kept(Faults { piece_bytes: 64, ..UPWARD }, &["whole 16", "whole 32", "whole 64"]);
}

#[test]
fn words_break_where_half_words_are_copied() {
    broken(Faults { piece_bytes: 4, ..UPWARD }, &["whole 8", "whole 8 device"]);
}

#[test]
fn writes_that_are_placed_downward_are_detected() {
    broken(Faults { writes: Copying::Downward, ..Faults::NONE }, &["write upward"]);
    kept(UPWARD, &["write upward"]);
    let faults = Faults { writes: Copying::Downward, ..Faults::NONE };
    let report = server_upward(&Loopback::new(Settings { faults, ..Settings::default() }), ITERATIONS);
    assert!(report.failed(), "{report}");
}

#[test]
fn reads_that_overtake_are_detected() {
    let faults = Faults { read_overtakes: true, ..Faults::NONE };
    broken(faults, &["atomic then read", "device atomic then read", "read then read"]);
    kept(faults, &["write then write", "arrival sees write, crossed"]);
}

#[test]
fn writes_that_overtake_are_detected() {
    let faults = Faults { write_overtakes: true, ..Faults::NONE };
    let handed_over = "arrival sees write, handed over";
    broken(faults, &["write then write", handed_over, "arrival sees write, handed over by device memory"]);
}

#[test]
fn writes_that_a_failed_cas_undoes_are_detected() {
    let faults = Faults { failed_cas_stores: true, ..Faults::NONE };
    broken(faults, &["unlock by WRITE"]);
    kept(faults, &["write then write"]);
}

#[test]
fn late_writes_are_detected() {
    let faults = Faults { write_is_late: true, ..Faults::NONE };
    let names = ["", " chains", " after chains"].map(|how| format!("arrival sees write, crossed{how}"));
    broken(faults, &names.each_ref().map(String::as_str));
    let report = server_litmus(&Loopback::new(Settings { faults, ..Settings::default() }), ITERATIONS);
    assert!(report.failed(), "{report}");
}

#[test]
fn atomics_that_lose_writes_are_detected() {
    let races = Faults { atomic_races: true, ..Faults::NONE };
    broken(races, &["masked CAS of neighbours"]);
    let swallows = Faults { atomic_loses_writes: true, ..Faults::NONE };
    kept(swallows, &["masked CAS of neighbours"]);
    broken(swallows, &["WRITE beside an atomic"]);
}
