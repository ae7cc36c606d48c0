//! Redis, as the peer of indexes over TCP: its server runs on the CPU of the memory nodes and its clients on the CPUs
//! of Farwood's clients, with the same numbers of processes, threads, connections and outstanding requests.

mod client;
mod resp;
mod server;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::clients::ClientsJob;
use super::interface::{Backend, Running, finish_peer, peer_record};
use super::ordered::OrderedBackend;
use super::pool::TempFolder;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::Round;
use crate::driver::worker::{Job, ParentConnection};
use crate::record::Record;
use crate::spec::REDIS;
use crate::spec::fabric::FabricKind;
use crate::spec::node_files::NodeFiles;
use crate::spec::ordered::RunSpec;
use crate::{Error, Result};

/// A process of clients of Redis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RedisJob {
    /// The address of the server.
    address: SocketAddr,
    /// Whether this process loads the keys.
    loads: bool,
    clients: ClientsJob,
}

impl Job for RedisJob {
    const KIND: &'static str = "redis";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        self.clients.pin()?;
        parent.follow();
        client::serve(&self, parent)
    }
}

/// Refuses runs without a comparison to Redis: a comparison needs TCP, memory nodes that the run starts, and a workload
/// with one command for each operation.
pub(super) fn check(spec: &RunSpec) -> Result<()> {
    let refuse = |problem: &str, remedy: &str| Err(Error::parameter("--peer", problem, remedy));
    if spec.fabric != FabricKind::Tcp {
        return refuse("redis needs TCP", "add --fabric tcp");
    }
    if spec.pool.is_some() {
        return refuse("redis is compared only with memory nodes that the run starts", "omit --pool");
    }
    if !spec.clients().is_multiple_of(spec.connections()) {
        let problem = format!("{} requests on {} connections", spec.clients(), spec.connections());
        let remedy = "give a number of --clients that --connections (or --threads) divide";
        return Err(Error::parameter("--clients", problem, remedy));
    }
    client::check(spec.workload)
}

/// Redis beside an ordered index.
pub(super) struct RedisBackend {
    record: Record,
    clients: ClientsJob,
    compute_nodes: usize,
    outstanding_per_connection: u64,
    server_cpus: Vec<usize>,
    /// The files of the memory nodes that it is compared with.
    files: Option<NodeFiles>,
}

impl RedisBackend {
    pub(super) fn new(spec: &RunSpec, ours: &OrderedBackend) -> RedisBackend {
        RedisBackend {
            record: peer_record(REDIS, &ours.record),
            clients: ours.clients.clone(),
            compute_nodes: spec.compute_nodes,
            outstanding_per_connection: spec.clients() / spec.connections(),
            server_cpus: ours.pinning.servers.clone(),
            files: spec.files.clone(),
        }
    }
}

impl Backend for RedisBackend {
    fn label(&self) -> String {
        self.record.label()
    }

    fn start(&self, worker: &WorkerCommand) -> Result<Running> {
        let level = self.files.as_ref().and_then(|files| Some((files.redis_level()?, &files.directory)));
        let folder = level.map(|(_, directory)| TempFolder::create(worker, directory)).transpose()?;
        let files = level.zip(folder.as_ref()).map(|((level, _), folder)| (level, folder.path()));
        let (server, address) = server::start(worker, &self.server_cpus, files)?;
        let jobs = self.clients.split(self.compute_nodes).enumerate();
        let jobs = jobs.map(|(number, clients)| RedisJob { address, loads: number == 0, clients });
        let processes = WorkerProcesses::start(worker, &jobs.collect::<Vec<_>>())?;
        let mut options = Map::new();
        options.insert("version".to_owned(), server::version()?.into());
        options.insert("outstanding_per_connection".to_owned(), self.outstanding_per_connection.into());
        if let Some((level, _)) = level {
            options.insert("appendfsync".to_owned(), level.into());
        }
        let record = Record { options, ..self.record.clone() };
        Ok(Running { record, processes, resources: Some(Box::new((server, folder))) })
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        finish_peer(record, round)
    }
}
