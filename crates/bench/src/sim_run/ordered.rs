//! A simulated run of an ordered index.
//!
//! Each compute node opens the index once, and its clients share it. Loading, opening and the reads that fill the index
//! caches take no virtual time. Then all clients begin the workload at once. The warm-up is the time before their
//! operations count, in which queues and conflicts reach their steady state. An operation counts if it ends in the
//! measured phase.

use std::io::ErrorKind;
use std::path::Path;

use farwood::internal::small_file;
use farwood_fabric::chunks::{self, CHUNK_BYTES};
use farwood_fabric::{Client, Fabric as _, NodeId};
use farwood_index::ordered::{Ordered, OrderedReport};
use farwood_sim::{NicModel, SimFabric, World, WorldSpec, untimed};

use crate::backend::checked::{CheckedBuffers, rank_and_kind};
use crate::backend::clients::{ClientsJob, WARM_UP_SEED};
use crate::backend::finish;
use crate::backend::ordered::cache_warmup::{WarmUpRanks, warm_cache};
use crate::backend::ordered::client::OrderedClient;
use crate::backend::ordered::{describe, loaded_keys};
use crate::backend::pool::bulk_load;
use crate::driver::progress::Stage;
use crate::driver::protocol::Round;
use crate::driver::steady::Arrivals;
use crate::driver::stopwatch::{SteadyWindows, Stopwatch, Timed};
use crate::record::Record;
use crate::record::machine::{Machine, available_bytes};
use crate::record::measurement::CostTotals;
use crate::record::timeline::FaultInjected;
use crate::spec::ordered::{FailedCas, NIC_DEFAULT, RunSpec};
use crate::spec::simulated::WarmUpEnd;
use crate::workload::keys::Keys;
use crate::workload::values::fill_value;
use crate::workload::{InsertCounter, Operation, Workload, WorkloadSpec};
use crate::{Error, Result};

use super::arrivals::ClientArrivals;
use super::faults::{FaultEffects, FaultOutcome};
use super::loaded_pool::KeptPool;

/// The name of the run's index.
const INDEX: &str = "bench";

/// Simulates `spec`. The record depends only on the spec, except for the machine and the speed of the simulator.
///
/// # Errors
/// An invalid spec, errors of the index, a wrong answer.
pub fn simulate(spec: &RunSpec, progress: &mut dyn FnMut(Stage<'_>)) -> Result<Record> {
    simulate_in(spec, None, progress)
}

/// As [`simulate`], with the same record. The run begins with the loaded pool of an earlier run if `kept` has one that
/// is equal, and otherwise keeps its own.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_in(
    spec: &RunSpec,
    mut kept: Option<&mut KeptPool>,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Record> {
    spec.check()?;
    if let Some(kept) = &mut kept {
        kept.free_other(spec);
    }
    let card = card_of(spec)?;
    let keys = spec.key_source.keys()?;
    let workload = spec.workload(keys.ranks());
    workload.check()?;
    let copies = 1 + u64::from(kept.is_some());
    check_memory(spec, &keys, &workload, copies)?;
    let world = World::new(world_spec(spec, card, &keys, &workload))?;
    let (record, nodes) = prepare(spec, &world, (&keys, &workload), kept, progress)?;
    progress(Stage::Measuring { backend: &record.label(), round: 1, rounds: 1 });
    let job = ClientsJob::new(spec, &keys, &workload);
    let Simulated { round, timed, faults_injected, survivor } = measure(spec, &world, &nodes, &keys, &job)?;
    check_measured(spec, &round)?;
    let has_faults = !spec.faults.is_empty();
    let record = Record {
        memory_node_bytes: Some(used_bytes(&world, survivor)?),
        index_bytes: index_bytes(spec, &world, &nodes)?,
        simulated_verbs_per_second: Some(timed.verbs_per_second),
        warm_up_seconds: timed.warm_up_steady.map_or(record.warm_up_seconds, |_| Some(timed.warm_up_seconds)),
        warm_up_steady: timed.warm_up_steady,
        faults: spec.faults.iter().map(ToString::to_string).collect(),
        faults_injected,
        failed_operations: has_faults.then_some(timed.failed_operations),
        unfinished_us_max: has_faults.then_some(timed.unfinished_max_ns as f64 / 1e3),
        offered_ops_per_second: spec.rate,
        timeline: timed.timeline,
        machine: Machine::here(),
        ..record
    };
    let mut record = finish(record, &round);
    round.measurement.count_into(&mut record);
    Ok(record)
}

/// Refuses a run in whose measured phase no operation ended.
///
/// # Errors
/// The option that makes the phase longer.
pub fn check_measured(spec: &RunSpec, round: &Round) -> Result<()> {
    if round.measurement.operations() == 0 {
        let problem = "no operation began and ended in the measured phase".to_owned();
        let (flag, remedy) = match spec.warm_up_keys {
            _ if !spec.faults.is_empty() => ("--fault", "give shorter or later faults, or more virtual time"),
            0 if spec.rate.is_some() => ("--rate", "give a higher rate, or more virtual time"),
            0 => ("--seconds", "give more virtual time, or fewer clients per thread"),
            _ => ("--warmup-keys", "give fewer, more --keys, or more virtual time"),
        };
        return Err(Error::parameter(flag, problem, remedy));
    }
    Ok(())
}

/// A record with the simulated network of a run.
pub fn with_network(record: Record, spec: &RunSpec, card: &NicModel) -> Record {
    let failed_cas = if spec.failed_cas == FailedCas::LikeSuccess { LIKE_SUCCESS } else { "" };
    Record {
        nic: Some(nic_label(spec.nic.as_deref(), card) + failed_cas),
        nic_hash: Some(card.hash()),
        nic_values: serde_json::to_value(card).ok(),
        colocate: Some(spec.colocate),
        memory_nodes: Some(u64::from(spec.memory_nodes)),
        ..record
    }
}

/// The NIC model of a run.
///
/// # Errors
/// An unknown name, a file that cannot be read.
pub fn card_of(spec: &RunSpec) -> Result<NicModel> {
    let mut card = nic_model(spec.nic.as_deref().unwrap_or(NIC_DEFAULT))?;
    card.cpu.operation_ns = spec.operation_ns.unwrap_or(card.cpu.operation_ns);
    if spec.failed_cas == FailedCas::LikeSuccess {
        card.atomics.host_failure_ns = card.atomics.host_success_ns;
    }
    Ok(card)
}

/// The description of [`FailedCas::LikeSuccess`] in records.
const LIKE_SUCCESS: &str = ", failed CAS like a successful one";

/// Refuses runs that need more memory than this machine has. A run that keeps its loaded pool has two copies of it.
fn check_memory(spec: &RunSpec, keys: &Keys, workload: &WorkloadSpec, copies: u64) -> Result<()> {
    let entries = spec.entries_max(workload);
    let needed = entries.saturating_mul(spec.entry_bytes(keys)).saturating_mul(copies);
    match available_bytes() {
        Some(available) if needed > available => {
            let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
            let (needs, has) = (gib(needed), gib(available));
            let problem =
                format!("{entries} keys need about {needs:.0} GiB, and this machine has {has:.0} GiB free");
            let remedy = "give fewer keys; if the workload inserts keys, fewer clients or less time";
            Err(Error::parameter("--keys", problem, remedy))
        }
        _ => Ok(()),
    }
}

/// The NIC model of this name, or in this file.
///
/// # Errors
/// An unknown name, a file that cannot be read.
pub fn nic_model(name: &str) -> Result<NicModel> {
    let is_file =
        name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "toml");
    let text = |source| Error::Read { option: "--nic", file: name.into(), source };
    let card = if is_file {
        let bytes = small_file::read(Path::new(name)).map_err(text)?;
        NicModel::from_toml(&String::from_utf8(bytes).map_err(|_| text(ErrorKind::InvalidData.into()))?)
    } else {
        NicModel::named(name)
    };
    let remedy = "see docs/nic-model.md; the name of a file has a / or ends with .toml";
    card.map_err(|error| Error::parameter("--nic", format!("{name}: {error}"), remedy))
}

/// The name of a NIC model in records: its own name, and its file if that has another name.
pub(super) fn nic_label(asked: Option<&str>, card: &NicModel) -> String {
    let file = asked.map(Path::new).and_then(Path::file_stem).map(|stem| stem.to_string_lossy());
    match (asked, file) {
        (Some(asked), Some(file)) if file != card.name => format!("{} ({asked})", card.name),
        _ => card.name.clone(),
    }
}

fn world_spec(spec: &RunSpec, card: NicModel, keys: &Keys, workload: &WorkloadSpec) -> WorldSpec {
    let entries = spec.entries_max(workload);
    WorldSpec {
        memory_nodes: spec.memory_nodes,
        compute_nodes: spec.compute_nodes,
        threads: spec.threads(),
        host_bytes: spec.host_bytes(keys, entries),
        colocate: spec.colocate,
        seed: spec.seed,
        ..WorldSpec::small(card)
    }
}

/// Loads the index and opens it at every compute node, without virtual time.
fn prepare(
    spec: &RunSpec,
    world: &World,
    (keys, workload): (&Keys, &WorkloadSpec),
    kept: Option<&mut KeptPool>,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<(Record, Vec<Ordered>)> {
    let loader = world.untimed(0);
    let cache_bytes = spec.cache_bytes(keys, workload);
    if !kept.as_ref().is_some_and(|kept| kept.restore(spec, world)) {
        load(spec, &loader, (keys, workload), progress)?;
        kept.map_or(Ok(()), |kept| kept.keep(spec, world, &loader))?;
    }
    let index = untimed(Ordered::open(&loader, INDEX, cache_bytes))?;
    let record = Record {
        preloaded_keys: Some(spec.preloaded_keys).filter(|keys| *keys > 0),
        warm_up_keys: Some(spec.warm_up_keys).filter(|keys| *keys > 0),
        warm_up_puts: Some(spec.warm_up_puts).filter(|puts| *puts > 0),
        ..with_network(describe(spec, keys, workload, &index)?, spec, &world.spec().card)
    };
    drop(index);
    let loaded = if spec.warm_up_seconds() > 0.0 { loaded_keys(workload) } else { 0 };
    let ranks = WarmUpRanks::new(spec.index, loaded, cache_bytes);
    progress(Stage::Warming { backend: &record.label() });
    let mut nodes: Vec<Ordered> = Vec::with_capacity(spec.compute_nodes);
    for compute_node in 0..spec.compute_nodes {
        let client = world.untimed(compute_node);
        let mut index = untimed(Ordered::open(&client, INDEX, cache_bytes))?;
        // All compute nodes read the same keys.
        let is_warm = nodes.first().is_some_and(|first| index.copy_cache(first));
        if !is_warm {
            untimed(warm_cache(&client, &index, keys, ranks, || false))?;
        }
        nodes.push(index);
    }
    Ok((record, nodes))
}

/// Creates and loads the index, without virtual time.
fn load(
    spec: &RunSpec,
    loader: &Client<SimFabric>,
    (keys, workload): (&Keys, &WorkloadSpec),
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<()> {
    let cache_bytes = spec.cache_bytes(keys, workload);
    let index = untimed(Ordered::create(loader, INDEX, spec.config(keys)?, cache_bytes))?;
    untimed(bulk_load(loader, &index, (keys, loaded_keys(workload)), spec.value_bytes, &mut |done, all| {
        progress(Stage::Loading { done, all });
    }))?;
    warm_up_puts(spec, loader, &index, keys, workload)
}

/// Executes the puts of the warm-up, without virtual time: those of the workload's first client, with another seed.
fn warm_up_puts(
    spec: &RunSpec,
    client: &Client<SimFabric>,
    index: &Ordered,
    keys: &Keys,
    workload: &WorkloadSpec,
) -> Result<()> {
    if spec.warm_up_puts == 0 {
        return Ok(());
    }
    let seeded = WorkloadSpec { seed: workload.seed ^ WARM_UP_SEED, ..workload.clone() };
    let puts = seeded.stream(0)?.filter_map(|operation| match operation {
        Operation::Put { rank, version } => Some((rank, version)),
        _ => None,
    });
    let (mut key, mut value) = (Vec::new(), vec![0; spec.value_bytes]);
    untimed(async {
        for (rank, version) in puts.take(spec.warm_up_puts as usize) {
            keys.write_key(rank, &mut key);
            fill_value(&mut value, rank, version);
            index.put(client, &key, &value).await?;
        }
        index.leave(client).await?;
        Ok(())
    })
}

/// The results of the clients.
struct Simulated {
    round: Round,
    /// The results of the stopwatch, without the measurement.
    timed: Timed,
    faults_injected: Vec<FaultInjected>,
    /// A compute node that can still post.
    survivor: usize,
}

/// The stopwatch of a run.
fn stopwatch(spec: &RunSpec, world: &World) -> Stopwatch {
    let amount = spec.amount().share(spec.clients());
    let stopwatch = if spec.workload == Workload::Load {
        Stopwatch::of_load(world, spec.warm_up_keys, amount)
    } else {
        Stopwatch::new(world, spec.warm_up_seconds(), amount)
    };
    let rules = spec.faults.iter().map(|fault| fault.rule(spec.fault_machines())).collect();
    let stopwatch = stopwatch.with_timeline(spec.timeline_shape()).with_faults(rules);
    match spec.warm_up_end {
        WarmUpEnd::AfterTime => stopwatch,
        WarmUpEnd::Steady => {
            let arrivals = spec.rate.map_or(Arrivals::Closed, |_| Arrivals::Random);
            stopwatch.after_steady(SteadyWindows { seconds: spec.warm_up_window_seconds(), arrivals })
        }
    }
}

/// Runs the clients.
fn measure(
    spec: &RunSpec,
    world: &World,
    nodes: &[Ordered],
    keys: &Keys,
    job: &ClientsJob,
) -> Result<Simulated> {
    let is_load = spec.workload == Workload::Load;
    let (stopwatch, effects) = (stopwatch(spec, world), FaultEffects::new(world));
    let shared = InsertCounter::default();
    let mut group = world.task_group();
    for (compute_node, job) in job.split(spec.compute_nodes).enumerate() {
        for (number, mut streams) in job.clients.clone().zip(job.streams()?) {
            if is_load {
                streams.measured = streams.measured.drawing_from(shared.clone());
            }
            let buffers = CheckedBuffers::new(keys, job.value_bytes, job.workload.workload);
            let client = world.client(compute_node);
            let client = OrderedClient::new(client, &nodes[compute_node], streams, buffers);
            let arrivals = ClientArrivals::new(spec.rate, spec.clients(), spec.seed, number);
            let thread = client.client.fabric().sim_thread();
            group.spawn_at(thread, run_client(client, arrivals, &stopwatch, &effects));
        }
    }
    let mut timed = stopwatch.run(world, group)?;
    let bytes = nodes.iter().map(|index| index.cache_bytes().0 as u64).max();
    let round = Round { measurement: std::mem::take(&mut timed.measurement), seconds: timed.seconds, bytes };
    let faults_injected = effects.injected(stopwatch.begin());
    Ok(Simulated { round, timed, faults_injected, survivor: effects.survivor() })
}

/// Runs one client until the measured phase ends.
async fn run_client(
    mut client: OrderedClient<'_, SimFabric>,
    mut arrivals: ClientArrivals,
    stopwatch: &Stopwatch,
    effects: &FaultEffects<'_>,
) {
    let (mut done, mut executed) = (0, 0_u64);
    while !stopwatch.is_over(client.client.fabric().now(), done) {
        let start = arrivals.wait(&client.client).await;
        if stopwatch.is_over(client.client.fabric().now(), done) {
            return;
        }
        let Some(operation) = client.streams.measured.next() else {
            // A client that never had a key is no sign that the load ends: there are more clients than keys.
            if executed > 0 {
                stopwatch.exhaust(client.client.fabric().now());
            }
            return;
        };
        client.client.fabric().spend_operation();
        let (rank, kind) = rank_and_kind(operation);
        let result = client.execute(operation, rank).await;
        let costs = CostTotals::from(client.client.take_costs());
        let now = client.client.fabric().now();
        executed += 1;
        match effects.outcome(operation, result) {
            Ok(FaultOutcome::Done) => done += stopwatch.record(kind, start..now, &costs),
            Ok(FaultOutcome::Failed) => stopwatch.record_failed(start..now),
            Ok(FaultOutcome::Expired) => return stopwatch.record_failed(start..now),
            Err(error) => return stopwatch.fail(error),
        }
    }
}

/// Bytes of a radix tree after all its keys were loaded, whose invariants are checked.
fn index_bytes(spec: &RunSpec, world: &World, nodes: &[Ordered]) -> Result<Option<u64>> {
    if spec.workload != Workload::Load {
        return Ok(None);
    }
    let walk = untimed(nodes[0].walk(&world.untimed(0)))?;
    if let [problem, ..] = walk.problems() {
        return Err(Error::WrongAnswer(format!("the index is damaged: {problem}")));
    }
    Ok(match walk {
        OrderedReport::Radix(walk) => {
            Some(walk.node_bytes + walk.leaf_bytes + walk.value_bytes + walk.census.bytes)
        }
        OrderedReport::Sherman(_) => None,
    })
}

/// Bytes of all chunks in use, which a client of a compute node reads.
fn used_bytes(world: &World, compute_node: usize) -> Result<u64> {
    let client = world.untimed(compute_node);
    let mut bytes = 0;
    for node in 0..world.spec().memory_nodes {
        let taken = untimed(chunks::taken(&client, NodeId(node))).map_err(farwood_index::IndexError::from)?;
        bytes += taken * CHUNK_BYTES;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::fabric::FabricKind;
    use farwood_index::ordered::System;

    /// A load of few keys by clients of several compute nodes, which contend for the first nodes.
    fn contended_load(preloaded_keys: u64) -> RunSpec {
        RunSpec {
            index: System::Smart,
            fabric: FabricKind::Sim,
            workload: Workload::Load,
            keys: Some(4_000),
            preloaded_keys,
            compute_nodes: 4,
            threads: Some(4),
            clients: Some(32),
            ..RunSpec::default()
        }
    }

    #[test]
    fn all_clients_of_a_load_work_in_all_of_the_measured_phase() {
        for warm_up_keys in [0, 1_000] {
            let record = simulate(&RunSpec { warm_up_keys, ..contended_load(0) }, &mut |_| {}).unwrap();
            let working = record.latency_us.mean * record.operations as f64 / 1e6 / record.seconds;
            assert!((30.5..=32.5).contains(&working), "{working} of 32 clients, after {warm_up_keys} keys");
        }
    }

    #[test]
    fn a_load_with_preloaded_keys_inserts_the_others() {
        let record = simulate(&contended_load(1_000), &mut |_| {}).unwrap();
        assert!((2_960..=3_000).contains(&record.operations), "{}", record.operations);
        assert_eq!((record.keys, record.preloaded_keys), (4_000, Some(1_000)));
        let few = RunSpec { keys: Some(5), ..contended_load(0) };
        assert!(simulate(&few, &mut |_| {}).unwrap().operations >= 1, "clients without a key do not end it");
    }

    #[test]
    fn the_label_of_a_nic_names_a_file_with_another_name() {
        let card = NicModel::named(NIC_DEFAULT).unwrap();
        for (asked, label) in [
            (None, "cx5-100g"),
            (Some("cx5-100g"), "cx5-100g"),
            (Some("cards/cx5-100g.toml"), "cx5-100g"),
            (Some("/tmp/mine.toml"), "cx5-100g (/tmp/mine.toml)"),
        ] {
            assert_eq!(nic_label(asked, &card), label);
        }
    }
}
