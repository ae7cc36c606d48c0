//! Runs: a pool, an index in it, real processes with clients, and what they measured.
//!
//! | file | what it knows |
//! |---|---|
//! | `spec.rs` | [`RunSpec`]: everything that can be said about a run, and what is refused |
//! | `system.rs` | what of it is of one system: configuration, memory |
//! | `laboratory.rs` | [`simulate`]: a run in the laboratory, in virtual time and in this process |
//! | `stopwatch.rs` | when an operation of such a run counts |
//! | `ground.rs` | the pool and the index: made, filled, removed whatever happens |
//! | `crew.rs`, `worker.rs`, `protocol.rs` | processes: the parent's side, the worker's, and what they say |
//! | `servers.rs`, `pins.rs` | processes that serve: memory nodes, `redis-server`; which processors are whose |
//! | `loopback.rs` | how fast the machine's loopback is while it is measured |
//! | `contest.rs` | Farwood and its peers, as processes that wait for rounds |
//! | `team.rs`, `turns.rs` | threads of a process; several clients on a thread |
//! | `node.rs`, `seat.rs`, `attachment.rs` | a compute node; a client at work; on which fabric |
//! | `spatial` | runs of spatial indexes, with what they have of their own |
//!
//! On a real fabric every compute node is a process of its own, also a single one: it starts with fresh caches and
//! page tables, and nothing of the loading is left in it.

mod attachment;
mod contest;
pub(crate) mod crew;
mod glance;
pub(crate) mod ground;
mod laboratory;
mod loopback;
pub(crate) mod node;
pub(crate) mod pins;
pub(crate) mod protocol;
pub(crate) mod seat;
pub(crate) mod servers;
pub mod spatial;
mod spec;
pub(crate) mod stopwatch;
mod system;
pub(crate) mod team;
pub(crate) mod turns;
pub(crate) mod worker;

pub use crew::WorkerCommand;
pub use laboratory::{card, simulate};
pub use spec::{Amount, FILL, FabricKind, KeySource, NIC_DEFAULT, RunSpec};
pub(crate) use system::by_name as system_by_name;
pub use worker::serve;

use farwood_index::ordered::{Ordered, System};
use farwood_transport::runtime::block_on;
use serde_json::{Map, Value};

use crate::keys::Keys;
use crate::machine::{Machine, commit};
use crate::record::Record;
use crate::workload::{Workload, WorkloadSpec};
use crate::{Result, redis};
use contest::{Contestant, clients_job};
use ground::{Ground, Site, bulk_load, pool_of_fabric};
use pins::Pins;
use protocol::{ClientsJob, Round};

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage<'a> {
    /// Loading keys: so many of so many.
    Loading {
        /// Keys loaded.
        done: u64,
        /// Keys to load.
        all: u64,
    },
    /// Starting processes, loading (a peer) and warming caches.
    Warming {
        /// Whose.
        contestant: &'a str,
    },
    /// Measuring.
    Measuring {
        /// Whom.
        contestant: &'a str,
        /// The round, from 1.
        round: usize,
        /// How many there are.
        rounds: usize,
    },
}

/// Runs `spec`; yields Farwood's record, then those of its peers. `worker` starts processes that end up in
/// [`serve`]; `progress` is told what is being done.
///
/// # Errors
/// What the spec cannot be, what the index or the pool refuses, a wrong answer, a process that died. The pool and the
/// processes of the run are gone in any case.
pub fn run(
    spec: &RunSpec,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Vec<Record>> {
    spec.check()?;
    if spec.fabric == FabricKind::Sim {
        return Ok(vec![simulate(spec, progress)?]);
    }
    let keys = spec.key_source.keys()?;
    let workload = spec.workload(keys.ranks());
    workload.check()?;
    let pins = if spec.has_redis() { Pins::of_this_machine() } else { Pins::default() };
    let loopback = if spec.has_redis() { Some(loopback::measure(&pins)?) } else { None };
    let (ground, index) = prepare(spec, &keys, &workload, &pins, worker)?;
    let record = Record {
        memory_nodes: Some(u64::from(ground.pool.shape().nodes)),
        connections: matches!(spec.fabric, FabricKind::Tcp | FabricKind::Rdma).then(|| spec.connections()),
        nic: ground.card(),
        pinned: spec.has_redis().then(|| pins.to_string()),
        loopback,
        ..describe(spec, &keys, &workload, &index)?
    };
    let loaded = if workload.workload == Workload::Load { 0 } else { workload.keys };
    let client = ground.pool.client();
    block_on(bulk_load(&client, &index, (&keys, loaded), spec.value_bytes, &mut |done, all| {
        progress(Stage::Loading { done, all });
    }))?;
    drop(index);
    let job = ClientsJob { cpus: pins.clients.clone(), ..clients_job(spec, &keys, &workload) };
    drop(keys);
    let contestants = compete(spec, &job, &ground, &record, &pins, worker, progress)?;
    let (bytes, pages) = ground.memory()?;
    let pages = pages.map_or_else(String::new, |pages| pages.to_string());
    let machine = Machine { pages, ..Machine::here() };
    let mut records = Vec::new();
    for contestant in contestants {
        let (record, round) = contestant.end()?;
        let record = Record { machine: machine.clone(), ..record };
        records.push(if record.peer.is_none() {
            finish(Record { memory_node_bytes: Some(bytes), ..record }, &round)
        } else {
            finish_peer(record, &round)
        });
    }
    if let [ours, first, ..] = &mut records[..] {
        ours.ratio = Some(ours.mops / first.mops);
    }
    Ok(records)
}

/// The pool, and the empty index in it.
fn prepare(
    spec: &RunSpec,
    keys: &Keys,
    workload: &WorkloadSpec,
    pins: &Pins,
    worker: &WorkerCommand,
) -> Result<(Ground, Ordered)> {
    let site = match &spec.pool {
        Some(url) => Site::Existing(pool_of_fabric(url, spec.fabric)?),
        None => Site::Own {
            fabric: spec.fabric,
            memory_nodes: spec.memory_nodes,
            host_bytes: spec.host_bytes(keys, spec.entries_max(workload)),
            cpus: pins.servers.clone(),
        },
    };
    let mut ground = Ground::prepare(&site, worker)?;
    let index = ground.create_index(spec.config(keys)?, spec.cache_bytes(keys, workload))?;
    Ok((ground, index))
}

/// Lets the contestants work in alternation.
fn compete(
    spec: &RunSpec,
    job: &ClientsJob,
    ground: &Ground,
    record: &Record,
    pins: &Pins,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Vec<Contestant>> {
    let mut contestants = vec![Contestant::farwood(spec, job, ground, record.clone(), worker)?];
    for peer in &spec.peers {
        progress(Stage::Warming { contestant: peer });
        contestants.push(if peer == redis::NAME {
            Contestant::redis(spec, job, record, &pins.servers, worker)?
        } else {
            Contestant::peer(peer, spec, job, record, worker)?
        });
    }
    if spec.warm_up_seconds() > 0.0 && spec.workload != Workload::Load {
        for contestant in &mut contestants {
            progress(Stage::Warming { contestant: &contestant.record.label() });
            contestant.warm_up(spec.warm_up_seconds())?;
        }
    }
    let rounds = spec.rounds();
    for round in 1..=rounds {
        for contestant in &mut contestants {
            let name = contestant.record.label();
            progress(Stage::Measuring { contestant: &name, round, rounds });
            contestant.round(spec.amount())?;
        }
    }
    Ok(contestants)
}

/// The record of a run, but for what is measured.
fn describe(spec: &RunSpec, keys: &Keys, workload: &WorkloadSpec, index: &Ordered) -> Result<Record> {
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
        ..Record::default()
    })
}

pub(crate) fn finish(record: Record, round: &Round) -> Record {
    let (measurement, seconds) = (&round.measurement, round.seconds);
    let measured = measurement.measured(seconds, round.bytes);
    let by_operation = measurement.by_operation(seconds, round.bytes);
    record.measured_as(measured, by_operation)
}

/// A peer has no round trips, no verbs and no cache.
fn finish_peer(record: Record, round: &Round) -> Record {
    let (measurement, seconds) = (&round.measurement, round.seconds);
    let record =
        record.measured_as(measurement.measured_locally(seconds), measurement.by_operation_locally(seconds));
    Record { memory_node_bytes: round.bytes, ..record }
}
