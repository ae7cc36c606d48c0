//! Tests of the library through its public interface: types, threads, scans, sessions, and refused calls.

use farwood::error::{Effect, ErrorKind};
use farwood::index::{Direction, Structure};
use farwood::papers::ShermanVariant;
use farwood::runtime::{block_on, run_all};
use farwood::spatial::{Item, RTree, Rectangle, ServeOptions};
use farwood::testing::ScratchPool;
use farwood::types::{Kind, Unfit};
use farwood::{BTree, Error, Hashed, Index, Pool, PoolOptions, Radix, Url, Value};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// The pool of one test, removed when the test ends.
struct Scratch {
    pool: Option<Pool>,
    scratch: ScratchPool,
}

impl Scratch {
    fn new() -> Self {
        let options = PoolOptions::new().memory_bytes(64 << 20).nodes(2);
        let scratch = ScratchPool::with(&options).unwrap();
        Self { pool: Some(scratch.open().unwrap()), scratch }
    }

    fn url(&self) -> &str {
        self.scratch.url()
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    fn numbers(&self) -> Index<u64, u64> {
        self.pool().create_index("numbers", &BTree::new()).unwrap()
    }
}

fn wide(key_bytes: usize) -> BTree {
    BTree::new().key_bytes(key_bytes).value_bytes(key_bytes)
}

/// Each thread is the server for the duration of one change, one after the other.
#[test]
fn threads_change_a_spatial_index_together() {
    const THREADS: u64 = 4;
    const EACH: u64 = 40;
    let scratch = Scratch::new();
    let places = scratch.pool().create_spatial("places", &farwood::spatial::RTree::new()).unwrap();
    let item = |id: u64| Item { bounds: Rectangle::point([id as f64, 0.0]).unwrap(), id };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let places = &places;
            scope.spawn(move || {
                for id in thread * EACH..(thread + 1) * EACH {
                    places.insert(&item(id)).unwrap();
                }
            });
        }
    });
    assert_eq!(places.count_all().unwrap(), THREADS * EACH);
    let nested = places.change(|_| places.insert(&item(0)));
    assert!(matches!(nested, Err(Error::Index { .. })), "it has an editor: {nested:?}");
}

#[test]
fn handles_may_go_to_other_threads() {
    fn everywhere<T: Send + Sync + Clone>() {}
    fn onwards<T: Send>() {}
    everywhere::<Pool>();
    everywhere::<Index<String, u64>>();
    onwards::<farwood::index::Scan<String, u64>>();
    onwards::<Error>();
}

#[test]
fn every_type_is_kept_and_checked() {
    let scratch = Scratch::new();
    let pool = scratch.pool();
    pool.create_index::<u64, [u8; 3]>("a", &BTree::new()).unwrap().put(1, [1, 2, 3]).unwrap();
    pool.create_index::<String, Vec<u8>>("b", &wide(20)).unwrap().put("key", [7; 20]).unwrap();
    assert_eq!(pool.open_index::<u64, [u8; 3]>("a").unwrap().get(1).unwrap(), Some([1, 2, 3]));
    assert_eq!(pool.open_index::<String, Vec<u8>>("b").unwrap().get("key").unwrap(), Some(vec![7; 20]));
    for error in [
        pool.open_index::<u64, [u8; 4]>("a").unwrap_err(),
        pool.open_index::<u64, u64>("a").unwrap_err(),
        pool.open_index::<[u8; 8], [u8; 3]>("a").unwrap_err(),
        pool.open_index::<Vec<u8>, Vec<u8>>("b").unwrap_err(),
    ] {
        assert!(matches!(error, Error::Type { .. }), "{error}");
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::TypeMismatch, 7));
        assert!(error.help().unwrap().contains("Pool::indexes"), "{error}");
    }
    let plain = pool.open_untyped("a").unwrap();
    assert_eq!(plain.kinds(), [Kind::U64, Kind::Bytes]);
    assert_eq!(plain.get(1u64.to_be_bytes()).unwrap(), Some(vec![1, 2, 3]));
}

#[test]
fn a_pool_lists_its_indexes_without_opening_them() {
    let scratch = Scratch::new();
    let pool = scratch.pool();
    let fg = wide(20).variant(ShermanVariant::Fg.features()).node_bytes(512);
    drop(pool.create_index::<u64, [u8; 3]>("b", &BTree::new()).unwrap());
    drop(pool.create_index::<String, Vec<u8>>("a", &fg).unwrap());
    let stats = pool.stats().unwrap();
    assert!(stats.clients.iter().all(|client| client.open.is_empty()), "{:?}", stats.clients);
    let indexes = pool.indexes().unwrap();
    let told = indexes.iter().map(|index| {
        let layout = index.ordered().unwrap();
        let types = format!("{} to {}", layout.keys, layout.values);
        (index.name.as_str(), types, layout.nodes.unwrap().node_bytes, layout.variant)
    });
    let expected = [
        ("a", "text of 20 bytes to hex of 20 bytes", 512, Some("fg")),
        ("b", "u64 to hex of 3 bytes", 1024, Some(ShermanVariant::RECOMMENDED.name())),
    ];
    assert!(told.eq(expected.map(|(name, types, bytes, variant)| (name, types.to_owned(), bytes, variant))));
    assert_eq!(pool.open_untyped("a").unwrap().stats().layout, *indexes[0].ordered().unwrap());
}

#[test]
fn values_may_have_any_length() {
    let scratch = Scratch::new();
    let options = BTree::new().any_length_values();
    let index = scratch.pool().create_index::<u64, Vec<u8>>("any", &options).unwrap();
    let value = |length: usize| -> Vec<u8> { (0..length).map(|at| at as u8).collect() };
    for length in [0, 28, 29, 5_000, 3 << 20] {
        index.put(length as u64, value(length)).unwrap();
        assert_eq!(index.get(length as u64).unwrap(), Some(value(length)), "{length}");
    }
    let all: Vec<_> = index.iter().map(|entry| entry.unwrap().1.len()).collect();
    assert_eq!(all, [0, 28, 29, 5_000, 3 << 20]);
    let back: Vec<_> =
        index.range(..).rev().limit(2).into_iter().map(|entry| entry.unwrap().1.len()).collect();
    assert_eq!(back, [3 << 20, 5_000]);
    let error = index.put(1, value((16 << 20) + 1)).unwrap_err();
    assert!(matches!(error, Error::Unfit { why: Unfit::TooLong { .. }, .. }), "{error}");
    assert_eq!(index.check().unwrap().problems(), []);
    drop(index);
    assert!(scratch.pool().open_index::<u64, String>("any").is_err(), "the kind is checked");
    assert!(scratch.pool().open_index::<u64, Vec<u8>>("any").is_ok());
}

#[test]
fn values_that_do_not_fit_are_refused_with_the_reason() {
    let scratch = Scratch::new();
    let index = scratch.pool().create_index::<String, Vec<u8>>("t", &wide(8)).unwrap();
    let why = |error: Error| match error {
        Error::Unfit { why, what, .. } => (what, why),
        other => panic!("{other}"),
    };
    let value = [0; 8];
    assert_eq!(
        why(index.put("nine char", value).unwrap_err()),
        ("key", Unfit::TooLong { most: 8, found: 9 })
    );
    assert_eq!(why(index.get("a\0").unwrap_err()), ("key", Unfit::Nul { at: 1 }));
    let short = why(index.put("a", [0; 7]).unwrap_err());
    assert_eq!(short, ("value", Unfit::Length { expected: 8, found: 7 }));
    assert!(matches!(index.scan("a much too long text"..).next(), Some(Err(Error::Unfit { .. }))));
    let error = scratch.pool().create_index::<String, u64>("u", &BTree::new()).unwrap_err();
    assert!(error.to_string().contains("key_bytes"), "{error}");
    let error = scratch.pool().create_index::<u64, u64>("u", &wide(9)).unwrap_err();
    assert!(error.to_string().contains("not 9"), "{error}");
}

#[test]
fn changes_return_whether_the_key_was_present() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    assert!(!index.update(1, 10).unwrap());
    assert!(index.insert(1, 11).unwrap());
    assert!(!index.insert(1, 12).unwrap());
    assert!(index.put(1, 13).unwrap());
    assert!(index.update(1, 14).unwrap());
    assert_eq!((index.get(1).unwrap(), index.count().unwrap()), (Some(14), 1));
    assert!(index.remove(1).unwrap());
    assert!(!index.remove(1).unwrap());
    assert_eq!(index.get(1).unwrap(), None);
}

/// Compares all entries of `range` in both directions, and the first few, with the model.
fn compare<V: Value + PartialEq + std::fmt::Debug + Clone>(
    index: &Index<u64, V>,
    model: &BTreeMap<u64, V>,
    range: (Bound<u64>, Bound<u64>),
) {
    let empty = match (range.0, range.1) {
        (Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from > to
        }
        _ => false,
    };
    let expected: Vec<(u64, V)> = if empty {
        Vec::new()
    } else {
        model.range(range).map(|(key, value)| (*key, value.clone())).collect()
    };
    let found: Vec<_> = index.scan(range).collect::<Result<_, _>>().unwrap();
    assert_eq!(found, expected, "{range:?}");
    let mut found: Vec<_> = index.scan(range).rev().collect::<Result<_, _>>().unwrap();
    found.reverse();
    assert_eq!(found, expected, "{range:?}, reversed");
    let found: Vec<_> = index.range(range).limit(100).into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(found[..], expected[..expected.len().min(100)], "{range:?}, limited");
}

#[test]
fn scans_find_what_a_model_finds() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    let mut model = BTreeMap::new();
    for number in 0..5_000u64 {
        let key = number.wrapping_mul(2_654_435_761) % 10_000;
        assert_eq!(index.put(key, number).unwrap(), model.insert(key, number).is_some());
    }
    for key in [0, u64::MAX] {
        index.put(key, key).unwrap();
        model.insert(key, key);
    }
    let ends = [0, 1, 17, 4_999, 9_999, u64::MAX];
    let bounds = ends.into_iter().flat_map(|end| [Bound::Included(end), Bound::Excluded(end)]);
    let bounds: Vec<_> = bounds.chain([Bound::Unbounded]).collect();
    for from in &bounds {
        for to in &bounds {
            compare(&index, &model, (*from, *to));
        }
    }
    assert_eq!(index.count().unwrap(), model.len() as u64);
    assert!(index.iter().map(|entry| entry.unwrap()).eq(model.clone()));
}

#[test]
fn a_bulk_load_that_fails_leaves_no_entry() {
    let scratch = Scratch::new();
    let index = scratch.pool().create_index::<String, u64>("t", &BTree::new().key_bytes(8));
    let index = index.unwrap();
    let good = (0..500u64).map(|number| (format!("{number:05}"), number));
    let bad = good.clone().chain([("99999 too long".to_owned(), 0)]);
    assert!(matches!(index.bulk_load().run(bad), Err(Error::Unfit { what: "key", .. })));
    let unsorted = good.clone().chain([("00007".to_owned(), 0)]);
    assert_eq!(index.bulk_load().run(unsorted).unwrap_err().exit_code(), 2);
    assert_eq!(index.count().unwrap(), 0);
    let mut seen = 0;
    assert_eq!(index.bulk_load().progress(|loaded| seen = loaded).run(good).unwrap(), 500);
    assert_eq!((seen, index.count().unwrap()), (500, 500));
    assert!(index.check().unwrap().problems().is_empty());
    assert_eq!(index.bulk_load().run([("x", 1)]).unwrap_err().exit_code(), 4);
}

#[test]
fn a_scan_ends_at_the_first_entry_of_another_type() {
    let scratch = Scratch::new();
    let plain = scratch.pool().create_untyped("t", [Kind::U64, Kind::Text], &wide(8)).unwrap();
    for (key, value) in [(1u64, b"fine\0\0\0\0"), (2, &[0xff; 8]), (3, b"finetoo\0")] {
        plain.put(key.to_be_bytes(), value).unwrap();
    }
    let texts = scratch.pool().open_index::<u64, String>("t").unwrap();
    let mut scan = texts.iter();
    assert_eq!(scan.next().unwrap().unwrap(), (1, "fine".to_owned()));
    assert!(matches!(scan.next(), Some(Err(Error::Unfit { what: "value", why: Unfit::NoText, .. }))));
    assert!(scan.next().is_none());
}

#[test]
fn threads_share_an_index() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = index.clone();
            scope.spawn(move || {
                for number in 0..2_000 {
                    index.put(number * 4 + thread, thread).unwrap();
                    assert_eq!(index.get(number * 4 + thread).unwrap(), Some(thread));
                }
            });
        }
    });
    assert!(index.iter().map(|entry| entry.unwrap()).eq((0..8_000).map(|key| (key, key % 4))));
    assert!(index.check().unwrap().problems().is_empty());
    assert_eq!(index.stats().locks_dropped, 0);
}

#[test]
fn sessions_of_one_thread_alternate() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    let add = |session: farwood::index::Session<u64, u64>| {
        Box::pin(async move {
            for _ in 0..100 {
                // All change one leaf, so they wait for its lock one after the other.
                let number = session.get(&1).await.unwrap().unwrap_or(0);
                session.put(&1, &(number + 1)).await.unwrap();
            }
            session.take_costs()
        }) as Pin<Box<dyn Future<Output = farwood::stats::Costs>>>
    };
    let costs = run_all((0..8).map(|_| add(index.session())).collect());
    assert!(costs.iter().all(|costs| costs.round_trips >= 200), "{costs:?}");
    let session = index.session();
    block_on(async {
        for key in 2..50 {
            assert!(session.insert(&key, &key).await.unwrap());
        }
        assert!(session.update(&2, &3).await.unwrap());
        assert!(session.remove(&49).await.unwrap());
        let last = session.scan(10.., Direction::Backward, 3).await.unwrap();
        assert_eq!(last, [(48, 48), (47, 47), (46, 46)]);
        let none = session.scan((Bound::Excluded(u64::MAX), Bound::Unbounded), Direction::Forward, 3).await;
        assert_eq!(none.unwrap(), []);
        assert_eq!(session.count().await.unwrap(), 48);
    });
}

#[test]
fn a_cache_hit_costs_one_round_trip() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    for key in 0..1_000 {
        index.put(key, key).unwrap();
    }
    let session = index.session();
    block_on(async {
        session.get(&500).await.unwrap();
        session.take_costs();
        session.get(&500).await.unwrap();
        assert_eq!(session.take_costs().round_trips, 1);
        session.put(&500, &1).await.unwrap();
        assert_eq!(session.take_costs().round_trips, 2);
    });
}

#[test]
fn an_index_that_is_open_here_is_not_dropped() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    let scan = index.iter();
    drop(index);
    assert!(matches!(scratch.pool().drop_index("numbers"), Err(Error::OpenHere { .. })), "a scan holds it");
    drop(scan);
    scratch.pool().drop_index("numbers").unwrap();
    let error = scratch.pool().drop_index("numbers").unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::NotFound, Effect::None), "{error}");
    scratch.numbers();
}

#[test]
fn handles_of_one_index_share_it() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    let other = scratch.pool().open_or_create::<u64, u64>("numbers", &BTree::new()).unwrap();
    for key in 0..1_000 {
        index.put(key, key).unwrap();
    }
    let _ = other.get(500).unwrap();
    assert_eq!(index.stats().cache_bytes, other.stats().cache_bytes);
    assert!(index.stats().cache_bytes > 0);
}

#[test]
fn an_index_and_a_pool_are_open_until_the_last_handle_is_dropped() {
    let scratch = Scratch::new();
    let pool = Pool::open(scratch.url()).unwrap();
    let index = pool.create_index::<u64, u64>("i", &BTree::new()).unwrap();
    index.put(1, 2).unwrap();
    assert_eq!(scratch.pool().drop_index("i").unwrap_err().exit_code(), 9, "another attachment has it open");
    let thread = {
        let index = index.clone();
        std::thread::spawn(move || index.get(1).unwrap())
    };
    assert_eq!(thread.join().unwrap(), Some(2));
    drop((pool, index));
    scratch.pool().drop_index("i").unwrap();
    assert!(matches!(Pool::remove(scratch.url()), Err(Error::Attached { .. })));
}

/// The index or pool that a child process of this test drops.
const DROP: &str = "FARWOOD_TEST_DROP";

/// Drops the index or pool `url` in another process; yields the exit code of the error, or 0.
fn drop_elsewhere(url: &str) -> i32 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let child = ["--exact", "library::a_child_process_drops_the_url_of_its_environment"];
    let output = command.args(child).env(DROP, url).output().unwrap();
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

#[test]
fn a_child_process_drops_the_url_of_its_environment() {
    let Ok(url) = std::env::var(DROP) else { return };
    let url: Url = url.parse().unwrap();
    let dropped = match url.index() {
        Some(index) => Pool::open(url.pool_url()).and_then(|pool| pool.drop_index(index)),
        None => Pool::remove(url.pool_url()),
    };
    std::process::exit(dropped.map_or_else(|error| i32::from(error.exit_code()), |()| 0));
}

#[test]
fn an_index_that_was_closed_here_can_be_dropped_by_another_process() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    index.put(1, 2).unwrap();
    let (session, url) = (index.session(), index.url());
    drop(index);
    assert_eq!(drop_elsewhere(&url), 9, "a session has it open");
    drop(session);
    assert_eq!(drop_elsewhere(&url), 0);
    assert_eq!(scratch.pool().open_index::<u64, u64>("numbers").unwrap_err().exit_code(), 3);
    assert_eq!(scratch.numbers().get(1).unwrap(), None);
}

#[test]
fn an_index_that_is_closed_while_another_thread_opens_it_stays_open() {
    let scratch = Scratch::new();
    drop(scratch.numbers());
    let reader = Pool::open(scratch.url()).unwrap();
    let open = || reader.stats().unwrap().clients.into_iter().flat_map(|client| client.open).count();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let index = scratch.pool().open_index::<u64, u64>("numbers").unwrap();
                    assert_eq!(open(), 1, "another process could drop it");
                    drop(index);
                }
            });
        }
    });
    assert_eq!(open(), 0);
}

/// A thread that has put an entry through its own attachment, and waits until the sender is dropped. The last handle of
/// the attachment was dropped by another thread.
fn idler(url: &str) -> (Sender<()>, JoinHandle<()>) {
    let pool = Pool::open(url).unwrap();
    let (idle, idles) = channel::<()>();
    let (go, gone) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let index = pool.open_or_create::<u64, u64>("idler", &BTree::new()).unwrap();
        index.put(1, 2).unwrap();
        let last = (index, pool);
        let thread = std::thread::spawn(move || drop(last));
        thread.join().unwrap();
        idle.send(()).unwrap();
        assert!(gone.recv().is_err());
    });
    idles.recv().unwrap();
    (go, thread)
}

#[test]
fn an_idle_thread_that_used_a_pool_does_not_prevent_its_removal() {
    let mut scratch = Scratch::new();
    let (go, thread) = idler(scratch.url());
    assert_eq!(scratch.pool().stats().unwrap().clients.len(), 1, "the process that removes the pool");
    scratch.pool().drop_index("idler").unwrap();
    scratch.pool = None;
    Pool::remove(scratch.url()).unwrap();
    drop(go);
    thread.join().unwrap();
}

#[test]
fn an_idle_thread_that_used_a_pool_does_not_prevent_its_removal_by_another_process() {
    let mut scratch = Scratch::new();
    let (go, thread) = idler(scratch.url());
    assert_eq!(drop_elsewhere(scratch.url()), 9, "this process is attached");
    scratch.pool = None;
    assert_eq!(drop_elsewhere(scratch.url()), 0);
    drop(go);
    thread.join().unwrap();
}

#[test]
fn the_last_part_of_a_url_is_an_index_and_not_a_pool() {
    let error = Pool::open("shm://pool/index").unwrap_err();
    assert!(error.to_string().contains("the URL of its pool"), "{error}");
    assert_eq!(Pool::open("shm://there-is-no-such-pool").unwrap_err().kind(), ErrorKind::NotFound);
    let refused = Pool::open("tcp://127.0.0.1:1").unwrap_err();
    assert_eq!((refused.kind(), refused.effect()), (ErrorKind::Unreachable, Effect::None), "{refused}");
    assert!(refused.is_retryable(), "a memory node may start there");
}

/// Without the error, the process would store into memory that no other process can find.
#[test]
fn a_process_whose_pool_was_created_again_gets_an_error() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    index.put(1, 1).unwrap();
    Pool::remove_by_force(scratch.url()).unwrap();
    Pool::create(scratch.url(), &PoolOptions::new().memory_bytes(64 << 20)).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let error = loop {
        match index.put(2, 2) {
            Ok(_) => assert!(std::time::Instant::now() < until, "it does not notice"),
            Err(error) => break error,
        }
    };
    let text = error.to_string();
    for part in ["put", scratch.url(), "was removed while this process was attached", "open the pool again"] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Damaged, Effect::Unknown), "{error}");
    assert_eq!(index.get(1).unwrap_err().effect(), Effect::None, "a read has no effect");
    assert_eq!(error.exit_code(), 8);
    for result in [index.get(1).map(|_| ()), index.count().map(|_| ()), scratch.pool().stats().map(|_| ())] {
        assert_eq!(result.unwrap_err().exit_code(), 8);
    }
    assert!(Pool::open(scratch.url()).unwrap().indexes().unwrap().is_empty(), "the new pool was changed");
}

#[test]
fn numbers_out_of_range_are_refused() {
    let scratch = Scratch::new();
    let pool = scratch.pool();
    let index = pool.create_index::<u64, u64>("sherman", &BTree::new()).unwrap();
    let smart = pool.create_index::<u64, u64>("smart", &Radix::new()).unwrap();
    let cities = pool.create_spatial("cities", &RTree::new()).unwrap();
    let city = Item { bounds: Rectangle::point([1.0, 2.0]).unwrap(), id: 1 };
    for fill in [0.0, -1.0, 0.49, 1.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for refused in [
            index.bulk_load().fill(fill).run([(1, 2)]).unwrap_err(),
            smart.bulk_load().fill(fill).run([(1, 2)]).unwrap_err(),
            cities.bulk_load(&[city], fill).unwrap_err(),
        ] {
            assert!(
                matches!(refused, Error::Argument { .. }) && refused.exit_code() == 2,
                "{fill}: {refused}"
            );
        }
    }
    assert_eq!((index.count().unwrap(), smart.count().unwrap(), cities.count_all().unwrap()), (0, 0, 0));
    assert_eq!(index.bulk_load().fill(0.5).run([(1, 2)]).unwrap(), 1);
    cities.bulk_load(&[city], 1.0).unwrap();
    for point in [[f64::NAN, 0.0], [0.0, f64::INFINITY]] {
        assert!(matches!(cities.nearest(point, 1), Err(Error::Argument { .. })), "{point:?}");
    }
    assert_eq!(cities.nearest([0.0; 2], 0).unwrap(), []);
    assert_eq!(cities.nearest([0.0; 2], usize::MAX).unwrap().len(), 1);
    assert_eq!(index.range(..).limit(0).into_iter().count() + index.iter().count(), 1);
    let stop = AtomicBool::new(true);
    for (threads, connections) in [(0, 64), (usize::MAX, 64), (1, 0), (1, 513)] {
        let options = ServeOptions { threads, connections, ..ServeOptions::default() };
        let refused = cities.serve(&options, &stop, || ()).unwrap_err();
        assert!(matches!(refused, Error::Argument { .. }), "{threads} {connections}: {refused}");
    }
}

/// The presets of the papers create indexes that work.
#[test]
fn indexes_of_the_papers_presets_work() {
    fn use_it(pool: &Pool, options: &impl Structure) {
        let index = pool.create_index::<u64, u64>("i", options).unwrap();
        index.put_many((0..1_000).map(|number| (number, number * number))).unwrap();
        assert_eq!(index.get(12).unwrap(), Some(144));
        assert_eq!(index.scan(3..6).count(), 3);
        assert_eq!(index.check().unwrap().problems(), []);
        drop(index);
        // The same options do not contradict the index.
        drop(pool.open_or_create::<u64, u64>("i", options).unwrap());
        pool.drop_index("i").unwrap();
    }
    let pool = Pool::anonymous(64 << 20).unwrap();
    use_it(&pool, &BTree::sherman());
    use_it(&pool, &Radix::smart());
    use_it(&pool, &Hashed::sphinx());
    let places = pool.create_spatial("places", &RTree::catfish()).unwrap();
    places.insert(&Item { bounds: Rectangle::point([1.0, 2.0]).unwrap(), id: 3 }).unwrap();
    assert_eq!(places.count_all().unwrap(), 1);
}

#[test]
fn sizes_out_of_range_are_refused_and_a_cache_may_have_any_size() {
    let scratch = Scratch::new();
    let pool = scratch.pool();
    let default = || BTree::new().key_bytes(16).value_bytes(16);
    for options in [
        default().key_bytes(usize::MAX),
        default().key_bytes(0),
        default().value_bytes(usize::MAX),
        default().node_bytes(usize::MAX),
        default().node_bytes(usize::MAX - 63),
        default().node_bytes(0),
    ] {
        let refused = pool.create_index::<Vec<u8>, Vec<u8>>("x", &options).unwrap_err();
        assert_eq!(refused.exit_code(), 2, "{options:?}: {refused}");
    }
    for (at, cache_bytes) in [0, 1, 4096].into_iter().enumerate() {
        let sherman = BTree::new().cache_bytes(cache_bytes);
        let sherman = pool.create_index::<u64, u64>(&format!("sherman{at}"), &sherman).unwrap();
        let smart = Radix::new().cache_bytes(cache_bytes);
        let smart = pool.create_index::<u64, u64>(&format!("smart{at}"), &smart).unwrap();
        for index in [&sherman, &smart] {
            index.put(1, 2).unwrap();
            assert_eq!(index.get(1).unwrap(), Some(2), "{cache_bytes}");
        }
    }
    for cache_bytes in [(1 << 40) + 1, usize::MAX] {
        let options = Radix::new().cache_bytes(cache_bytes);
        let refused = pool.create_index::<u64, u64>("x", &options).unwrap_err();
        assert!(refused.to_string().contains("at most 1 TiB"), "{refused}");
        let refused = pool.open_index_with_cache::<u64, u64>("smart0", cache_bytes).unwrap_err();
        assert!(matches!(refused, Error::Argument { .. }), "{refused}");
    }
    for (memory_bytes, nodes, device_bytes) in
        [(0, 1, 64), (u64::MAX, 1, 64), (64 << 20, 0, 64), (64 << 20, u16::MAX, 64), (64 << 20, 1, u64::MAX)]
    {
        let options = PoolOptions::new().memory_bytes(memory_bytes).nodes(nodes).device_bytes(device_bytes);
        let refused = Pool::create("shm://sizes-that-are-refused", &options).unwrap_err();
        assert_eq!(refused.exit_code(), 2, "{options:?}: {refused}");
    }
}

/// If a program can no longer read its token, the error does not report a missing server.
#[test]
fn an_unreadable_token_is_not_reported_as_a_missing_server() {
    use farwood_transport::tcp::{MemoryNode, NodeSpec, Token};
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "a-token-of-24-characters\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = Some(Token::from_file(&file).unwrap().into());
    let listen = "127.0.0.1:0".parse().unwrap();
    let node = MemoryNode::start(&NodeSpec { token, ..NodeSpec::new(listen, 64 << 20) }).unwrap();
    let pool = Pool::open(format!("tcp://{}?token-file={}", node.address(), file.display())).unwrap();
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let item = Item { bounds: Rectangle::point([1.0, 1.0]).unwrap(), id: 1 };
    let refused = places.insert(&item).unwrap_err();
    assert_eq!(refused.exit_code(), 6, "{refused}");
    let text = refused.to_string();
    assert!(text.contains(file.to_str().unwrap()) && text.contains("no access to the server"), "{text}");
}
