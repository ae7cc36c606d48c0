//! The hot path of radix trees allocates nothing: gets and updates, once warm, with cached nodes and without.

use super::blocks;
use farwood_index::ordered::{Ordered, OrderedConfig};
use farwood_index::{smart, sphinx};
use farwood_proof::shm::Shm;
use farwood_transport::runtime::block_on;

const KEYS: u64 = 20_000;

fn key(number: u64) -> [u8; 8] {
    (4 * number).to_be_bytes()
}

/// Systems and their cache sizes: SMART with all nodes cached and with none, and Sphinx with a filter so large that it
/// has no false positives, because a retry after a false positive allocates.
fn cases() -> [(&'static str, OrderedConfig, usize); 3] {
    [
        ("smart", OrderedConfig::Smart(smart::SmartConfig::default()), 16 << 20),
        ("uncached", OrderedConfig::Smart(smart::SmartConfig::default()), 0),
        ("sphinx", OrderedConfig::Sphinx(sphinx::SphinxConfig::default()), 4 << 20),
    ]
}

pub(crate) fn warm_operations_allocate_nothing() {
    let shm = Shm::new();
    let client = shm.pool().client();
    for (name, config, cache_bytes) in cases() {
        let tree = block_on(Ordered::create(&client, name, config, cache_bytes)).expect("a tree");
        let entries = (0..KEYS).map(|number| (key(number), number.to_le_bytes()));
        block_on(tree.bulk_load(&client, entries, 1.0, |_| {})).expect("a bulk load");
        let numbers = || (0..KEYS).step_by(7);
        let gets = blocks(|| {
            for n in numbers() {
                assert!(block_on(tree.get(&client, &key(n))).expect("a get").is_some());
            }
        });
        let updates = blocks(|| {
            for n in numbers() {
                assert!(block_on(tree.put(&client, &key(n), &[1; 8])).expect("a put").replaced());
            }
        });
        assert_eq!((gets, updates), (0, 0), "{name}");
    }
}
