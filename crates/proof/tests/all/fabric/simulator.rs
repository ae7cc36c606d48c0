//! The laboratory keeps the contract and its promises; and a promise that it breaks, told or not, is noticed.

use farwood_fabric::{Capabilities, Client, Memory, NodeId, write};
use farwood_proof::simulator::Simulator;
use farwood_sim::fault::{CrashPoint, Fault, Rule, When};
use farwood_sim::{Card, World, WorldSpec};
use farwood_testkit::contract::Contract;
use farwood_testkit::harness::{peek, place};
use farwood_testkit::litmus::is_whole;
use farwood_testkit::litmus::{Litmus, Report, expect_kept, server_litmus, server_stores, server_upward};
use std::io::Write as _;

/// Tries of each litmus program.
const ITERATIONS: u64 = 2_000;

/// Something to read in the test's output that is no verdict.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn lab(card: &str) -> Simulator {
    Simulator::new(WorldSpec::small(Card::named(card).unwrap()))
}

#[test]
fn it_keeps_the_contract_on_every_card() {
    for card in Card::names() {
        let lab = lab(card);
        for (name, check) in Contract::<Simulator>::CHECKS.iter().chain(Contract::<Simulator>::SERVER_CHECKS)
        {
            tell(&format!("{card} {name}"));
            check(&lab);
        }
    }
}

#[test]
fn it_keeps_its_promises_on_every_card() {
    for card in Card::names() {
        let lab = lab(card);
        let mut reports: Vec<Report> =
            Litmus::<Simulator>::PROGRAMS.iter().map(|(_, program)| program(&lab, ITERATIONS)).collect();
        reports.extend([server_litmus(&lab, ITERATIONS), server_upward(&lab, ITERATIONS)]);
        reports.extend(server_stores(&lab, ITERATIONS));
        for report in &reports {
            tell(&format!("{card}: {report}"));
        }
        expect_kept(&reports);
        if card.starts_with("cx") {
            // What cards do not promise, and what the laboratory has to show.
            let beside = reports.iter().find(|report| report.name.contains("WRITE beside an atomic"));
            assert!(beside.is_some_and(|report| report.violations > 0), "{card}: no WRITE was lost");
        }
    }
}

/// A world whose PCIe is slow and uneven: transfers last, and overtake each other in their middle. It must not be so
/// slow that a client that only writes fills the NIC faster than it empties.
fn uneven(bytes_per_ns: f64) -> WorldSpec {
    let mut card = Card::named("cx5-100g").unwrap();
    card.pcie.bytes_per_ns = bytes_per_ns;
    WorldSpec { stretch: 8, ..WorldSpec::small(card) }
}

/// Programs over at most a KiB.
const SMALL: [&str; 6] = [
    "whole 64",
    "version pair 64",
    "version pair 256",
    "version pair 1024",
    "write upward",
    "write then write",
];

#[test]
fn it_keeps_its_promises_where_transfers_overtake_each_other() {
    noticed(&uneven(4.0), &[], &SMALL);
}

/// A laboratory that promises what the NICs do, and keeps less.
fn lying(withdraw: impl Fn(&mut Capabilities)) -> WorldSpec {
    let mut spec = uneven(4.0);
    withdraw(&mut spec.kept);
    spec
}

/// What the programs of these names see there.
fn seen(spec: &WorldSpec, names: &[&str]) -> Vec<Report> {
    let programs = Litmus::<Simulator>::PROGRAMS.iter().filter(|(name, _)| names.contains(name));
    let reports: Vec<_> =
        programs.map(|(_, program)| program(&Simulator::new(spec.clone()), ITERATIONS)).collect();
    assert_eq!(reports.len(), names.len(), "programs of these names: {names:?}");
    for report in &reports {
        tell(&report.to_string());
    }
    reports
}

/// The programs `noticing` find out that a promise is withdrawn, and those that are about others, `unmoved`, do not.
fn noticed(spec: &WorldSpec, noticing: &[&str], unmoved: &[&str]) {
    for report in seen(spec, noticing) {
        assert!(report.failed(), "{report}");
    }
    for report in seen(spec, unmoved) {
        assert!(report.violations == 0 && report.met > 0, "{report}");
    }
}

#[test]
fn version_pairs_that_prove_nothing_are_noticed() {
    let spec = lying(|kept| kept.version_pair_bytes_max = 0);
    noticed(&spec, &["version pair 256", "version pair 1024"], &["whole 64", "write then write"]);
}

#[test]
fn lines_that_are_not_whole_are_noticed() {
    let mut spec = lying(|kept| kept.whole_bytes = 8);
    spec.card.pcie.bytes_per_ns = 0.2;
    noticed(&spec, &["whole 16", "whole 32", "whole 64"], &["whole 8", "write then write"]);
}

/// Promises that only whole lines keep: nodes of a spatial index are checked by them.
#[test]
fn lines_of_a_server_that_are_read_in_halves_are_noticed() {
    let mut spec = lying(|kept| kept.whole_bytes = 8);
    spec.card.pcie.bytes_per_ns = 0.2;
    let [lines, _] = server_stores(&Simulator::new(spec), ITERATIONS);
    assert!(lines.failed() && lines.met > 0, "{lines}");
}

#[test]
fn writes_that_are_not_placed_upward_are_noticed() {
    let spec = lying(|kept| kept.write_upward = false);
    let report = server_upward(&Simulator::new(spec.clone()), ITERATIONS);
    assert!(report.failed(), "{report}");
    noticed(&spec, &[], &["whole 64", "write then write"]);
}

#[test]
fn reads_that_overtake_atomics_are_noticed() {
    let spec = lying(|kept| kept.atomic_then_read = false);
    noticed(&spec, &["atomic then read", "device atomic then read"], &["write then write", "whole 64"]);
}

#[test]
fn writes_that_arrivals_miss_are_noticed() {
    let spec = lying(|kept| kept.arrival_sees_write = false);
    let noticing = [
        "arrival sees write, handed over by device memory",
        "arrival sees write, crossed",
        "arrival sees write, crossed chains",
    ];
    noticed(&spec, &noticing, &["write then write", "whole 64"]);
}

#[test]
fn writes_through_another_nic_are_missed() {
    let spec = WorldSpec { nics: 2, ..lying(|_| {}) };
    let noticing = ["arrival sees write, handed over by device memory", "arrival sees write, crossed"];
    noticed(&spec, &noticing, &["whole 64"]);
}

#[test]
fn masks_that_are_ignored_are_noticed() {
    let spec = lying(|kept| kept.masked_cas = false);
    noticed(&spec, &["masked CAS of neighbours"], &["atomic then read"]);
}

#[test]
fn writes_that_a_failed_cas_undoes_are_noticed() {
    let spec = lying(|kept| kept.write_beside_cas = false);
    noticed(&spec, &["unlock by WRITE"], &["write then write", "whole 64"]);
}

#[test]
fn a_processor_that_does_not_see_writes_is_noticed() {
    let mut spec = lying(|_| {});
    spec.promised.cpu_sees_write = true;
    let report = server_litmus(&Simulator::new(spec.clone()), ITERATIONS);
    assert!(report.failed(), "{report}");
    noticed(&spec, &[], &["arrival sees write, crossed", "write then write"]);
}

/// Bytes of a WRITE whose writer dies.
const BYTES: usize = 1024;

/// What is left of a WRITE whose writer crashes at each nanosecond of its way.
fn left_by_the_dead(spec: &WorldSpec) -> u64 {
    let crash = Fault::Crash { compute_node: 0, point: CrashPoint::At };
    let torn = (0..2_000).filter(|&time| {
        let rules = vec![Rule { when: When::Time(time), fault: crash }];
        let world =
            World::new(WorldSpec { rules, host_bytes: 16 << 20, memory_nodes: 1, ..spec.clone() }).unwrap();
        let at = place(NodeId(0), Memory::Host, 8 << 20);
        let clients = [world.client(0), world.client(1)];
        let mut crew = world.crew();
        let fill = async |client: &Client<_>| client.post(write(at, &[7; BYTES])).await.map(drop);
        crew.spawn(&clients[0], async { fill(&clients[0]).await.expect("nobody tells the dead") });
        crew.run().expect("the dead wait for nothing");
        drop(crew);
        let left = world.block_on(async {
            farwood_fabric::Fabric::sleep(clients[1].fabric(), 100_000).await;
            peek(&clients[1], at, BYTES).await.unwrap()
        });
        !is_whole(&left)
    });
    torn.count() as u64
}

#[test]
fn writes_that_die_with_their_writer_are_noticed() {
    assert_eq!(left_by_the_dead(&lying(|_| {})), 0);
    assert!(left_by_the_dead(&lying(|kept| kept.write_survives_writer_bytes_max = BYTES - 1)) > 10);
    assert_eq!(left_by_the_dead(&lying(|kept| kept.write_survives_writer_bytes_max = BYTES)), 0);
}
