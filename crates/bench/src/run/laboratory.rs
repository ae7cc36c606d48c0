//! A run in the laboratory: the same index, streams and checks, in virtual time and in this process.
//!
//! One tree is opened for each compute node, and its clients share it. Loading, opening and the pass that warms the
//! index caches happen outside of time. Then all clients begin at once, on the workload itself: warm-up is the time
//! before their operations count, in which queues and conflicts build up as they will stay. An operation counts in the
//! measured phase if it ends there.

use std::fs;
use std::path::Path;

use farwood_fabric::chunks::{self, CHUNK_BYTES};
use farwood_fabric::{Fabric as _, NodeId};
use farwood_index::ordered::{Ordered, Walk};
use farwood_sim::{Card, SimFabric, World, WorldSpec, at_once};

use super::contest::{clients_job, shares};
use super::glance::{Glances, glance};
use super::ground::bulk_load;
use super::node::streams;
use super::protocol::{ClientsJob, Round};
use super::seat::{Buffers, Seat, subject_of};
use super::spec::{Amount, NIC_DEFAULT, RunSpec};
use super::stopwatch::Stopwatch;
use super::{Stage, describe, finish};
use crate::keys::Keys;
use crate::machine::{Machine, available_bytes};
use crate::measure::CostTotals;
use crate::record::Record;
use crate::workload::{Workload, WorkloadSpec};
use crate::{Error, Result};

/// The name of the run's index.
const INDEX: &str = "bench";

/// Runs `spec` in the laboratory; everything in the record but its last rate follows from the spec.
///
/// # Errors
/// What the spec cannot be, what the index refuses, a wrong answer.
pub fn simulate(spec: &RunSpec, progress: &mut dyn FnMut(Stage<'_>)) -> Result<Record> {
    spec.check()?;
    let card = card(spec.nic.as_deref().unwrap_or(NIC_DEFAULT))?;
    let keys = spec.key_source.keys()?;
    let workload = spec.workload(keys.ranks());
    workload.check()?;
    check_memory(spec, &keys, &workload)?;
    let world = World::new(world_spec(spec, card, &keys, &workload))?;
    let (record, nodes) = prepare(spec, &world, &keys, &workload, progress)?;
    progress(Stage::Measuring { contestant: &record.label(), round: 1, rounds: 1 });
    let job = clients_job(spec, &keys, &workload);
    let (round, verbs_per_second) = measure(spec, &world, &nodes, &keys, &job)?;
    if round.measurement.operations() == 0 {
        let problem = "no operation began and ended in the time that is measured".to_owned();
        let (flag, remedy) = match spec.warm_up_keys {
            0 => ("--seconds", "give more virtual time, or fewer clients a thread"),
            _ => ("--warmup-keys", "give less of them, more --keys, or more virtual time"),
        };
        return Err(Error::parameter(flag, problem, remedy));
    }
    let record = Record {
        memory_node_bytes: Some(used_bytes(&world)?),
        index_bytes: index_bytes(spec, &world, &nodes)?,
        simulated_verbs_per_second: Some(verbs_per_second),
        machine: Machine::here(),
        ..record
    };
    let mut record = finish(record, &round);
    round.measurement.count_into(&mut record);
    Ok(record)
}

/// Refuses what this machine's memory cannot hold.
fn check_memory(spec: &RunSpec, keys: &Keys, workload: &WorkloadSpec) -> Result<()> {
    let entries = spec.entries_max(workload);
    let needed = entries.saturating_mul(spec.entry_bytes(keys));
    match available_bytes() {
        Some(available) if needed > available => {
            let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
            let (needs, has) = (gib(needed), gib(available));
            let problem =
                format!("{entries} keys need about {needs:.0} GiB, and this machine has {has:.0} GiB free");
            let remedy = "give fewer keys; where keys are inserted, fewer clients or less time";
            Err(Error::parameter("--keys", problem, remedy))
        }
        _ => Ok(()),
    }
}

/// The card of that name, or in that file.
pub fn card(name: &str) -> Result<Card> {
    let is_file =
        name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "toml");
    let text = |source| Error::Read { file: name.into(), source };
    let card =
        if is_file { Card::from_toml(&fs::read_to_string(name).map_err(text)?) } else { Card::named(name) };
    card.map_err(|error| Error::parameter("--nic", format!("{name}: {error}"), "see docs/nic-model.md"))
}

/// What a record calls a card: by its name, and beside it the file that it is from, where that is called otherwise.
pub(super) fn card_label(asked: Option<&str>, card: &Card) -> String {
    let file = asked.map(Path::new).and_then(Path::file_stem).map(|stem| stem.to_string_lossy());
    match (asked, file) {
        (Some(asked), Some(file)) if file != card.name => format!("{} ({asked})", card.name),
        _ => card.name.clone(),
    }
}

fn world_spec(spec: &RunSpec, card: Card, keys: &Keys, workload: &WorkloadSpec) -> WorldSpec {
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

/// Loads the tree and opens it at every compute node, outside of time.
fn prepare(
    spec: &RunSpec,
    world: &World,
    keys: &Keys,
    workload: &WorkloadSpec,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<(Record, Vec<Ordered>)> {
    let loader = world.at_once(0);
    let cache_bytes = spec.cache_bytes(keys, workload);
    let index = at_once(Ordered::create(&loader, INDEX, spec.config(keys)?, cache_bytes))?;
    let record = Record {
        nic: Some(card_label(spec.nic.as_deref(), &world.spec().card)),
        colocate: Some(spec.colocate),
        memory_nodes: Some(u64::from(spec.memory_nodes)),
        warm_up_keys: Some(spec.warm_up_keys).filter(|keys| *keys > 0),
        ..describe(spec, keys, workload, &index)?
    };
    let loaded = if workload.workload == Workload::Load { 0 } else { workload.keys };
    at_once(bulk_load(&loader, &index, (keys, loaded), spec.value_bytes, &mut |done, all| {
        progress(Stage::Loading { done, all });
    }))?;
    drop(index);
    let loaded = if spec.warm_up_seconds() > 0.0 { loaded } else { 0 };
    let glances = Glances::new(spec.index, loaded, cache_bytes);
    progress(Stage::Warming { contestant: &record.label() });
    let open = |compute_node| {
        let client = world.at_once(compute_node);
        let index = at_once(Ordered::open(&client, INDEX, cache_bytes))?;
        at_once(glance(&client, &index, keys, glances, || false))?;
        Ok(index)
    };
    let nodes: Result<Vec<Ordered>> = (0..spec.compute_nodes).map(open).collect();
    Ok((record, nodes?))
}

/// Lets the clients work; yields what they did, and how many verbs were simulated in a second of real time.
fn measure(
    spec: &RunSpec,
    world: &World,
    nodes: &[Ordered],
    keys: &Keys,
    job: &ClientsJob,
) -> Result<(Round, f64)> {
    let warm_up = if spec.workload == Workload::Load { 0.0 } else { spec.warm_up_seconds() };
    let amount = match spec.amount() {
        Amount::Operations(operations) => Amount::Operations(operations.div_ceil(spec.clients())),
        seconds @ Amount::Seconds(_) => seconds,
    };
    let stopwatch = Stopwatch::new(world, warm_up, amount).behind(spec.warm_up_keys);
    let mut crew = world.crew();
    for (compute_node, clients) in shares(spec).enumerate() {
        let job = ClientsJob { clients, ..job.clone() };
        for pair in streams(&job)? {
            let buffers = Buffers::new(keys, job.value_bytes, job.workload.workload.may_miss());
            let seat = Seat::new(world.client(compute_node), &nodes[compute_node], pair, buffers);
            crew.spawn_at(seat.client.fabric().seat(), attend(seat, &stopwatch));
        }
    }
    let timed = stopwatch.run(world, crew)?;
    let bytes = nodes.iter().map(|index| index.cache_bytes().0 as u64).max();
    let round = Round { measurement: timed.measurement, seconds: timed.seconds, bytes };
    Ok((round, timed.verbs_per_second))
}

/// A client's work.
async fn attend(mut seat: Seat<'_, SimFabric>, stopwatch: &Stopwatch) {
    let mut done = 0;
    while !stopwatch.is_over(seat.client.fabric().now(), done) {
        let Some(operation) = seat.stream.next() else { return };
        let start = seat.client.fabric().now();
        seat.client.fabric().spend_operation();
        let (rank, kind) = subject_of(operation);
        if let Err(error) = seat.execute(operation, rank).await {
            return stopwatch.fail(error);
        }
        let costs = CostTotals::from(seat.client.take_costs());
        done += stopwatch.record(kind, start..seat.client.fabric().now(), &costs);
    }
}

/// Bytes of what a radix tree consists of once all its keys are in, which was walked and found right.
fn index_bytes(spec: &RunSpec, world: &World, nodes: &[Ordered]) -> Result<Option<u64>> {
    if spec.workload != Workload::Load {
        return Ok(None);
    }
    let walk = at_once(nodes[0].walk(&world.at_once(0)))?;
    if let [problem, ..] = walk.problems() {
        return Err(Error::WrongAnswer(format!("the walk found: {problem}")));
    }
    Ok(match walk {
        Walk::Radix(walk) => Some(walk.node_bytes + walk.leaf_bytes + walk.value_bytes + walk.census.bytes),
        Walk::Sherman(_) => None,
    })
}

/// Bytes of all chunks in use.
fn used_bytes(world: &World) -> Result<u64> {
    let client = world.at_once(0);
    let mut bytes = 0;
    for node in 0..world.spec().memory_nodes {
        let taken = at_once(chunks::taken(&client, NodeId(node))).map_err(farwood_index::IndexError::from)?;
        bytes += taken * CHUNK_BYTES;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_from_a_file_of_another_name_is_known_by_both() {
        let card = Card::named(NIC_DEFAULT).unwrap();
        for (asked, label) in [
            (None, "cx5-100g"),
            (Some("cx5-100g"), "cx5-100g"),
            (Some("cards/cx5-100g.toml"), "cx5-100g"),
            (Some("/tmp/mine.toml"), "cx5-100g (/tmp/mine.toml)"),
        ] {
            assert_eq!(card_label(asked, &card), label);
        }
    }
}
