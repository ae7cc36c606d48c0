//! SMART indexes through the public interface: keys and values of any length, with the same calls as for any index.

use farwood::index::Direction;
use farwood::papers::System;
use farwood::runtime::{block_on, run_all};
use farwood::types::Kind;
use farwood::{BTree, Error, Index, Pool, PoolOptions, Radix};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

fn new_pool() -> Pool {
    let options = PoolOptions::new().memory_bytes(64 << 20).nodes(2);
    Pool::anonymous_with(&options).unwrap()
}

fn texts(pool: &Pool) -> Index<String, Vec<u8>> {
    pool.create_index("texts", &Radix::new()).unwrap()
}

#[test]
fn keys_and_values_have_any_length_and_come_back_in_order() {
    let pool = new_pool();
    let index = texts(&pool);
    let mut model = BTreeMap::new();
    for number in 0..2000_usize {
        let key = format!("{}{}", "prefix/".repeat(number % 5), number * 7 % 2000);
        let value = vec![number as u8; number % 300];
        assert_eq!(index.put(&key, &value).unwrap(), model.insert(key, value).is_some());
    }
    for length in [0, 4096] {
        let key = "k".repeat(length);
        index.put(&key, [1]).unwrap();
        model.insert(key, vec![1]);
    }
    for (key, value) in &model {
        assert_eq!(index.get(key).unwrap().as_ref(), Some(value), "{key:?}");
    }
    assert_eq!(index.count().unwrap(), model.len() as u64);
    let all: Vec<_> = index.iter().collect::<Result<_, _>>().unwrap();
    assert!(all.iter().map(|(key, value)| (key, value)).eq(&model));
    let back: Vec<_> = index.range(..).rev().limit(700).into_iter().collect::<Result<_, _>>().unwrap();
    assert!(back.iter().map(|(key, value)| (key, value)).eq(model.iter().rev().take(700)));
    for prefix in ["", "prefix/", "prefix/prefix/1", "k", "none"] {
        let found: Vec<_> = index.scan_prefix(prefix).collect::<Result<_, _>>().unwrap();
        let expected = model.iter().filter(|(key, _)| key.starts_with(prefix));
        assert!(found.iter().map(|(key, value)| (key, value)).eq(expected), "{prefix:?}");
    }
    assert_eq!(index.check().unwrap().problems(), []);
}

#[test]
fn every_operation_returns_whether_the_key_was_present() {
    let pool = new_pool();
    let index = texts(&pool);
    assert!(!index.update("a", b"1").unwrap());
    assert!(index.insert("a", b"1").unwrap() && !index.insert("a", b"2").unwrap());
    assert!(index.update("a", b"a value that is much longer than its leaf").unwrap());
    assert!(index.put("a", b"3").unwrap() && !index.put("ab", b"4").unwrap());
    assert!(index.remove("a").unwrap() && !index.remove("a").unwrap());
    assert_eq!(index.get("a").unwrap(), None);
    assert_eq!(index.get("ab").unwrap(), Some(b"4".to_vec()));
}

#[test]
fn values_that_outgrow_their_leaves_move() {
    let pool = new_pool();
    let index = texts(&pool);
    let value = |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + length) as u8).collect() };
    let lengths = [0, 8_000, 8_200, 100_000, 3 << 20, 16 << 20];
    for length in lengths {
        let key = format!("{length:08}");
        assert!(index.insert(&key, value(length)).unwrap() && !index.insert(&key, value(9_000)).unwrap());
        assert_eq!(index.get(&key).unwrap(), Some(value(length)), "{length}");
    }
    assert!(!index.update("none", value(9_000)).unwrap(), "the memory of unused values is freed");
    let all: Vec<_> = index.iter().map(|entry| entry.unwrap().1.len()).collect();
    assert_eq!((all, index.count().unwrap()), (lengths.to_vec(), 6));
    // One long value is shortened, one short value is lengthened, and one is removed.
    index.put("00100000", b"short").unwrap();
    index.put("00000000", value(50_000)).unwrap();
    index.put("00008200", value(9_999)).unwrap();
    assert!(index.remove("16777216").unwrap());
    let back: Vec<_> = index.iter().rev().map(|entry| entry.unwrap().1.len()).collect();
    assert_eq!(back, [3 << 20, 5, 9_999, 8_000, 50_000]);
    let error = index.put("k", value((16 << 20) + 1)).unwrap_err();
    assert!(matches!(error, Error::Unfit { .. }), "{error}");
    assert_eq!(index.check().unwrap().problems(), []);
    // Repeated replacement of a value reuses the memory of the old ones.
    for turn in 0..40 {
        index.put("again", value((2 << 20) + turn)).unwrap();
    }
    let loaded: Index<u64, Vec<u8>> = pool.create_index("loaded", &Radix::new()).unwrap();
    loaded.bulk_load().run((0..20_u64).map(|key| (key, value(10_000 + key as usize)))).unwrap();
    assert_eq!(loaded.get(7).unwrap(), Some(value(10_007)));
    assert_eq!(loaded.check().unwrap().problems(), []);
}

#[test]
fn scans_end_at_the_end_of_the_range() {
    let pool = new_pool();
    let index: Index<u64, u64> = pool.create_index("n", &Radix::new()).unwrap();
    for number in [0, 1, 255, 256, 1 << 40, u64::MAX] {
        index.put(number, number).unwrap();
    }
    let keys =
        |scan: farwood::index::Scan<u64, u64>| -> Vec<u64> { scan.map(|entry| entry.unwrap().0).collect() };
    assert_eq!(keys(index.scan(1..=256)), [1, 255, 256]);
    assert_eq!(keys(index.scan(1..256)), [1, 255]);
    assert_eq!(keys(index.scan(256..=u64::MAX)), [256, 1 << 40, u64::MAX]);
    assert_eq!(keys(index.range(..2).rev().into_iter()), [1, 0]);
    let error = index.range(0..9).snapshot().unwrap_err();
    assert!(matches!(&error, Error::Index { .. }) && error.exit_code() == 2, "{error}");
}

#[test]
fn handles_threads_and_sessions_share_one_index() {
    let pool = new_pool();
    let index: Index<u64, u64> = pool.create_index("n", &Radix::new()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = index.clone();
            scope.spawn(move || {
                for number in 0..500 {
                    index.put(number * 4 + thread, thread).unwrap();
                }
            });
        }
    });
    assert_eq!(index.count().unwrap(), 2000);
    let sessions: Vec<_> = (0..8).map(|_| index.session()).collect();
    let hot = sessions.iter().enumerate().map(|(number, session)| {
        Box::pin(async move {
            for turn in 0..50 {
                session.put(&7, &(number as u64 * 1000 + turn)).await.unwrap();
                assert!(session.get(&7).await.unwrap().is_some());
            }
        }) as Pin<Box<dyn Future<Output = ()> + '_>>
    });
    run_all(hot.collect::<Vec<_>>());
    let found = block_on(sessions[0].scan(.., Direction::Backward, 3)).unwrap();
    assert_eq!(found.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [1999, 1998, 1997]);
    assert_eq!(index.check().unwrap().problems(), []);
}

#[test]
fn loads_need_sorted_keys_and_an_empty_index() {
    let pool = new_pool();
    let index = texts(&pool);
    let words: Vec<String> = (0..5000).map(|number| format!("word {number:05}")).collect();
    let entries = words.iter().map(|word| (word.as_str(), word.as_bytes()));
    assert_eq!(index.bulk_load().run(entries.clone()).unwrap(), 5000);
    assert_eq!(index.bulk_load().run(entries).unwrap_err().exit_code(), 4);
    assert_eq!(index.get("word 04999").unwrap(), Some(b"word 04999".to_vec()));
    let other: Index<String, u64> = pool.create_index("other", &Radix::new()).unwrap();
    assert_eq!(other.bulk_load().run([("b", &1), ("a", &2)]).unwrap_err().exit_code(), 2);
    assert_eq!(other.count().unwrap(), 0);
}

#[test]
fn types_and_systems_are_kept_and_checked() {
    let pool = new_pool();
    let options = farwood::papers::SmartFeatures {
        node_sizing: farwood::papers::NodeSizing::Preallocated,
        ..farwood::papers::SmartVariant::RearLock.features()
    };
    let created = Radix::new().variant(options);
    drop(pool.create_index::<u64, Vec<u8>>("i", &created).unwrap());
    drop(pool.create_index::<u64, Vec<u8>>("j", &BTree::new().value_bytes(3)));
    let told: Vec<_> = pool.indexes().unwrap().iter().map(|index| index.ordered().unwrap().clone()).collect();
    assert_eq!([told[0].system, told[1].system], [System::Smart, System::Sherman]);
    assert_eq!(
        (told[0].variant, told[0].keys.bytes, told[0].values.bytes),
        (Some("+rear-lock"), Some(8), None)
    );
    assert!(matches!(pool.open_index::<String, Vec<u8>>("i"), Err(Error::Type { .. })));
    let index = pool.open_index::<u64, Vec<u8>>("i").unwrap();
    assert_eq!(index.stats().layout, told[0]);
    assert_eq!(pool.open_untyped("i").unwrap().kinds(), [Kind::U64, Kind::Bytes]);
    let too_long = texts(&pool).put("k".repeat(4097), []).unwrap_err();
    assert!(matches!(too_long, Error::Unfit { .. }), "{too_long}");
}

/// An entry that does not fit ends a bulk load, also if it is the first one: the empty key is legal in a radix tree.
#[test]
fn a_refused_entry_leaves_a_radix_tree_empty() {
    let pool = farwood::Pool::anonymous(64 << 20).unwrap();
    let trees = [
        pool.create_index::<String, u64>("smart", &farwood::Radix::new()).unwrap(),
        pool.create_index::<String, u64>("sphinx", &farwood::Hashed::new()).unwrap(),
    ];
    for index in trees {
        for refused in [0, 1, 2] {
            let keys =
                (0..3).map(|number| if number == refused { "a\0".to_owned() } else { format!("b{number}") });
            let error = index.bulk_load().run(keys.map(|key| (key, 1))).unwrap_err();
            assert!(matches!(error, farwood::Error::Unfit { .. }), "{error}");
            assert_eq!(index.count().unwrap(), 0, "entry {refused}");
        }
        assert_eq!(index.bulk_load().run([("", 1), ("a", 2)]).unwrap(), 2);
        assert_eq!(index.get("").unwrap(), Some(1));
    }
}

/// Each key is the prefix of the next one, so the tree has a level for each.
#[test]
fn deep_trees_are_loaded() {
    let pool = farwood::Pool::anonymous(64 << 20).unwrap();
    let index = pool.create_index::<String, u64>("deep", &farwood::Radix::new()).unwrap();
    let keys: Vec<_> = (1..600_usize).map(|length| "a".repeat(length)).collect();
    assert_eq!(index.bulk_load().run(keys.iter().map(|key| (key.as_str(), key.len() as u64))).unwrap(), 599);
    assert!(keys.iter().all(|key| index.get(key.as_str()).unwrap() == Some(key.len() as u64)));
    assert!(index.check().unwrap().problems().is_empty());
}
