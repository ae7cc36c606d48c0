//! The simulator keeps the contract and its promises. A promise that it breaks is noticed, whether it is declared or
//! not.

use farwood_fabric::{Capabilities, Client, Memory, NodeId, write};
use farwood_proof::simulator::Simulator;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_sim::{NicModel, World, WorldSpec};
use farwood_testkit::campaign::size;
use farwood_testkit::contract::Contract;
use farwood_testkit::harness::{raw_address, read_raw};
use farwood_testkit::litmus::is_whole;
use farwood_testkit::litmus::{
    Litmus, LitmusReport, expect_kept, server_litmus, server_stores, server_upward,
};
use std::io::Write as _;

/// Tries of each litmus program.
const ITERATIONS: u64 = 2_000;

/// Prints a line for readers of the test's output.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn simulator(card: &str) -> Simulator {
    Simulator::new(WorldSpec::small(NicModel::named(card).unwrap()))
}

#[test]
fn the_contract_holds_on_every_nic() {
    for card in NicModel::names() {
        let simulator = simulator(card);
        for (name, check) in Contract::<Simulator>::CHECKS.iter().chain(Contract::<Simulator>::SERVER_CHECKS)
        {
            print(&format!("{card} {name}"));
            check(&simulator);
        }
    }
}

#[test]
fn promises_hold_on_every_nic() {
    let iterations = size(500, ITERATIONS);
    for card in NicModel::names() {
        let simulator = simulator(card);
        let mut reports: Vec<LitmusReport> = Litmus::<Simulator>::PROGRAMS
            .iter()
            .map(|(_, program)| program(&simulator, iterations))
            .collect();
        reports.extend([server_litmus(&simulator, iterations), server_upward(&simulator, iterations)]);
        reports.extend(server_stores(&simulator, iterations));
        for report in &reports {
            print(&format!("{card}: {report}"));
        }
        expect_kept(&reports);
        if card.starts_with("cx") {
            // NICs do not promise this, so the simulator must show it.
            let beside = reports.iter().find(|report| report.name.contains("WRITE beside an atomic"));
            assert!(beside.is_some_and(|report| report.violations > 0), "{card}: no WRITE was lost");
        }
    }
}

/// A world whose PCIe bus is slow and uneven: transfers take long, and overtake each other. A client that only writes
/// must not fill the NIC faster than the NIC sends.
fn uneven(bytes_per_ns: f64) -> WorldSpec {
    let mut card = NicModel::named("cx5-100g").unwrap();
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
fn promises_hold_if_transfers_overtake_each_other() {
    noticed(&uneven(4.0), &[], &SMALL);
}

/// A simulator that promises what NICs promise, and breaks some of it.
fn breaking(withdraw: impl Fn(&mut Capabilities)) -> WorldSpec {
    let mut spec = uneven(4.0);
    withdraw(&mut spec.kept);
    spec
}

/// Runs the programs of these names; yields their reports.
fn reports_of(spec: &WorldSpec, names: &[&str]) -> Vec<LitmusReport> {
    let programs = Litmus::<Simulator>::PROGRAMS.iter().filter(|(name, _)| names.contains(name));
    let reports: Vec<_> =
        programs.map(|(_, program)| program(&Simulator::new(spec.clone()), ITERATIONS)).collect();
    assert_eq!(reports.len(), names.len(), "programs of these names: {names:?}");
    for report in &reports {
        print(&report.to_string());
    }
    reports
}

/// Checks that the programs `noticing` detect a broken promise, and that the programs `unmoved`, which test other
/// promises, succeed.
fn noticed(spec: &WorldSpec, noticing: &[&str], unmoved: &[&str]) {
    for report in reports_of(spec, noticing) {
        assert!(report.failed(), "{report}");
    }
    for report in reports_of(spec, unmoved) {
        assert!(report.violations == 0 && report.met > 0, "{report}");
    }
}

#[test]
fn version_pairs_that_prove_nothing_are_detected() {
    let spec = breaking(|kept| kept.version_pair_bytes_max = 0);
    noticed(&spec, &["version pair 256", "version pair 1024"], &["whole 64", "write then write"]);
}

#[test]
fn reads_that_take_long_are_detected() {
    let mut spec = breaking(|_| {});
    spec.card.pcie.bytes_per_ns = 0.05;
    noticed(&spec, &["brief read"], &["whole 8"]);
}

#[test]
fn lines_that_are_not_whole_are_detected() {
    let mut spec = breaking(|kept| kept.whole_bytes = 8);
    spec.card.pcie.bytes_per_ns = 0.2;
    noticed(&spec, &["whole 16", "whole 32", "whole 64"], &["whole 8", "write then write"]);
}

/// Nodes of a spatial index rely on lines that are read whole.
#[test]
fn lines_of_a_server_that_are_read_in_halves_are_detected() {
    let mut spec = breaking(|kept| kept.whole_bytes = 8);
    spec.card.pcie.bytes_per_ns = 0.2;
    let [lines, _] = server_stores(&Simulator::new(spec), ITERATIONS);
    assert!(lines.failed() && lines.met > 0, "{lines}");
}

#[test]
fn writes_that_are_not_placed_upward_are_detected() {
    let spec = breaking(|kept| kept.write_upward = false);
    let report = server_upward(&Simulator::new(spec.clone()), ITERATIONS);
    assert!(report.failed(), "{report}");
    noticed(&spec, &[], &["whole 64", "write then write"]);
}

#[test]
fn reads_that_overtake_atomics_are_detected() {
    let spec = breaking(|kept| kept.atomic_then_read = false);
    noticed(&spec, &["atomic then read", "device atomic then read"], &["write then write", "whole 64"]);
}

#[test]
fn writes_that_arrivals_miss_are_detected() {
    let spec = breaking(|kept| kept.arrival_sees_write = false);
    let noticing = [
        "arrival sees write, handed over by device memory",
        "arrival sees write, crossed",
        "arrival sees write, crossed chains",
    ];
    noticed(&spec, &noticing, &["write then write", "whole 64"]);
}

#[test]
fn writes_through_another_nic_are_missed() {
    let spec = WorldSpec { nics: 2, ..breaking(|_| {}) };
    let noticing = ["arrival sees write, handed over by device memory", "arrival sees write, crossed"];
    noticed(&spec, &noticing, &["whole 64"]);
}

#[test]
fn masks_that_are_ignored_are_detected() {
    let spec = breaking(|kept| kept.masked_cas = false);
    noticed(&spec, &["masked CAS of neighbours"], &["atomic then read"]);
}

#[test]
fn writes_that_a_failed_cas_undoes_are_detected() {
    let spec = breaking(|kept| kept.write_beside_cas = false);
    noticed(&spec, &["unlock by WRITE"], &["write then write", "whole 64"]);
}

#[test]
fn a_processor_that_does_not_see_writes_is_noticed() {
    let mut spec = breaking(|_| {});
    spec.promised.cpu_sees_write = true;
    let report = server_litmus(&Simulator::new(spec.clone()), ITERATIONS);
    assert!(report.failed(), "{report}");
    noticed(&spec, &[], &["arrival sees write, crossed", "write then write"]);
}

/// Bytes of a WRITE whose writer crashes.
const BYTES: usize = 1024;

/// Crashes the writer of a WRITE at each nanosecond of its transfer; yields the number of torn results.
fn torn_by_crashes(spec: &WorldSpec) -> u64 {
    let crash = Fault::Crash { compute_node: 0, point: CrashPoint::At };
    let torn = (0..2_000).filter(|&time| {
        let rules = vec![FaultRule { when: FaultTrigger::Time(time), fault: crash }];
        let world =
            World::new(WorldSpec { rules, host_bytes: 16 << 20, memory_nodes: 1, ..spec.clone() }).unwrap();
        let at = raw_address(NodeId(0), Memory::Host, 8 << 20);
        let clients = [world.client(0), world.client(1)];
        let mut group = world.task_group();
        let fill = async |client: &Client<_>| client.post(write(at, &[7; BYTES])).await.map(drop);
        group.spawn(&clients[0], async { fill(&clients[0]).await.expect("a WRITE") });
        group.run().expect("all clients end");
        drop(group);
        let left = world.block_on(async {
            farwood_fabric::Fabric::sleep(clients[1].fabric(), 100_000).await;
            read_raw(&clients[1], at, BYTES).await.unwrap()
        });
        !is_whole(&left)
    });
    torn.count() as u64
}

#[test]
fn writes_that_a_crash_tears_are_detected() {
    assert_eq!(torn_by_crashes(&breaking(|_| {})), 0);
    assert!(torn_by_crashes(&breaking(|kept| kept.write_survives_writer_bytes_max = BYTES - 1)) > 10);
    assert_eq!(torn_by_crashes(&breaking(|kept| kept.write_survives_writer_bytes_max = BYTES)), 0);
}
