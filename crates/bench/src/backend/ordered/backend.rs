//! A loaded ordered index in a pool, as a system that a run measures.

use farwood_transport::any::PoolLocation;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::Pages;

use super::super::clients::ClientsJob;
use super::super::interface::{Backend, Running, finish};
use super::super::pool::{BenchPool, PoolSource, bulk_load};
use super::describe::{describe, loaded_keys};
use super::process::OrderedJob;
use crate::Result;
use crate::driver::cpu::CpuPinning;
use crate::driver::loopback;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::program::failed;
use crate::driver::protocol::Round;
use crate::driver::sync_latency;
use crate::record::Record;
use crate::spec::fabric::{FabricKind, pool_place_of};
use crate::spec::ordered::RunSpec;

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
        let pinning = if spec.has_redis() { CpuPinning::of_this_machine() } else { CpuPinning::default() };
        Self::open_on(pinning, spec, worker, progress)
    }

    /// As [`open`](Self::open), with servers and clients on these CPUs.
    pub(super) fn open_on(
        pinning: CpuPinning,
        spec: &RunSpec,
        worker: &WorkerCommand,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<OrderedBackend> {
        let keys = spec.key_source.keys()?;
        let workload = spec.workload(keys.ranks());
        workload.check()?;
        let loopback = if spec.has_redis() { Some(loopback::measure(&pinning)?) } else { None };
        let source = match &spec.pool {
            Some(url) => PoolSource::Existing(pool_place_of(url, spec.fabric)?),
            None => PoolSource::New {
                fabric: spec.fabric,
                memory_nodes: spec.memory_nodes,
                host_bytes: spec.host_bytes(&keys, spec.entries_max(&workload)),
                cpus: pinning.servers.clone(),
                files: spec.files.clone(),
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
            pinned: (!pinning.servers.is_empty()).then(|| pinning.to_string()),
            loopback,
            durability: spec.files.as_ref().map(|files| files.durability.to_string()),
            sync_us: pool
                .folder()
                .map(sync_latency::measure)
                .transpose()
                .map_err(failed("measure the disk"))?,
            ..describe(spec, &keys, &workload, &index)?
        };
        let loaded = loaded_keys(&workload);
        block_on(bulk_load(&pool.pool.client(), &index, (&keys, loaded), spec.value_bytes, progress))?;
        let clients = ClientsJob { cpus: pinning.clients.clone(), ..ClientsJob::new(spec, &keys, &workload) };
        let (fabric, compute_nodes) = (spec.fabric, spec.compute_nodes);
        Ok(OrderedBackend { record, clients, pinning, pool, fabric, compute_nodes, cache_bytes })
    }

    /// The number of bytes of the pool that are resident in memory, and the kind of their pages.
    pub(crate) fn memory(&self) -> Result<(u64, Option<Pages>)> {
        self.pool.memory()
    }

    fn place(&self) -> &PoolLocation {
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
        Ok(Running { record: self.record.clone(), processes, resources: None })
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        finish(record, round)
    }
}
