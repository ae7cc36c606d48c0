//! Catfish through shared memory, compared with a list and with rstar; and with a server and readers on different
//! threads.

use farwood_fabric::{Client, Fabric, NodeId, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, CatfishConfig, Count, Inbox, Issue, Item, NotificationMode, Query, Reader, Rectangle, Relation,
    RingRpc, ServerSettings, Service, ServiceSettings, SpatialRpc as _,
};
use farwood_proof::shm::Shm;
use farwood_testkit::Harness;
use farwood_testkit::ServerHarness;
use farwood_testkit::harness::TestRng;
use rstar::primitives::{GeomWithData, Rectangle as Peer};
use rstar::{AABB, RTree};
use std::sync::atomic::{AtomicBool, Ordering};

type Peers = RTree<GeomWithData<Peer<[f64; 2]>, u64>>;

fn draw_bounds(random: &mut TestRng) -> Rectangle {
    let corner = [0, 1].map(|_| random.below(1_000_000) as f64 / 1e6);
    let edge = [0, 1].map(|_| random.below(10_000) as f64 / 1e6);
    Rectangle::new(corner, [corner[0] + edge[0], corner[1] + edge[1]]).unwrap()
}

fn peer(item: &Item) -> GeomWithData<Peer<[f64; 2]>, u64> {
    GeomWithData::new(Peer::from_corners(item.bounds.min(), item.bounds.max()), item.id)
}

fn ids(found: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut ids: Vec<_> = found.into_iter().collect();
    ids.sort_unstable();
    ids
}

/// Compares the results of a reader, the list and rstar.
async fn compare<F: Fabric>(
    index: &Catfish,
    client: &Client<F>,
    random: &mut TestRng,
    (items, peers): (&[Item], &Peers),
) -> Result<(), IndexError> {
    let mut reader = Reader::new(index, client, Issue::Many);
    for relation in [Relation::Intersects, Relation::Within, Relation::Contains] {
        let query = Query { window: draw_bounds(random), relation };
        let mut found = Vec::new();
        reader.search(&query, &mut found).await?;
        let matching = items.iter().filter(|item| query.matches(&item.bounds));
        assert_eq!(ids(found.iter().map(|item| item.id)), ids(matching.map(|item| item.id)), "{query:?}");
        let window = AABB::from_corners(query.window.min(), query.window.max());
        if relation == Relation::Intersects {
            let theirs = peers.locate_in_envelope_intersecting(&window);
            assert_eq!(ids(found.iter().map(|item| item.id)), ids(theirs.map(|peer| peer.data)), "{query:?}");
        }
    }
    let point = draw_bounds(random).min();
    let near = reader.nearest(point, 7).await?;
    let theirs = peers.nearest_neighbor_iter_with_distance_2(&point).take(7);
    for (ours, (_, theirs)) in near.iter().zip(theirs) {
        assert!((ours.distance_squared - theirs).abs() < 1e-15, "{} is not {theirs}", ours.distance_squared);
    }
    assert_eq!(near.len(), items.len().min(7));
    Ok(())
}

#[test]
fn searches_find_what_a_list_and_rstar_find() {
    finds_what_a_list_and_rstar_find(&Shm::default(), &[(1, 0), (2, 700), (6, 5_000)]);
}

fn finds_what_a_list_and_rstar_find<H: ServerHarness>(harness: &H, cases: &[(usize, u64)]) {
    let (client, server) = (harness.client(), harness.server(NodeId(0)));
    harness.block_on(async {
        for &(blocks, loaded) in cases {
            let mut random = TestRng::new(blocks as u64);
            let name = format!("model-{blocks}");
            let config = CatfishConfig { blocks, ..CatfishConfig::default() };
            let index = Catfish::create(&client, &name, config).await.unwrap();
            let tree = index.serve(&client, &server, ServerSettings::default()).await.unwrap();
            let worker = tree.worker(&client, &server);
            let mut items: Vec<_> =
                (0..loaded).map(|id| Item { bounds: draw_bounds(&mut random), id }).collect();
            worker.bulk_load(&items, 0.9).await.unwrap();
            let mut peers: Peers = RTree::bulk_load(items.iter().map(peer).collect());
            for step in 0..1_500_u64 {
                if random.once_in(3) && !items.is_empty() {
                    let item = items.swap_remove(random.below(items.len() as u64) as usize);
                    assert!(worker.remove(&item).await.unwrap() && peers.remove(&peer(&item)).is_some());
                } else {
                    let item = Item { bounds: draw_bounds(&mut random), id: loaded + step };
                    worker.insert(&item).await.unwrap();
                    peers.insert(peer(&item));
                    items.push(item);
                }
                if step.is_multiple_of(20) {
                    compare(&index, &client, &mut random, (&items, &peers)).await.unwrap();
                }
            }
            let walk = index.walk(&client).await.unwrap();
            assert_eq!((walk.problems, walk.entries), (Vec::new(), items.len() as u64));
            tree.release_lease(&client).await.unwrap();
        }
    });
}

/// Items only move, each move in one commit: every search of everything finds each item once.
#[test]
fn readers_on_other_threads_see_each_moving_item_once() {
    const ITEMS: u64 = 300;
    let harness = Shm::default();
    let creator = harness.client();
    harness
        .block_on(Catfish::create(
            &creator,
            "moving",
            CatfishConfig { blocks: 1, ..CatfishConfig::default() },
        ))
        .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let (client, server) = (harness.client(), harness.server(NodeId(0)));
            harness.block_on(async {
                let index = Catfish::open(&client, "moving").await.unwrap();
                // Slots are reused at once, so that readers often read partly written nodes.
                let settings = ServerSettings { reuse_delay_ns: 0, ..ServerSettings::default() };
                let tree = index.serve(&client, &server, settings).await.unwrap();
                let worker = tree.worker(&client, &server);
                let mut random = TestRng::new(5);
                let mut items: Vec<_> =
                    (0..ITEMS).map(|id| Item { bounds: draw_bounds(&mut random), id }).collect();
                worker.bulk_load(&items, 0.8).await.unwrap();
                let mut moves = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let at = random.below(ITEMS) as usize;
                    let bounds = draw_bounds(&mut random);
                    assert!(worker.update(&items[at], bounds).await.unwrap());
                    items[at].bounds = bounds;
                    moves += 1;
                    if moves.is_multiple_of(64) {
                        // A search of everything needs some time without changes.
                        std::thread::sleep(std::time::Duration::from_micros(300));
                    }
                }
                moves
            })
        });
        let end = SetOnDrop(&done);
        let client = harness.separate_client();
        harness.block_on(async {
            let index = Catfish::open(&client, "moving").await.unwrap();
            let everything = Query::intersecting(Rectangle::new([-1.0, -1.0], [3.0, 3.0]).unwrap());
            let mut reader = Reader::new(&index, &client, Issue::Many);
            let (mut searches, mut found) = (0, Vec::new());
            while searches < 2_000 {
                found.clear();
                reader.search(&everything, &mut found).await.unwrap();
                if found.is_empty() && searches == 0 {
                    continue;
                }
                let found = ids(found.iter().map(|item| item.id));
                assert!(
                    found.iter().copied().eq(0..ITEMS),
                    "{} items after {searches} searches",
                    found.len()
                );
                searches += 1;
            }
        });
        drop(end);
        assert!(moving.join().unwrap() > 0);
    });
}

#[test]
fn a_server_answers_messages_on_another_thread_by_polling_and_by_events() {
    for notice in [NotificationMode::Polling, NotificationMode::Event] {
        a_server_answers(&Shm::default(), notice, 500);
    }
}

fn a_server_answers<H: ServerHarness + Sync>(harness: &H, notice: NotificationMode, count: u64) {
    let creator = harness.client();
    let config = CatfishConfig { ring_bytes: 4096, ..CatfishConfig::default() };
    harness.block_on(Catfish::create(&creator, "messages", config)).unwrap();
    let ready = AtomicBool::new(false);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve_until(harness, notice, &ready, &done));
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let _end = SetOnDrop(&done);
        let (client, memory) = (harness.separate_client(), harness.server(NodeId(0)));
        harness.block_on(async {
            let index = Catfish::open(&client, "messages").await.unwrap();
            let inbox = Inbox { local: memory.local(), at: None };
            let mut connection = RingRpc::connect(&index, &client, inbox, notice).await.unwrap();
            let mut random = TestRng::new(9);
            let items: Vec<_> = (0..count).map(|id| Item { bounds: draw_bounds(&mut random), id }).collect();
            for item in &items {
                connection.insert(item).await.unwrap();
            }
            let everything = Query::intersecting(Rectangle::new([-1.0, -1.0], [3.0, 3.0]).unwrap());
            let mut found = Vec::new();
            connection.search(&everything, &mut found).await.unwrap();
            assert_eq!(
                ids(found.iter().map(|item| item.id)),
                (0..count).collect::<Vec<_>>(),
                "a response of many segments"
            );
            assert!(connection.remove(&items[7]).await.unwrap());
            assert!(!connection.remove(&items[7]).await.unwrap());
            assert_eq!(connection.count(&everything).await.unwrap(), count - 1);
            let mut counted = Count::default();
            Reader::new(&index, &client, Issue::One).search(&everything, &mut counted).await.unwrap();
            assert_eq!(counted, Count(count - 1), "by READs as by message");
            connection.close().await.unwrap();
        });
    });
}

/// Ends the other thread even if a check fails, so that the test fails instead of waiting for it.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn serve_until<H: ServerHarness>(
    harness: &H,
    notice: NotificationMode,
    ready: &AtomicBool,
    done: &AtomicBool,
) {
    let (client, server) = (harness.client(), harness.server(NodeId(0)));
    harness.block_on(async {
        let index = Catfish::open(&client, "messages").await.unwrap();
        let tree = index.serve(&client, &server, ServerSettings::default()).await.unwrap();
        let service = Service::new(&tree, ServiceSettings { notice, ..ServiceSettings::default() });
        ready.store(true, Ordering::Release);
        let clients: Vec<_> = (0..16).map(|_| harness.client()).collect();
        let mut flows: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let (service, server) = (&service, &server);
            flows.push(Box::pin(async move { service.connection(number, client, server).await.unwrap() }));
        }
        flows.push(Box::pin(async { service.dispatch_until_end(&server, &client).await.unwrap() }));
        std::future::poll_fn(|context| {
            if done.load(Ordering::Acquire) {
                service.end();
            }
            flows.retain_mut(|flow| flow.as_mut().poll(context).is_pending());
            context.waker().wake_by_ref();
            if flows.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
}

/// A guest of `cargo xtask rxe` runs this module.
mod over_rdma {
    use super::{a_server_answers, finds_what_a_list_and_rstar_find};
    use farwood_index::catfish::NotificationMode;
    use farwood_proof::served::rdma_or_skip;

    #[test]
    fn searches_find_what_a_list_and_rstar_find() {
        if let Some(rdma) = rdma_or_skip() {
            finds_what_a_list_and_rstar_find(&rdma, &[(1, 0), (2, 300)]);
        }
    }

    #[test]
    fn a_server_answers_messages_by_polling_and_by_events() {
        for notice in [NotificationMode::Polling, NotificationMode::Event] {
            if let Some(rdma) = rdma_or_skip() {
                a_server_answers(&rdma, notice, 100);
            }
        }
    }
}
