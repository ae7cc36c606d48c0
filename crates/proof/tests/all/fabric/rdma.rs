//! RDMA keeps the contract and its promises, and indexes work over it as over other fabrics: on any NIC of the
//! machine, or on Soft-RoCE (`cargo xtask rxe`). Tests of capabilities that the NIC lacks are skipped, and the output
//! says so.

use farwood_fabric::Fabric as _;
use farwood_index::consistency::Consistency;
use farwood_index::sherman::layout::{NODE_BYTES_DEFAULT as NODE_BYTES, Sizes};
use farwood_index::{ordered, sherman, smart, sphinx};
use farwood_proof::radix_costs::compare_on;
use farwood_proof::served::{Rdma, rdma_or_skip};
use farwood_proof::{catfish_costs, radix_model, sherman_costs, sherman_model};
use farwood_testkit::Harness as _;
use farwood_testkit::contract::Contract;
use farwood_testkit::litmus::{Litmus, LitmusReport, expect_kept, server_litmus};
use std::io::Write as _;

/// Tries of each litmus program, unless FARWOOD_LITMUS says how many.
const ITERATIONS: u64 = 300;

/// Prints a line for readers of the test's output.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The capabilities that the NIC lacks, and the replacement tests.
fn lacking(rdma: &Rdma) -> Vec<(&'static str, &'static str)> {
    let promised = *rdma.client().fabric().capabilities();
    let on_card = rdma.pool().cards().iter().all(|card| card.device_on_card);
    let all = [
        (on_card, "device memory", "host memory replaces it"),
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
        print(&format!("skipped, because the NIC lacks it: {what}; {instead}"));
    }
    keeps_the_contract(&rdma);
}

/// The clients of a thread then use different queue pairs, and each keeps its order.
#[test]
fn two_queue_pairs_for_each_thread_keep_the_contract() {
    if rdma_or_skip().is_some() {
        keeps_the_contract(&Rdma::with("?queue-pairs=2"));
    }
}

fn keeps_the_contract(rdma: &Rdma) {
    for (name, check) in Contract::<Rdma>::CHECKS.iter().chain(Contract::<Rdma>::SERVER_CHECKS) {
        print(name);
        check(rdma);
    }
}

#[test]
fn rdma_keeps_its_promises() {
    let Some(rdma) = rdma_or_skip() else { return };
    let asked = std::env::var("FARWOOD_LITMUS").ok().and_then(|count| count.parse().ok());
    let iterations = asked.unwrap_or(ITERATIONS);
    let mut reports: Vec<LitmusReport> = Vec::new();
    for (_, program) in Litmus::<Rdma>::PROGRAMS {
        let report = program(&rdma, iterations);
        print(&report.to_string());
        reports.push(report);
    }
    reports.push(server_litmus(&rdma, iterations));
    print(&reports[reports.len() - 1].to_string());
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
        let of = |(variant, _): (smart::SmartVariant, _)| smart_config(variant);
        radix_model::from_empty(&rdma, &smart::SmartVariant::ALL.map(of), 60, 1);
    }
}

#[test]
fn sphinx_from_the_empty_tree() {
    if let Some(rdma) = rdma_or_skip() {
        let of = |(variant, _): (sphinx::SphinxVariant, _)| sphinx_config(variant);
        radix_model::from_empty(&rdma, &sphinx::SphinxVariant::ALL.map(of), 60, 1);
    }
}

/// Costs over RDMA are those of the table, because the fabric adds no round trips or verbs. The configuration is the
/// default for the NIC: with versions, or with checksums if the NIC lacks the promises that versions need.
#[test]
fn sherman_costs_the_same() {
    let Some(rdma) = rdma_or_skip() else { return };
    let sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: NODE_BYTES };
    let default = sherman::ShermanConfig { sizes, ..sherman::ShermanConfig::default() };
    let (name, config) = match Consistency::for_nodes(NODE_BYTES, rdma.client().fabric().capabilities()) {
        Consistency::ByteVersions => (sherman_costs::BYTE_VERSIONS, default),
        Consistency::Versions => (sherman::ShermanVariant::Sherman.name(), default),
        Consistency::Checksum => (sherman_costs::CHECKSUMS, sherman_costs::checksums()),
    };
    let mut table = sherman_costs::empty();
    let bench = sherman_costs::CostFixture::on(rdma, config);
    sherman_costs::rows(&mut table, name, &bench);
    assert!(table.agree_in_counts_with("costs.md") > 10, "all cases are compared");
}

#[test]
fn catfish_costs_the_same() {
    let Some(rdma) = rdma_or_skip() else { return };
    if !rdma.client().fabric().capabilities().write_upward {
        print("skipped: the NIC does not promise WRITEs placed upward");
        return;
    }
    let agreed = catfish_costs::table(rdma).agree_in_counts_with("costs-catfish.md");
    assert!(agreed > 10, "all cases are compared");
}

#[test]
fn smart_costs_the_same() {
    let (variant, name) = smart::SmartVariant::ALL[smart::SmartVariant::ALL.len() - 1];
    if let Some(rdma) = rdma_or_skip() {
        compare_on(rdma, "smart", (name, smart_config(variant)));
    }
}

#[test]
fn sphinx_costs_the_same() {
    let (variant, name) = sphinx::SphinxVariant::ALL[sphinx::SphinxVariant::ALL.len() - 1];
    if let Some(rdma) = rdma_or_skip() {
        compare_on(rdma, "sphinx", (name, sphinx_config(variant)));
    }
}

fn smart_config(variant: smart::SmartVariant) -> ordered::OrderedConfig {
    ordered::OrderedConfig::Smart(smart::SmartConfig {
        options: variant.features(),
        ..smart::SmartConfig::default()
    })
}

fn sphinx_config(variant: sphinx::SphinxVariant) -> ordered::OrderedConfig {
    ordered::OrderedConfig::Sphinx(sphinx::SphinxConfig {
        options: variant.features(),
        ..sphinx::SphinxConfig::default()
    })
}
