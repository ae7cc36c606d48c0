//! Every crash point of every operation of SMART, alone and in pairs ([`crash_points`]).
//!
//! Keys are numbers of 8 bytes in steps of 10, so 26 of them share their first seven bytes.

use crate::radix::crash_cases;
use farwood_index::ordered::OrderedConfig;
use farwood_index::smart::{self, SmartVariant};
use farwood_proof::crash_points::{
    CrashCase, drops_in_partitions, paired_crashes, single_crashes, single_drops,
};
use farwood_testkit::campaign::size;

/// A variant of each kind of leaf locks, and one without.
const VARIANTS: [SmartVariant; 4] =
    [SmartVariant::WriteCombining, SmartVariant::Art, SmartVariant::RearLock, SmartVariant::InPlace];

fn config(variant: SmartVariant, inline_bytes: usize) -> OrderedConfig {
    OrderedConfig::Smart(smart::SmartConfig {
        options: variant.features(),
        inline_bytes,
        ..smart::SmartConfig::default()
    })
}

fn cases(variant: SmartVariant) -> Vec<CrashCase> {
    crash_cases(|inline_bytes| config(variant, inline_bytes))
}

#[test]
fn every_named_coverage_mark_exists() {
    let marked = cases(SmartVariant::WriteCombining).iter().filter(|case| case.mark.is_some()).count();
    assert_eq!(marked, 5, "each mark is one of the tree");
}

#[test]
fn a_crash_at_any_verb_loses_no_key() {
    let variants = VARIANTS;
    let count = size(3, 4) as usize;
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
    let variants = VARIANTS;
    let count = size(3, 4) as usize;
    let points: u64 = variants[..count].iter().map(|&variant| single_drops(&cases(variant))).sum();
    assert!(points > 100 * count as u64, "{points} drop points");
}

#[test]
fn a_drop_in_a_partition_leaves_no_lock() {
    let freed = drops_in_partitions(&cases(SmartVariant::WriteCombining));
    assert!(freed > 20, "{freed} locks were freed after the partition");
}
