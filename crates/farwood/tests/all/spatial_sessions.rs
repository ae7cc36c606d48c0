//! Concurrent async calls on a spatial index on one thread.

use crate::spatial_pool::{SpatialPool, in_mode, served, served_over_tcp};
use farwood::Pool;
use farwood::node::{MemoryNode, NodeSpec};
use farwood::runtime::{block_on, run_all};
use farwood::spatial::{Change, Item, Query, RTree, Rectangle, SearchMode, ServeOptions, SpatialSession};
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

const ITEMS: u64 = 500;
const FLOWS: u64 = 32;

fn item(id: u64) -> Item {
    Item { bounds: Rectangle::point([id as f64, 0.0]).unwrap(), id }
}

/// The query for the items from `from` to `to`, both included.
fn between(from: u64, to: u64) -> Query {
    Query::intersecting(Rectangle::new([from as f64, 0.0], [to as f64, 0.0]).unwrap())
}

/// Every flow looks items up while the others do.
fn look_up_concurrently(session: &SpatialSession) {
    let flow = |number: u64| async move {
        for round in 0..20 {
            let at = (number * 13 + round) % (ITEMS - 10);
            let found = session.search(&between(at, at + 3)).await.unwrap();
            assert!(
                found.len() == 4 && found.iter().all(|item| (at..at + 4).contains(&item.id)),
                "{found:?}"
            );
            assert_eq!(session.count(&between(at, at + 9)).await.unwrap(), 10);
            assert_eq!(session.nearest([at as f64 + 0.2, 1.0], 1).await.unwrap()[0].item.id, at);
        }
    };
    run_all((0..FLOWS).map(|number| Box::pin(flow(number)) as _).collect());
}

/// Every flow stores and removes items of its own while the others do.
fn change_concurrently(session: &SpatialSession) {
    let flow = |number: u64| async move {
        let own = item(ITEMS + number);
        session.insert(&own).await.unwrap();
        let moved = item(ITEMS + FLOWS + number);
        assert!(session.update(&own, moved.bounds).await.unwrap());
        assert!(!session.remove(&own).await.unwrap());
        let changes =
            [Change::Remove(Item { id: own.id, ..moved }), Change::Insert(own), Change::Remove(own)];
        assert_eq!(session.apply(&changes).await.unwrap(), [true; 3]);
    };
    run_all((0..FLOWS).map(|number| Box::pin(flow(number)) as _).collect());
    assert_eq!(block_on(session.count(&between(0, 10 * ITEMS))).unwrap(), ITEMS);
    assert_eq!(block_on(session.apply(&[])).unwrap(), [false; 0]);
    let many = vec![Change::Insert(item(1)); 100_000];
    let refused = block_on(session.apply(&many)).unwrap_err().to_string();
    assert!(refused.contains("100000") && refused.contains("divide them"), "{refused}");
}

/// Polls calls once and drops them: their connections serve later calls.
fn drop_calls(session: &SpatialSession) {
    let mut context = Context::from_waker(Waker::noop());
    for at in 0..200 {
        let query = between(at, at);
        // A call may be complete after the first poll.
        let _ = pin!(session.search(&query)).poll(&mut context);
        let _ = pin!(session.count(&query)).poll(&mut context);
    }
    assert_eq!(block_on(session.count(&between(0, 9))).unwrap(), 10);
}

const MODES: [SearchMode; 3] = [SearchMode::Auto, SearchMode::Message, SearchMode::Reads];

#[test]
fn in_shared_memory_calls_of_a_session_run_concurrently() {
    let pool = SpatialPool::new();
    let places = pool.create("places", &RTree::new());
    places.insert_many(&(0..ITEMS).map(item).collect::<Vec<_>>()).unwrap();
    served(&places, &ServeOptions::default(), || {
        for mode in MODES {
            let session = Arc::new(pool.by(mode, "places")).session();
            look_up_concurrently(&session);
            drop_calls(&session);
            change_concurrently(&session);
        }
    });
}

#[test]
fn over_tcp_calls_of_a_session_run_concurrently() {
    served_over_tcp(&RTree::new(), |_, open| {
        let places = open(SearchMode::Auto);
        places.insert_many(&(0..ITEMS).map(item).collect::<Vec<_>>()).unwrap();
        for mode in MODES {
            let session = Arc::new(open(mode)).session();
            look_up_concurrently(&session);
            drop_calls(&session);
            change_concurrently(&session);
            assert!(session.take_costs().round_trips > 0);
        }
    });
}

#[test]
fn without_a_server_a_session_reads_and_does_not_change() {
    let pool = SpatialPool::new();
    let places = pool.create("places", &RTree::new());
    places.insert(&item(1)).unwrap();
    let session = Arc::new(in_mode(places, SearchMode::Auto)).session();
    assert_eq!(block_on(session.count(&between(0, 9))).unwrap(), 1);
    let refused = block_on(session.insert(&item(2))).unwrap_err().to_string();
    assert!(refused.contains("no server"), "{refused}");
}

/// The second lookup of a handle compares both paths. If it is dropped, a later one does.
#[test]
fn a_dropped_comparison_of_the_paths_is_made_later() {
    let pool = SpatialPool::new();
    let places = pool.create("places", &RTree::new());
    places.insert(&item(1)).unwrap();
    served(&places, &ServeOptions::default(), || {
        let places = Arc::new(pool.by(SearchMode::Auto, "places"));
        let session = places.session();
        let query = between(0, 9);
        assert_eq!(block_on(session.count(&query)).unwrap(), 1);
        let polled = pin!(session.count(&query)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the server accepts the connection later");
        for _ in 0..100 {
            assert_eq!(block_on(session.count(&query)).unwrap(), 1);
        }
        assert!(places.search_stats().by_message > 0);
    });
}

/// Calls that share the socket of a server that ended are answered by the next one.
#[test]
fn calls_over_the_socket_of_a_server_that_ended_use_a_new_one() {
    let node = MemoryNode::start(&NodeSpec::new("127.0.0.1:0".parse().unwrap(), 64 << 20)).unwrap();
    let url = format!("tcp://{}", node.address());
    let places = Pool::open(url.as_str()).unwrap().create_spatial("places", &RTree::new()).unwrap();
    let client = Pool::open(url.as_str()).unwrap();
    let session = Arc::new(in_mode(client.open_spatial("places").unwrap(), SearchMode::Message)).session();
    for round in 0..3 {
        let options = ServeOptions {
            listener: Some(TcpListener::bind("127.0.0.1:0").unwrap()),
            memory_node: Some(node.server()),
            ..ServeOptions::default()
        };
        served(&places, &options, || {
            block_on(session.insert(&item(round))).unwrap();
            let query = between(0, 9);
            let counts = (0..FLOWS).map(|_| Box::pin(session.count(&query)) as _);
            let counts: farwood::Result<Vec<u64>> = run_all(counts.collect()).into_iter().collect();
            assert_eq!(counts.unwrap(), [round + 1; FLOWS as usize]);
        });
    }
}
