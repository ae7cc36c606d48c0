//! Every crash point of every operation of Sherman, alone and in pairs ([`crash_points`]).

use farwood_index::MARKS;
use farwood_index::ordered::OrderedConfig;
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::sherman::options::Leaves;
use farwood_index::sherman::{self, ShermanVariant};
use farwood_proof::crash_points::{
    CrashCase, InterruptedOperation, drops_in_partitions, paired_crashes, reads_after_crashes,
    single_crashes, single_drops,
};
use farwood_testkit::campaign::size;

/// Leaves have 8 entries, sorted or not, inner nodes 12 or 13 children.
fn config(variant: ShermanVariant) -> OrderedConfig {
    let value_bytes = if variant.features().leaves == Leaves::Sorted { 16 } else { 14 };
    let sizes = Sizes { key_bytes: 8, value_bytes, node_bytes: 256 };
    OrderedConfig::Sherman(sherman::ShermanConfig {
        sizes,
        options: variant.features(),
        ..sherman::ShermanConfig::default()
    })
}

fn cases(variant: ShermanVariant) -> [CrashCase; 9] {
    let case = |name, keys, fill, change| CrashCase {
        name,
        config: config(variant),
        keys,
        fill,
        removed: (0, 0),
        change,
        mark: None,
    };
    let marked = |case: CrashCase, removed, mark| {
        assert!(MARKS.contains(&mark), "there is no mark {mark}");
        CrashCase { removed, mark: Some(mark), ..case }
    };
    [
        case("an update", 30, 0.5, InterruptedOperation::Put(70)),
        case("a new key", 30, 0.5, InterruptedOperation::Put(75)),
        case("a root leaf splits", 8, 1.0, InterruptedOperation::Put(35)),
        case("a leaf splits", 60, 1.0, InterruptedOperation::Put(75)),
        case("an inner root splits", 104, 1.0, InterruptedOperation::Put(75)),
        case("a removal", 60, 1.0, InterruptedOperation::Remove(70)),
        marked(case("leaves merge", 60, 0.5, InterruptedOperation::Remove(60)), (0, 6), "a merge"),
        marked(
            case("the root is removed", 9, 1.0, InterruptedOperation::Remove(0)),
            (1, 4),
            "a root removed",
        ),
        marked(
            case("free slots are listed", 60, 0.5, InterruptedOperation::Leave),
            (0, 8),
            "free slots listed",
        ),
    ]
}

#[test]
fn a_crash_at_any_verb_loses_no_key() {
    let variants = [ShermanVariant::Sherman, ShermanVariant::Combine, ShermanVariant::LockRead];
    let points: u64 = variants.map(|variant| single_crashes(&cases(variant))).iter().sum();
    assert!(points > 300, "{points} crash points");
}

#[test]
fn a_second_crash_at_any_verb_loses_no_key() {
    let pairs = paired_crashes(&cases(ShermanVariant::Sherman), size(8, 40) as usize);
    assert!(pairs > size(200, 1_000), "{pairs} pairs");
}

#[test]
fn a_drop_after_any_poll_leaves_no_lock() {
    let points: u64 = ShermanVariant::ALL.map(|(variant, _)| single_drops(&cases(variant))).iter().sum();
    assert!(points > 300, "{points} drop points");
}

/// Reads take no locks, and overflow values are written before the lock is acquired.
#[test]
fn a_dropped_read_or_overflow_value_leaves_no_lock() {
    let case = |name, change| CrashCase {
        name,
        config: config(ShermanVariant::RECOMMENDED),
        keys: 30,
        fill: 0.5,
        removed: (0, 0),
        change,
        mark: None,
    };
    let overflow = |name, change| {
        let mut case = case(name, change);
        let OrderedConfig::Sherman(config) = &mut case.config else { unreachable!("it is a Sherman tree") };
        config.sizes.value_bytes = 32;
        config.values = Values::AnyLength;
        case
    };
    let cases = [
        case("a get", InterruptedOperation::Get(70)),
        case("a scan", InterruptedOperation::Scan),
        case("a snapshot", InterruptedOperation::Snapshot),
        overflow("a value becomes longer", InterruptedOperation::PutLong(70, 100)),
        overflow("a long value is inserted", InterruptedOperation::PutLong(75, 100)),
    ];
    let points = single_drops(&cases);
    assert!(points > 25, "{points} drop points");
}

#[test]
fn a_drop_in_a_partition_leaves_no_lock() {
    let freed = drops_in_partitions(&cases(ShermanVariant::Sherman));
    assert!(freed > 20, "{freed} locks were freed after the partition");
}

/// The answers of a client that may only read, and cannot complete what the crashed one has left.
#[test]
fn a_reader_after_a_crash_at_any_verb_has_no_wrong_answer() {
    let reads = reads_after_crashes(&cases(ShermanVariant::Sherman), 1);
    assert!(reads.crashes > 100 && reads.unfinished * 4 < reads.answered, "{reads:?}");
}
