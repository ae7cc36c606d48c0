//! A simulated run of a spatial index.
//!
//! Machine 0 is the server: memory node 0 holds the tree, and compute node 0 runs the server's threads, one per
//! connection, which share its cores. The clients run on the other machines, whose memory holds the inboxes. The TCP
//! baseline is the same server with the same messages on a NIC model whose requests pass through the kernels of both
//! machines.

mod clients;

use std::sync::Arc;

use farwood_fabric::{Fabric, NodeId, Server};
use farwood_index::catfish::{
    CHANGES_MAX, Catfish, Change, Item, Rectangle, ServerSettings, StoreGranularity, Worker,
};
use farwood_sim::{NicModel, World, WorldSpec, untimed};

use super::ordered::{nic_label, nic_model};
use crate::backend::finish;
use crate::backend::spatial::windows::windows;
use crate::backend::spatial::{describe, spatial};
use crate::driver::progress::Stage;
use crate::driver::protocol::Round;
use crate::driver::stopwatch::Stopwatch;
use crate::record::machine::Machine;
use crate::record::{Record, Spatial};
use crate::spec::fabric::FabricKind;
use crate::spec::ordered::NIC_DEFAULT;
use crate::spec::spatial::{FILL, SpatialSpec};
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::RectangleSource;
use crate::workload::rectangles::regions::in_regions;
use crate::{Error, Result};
use clients::SimSystem;

/// The name of the run's index.
const INDEX: &str = "bench";
/// NIC model of the TCP baseline by default.
const NIC_TCP: &str = "tcp-40g";
/// CPU time to examine a node, in nanoseconds. An estimate, not measured.
const VISIT_NS: u64 = 200;
/// CPU time to build and store a node, in nanoseconds. An estimate, not measured.
const STORE_NS: u64 = 1_000;
/// CPU time of the server for a request, in nanoseconds, from the wake-up to the response, including a search of scale
/// 0.00001. **Fitted** to one pair of points, Catfish's Figure 7 (a), event-based: from 80 to 320 clients the latency
/// grows by 528 us, 2.2 us per client, on 28 cores.
const REQUEST_NS: u64 = 61_600;
/// Approximate number of nodes that such a search examines.
const REQUEST_VISITS: u64 = 6;

/// Simulates `spec`.
///
/// # Errors
/// An invalid spec, errors of the index, a wrong answer.
pub fn simulate_spatial(spec: &SpatialSpec, progress: &mut dyn FnMut(Stage<'_>)) -> Result<Record> {
    let spec = &SpatialSpec { fabric: FabricKind::Sim, ..spec.clone() };
    spec.check()?;
    let asked = spec
        .nic
        .clone()
        .unwrap_or_else(|| if spec.variant == Variant::Tcp { NIC_TCP } else { NIC_DEFAULT }.to_owned());
    let card = nic_model(&asked)?;
    let items = spec.source.items(spec.seed)?;
    progress(Stage::Loading { done: 0, all: items.len() as u64 });
    let world = World::new(world_spec(spec, card, items.len() as u64))?;
    let (record, windows) = load(spec, &world, &items, progress)?;
    drop(items);
    let card = &world.spec().card;
    let record = Record {
        nic: Some(nic_label(Some(&asked), card)),
        nic_hash: Some(card.hash()),
        nic_values: serde_json::to_value(card).ok(),
        warm_up_seconds: Some(spec.warm_up_seconds()),
        ..record
    };
    progress(Stage::Measuring { backend: &record.label(), round: 1, rounds: 1 });
    let machine = world.untimed(0);
    let index = untimed(Catfish::open(&machine, INDEX))?;
    let server = world.server(NodeId(0));
    let settings = ServerSettings {
        visit_ns: VISIT_NS,
        store_ns: STORE_NS,
        grain: StoreGranularity::Node,
        ..ServerSettings::default()
    };
    let tree = untimed(index.serve(&machine, &server, settings))?;
    let stopwatch = Stopwatch::new(&world, spec.warm_up_seconds(), spec.amount().share(spec.clients()));
    let system = SimSystem::new(spec, &world, &tree, record.keys, &windows)?;
    let (timed, load) = system.run(&stopwatch)?;
    let costs = timed.measurement.costs();
    let round = Round { measurement: timed.measurement, seconds: timed.seconds, bytes: None };
    let record = finish(record, &round);
    let searches = record.by_operation.search.as_ref().map_or(0, |search| search.operations);
    if searches == 0 {
        let problem = "no search began and ended in the measured phase".to_owned();
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

/// CPU time of a request on `card` without the parts that are charged elsewhere (examining nodes, the wake-up, and the
/// kernel's work for the request), but with the kernel's work for the response.
fn message_ns(card: &NicModel) -> u64 {
    let sent = if card.server.kernel_message_ns > 0.0 { card.cpu.post_ns as u64 } else { 0 };
    request_ns(card) + sent
}

/// CPU time of a request on `card` without examining nodes and the wake-up. A client that searches by READs spends the
/// same: the paper's Figure 8 implies 53 us, and this is 53.4 us on ConnectX-5 (decision 34).
fn request_ns(card: &NicModel) -> u64 {
    REQUEST_NS - REQUEST_VISITS * VISIT_NS - card.server.wake_ns as u64
}

fn world_spec(spec: &SpatialSpec, card: NicModel, rectangles: u64) -> WorldSpec {
    let machines = 1 + spec.compute_nodes;
    WorldSpec {
        memory_nodes: machines as u16,
        compute_nodes: machines,
        // One per connection at the server, one per client elsewhere.
        threads: clients::connections(spec).max(spec.threads()),
        host_bytes: SpatialSpec::host_bytes(rectangles),
        colocate: true,
        seed: spec.seed,
        ..WorldSpec::small(card)
    }
}

/// Creates and loads the index without virtual time; yields the record, and the windows that clients choose from.
/// Uniform rectangles are bulk-loaded. Those of a file are inserted, as the paper inserts rea02 (Catfish §V-C).
fn load(
    spec: &SpatialSpec,
    world: &World,
    items: &[Item],
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<(Record, Arc<[Rectangle]>)> {
    let client = world.untimed(0);
    let server = world.server(NodeId(0));
    let is_inserted = matches!(spec.source, RectangleSource::File(..));
    let (index, windows) = untimed(async {
        let index = Catfish::create(&client, INDEX, spec.config()).await?;
        // No client reads the tree while it is loaded.
        let settings = ServerSettings { reuse_delay_ns: 0, ..ServerSettings::default() };
        let tree = index.serve(&client, &server, settings).await?;
        let worker = tree.worker(&client, &server);
        if is_inserted {
            insert(&worker, &in_regions(items, spec.seed), progress).await?;
        } else {
            worker.bulk_load(items, FILL).await?;
        }
        let windows = windows(spec, &worker, items).await?;
        tree.release_lease(&client).await?;
        Ok::<_, Error>((index, windows))
    })?;
    let mut record = describe(spec, items.len() as u64, index.layout().scheme.name());
    if is_inserted {
        record.options.remove("fill");
    }
    Ok((Record { memory_nodes: Some(1), ..record }, windows))
}

/// Inserts rectangles in their order.
async fn insert<F: Fabric, S: Server>(
    worker: &Worker<'_, F, S>,
    items: &[Item],
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<()> {
    for (batch, inserted) in items.chunks(CHANGES_MAX).enumerate() {
        let changes: Vec<_> = inserted.iter().map(|item| Change::Insert(*item)).collect();
        worker.apply(&changes).await?;
        progress(Stage::Loading { done: (batch * CHANGES_MAX) as u64, all: items.len() as u64 });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
