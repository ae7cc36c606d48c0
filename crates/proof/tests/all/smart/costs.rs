//! Golden costs of SMART, as `docs/costs-smart.md` has them. `FARWOOD_BLESS=1 cargo test -p farwood-proof --test all
//! smart::costs` rewrites the table.

use farwood_index::ordered;
use farwood_index::smart::{NodeSizing, Smart, SmartConfig, SmartFeatures, SmartVariant};
use farwood_proof::radix_costs::{CACHE_BYTES, CostFixture, compare, key};
use farwood_testkit::Harness;
use farwood_testkit::harness::TestRng;
use farwood_testkit::loopback::Loopback;

#[test]
fn every_operation_has_the_costs_of_the_table() {
    let of = |options| ordered::OrderedConfig::Smart(SmartConfig { options, ..SmartConfig::default() });
    let variants = SmartVariant::ALL.map(|(variant, name)| (name, of(variant.features())));
    let typed = SmartFeatures { node_sizing: NodeSizing::Typed, ..SmartFeatures::default() };
    let all: Vec<_> = variants.into_iter().chain([("smart, typed nodes", of(typed))]).collect();
    compare("SMART", "smart", &all);
}

#[test]
fn get_and_update_stay_within_their_limits() {
    let bench = CostFixture::new(ordered::OrderedConfig::Smart(SmartConfig::default()));
    let get = bench.get(&bench.tree, &key(5, 5));
    assert!(get.round_trips == 1 && get.bytes_read <= 64, "{get:?}");
    let update = bench.put(&key(5, 5), 8);
    assert!(update.round_trips <= 3 && update.bytes_read <= 64 && update.bytes_written <= 64, "{update:?}");
}

/// Random keys are put into a tree of random keys: the average includes splits and growth.
#[test]
fn a_new_key_takes_few_round_trips_on_average() {
    const KEYS: u64 = 100_000;
    let world = Loopback::default();
    let client = world.client();
    let tree =
        world.block_on(Smart::create(&client, "costs", SmartConfig::default(), CACHE_BYTES)).expect("a tree");
    let mut random = TestRng::new(1);
    let mut put = |count: u64| {
        for _ in 0..count {
            let key = random.next_u64().to_be_bytes();
            world.block_on(tree.put(&client, &key, &[1; 8])).expect("a put");
        }
    };
    put(KEYS);
    let bytes = tree.bytes_allocated() as f64 / KEYS as f64;
    assert!(bytes <= 110.0, "{bytes} bytes a key");
    client.take_costs();
    put(KEYS / 10);
    let average = client.take_costs().round_trips as f64 / (KEYS / 10) as f64;
    assert!(average <= 3.3, "{average}");
}
