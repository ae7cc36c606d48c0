//! The TCP fabric keeps the contract and its promises.

use farwood_proof::served::Tcp;
use farwood_testkit::campaign::size;
use farwood_testkit::contract::Contract;
use farwood_testkit::litmus::{Litmus, LitmusReport, expect_kept, server_litmus, server_stores};
use std::io::Write as _;

/// Tries of each litmus program.
fn iterations() -> u64 {
    size(400, 2_000)
}

/// Prints a line for readers of the test's output.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn the_contract_holds() {
    let tcp = Tcp::new();
    for (name, check) in Contract::<Tcp>::CHECKS.iter().chain(Contract::<Tcp>::SERVER_CHECKS) {
        print(name);
        check(&tcp);
    }
    let bad: u64 = tcp.nodes().iter().map(|node| node.counts().bad_frames).sum();
    assert_eq!(bad, 0, "no frame is invalid");
}

#[test]
fn promises_hold() {
    let tcp = Tcp::new();
    let mut reports: Vec<LitmusReport> = Vec::new();
    for (_, program) in Litmus::<Tcp>::PROGRAMS {
        let report = program(&tcp, iterations());
        print(&report.to_string());
        reports.push(report);
    }
    reports.push(server_litmus(&tcp, iterations()));
    reports.extend(server_stores(&tcp, iterations()));
    reports[reports.len() - 3..].iter().for_each(|report| print(&report.to_string()));
    expect_kept(&reports);
}
