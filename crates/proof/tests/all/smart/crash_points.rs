//! Every crash point of every operation of SMART, alone and in pairs ([`crash_points`]).
//!
//! Keys are numbers of 8 bytes in steps of 10, so 26 of them share their first seven bytes.

use crate::radix::crash_cases;
use farwood_index::ordered::OrderedConfig;
use farwood_index::smart::{self, NodeSizing, SmartVariant};
use farwood_proof::crash_points::{
    CrashCase, InterruptedOperation, drops_in_partitions, paired_crashes, reads_after_crashes,
    single_crashes, single_drops,
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

/// Operations on nodes that grow in place.
fn typed_cases(variant: SmartVariant) -> Vec<CrashCase> {
    let typed = |inline_bytes| match config(variant, inline_bytes) {
        OrderedConfig::Smart(mut config) => {
            config.options.node_sizing = NodeSizing::Typed;
            OrderedConfig::Smart(config)
        }
        _ => unreachable!("the index is SMART"),
    };
    let mut cases = crash_cases(typed);
    for case in &mut cases {
        if case.name == "a node grows" {
            case.mark = Some("radix: a node that grew in place");
        }
    }
    let (keys, removed) = (26, (3, 26));
    cases.push(CrashCase {
        name: "a node with few children is replaced",
        keys,
        removed,
        change: InterruptedOperation::Remove(10),
        mark: None,
        ..cases[0]
    });
    cases
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
fn a_crash_while_a_node_grows_in_place_loses_no_key() {
    for variant in [SmartVariant::WriteCombining, SmartVariant::Art] {
        let points = single_crashes(&typed_cases(variant));
        assert!(points > 100, "{points} crash points");
    }
    let pairs = paired_crashes(&typed_cases(SmartVariant::WriteCombining), size(4, 12) as usize);
    assert!(pairs > size(100, 300), "{pairs} pairs");
    let drops = single_drops(&typed_cases(SmartVariant::WriteCombining));
    assert!(drops > 100, "{drops} drop points");
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

/// The answers of a client that may only read, and cannot complete what the crashed one has left.
#[test]
fn a_reader_after_a_crash_at_any_verb_has_no_wrong_answer() {
    for variant in [SmartVariant::WriteCombining, SmartVariant::RearLock] {
        let reads = reads_after_crashes(&cases(variant), 40);
        assert!(reads.crashes > 3 && reads.unfinished * 4 < reads.answered, "{variant:?}: {reads:?}");
    }
}
