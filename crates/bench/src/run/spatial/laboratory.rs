//! A run of a spatial index in the laboratory.
//!
//! Machine 0 is the server's: memory node 0 has the tree, and compute node 0 the server's threads, one for each
//! connection, which share its cores. The other machines are the clients'; their memory has the inboxes. The TCP
//! baseline is the same server and the same messages on a card whose requests pass through the kernels of both
//! machines.

use std::sync::Arc;

use farwood_fabric::NodeId;
use farwood_index::catfish::{Catfish, Grain, Item, Rectangle, ServerSettings};
use farwood_sim::{Card, World, WorldSpec, at_once};

use super::super::laboratory::{card, card_label};
use super::super::protocol::Round;
use super::super::spec::{Amount, FabricKind, NIC_DEFAULT};
use super::super::stopwatch::Stopwatch;
use super::super::{Stage, finish};
use super::fleet::{self, Fleet};
use super::{FILL, SpatialSpec, Variant, describe, spatial, windows};
use crate::machine::Machine;
use crate::record::{Record, Spatial};
use crate::{Error, Result};

/// The name of the run's index.
const INDEX: &str = "bench";
/// Card of the TCP baseline where none is named.
const NIC_TCP: &str = "tcp-40g";
/// Nanoseconds of processor time to look at a node: an estimate, not measured.
pub(super) const VISIT_NS: u64 = 200;
/// Nanoseconds of processor time to make and store a node: an estimate, too.
const STORE_NS: u64 = 1_000;
/// Nanoseconds of processor time that a request takes of the server's core, from being woken to having responded, with
/// a search of scale 0.00001 in it. **Fitted** to one pair of points, Catfish's Figure 7 (a), event-based: from 80 to
/// 320 clients the latency grows by 528 us, 2.2 us a client, on 28 cores.
const REQUEST_NS: u64 = 61_600;
/// Nodes that such a search looks at, about.
const REQUEST_VISITS: u64 = 6;

/// Runs `spec` in the laboratory.
///
/// # Errors
/// What the spec cannot be, what the index refuses, a wrong answer.
pub fn simulate_spatial(spec: &SpatialSpec, progress: &mut dyn FnMut(Stage<'_>)) -> Result<Record> {
    let spec = &SpatialSpec { fabric: FabricKind::Sim, ..spec.clone() };
    spec.check()?;
    let asked = spec
        .nic
        .clone()
        .unwrap_or_else(|| if spec.variant == Variant::Tcp { NIC_TCP } else { NIC_DEFAULT }.to_owned());
    let card = card(&asked)?;
    let items = spec.source.items(spec.seed)?;
    progress(Stage::Loading { done: 0, all: items.len() as u64 });
    let world = World::new(world_spec(spec, card, items.len() as u64))?;
    let (record, windows) = load(spec, &world, &items)?;
    drop(items);
    let record = Record { nic: Some(card_label(Some(&asked), &world.spec().card)), ..record };
    progress(Stage::Measuring { contestant: &record.label(), round: 1, rounds: 1 });
    let machine = world.at_once(0);
    let index = at_once(Catfish::open(&machine, INDEX))?;
    let server = world.server(NodeId(0));
    let settings = ServerSettings {
        visit_ns: VISIT_NS,
        store_ns: STORE_NS,
        grain: Grain::Node,
        ..ServerSettings::default()
    };
    let tree = at_once(index.serve(&machine, &server, settings))?;
    let stopwatch = Stopwatch::new(&world, spec.warm_up_seconds(), share(spec));
    let mut fleet = Fleet::new(spec, &world, &tree, record.keys, &windows)?;
    let (timed, load) = fleet.run(&stopwatch)?;
    let costs = timed.measurement.costs();
    let round = Round { measurement: timed.measurement, seconds: timed.seconds, bytes: None };
    let record = finish(record, &round);
    let searches = record.by_operation.search.as_ref().map_or(0, |search| search.operations);
    if searches == 0 {
        let problem = "no search began and ended in the time that is measured".to_owned();
        return Err(Error::parameter("--seconds", problem, "give more virtual time"));
    }
    let spatial = Spatial {
        server_busy: Some(load.busy),
        server_gbps: Some(load.gbps),
        ..spatial(spec, &costs, searches)
    };
    Ok(Record {
        spatial: Some(spatial),
        simulated_verbs_per_second: Some(timed.verbs_per_second),
        machine: Machine::here(),
        ..record
    })
}

/// One client's share of the operations of a run.
fn share(spec: &SpatialSpec) -> Amount {
    match spec.amount() {
        Amount::Operations(operations) => Amount::Operations(operations.div_ceil(spec.clients())),
        seconds @ Amount::Seconds(_) => seconds,
    }
}

/// A request's processor time on `card`, besides what is accounted for elsewhere: the nodes that it looks at, being
/// woken, and what the kernel does; but with the kernel's part of a response.
pub(super) fn message_ns(card: &Card) -> u64 {
    let request = REQUEST_NS - REQUEST_VISITS * VISIT_NS - card.server.wake_ns as u64;
    let sent = if card.server.kernel_message_ns > 0.0 { card.cpu.post_ns as u64 } else { 0 };
    request + sent
}

fn world_spec(spec: &SpatialSpec, card: Card, rectangles: u64) -> WorldSpec {
    let machines = 1 + spec.compute_nodes;
    WorldSpec {
        memory_nodes: machines as u16,
        compute_nodes: machines,
        // One for each connection at the server, one for each client elsewhere.
        threads: fleet::connections(spec).max(spec.threads()),
        host_bytes: SpatialSpec::host_bytes(rectangles),
        colocate: true,
        seed: spec.seed,
        ..WorldSpec::small(card)
    }
}

/// Makes and loads the index, outside of time; yields the record, and the windows that clients choose from.
fn load(spec: &SpatialSpec, world: &World, items: &[Item]) -> Result<(Record, Arc<[Rectangle]>)> {
    let client = world.at_once(0);
    let server = world.server(NodeId(0));
    let (index, windows) = at_once(async {
        let index = Catfish::create(&client, INDEX, spec.config()).await?;
        let tree = index.serve(&client, &server, ServerSettings::default()).await?;
        let worker = tree.worker(&client, &server);
        worker.bulk_load(items, FILL).await?;
        let windows = windows(spec, &worker, items).await?;
        tree.resign(&client).await?;
        Ok::<_, Error>((index, windows))
    })?;
    let record = describe(spec, items.len() as u64, index.layout().scheme.name());
    Ok((Record { memory_nodes: Some(1), ..record }, windows))
}
