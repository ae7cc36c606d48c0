//! Every crash point of every operation of SMART, alone and in pairs ([`crash_points`]).
//!
//! Keys are numbers of 8 bytes in steps of 10, so 26 of them share their first seven bytes.

use farwood_index::ordered::OrderedConfig;
use farwood_index::radix::tree::MARKS;
use farwood_index::smart::{self, SmartVariant};
use farwood_proof::crash_points::{
    CrashCase, InterruptedOperation, paired_crashes, single_crashes, single_drops,
};
use farwood_testkit::campaign::size;

fn config(variant: SmartVariant, inline_bytes: usize) -> OrderedConfig {
    OrderedConfig::Smart(smart::SmartConfig {
        options: variant.features(),
        inline_bytes,
        ..smart::SmartConfig::default()
    })
}

fn cases(variant: SmartVariant) -> Vec<CrashCase> {
    let case = |name, keys, change, mark: &str| {
        let mark = MARKS.iter().copied().find(|known| *known == mark);
        let config = config(variant, smart::SmartConfig::default().inline_bytes);
        CrashCase { name, config, keys, fill: 1.0, removed: (0, 0), change, mark }
    };
    // Each value is an overflow value.
    let overflow = |case: CrashCase| CrashCase { config: config(variant, 12), ..case };
    vec![
        case("an update", 30, InterruptedOperation::Put(70), ""),
        case("a new key", 30, InterruptedOperation::Put(75), ""),
        case("a leaf splits", 27, InterruptedOperation::Put(265), "radix: a leaf split"),
        case("a prefix splits", 30, InterruptedOperation::Put(1 << 32), "radix: a prefix split"),
        case("a node grows", 16, InterruptedOperation::Put(75), "radix: a node replaced by a larger one"),
        case("a leaf moves", 30, InterruptedOperation::PutLong(70, 100), "radix: a leaf that moved"),
        case("a removal", 30, InterruptedOperation::Remove(70), ""),
        case("a node is removed", 28, InterruptedOperation::Remove(270), "radix: a node removed"),
        case("a compute node leaves", 30, InterruptedOperation::Leave, ""),
        overflow(case("an overflow value is replaced", 30, InterruptedOperation::Put(70), "")),
        overflow(case("an overflow value is inserted", 30, InterruptedOperation::Put(75), "")),
        overflow(case("an overflow value is removed", 30, InterruptedOperation::Remove(70), "")),
    ]
}

#[test]
fn every_named_coverage_mark_exists() {
    let marked = cases(SmartVariant::WriteCombining).iter().filter(|case| case.mark.is_some()).count();
    assert_eq!(marked, 5, "each mark is one of the tree");
}

#[test]
fn a_crash_at_any_verb_loses_no_key() {
    let variants = [SmartVariant::WriteCombining, SmartVariant::InPlace, SmartVariant::Art];
    let count = size(1, 3) as usize;
    let points: u64 = variants[..count].iter().map(|&variant| single_crashes(&cases(variant))).sum();
    assert!(points > 100 * count as u64, "{points} crash points");
}

#[test]
fn a_second_crash_at_any_verb_loses_no_key() {
    let pairs = paired_crashes(&cases(SmartVariant::WriteCombining), size(4, 12) as usize);
    assert!(pairs > size(100, 300), "{pairs} pairs");
}

#[test]
fn a_drop_after_any_poll_leaves_no_lock() {
    let variants = [SmartVariant::WriteCombining, SmartVariant::InPlace, SmartVariant::Art];
    let count = size(1, 3) as usize;
    let points: u64 = variants[..count].iter().map(|&variant| single_drops(&cases(variant))).sum();
    assert!(points > 100 * count as u64, "{points} drop points");
}
