//! Servers of a spatial index that are alive and do not answer: a client waits for a limited time, and its error
//! states whether its request may be executed.

use farwood_fabric::{Client, NodeId, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, CatfishConfig, Inbox, Item, NotificationMode, Rectangle, RingRpc, ServerSettings, Service,
    ServiceSettings, SpatialRpc as _,
};
use farwood_proof::seeds::loopback::{Copies, settings};
use farwood_testkit::loopback::{Loopback, LoopbackFabric, LoopbackServer};
use farwood_testkit::{Harness as _, ServerHarness as _};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Awaits `work` while another flow runs beside it.
async fn beside<T>(flow: impl Future, work: impl Future<Output = T>) -> T {
    let (mut flow, mut work) = (pin!(flow), pin!(work));
    poll_fn(|context| {
        let _ = flow.as_mut().poll(context).is_ready();
        match work.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            done @ Poll::Ready(_) => done,
        }
    })
    .await
}

fn inbox(server: &LoopbackServer) -> Inbox<'_, <LoopbackServer as farwood_fabric::Server>::Local> {
    Inbox { local: server.local(), at: None }
}

type LoopbackClient = Client<LoopbackFabric>;

/// Calls `work` with an index, a client and the server of the index.
fn with_server(work: &impl AsyncFn(&Catfish, &LoopbackClient, &LoopbackServer, &Service<'_>)) {
    let pool = Loopback::new(settings(Copies::SharedMemory, 0));
    let (owner, client, server) = (pool.separate_client(), pool.separate_client(), pool.server(NodeId(0)));
    pool.block_on(async {
        let index = Catfish::create(&owner, "places", CatfishConfig::default()).await.expect("a new index");
        let tree = index.serve(&owner, &server, ServerSettings::default()).await.expect("no other server");
        tree.publish_connections(&server, 1).expect("the head of the index");
        work(&index, &client, &server, &Service::new(&tree, ServiceSettings::default())).await;
    });
}

#[test]
fn a_server_that_accepts_no_connection_is_alive_but_silent() {
    with_server(&async |index, client, server, _| {
        let connected = RingRpc::connect(index, client, inbox(server), NotificationMode::Event).await;
        let error = connected.expect_err("nothing answers");
        assert!(matches!(error, IndexError::NoConnection { seconds: 10, .. }), "{error}");
        for words in ["'places'", "did not accept a connection for 10 s", "nothing was changed", "kill -CONT"]
        {
            assert!(error.to_string().contains(words), "{words:?} is missing in: {error}");
        }
    });
}

#[test]
fn a_client_that_changes_the_index_itself_is_named() {
    let pool = Loopback::new(settings(Copies::SharedMemory, 0));
    let (owner, client, server) = (pool.separate_client(), pool.separate_client(), pool.server(NodeId(0)));
    pool.block_on(async {
        let index = Catfish::create(&owner, "places", CatfishConfig::default()).await.expect("a new index");
        let _tree = index.serve(&owner, &server, ServerSettings::default()).await.expect("no other server");
        let connected = RingRpc::connect(&index, &client, inbox(&server), NotificationMode::Event).await;
        let error = connected.expect_err("the other client opens no connections");
        assert!(matches!(error, IndexError::BeingChanged { .. }), "{error}");
    });
}

#[test]
fn a_server_that_stops_before_it_answers_may_execute_the_request_later() {
    with_server(&async |index, client, server, service| {
        let item = Item { bounds: Rectangle::point([1.0, 2.0]).expect("two finite numbers"), id: 1 };
        let connect = RingRpc::connect(index, client, inbox(server), NotificationMode::Polling);
        // The flow of the connection is dropped when the client is connected.
        let connected = beside(service.connection(0, client, server), connect).await;
        let mut connection = connected.expect("the server answers");
        let error = connection.insert(&item).await.expect_err("the server has stopped");
        assert!(matches!(error, IndexError::NoAnswer { seconds: 20, .. }), "{error}");
        assert!(error.to_string().contains("may execute it later"), "{error}");
        let again = connection.insert(&item).await.expect_err("the connection is unusable");
        assert!(matches!(again, IndexError::ServerLost { .. }), "{again}");
    });
}
