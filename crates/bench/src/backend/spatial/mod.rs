//! Farwood's spatial index and its variants, and rstar as their peer.
//!
//! | file | contents |
//! |---|---|
//! | `store.rs`, `server.rs`, `windows.rs` | the pool with the loaded index; its server; the windows of searches |
//! | `process.rs`, `client.rs` | a compute node; one client, which checks every answer |
//! | `access.rs` | how a client reaches the index |
//! | `rstar.rs` | the peer |

pub(crate) mod access;
pub(crate) mod client;
pub(crate) mod process;
#[cfg(feature = "peers")]
pub(crate) mod rstar;
mod server;
pub mod store;
pub(crate) mod windows;

use serde_json::{Map, Value};

use super::clients::shares;
use super::{Backend, Running, finish};
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::Round;
use crate::record::machine::{commit, profile};
use crate::record::measurement::CostTotals;
use crate::record::{Record, Spatial};
use crate::spec::spatial::{FILL, SpatialSpec};
use crate::workload::rectangles::{POWER, Scale};
use crate::{Error, Result};
use process::SpatialJob;
use store::SpatialStore;

/// A spatial index with its server.
pub(crate) struct SpatialBackend<'s> {
    spec: &'s SpatialSpec,
    pub(crate) store: SpatialStore,
    pub(crate) record: Record,
    /// All clients of the run.
    pub(crate) job: SpatialJob,
}

impl<'s> SpatialBackend<'s> {
    /// Creates and loads the index, and starts its server.
    pub(crate) fn open(
        spec: &'s SpatialSpec,
        worker: &WorkerCommand,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SpatialBackend<'s>> {
        let items = spec.source.items(spec.seed)?;
        let loaded = items.len() as u64;
        progress(0, loaded);
        let store = SpatialStore::open(spec, worker, &items)?;
        let record = store.record(spec, loaded);
        let job = SpatialJob::new(spec, &store, loaded);
        Ok(SpatialBackend { spec, store, record, job })
    }
}

impl Backend for SpatialBackend<'_> {
    fn label(&self) -> String {
        self.record.label()
    }

    fn start(&self, worker: &WorkerCommand) -> Result<Running> {
        let jobs = shares(self.spec.clients(), self.spec.compute_nodes)
            .map(|clients| self.job.clone().with_clients(clients));
        let processes = WorkerProcesses::start(worker, &jobs.collect::<Vec<_>>())?;
        Ok(Running { record: self.record.clone(), processes, held: None })
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        with_searches(self.spec, finish(record, round), round)
    }
}

/// Adds the results of the searches of `round` to a record that has its other results.
pub(crate) fn with_searches(spec: &SpatialSpec, record: Record, round: &Round) -> Record {
    let searches = record.by_operation.search.as_ref().map_or(0, |search| search.operations);
    Record { spatial: Some(spatial(spec, &round.measurement.costs(), searches)), ..record }
}

/// Refuses peers that a spatial index cannot be compared with.
pub(crate) fn check_peers(spec: &SpatialSpec) -> Result<()> {
    spec.peers.iter().try_for_each(|name| {
        if name == RSTAR {
            return Ok(());
        }
        let problem = format!("no such peer of a spatial index: {name}");
        Err(Error::parameter("--peer", problem, "give rstar"))
    })
}

/// The only peer.
const RSTAR: &str = "rstar";

/// The peers of a run, which have been checked.
#[cfg(feature = "peers")]
pub(crate) fn peers_of<'s>(
    spec: &'s SpatialSpec,
    ours: &SpatialBackend<'_>,
) -> Result<Vec<Box<dyn Backend + 's>>> {
    Ok(spec
        .peers
        .iter()
        .map(|_| Box::new(rstar::RstarBackend::new(spec, ours)) as Box<dyn Backend>)
        .collect())
}

/// The peers of a run in a program without peers.
#[cfg(not(feature = "peers"))]
pub(crate) fn peers_of<'s>(
    spec: &'s SpatialSpec,
    _: &SpatialBackend<'_>,
) -> Result<Vec<Box<dyn Backend + 's>>> {
    spec.peers.first().map_or(Ok(Vec::new()), |name| Err(super::not_built(name)))
}

/// The record of a run without its results.
pub(crate) fn describe(spec: &SpatialSpec, loaded: u64, consistency: &str) -> Record {
    let mut options = Map::new();
    let mut option = |name: &str, value: Value| options.insert(name.to_owned(), value);
    option("node_bytes", Value::from(spec.node_bytes()));
    option("fill", Value::from(FILL));
    let variant = spec.variant;
    if variant.messages() {
        option("notice", Value::from(if variant.is_polling() { "polling" } else { "event" }));
    }
    if variant.reads() {
        option("multi_issue", Value::from(variant.is_multi_issue()));
    }
    if let Some(rule) = variant.rule() {
        let settings = SpatialSpec::back_off(rule);
        option("rule", Value::from(format!("{rule:?}").to_lowercase()));
        option("window", Value::from(settings.window));
        option("threshold", Value::from(settings.threshold));
    }
    Record {
        index: "catfish".to_owned(),
        variant: Some(variant.name().to_owned()),
        options,
        consistency: Some(consistency.to_owned()),
        fabric: spec.fabric.name().to_owned(),
        workload: spec.mix.name().to_owned(),
        distribution: if spec.scale == Scale::PowerLaw { "power-law" } else { "uniform" }.to_owned(),
        theta: if spec.scale == Scale::PowerLaw { POWER } else { 0.0 },
        keys: loaded,
        key_bytes: 32,
        value_bytes: 8,
        compute_nodes: spec.compute_nodes as u64,
        threads: spec.threads() as u64,
        clients: spec.clients(),
        seed: spec.seed,
        commit: commit(),
        profile: profile(),
        ..Record::default()
    }
}

/// The results of the searches of a run.
pub(crate) fn spatial(spec: &SpatialSpec, costs: &CostTotals, searches: u64) -> Spatial {
    let share = |part: u64| part as f64 / searches.max(1) as f64;
    Spatial {
        scale: spec.scale.to_string(),
        think_us: spec.think_ns as f64 / 1e3,
        share_offloaded: share(costs.offloaded),
        found_mean: share(costs.found),
        server_busy: None,
        server_gbps: None,
    }
}
