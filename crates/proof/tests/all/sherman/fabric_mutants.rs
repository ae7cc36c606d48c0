//! Fabrics that break what they promise, under a Sherman that believes them: the checks of the seeds must notice,
//! each within a few seeds, and nothing where the fabric is intact. A canary that lives shows that the checks are
//! blind to its kind of fault.

use farwood_fabric::Capabilities;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::sherman::Variant;
use farwood_proof::seeds::canary;
use farwood_proof::seeds::loopback::{Case, Fabric, outcome};
use farwood_testkit::loopback::{Bug, Copying, Faults};

/// Seeds within which every fault must be noticed.
const SEEDS: u64 = 60;
/// Polls after which a run is stuck: many times what a run takes.
const POLLS_MAX: u64 = 1_500_000;

/// Runs what `broken` makes of the intact case.
fn caught(name: &str, intact: impl Fn(u64) -> Case, broken: impl Fn(&mut Case)) {
    let intact = |seed| Case { polls_max: POLLS_MAX, ..intact(seed) };
    canary::caught(name, SEEDS, outcome, intact, broken);
}

/// A run on shared memory of one variant, with 64-bit locks and version pairs.
fn plain(variant: Variant) -> impl Fn(u64) -> Case {
    move |seed| {
        let mut case = Case::on(seed, Fabric::SharedMemory);
        case.plan.config.options = variant.options();
        case.plan.config.consistency = Some(Consistency::Versions);
        case.settings.faults.atomic_swallows = false;
        case
    }
}

fn faulty(name: &str, fault: impl Fn(&mut Faults)) {
    caught(name, plain(Variant::Sherman), |case| fault(&mut case.settings.faults));
}

fn buggy(name: &str, intact: impl Fn(u64) -> Case, bug: Bug) {
    caught(name, intact, |case| case.settings.bug = Some(bug));
}

/// READs that overtake WRITEs, under hashes, which notice; and under version pairs, of which the fabric says that they
/// do.
#[test]
fn version_pairs_where_reads_overtake() {
    let hashes = |seed| {
        let mut case = Case::on(seed, Fabric::Overtaking);
        case.plan.config.options = Variant::Sherman.options();
        case.plan.config.consistency = Some(Consistency::Checksum);
        case
    };
    caught("reads overtake", hashes, |case| {
        case.plan.config.consistency = Some(Consistency::Versions);
        let promises = Capabilities { version_pair_bytes_max: usize::MAX, ..case.settings.promises };
        case.settings.promises = promises;
    });
}

#[test]
fn version_pairs_where_writes_are_placed_downward() {
    faulty("writes downward", |faults| faults.writes = Copying::Downward);
}

#[test]
fn unlocks_before_their_write_back() {
    buggy("chains reversed", plain(Variant::Sherman), Bug::ChainReversed);
    faulty("writes overtake", |faults| faults.write_overtakes = true);
}

#[test]
fn write_backs_that_the_next_holder_does_not_see() {
    faulty("writes linger", |faults| faults.write_lingers = true);
}

/// Soft-RoCE on several processors does this. Where it is known, locks are released by FAA.
#[test]
fn unlocks_by_write_where_a_failed_cas_stores() {
    let known = |seed| {
        let mut case = plain(Variant::Sherman)(seed);
        case.settings.faults.failed_cas_stores = true;
        case.settings.promises.write_beside_cas = false;
        case
    };
    caught("a failed CAS stores", known, |case| case.settings.promises.write_beside_cas = true);
}

#[test]
fn locks_that_two_can_take() {
    faulty("atomics race", |faults| faults.atomic_races = true);
    buggy("a lost CAS stores", plain(Variant::Fg), Bug::CasAlwaysSwaps);
    buggy("a lost CAS wins", plain(Variant::Sherman), Bug::CasClaimsToWin);
    buggy("the living are revoked", plain(Variant::Sherman), Bug::RevokesTheLiving);
}

#[test]
fn roots_that_two_can_replace() {
    let growing = |seed| {
        let mut case = Case::growing(seed);
        // A lock survives this bug: its holder's WRITE frees it, whoever it names.
        case.plan.config.options = Variant::Sherman.options();
        case
    };
    buggy("the loser replaces the root", growing, Bug::CasAlwaysSwaps);
}

#[test]
fn locks_that_do_not_come_free() {
    buggy("FAA saturates", plain(Variant::Fg), Bug::AddSaturates);
    let packed = |seed| {
        let mut case = plain(Variant::Sherman)(seed);
        case.plan.config.options.lock.width = LockWidth::Packed;
        case
    };
    buggy("masks are ignored", packed, Bug::MaskIgnored);
}

#[test]
fn bytes_that_are_not_what_was_written() {
    buggy("reads are short", plain(Variant::Sherman), Bug::ReadShort);
    let odd_keys = |seed| {
        let mut case = plain(Variant::Sherman)(seed);
        case.plan.config.sizes.key_bytes = 13;
        case
    };
    buggy("neighbours are spoiled", odd_keys, Bug::NeighbourSpoiled);
}

#[test]
fn unlocks_of_dropped_operations_that_get_lost() {
    buggy("detached verbs are lost", Case::with_drops, Bug::DetachedLost);
    buggy("dropped posts are taken back", Case::with_drops, Bug::CancelTakesBack);
}
