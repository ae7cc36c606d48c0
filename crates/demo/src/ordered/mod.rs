//! The demo of an ordered index: several processes put, remove and read English words.
//!
//! Each client owns a share of the keys and is the only one that writes them, so it knows their values exactly. A value
//! of another client's key must be complete, must belong to the key, and must not be older than a value that was read
//! before. Keys that no client removes must always be present. Scans are compared with the sorted list of all keys. At
//! the end the whole index is compared with the models of all clients, and its invariants are checked.

mod client;
mod model;

use farwood_bench::backend::pool::{BenchPool, PoolSource, bulk_load};
use farwood_bench::driver::processes::{WorkerCommand, WorkerProcesses, outputs};
use farwood_bench::driver::protocol::{Amount, Order, Round};
use farwood_bench::record::Record;
use farwood_bench::record::machine::{Machine, commit, profile};
use farwood_bench::run::{FabricKind, RunSpec};
use farwood_bench::workload::distribution::THETA_DEFAULT;
use farwood_bench::workload::keys::{KeyLength, Keys, words};
use farwood_bench::workload::values::verify;
use farwood_bench::{Error, Result};
use farwood_index::ordered::{Entries, Ordered, OrderedReport, System};
use farwood_index::sherman::{Direction, Range};
use farwood_transport::runtime::block_on;
use serde::{Deserialize, Serialize};

use crate::{CheckedAnswers, DemoPhase, check};
use model::AllModels;

/// Length of a padded word in bytes.
const WORD_BYTES: usize = 32;
const VALUE_BYTES: usize = 8;
/// Share of the words that is loaded first, in percent.
const LOADED_PERCENT: u64 = 75;
/// Budget of a process's index cache, in bytes.
const CACHE_BYTES: usize = 64 << 20;

/// The words as keys of an index of `system`: padded with zeros if its keys have one length.
fn words_for(system: System) -> Keys {
    words(match system {
        System::Sherman => KeyLength::Padded(WORD_BYTES),
        System::Smart | System::Sphinx => KeyLength::Any,
    })
}

/// A demo of an ordered index.
#[derive(Clone, Debug)]
pub struct OrderedDemoSpec {
    /// The system of the index.
    pub system: System,
    /// The fabric: shared memory or TCP.
    pub fabric: FabricKind,
    /// Number of memory nodes.
    pub memory_nodes: u16,
    /// Number of processes.
    pub processes: usize,
    /// Clients of each process, which share one thread.
    pub clients_per_process: u64,
    /// The duration of the demo, in seconds.
    pub seconds: f64,
    /// Seed of all clients' operations.
    pub seed: u64,
}

impl Default for OrderedDemoSpec {
    fn default() -> OrderedDemoSpec {
        OrderedDemoSpec {
            system: System::Sherman,
            fabric: FabricKind::Shm,
            memory_nodes: 2,
            processes: 4,
            clients_per_process: 2,
            seconds: 12.0,
            seed: 1,
        }
    }
}

/// The result of a demo of an ordered index.
#[derive(Clone, Debug)]
pub struct OrderedDemoOutcome {
    /// The measured costs. The seconds include the checks of the answers, the latencies do not.
    pub record: Record,
    /// Answers checked: operations, entries of scans, and entries at the end.
    pub answers: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// Descriptions of the first wrong answers.
    pub examples: Vec<String>,
    /// The result of the check of the invariants at the end.
    pub walk: OrderedReport,
    /// Number of words in the index at the end.
    pub entries: u64,
}

/// A process of the demo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OrderedDemoJob {
    #[serde(with = "farwood_bench::spec::system::by_name")]
    system: System,
    pool: String,
    index: String,
    seed: u64,
    process: u64,
    clients_per_process: u64,
    clients: u64,
    loaded: u64,
}

/// The results of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct OrderedDemoReport {
    round: Round,
    checked: CheckedAnswers,
    /// The models of its clients, in the order of their numbers.
    models: Vec<Vec<u64>>,
}

impl OrderedDemoSpec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A parameter that is out of range.
    pub fn check(&self) -> Result<()> {
        check(self.processes, self.fabric, self.seconds)?;
        if (1..=64).contains(&self.memory_nodes) {
            return Ok(());
        }
        Err(Error::parameter("--memory-nodes", format!("{} memory nodes", self.memory_nodes), "give 1 to 64"))
    }

    /// Specifies a benchmark run on an index of the same kind.
    fn run(&self) -> RunSpec {
        RunSpec {
            index: self.system,
            value_bytes: VALUE_BYTES,
            memory_nodes: self.memory_nodes,
            compute_nodes: self.processes,
            ..RunSpec::default()
        }
    }

    fn clients(&self) -> u64 {
        self.processes as u64 * self.clients_per_process
    }

    fn jobs(&self, pool: &BenchPool, loaded: u64) -> Vec<OrderedDemoJob> {
        let job = |process| OrderedDemoJob {
            system: self.system,
            pool: pool.place.to_string(),
            index: pool.index.clone(),
            seed: self.seed,
            process,
            clients_per_process: self.clients_per_process,
            clients: self.clients(),
            loaded,
        };
        (0..self.processes as u64).map(job).collect()
    }
}

/// Runs the demo. `worker` starts processes that call [`serve`](farwood_bench::driver::worker::serve) with the jobs of
/// the demo and of the benchmarks.
///
/// # Errors
/// An invalid spec, errors of the pool or of the index, a process that died. Wrong answers are part of the outcome and
/// not errors.
pub fn run_ordered_demo(
    spec: &OrderedDemoSpec,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(DemoPhase),
) -> Result<OrderedDemoOutcome> {
    spec.check()?;
    let keys = words_for(spec.system);
    let loaded = keys.ranks() * LOADED_PERCENT / 100;
    let run = spec.run();
    let host_bytes = run.host_bytes(&keys, keys.ranks());
    let (memory_nodes, fabric) = (spec.memory_nodes, spec.fabric);
    let source = PoolSource::New { memory_nodes, host_bytes, fabric, cpus: Vec::new(), files: None };
    let pool = BenchPool::open(&source, worker)?;
    let index = pool.create_index(run.config(&keys)?, CACHE_BYTES)?;
    let mut loading = |done, all| progress(DemoPhase::Loading { done, all });
    block_on(bulk_load(&pool.pool.client(), &index, (&keys, loaded), VALUE_BYTES, &mut loading))?;
    progress(DemoPhase::Starting);
    let mut processes = WorkerProcesses::start(worker, &spec.jobs(&pool, loaded))?;
    progress(DemoPhase::Working);
    let reports = processes.order(Order::Measure(Amount::Seconds(spec.seconds)))?;
    processes.end()?;
    progress(DemoPhase::Comparing);
    let Merged { round, mut checked, models } = merge(outputs(reports)?, spec.clients());
    let entries = compare(&pool, &index, &keys, &models, &mut checked)?;
    let walk = block_on(index.walk(&pool.pool.client()))?;
    for problem in walk.problems() {
        checked.count(Err(format!("the tree: {problem}")));
    }
    let record = record(spec, &pool, &index, (&keys, loaded), &round)?;
    let CheckedAnswers { answers, wrong, examples } = checked;
    Ok(OrderedDemoOutcome { record, answers, wrong, examples, walk, entries })
}

/// The results of all processes.
struct Merged {
    round: Round,
    checked: CheckedAnswers,
    models: AllModels,
}

fn merge(reports: Vec<OrderedDemoReport>, clients: u64) -> Merged {
    let mut all = Merged {
        round: Round::default(),
        checked: CheckedAnswers::default(),
        models: AllModels::new(clients),
    };
    for report in reports {
        all.round.merge(&report.round);
        all.checked.add(report.checked);
        all.models.add(report.models);
    }
    all
}

/// Compares the whole index with the clients' models; yields the number of its entries.
fn compare(
    pool: &BenchPool,
    index: &Ordered,
    keys: &Keys,
    models: &AllModels,
    checked: &mut CheckedAnswers,
) -> Result<u64> {
    let Keys::File(keys) = keys else { unreachable!("words are keys of a file") };
    let (client, mut found) = (pool.pool.client(), Entries::new());
    block_on(index.scan(&client, Range::default(), Direction::Forward, usize::MAX, &mut found))?;
    let mut entries = found.iter().peekable();
    for position in 0..keys.len() {
        let (key, rank) = (keys.key_at(position), keys.rank_at(position));
        let entry = entries.next_if(|(found, _)| *found == key);
        let version = entry.map(|(_, value)| verify(value)).transpose()?;
        let expected = models.version(rank).map(|version| (rank, version));
        checked.count(if version == expected {
            Ok(())
        } else {
            Err(format!("at the end, {} is {version:?}, but its owner wrote {expected:?}", word(key)))
        });
    }
    if let Some((key, _)) = entries.next() {
        checked.count(Err(format!("at the end, {} is present or out of order", word(key))));
    }
    Ok(found.len() as u64)
}

/// A key as text, without padding.
fn word(key: &[u8]) -> String {
    let end = key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    format!("'{}'", String::from_utf8_lossy(&key[..end]))
}

fn record(
    spec: &OrderedDemoSpec,
    pool: &BenchPool,
    index: &Ordered,
    (keys, loaded): (&Keys, u64),
    round: &Round,
) -> Result<Record> {
    let (memory_node_bytes, pages) = pool.memory()?;
    let options = index.describe().into_iter();
    let (measurement, seconds) = (&round.measurement, round.seconds);
    Ok(Record {
        index: spec.system.name().to_owned(),
        variant: Some(spec.run().variant_name()?.to_owned()),
        options: options.map(|(name, value)| (name.to_owned(), value.into())).collect(),
        consistency: Some(index.consistency().to_owned()),
        fabric: spec.fabric.name().to_owned(),
        workload: "demo".to_owned(),
        distribution: "zipf".to_owned(),
        theta: THETA_DEFAULT,
        zipf_ranks: keys.ranks(),
        keys: loaded,
        key_bytes: keys.key_bytes() as u64,
        value_bytes: VALUE_BYTES as u64,
        memory_nodes: Some(u64::from(spec.memory_nodes)),
        compute_nodes: spec.processes as u64,
        threads: 1,
        clients: spec.clients(),
        memory_node_bytes: Some(memory_node_bytes),
        seed: spec.seed,
        commit: commit(),
        profile: profile(),
        machine: Machine {
            pages: pages.map_or_else(String::new, |pages| pages.to_string()),
            ..Machine::here()
        },
        ..Record::of(
            measurement.measured(seconds, round.bytes),
            measurement.by_operation(seconds, round.bytes),
        )
    })
}

#[cfg(test)]
mod tests;
