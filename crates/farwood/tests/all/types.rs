//! The types of keys and values in indexes, the check of their names, and options that contradict an index.

use farwood::papers::{Consistency, ShermanVariant};
use farwood::runtime::block_on;
use farwood::testing::ScratchPool;
use farwood::types::{Kind, Plain, Serde, StartsWith};
use farwood::{BTree, Error, Hashed, Index, Key, Pool, Radix, Value};
use std::fmt::Debug;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The pool of one test.
fn scratch() -> ScratchPool {
    ScratchPool::new(128 << 20).unwrap()
}

/// Creates an index of each system.
fn each<K: Key, V: Value>(pool: &Pool, bytes: [Option<usize>; 2]) -> [Index<K, V>; 3] {
    let [key_bytes, value_bytes] = bytes;
    let sherman = key_bytes.into_iter().fold(BTree::new(), BTree::key_bytes);
    let sherman = value_bytes.into_iter().fold(sherman, BTree::value_bytes);
    [
        pool.create_index("sherman", &sherman).unwrap(),
        pool.create_index("smart", &Radix::new()).unwrap(),
        pool.create_index("sphinx", &Hashed::new()).unwrap(),
    ]
}

/// Stores increasing keys with a value each, in every system, and reads them back.
fn keeps<K, V>(bytes: [Option<usize>; 2], entries: &[(K, V)])
where
    K: Key + Clone + PartialEq + Debug,
    V: Value + Clone + PartialEq + Debug,
{
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    for index in each::<K, V>(&pool, bytes) {
        for (key, value) in entries.iter().rev() {
            assert!(!index.put(key, value).unwrap());
        }
        for (key, value) in entries {
            assert_eq!(index.get(key).unwrap().as_ref(), Some(value), "{key:?}");
        }
        let found: Vec<_> = index.scan(..).collect::<Result<_, _>>().unwrap();
        assert_eq!(found, entries, "{}", index.url());
        let after: Vec<_> =
            index.scan((Excluded(&entries[0].0), Unbounded)).collect::<Result<_, _>>().unwrap();
        assert_eq!(after, entries[1..], "{}", index.url());
    }
    for name in ["sherman", "smart", "sphinx"] {
        assert_eq!(pool.open_index::<K, V>(name).unwrap().count().unwrap(), entries.len() as u64);
    }
}

#[test]
fn numbers_are_keys_and_values_of_every_system() {
    keeps([None; 2], &[(i64::MIN, 1_u8), (-1, 2), (0, 3), (i64::MAX, 4)]);
    keeps([None; 2], &[(0_u8, -1_i8), (1, 0), (255, 1)]);
    keeps([None; 2], &[(0_u32, i128::MIN), (1, 0), (u32::MAX, 1)]);
    keeps([None; 2], &[(i16::MIN, u16::MAX), (-1, 0), (0, 1)]);
    keeps(
        [None; 2],
        &[(f64::NEG_INFINITY, 1.5_f32), (-1.0, 0.0), (-0.0, 1.0), (0.0, 2.0), (f64::INFINITY, -1.0)],
    );
    keeps([None; 2], &[(false, true), (true, false)]);
    keeps([None; 2], &[(0_u128, ()), (u128::MAX, ())]);
    keeps([None; 2], &[([0_u8, 1], [1_u8; 3]), ([1, 0], [2; 3])]);
}

#[test]
fn composite_keys_are_keys_of_every_system() {
    let key = |number: u64, text: &str| (number, text.to_owned());
    let entries =
        [(key(1, ""), Some(1_u8)), (key(1, "a"), None), (key(1, "a\u{1}"), Some(0)), (key(2, ""), None)];
    keeps([Some(16), None], &entries);
    let second = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let events: Vec<((SystemTime, Option<u32>), Duration)> = vec![
        ((second(1), None), Duration::ZERO),
        ((second(1), Some(0)), Duration::from_nanos(1)),
        ((second(2), None), Duration::MAX),
    ];
    keeps([None; 2], &events);
    let text = |text: &str| Some(text.to_owned());
    keeps([Some(8), Some(8)], &[(None, text("b")), (text(""), None), (text("a"), text(""))]);
}

#[test]
fn calls_take_keys_values_borrowed_forms_and_references() {
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    let numbers = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    numbers.bulk_load().run((0..9).map(|number| (number, number * number))).unwrap();
    numbers.put(9, 81).unwrap();
    assert_eq!(
        (numbers.get(7).unwrap(), numbers.get(7).unwrap(), numbers.get(7).unwrap()),
        (Some(49), Some(49), Some(49))
    );
    let last = 6;
    let counts = [
        numbers.scan(3..6).count(),
        numbers.scan(&3..=&6).count(),
        numbers.scan((Excluded(&last), Unbounded)).count(),
        numbers.scan((Included(last), Excluded(8))).count(),
        numbers.scan(..last).count(),
        numbers.scan(..=last).count(),
        numbers.scan(last..).count(),
        numbers.scan(..).count(),
    ];
    assert_eq!(counts, [3, 4, 3, 2, 6, 7, 4, 10]);
    let session = numbers.session();
    block_on(async {
        assert_eq!(session.get(7).await.unwrap(), Some(49));
        assert_eq!(session.scan(7.., farwood::index::Direction::Forward, 1).await.unwrap(), [(7, 49)]);
        assert!(!session.put(&10, 100).await.unwrap());
    });
    let texts = pool.create_index::<String, Vec<u8>>("texts", &Radix::new()).unwrap();
    let (owned, bytes) = ("b".to_owned(), vec![2]);
    texts.put("a", b"1").unwrap();
    texts.put(&owned, &bytes).unwrap();
    texts.put("c".to_owned(), [3]).unwrap();
    texts.put(&*owned, &bytes[..]).unwrap();
    assert_eq!((texts.get(&owned).unwrap(), texts.get("c").unwrap()), (Some(vec![2]), Some(vec![3])));
    assert_eq!(
        (texts.scan("b"..).count(), texts.scan(&owned..).count(), texts.scan(owned.clone()..).count()),
        (2, 2, 2)
    );
    assert_eq!((texts.scan_prefix("a").count(), texts.scan_prefix(&owned).count()), (1, 1));
    let pairs = pool.create_index::<(u64, String), u64>("pairs", &Radix::new()).unwrap();
    pairs.put((7, "left"), 1).unwrap();
    pairs.put((7, &owned), 2).unwrap();
    pairs.put(&(8, owned), 3).unwrap();
    assert_eq!(pairs.get((7, "left")).unwrap(), Some(1));
    let found = [pairs.scan_prefix((7,)).count(), pairs.scan_prefix((7, StartsWith("l"))).count()];
    assert_eq!(found, [2, 1]);
    assert_eq!(pairs.scan((7, "c")..(8, "c")).count(), 2);
}

#[test]
fn serialised_and_plain_values_are_kept() {
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    let options = BTree::new().any_length_values();
    let lists = pool.create_index::<u64, Serde<Vec<String>>>("lists", &options).unwrap();
    let list: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    lists.put(1, Serde(&list)).unwrap();
    lists.put(2, Serde(Vec::new())).unwrap();
    assert_eq!((lists.get(1).unwrap(), lists.get(2).unwrap()), (Some(Serde(list)), Some(Serde(Vec::new()))));
    let padded = BTree::new().value_bytes(8);
    let short = pool.create_index::<u64, Serde<(u8, String)>>("short", &padded).unwrap();
    short.put(1, Serde((7, "abc".to_owned()))).unwrap();
    assert_eq!(short.get(1).unwrap(), Some(Serde((7, "abc".to_owned()))));
    assert!(matches!(short.put(1, Serde((7, "too long".to_owned()))), Err(Error::Unfit { .. })));
    let plain = pool.create_index::<u64, Plain<[u32; 3]>>("plain", &BTree::new()).unwrap();
    plain.put(1, Plain([1, 2, 3])).unwrap();
    assert_eq!(plain.get(1).unwrap(), Some(Plain([1, 2, 3])));
}

#[derive(Clone, Debug, PartialEq)]
struct UserId(u64);
farwood::key_type!(UserId(u64), "user id");

#[derive(Debug, PartialEq)]
struct Tags(Serde<Vec<String>>);
farwood::value_type!(Tags(Serde<Vec<String>>), "tags");

#[test]
fn the_name_of_a_type_is_checked_when_an_index_is_opened() {
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    let any = Radix::new();
    let users = pool.create_index::<UserId, Tags>("users", &any).unwrap();
    users.put(UserId(7), Tags(Serde(vec!["a".to_owned()]))).unwrap();
    drop(users);
    for pool in [&pool, &scratch.open().unwrap()] {
        pool.open_index::<UserId, Tags>("users").unwrap();
        let refused = pool.open_index::<u64, Tags>("users").unwrap_err();
        assert_eq!(refused.exit_code(), 7);
        let message = refused.to_string();
        assert!(message.contains("its keys have the type custom (u64), not u64"), "{message}");
        let refused = pool.open_index::<UserId, Serde<Vec<String>>>("users").unwrap_err().to_string();
        assert!(refused.contains("its values have the type custom (structured), not postcard"), "{refused}");
    }
    drop(pool.create_index::<u64, (u64, String)>("pairs", &any).unwrap());
    let message = pool.open_index::<UserId, (u64, String)>("pairs").unwrap_err().to_string();
    assert!(message.contains("its keys have the type u64, not 'user id' (u64)"), "{message}");
    assert!(pool.open_index::<u64, (u64, Vec<u8>)>("pairs").is_err());
    assert!(pool.open_index::<u64, (u64, String)>("pairs").is_ok());
    let shown = |name: &str| {
        let indexes = pool.indexes().unwrap();
        let layout = indexes.iter().find(|index| index.name == name).unwrap().ordered().unwrap().clone();
        format!("{} to {}", layout.keys, layout.values)
    };
    assert_eq!(shown("users"), "custom (u64) to custom (structured)");
    assert_eq!(shown("pairs"), "u64 to custom (structured)");
}

#[test]
fn indexes_of_the_command_have_the_types_of_the_library() {
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    let any = Radix::new();
    let kinds = [Kind::U64, Kind::Text, Kind::Bytes, Kind::I64, Kind::F64, Kind::Bool];
    for kind in kinds {
        drop(pool.create_untyped(&kind.to_string(), [kind, kind], &any).unwrap());
    }
    let fresh = scratch.open().unwrap();
    fresh.open_index::<u64, u64>("u64").unwrap();
    fresh.open_index::<String, String>("text").unwrap();
    fresh.open_index::<Vec<u8>, [u8; 3]>("hex").unwrap();
    fresh.open_index::<i64, i64>("i64").unwrap();
    fresh.open_index::<f64, f64>("f64").unwrap();
    fresh.open_index::<bool, bool>("bool").unwrap();
    assert!(matches!(fresh.open_index::<UserId, u64>("u64"), Err(Error::Type { .. })));
    let reserved = pool.create_untyped("reserved", [Kind::Other(100), Kind::U64], &any).unwrap_err();
    assert!(
        reserved.to_string().contains("kind 100 belongs to the library; give a number of 128"),
        "{reserved}"
    );
    drop(pool.create_untyped("own", [Kind::Other(200), Kind::U64], &any).unwrap());
    let own = pool.create_untyped("padded", [Kind::Bool, Kind::I64], &BTree::new()).unwrap();
    own.put([1, 0, 0, 0, 0, 0, 0, 0], [0x80, 0, 0, 0, 0, 0, 0, 5]).unwrap();
    drop(own);
    assert_eq!(pool.open_index::<bool, i64>("padded").unwrap().get(true).unwrap(), Some(5));
}

/// Refuses to open the index `i` with `options`; yields the error.
fn contradicted(pool: &Pool, options: &impl farwood::index::Structure) -> String {
    let error = pool.open_or_create::<Vec<u8>, Vec<u8>>("i", options).unwrap_err();
    assert!(matches!(error, Error::Argument { .. }), "{error}");
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

#[test]
fn options_that_contradict_an_index_are_refused() {
    let scratch = scratch();
    let pool = scratch.open().unwrap();
    let plain = BTree::new();
    let created = plain.clone().key_bytes(8).value_bytes(16);
    drop(pool.open_or_create::<Vec<u8>, Vec<u8>>("i", &created).unwrap());
    for same in [plain.clone(), created.clone(), created.clone().cache_bytes(1 << 20)] {
        drop(pool.open_or_create::<Vec<u8>, Vec<u8>>("i", &same).unwrap());
    }
    let message = contradicted(&pool, &created.clone().key_bytes(64));
    assert!(message.contains("the key length is 64 bytes; the index was created with 8 bytes"), "{message}");
    let message = contradicted(&pool, &Radix::new());
    assert!(message.contains("the system is smart; the index was created with sherman"), "{message}");
    assert!(contradicted(&pool, &Hashed::new()).contains("system is sphinx"));
    let others = [
        plain.clone().value_bytes(8),
        plain.clone().any_length_values(),
        plain.clone().node_bytes(512),
        plain.clone().variant(ShermanVariant::Fg.features()),
        plain.clone().lock_width(farwood::papers::LockWidth::Packed),
        plain.consistency(Consistency::Versions),
    ];
    for options in others {
        assert!(contradicted(&pool, &options).contains("the index was created with"), "{options:?}");
    }
    let art = Radix::new().variant(farwood::papers::SmartVariant::Art.features());
    drop(pool.create_index::<u64, u64>("art", &art).unwrap());
    drop(pool.open_or_create::<u64, u64>("art", &art).unwrap());
    drop(pool.open_or_create::<u64, u64>("art", &Radix::new()).unwrap());
    let other = Radix::new().variant(farwood::papers::SmartVariant::RearLock.features());
    assert!(pool.open_or_create::<u64, u64>("art", &other).is_err());
}
