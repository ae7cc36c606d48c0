//! The servers of a run: one that changes the tree word by word, and one that replaces it after a crash.

use super::case::{SpatialCase, bounds, query};
use super::clients::{dropped_after, outage_explains_loss};
use super::record::{SearchRecord, check_one_commit, check_search, number};
use super::records::of_kind;
use farwood_fabric::{Client, Fabric as _, FabricError};
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, Change, IdKind, Item, Service, ServiceSettings, TreeServer, Worker};
use farwood_sim::{SimFabric, SimServer, World};
use farwood_testkit::harness::TestRng;
use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

type SimWorker<'t> = Worker<'t, SimFabric, SimServer>;

/// The server, until all searches are done or its compute node crashes.
pub(super) async fn serve(
    case: &SpatialCase,
    world: &World,
    index: &Catfish,
    client: &Client<SimFabric>,
    record: &SearchRecord,
) {
    let server = world.server(case.config.node);
    while record.searching.get() > 0 {
        let began = world.now();
        match index.serve(client, &server, case.settings).await {
            Ok(tree) => {
                let tree = match case.mutant {
                    Some(mutant) => tree.mutant(mutant),
                    None => tree,
                };
                let tree = record.serve(tree);
                return match case.messages {
                    Some(settings) => answer(case, world, &tree, settings, client, record).await,
                    None => work(case, world, &tree, client, record).await,
                };
            }
            Err(error) if is_node_lost(&error) && outage_explains_loss(world, began) => {}
            // A memory node that is down cannot confirm yet that the verbs of the crashed server have ended.
            Err(IndexError::Served { .. }) if world.crashed(0) => client.fabric().sleep(100_000).await,
            Err(error) => return record.fail(format!("serving: {error}")),
        }
    }
}

pub(super) fn is_node_lost(error: &IndexError) -> bool {
    matches!(error, IndexError::Fabric(FabricError::NodeLost { .. }))
}

/// Changes the tree with several workers at the same time.
pub(super) async fn work(
    case: &SpatialCase,
    world: &World,
    tree: &TreeServer,
    client: &Client<SimFabric>,
    record: &SearchRecord,
) {
    all((0..case.workers).map(|number| run_worker(case, number as u64, world, tree, client, record))).await;
}

/// Runs several futures in one task until all are ready. It polls the futures that were woken, in the order of the
/// wakes.
pub(super) async fn all(flows: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut flows: FuturesUnordered<_> = flows.collect();
    poll_fn(|context| {
        loop {
            match Pin::new(&mut flows).poll_next(context) {
                Poll::Ready(Some(())) => {}
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

/// Connections of the server: more than there are clients, because crashed clients leave connections open.
pub(super) const CONNECTIONS: usize = 40;

/// Answers messages until all searches are done.
pub(super) async fn answer(
    case: &SpatialCase,
    world: &World,
    tree: &TreeServer,
    settings: ServiceSettings,
    client: &Client<SimFabric>,
    record: &SearchRecord,
) {
    let seat = client.fabric().sim_thread().compute_node();
    let service = Service::new(tree, settings);
    let server = world.server(case.config.node);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| world.client(seat)).collect();
    let (service, server, failed) = (&service, &server, |what: &str, error: IndexError| {
        record.fail(format!("{what}: {error}"));
    });
    let connections = clients.iter().enumerate().map(|(number, client)| {
        let flow = async move {
            // The client waits for a lost memory node.
            while let Err(error) = service.connection(number, client, server).await {
                if !is_node_lost(&error) {
                    return failed("a connection", error);
                }
            }
        };
        Box::pin(flow) as Pin<Box<dyn Future<Output = ()> + '_>>
    });
    let beats = Box::pin(async {
        if let Err(error) = service.heartbeats(client, server, || 0.99).await {
            failed("heartbeats", error);
        }
    });
    let end = Box::pin(async {
        while record.searching.get() > 0 {
            client.fabric().sleep(20_000).await;
        }
        service.end();
    });
    let flows: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        connections.chain([beats as _, end as _]).collect();
    let mut dispatch = std::pin::pin!(service.dispatch(server));
    let mut flows = std::pin::pin!(all(flows.into_iter()));
    poll_fn(|context| {
        let _ = dispatch.as_mut().poll(context);
        flows.as_mut().poll(context)
    })
    .await;
}

pub(super) async fn run_worker(
    case: &SpatialCase,
    number: u64,
    world: &World,
    tree: &TreeServer,
    client: &Client<SimFabric>,
    record: &SearchRecord,
) {
    let server = world.server(case.config.node);
    let worker = tree.worker(client, &server);
    let mut random = TestRng::new(case.spec.seed ^ (0x776F_726B + number) ^ record.commits() as u64);
    // Items that this worker inserted; no other worker removes them.
    let mut own: Vec<Item> = Vec::new();
    while record.searching.get() > 0 {
        if let Err(error) = change_tree(case.config.ids, &worker, &mut random, &mut own, record).await {
            return record.fail(format!("worker {number}: {error}"));
        }
        if random.once_in(8) {
            search_locally(&worker, &mut random, record).await;
        }
        // At random times the server pauses until some searches have ended, because otherwise searches by READs would
        // never end.
        if random.once_in(case.burst) {
            let enough = record.searches.get() + random.below(4 * case.clients as u64);
            let began = world.now();
            while record.searches.get() < enough && record.searching.get() > 0 {
                let waited = world.now() - began;
                client.fabric().sleep((waited / 8).max(case.spec.card.wire.one_way_ns as u64)).await;
            }
        }
        client.fabric().sleep(random.below(3_000)).await;
    }
}

/// Makes one change or several, as one call that is sometimes dropped. `own` has the items that this worker inserted.
async fn change_tree(
    ids: IdKind,
    worker: &SimWorker<'_>,
    random: &mut TestRng,
    own: &mut Vec<Item>,
    record: &SearchRecord,
) -> Result<(), IndexError> {
    let count = if random.once_in(4) { 1 + random.below(20) } else { 1 };
    let planned = plan_changes(ids, random, own, count, record);
    let changes: Vec<_> = planned.iter().map(|(change, _)| change.clone()).collect();
    if random.once_in(12) {
        // The changes are made all or not at all, and not necessarily before this call returns. No later change needs
        // their items.
        own.retain(|item| changes.iter().all(|change| id_of(change) != item.id));
        let polls = random.below(12);
        return dropped_after(polls, async { worker.apply(&changes).await.map(drop) }).await;
    }
    let begun = record.begin();
    let found = worker.apply(&changes).await?;
    if !found.iter().eq(planned.iter().map(|(_, found)| found)) {
        record.fail(format!("{planned:?} found {found:?}"));
    }
    check_one_commit(&planned, &begun, record);
    Ok(())
}

pub(super) fn id_of(change: &Change) -> u64 {
    match change {
        Change::Insert(item) | Change::Remove(item) | Change::Update(item, _) => item.id,
        Change::Put(record) => number(&record.id),
        Change::Delete(id) | Change::Move(id, _) => number(id),
    }
}

/// Draws changes of `own`, with the expected outcome of each; some remove an item that is not present.
pub(super) fn plan_changes(
    ids: IdKind,
    random: &mut TestRng,
    own: &mut Vec<Item>,
    count: u64,
    record: &SearchRecord,
) -> Vec<(Change, bool)> {
    let mut planned = Vec::new();
    for _ in 0..count {
        let at = random.below(own.len().max(1) as u64) as usize;
        match random.below(9) {
            0..4 if own.len() < 120 => {
                let item = Item { bounds: bounds(random), id: record.new_id() };
                own.push(item);
                planned.push((Change::Insert(item), true));
            }
            4..6 if !own.is_empty() => {
                let (from, to) = (own[at], bounds(random));
                own[at].bounds = to;
                planned.push((Change::Update(from, to), true));
            }
            8 => planned.push((Change::Remove(Item { bounds: bounds(random), id: u64::MAX }), false)),
            _ if !own.is_empty() => planned.push((Change::Remove(own.swap_remove(at)), true)),
            _ => {}
        }
    }
    planned.into_iter().map(|planned| of_kind(planned, ids)).collect()
}

pub(super) fn expect_found(done: Result<bool, IndexError>, record: &SearchRecord) -> Result<(), IndexError> {
    if !done? {
        record.fail("a change did not find an item that is present".to_owned());
    }
    Ok(())
}

/// Searches the tree in the server, on a snapshot.
pub(super) async fn search_locally(worker: &SimWorker<'_>, random: &mut TestRng, record: &SearchRecord) {
    let (query, begun, mut found) = (query(random), record.begin(), Vec::new());
    match worker.search(&query, &mut found).await {
        Ok(()) => check_search(&query, begun, found, record),
        Err(error) => record.fail(format!("the server's local search: {error}")),
    }
}

/// The second server: it serves after the first has crashed.
pub(super) async fn serve_after_crash(
    case: &SpatialCase,
    world: &World,
    index: &Catfish,
    client: &Client<SimFabric>,
    record: &SearchRecord,
) {
    while !world.crashed(0) {
        if record.searching.get() == 0 {
            return;
        }
        client.fabric().sleep(50_000).await;
    }
    record.successors.set(1);
    serve(case, world, index, client, record).await;
}
