//! The shared-memory fabric keeps the contract and its promises.

use farwood_proof::shm::Shm;
use farwood_testkit::campaign::size;
use farwood_testkit::contract::Contract;
use farwood_testkit::litmus::{
    Litmus, LitmusReport, expect_kept, server_litmus, server_stores, server_upward,
};
use std::io::Write as _;

/// Tries of each litmus program.
fn iterations() -> u64 {
    size(10_000, 100_000)
}

/// Prints a line for readers of the test's output.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn the_contract_holds() {
    let shm = Shm::new();
    for (name, check) in Contract::<Shm>::CHECKS.iter().chain(Contract::<Shm>::SERVER_CHECKS) {
        print(name);
        check(&shm);
    }
}

#[test]
fn promises_hold() {
    let shm = Shm::new();
    let mut reports: Vec<LitmusReport> = Vec::new();
    for (_, program) in Litmus::<Shm>::PROGRAMS {
        let report = program(&shm, iterations());
        print(&report.to_string());
        reports.push(report);
    }
    reports.push(server_litmus(&shm, iterations()));
    reports.push(server_upward(&shm, iterations()));
    reports.extend(server_stores(&shm, iterations()));
    reports[reports.len() - 4..].iter().for_each(|report| print(&report.to_string()));
    expect_kept(&reports);
}
