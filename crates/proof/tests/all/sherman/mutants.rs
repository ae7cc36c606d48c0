//! Trees that are broken on purpose, in the laboratory: its checks must notice each within a bounded number of seeds,
//! and find nothing where the same seed is run with an intact tree. A canary that lives shows that the laboratory is
//! blind to its kind of fault.

use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::sabotage::Sabotage;
use farwood_index::sherman::Variant;
use farwood_proof::seeds::canary;
use farwood_proof::seeds::laboratory::{Case, outcome};
use farwood_proof::sherman::{CHURNING, MIXED};

/// Seeds within which every fault must be noticed.
const SEEDS: u64 = 400;
/// Virtual time after which a run is stuck, nanoseconds, many times what it takes: a broken tree may run in circles.
const NANOSECONDS_MAX: u64 = 200_000_000;

fn caught(name: &str, broken: impl Fn(&mut Case)) {
    canary::caught(name, SEEDS, outcome, plain, broken);
}

/// A run without faults, with 64-bit locks and version pairs, where transfers overtake each other.
fn plain(seed: u64) -> Case {
    let mut case = Case::calm(seed);
    case.plan.config.options = Variant::Sherman.options();
    case.plan.config.options.lock.width = LockWidth::Word;
    case.plan.config.consistency = Some(Consistency::Versions);
    case.spec.stretch = 8;
    case.spec.card.pcie.bytes_per_ns = 0.2;
    case.nanoseconds_max = NANOSECONDS_MAX;
    case
}

fn broken(sabotage: Sabotage) -> impl Fn(&mut Case) {
    move |case| case.sabotage = Some(sabotage)
}

#[test]
fn an_unlock_before_the_write_back() {
    caught("unlock first", broken(Sabotage::UnlockFirst));
}

#[test]
fn no_rear_version() {
    caught("no rear version", broken(Sabotage::NoRearVersion));
}

#[test]
fn no_fence_check() {
    caught("no fence check", broken(Sabotage::NoFenceCheck));
}

#[test]
fn a_stale_cache_believed() {
    let large_cache = |seed| {
        let mut case = plain(seed);
        case.plan.cache_bytes = 1 << 20;
        case
    };
    canary::caught("the cache believed", SEEDS, outcome, large_cache, broken(Sabotage::CacheBelieved));
}

#[test]
fn a_miss_among_torn_entries() {
    caught("torn is absent", broken(Sabotage::TornIsAbsent));
}

#[test]
fn a_scan_that_does_not_look_where_leaves_begin() {
    caught("scan blind", broken(Sabotage::ScanBlind));
}

#[test]
fn version_pairs_where_reads_overtake() {
    caught("reads overtake", |case| case.spec.kept.version_pair_bytes_max = 0);
}

#[test]
fn write_backs_that_the_next_holder_does_not_see() {
    caught("arrivals miss writes", |case| case.spec.kept.arrival_sees_write = false);
}

/// A tree whose leaves come and go, in the caches of everybody.
fn churning(seed: u64) -> Case {
    let mut case = plain(seed);
    (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (90, CHURNING, 1 << 20);
    case
}

#[test]
fn a_merge_that_does_not_mark_the_node_that_goes() {
    canary::caught("merge unmarked", SEEDS, outcome, churning, broken(Sabotage::MergeUnmarked));
}

#[test]
fn a_value_believed_without_looking_what_it_is() {
    let faulty = |seed| {
        let mut case = plain(seed).with_any_length();
        (case.plan.keys, case.plan.mix) = (12, MIXED);
        case
    };
    canary::caught("extent believed", SEEDS, outcome, faulty, broken(Sabotage::ExtentBelieved));
}

#[test]
fn a_lease_that_expires_under_a_frozen_client() {
    let faulty = |seed| {
        let mut case = Case::of(seed);
        case.plan.config.options = Variant::Sherman.options();
        case
    };
    canary::caught("the lease expires", SEEDS, outcome, faulty, broken(Sabotage::LeaseExpires));
}
