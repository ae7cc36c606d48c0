//! RDMA keeps the contract, and the promises that it makes: on whatever card the machine has, or Soft-RoCE
//! (`cargo xtask rxe`). What the card lacks is skipped by capability, and the output says so.

use farwood_fabric::Fabric as _;
use farwood_proof::served::{Rdma, rdma_or_skip};
use farwood_testkit::Harness as _;
use farwood_testkit::contract::Contract;
use farwood_testkit::litmus::{Litmus, Report, expect_kept, server_litmus};
use std::io::Write as _;

/// Tries of each litmus program, unless FARWOOD_LITMUS says how many.
const ITERATIONS: u64 = 300;

/// Something to read in the test's output that is no verdict.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What the card lacks, and what is tested in its place.
fn lacking(rdma: &Rdma) -> Vec<(&'static str, &'static str)> {
    let promised = *rdma.client().fabric().capabilities();
    let on_card = rdma.pool().cards().iter().all(|card| card.device_on_card);
    let all = [
        (on_card, "device memory", "host memory stands for it"),
        (promised.masked_cas, "masked compare-and-swap", "it must be refused"),
        (promised.version_pair_bytes_max > 0, "version pairs that prove a READ", "indexes use checksums"),
        (promised.whole_bytes >= 64, "whole lines", "indexes use checksums"),
        (promised.write_upward, "WRITEs placed upward", "Catfish must refuse to open"),
    ];
    all.into_iter().filter(|(there, ..)| !there).map(|(_, what, instead)| (what, instead)).collect()
}

#[test]
fn rdma_keeps_the_contract() {
    let Some(rdma) = rdma_or_skip() else { return };
    for (what, instead) in lacking(&rdma) {
        tell(&format!("skipped, for this card has none: {what}; {instead}"));
    }
    for (name, check) in Contract::<Rdma>::CHECKS.iter().chain(Contract::<Rdma>::SERVER_CHECKS) {
        tell(name);
        check(&rdma);
    }
}

#[test]
fn rdma_keeps_its_promises() {
    let Some(rdma) = rdma_or_skip() else { return };
    let asked = std::env::var("FARWOOD_LITMUS").ok().and_then(|count| count.parse().ok());
    let iterations = asked.unwrap_or(ITERATIONS);
    let mut reports: Vec<Report> = Vec::new();
    for (_, program) in Litmus::<Rdma>::PROGRAMS {
        let report = program(&rdma, iterations);
        tell(&report.to_string());
        reports.push(report);
    }
    reports.push(server_litmus(&rdma, iterations));
    tell(&reports[reports.len() - 1].to_string());
    expect_kept(&reports);
}
