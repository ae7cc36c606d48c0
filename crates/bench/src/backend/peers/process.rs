//! Measures a peer (another ordered store, such as LMDB) in worker processes, with the same streams of operations as
//! Farwood.

use std::path::PathBuf;

use farwood_transport::shm::SegmentDir;
use serde::{Deserialize, Serialize};

use super::super::clients::ClientsJob;
use super::super::interface::{Backend, Running, finish_peer, peer_record};
use super::super::ordered::OrderedBackend;
use super::super::pool::TempFolder;
use super::{PeerClients, PeerKind, Sizes, load};
use crate::Result;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::Round;
use crate::driver::threads;
use crate::driver::worker::{Job, ParentConnection};
use crate::record::Record;
use crate::spec::ordered::RunSpec;

/// The job of a worker process that measures a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PeerJob {
    peer: String,
    folder: PathBuf,
    entries_max: u64,
    /// Whether this process loads the keys.
    loads: bool,
    clients: ClientsJob,
}

impl Job for PeerJob {
    const KIND: &'static str = "peer";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        parent.follow();
        let job = &self.clients;
        let keys = job.keys.keys()?;
        let kind: PeerKind = self.peer.parse()?;
        let value_bytes = job.value_bytes;
        let sizes = Sizes { key_bytes: keys.key_bytes(), value_bytes };
        let peer = kind.open(&self.folder, sizes, self.entries_max)?;
        let workload = &job.workload;
        if self.loads {
            load(&*peer, &keys, workload, value_bytes)?;
        }
        let streams = job.streams_by_thread()?;
        let make =
            |thread: usize| PeerClients::new(&*peer, &keys, workload, streams[thread].clone(), value_bytes);
        threads::serve(parent, streams.len(), workload.clients, make, || peer.bytes())
    }
}

/// A peer that is measured beside an ordered index. It runs in as many processes as Farwood if processes can share its
/// store, and otherwise in one process with as many threads as all processes of Farwood together.
pub(crate) struct PeerBackend {
    kind: PeerKind,
    record: Record,
    jobs: Vec<ClientsJob>,
    entries_max: u64,
}

impl PeerBackend {
    pub(crate) fn new(kind: PeerKind, spec: &RunSpec, ours: &OrderedBackend) -> PeerBackend {
        let clients = &ours.clients;
        let (jobs, fabric): (Vec<ClientsJob>, _) = if kind.is_shared_by_processes() {
            (clients.split(spec.compute_nodes).collect(), "processes")
        } else {
            let threads = clients.threads * spec.compute_nodes;
            (vec![ClientsJob { threads, ..clients.clone() }], "threads")
        };
        let record = Record {
            fabric: fabric.to_owned(),
            compute_nodes: jobs.len() as u64,
            threads: jobs[0].threads as u64,
            ..peer_record(kind.name(), &ours.record)
        };
        PeerBackend { kind, record, jobs, entries_max: spec.entries_max(&clients.workload) }
    }
}

impl Backend for PeerBackend {
    fn label(&self) -> String {
        self.record.label()
    }

    fn start(&self, worker: &WorkerCommand) -> Result<Running> {
        let folder = TempFolder::create(worker, SegmentDir::from_env().path())?;
        let jobs = self.jobs.iter().enumerate().map(|(number, clients)| PeerJob {
            peer: self.kind.name().to_owned(),
            folder: folder.path().to_owned(),
            entries_max: self.entries_max,
            loads: number == 0,
            clients: clients.clone(),
        });
        let processes = WorkerProcesses::start(worker, &jobs.collect::<Vec<_>>())?;
        Ok(Running { record: self.record.clone(), processes, resources: Some(Box::new(folder)) })
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        finish_peer(record, round)
    }
}
