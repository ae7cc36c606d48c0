//! Metrics of calls, and observers: each call is counted once, with its own costs.

use crate::spatial_pool::{SpatialPool, in_mode, served};
use farwood::error::{Effect, ErrorKind};
use farwood::index::{Direction, Structure};
use farwood::node::{MemoryNode, NodeSpec};
use farwood::runtime::{block_on, run_all};
use farwood::spatial::{Change, Item, Query, RTree, RecordId, Rectangle, SearchMode, ServeOptions};
use farwood::stats::{CallOutcome, Costs, Metrics, MetricsLevel, ObservedCall, Observer, OperationMetrics};
use farwood::testing::ScratchPool;
use farwood::{BTree, Hashed, Index, Pool, Radix};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The pool of one test, removed when the test ends.
struct Scratch {
    // Dropped before the pool is removed.
    pool: Pool,
    _scratch: ScratchPool,
}

impl Scratch {
    fn new() -> Self {
        let scratch = ScratchPool::new(64 << 20).unwrap();
        let pool = scratch.open().unwrap();
        pool.set_metrics_level(MetricsLevel::Sampled);
        Self { pool, _scratch: scratch }
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn numbers(&self) -> Index<u64, u64> {
        self.pool().create_index("numbers", &BTree::new()).unwrap()
    }
}

/// A pool over TCP, and its memory node.
fn networked() -> (Pool, MemoryNode) {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let node = MemoryNode::start(&NodeSpec::new(listen, 64 << 20)).unwrap();
    let url = format!("tcp://{}", node.address());
    let pool = Pool::open(&url).unwrap();
    pool.set_metrics_level(MetricsLevel::Sampled);
    (pool, node)
}

fn of<'m>(metrics: &'m Metrics, operation: &str) -> &'m OperationMetrics {
    metrics.of("numbers", operation).unwrap_or_else(|| panic!("no call of {operation} is counted"))
}

fn calls(metrics: &Metrics) -> Vec<(&'static str, u64)> {
    metrics.operations.iter().map(|of| (of.operation, of.calls)).collect()
}

/// Calls every operation a known number of times.
fn call_everything(index: &Index<u64, u64>) {
    (0..10).for_each(|key| assert!(!index.put(key, key).unwrap()));
    (0..5).for_each(|key| assert_eq!(index.get(key).unwrap(), Some(key)));
    assert_eq!(index.get_many(0..4).unwrap(), (0..4).map(Some).collect::<Vec<_>>());
    assert_eq!(index.put_many([(1, 1), (2, 2)]).unwrap(), [true; 2]);
    assert_eq!((index.insert(1, 0).unwrap(), index.insert(90, 0).unwrap()), (false, true));
    assert!(!index.update(91, 0).unwrap());
    assert!(index.remove(90).unwrap());
    assert_eq!(index.remove_many([9, 9]).unwrap(), [true, false]);
    assert_eq!((index.swap(1, 5).unwrap(), index.take(2).unwrap()), (Some(1), Some(2)));
    assert_eq!(index.fetch_add(1, 2).unwrap(), 5);
    assert_eq!(index.compare_exchange(1, Some(&7), Some(&1)).unwrap(), Ok(()));
    assert_eq!(index.remove_if(3, |_| false).unwrap(), None);
    assert_eq!((index.scan(..).count(), index.count().unwrap()), (8, 8));
    let session = index.session();
    block_on(async {
        assert_eq!(session.get(4).await.unwrap(), Some(4));
        assert!(session.put(4, 4).await.unwrap());
        assert_eq!(session.fetch_add(5, 0).await.unwrap(), 5);
        assert_eq!(session.scan(.., Direction::Forward, 3).await.unwrap().len(), 3);
        assert_eq!(session.count().await.unwrap(), 8);
    });
    let shared = index.to_async().unwrap();
    assert_eq!(block_on(shared.get(4)).unwrap(), Some(4));
    assert_eq!(block_on(shared.get_many([4])).unwrap(), [Some(4)]);
    assert!(block_on(shared.put(4, 4)).unwrap());
    assert_eq!(block_on(shared.swap(4, 4)).unwrap(), Some(4));
}

/// A scan of 8 entries fetches them in `batches`.
fn counts_are_exact(options: &impl Structure, batches: u64) {
    let scratch = Scratch::new();
    let index = scratch.pool().create_index("numbers", options).unwrap();
    call_everything(&index);
    let metrics = scratch.pool().metrics();
    let expected = [
        ("compare exchange", 1),
        ("count", 2),
        ("fetch add", 2),
        ("get", 7),
        ("get many", 2),
        ("insert", 2),
        ("put", 12),
        ("put many", 1),
        ("remove", 2),
        ("remove many", 1),
        ("scan", 1 + batches),
        ("swap", 2),
        ("take", 1),
        ("update", 1),
    ];
    assert_eq!(calls(&metrics), expected);
    assert!(metrics.operations.iter().all(|of| of.index == "numbers" && of.costs.round_trips > 0));
    assert!(metrics.operations.iter().all(|of| of.errors.is_empty() && of.unfinished == 0));
    assert_eq!(metrics.since(&metrics), Metrics::default());
    index.get(1).unwrap();
    assert_eq!(calls(&scratch.pool().metrics().since(&metrics)), [("get", 1)]);
}

#[test]
fn counts_are_exact_in_a_sherman_tree() {
    counts_are_exact(&BTree::new(), 1);
}

#[test]
fn counts_are_exact_in_a_smart_tree() {
    counts_are_exact(&Radix::new(), 2);
}

#[test]
fn counts_are_exact_in_a_sphinx_tree() {
    counts_are_exact(&Hashed::new(), 2);
}

/// `docs/costs.md` has these costs.
#[test]
fn a_cached_lookup_costs_a_round_trip_and_a_put_two() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    index.put(1, 1).unwrap();
    let before = scratch.pool().metrics();
    (0..100).for_each(|_| assert_eq!(index.get(1).unwrap(), Some(1)));
    (0..50).for_each(|_| assert!(index.put(1, 2).unwrap()));
    scratch.pool().indexes().unwrap();
    index.get(1).unwrap();
    let metrics = scratch.pool().metrics().since(&before);
    let (gets, puts) = (of(&metrics, "get"), of(&metrics, "put"));
    assert_eq!((gets.calls, gets.costs.round_trips, gets.costs.reads), (101, 101, 101));
    assert_eq!(gets.costs.writes, 0, "the costs of the directory belong to no call");
    assert_eq!((puts.calls, puts.costs.round_trips), (50, 100));
}

/// The calls of a session share a client, and are polled in turns.
#[test]
fn each_call_of_a_session_has_its_own_costs() {
    let (pool, _node) = networked();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    (0..200).for_each(|key| assert!(!index.put(key, key).unwrap()));
    let session = index.session();
    block_on(session.get(1)).unwrap();
    let before = pool.metrics();
    session.take_costs();
    let flow = |number: u64| {
        let session = session.clone();
        Box::pin(async move {
            for key in 0..20 {
                if number.is_multiple_of(2) {
                    assert_eq!(session.get(key).await.unwrap(), Some(key));
                } else {
                    assert!(session.put(100 + key, 100 + key).await.unwrap());
                }
            }
        }) as Pin<Box<dyn Future<Output = ()>>>
    };
    run_all((0..16).map(flow).collect());
    let metrics = pool.metrics().since(&before);
    let (gets, puts) = (of(&metrics, "get"), of(&metrics, "put"));
    assert_eq!((gets.calls, puts.calls, gets.costs.writes), (160, 160, 0));
    assert!(gets.costs.round_trips >= 160 && puts.costs.writes >= 160);
    let mut sum: Costs = gets.costs;
    sum += puts.costs;
    assert_eq!(sum, session.take_costs());
}

#[test]
fn errors_are_counted_by_kind() {
    let scratch = Scratch::new();
    let options = BTree::new().key_bytes(16);
    let texts = scratch.pool().create_index::<String, u64>("texts", &options).unwrap();
    let long = "a text that is longer than a key";
    assert_eq!(texts.get(long).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(block_on(texts.session().get(long)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(block_on(texts.to_async().unwrap().get(long)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(texts.get("short").unwrap(), None);
    let radix = scratch.pool().create_index::<u64, u64>("radix", &Radix::new()).unwrap();
    radix.put(1, 1).unwrap();
    assert_eq!(radix.range(..).snapshot().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(radix.bulk_load().run([(1, 1)]).unwrap_err().kind(), ErrorKind::Exists);
    let metrics = scratch.pool().metrics();
    let gets = metrics.of("texts", "get").unwrap();
    assert_eq!((gets.calls, &*gets.errors), (4, &[(ErrorKind::InvalidArgument, 3)][..]));
    let snapshots = metrics.of("radix", "snapshot").unwrap();
    assert_eq!((snapshots.calls, snapshots.errors_of(ErrorKind::Unsupported)), (1, 1));
    assert_eq!(metrics.of("radix", "bulk load").unwrap().errors, [(ErrorKind::Exists, 1)]);
    assert_eq!(metrics.of("radix", "put").unwrap().errors_total(), 0);
}

/// Records calls.
#[derive(Default)]
struct Calls(Mutex<Vec<(String, &'static str, CallOutcome, u64)>>);

impl Observer for Calls {
    fn done(&self, call: &ObservedCall<'_>) {
        let round_trips = call.costs.round_trips;
        self.0.lock().unwrap().push((call.index.to_owned(), call.operation, call.outcome, round_trips));
    }
}

impl Calls {
    fn take(&self) -> Vec<(String, &'static str, CallOutcome)> {
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        calls.into_iter().map(|(index, operation, outcome, _)| (index, operation, outcome)).collect()
    }
}

#[test]
fn an_observer_sees_each_call_once() {
    use CallOutcome::{Failed, Succeeded};
    let scratch = Scratch::new();
    let (index, calls) = (scratch.numbers(), Arc::new(Calls::default()));
    let places = Arc::new(scratch.pool().create_spatial("places", &RTree::new()).unwrap());
    scratch.pool().set_observer(calls.clone());
    index.put(1, 1).unwrap();
    block_on(index.session().get(1)).unwrap();
    block_on(index.to_async().unwrap().remove(1)).unwrap();
    let of_numbers = |operation| ("numbers".to_owned(), operation, Succeeded);
    assert_eq!(calls.take(), ["put", "get", "remove"].map(of_numbers));
    let query = Query::intersecting(Rectangle::new([0.0, 0.0], [9.0, 9.0]).unwrap());
    places.insert(&Item { bounds: Rectangle::point([1.0, 1.0]).unwrap(), id: 1 }).unwrap();
    assert_eq!(places.search(&query).unwrap().len(), 1);
    assert_eq!(block_on(places.session().count(&query)).unwrap(), 1);
    let refused = places.nearest([f64::NAN, 0.0], 1).unwrap_err();
    let of_places = |operation| ("places".to_owned(), operation, Succeeded);
    let mut expected = ["insert", "search", "count"].map(of_places).to_vec();
    expected.push(("places".to_owned(), "nearest", Failed(refused.kind())));
    assert_eq!(calls.take(), expected);
    assert!(scratch.pool().metrics().of("places", "search").unwrap().costs.round_trips > 0);
    scratch.pool().remove_observer();
    index.get(1).unwrap();
    assert_eq!(calls.take(), []);
}

/// Changes by message, changes that the process makes itself, and refused ones.
#[test]
fn each_change_of_a_spatial_index_is_observed_once() {
    use CallOutcome::{Failed, Succeeded};
    let scratch = SpatialPool::new();
    let server = scratch.create("places", &RTree::new());
    let (pool, calls) = (scratch.open(), Arc::new(Calls::default()));
    pool.set_observer(calls.clone());
    let places = Arc::new(pool.open_spatial("places").unwrap());
    let (session, tasks) = (places.session(), places.to_async().unwrap());
    let item = Item { bounds: Rectangle::point([1.0, 1.0]).unwrap(), id: 1 };
    let outcomes = |calls: &Calls| -> Vec<_> {
        calls.take().into_iter().map(|(_, operation, outcome)| (operation, outcome)).collect()
    };
    let change = || {
        block_on(tasks.insert(&item)).unwrap();
        assert_eq!(block_on(tasks.apply(&[Change::Remove(item)])).unwrap(), [true]);
        assert_eq!(outcomes(&calls), [("insert", Succeeded), ("change", Succeeded)]);
    };
    change();
    served(&server, &ServeOptions::default(), || {
        change();
        block_on(session.insert(&item)).unwrap();
        let delete = RecordId::Number(1);
        let refused = [block_on(session.delete(&delete)), block_on(tasks.delete(&delete))];
        let refused = refused.map(|done| ("delete", Failed(done.unwrap_err().kind())));
        assert_eq!(outcomes(&calls), [&[("insert", Succeeded)], &refused[..]].concat());
    });
    assert!(pool.metrics().of("places", "insert").is_none(), "an observer switches no counters on");
}

#[test]
fn a_call_that_waits_for_a_connection_is_observed_once() {
    let scratch = SpatialPool::new();
    let server = scratch.create("places", &RTree::new());
    let (pool, calls) = (scratch.open(), Arc::new(Calls::default()));
    pool.set_observer(calls.clone());
    let everything = Query::intersecting(Rectangle::new([-1e9; 2], [1e9; 2]).unwrap());
    let item = Item { bounds: Rectangle::point([1.0, 1.0]).unwrap(), id: 1 };
    served(&server, &ServeOptions { connections: 1, ..ServeOptions::default() }, || {
        let other = scratch.by(SearchMode::Message, "places");
        assert_eq!(other.count(&everything).unwrap(), 0);
        let places = in_mode(pool.open_spatial("places").unwrap(), SearchMode::Message);
        let places = Arc::new(places).to_async().unwrap();
        let (count, insert) = (places.count(&everything), places.insert(&item));
        std::thread::sleep(Duration::from_millis(50));
        drop(other);
        block_on(async { (count.await.unwrap(), insert.await.unwrap()) });
        let mut operations: Vec<_> = calls.take().into_iter().map(|(_, operation, _)| operation).collect();
        operations.sort_unstable();
        assert_eq!(operations, ["count", "insert"]);
    });
}

/// Panics, or calls an index.
struct Interferes(Index<u64, u64>);

impl Observer for Interferes {
    fn done(&self, call: &ObservedCall<'_>) {
        assert_ne!(call.operation, "put", "a panic of the observer");
        assert_eq!(self.0.get(7).unwrap(), Some(7));
    }
}

#[test]
fn a_panic_of_the_observer_leaves_the_call_and_the_pool_as_they_are() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    scratch.pool().set_observer(Arc::new(Interferes(index.clone())));
    assert!(!index.put(7, 7).unwrap());
    assert!(block_on(index.session().put(7, 7)).unwrap());
    assert!(block_on(index.to_async().unwrap().put(7, 7)).unwrap());
    assert_eq!(index.get(7).unwrap(), Some(7));
    let metrics = scratch.pool().metrics();
    assert_eq!(metrics.observer_panics, 3);
    assert_eq!(
        (of(&metrics, "put").calls, of(&metrics, "get").calls),
        (3, 2),
        "the observer's call is counted"
    );
    // The observer has a handle of the index, which has the pool open.
    scratch.pool().remove_observer();
}

#[test]
fn counts_survive_the_threads_that_made_them() {
    let scratch = Scratch::new();
    let index = scratch.numbers();
    index.put(1, 1).unwrap();
    for round in 1..=3 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| assert_eq!(index.get(1).unwrap(), Some(1))));
            }
        });
        let metrics = scratch.pool().metrics();
        assert_eq!(of(&metrics, "get").calls, round * 400);
    }
}

/// Over a network, a thread of the pool executes the calls of all but three threads.
#[test]
fn calls_of_threads_without_a_client_are_counted() {
    let (pool, _node) = networked();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    index.put(1, 1).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..25).for_each(|_| assert_eq!(index.get(1).unwrap(), Some(1))));
        }
    });
    let metrics = pool.metrics();
    assert_eq!((of(&metrics, "get").calls, of(&metrics, "put").calls), (200, 1));
    assert!(of(&metrics, "get").costs.round_trips >= 200);
}

#[test]
fn a_dropped_call_is_unfinished_and_a_panicking_one_too() {
    let (pool, _node) = networked();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    index.put(1, 1).unwrap();
    let session = index.session();
    {
        let mut get = pin!(session.get(1));
        assert!(matches!(get.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        drop(session.get(2));
    }
    let panics = || drop(index.fetch_update(1, |_| panic!("a panic of the program")));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
    let expired = index.with_timeout(Duration::ZERO).put(1, 2).unwrap_err();
    assert_eq!((expired.kind(), expired.effect()), (ErrorKind::TimedOut, Effect::Unknown));
    let metrics = pool.metrics();
    assert_eq!((of(&metrics, "get").calls, of(&metrics, "get").unfinished), (1, 1));
    assert_eq!((of(&metrics, "fetch update").calls, of(&metrics, "fetch update").unfinished), (1, 1));
    assert_eq!(of(&metrics, "put").errors, [(ErrorKind::TimedOut, 1)]);
}

#[test]
fn the_level_determines_what_is_counted_and_measured() {
    const CALLS: u64 = 10_000;
    let scratch = Scratch::new();
    let index = scratch.numbers();
    let call = |level| {
        scratch.pool().set_metrics_level(level);
        let before = scratch.pool().metrics();
        (0..CALLS).for_each(|_| assert_eq!(index.get(1).unwrap(), None));
        let metrics = scratch.pool().metrics().since(&before);
        metrics.of("numbers", "get").map(|of| (of.calls, of.latency.count()))
    };
    assert_eq!(call(MetricsLevel::Off), None);
    assert_eq!(call(MetricsLevel::Counts), Some((CALLS, 0)));
    assert_eq!(call(MetricsLevel::Full), Some((CALLS, CALLS)));
    let (counted, measured) = call(MetricsLevel::Sampled).unwrap();
    assert_eq!(counted, CALLS);
    assert!((CALLS / 128..CALLS / 32).contains(&measured), "{measured} calls were measured");
    let metrics = scratch.pool().metrics();
    let latency = &of(&metrics, "get").latency;
    let (median, longest) = (latency.quantile(0.5).unwrap(), latency.quantile(1.0).unwrap());
    assert!(median > Duration::ZERO && median <= longest && latency.sum() >= latency.mean().unwrap());
}
