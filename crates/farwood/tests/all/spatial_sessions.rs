//! Concurrent async calls on a spatial index on one thread.

use crate::spatial_pool::{SpatialPool, in_mode, served, served_over_tcp};
use farwood::spatial::{
    CatfishConfig, Change, Item, Query, Rectangle, SearchMode, ServeOptions, SpatialSession,
};
use farwood::{block_on, run_all};
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
    let pool = SpatialPool::new("sessions");
    let places = pool.create("places", &CatfishConfig::default());
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
    served_over_tcp(&CatfishConfig::default(), |_, open| {
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
    let pool = SpatialPool::new("sessions-unserved");
    let places = pool.create("places", &CatfishConfig::default());
    places.insert(&item(1)).unwrap();
    let session = Arc::new(in_mode(places, SearchMode::Auto)).session();
    assert_eq!(block_on(session.count(&between(0, 9))).unwrap(), 1);
    let refused = block_on(session.insert(&item(2))).unwrap_err().to_string();
    assert!(refused.contains("no server"), "{refused}");
    let outside = item(3);
    let many = vec![Change::Insert(outside); 100_000];
    assert!(block_on(session.apply(&many)).is_err());
}
