//! The cost of insertions in a large tree: a million uniform keys loaded at 80 %, then a hundred thousand new ones.

use farwood_index::sherman::{Sherman, ShermanConfig};
use farwood_proof::shm::Shm;
use farwood_testkit::Harness as _;
use farwood_testkit::harness::TestRng;
use farwood_transport::runtime::block_on;
use std::collections::BTreeSet;

const LOADED: usize = 1_000_000;
const ADDED: usize = 100_000;
const FILL: f64 = 0.8;
/// Lock, read and write back take 3 round trips; splits take the rest.
const ROUND_TRIPS_MAX: f64 = 3.25;
const CACHE_BYTES: usize = 64 << 20;

#[expect(clippy::print_stdout, reason = "the measured costs are for the reader of the output")]
fn report(round_trips: f64, written: f64) {
    println!("{ADDED} new keys: {round_trips:.4} round trips and {written:.1} bytes written each");
}

#[test]
fn splits_cost_a_quarter_of_a_round_trip_at_most() {
    let shm = Shm::new();
    let client = shm.client();
    let tree =
        block_on(Sherman::create(&client, "scale", ShermanConfig::default(), CACHE_BYTES)).expect("a tree");
    let mut random = TestRng::new(1);
    let mut keys = BTreeSet::new();
    while keys.len() < LOADED {
        keys.insert(random.next_u64());
    }
    let entries = keys.iter().map(|key| (key.to_be_bytes(), key.to_le_bytes()));
    block_on(tree.bulk_load(&client, entries, FILL, |_| {})).expect("a bulk load");
    // A scan fills the cache.
    assert_eq!(block_on(tree.count(&client)), Ok(LOADED as u64));
    client.take_costs();
    let mut added = 0;
    while added < ADDED {
        let key = random.next_u64();
        if keys.insert(key) {
            let existed = block_on(tree.put(&client, &key.to_be_bytes(), &key.to_le_bytes()));
            assert_eq!(existed, Ok(farwood_index::PutOutcome::Inserted));
            added += 1;
        }
    }
    let costs = client.take_costs();
    let each = |total: u64| total as f64 / ADDED as f64;
    report(each(costs.round_trips), each(costs.bytes_written));
    assert!(each(costs.round_trips) <= ROUND_TRIPS_MAX, "{costs:?}");
    let walk = block_on(tree.walk(&client)).expect("a walk");
    assert_eq!((walk.problems, walk.entries), (vec![], keys.len() as u64));
}
