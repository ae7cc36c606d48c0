//! Farwood's ordered indexes: Sherman, SMART and Sphinx.

pub(crate) mod cache_warmup;
pub(crate) mod client;
pub(crate) mod process;

pub use client::get;

use farwood_index::ordered::{Ordered, System};
use farwood_transport::any::Place;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::Pages;
use serde_json::{Map, Value};

use super::clients::ClientsJob;
use super::pool::{BenchPool, PoolSource, bulk_load};
use super::{Backend, Running, finish};
use crate::Result;
use crate::driver::cpu::CpuPinning;
use crate::driver::loopback;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::Round;
use crate::record::Record;
use crate::record::machine::{commit, profile};
use crate::spec::fabric::{FabricKind, pool_place_of};
use crate::spec::ordered::{FILL, RunSpec};
use crate::workload::keys::Keys;
use crate::workload::{Workload, WorkloadSpec};
use process::OrderedJob;

/// A loaded ordered index in a pool.
pub(crate) struct OrderedBackend {
    pub(crate) record: Record,
    /// All clients of the run.
    pub(crate) clients: ClientsJob,
    pub(crate) pinning: CpuPinning,
    pool: BenchPool,
    fabric: FabricKind,
    compute_nodes: usize,
    cache_bytes: usize,
}

impl OrderedBackend {
    /// Opens the pool, and creates and loads the index.
    pub(crate) fn open(
        spec: &RunSpec,
        worker: &WorkerCommand,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<OrderedBackend> {
        let keys = spec.key_source.keys()?;
        let workload = spec.workload(keys.ranks());
        workload.check()?;
        let pinning = if spec.has_redis() { CpuPinning::of_this_machine() } else { CpuPinning::default() };
        let loopback = if spec.has_redis() { Some(loopback::measure(&pinning)?) } else { None };
        let source = match &spec.pool {
            Some(url) => PoolSource::Existing(pool_place_of(url, spec.fabric)?),
            None => PoolSource::New {
                fabric: spec.fabric,
                memory_nodes: spec.memory_nodes,
                host_bytes: spec.host_bytes(&keys, spec.entries_max(&workload)),
                cpus: pinning.servers.clone(),
            },
        };
        let pool = BenchPool::open(&source, worker)?;
        let cache_bytes = spec.cache_bytes(&keys, &workload);
        let index = pool.create_index(spec.config(&keys)?, cache_bytes)?;
        let record = Record {
            memory_nodes: Some(u64::from(pool.pool.shape().nodes)),
            connections: matches!(spec.fabric, FabricKind::Tcp | FabricKind::Rdma)
                .then(|| spec.connections()),
            nic: pool.rdma_device(),
            pinned: spec.has_redis().then(|| pinning.to_string()),
            loopback,
            ..describe(spec, &keys, &workload, &index)?
        };
        let loaded = loaded_keys(&workload);
        block_on(bulk_load(&pool.pool.client(), &index, (&keys, loaded), spec.value_bytes, progress))?;
        let clients = ClientsJob { cpus: pinning.clients.clone(), ..ClientsJob::new(spec, &keys, &workload) };
        let (fabric, compute_nodes) = (spec.fabric, spec.compute_nodes);
        Ok(OrderedBackend { record, clients, pinning, pool, fabric, compute_nodes, cache_bytes })
    }

    /// The bytes of the pool that have pages, and the kind of the pages.
    pub(crate) fn memory(&self) -> Result<(u64, Option<Pages>)> {
        self.pool.memory()
    }

    fn place(&self) -> &Place {
        &self.pool.place
    }
}

impl Backend for OrderedBackend {
    fn label(&self) -> String {
        self.record.label()
    }

    fn start(&self, worker: &WorkerCommand) -> Result<Running> {
        let jobs = self.clients.split(self.compute_nodes).map(|clients| OrderedJob {
            fabric: self.fabric,
            pool: self.place().to_string(),
            name: self.pool.index.clone(),
            cache_bytes: self.cache_bytes,
            clients,
        });
        let processes = WorkerProcesses::start(worker, &jobs.collect::<Vec<_>>())?;
        Ok(Running { record: self.record.clone(), processes, held: None })
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        finish(record, round)
    }
}

/// The number of keys loaded before the measured phase.
pub(crate) fn loaded_keys(workload: &WorkloadSpec) -> u64 {
    if workload.workload == Workload::Load { 0 } else { workload.keys }
}

/// The record of a run without its results.
pub(crate) fn describe(
    spec: &RunSpec,
    keys: &Keys,
    workload: &WorkloadSpec,
    index: &Ordered,
) -> Result<Record> {
    let distribution = workload.effective_distribution();
    let mut options: Map<String, Value> =
        index.describe().into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    if spec.index == System::Sherman {
        options.insert("node_bytes".to_owned(), Value::from(spec.sizes(keys).node_bytes));
        options.insert("fill".to_owned(), Value::from(FILL));
    }
    options.insert("cache_bytes_max".to_owned(), Value::from(spec.cache_bytes(keys, workload)));
    if let Some(mean) = keys.key_bytes_mean() {
        options.insert("key_bytes_mean".to_owned(), Value::from(mean));
    }
    Ok(Record {
        index: spec.index.name().to_owned(),
        variant: Some(spec.variant_name()?.to_owned()),
        options,
        consistency: Some(index.consistency().to_owned()),
        fabric: spec.fabric.name().to_owned(),
        workload: workload.workload.name().to_owned(),
        distribution: distribution.name().to_owned(),
        theta: distribution.theta(),
        zipf_ranks: workload.effective_zipf_ranks(),
        keys: workload.keys,
        key_bytes: keys.key_bytes() as u64,
        value_bytes: spec.value_bytes as u64,
        compute_nodes: spec.compute_nodes as u64,
        threads: spec.threads() as u64,
        clients: workload.clients,
        seed: spec.seed,
        commit: commit(),
        profile: profile(),
        ..Record::default()
    })
}
