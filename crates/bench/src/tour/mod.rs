//! The tour: real keys, real processes, every operation at once, and every answer checked.
//!
//! Each client owns a share of the keys and alone writes them, so it knows exactly what it must read there. What it
//! reads of others must be whole, must belong to its key, and must never go back in time; keys that nobody removes
//! must always be there. Scans are held against the sorted list of all keys. In the end the whole index is compared
//! with what the owners believe, and walked.

mod coast;
mod map;
mod model;
mod sailor;
mod visitor;

use std::path::Path;

use farwood_index::ordered::{Entries, Ordered, System, Walk};
use farwood_index::sherman::{Direction, Range};
use farwood_transport::runtime::block_on;
use serde::{Deserialize, Serialize};

use crate::distribution::THETA_DEFAULT;
use crate::keys::{FileKeys, KeyLength, Keys};
use crate::machine::{Machine, commit};
use crate::measure::Measurement;
use crate::record::Record;
use crate::run::FabricKind;
use crate::run::crew::Crew;
use crate::run::ground::{Ground, Site, bulk_load};
use crate::run::protocol::{Job, Order, Report, Round};
use crate::run::{Amount, RunSpec, WorkerCommand};
use crate::values::verify;
use crate::{Error, Result};
use model::Union;

pub use coast::Coast;
pub(crate) use map::{MapJob, MapReport};
pub use map::{MapOutcome, MapSpec, Sighting, tour_map};
pub(crate) use sailor::serve as serve_map;
pub(crate) use visitor::serve;

/// Length of a word, padded, in bytes.
const WORD_BYTES: usize = 32;
const VALUE_BYTES: usize = 8;
/// Share of the words that is loaded at the beginning, in percent.
const LOADED_PERCENT: u64 = 75;
/// Budget of a process's index cache, in bytes.
const CACHE_BYTES: usize = 64 << 20;
/// Wrong answers that are told in words.
const EXAMPLES_MAX: usize = 10;

/// The words that come with the program: 274,937 English ones.
pub fn words(length: KeyLength) -> Keys {
    let text = include_bytes!("../../../../data/english-words.txt");
    let parsed = FileKeys::parse(Path::new("data/english-words.txt"), text, length);
    Keys::File(parsed.expect("the file that comes with the program was checked when it was built"))
}

/// The words as keys of an index of that system: padded with zeros where keys have one length.
fn words_for(system: System) -> Keys {
    words(match system {
        System::Sherman => KeyLength::Padded(WORD_BYTES),
        System::Smart | System::Sphinx => KeyLength::Any,
    })
}

/// What a tour is.
#[derive(Clone, Debug)]
pub struct TourSpec {
    /// Through an index of which system.
    pub system: System,
    /// Over what: shared memory, or TCP.
    pub fabric: FabricKind,
    /// Memory nodes.
    pub memory_nodes: u16,
    /// Compute nodes: processes.
    pub processes: usize,
    /// Clients of each process, in turn on one thread.
    pub clients_per_process: u64,
    /// How long all processes work at once.
    pub seconds: f64,
    /// Seed of all clients' operations.
    pub seed: u64,
}

impl Default for TourSpec {
    fn default() -> TourSpec {
        TourSpec {
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

/// What a tour is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Leg {
    /// Making the pool and loading words: so many of so many.
    Loading {
        /// Words loaded.
        done: u64,
        /// Words to load.
        all: u64,
    },
    /// Starting the processes.
    Starting,
    /// All processes work.
    Working,
    /// Comparing the whole index with what the owners believe, and walking it.
    Comparing,
}

/// What a tour found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured. Checking the answers is part of the seconds, and of no latency.
    pub record: Record,
    /// Answers that were checked: operations, entries of scans, and entries at the end.
    pub answers: u64,
    /// How many were wrong.
    pub wrong: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
    /// What the walker saw at the end.
    pub walk: Walk,
    /// Words in the index at the end.
    pub entries: u64,
}

/// A process of the tour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TourJob {
    #[serde(with = "crate::run::system_by_name")]
    system: System,
    pool: String,
    index: String,
    seed: u64,
    process: u64,
    clients_per_process: u64,
    clients: u64,
    loaded: u64,
}

/// What a process of the tour found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TourReport {
    round: Round,
    findings: Findings,
    /// The models of its clients, in the order of their numbers.
    models: Vec<Vec<u64>>,
}

/// Answers checked, and those that were wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Findings {
    answers: u64,
    wrong: u64,
    examples: Vec<String>,
}

impl Findings {
    /// Counts an answer, with what is wrong with it.
    fn note(&mut self, verdict: Result<(), String>) {
        self.answers += 1;
        if let Err(problem) = verdict {
            self.wrong += 1;
            if self.examples.len() < EXAMPLES_MAX {
                self.examples.push(problem);
            }
        }
    }

    fn add(&mut self, other: Findings) {
        self.answers += other.answers;
        self.wrong += other.wrong;
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }
}

impl TourSpec {
    fn check(&self) -> Result<()> {
        let refuse =
            |parameter, problem: String, remedy: &str| Err(Error::parameter(parameter, problem, remedy));
        if !(2..=64).contains(&self.processes) {
            return refuse("--processes", format!("{} processes", self.processes), "give 2 to 64");
        }
        if !matches!(self.fabric, FabricKind::Shm | FabricKind::Tcp) {
            let problem = "the tour is of real processes of this machine".to_owned();
            return refuse("--fabric", problem, "give shm or tcp");
        }
        if !(1..=64).contains(&self.memory_nodes) {
            return refuse("--memory-nodes", format!("{} memory nodes", self.memory_nodes), "give 1 to 64");
        }
        if !(0.1..=3600.0).contains(&self.seconds) {
            return refuse(
                "--seconds",
                format!("{} is no time for a tour", self.seconds),
                "give 0.1 to 3600",
            );
        }
        Ok(())
    }

    /// The tour's index, as a run's.
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

    fn jobs(&self, ground: &Ground, loaded: u64) -> Vec<Job> {
        let job = |process| {
            Job::Tour(TourJob {
                system: self.system,
                pool: ground.place.to_string(),
                index: ground.index.clone(),
                seed: self.seed,
                process,
                clients_per_process: self.clients_per_process,
                clients: self.clients(),
                loaded,
            })
        };
        (0..self.processes as u64).map(job).collect()
    }
}

/// Runs the tour. `worker` starts processes that end up in [`serve`](crate::run::serve).
///
/// # Errors
/// What the spec cannot be, what the pool or the index refuses, a process that died. Wrong answers are no errors but
/// part of the [`Outcome`].
pub fn tour(spec: &TourSpec, worker: &WorkerCommand, progress: &mut dyn FnMut(Leg)) -> Result<Outcome> {
    spec.check()?;
    let keys = words_for(spec.system);
    let loaded = keys.ranks() * LOADED_PERCENT / 100;
    let run = spec.run();
    let host_bytes = run.host_bytes(&keys, keys.ranks());
    let mut ground = Ground::prepare(
        &Site::Own { memory_nodes: spec.memory_nodes, host_bytes, fabric: spec.fabric, cpus: Vec::new() },
        worker,
    )?;
    let index = ground.create_index(run.config(&keys)?, CACHE_BYTES)?;
    let mut loading = |done, all| progress(Leg::Loading { done, all });
    block_on(bulk_load(&ground.pool.client(), &index, (&keys, loaded), VALUE_BYTES, &mut loading))?;
    progress(Leg::Starting);
    let mut crew = Crew::start(worker, &spec.jobs(&ground, loaded))?;
    progress(Leg::Working);
    let reports = crew.ask(Order::Go(Amount::Seconds(spec.seconds)))?;
    crew.end()?;
    progress(Leg::Comparing);
    let Gathered { round, mut findings, union } = gather(reports, spec.clients())?;
    let entries = compare(&ground, &index, &keys, &union, &mut findings)?;
    let walk = block_on(index.walk(&ground.pool.client()))?;
    for problem in walk.problems() {
        findings.note(Err(format!("the tree: {problem}")));
    }
    let record = record(spec, &ground, &index, (&keys, loaded), &round)?;
    let Findings { answers, wrong, examples } = findings;
    Ok(Outcome { record, answers, wrong, examples, walk, entries })
}

/// What all processes report, together.
struct Gathered {
    round: Round,
    findings: Findings,
    union: Union,
}

fn gather(reports: Vec<Report>, clients: u64) -> Result<Gathered> {
    let mut all = Gathered {
        round: Round { measurement: Measurement::new(), ..Round::default() },
        findings: Findings::default(),
        union: Union::new(clients),
    };
    for (compute_node, report) in reports.into_iter().enumerate() {
        let Report::Toured(report) = report else {
            let problem = "it answered something else than it was asked for".to_owned();
            return Err(Error::Worker { compute_node, problem });
        };
        all.round.measurement.merge(&report.round.measurement);
        all.round.seconds = all.round.seconds.max(report.round.seconds);
        all.round.bytes = all.round.bytes.max(report.round.bytes);
        all.findings.add(report.findings);
        all.union.add(report.models);
    }
    Ok(all)
}

/// Compares the whole index with what the owners believe; yields how many entries it has.
fn compare(
    ground: &Ground,
    index: &Ordered,
    keys: &Keys,
    union: &Union,
    findings: &mut Findings,
) -> Result<u64> {
    let Keys::File(keys) = keys else { unreachable!("words are keys of a file") };
    let (client, mut found) = (ground.pool.client(), Entries::new());
    block_on(index.scan(&client, Range::default(), Direction::Forward, usize::MAX, &mut found))?;
    let mut entries = found.iter().peekable();
    for position in 0..keys.len() {
        let (key, rank) = (keys.key_at(position), keys.rank_at(position));
        let entry = entries.next_if(|(found, _)| *found == key);
        let version = entry.map(|(_, value)| verify(value)).transpose()?;
        let expected = union.version(rank).map(|version| (rank, version));
        findings.note(if version == expected {
            Ok(())
        } else {
            Err(format!("at the end, {} is {version:?}, and its owner wrote {expected:?}", word(key)))
        });
    }
    if let Some((key, _)) = entries.next() {
        findings.note(Err(format!("at the end, {} is there, or is there out of order", word(key))));
    }
    Ok(found.len() as u64)
}

/// A key as people read it.
fn word(key: &[u8]) -> String {
    let end = key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    format!("'{}'", String::from_utf8_lossy(&key[..end]))
}

fn record(
    spec: &TourSpec,
    ground: &Ground,
    index: &Ordered,
    (keys, loaded): (&Keys, u64),
    round: &Round,
) -> Result<Record> {
    let (memory_node_bytes, pages) = ground.memory()?;
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
