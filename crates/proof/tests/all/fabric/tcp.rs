//! The TCP fabric keeps the contract, and the promises that it makes.

use farwood_proof::served::Tcp;
use farwood_testkit::contract::Contract;
use farwood_testkit::litmus::{Litmus, Report, expect_kept, server_litmus, server_stores};
use std::io::Write as _;

/// Tries of each litmus program: a second or so.
const ITERATIONS: u64 = 2_000;

/// Something to read in the test's output that is no verdict.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn it_keeps_the_contract() {
    let tcp = Tcp::new();
    for (name, check) in Contract::<Tcp>::CHECKS.iter().chain(Contract::<Tcp>::SERVER_CHECKS) {
        tell(name);
        check(&tcp);
    }
    let bad: u64 = tcp.nodes().iter().map(|node| node.counts().bad_frames).sum();
    assert_eq!(bad, 0, "the fabric speaks its own language");
}

#[test]
fn it_keeps_its_promises() {
    let tcp = Tcp::new();
    let mut reports: Vec<Report> = Vec::new();
    for (_, program) in Litmus::<Tcp>::PROGRAMS {
        let report = program(&tcp, ITERATIONS);
        tell(&report.to_string());
        reports.push(report);
    }
    reports.push(server_litmus(&tcp, ITERATIONS));
    reports.extend(server_stores(&tcp, ITERATIONS));
    reports[reports.len() - 3..].iter().for_each(|report| tell(&report.to_string()));
    expect_kept(&reports);
}
