//! The hot path allocates nothing: gets, updates, inserts without a split and scans, once warm.

use super::blocks;
use farwood_index::sherman::{Direction, Range, Sherman, ShermanConfig, ShermanEntries, ShermanVariant};
use farwood_proof::shm::Shm;
use farwood_transport::runtime::block_on;

const KEYS: u64 = 20_000;

fn key(number: u64) -> [u8; 8] {
    (4 * number).to_be_bytes()
}

pub(crate) fn warm_operations_allocate_nothing() {
    let shm = Shm::new();
    let client = shm.pool().client();
    for (variant, name) in ShermanVariant::ALL {
        let config = ShermanConfig { options: variant.features(), ..ShermanConfig::default() };
        let tree =
            block_on(Sherman::create(&client, &name.replace('+', "p"), config, 16 << 20)).expect("a tree");
        let entries = (0..KEYS).map(|number| (key(number), number.to_le_bytes()));
        block_on(tree.bulk_load(&client, entries, 0.5, |_| {})).expect("a bulk load");
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
        let mut round = 0;
        let inserts = blocks(|| {
            round += 1;
            for n in (0..KEYS).step_by(97) {
                let key = (4 * n + round).to_be_bytes();
                assert!(block_on(tree.insert(&client, &key, &[1; 8])).expect("an insert").inserted());
            }
        });
        let mut found = ShermanEntries::new();
        let scans = blocks(|| {
            for n in (0..KEYS - 200).step_by(301) {
                let from = key(n);
                let range = Range { from: Some(&from), to: None };
                block_on(tree.scan(&client, range, Direction::Forward, 100, &mut found)).expect("a scan");
                block_on(tree.scan(&client, range, Direction::Backward, 100, &mut found)).expect("a scan");
            }
        });
        assert_eq!((gets, updates, inserts, scans), (0, 0, 0, 0), "{name}");
    }
}
