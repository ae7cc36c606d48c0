//! Futures outside of a tree's operations that are dropped at every poll: the lock of the directory, and connections to
//! the server of a spatial index.

use farwood_fabric::{Client, NodeId, directory};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, CatfishConfig, Inbox, NotificationMode, RingRpc, ServerSettings, Service, ServiceSettings,
};
use farwood_proof::seeds::loopback::{Copies, settings};
use farwood_testkit::loopback::{Loopback, LoopbackFabric, Settings};
use farwood_testkit::{Harness as _, ServerHarness as _};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Maximum polls before a drop.
const POLLS_MAX: u64 = 60;
/// Interleavings.
const SEEDS: u64 = 12;

/// Polls a future up to `polls` times, and drops it unless it ends.
fn poll_and_drop<T>(work: impl Future<Output = T>, polls: u64) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..polls {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(done);
        }
    }
    None
}

#[test]
fn a_dropped_acquisition_frees_the_directory() {
    let mut drops = 0;
    for seed in 0..SEEDS {
        let pool = Loopback::new(Settings { seed, ..slow() });
        let (client, other) = (pool.separate_client(), pool.separate_client());
        for polls in (1..5).cycle().take(POLLS_MAX as usize) {
            drops += u64::from(poll_and_drop(directory::lock(&client), polls).is_none());
            pool.finish();
            other.take_costs();
            pool.block_on(async { directory::lock(&other).await?.unlock().await }).expect("it is free");
            assert_eq!(other.take_costs().round_trips, 2, "seed {seed}, {polls} polls");
        }
    }
    assert!(drops > SEEDS, "{drops} acquisitions were dropped");
}

/// Other clients run between the words of a transfer, and between the load of an atomic and its store.
fn slow() -> Settings {
    let mut slow = settings(Copies::SharedMemory, 0);
    slow.faults.atomic_loses_writes = true;
    slow
}

#[test]
fn a_dropped_connect_frees_its_connection() {
    let mut drops = 0;
    for seed in 0..SEEDS {
        let pool = Loopback::new(Settings { seed, ..slow() });
        let client = pool.separate_client();
        let config = CatfishConfig::default();
        let index = pool.block_on(Catfish::create(&client, "places", config)).expect("a new index");
        let server = pool.server(NodeId(0));
        let tree = pool.block_on(index.serve(&client, &server, ServerSettings::default()));
        let tree = tree.expect("no other server");
        // Nothing answers: each `connect` waits until it is dropped.
        let _service = Service::new(&tree, ServiceSettings::default());
        tree.publish_connections(&server, 1).expect("the head of the index");
        let (one, other) = (pool.separate_client(), pool.separate_client());
        for polls in 1..POLLS_MAX {
            for client in [&one, &other] {
                let connected = poll_and_drop(connect(&pool, &index, client), polls);
                assert_eq!(connected, None, "seed {seed}, {polls} polls");
                pool.finish();
                drops += 1;
            }
        }
    }
    assert!(drops > 0);
}

/// Connects to the server; an error says that the only connection is taken.
async fn connect(
    pool: &Loopback,
    index: &Catfish,
    client: &Client<LoopbackFabric>,
) -> Result<(), IndexError> {
    let local = pool.server(NodeId(0));
    let inbox = Inbox { local: farwood_fabric::Server::local(&local), at: None };
    RingRpc::connect(index, client, inbox, NotificationMode::Polling).await.map(drop)
}
