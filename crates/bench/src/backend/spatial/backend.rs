//! The backend of Farwood's spatial index: the loaded index, its server, and the jobs of the client processes.

use super::super::clients::shares;
use super::super::interface::{Backend, Running, finish};
use super::describe::with_searches;
use super::process::SpatialJob;
use super::store::SpatialStore;
use crate::Result;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::Round;
use crate::record::Record;
use crate::spec::spatial::SpatialSpec;

/// A loaded spatial index with its server, which a run measures.
pub(crate) struct SpatialBackend<'s> {
    spec: &'s SpatialSpec,
    pub(crate) store: SpatialStore,
    pub(crate) record: Record,
    /// The job of all clients of the run; each client process executes a part of it.
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
        Ok(Running { record: self.record.clone(), processes, resources: None })
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        with_searches(self.spec, finish(record, round), round)
    }
}
