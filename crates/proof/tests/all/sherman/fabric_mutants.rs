//! Fabrics that break promises on which Sherman relies: the checks must notice each fault within a few seeds, and must
//! accept the intact fabric on the same seed.

use farwood_fabric::Capabilities;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::System;
use farwood_index::sherman::ShermanVariant;
use farwood_proof::seeds::loopback::{Copies, LoopbackCase, outcome};
use farwood_proof::seeds::mutants;
use farwood_testkit::loopback::{Bug, Copying, Faults};

/// Seeds within which every fault must be noticed.
const SEEDS: u64 = 60;
/// Polls after which a run counts as stuck: many times the usual number.
const POLLS_MAX: u64 = 1_500_000;

/// Expects that the fault that `mutate` adds to the intact case is noticed.
fn noticed(name: &str, intact: impl Fn(u64) -> LoopbackCase, mutate: impl Fn(&mut LoopbackCase)) {
    let intact = |seed| LoopbackCase { polls_max: POLLS_MAX, ..intact(seed) };
    mutants::expect_noticed(name, SEEDS, outcome, intact, mutate);
}

/// A run of one variant on a fabric that copies as shared memory does, with 64-bit locks and version pairs.
fn plain(variant: ShermanVariant) -> impl Fn(u64) -> LoopbackCase {
    move |seed| {
        let mut case = LoopbackCase::on(System::Sherman, seed, Copies::SharedMemory);
        case.plan.sherman().options = variant.features();
        case.plan.sherman().consistency = Some(Consistency::Versions);
        case.settings.faults.atomic_loses_writes = false;
        case
    }
}

fn faulty_fabric(name: &str, fault: impl Fn(&mut Faults)) {
    noticed(name, plain(ShermanVariant::Sherman), |case| fault(&mut case.settings.faults));
}

fn buggy_fabric(name: &str, intact: impl Fn(u64) -> LoopbackCase, bug: Bug) {
    noticed(name, intact, |case| case.settings.bug = Some(bug));
}

/// READs overtake WRITEs. Checksums detect the torn copies; version pairs do not, though the fabric promises it.
#[test]
fn version_pairs_are_detected_if_reads_overtake() {
    let hashes = |seed| {
        let mut case = LoopbackCase::on(System::Sherman, seed, Copies::Overtaking);
        case.plan.sherman().options = ShermanVariant::Sherman.features();
        case.plan.sherman().consistency = Some(Consistency::Checksum);
        case
    };
    noticed("reads overtake", hashes, |case| {
        case.plan.sherman().consistency = Some(Consistency::Versions);
        let promises = Capabilities { version_pair_bytes_max: usize::MAX, ..case.settings.promises };
        case.settings.promises = promises;
    });
}

#[test]
fn version_pairs_are_detected_if_writes_are_placed_downward() {
    faulty_fabric("writes downward", |faults| faults.writes = Copying::Downward);
}

#[test]
fn unlocks_before_the_write_back_are_detected() {
    buggy_fabric("chains reversed", plain(ShermanVariant::Sherman), Bug::ChainReversed);
    faulty_fabric("writes overtake", |faults| faults.write_overtakes = true);
}

#[test]
fn write_backs_that_the_next_holder_misses_are_detected() {
    faulty_fabric("writes are late", |faults| faults.write_is_late = true);
}

/// Soft-RoCE on several processors does this. If the fabric says so, locks are released by FAA.
#[test]
fn unlocks_by_write_are_detected_if_a_failed_cas_stores() {
    let declared = |seed| {
        let mut case = plain(ShermanVariant::Sherman)(seed);
        case.settings.faults.failed_cas_stores = true;
        case.settings.promises.write_beside_cas = false;
        case
    };
    noticed("a failed CAS stores", declared, |case| case.settings.promises.write_beside_cas = true);
}

#[test]
fn locks_that_two_clients_can_take_are_detected() {
    faulty_fabric("atomics race", |faults| faults.atomic_races = true);
    buggy_fabric("a failed CAS stores its word", plain(ShermanVariant::Fg), Bug::CasAlwaysSwaps);
    buggy_fabric("a failed CAS reports success", plain(ShermanVariant::Sherman), Bug::CasReportsSuccess);
    buggy_fabric("live clients are revoked", plain(ShermanVariant::Sherman), Bug::RevokesLiveClients);
}

#[test]
fn roots_that_two_clients_can_replace_are_detected() {
    let growing = |seed| {
        let mut case = LoopbackCase::growing(seed);
        // This fault does not affect locks: the WRITE of the holder releases a lock even if the word names another
        // client.
        case.plan.sherman().options = ShermanVariant::Sherman.features();
        case
    };
    buggy_fabric("the loser replaces the root", growing, Bug::CasAlwaysSwaps);
}

#[test]
fn locks_that_stay_held_are_detected() {
    buggy_fabric("FAA saturates", plain(ShermanVariant::Fg), Bug::AddSaturates);
    let packed = |seed| {
        let mut case = plain(ShermanVariant::Sherman)(seed);
        case.plan.sherman().options.lock.width = LockWidth::Packed;
        case
    };
    buggy_fabric("masks are ignored", packed, Bug::MaskIgnored);
}

#[test]
fn bytes_that_were_never_written_are_detected() {
    buggy_fabric("reads are short", plain(ShermanVariant::Sherman), Bug::ReadShort);
    let odd_keys = |seed| {
        let mut case = plain(ShermanVariant::Sherman)(seed);
        case.plan.sherman().sizes.key_bytes = 13;
        case
    };
    buggy_fabric("neighbours are cleared", odd_keys, Bug::NeighbourCleared);
}

fn with_drops(seed: u64) -> LoopbackCase {
    LoopbackCase::with_drops(System::Sherman, seed)
}

#[test]
fn lost_unlocks_of_dropped_operations_are_detected() {
    buggy_fabric("detached verbs are lost", with_drops, Bug::DetachedLost);
}

/// A dropped operation frees its lock by a separate verb, whether or not its last post was executed.
#[test]
fn cancelled_posts_of_dropped_operations_are_harmless() {
    for seed in 0..SEEDS {
        let mut case = LoopbackCase { polls_max: POLLS_MAX, ..with_drops(seed) };
        case.settings.bug = Some(Bug::DropCancels);
        let ended = outcome(&case);
        assert!(ended.is_ok(), "seed {seed}: {ended:?}");
    }
}
