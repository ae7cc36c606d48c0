//! Who is measured: Farwood, and its peers.

#[cfg(feature = "peers")]
mod peer;
mod redis;

use std::ops::Range;

use super::crew::{Crew, WorkerCommand};
use super::ground::Ground;
use super::protocol::{ClientsJob, Job, NodeJob, Order, PeerJob, Report, Round};
use super::spec::{Amount, KeySource, RunSpec};
use crate::keys::Keys;
use crate::record::Record;
use crate::workload::WorkloadSpec;
use crate::{Error, Result};

/// A contestant's processes, waiting for rounds.
pub(super) struct Contestant {
    /// Its record, but for what is measured.
    pub(super) record: Record,
    pub(super) rounds: Vec<Round>,
    crew: Crew,
    /// Goes when the processes are gone.
    #[cfg(feature = "peers")]
    _folder: Option<super::ground::Folder>,
    /// Its server, which goes when its clients are gone.
    _server: Option<Crew>,
}

impl Contestant {
    /// Farwood itself, on a ground that is loaded.
    pub(super) fn farwood(
        spec: &RunSpec,
        job: &ClientsJob,
        ground: &Ground,
        record: Record,
        worker: &WorkerCommand,
    ) -> Result<Contestant> {
        let jobs = shares(spec).map(|clients| {
            Job::Node(NodeJob {
                fabric: spec.fabric,
                pool: ground.place.to_string(),
                name: ground.index.clone(),
                cache_bytes: ground.cache_bytes,
                clients: ClientsJob { clients, ..job.clone() },
            })
        });
        let crew = Crew::start(worker, &jobs.collect::<Vec<_>>())?;
        Ok(Contestant::of(record, crew))
    }

    /// Processes that are ready, and their record but for what is measured.
    pub(super) fn of(record: Record, crew: Crew) -> Contestant {
        Contestant {
            record,
            rounds: Vec::new(),
            crew,
            #[cfg(feature = "peers")]
            _folder: None,
            _server: None,
        }
    }

    pub(super) fn warm_up(&mut self, seconds: f64) -> Result<()> {
        self.crew.ask(Order::WarmUp(seconds)).map(drop)
    }

    pub(super) fn round(&mut self, amount: Amount) -> Result<()> {
        let mut all = Round::default();
        for (compute_node, report) in self.crew.ask(Order::Go(amount))?.into_iter().enumerate() {
            let Report::Measured(round) = report else {
                let problem = "it answered something else than it was asked for".to_owned();
                return Err(Error::Worker { compute_node, problem });
            };
            all.measurement.merge(&round.measurement);
            all.seconds = all.seconds.max(round.seconds);
            all.bytes = all.bytes.max(round.bytes);
        }
        self.rounds.push(all);
        Ok(())
    }

    /// Ends the processes; yields what is left: the record, and the round of median throughput.
    pub(super) fn end(self) -> Result<(Record, Round)> {
        self.crew.end()?;
        let mut rounds = self.rounds;
        let mops = |round: &Round| round.measurement.operations() as f64 / round.seconds;
        rounds.sort_by(|a, b| mops(a).total_cmp(&mops(b)));
        let median = rounds.len() / 2;
        Ok((self.record, rounds.swap_remove(median)))
    }
}

/// The clients of each compute node: neighbours stay together, so that each has its share of every kind.
pub(super) fn shares(spec: &RunSpec) -> impl Iterator<Item = Range<u64>> + use<> {
    let (clients, nodes) = (spec.clients(), spec.compute_nodes as u64);
    (0..nodes).map(move |node| clients * node / nodes..clients * (node + 1) / nodes)
}

/// What the clients of a run do, but for who they are.
pub(super) fn clients_job(spec: &RunSpec, keys: &Keys, workload: &WorkloadSpec) -> ClientsJob {
    let source: KeySource = spec.key_source.clone();
    ClientsJob {
        keys: source.fixed(keys.key_bytes()),
        value_bytes: spec.value_bytes,
        workload: workload.clone(),
        threads: spec.threads(),
        cpus: Vec::new(),
        clients: 0..workload.clients,
    }
}

/// A peer's process.
#[cfg(feature = "peers")]
pub(super) use peer::serve as serve_peer;

#[cfg(not(feature = "peers"))]
impl Contestant {
    /// In a program that has no peers.
    pub(super) fn peer(
        name: &str,
        _: &RunSpec,
        _: &ClientsJob,
        _: &Record,
        _: &WorkerCommand,
    ) -> Result<Contestant> {
        Err(super::spec::not_built(name))
    }
}

/// A peer's process, in a program that has no peers.
#[cfg(not(feature = "peers"))]
pub(super) fn serve_peer<W: std::io::Write>(job: &PeerJob, _: &mut super::worker::Parent<W>) -> Result<()> {
    let problem = format!("this program has no {}", job.peer);
    Err(Error::parameter("--peer", problem, "run the program that asked for it"))
}
