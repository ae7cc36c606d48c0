//! Golden costs of Sphinx, as `docs/costs-sphinx.md` has them. `FARWOOD_BLESS=1 cargo test -p farwood-proof --test all
//! sphinx::costs` rewrites the table.

use farwood_index::ordered;
use farwood_index::sphinx::{NodeReads, Sphinx, SphinxConfig, SphinxFeatures, SphinxVariant};
use farwood_proof::radix_costs::{CostFixture, compare, key};
use farwood_testkit::Harness;
use farwood_testkit::harness::TestRng;
use farwood_testkit::loopback::Loopback;

#[test]
fn every_operation_has_the_costs_of_the_table() {
    let of = |variant: SphinxVariant| {
        ordered::OrderedConfig::Sphinx(SphinxConfig {
            options: variant.features(),
            ..SphinxConfig::default()
        })
    };
    let whole = ordered::OrderedConfig::Sphinx(SphinxConfig {
        options: SphinxFeatures { node_reads: NodeReads::Whole, ..SphinxFeatures::default() },
        ..SphinxConfig::default()
    });
    let variants = SphinxVariant::ALL.map(|(variant, name)| (name, of(variant)));
    let all: Vec<_> = variants.into_iter().chain([("sphinx --node-reads whole", whole)]).collect();
    compare("Sphinx", "sphinx", &all);
}

/// Entry, node and leaf; an update locks and reads the leaf, and writes it back with the unlock.
#[test]
fn get_update_and_insert_stay_within_their_limits() {
    let bench = CostFixture::new(ordered::OrderedConfig::Sphinx(SphinxConfig::default()));
    let get = bench.get(&bench.tree, &key(5, 5));
    assert_eq!((get.round_trips, get.reads), (3, 4), "{get:?}");
    let update = bench.put(&key(5, 5), 8);
    assert!(update.round_trips <= 5, "{update:?}");
    let new = bench.put(&key(5, 200), 8);
    assert!(new.round_trips <= 4, "{new:?}");
}

/// Random keys, and a filter that holds all prefixes: a lookup takes three round trips, and more after a false
/// positive.
#[test]
fn a_lookup_takes_three_round_trips_on_average() {
    const KEYS: u64 = 100_000;
    let world = Loopback::default();
    let client = world.client();
    let tree =
        world.block_on(Sphinx::create(&client, "costs", SphinxConfig::default(), 64 << 10)).expect("a tree");
    let keys: Vec<[u8; 8]> = {
        let mut random = TestRng::new(1);
        (0..KEYS).map(|_| random.next_u64().to_be_bytes()).collect()
    };
    for key in &keys {
        world.block_on(tree.put(&client, key, &[1; 8])).expect("a put");
    }
    let kept = tree.memory_use();
    assert!(kept.prefixes.0 * 100 < kept.prefixes.1 * 95, "{kept:?}");
    client.take_costs();
    for key in &keys[..10_000] {
        assert!(world.block_on(tree.get(&client, key)).expect("a get").is_some());
    }
    let costs = client.take_costs();
    let average = costs.round_trips as f64 / 10_000.0;
    assert!((3.0..3.1).contains(&average), "{average}");
    assert!(kept.directory_bytes * 20 <= kept.filter_bytes, "{kept:?}");
    let walk = world.block_on(tree.walk(&client)).expect("a walk");
    assert_eq!((walk.problems, walk.unfinished_changes), (Vec::new(), 0));
    let share = walk.census.bytes as f64 / (walk.node_bytes + walk.leaf_bytes) as f64;
    assert!(share < 0.06, "the tables take {share} of what the tree does");
}
