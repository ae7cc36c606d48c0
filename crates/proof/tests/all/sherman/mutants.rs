//! Sherman trees that are broken deliberately, in the simulator: its checks must notice each mutant within a bounded
//! number of seeds, and must accept the intact tree on the same seed.

use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::mutant::Mutant;
use farwood_index::ordered::System;
use farwood_index::sherman::ShermanVariant;
use farwood_proof::seeds::mutants;
use farwood_proof::seeds::simulator::{SimulatorCase, outcome};
use farwood_proof::workload::{CHURNING, MIXED};

/// Seeds within which every mutant must be noticed.
const SEEDS: u64 = 400;
/// Virtual time after which a run counts as stuck, nanoseconds, many times the usual time: a mutant may loop.
const NANOSECONDS_MAX: u64 = 200_000_000;

fn noticed(name: &str, mutate: impl Fn(&mut SimulatorCase)) {
    mutants::expect_noticed(name, SEEDS, outcome, plain, mutate);
}

/// A run without faults, with 64-bit locks and version pairs, whose transfers overtake each other.
fn plain(seed: u64) -> SimulatorCase {
    let mut case = SimulatorCase::new(System::Sherman, seed);
    case.plan.sherman().options = ShermanVariant::Sherman.features();
    case.plan.sherman().options.lock.width = LockWidth::Word;
    case.plan.sherman().consistency = Some(Consistency::Versions);
    case.spec.stretch = 8;
    case.spec.card.pcie.bytes_per_ns = 0.2;
    case.nanoseconds_max = NANOSECONDS_MAX;
    case
}

fn mutate(mutant: Mutant) -> impl Fn(&mut SimulatorCase) {
    move |case| case.mutant = Some(mutant)
}

#[test]
fn an_unlock_before_the_write_back_is_noticed() {
    noticed("unlock first", mutate(Mutant::UnlockFirst));
}

#[test]
fn ignoring_the_rear_version_is_noticed() {
    noticed("no rear version", mutate(Mutant::NoRearVersion));
}

#[test]
fn leaving_out_the_fence_check_is_noticed() {
    noticed("no fence check", mutate(Mutant::NoFenceCheck));
}

#[test]
fn trusting_a_stale_cache_is_noticed() {
    let large_cache = |seed| {
        let mut case = plain(seed);
        case.plan.cache_bytes = 1 << 20;
        case
    };
    mutants::expect_noticed(
        "a stale cache trusted",
        SEEDS,
        outcome,
        large_cache,
        mutate(Mutant::CacheUnchecked),
    );
}

#[test]
fn a_miss_among_torn_entries_is_noticed() {
    noticed("torn is absent", mutate(Mutant::TornIsAbsent));
}

#[test]
fn a_scan_that_ignores_lower_fences_is_noticed() {
    noticed("scan blind", mutate(Mutant::ScanBlind));
}

#[test]
fn version_pairs_are_detected_if_reads_overtake() {
    noticed("reads overtake", |case| case.spec.kept.version_pair_bytes_max = 0);
    let of_bytes = |seed| {
        let mut case = plain(seed);
        case.plan.sherman().consistency = Some(Consistency::ByteVersions);
        case
    };
    let overtake = |case: &mut SimulatorCase| case.spec.kept.version_pair_bytes_max = 0;
    mutants::expect_noticed("reads overtake versions of bytes", SEEDS, outcome, of_bytes, overtake);
}

#[test]
fn a_write_back_that_the_next_holder_misses_is_noticed() {
    noticed("arrivals miss writes", |case| case.spec.kept.arrival_sees_write = false);
}

/// A run with as many removals as insertions, and with large caches.
fn churning(seed: u64) -> SimulatorCase {
    let mut case = plain(seed);
    (case.plan.keys, case.plan.mix, case.plan.cache_bytes) = (90, CHURNING, 1 << 20);
    case
}

#[test]
fn a_merge_that_does_not_mark_the_unlinked_node_is_noticed() {
    mutants::expect_noticed("merge unmarked", SEEDS, outcome, churning, mutate(Mutant::MergeUnmarked));
}

#[test]
fn trusting_an_overflow_value_unchecked_is_noticed() {
    let faulty = |seed| {
        let mut case = plain(seed).with_any_length();
        (case.plan.keys, case.plan.mix) = (12, MIXED);
        case
    };
    mutants::expect_noticed(
        "overflow value trusted",
        SEEDS,
        outcome,
        faulty,
        mutate(Mutant::OverflowUnchecked),
    );
}

#[test]
fn a_lease_that_expires_under_a_frozen_client_is_noticed() {
    let faulty = |seed| {
        let mut case = SimulatorCase::with_faults(System::Sherman, seed);
        case.plan.sherman().options = ShermanVariant::Sherman.features();
        case
    };
    mutants::expect_noticed("the lease expires", SEEDS, outcome, faulty, mutate(Mutant::LeaseExpires));
}
