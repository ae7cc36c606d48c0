//! Changes that depend on the value of a key: on the loopback fabric, and in the simulator with faults. Each is one
//! step of a linearizable history.
//!
//! `FARWOOD_SEEDS=5000` runs more seeds, `FARWOOD_SEEDS=17..18` one; a failure prints the command that repeats it.

use farwood_index::mutant::Mutant;
use farwood_index::ordered::System;
use farwood_index::smart::{SmartConfig, SmartVariant};
use farwood_proof::seeds::loopback::{self, LoopbackCase};
use farwood_proof::seeds::mutants::expect_noticed;
use farwood_proof::seeds::runner;
use farwood_proof::seeds::simulator::{self, SimulatorCase};
use farwood_proof::workload::EXCHANGING;
use farwood_testkit::campaign::size;

/// Seeds within which the mutant must be noticed.
const MUTANT_SEEDS: u64 = 100;

/// A run on the loopback fabric. A third of the Sherman trees have values of any length.
fn exchanging(system: System, seed: u64) -> LoopbackCase {
    let mut case = LoopbackCase::new(system, seed);
    (case.plan.mix, case.plan.keys) = (EXCHANGING, [3, 12, 40][(seed % 3) as usize]);
    if system == System::Sherman && seed.is_multiple_of(3) {
        case.plan.use_any_length();
    }
    case
}

fn interleaved(test: &str, system: System) {
    let case = |seed| exchanging(system, seed);
    runner::expect_success((module_path!(), test), size(60, 240), case, loopback::outcome);
}

#[test]
fn sherman_exchanges_are_explained() {
    interleaved("sherman_exchanges_are_explained", System::Sherman);
}

#[test]
fn smart_exchanges_are_explained() {
    interleaved("smart_exchanges_are_explained", System::Smart);
}

#[test]
fn sphinx_exchanges_are_explained() {
    interleaved("sphinx_exchanges_are_explained", System::Sphinx);
}

/// SMART combines puts and updates of a key, and executes each exchange alone.
#[test]
fn exchanges_beside_combined_writes_are_explained() {
    let case = |seed| {
        let mut case = exchanging(System::Smart, seed);
        let options = SmartVariant::WriteCombining.features();
        case.plan.use_smart(SmartConfig { options, ..SmartConfig::default() });
        (case.plan.keys, case.compute_nodes, case.clients) = (1 + seed % 3, 2, 8);
        case.plan.mix.exchanges = 30;
        case
    };
    let test = (module_path!(), "exchanges_beside_combined_writes_are_explained");
    runner::expect_success(test, size(60, 240), case, loopback::outcome);
}

/// Operations are dropped before they are answered: no lock stays held.
#[test]
fn dropped_exchanges_leave_no_lock() {
    let case = |seed| {
        let mut case = LoopbackCase::with_drops(System::ALL[(seed % 3) as usize], seed);
        case.plan.mix = EXCHANGING;
        case
    };
    let test = (module_path!(), "dropped_exchanges_leave_no_lock");
    runner::expect_success(test, size(60, 240), case, loopback::outcome);
}

/// A third of the seeds has each system; every error is explained by a fault.
#[test]
fn exchanges_with_faults_are_explained() {
    let case = |seed| {
        let mut case = SimulatorCase::with_faults(System::ALL[(seed % 3) as usize], seed);
        case.plan.mix = EXCHANGING;
        case
    };
    let test = (module_path!(), "exchanges_with_faults_are_explained");
    runner::expect_success(test, size(40, 240), case, simulator::outcome);
}

#[test]
fn a_decision_without_the_lock_is_noticed() {
    for system in System::ALL {
        let name = format!("{system}: decides unlocked");
        let mutate = |case: &mut LoopbackCase| case.mutant = Some(Mutant::DecidesUnlocked);
        let intact = |seed| exchanging(system, seed);
        expect_noticed(&name, MUTANT_SEEDS, loopback::outcome, intact, mutate);
    }
}
