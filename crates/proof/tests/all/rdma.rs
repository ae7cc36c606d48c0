//! RDMA keeps the contract, and the promises that it makes, and indexes work over it as they do elsewhere: on whatever
//! card the machine has, or Soft-RoCE (`cargo xtask rxe`). What the card lacks is skipped by capability, and the
//! output says so.
//!
//! All of it is in one program, and nothing of other fabrics: it is built before it can run, and indexes are generic.

use farwood_fabric::Fabric as _;
use farwood_index::consistency::Consistency;
use farwood_index::sherman::layout::{NODE_BYTES_DEFAULT as NODE_BYTES, Sizes};
use farwood_index::{ordered, sherman, smart, sphinx};
use farwood_proof::radix_costs::compare_on;
use farwood_proof::served::{Rdma, rdma_or_skip};
use farwood_proof::{catfish_costs, radix_model, sherman_costs, sherman_model};
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
    keeps_the_contract(&rdma);
}

/// Clients of a thread then have different ones, and each keeps its order.
#[test]
fn two_queue_pairs_for_each_thread_keep_it_as_well() {
    if rdma_or_skip().is_some() {
        keeps_the_contract(&Rdma::with("?queue-pairs=2"));
    }
}

fn keeps_the_contract(rdma: &Rdma) {
    for (name, check) in Contract::<Rdma>::CHECKS.iter().chain(Contract::<Rdma>::SERVER_CHECKS) {
        tell(name);
        check(rdma);
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

#[test]
fn sherman_from_the_empty_tree() {
    let Some(rdma) = rdma_or_skip() else { return };
    for sizes in &sherman_model::SIZES[..3] {
        sherman_model::from_empty(&rdma, *sizes, 60, 1);
    }
}

#[test]
fn smart_from_the_empty_tree() {
    if let Some(rdma) = rdma_or_skip() {
        let of = |(variant, _): (smart::Variant, _)| smart_config(variant);
        radix_model::from_empty(&rdma, &smart::Variant::ALL.map(of), 60, 1);
    }
}

#[test]
fn sphinx_from_the_empty_tree() {
    if let Some(rdma) = rdma_or_skip() {
        let of = |(variant, _): (sphinx::Variant, _)| sphinx_config(variant);
        radix_model::from_empty(&rdma, &sphinx::Variant::ALL.map(of), 60, 1);
    }
}

/// A card's fabric costs what the table says: nothing is added below the index. Measured is the preset that users get:
/// with versions, or where the card does not promise what these rest on, with checksums.
#[test]
fn sherman_costs_the_same() {
    let Some(rdma) = rdma_or_skip() else { return };
    let sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: NODE_BYTES };
    let default = sherman::Config { sizes, ..sherman::Config::default() };
    let (name, config) = match Consistency::for_nodes(NODE_BYTES, rdma.client().fabric().capabilities()) {
        Consistency::Versions => (sherman::Variant::Sherman.name(), default),
        Consistency::Checksum => (sherman_costs::CHECKSUMS, sherman_costs::checksums()),
    };
    let mut table = sherman_costs::empty();
    let bench = sherman_costs::CostFixture::on(rdma, config);
    sherman_costs::rows(&mut table, name, &bench);
    assert!(table.agree_in_counts_with("costs.md") > 10, "all cases are there");
}

#[test]
fn catfish_costs_the_same() {
    let Some(rdma) = rdma_or_skip() else { return };
    if !rdma.client().fabric().capabilities().write_upward {
        tell("skipped: this card promises no WRITEs placed upward");
        return;
    }
    let agreed = catfish_costs::table(rdma).agree_in_counts_with("costs-catfish.md");
    assert!(agreed > 10, "all cases are there");
}

#[test]
fn smart_costs_the_same() {
    let (variant, name) = smart::Variant::ALL[smart::Variant::ALL.len() - 1];
    if let Some(rdma) = rdma_or_skip() {
        compare_on(rdma, "smart", (name, smart_config(variant)));
    }
}

#[test]
fn sphinx_costs_the_same() {
    let (variant, name) = sphinx::Variant::ALL[sphinx::Variant::ALL.len() - 1];
    if let Some(rdma) = rdma_or_skip() {
        compare_on(rdma, "sphinx", (name, sphinx_config(variant)));
    }
}

fn smart_config(variant: smart::Variant) -> ordered::Config {
    ordered::Config::Smart(smart::Config { options: variant.options(), ..smart::Config::default() })
}

fn sphinx_config(variant: sphinx::Variant) -> ordered::Config {
    ordered::Config::Sphinx(sphinx::Config { options: variant.options(), ..sphinx::Config::default() })
}
