//! A peer as a contestant: its processes, fed with the same streams.

use std::io::Write;

use super::super::ground::Folder;
use super::super::node::streams_by_thread;
use super::super::team;
use super::super::worker::Parent;
use super::{ClientsJob, Contestant, Crew, Job, PeerJob, RunSpec, WorkerCommand, shares};
use crate::Result;
use crate::peers::{PeerClients, PeerKind, Sizes, prepare};
use crate::record::Record;
use crate::workload::WorkloadSpec;

impl Contestant {
    /// A peer by its name: as many processes as Farwood has where processes can share it, else one with all threads.
    pub(in crate::run) fn peer(
        name: &str,
        spec: &RunSpec,
        job: &ClientsJob,
        record: &Record,
        worker: &WorkerCommand,
    ) -> Result<Contestant> {
        let kind: PeerKind = name.parse()?;
        let folder = Folder::make(worker)?;
        let of = |node: usize, clients: ClientsJob| {
            Job::Peer(PeerJob {
                peer: name.to_owned(),
                folder: folder.path().to_owned(),
                entries_max: spec.entries_max(&job.workload),
                loads: node == 0,
                clients,
            })
        };
        let (jobs, fabric, threads): (Vec<Job>, _, _) = if kind.is_shared_by_processes() {
            let shares = shares(spec).map(|clients| ClientsJob { clients, ..job.clone() });
            (shares.enumerate().map(|(node, job)| of(node, job)).collect(), "processes", job.threads)
        } else {
            let threads = job.threads * spec.compute_nodes;
            (vec![of(0, ClientsJob { threads, ..job.clone() })], "threads", threads)
        };
        let record = Record {
            index: name.to_owned(),
            peer: Some(name.to_owned()),
            fabric: fabric.to_owned(),
            compute_nodes: jobs.len() as u64,
            threads: threads as u64,
            variant: None,
            options: serde_json::Map::new(),
            consistency: None,
            memory_nodes: None,
            memory_node_bytes: None,
            ..record.clone()
        };
        let crew = Crew::start(worker, &jobs)?;
        Ok(Contestant { record, rounds: Vec::new(), crew, _folder: Some(folder), _server: None })
    }
}

/// A peer's process.
pub(in crate::run) fn serve<W: Write>(job: &PeerJob, parent: &mut Parent<W>) -> Result<()> {
    let keys = job.clients.keys.keys()?;
    let kind: PeerKind = job.peer.parse()?;
    let value_bytes = job.clients.value_bytes;
    let sizes = Sizes { key_bytes: keys.key_bytes(), value_bytes };
    let peer = kind.open(&job.folder, sizes, job.entries_max)?;
    let workload: &WorkloadSpec = &job.clients.workload;
    if job.loads {
        prepare(&*peer, &keys, workload, value_bytes)?;
    }
    let streams = streams_by_thread(&job.clients)?;
    let make =
        |thread: usize| PeerClients::new(&*peer, &keys, workload, streams[thread].clone(), value_bytes);
    team::serve(parent, streams.len(), workload.clients, make, || peer.bytes())
}
