//! Trees that are broken on purpose, in the laboratory: its checks must notice each within a bounded number of seeds. A
//! canary that lives shows that the laboratory is blind to its kind of fault.

use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::sabotage::Sabotage;
use farwood_index::sherman::Variant;
use farwood_proof::seeds::laboratory::{Case, outcome};

/// Seeds within which every fault must be noticed.
const SEEDS: u64 = 400;
/// Virtual time after which a run is stuck, nanoseconds, many times what it takes: a broken tree may run in circles.
const NANOSECONDS_MAX: u64 = 200_000_000;

/// Runs seeds until one fails.
fn caught(name: &str, case: impl Fn(u64) -> Case) {
    let noticed = (0..SEEDS).find_map(|seed| outcome(&case(seed)).err().map(|what| (seed, what)));
    report(name, noticed.as_ref());
    assert!(noticed.is_some(), "{name} is not noticed within {SEEDS} seeds");
}

#[expect(clippy::print_stdout, reason = "which check noticed is for people who look")]
fn report(name: &str, noticed: Option<&(u64, String)>) {
    if let Some((seed, what)) = noticed {
        println!("{name}: seed {seed}: {}", what.lines().next().unwrap_or_default());
    }
}

/// A run without faults of one variant, with 64-bit locks and version pairs, where transfers overtake each other.
fn plain(seed: u64, variant: Variant) -> Case {
    let mut case = Case::calm(seed);
    case.plan.config.options = variant.options();
    case.plan.config.options.lock.width = LockWidth::Word;
    case.plan.config.consistency = Some(Consistency::Versions);
    case.spec.stretch = 8;
    case.spec.card.pcie.bytes_per_ns = 0.2;
    case.nanoseconds_max = NANOSECONDS_MAX;
    case
}

fn broken(sabotage: Sabotage) -> impl Fn(u64) -> Case {
    move |seed| Case { sabotage: Some(sabotage), ..plain(seed, Variant::Sherman) }
}

#[test]
fn intact_trees_are_right() {
    for seed in 0..40 {
        if let Err(what) = outcome(&plain(seed, Variant::Sherman)) {
            panic!("seed {seed}: {what}");
        }
    }
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
    caught("the cache believed", |seed| {
        let mut case = broken(Sabotage::CacheBelieved)(seed);
        case.plan.cache_bytes = 1 << 20;
        case
    });
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
    caught("reads overtake", |seed| {
        let mut case = plain(seed, Variant::Sherman);
        case.spec.kept.version_pair_bytes_max = 0;
        case
    });
}

#[test]
fn write_backs_that_the_next_holder_does_not_see() {
    caught("arrivals miss writes", |seed| {
        let mut case = plain(seed, Variant::Sherman);
        case.spec.kept.arrival_sees_write = false;
        case
    });
}

#[test]
fn a_lease_that_expires_under_a_frozen_client() {
    caught("the lease expires", |seed| {
        let mut case = Case { sabotage: Some(Sabotage::LeaseExpires), ..Case::of(seed) };
        case.plan.config.options = Variant::Sherman.options();
        case
    });
}
