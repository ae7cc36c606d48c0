//! The shared-memory fabric keeps the contract, and the promises that it makes.

use farwood_proof::shm::Shm;
use farwood_testkit::contract::Contract;
use farwood_testkit::litmus::{Litmus, Report, expect_kept, server_litmus, server_stores, server_upward};
use std::io::Write as _;

/// Tries of each litmus program: a second or less.
const ITERATIONS: u64 = 100_000;

/// Something to read in the test's output that is no verdict.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn it_keeps_the_contract() {
    let shm = Shm::new();
    for (name, check) in Contract::<Shm>::CHECKS.iter().chain(Contract::<Shm>::SERVER_CHECKS) {
        tell(name);
        check(&shm);
    }
}

#[test]
fn it_keeps_its_promises() {
    let shm = Shm::new();
    let mut reports: Vec<Report> = Vec::new();
    for (_, program) in Litmus::<Shm>::PROGRAMS {
        let report = program(&shm, ITERATIONS);
        tell(&report.to_string());
        reports.push(report);
    }
    reports.push(server_litmus(&shm, ITERATIONS));
    reports.push(server_upward(&shm, ITERATIONS));
    reports.extend(server_stores(&shm, ITERATIONS));
    reports[reports.len() - 4..].iter().for_each(|report| tell(&report.to_string()));
    expect_kept(&reports);
}
