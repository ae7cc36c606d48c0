//! Sherman and a `BTreeMap` run the same programs over keys that cause many splits and merges: every answer is the
//! same, from the empty tree and from bulk-loaded ones, in all variants and several sizes, on the loopback, shared
//! memory and TCP.

use farwood_index::IndexError;
use farwood_index::memory::overflow::{PART_BYTES_MAX, VALUE_BYTES_MAX};
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::sherman::{Sherman, ShermanConfig, ShermanVariant};
use farwood_proof::blocking_index::BlockingIndex;
use farwood_proof::served::Tcp;
use farwood_proof::sherman_model::{
    CACHE_BYTES, Model, NAME, SIZES, agree, config, drawn, from_empty, shape,
};
use farwood_proof::shm::Shm;
use farwood_testkit::Harness;
use farwood_testkit::history::ByteString;
use farwood_testkit::loopback::Loopback;
use farwood_testkit::model::{Family, Ordered as _, ProgramShape, programs};
use proptest::prelude::*;
use std::ops::Bound;

#[test]
fn from_the_empty_tree_on_the_loopback() {
    for sizes in SIZES {
        from_empty(&Loopback::default(), sizes, 300, 12);
    }
}

#[test]
fn from_the_empty_tree_on_shared_memory() {
    let shm = Shm::new();
    for sizes in SIZES {
        from_empty(&shm, sizes, 300, 12);
    }
}

#[test]
fn from_the_empty_tree_over_tcp() {
    let tcp = Tcp::new();
    for sizes in SIZES {
        from_empty(&tcp, sizes, 200, 4);
    }
}

#[test]
fn from_bulk_loaded_trees() {
    let (shm, loopback, tcp) = (Shm::new(), Loopback::default(), Tcp::new());
    let fill = prop::sample::select(&[0.0, 0.3, 0.5, 0.8, 1.0][..]);
    let family = prop::sample::select(&Family::ALL[..]);
    for sizes in SIZES {
        let inputs = (fill.clone(), family.clone(), 1..600_u16, programs(shape(sizes, 200, 200)));
        for variant in [ShermanVariant::Sherman, ShermanVariant::FgPlus] {
            drawn(12, &inputs, |(fill, family, count, program)| {
                let keys = (0..count).map(|number| family.key(number, sizes.key_bytes));
                let loaded: Model = keys.map(|key| (key, vec![1; sizes.value_bytes])).collect();
                let config = config(sizes, variant, None);
                agree(&loopback, config, (&loaded, fill), &program)?;
                agree(&shm, config, (&loaded, fill), &program)?;
                agree(&tcp, config, (&loaded, fill), &program)
            });
        }
    }
}

/// Values of any length: in their entries, as overflow values, and some of several parts.
#[test]
fn values_of_any_length() {
    let (loopback, shm, tcp) = (Loopback::default(), Shm::new(), Tcp::new());
    let sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 };
    let fill = prop::sample::select(&[0.5, 1.0][..]);
    for value_bytes_max in [40, 3_000] {
        let shape = ProgramShape { value_bytes: 0, value_bytes_max, ..shape(sizes, 200, 250) };
        for variant in [ShermanVariant::RECOMMENDED, ShermanVariant::FgPlus] {
            let config = ShermanConfig { values: Values::AnyLength, ..config(sizes, variant, None) };
            drawn(12, &(fill.clone(), 0..300_u16, programs(shape)), |(fill, count, program)| {
                let value = |number: u16| vec![number as u8; usize::from(number) * 7 % value_bytes_max];
                let keys = (0..count).map(|number| Family::Sparse.key(number, sizes.key_bytes));
                let loaded: Model = keys.zip(0..count).map(|(key, number)| (key, value(number))).collect();
                agree(&loopback, config, (&loaded, fill), &program)?;
                agree(&shm, config, (&loaded, fill), &program)?;
                agree(&tcp, config, (&loaded, fill), &program)
            });
        }
    }
}

/// The longest values, which replace each other and short ones, and bulk-loaded ones.
#[test]
fn values_of_several_parts() {
    let sizes = Sizes { key_bytes: 8, value_bytes: 32, node_bytes: 1024 };
    let config =
        ShermanConfig { values: Values::AnyLength, ..config(sizes, ShermanVariant::RECOMMENDED, None) };
    let lengths =
        [0, 28, 29, PART_BYTES_MAX, PART_BYTES_MAX + 1, 5 << 20, VALUE_BYTES_MAX, 3, 2 * PART_BYTES_MAX];
    let value =
        |number: usize| -> ByteString { (0..lengths[number]).map(|at| (at * 7 + number) as u8).collect() };
    let entries = || (0..lengths.len()).map(|number| ((number as u64).to_be_bytes(), value(number)));
    let shm = Shm::new();
    let client = shm.client();
    let tree = shm.block_on(Sherman::create(&client, NAME, config, CACHE_BYTES)).expect("a new tree");
    let get = |number: u64| shm.block_on(tree.get(&client, &number.to_be_bytes())).expect("a get");
    shm.block_on(tree.bulk_load(&client, entries(), 1.0, |_| {})).expect("a bulk load");
    for round in 0..lengths.len() {
        for number in 0..lengths.len() {
            let right = value((number + round) % lengths.len());
            assert!(
                *get(number as u64).expect("the key is present") == *right,
                "round {round}, key {number}"
            );
            let next = value((number + round + 1) % lengths.len());
            shm.block_on(tree.put(&client, &(number as u64).to_be_bytes(), &next)).expect("memory is free");
        }
    }
    let too_long = shm.block_on(tree.put(&client, &[0; 8], &vec![0; VALUE_BYTES_MAX + 1]));
    assert!(matches!(too_long, Err(IndexError::TooLong { .. })), "{too_long:?}");
    let walk = shm.block_on(tree.walk(&client)).expect("a walk");
    assert_eq!((walk.problems, walk.overflow_values), (vec![], 6));
}

/// Every scan between any two of the least and greatest keys, with every small limit.
#[test]
fn scans_begin_and_end_where_they_should() {
    let loopback = Loopback::default();
    let client = loopback.client();
    let sizes = SIZES[0];
    let config = config(sizes, ShermanVariant::Sherman, None);
    let tree = loopback.block_on(Sherman::create(&client, NAME, config, CACHE_BYTES)).expect("a new tree");
    let (mut index, mut model) = (BlockingIndex { harness: &loopback, tree, client }, Model::new());
    let keys: Vec<ByteString> = (0..24).map(|number| Family::Extreme.key(number, sizes.key_bytes)).collect();
    for key in &keys {
        index.put(key, key);
        model.insert(key.clone(), key.clone());
    }
    let edges = || {
        let of = |key| [Bound::Included(key), Bound::Excluded(key)];
        std::iter::once(Bound::Unbounded).chain(keys.iter().map(Vec::as_slice).flat_map(of))
    };
    for (from, to) in edges().flat_map(|from| edges().map(move |to| (from, to))) {
        for limit in [0, 1, 5, usize::MAX] {
            let right = model.scan_forward(from, to, limit);
            assert_eq!(index.scan_forward(from, to, limit), right, "{from:?} to {to:?}, {limit}");
            let right = model.scan_backward(from, to, limit);
            assert_eq!(index.scan_backward(from, to, limit), right, "{to:?} back to {from:?}, {limit}");
        }
    }
}
