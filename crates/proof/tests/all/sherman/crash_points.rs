//! Every crash point of every operation of Sherman, alone and in pairs ([`crash_points`]).

use farwood_index::MARKS;
use farwood_index::ordered::Config;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::options::Leaves;
use farwood_index::sherman::{self, Variant};
use farwood_proof::crash_points::{Change, Scene, one_dies, two_die};

/// Leaves have 8 entries, sorted or not, inner nodes 12 or 13 children.
fn config(variant: Variant) -> Config {
    let value_bytes = if variant.options().leaves == Leaves::Sorted { 16 } else { 8 };
    let sizes = Sizes { key_bytes: 8, value_bytes, node_bytes: 256 };
    Config::Sherman(sherman::Config { sizes, options: variant.options(), ..sherman::Config::default() })
}

fn scenes(variant: Variant) -> [Scene; 9] {
    let scene = |name, keys, fill, change| Scene {
        name,
        config: config(variant),
        keys,
        fill,
        gone: (0, 0),
        change,
        mark: None,
    };
    let marked = |scene: Scene, gone, mark| {
        assert!(MARKS.contains(&mark), "there is no mark {mark}");
        Scene { gone, mark: Some(mark), ..scene }
    };
    [
        scene("an update", 30, 0.5, Change::Put(70)),
        scene("a new key", 30, 0.5, Change::Put(75)),
        scene("a root leaf splits", 8, 1.0, Change::Put(35)),
        scene("a leaf splits", 60, 1.0, Change::Put(75)),
        scene("an inner root splits", 104, 1.0, Change::Put(75)),
        scene("a removal", 60, 1.0, Change::Remove(70)),
        marked(scene("leaves merge", 60, 0.5, Change::Remove(60)), (0, 6), "a merge"),
        marked(scene("the root goes", 9, 1.0, Change::Remove(0)), (1, 4), "a root less"),
        marked(scene("rooms are given", 60, 0.5, Change::Leave), (0, 8), "rooms given"),
    ]
}

#[test]
fn a_compute_node_dies_at_every_verb_of_every_operation() {
    let variants = [Variant::Sherman, Variant::Combine, Variant::LockRead];
    let points: u64 = variants.map(|variant| one_dies(&scenes(variant))).iter().sum();
    assert!(points > 300, "{points} crash points");
}

#[test]
fn whoever_comes_across_what_was_left_dies_as_well() {
    let pairs = two_die(&scenes(Variant::Sherman), 40);
    assert!(pairs > 1_000, "{pairs} pairs");
}
