//! Attachments for reading only: their answers, also beside writers, what they refuse, and what other processes see of
//! them.

use farwood::error::{Effect, ErrorKind};
use farwood::index::Direction;
use farwood::node::{AcceptedTokens, MemoryNode, NodeSpec};
use farwood::runtime::block_on;
use farwood::spatial::{
    IdKind, Item, Query, RTree, Record, RecordId, Rectangle, SearchMode, SearchOptions, ServeOptions,
};
use farwood::testing::ScratchPool;
use farwood::{Access, BTree, Error, Hashed, Index, Pool, Radix};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const MEMORY_BYTES: u64 = 128 << 20;

/// The token files and memory nodes of a pool over TCP.
struct Served {
    folder: tempfile::TempDir,
    nodes: Vec<MemoryNode>,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            Some(AcceptedTokens::from_file(&path).unwrap())
        };
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let spec = NodeSpec {
            token: token("all", "a-token-for-everything"),
            read_token: token("read", "a-token-for-reading-only"),
            ..NodeSpec::new(listen, MEMORY_BYTES)
        };
        let nodes = (0..2).map(|_| MemoryNode::start(&spec).unwrap()).collect();
        Self { folder, nodes }
    }

    fn url(&self, token: &str) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        let token: PathBuf = self.folder.path().join(token);
        format!("tcp://{}?token-file={}&environment=no", nodes.join(","), token.display())
    }
}

/// Calls `test` with a pool, and a function that opens it for reading, in shared memory and over TCP.
fn on_each_fabric(test: impl Fn(&Pool, &dyn Fn() -> Pool)) {
    let scratch = ScratchPool::new(MEMORY_BYTES).unwrap();
    test(&scratch.open().unwrap(), &|| Pool::open_read_only(scratch.url()).unwrap());
    let served = Served::new();
    let pool = Pool::open(served.url("all").as_str()).unwrap();
    test(&pool, &|| Pool::open_read_only(served.url("read").as_str()).unwrap());
}

fn create_each(pool: &Pool) -> Vec<Index<u64, Vec<u8>>> {
    vec![
        pool.create_index("btree", &BTree::new().any_length_values()).unwrap(),
        pool.create_index("radix", &Radix::new()).unwrap(),
        pool.create_index("hashed", &Hashed::new()).unwrap(),
    ]
}

const NAMES: [&str; 3] = ["btree", "radix", "hashed"];

/// The value of a key, of several lengths.
fn value(key: u64) -> Vec<u8> {
    vec![key as u8; (key % 97) as usize + usize::from(key.is_multiple_of(50)) * 9_000]
}

#[test]
fn reads_have_the_answers_of_a_writer() {
    const KEYS: u64 = 2_000;
    on_each_fabric(|pool, reader| {
        for index in create_each(pool) {
            index.put_many((0..KEYS).map(|key| (key * 2, value(key * 2)))).unwrap();
        }
        let reader = reader();
        assert_eq!(reader.access(), Access::ReadOnly);
        let names: Vec<_> = reader.indexes().unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["btree", "hashed", "radix"]);
        for name in NAMES {
            let index = reader.open_index::<u64, Vec<u8>>(name).unwrap();
            for key in 0..2 * KEYS {
                let expected = key.is_multiple_of(2).then(|| value(key));
                assert_eq!(index.get(key).unwrap(), expected, "{name} {key}");
            }
            assert_eq!(index.get_many([4, 5, 6]).unwrap(), [Some(value(4)), None, Some(value(6))]);
            let page: Vec<_> =
                index.range(100..).limit(3).into_iter().map(|entry| entry.unwrap().0).collect();
            assert_eq!(page, [100, 102, 104]);
            let last: Vec<_> =
                index.range(..).rev().limit(2).into_iter().map(|entry| entry.unwrap().0).collect();
            assert_eq!(last, [2 * KEYS - 2, 2 * KEYS - 4]);
            assert_eq!((index.count().unwrap(), index.scrub().unwrap()), (KEYS, KEYS));
            assert!(index.check().unwrap().problems().is_empty());
            let answers = index.to_async().unwrap();
            assert_eq!(block_on(answers.get(8)).unwrap(), Some(value(8)));
            assert_eq!(block_on(answers.scan(..9, Direction::Forward, 9)).unwrap().len(), 5);
            assert_eq!(block_on(index.session().get(8)).unwrap(), Some(value(8)));
            assert_eq!(reader.open_untyped(name).unwrap().count().unwrap(), KEYS);
        }
        let tree = reader.open_index::<u64, Vec<u8>>("btree").unwrap();
        assert_eq!(tree.range(10..20).snapshot().unwrap().len(), 5);
        let stats = reader.stats().unwrap();
        assert_eq!(stats.clients.len(), 1, "the client table has the writer only: {:?}", stats.clients);
        assert!(stats.clients[0].alive && !stats.clients[0].is_own);
        let missing = reader.open_index::<u64, u64>("missing").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

/// Expects the refusal of a change, with the operation, the pool or index, and a remedy.
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(changed: Result<T, Error>, operation: &str) {
    let error = changed.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::ReadOnly, Effect::None), "{error}");
    assert!(!error.is_retryable() && error.operation() == operation, "{error}");
    assert!(error.to_string().contains("may only read"), "{error}");
    assert!(error.help().is_some_and(|remedy| remedy.contains("Pool::open")), "{error}");
    assert!(error.message_of_command().contains("without --read-only"), "{}", error.message_of_command());
}

#[test]
fn every_change_is_refused_without_a_round_trip() {
    on_each_fabric(|pool, reader| {
        for index in create_each(pool) {
            index.put(1, value(1)).unwrap();
        }
        let counters = pool.create_index::<u64, u64>("counters", &BTree::new()).unwrap();
        counters.put(1, 1).unwrap();
        let reader = reader();
        for name in NAMES {
            let index = reader.open_index::<u64, Vec<u8>>(name).unwrap();
            assert_refused(index.put(1, value(2)), "put");
            assert_refused(index.insert(2, value(2)), "insert");
            assert_refused(index.update(1, value(2)), "update");
            assert_refused(index.remove(1), "remove");
            assert_refused(index.put_many([(1, value(2))]), "put many");
            assert_refused(index.remove_many([1]), "remove many");
            assert_refused(index.swap(1, value(2)), "swap");
            assert_refused(index.take(1), "take");
            assert_refused(index.compare_exchange(1, Some(&value(1)), None), "compare exchange");
            assert_refused(index.fetch_update(1, |_| None), "fetch update");
            assert_refused(index.remove_if(1, |_| true), "remove");
            assert_refused(block_on(index.to_async().unwrap().put(1, value(2))), "put");
            let session = index.session();
            session.take_costs();
            assert_refused(block_on(session.put(1, value(2))), "put");
            assert_eq!(session.take_costs().round_trips, 0, "{name}");
            assert_eq!(index.get(1).unwrap(), Some(value(1)), "{name}");
        }
        let counter = reader.open_index::<u64, u64>("counters").unwrap();
        assert_refused(counter.fetch_add(1, 1), "fetch add");
        assert_refused(reader.create_index::<u64, u64>("new", &BTree::new()), "create");
        assert_refused(reader.create_spatial("new", &RTree::new()), "create");
        assert_refused(reader.open_or_create::<u64, u64>("new", &Hashed::new()), "create");
        assert_refused(reader.drop_index("radix"), "drop");
        assert_refused(reader.sweep_clients(), "sweep");
        assert_refused(reader.sweep_locks(), "sweep");
        assert_eq!((reader.indexes().unwrap().len(), counters.get(1).unwrap()), (4, Some(1)));
    });
}

/// A client that may only read beside clients that split, grow and merge nodes. Keys that no client removes are always
/// found, with a value that some client has stored.
#[test]
fn a_reader_beside_writers_finds_every_key() {
    const STABLE: u64 = 400;
    on_each_fabric(|pool, reader| {
        for (index, name) in create_each(pool).iter().zip(NAMES) {
            index.put_many((0..STABLE).map(|key| (key * 1_000, vec![0; 8]))).unwrap();
            let reader = reader().open_index::<u64, Vec<u8>>(name).unwrap();
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                for writer in 0..2 {
                    let (index, stop) = (index.clone(), &stop);
                    scope.spawn(move || {
                        for round in 1..=3_u8 {
                            for key in 0..STABLE / 2 {
                                index.put((2 * key + writer) * 1_000, vec![round; 8]).unwrap();
                                let others = (1..6).map(|more| (2 * key + writer) * 1_000 + more * 150);
                                index.put_many(others.map(|key| (key, vec![round; 8]))).unwrap();
                            }
                            for key in 0..STABLE / 2 {
                                let others = (1..6).map(|more| (2 * key + writer) * 1_000 + more * 150);
                                index.remove_many(others).unwrap();
                            }
                        }
                        stop.store(true, Ordering::Relaxed);
                    });
                }
                scope.spawn(|| {
                    let mut seen = vec![0; STABLE as usize];
                    while !stop.load(Ordering::Relaxed) {
                        for (key, before) in seen.iter_mut().enumerate() {
                            let found = reader.get(key as u64 * 1_000).unwrap();
                            let round = found.unwrap_or_else(|| panic!("{name}: {key} is missing"));
                            assert!(round.len() == 8 && round.iter().all(|byte| *byte == round[0]));
                            assert!(round[0] >= *before, "{name}: {key} has an older value than before");
                            *before = round[0];
                        }
                        let keys: Vec<_> = reader.iter().map(|entry| entry.unwrap().0).collect();
                        assert!(keys.is_sorted(), "{name}");
                        let stable = keys.iter().filter(|key| key.is_multiple_of(1_000)).count();
                        assert_eq!(stable as u64, STABLE, "{name}: a scan misses keys");
                    }
                });
            });
            assert_eq!(reader.count().unwrap(), STABLE, "{name}");
        }
    });
}

fn item(id: u64) -> Item {
    Item { bounds: Rectangle::point([id as f64, 0.0]).unwrap(), id }
}

#[test]
fn a_spatial_index_is_searched_and_not_changed() {
    let scratch = ScratchPool::new(MEMORY_BYTES).unwrap();
    let pool = scratch.open().unwrap();
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    places.insert_many(&(0..500).map(item).collect::<Vec<_>>()).unwrap();
    let parks = pool.create_spatial("parks", &RTree::new().ids(IdKind::Number)).unwrap();
    let record = |id: u64| Record { id: RecordId::Number(id), bounds: item(id).bounds, payload: vec![7; 30] };
    parks.put_many((0..200).map(record)).unwrap();
    let check = || {
        let reader = Pool::open_read_only(scratch.url()).unwrap();
        assert!(reader.is_spatial("places").unwrap());
        let found = reader.open_spatial("places").unwrap();
        let window = Query::intersecting(Rectangle::new([9.5, -1.0], [19.5, 1.0]).unwrap());
        // More searches than the first trial of messages.
        for _ in 0..40 {
            assert_eq!(found.search(&window).unwrap().len(), 10);
        }
        assert_eq!(found.search_stats().by_message, 0);
        assert_eq!((found.count_all().unwrap(), found.scrub().unwrap()), (500, 500));
        assert_eq!(found.nearest([100.2, 0.0], 1).unwrap()[0].item.id, 100);
        assert!(found.check().unwrap().problems.is_empty());
        let records = reader.open_spatial("parks").unwrap();
        assert_eq!(records.get(&RecordId::Number(7)).unwrap(), Some(record(7)));
        assert_eq!(records.search_records(&window).unwrap().len(), 10);
        assert_refused(found.insert(&item(1)), "change");
        assert_refused(found.insert_many(&[item(1)]), "change");
        assert_refused(found.remove(&item(1)), "change");
        assert_refused(records.put(record(1)), "change");
        assert_refused(records.delete(&RecordId::Number(1)), "change");
        assert_refused(found.bulk_load(&[item(1)], 0.9), "bulk load");
        assert_refused(records.bulk_load_records(vec![record(1)], 0.9), "bulk load");
        assert_refused(found.takes_bulk(), "bulk load");
        assert_refused(found.serve(&ServeOptions::default(), &AtomicBool::new(true), || {}), "serve");
        let message = SearchOptions { mode: SearchMode::Message, ..SearchOptions::default() };
        assert_refused(found.with_search(message).unwrap().search(&window), "search");
        assert_refused(reader.drop_index("parks"), "drop");
    };
    check();
    super::spatial_pool::served(&places, &ServeOptions::default(), check);
}

#[test]
fn an_index_that_is_dropped_while_it_is_read_never_has_answers_of_another() {
    on_each_fabric(|pool, reader| {
        for index in create_each(pool) {
            index.put_many((0..300).map(|key| (key, value(key)))).unwrap();
        }
        let reader = reader();
        let read = NAMES.map(|name| reader.open_index::<u64, Vec<u8>>(name).unwrap());
        for index in &read {
            assert_eq!(index.get(7).unwrap(), Some(value(7)));
        }
        for name in NAMES {
            // The reader does not keep it open, as far as other processes know.
            pool.drop_index(name).unwrap();
        }
        for index in create_each(pool) {
            index.put_many((0..300).map(|key| (key, vec![99; 99]))).unwrap();
        }
        for (index, name) in read.iter().zip(NAMES) {
            for key in (0..300).step_by(17) {
                if let Ok(found) = index.with_timeout(std::time::Duration::from_millis(20)).get(key) {
                    assert!(found.is_none_or(|found| found == value(key)), "{name} {key}: of the new index");
                }
            }
        }
        drop(read);
        let again = reader.open_index::<u64, Vec<u8>>("radix").unwrap();
        assert_eq!(again.get(7).unwrap(), Some(vec![99; 99]));
    });
}

#[test]
fn tokens_decide_what_a_process_may_do() {
    let served = Served::new();
    let fresh = Pool::open_read_only(served.url("read").as_str()).unwrap_err();
    assert_eq!(fresh.kind(), ErrorKind::NotFound, "{fresh}");
    let pool = Pool::open(served.url("all").as_str()).unwrap();
    assert_eq!(pool.access(), Access::ReadWrite);
    for opened in [Pool::open(served.url("read").as_str()), Pool::find(served.url("read").as_str())] {
        let error = opened.unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::ReadOnly, 6), "{error}");
        assert!(error.help().unwrap().contains("Pool::open_read_only"), "{error}");
        assert!(error.message_of_command().contains("--read-only"), "{}", error.message_of_command());
    }
    let reader = Pool::open_read_only(served.url("all").as_str()).unwrap();
    assert_eq!(reader.access(), Access::ReadOnly, "a process restricts itself");
}

#[test]
fn no_pool_over_rdma_is_opened_for_reading_only() {
    let error = Pool::open_read_only("rdma://127.0.0.1:1").unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Unsupported, 2), "{error}");
    assert!(error.to_string().contains("rdma://127.0.0.1:1"), "{error}");
}
