//! Fabrics that break what they promise, under a Sherman that believes them: the checks of the seeds must notice,
//! each within a few seeds. A canary that lives shows that the checks are blind to its kind of fault.

use farwood_fabric::Capabilities;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::sherman::Variant;
use farwood_proof::seeds::loopback::{Case, Fabric, outcome};
use farwood_testkit::loopback::{Bug, Copying, Faults};

/// Seeds within which every fault must be noticed.
const SEEDS: u64 = 60;
/// Polls after which a run is stuck: many times what a run takes.
const POLLS_MAX: u64 = 1_500_000;

/// Runs seeds until one fails.
fn caught(name: &str, case: impl Fn(u64) -> Case) {
    let noticed = (0..SEEDS).find_map(|seed| {
        let case = Case { polls_max: POLLS_MAX, ..case(seed) };
        outcome(&case).err().map(|what| (seed, what))
    });
    report(name, noticed.as_ref());
    assert!(noticed.is_some(), "{name} is not noticed within {SEEDS} seeds");
}

#[expect(clippy::print_stdout, reason = "which check noticed is for people who look")]
fn report(name: &str, noticed: Option<&(u64, String)>) {
    if let Some((seed, what)) = noticed {
        println!("{name}: seed {seed}: {}", what.lines().next().unwrap_or_default());
    }
}

/// A run on shared memory of one variant, with 64-bit locks and version pairs.
fn plain(seed: u64, variant: Variant) -> Case {
    let mut case = Case::on(seed, Fabric::SharedMemory);
    case.plan.config.options = variant.options();
    case.plan.config.consistency = Some(Consistency::Versions);
    case.settings.faults.atomic_swallows = false;
    case
}

fn faulty(seed: u64, fault: impl Fn(&mut Faults)) -> Case {
    let mut case = plain(seed, Variant::Sherman);
    fault(&mut case.settings.faults);
    case
}

fn buggy(seed: u64, variant: Variant, bug: Bug) -> Case {
    let mut case = plain(seed, variant);
    case.settings.bug = Some(bug);
    case
}

#[test]
fn version_pairs_where_reads_overtake() {
    caught("reads overtake", |seed| {
        let mut case = Case::on(seed, Fabric::Overtaking);
        case.plan.config.options = Variant::Sherman.options();
        case.plan.config.consistency = Some(Consistency::Versions);
        let promises = Capabilities { version_pair_bytes_max: usize::MAX, ..case.settings.promises };
        case.settings.promises = promises;
        case
    });
}

#[test]
fn version_pairs_where_writes_are_placed_downward() {
    caught("writes downward", |seed| faulty(seed, |faults| faults.writes = Copying::Downward));
}

#[test]
fn unlocks_before_their_write_back() {
    caught("chains reversed", |seed| buggy(seed, Variant::Sherman, Bug::ChainReversed));
    caught("writes overtake", |seed| faulty(seed, |faults| faults.write_overtakes = true));
}

#[test]
fn write_backs_that_the_next_holder_does_not_see() {
    caught("writes linger", |seed| faulty(seed, |faults| faults.write_lingers = true));
}

#[test]
fn locks_that_two_can_take() {
    caught("atomics race", |seed| faulty(seed, |faults| faults.atomic_races = true));
    caught("a lost CAS stores", |seed| buggy(seed, Variant::Fg, Bug::CasAlwaysSwaps));
    caught("a lost CAS wins", |seed| buggy(seed, Variant::Sherman, Bug::CasClaimsToWin));
    caught("the living are revoked", |seed| buggy(seed, Variant::Sherman, Bug::RevokesTheLiving));
}

#[test]
fn roots_that_two_can_replace() {
    caught("the loser replaces the root", |seed| {
        let mut case = Case::growing(seed);
        // A lock survives this bug: its holder's WRITE frees it, whoever it names.
        case.plan.config.options = Variant::Sherman.options();
        case.settings.bug = Some(Bug::CasAlwaysSwaps);
        case
    });
}

#[test]
fn locks_that_do_not_come_free() {
    caught("FAA saturates", |seed| buggy(seed, Variant::Fg, Bug::AddSaturates));
    caught("masks are ignored", |seed| {
        let mut case = buggy(seed, Variant::Sherman, Bug::MaskIgnored);
        case.plan.config.options.lock.width = LockWidth::Packed;
        case
    });
}

#[test]
fn bytes_that_are_not_what_was_written() {
    caught("reads are short", |seed| buggy(seed, Variant::Sherman, Bug::ReadShort));
    caught("neighbours are spoiled", |seed| {
        let mut case = buggy(seed, Variant::Sherman, Bug::NeighbourSpoiled);
        case.plan.config.sizes.key_bytes = 13;
        case
    });
}

#[test]
fn unlocks_of_dropped_operations_that_get_lost() {
    caught("detached verbs are lost", |seed| {
        let mut case = Case::with_drops(seed);
        case.settings.bug = Some(Bug::DetachedLost);
        case
    });
    caught("dropped posts are taken back", |seed| {
        let mut case = Case::with_drops(seed);
        case.settings.bug = Some(Bug::CancelTakesBack);
        case
    });
}
