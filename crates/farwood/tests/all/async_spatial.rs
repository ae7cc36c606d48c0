//! Async handles of spatial indexes in the tasks of a tokio runtime.

use crate::spatial_pool::{SpatialPool, served, served_over_tcp};
use farwood::Pool;
use farwood::error::{Effect, ErrorKind};
use farwood::node::{MemoryNode, NodeSpec};
use farwood::runtime::block_on;
use farwood::spatial::{
    AsyncSpatial, Change, IdKind, Item, Query, RTree, Record, Rectangle, SearchMode, ServeOptions, Spatial,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The longest time of a call, on a busy machine.
const CALL_MAX: Duration = Duration::from_secs(10);
const TASKS: u64 = 16;

fn at(x: f64) -> Rectangle {
    Rectangle::point([x, 0.0]).unwrap()
}

fn item(id: u64) -> Item {
    Item { bounds: at(id as f64), id }
}

fn between(from: u64, to: u64) -> Query {
    Query::intersecting(Rectangle::new([from as f64, 0.0], [to as f64, 0.0]).unwrap())
}

fn everything() -> Query {
    Query::intersecting(Rectangle::new([-1e9; 2], [1e9; 2]).unwrap())
}

/// The calls of one task, with items of its own.
async fn work(places: AsyncSpatial, task: u64) {
    let id = 100 * task;
    for own in id..id + 5 {
        places.insert(&item(own)).await.unwrap();
    }
    assert_eq!(places.search(&between(id, id + 50)).await.unwrap().len(), 5);
    assert_eq!(places.count(&between(id + 1, id + 2)).await.unwrap(), 2);
    assert_eq!(places.nearest([id as f64 + 0.1, 0.0], 1).await.unwrap()[0].item.id, id);
    assert!(places.update(&item(id), at(id as f64 + 50.0)).await.unwrap());
    assert!(!places.remove(&item(id)).await.unwrap());
    assert!(places.remove(&item(id + 1)).await.unwrap());
    let changes = [Change::Remove(item(id + 2)), Change::Insert(item(id + 2)), Change::Remove(item(id + 1))];
    assert_eq!(places.apply(&changes).await.unwrap(), [true, true, false]);
    assert_eq!(places.apply(&[]).await.unwrap(), [false; 0]);
}

/// Tasks look up and change items, and forget some calls.
fn share(spatial: Spatial) {
    let places = Arc::new(spatial).to_async().unwrap();
    Runtime::new().unwrap().block_on(async {
        let done: JoinSet<()> = (0..TASKS).map(|task| work(places.clone(), task)).collect();
        done.join_all().await;
        assert_eq!(places.count(&everything()).await.unwrap(), 4 * TASKS);
        for number in 0..200 {
            drop(places.insert(&item(10_000 + number)));
            let _ = timeout(Duration::from_micros(number), places.count(&everything())).await;
        }
        timeout(CALL_MAX, places.finished()).await.expect("the calls end");
        assert_eq!(places.count(&between(10_000, 20_000)).await.unwrap(), 200);
        let remove: Vec<_> = (10_000..10_200).map(|id| Change::Remove(item(id))).collect();
        assert_eq!(places.apply(&remove).await.unwrap(), [true; 200]);
        let own: JoinSet<_> = (0..TASKS).flat_map(own_items).map(|item| places.remove(&item)).collect();
        assert!(own.join_all().await.into_iter().all(|removed| removed.unwrap()));
        assert_eq!(places.count(&everything()).await.unwrap(), 0);
    });
}

/// The items that [`work`] leaves.
fn own_items(task: u64) -> [Item; 4] {
    let id = 100 * task;
    [Item { bounds: at(id as f64 + 50.0), id }, item(id + 2), item(id + 3), item(id + 4)]
}

#[test]
fn in_shared_memory_tasks_share_a_served_index() {
    let pool = SpatialPool::new();
    let places = pool.create("places", &RTree::new());
    served(&places, &ServeOptions { connections: 8, ..ServeOptions::default() }, || {
        for mode in [SearchMode::Auto, SearchMode::Message, SearchMode::Reads] {
            share(pool.by(mode, "places"));
        }
    });
    assert!(places.check().unwrap().problems.is_empty());
}

#[test]
fn in_shared_memory_tasks_change_an_index_that_nobody_serves() {
    let pool = SpatialPool::new();
    let places = pool.create("places", &RTree::new());
    share(pool.by(SearchMode::Auto, "places"));
    assert!(places.check().unwrap().problems.is_empty());
}

#[test]
fn over_tcp_tasks_share_an_index_and_one_connection() {
    served_over_tcp(&RTree::new(), |node, open| {
        for mode in [SearchMode::Auto, SearchMode::Message, SearchMode::Reads] {
            let places = open(mode);
            let before = node.counts().accepted;
            share(places);
            assert!(
                node.counts().accepted <= before + 1,
                "the tasks use the connection of the pool's thread"
            );
        }
    });
}

#[test]
fn over_tcp_a_change_without_a_server_fails() {
    let node = MemoryNode::start(&NodeSpec::new("127.0.0.1:0".parse().unwrap(), 64 << 20)).unwrap();
    let pool = Pool::open(format!("tcp://{}", node.address())).unwrap();
    let places = Arc::new(pool.create_spatial("places", &RTree::new()).unwrap());
    let places = places.to_async().unwrap();
    let refused = block_on(places.insert(&item(1))).unwrap_err();
    assert_eq!((refused.effect(), refused.operation()), (Effect::None, "insert"), "{refused}");
    assert_eq!(block_on(places.count(&everything())).unwrap(), 0);
    node.stop().unwrap();
    let lost = block_on(async { places.count(&everything()).await }).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unreachable, "{lost}");
}

#[test]
fn records_are_stored_moved_and_deleted() {
    let pool = SpatialPool::new();
    let config = RTree::new().ids(IdKind::Number);
    let places = Arc::new(pool.create("places", &config)).to_async().unwrap();
    block_on(async {
        let record = |id: u64| Record { id: id.into(), bounds: at(id as f64), payload: vec![7; 100] };
        for id in 0..10 {
            assert!(!places.put(record(id)).await.unwrap());
        }
        assert!(places.move_to(&3.into(), at(100.0)).await.unwrap());
        assert!(places.delete(&4.into()).await.unwrap());
        assert_eq!(places.get(&4.into()).await.unwrap(), None);
        assert_eq!(places.get(&3.into()).await.unwrap().unwrap().bounds, at(100.0));
        assert_eq!(places.search_records(&between(0, 9)).await.unwrap().len(), 8);
        assert_eq!(places.nearest_records([99.0, 0.0], 1).await.unwrap()[0].id, 3.into());
        let refused = places.insert(&item(1)).await.unwrap_err();
        assert_eq!((refused.operation(), refused.effect()), ("insert", Effect::None), "{refused}");
    });
}

/// A change that the process makes as the server does not stop the other calls of the pool's thread.
#[test]
fn a_call_does_not_wait_for_a_change_of_another_process() {
    let pool = SpatialPool::new();
    let owner = pool.create("places", &RTree::new());
    let places = Arc::new(pool.by(SearchMode::Auto, "places")).to_async().unwrap();
    let waiting = owner
        .change(|editor| {
            editor.insert(&item(1))?;
            let waiting = places.insert(&item(2));
            let began = Instant::now();
            assert_eq!(block_on(places.count(&everything()))?, 1);
            assert!(began.elapsed() < CALL_MAX);
            Ok(waiting)
        })
        .unwrap();
    block_on(waiting).unwrap();
    assert_eq!(owner.count_all().unwrap(), 2);
}

#[test]
fn an_answer_keeps_neither_index_nor_pool_open() {
    let pool = SpatialPool::new();
    let opened = pool.open();
    let places = opened.create_spatial("places", &RTree::new()).unwrap();
    let places = Arc::new(places).to_async().unwrap();
    let (count, insert) = (places.count(&everything()), places.insert(&item(1)));
    let finished = places.finished();
    drop((places, opened));
    block_on(finished);
    let other = pool.open();
    let clients = other.stats().unwrap().clients;
    assert!(clients.iter().all(|client| client.is_own), "the first one has left: {clients:?}");
    assert!(block_on(count).unwrap() <= 1);
    block_on(insert).unwrap();
    assert_eq!(other.open_spatial("places").unwrap().count_all().unwrap(), 1);
}
