//! The servers of a run: one that changes the tree word by word, and one that takes its place.

use super::case::{Case, place, query};
use super::clients::lost;
use super::notes::{Notes, judge};
use farwood_fabric::{Client, Fabric as _, FabricError};
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, Item, Service, ServiceSettings, TreeServer};
use farwood_sim::{SimFabric, World};
use farwood_testkit::harness::Chance;
use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// The server, until all searches are done or its compute node crashes.
pub(super) async fn serve(
    case: &Case,
    world: &World,
    index: &Catfish,
    client: &Client<SimFabric>,
    notes: &Notes,
) {
    let server = world.server(case.config.node);
    while notes.searching.get() > 0 {
        let began = world.now();
        match index.serve(client, &server, case.settings).await {
            Ok(tree) => {
                let tree = match case.sabotage {
                    Some(sabotage) => tree.sabotage(sabotage),
                    None => tree,
                };
                let tree = notes.serve(tree);
                return match case.talk {
                    Some(talk) => answer(case, world, &tree, talk, client, notes).await,
                    None => work(case, world, &tree, client, notes).await,
                };
            }
            Err(error) if is_loss(&error) && lost(world, began) => {}
            // A memory node that is down cannot confirm yet that the dead one's verbs are over.
            Err(IndexError::Served { .. }) if world.crashed(0) => client.fabric().sleep(100_000).await,
            Err(error) => return notes.fail(format!("serving: {error}")),
        }
    }
}

pub(super) fn is_loss(error: &IndexError) -> bool {
    matches!(error, IndexError::Fabric(FabricError::NodeLost { .. }))
}

/// Changes the tree, with several workers at once.
pub(super) async fn work(
    case: &Case,
    world: &World,
    tree: &TreeServer,
    client: &Client<SimFabric>,
    notes: &Notes,
) {
    all((0..case.workers).map(|me| one_worker(case, me as u64, world, tree, client, notes))).await;
}

/// Runs flows of one task together, to their ends. Of many, those that were woken are polled, in that order.
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

/// Connections that the server looks after: more than there are clients, for some are left by the dead.
pub(super) const CONNECTIONS: usize = 40;

/// Answers messages until all searches are done.
pub(super) async fn answer(
    case: &Case,
    world: &World,
    tree: &TreeServer,
    talk: ServiceSettings,
    client: &Client<SimFabric>,
    notes: &Notes,
) {
    let seat = client.fabric().seat().compute_node();
    let service = Service::new(tree, talk);
    let server = world.server(case.config.node);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| world.client(seat)).collect();
    let (service, server, failed) = (&service, &server, |what: &str, error: IndexError| {
        notes.fail(format!("{what}: {error}"));
    });
    let connections = clients.iter().enumerate().map(|(number, client)| {
        let flow = async move {
            // A memory node that is lost is the client's to wait for.
            while let Err(error) = service.connection(number, client, server).await {
                if !is_loss(&error) {
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
        while notes.searching.get() > 0 {
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

pub(super) async fn one_worker(
    case: &Case,
    me: u64,
    world: &World,
    tree: &TreeServer,
    client: &Client<SimFabric>,
    notes: &Notes,
) {
    let server = world.server(case.config.node);
    let worker = tree.worker(client, &server);
    let mut chance = Chance::new(case.spec.seed ^ (0x776F_726B + me) ^ notes.commits() as u64);
    // Items that this worker put there, so that no other takes them out.
    let mut mine: Vec<Item> = Vec::new();
    while notes.searching.get() > 0 {
        let result = match chance.below(4) {
            0 | 1 if mine.len() < 120 => {
                let item = Item { bounds: place(&mut chance), id: notes.new_id() };
                mine.push(item);
                worker.insert(&item).await
            }
            2 if !mine.is_empty() => {
                let at = chance.below(mine.len() as u64) as usize;
                let (from, to) = (mine[at], Item { bounds: place(&mut chance), id: mine[at].id });
                mine[at] = to;
                expect_there(worker.update(&from, to.bounds).await, notes)
            }
            _ if !mine.is_empty() => {
                let item = mine.swap_remove(chance.below(mine.len() as u64) as usize);
                expect_there(worker.remove(&item).await, notes)
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            return notes.fail(format!("worker {me}: {error}"));
        }
        if chance.once_in(8) {
            look_locally(&worker, &mut chance, notes).await;
        }
        // Now and then the server rests until some searches are through, or those by READs would never end.
        if chance.once_in(case.burst) {
            let enough = notes.searches.get() + chance.below(4 * case.clients as u64);
            let began = world.now();
            while notes.searches.get() < enough && notes.searching.get() > 0 {
                let waited = world.now() - began;
                client.fabric().sleep((waited / 8).max(case.spec.card.wire.one_way_ns as u64)).await;
            }
        }
        client.fabric().sleep(chance.below(3_000)).await;
    }
}

pub(super) fn expect_there(done: Result<bool, IndexError>, notes: &Notes) -> Result<(), IndexError> {
    if !done? {
        notes.fail("an item that is there was not found to be changed".to_owned());
    }
    Ok(())
}

/// The server's own search: it holds a snapshot.
pub(super) async fn look_locally(
    worker: &farwood_index::catfish::Worker<'_, SimFabric, farwood_sim::SimServer>,
    chance: &mut Chance,
    notes: &Notes,
) {
    let (query, begun, mut found) = (query(chance), notes.begin(), Vec::new());
    match worker.search(&query, &mut found).await {
        Ok(()) => judge(&query, begun, found, notes),
        Err(error) => notes.fail(format!("the server's own search: {error}")),
    }
}

/// The second server: it waits until the first has crashed.
pub(super) async fn succeed(
    case: &Case,
    world: &World,
    index: &Catfish,
    client: &Client<SimFabric>,
    notes: &Notes,
) {
    while !world.crashed(0) {
        if notes.searching.get() == 0 {
            return;
        }
        client.fabric().sleep(50_000).await;
    }
    notes.successors.set(1);
    serve(case, world, index, client, notes).await;
}
