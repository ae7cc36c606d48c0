//! The laboratory keeps the contract and its promises; and a promise that it breaks, told or not, is noticed.

use farwood_proof::lab::Lab;
use farwood_sim::{Card, WorldSpec};
use farwood_testkit::contract::Contract;
use farwood_testkit::litmus::{Litmus, Report, expect_kept, server_litmus};
use std::io::Write as _;

/// Tries of each litmus program.
const ITERATIONS: u64 = 2_000;

/// Something to read in the test's output that is no verdict.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn lab(card: &str) -> Lab {
    Lab::new(WorldSpec::small(Card::named(card).unwrap()))
}

#[test]
fn it_keeps_the_contract_on_every_card() {
    for card in Card::names() {
        let lab = lab(card);
        for (name, check) in Contract::<Lab>::CHECKS.iter().chain(Contract::<Lab>::SERVER_CHECKS) {
            tell(&format!("{card} {name}"));
            check(&lab);
        }
    }
}

#[test]
fn it_keeps_its_promises() {
    let lab = lab("cx5-100g");
    let mut reports: Vec<Report> = Vec::new();
    for (_, program) in Litmus::<Lab>::PROGRAMS {
        let report = program(&lab, ITERATIONS);
        tell(&report.to_string());
        reports.push(report);
    }
    reports.push(server_litmus(&lab, ITERATIONS));
    tell(&reports[reports.len() - 1].to_string());
    expect_kept(&reports);
}
