//! Every crash point of every operation of SMART, alone and in pairs ([`crash_points`]).
//!
//! Keys are numbers of 8 bytes in steps of 10, so 26 of them share their first seven bytes.

use farwood_index::ordered::Config;
use farwood_index::radix::tree::MARKS;
use farwood_index::smart::{self, Variant};
use farwood_proof::crash_points::{Change, Scene, one_dies, two_die};

fn config(variant: Variant, inline_bytes: usize) -> Config {
    Config::Smart(smart::Config { options: variant.options(), inline_bytes, ..smart::Config::default() })
}

fn scenes(variant: Variant) -> Vec<Scene> {
    let scene = |name, keys, change, mark: &str| {
        let mark = MARKS.iter().copied().find(|known| *known == mark);
        let config = config(variant, smart::Config::default().inline_bytes);
        Scene { name, config, keys, fill: 1.0, gone: (0, 0), change, mark }
    };
    // Each value is longer than its leaf may have it.
    let far = |scene: Scene| Scene { config: config(variant, 12), ..scene };
    vec![
        scene("an update", 30, Change::Put(70), ""),
        scene("a new key", 30, Change::Put(75), ""),
        scene("a leaf splits", 27, Change::Put(265), "radix: a leaf split"),
        scene("a prefix splits", 30, Change::Put(1 << 32), "radix: a prefix split"),
        scene("a node grows", 16, Change::Put(75), "radix: a node replaced by a larger"),
        scene("a leaf moves", 30, Change::PutLong(70, 100), "radix: a leaf that moved"),
        scene("a removal", 30, Change::Remove(70), ""),
        scene("a node gives way", 28, Change::Remove(270), "radix: a node that gave way"),
        scene("it leaves", 30, Change::Leave, ""),
        far(scene("a value out of line is replaced", 30, Change::Put(70), "")),
        far(scene("a value out of line comes", 30, Change::Put(75), "")),
        far(scene("a value out of line goes", 30, Change::Remove(70), "")),
    ]
}

#[test]
fn the_scenes_show_what_they_say() {
    let marked = scenes(Variant::WriteCombining).iter().filter(|scene| scene.mark.is_some()).count();
    assert_eq!(marked, 5, "a mark has another name");
}

#[test]
fn a_compute_node_dies_at_every_verb_of_every_operation() {
    let variants = [Variant::Art, Variant::InPlace, Variant::WriteCombining];
    let points: u64 = variants.map(|variant| one_dies(&scenes(variant))).iter().sum();
    assert!(points > 300, "{points} crash points");
}

#[test]
fn whoever_comes_across_what_was_left_dies_as_well() {
    let pairs = two_die(&scenes(Variant::WriteCombining), 12);
    assert!(pairs > 300, "{pairs} pairs");
}
