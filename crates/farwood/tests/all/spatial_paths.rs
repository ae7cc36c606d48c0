//! Searches by message and by READs, and the choice between them.

use crate::spatial_pool::{SpatialPool, in_mode, served, served_over_tcp};
use farwood::spatial::{
    BackOffSettings, Item, NotificationMode, Query, RTree, Rectangle, SearchMode, SearchOptions, SearchSink,
    ServeOptions, Spatial,
};
use farwood_fabric::{Server as _, ServerMemory as _};
use std::sync::Barrier;
use std::time::Duration;

const SIDE: u64 = 40;

fn items() -> Vec<Item> {
    let place = |id| Rectangle::point([(id % SIDE) as f64, (id / SIDE) as f64]).unwrap();
    (0..SIDE * SIDE).map(|id| Item { bounds: place(id), id }).collect()
}

fn corner(width: f64) -> Query {
    Query::intersecting(Rectangle::new([0.0; 2], [width; 2]).unwrap())
}

/// Receives items without storing their bounds.
#[derive(Debug, Default)]
struct Received {
    ids: Vec<u64>,
    restarts: usize,
}

impl SearchSink for Received {
    fn item(&mut self, item: Item) {
        self.ids.push(item.id);
    }

    fn restart(&mut self) {
        self.ids.clear();
        self.restarts += 1;
    }
}

/// Every lookup has the same result by every path.
fn check_results(spatial: &Spatial, rounds: usize) {
    for _ in 0..rounds {
        let mut ids: Vec<_> = spatial.search(&corner(3.0)).unwrap().iter().map(|item| item.id).collect();
        ids.sort_unstable();
        let expected: Vec<_> = (0..16).map(|at| at % 4 + at / 4 * SIDE).collect();
        assert_eq!(ids, expected);
        let mut received = Received::default();
        spatial.search_into(&corner(3.0), &mut received).unwrap();
        received.ids.sort_unstable();
        assert_eq!(received.ids, expected, "the items since the last restart");
        assert!(received.restarts > 0);
        assert_eq!(spatial.count(&corner(9.0)).unwrap(), 100);
        let near = spatial.nearest([5.2, 7.0], 2).unwrap();
        let near: Vec<_> = near.iter().map(|near| (near.item.id, near.distance_squared)).collect();
        assert_eq!(near[0].0, 5 + 7 * SIDE);
        assert!((near[1].1 - 0.64).abs() < 1e-9, "{near:?}");
    }
}

#[test]
fn in_shared_memory_every_path_has_the_same_results() {
    let scratch = SpatialPool::new();
    let pool = scratch.open();
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    places.bulk_load(&items(), 0.7).unwrap();
    let client = scratch.open();
    let open = |mode| in_mode(client.open_spatial("places").unwrap(), mode);
    let (auto, message, reads) = (open(SearchMode::Auto), open(SearchMode::Message), open(SearchMode::Reads));
    let refused = message.search(&corner(1.0)).unwrap_err().to_string();
    assert!(refused.contains("no server"), "{refused}");
    check_results(&auto, 10);
    assert_eq!(auto.search_stats().by_message, 0, "no process serves the index");
    let options = ServeOptions { heartbeat: Duration::from_millis(1), ..ServeOptions::default() };
    served(&places, &options, || {
        check_results(&message, 50);
        check_results(&reads, 50);
        let (by_message, by_reads) = (message.search_stats(), reads.search_stats());
        assert_eq!((by_message.by_message, by_message.by_reads), (200, 0));
        assert_eq!((by_reads.by_message, by_reads.by_reads), (0, 200));
        // A fresh handle has not yet found that there was no server.
        let auto = open(SearchMode::Auto);
        check_results(&auto, 400);
        let learned = auto.search_stats();
        assert!(learned.message_to_reads.is_some() && learned.by_message > 10, "{learned:?}");
        let server = auto.server_stats().unwrap().expect("the index is served");
        assert!((0.0..=1.0).contains(&server.utilisation), "{server:?}");
        assert!(server.by_message > 150, "{server:?}");
        // Changes use the connections of searches.
        let item = Item { bounds: Rectangle::point([-5.0; 2]).unwrap(), id: 7 };
        auto.insert(&item).unwrap();
        assert!(auto.remove(&item).unwrap());
    });
    check_results(&auto, 5);
    assert_eq!(auto.server_stats().unwrap(), None);
}

/// Several threads have left connections to a server that ended; the next server does not serve them.
#[test]
fn connections_of_an_earlier_server_are_replaced() {
    let scratch = SpatialPool::new();
    let pool = scratch.open();
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    places.bulk_load(&items(), 0.7).unwrap();
    let client = scratch.open();
    let open = |mode| in_mode(client.open_spatial("places").unwrap(), mode);
    let (message, auto) = (open(SearchMode::Message), open(SearchMode::Auto));
    let options = ServeOptions::default();
    served(&places, &options, || {
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    together.wait();
                    check_results(&message, 50);
                    check_results(&auto, 50);
                });
            }
        });
    });
    served(&places, &options, || {
        check_results(&message, 3);
        check_results(&auto, 50);
        let item = Item { bounds: Rectangle::point([-5.0; 2]).unwrap(), id: 8 };
        message.insert(&item).unwrap();
        assert!(message.remove(&item).unwrap());
    });
}

#[test]
fn over_tcp_every_path_has_the_same_results() {
    served_over_tcp(&RTree::new(), |_, open| {
        open(SearchMode::Auto).bulk_load(&items(), 0.7).unwrap();
        check_results(&open(SearchMode::Message), 20);
        check_results(&open(SearchMode::Reads), 20);
        let auto = open(SearchMode::Auto);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| check_results(&auto, 200));
            }
        });
        let learned = auto.search_stats();
        // Which path is faster depends on the machine.
        assert!(learned.message_to_reads.is_some() && learned.server_utilisation.is_some(), "{learned:?}");
        assert!(learned.by_message > 20 && learned.by_reads > 20, "both were tried: {learned:?}");
        let server = auto.server_stats().unwrap().expect("the index is served");
        assert!(server.by_message >= learned.by_message, "{server:?}");
        assert!((0.0..=1.0).contains(&server.share_offloaded()), "{server:?}");
    });
}

/// Over a network, every path detects a node that changed at rest, and the server continues to serve the others.
#[test]
fn a_damaged_node_fails_the_searches_that_need_it_by_every_path() {
    served_over_tcp(&RTree::new(), |node, open| {
        let odd = Item { bounds: Rectangle::point([0.123_456_789, 0.5]).unwrap(), id: 9_999 };
        let mut loaded = items();
        loaded.push(odd);
        open(SearchMode::Auto).bulk_load(&loaded, 0.7).unwrap();
        let server = node.server();
        let is_odd = |offset: &u64| server.local().load(*offset).unwrap() == odd.bounds.min()[0].to_bits();
        let at = (0..64 << 20).step_by(8).find(is_odd).expect("the leaf has the coordinate");
        server.local().store(at, 0.2_f64.to_bits()).unwrap();
        for mode in [SearchMode::Reads, SearchMode::Message, SearchMode::Auto] {
            let index = open(mode);
            for _ in 0..3 {
                let damaged = index.search(&corner(1.0)).unwrap_err();
                assert_eq!(damaged.exit_code(), 8, "{mode}: {damaged}");
                assert_eq!(index.count(&corner(1.0)).unwrap_err().exit_code(), 8, "{mode}");
            }
            let far = Rectangle::new([30.0; 2], [33.0; 2]).unwrap();
            assert_eq!(index.count(&Query::intersecting(far)).unwrap(), 16, "{mode}");
        }
        let damaged = open(SearchMode::Message).remove(&odd).unwrap_err();
        assert_eq!(damaged.exit_code(), 8, "{damaged}");
    });
}

/// Clients send an immediate with each message, and the queue of immediates has 4,096 places.
#[test]
fn a_polling_server_answers_more_messages_than_the_queue_of_immediates_holds() {
    let scratch = SpatialPool::new();
    let pool = scratch.open();
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    let client = in_mode(scratch.open().open_spatial("places").unwrap(), SearchMode::Message);
    let options = ServeOptions { notice: NotificationMode::Polling, ..ServeOptions::default() };
    served(&places, &options, || {
        for number in 0..5_000 {
            assert_eq!(client.count(&corner(1.0)).unwrap(), 0, "message {number}");
        }
    });
}

#[test]
fn options_of_searches_out_of_range_are_refused() {
    let scratch = SpatialPool::new();
    let pool = scratch.open();
    pool.create_spatial("places", &RTree::new()).unwrap();
    let default = BackOffSettings::default();
    for back_off in [
        BackOffSettings { window: 0, ..default },
        BackOffSettings { threshold: f64::NAN, ..default },
        BackOffSettings { threshold: 95.0, ..default },
    ] {
        let spatial = pool.open_spatial("places").unwrap();
        let refused =
            spatial.with_search(SearchOptions { back_off, ..SearchOptions::default() }).unwrap_err();
        assert!(matches!(refused, farwood::Error::Argument { .. }), "{refused}");
    }
}

/// 64 threads that search and change share three connections of their own and one of the pool, in every mode.
#[test]
fn many_threads_share_few_connections_to_a_memory_node() {
    const THREADS: u64 = 64;
    served_over_tcp(&RTree::new(), |node, open| {
        for mode in [SearchMode::Reads, SearchMode::Message, SearchMode::Auto] {
            let places = open(mode);
            let (before, together) = (node.counts().accepted, Barrier::new(THREADS as usize));
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (places, together) = (&places, &together);
                    scope.spawn(move || {
                        together.wait();
                        let item =
                            Item { bounds: Rectangle::point([thread as f64, 0.5]).unwrap(), id: thread };
                        places.insert(&item).unwrap();
                        let query = Query::intersecting(item.bounds);
                        assert_eq!(places.search(&query).unwrap(), [item]);
                        assert_eq!(places.count(&query).unwrap(), 1);
                        assert_eq!(places.nearest([thread as f64, 0.5], 1).unwrap()[0].item, item);
                        let mut found = vec![item; 3];
                        places.search_into(&query, &mut found).unwrap();
                        assert_eq!(found, [item]);
                        assert!(places.remove(&item).unwrap());
                        together.wait();
                    });
                }
            });
            let accepted = node.counts().accepted - before;
            assert!(accepted <= 4, "{mode:?}: the threads opened {accepted} connections to the memory node");
        }
    });
}
