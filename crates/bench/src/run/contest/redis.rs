//! Redis as a contestant: its server on the processor of the memory nodes, its clients where Farwood's are.

use super::super::servers::{redis_version, start_redis};
use super::{ClientsJob, Contestant, Crew, Job, RunSpec, WorkerCommand, shares};
use crate::Result;
use crate::record::Record;
use crate::redis::{NAME, RedisJob};

impl Contestant {
    /// Redis, with as many processes, threads, connections and outstanding requests as Farwood.
    pub(in crate::run) fn redis(
        spec: &RunSpec,
        job: &ClientsJob,
        record: &Record,
        cpus: &[usize],
        worker: &WorkerCommand,
    ) -> Result<Contestant> {
        let (server, address) = start_redis(worker, cpus)?;
        let jobs = shares(spec).enumerate().map(|(node, clients)| {
            Job::Redis(RedisJob { address, loads: node == 0, clients: ClientsJob { clients, ..job.clone() } })
        });
        let crew = Crew::start(worker, &jobs.collect::<Vec<_>>())?;
        let mut options = serde_json::Map::new();
        options.insert("version".to_owned(), redis_version()?.into());
        options.insert("outstanding_per_connection".to_owned(), (spec.clients() / spec.connections()).into());
        let record = Record {
            index: NAME.to_owned(),
            peer: Some(NAME.to_owned()),
            variant: None,
            options,
            consistency: None,
            memory_nodes: None,
            memory_node_bytes: None,
            ..record.clone()
        };
        Ok(Contestant {
            record,
            rounds: Vec::new(),
            crew,
            #[cfg(feature = "peers")]
            _folder: None,
            _server: Some(server),
        })
    }
}
