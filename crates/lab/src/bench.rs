//! `bench`: measures the index in virtual time, as `farwood bench --fabric sim` measures Farwood's own.

use crate::world::Lab;
use crate::{FarIndex, LabError, LabResult};
use farwood_bench::backend::checked::{CheckedBuffers, rank_and_kind};
use farwood_bench::backend::finish;
use farwood_bench::backend::ordered::describe_run;
use farwood_bench::driver::protocol::Round;
use farwood_bench::driver::stopwatch::Stopwatch;
use farwood_bench::record::Record;
use farwood_bench::record::machine::Machine;
use farwood_bench::record::measurement::CostTotals;
use farwood_bench::run::{RunSpec, card_of, check_measured, with_network};
use farwood_bench::workload::keys::Keys;
use farwood_bench::workload::values::fill_value;
use farwood_bench::workload::{Operation, OperationStream, Workload};
use farwood_fabric::{Client, Fabric as _};
use farwood_sim::{SimFabric, WorldSpec, untimed};
use std::cell::RefCell;

/// Measures the index in a run with the parameters of `spec`.
pub(crate) fn measure<I: FarIndex>(spec: &RunSpec) -> LabResult<Record> {
    spec.check()?;
    let keys = Keys::integers(I::KEY_BYTES)?;
    let workload = spec.workload(keys.ranks());
    workload.check()?;
    let mut card = card_of(spec)?;
    card.cpu.operation_ns = spec.operation_ns.or(I::OPERATION_NS).unwrap_or(card.cpu.operation_ns);
    let world_spec = WorldSpec {
        memory_nodes: spec.memory_nodes,
        compute_nodes: spec.compute_nodes,
        threads: spec.threads(),
        seed: spec.seed,
        ..WorldSpec::small(card)
    };
    let lab = Lab::<I>::new(world_spec, spec.entries_max(&workload), None)?;
    let loaded = if workload.workload == Workload::Load { 0 } else { workload.keys };
    load(&lab, &keys, loaded)?;
    let stopwatch = Stopwatch::new(&lab.world, spec.warm_up_seconds(), spec.amount().share(spec.clients()));
    let failed = RefCell::new(None);
    let mut group = lab.world.task_group();
    for number in 0..spec.clients() {
        let node = number as usize % spec.compute_nodes;
        let measured = Measured {
            client: lab.world.client(node),
            index: &lab.indexes[node],
            stream: workload.stream(number)?,
            buffers: CheckedBuffers::new(&keys, I::VALUE_BYTES, workload.workload),
            failed: &failed,
        };
        group.spawn_at(measured.client.fabric().sim_thread(), measured.run(&stopwatch));
    }
    let timed = stopwatch.run(&lab.world, group)?;
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let round = Round { measurement: timed.measurement, seconds: timed.seconds, bytes: None };
    check_measured(spec, &round)?;
    let record = Record {
        index: I::NAME.to_owned(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        simulated_verbs_per_second: Some(timed.verbs_per_second),
        machine: Machine::here(),
        ..with_network(describe_run(spec, &keys, &workload), spec, &lab.world.spec().card)
    };
    let mut record = finish(record, &round);
    round.measurement.count_into(&mut record);
    Ok(record)
}

/// Puts the first keys into the index, without virtual time.
fn load<I: FarIndex>(lab: &Lab<I>, keys: &Keys, loaded: u64) -> LabResult<()> {
    let client = lab.world.untimed(0);
    let (mut key, mut value) = (Vec::new(), vec![0; I::VALUE_BYTES]);
    for rank in 0..loaded {
        keys.write_key(rank, &mut key);
        // The value of version 0 of rank 0 is 0.
        fill_value(&mut value, rank, 1);
        untimed(lab.indexes[0].put(&client, &key, &value))?;
    }
    Ok(())
}

/// A client, its operations, and its buffers, which check the answers.
struct Measured<'a, I> {
    client: Client<SimFabric>,
    index: &'a I,
    stream: OperationStream,
    buffers: CheckedBuffers<'a>,
    /// The first error of an operation.
    failed: &'a RefCell<Option<LabError>>,
}

impl<I: FarIndex> Measured<'_, I> {
    /// Executes operations until the measured phase ends.
    async fn run(mut self, stopwatch: &Stopwatch) {
        let mut done = 0;
        while !stopwatch.is_over(self.client.fabric().now(), done) {
            let Some(operation) = self.stream.next() else {
                return stopwatch.exhaust(self.client.fabric().now());
            };
            let start = self.client.fabric().now();
            self.client.fabric().spend_operation();
            let (_, kind) = rank_and_kind(operation);
            if let Err(error) = self.execute(operation).await {
                self.failed.borrow_mut().get_or_insert(error);
            }
            if self.failed.borrow().is_some() {
                return;
            }
            let costs = CostTotals::from(self.client.take_costs());
            done += stopwatch.record(kind, start..self.client.fabric().now(), &costs);
        }
    }

    async fn execute(&mut self, operation: Operation) -> LabResult<()> {
        let (rank, _) = rank_and_kind(operation);
        self.buffers.fill_key(rank);
        let (index, client) = (self.index, &self.client);
        if let Operation::Get { .. } | Operation::ReadModifyWrite { .. } = operation {
            match index.get(client, &self.buffers.key).await? {
                Some(found) if found.len() == self.buffers.value.len() => {
                    self.buffers.value.copy_from_slice(&found);
                    self.buffers.check_found(rank)?;
                }
                Some(found) => return Err(LabError::index(format!("a value of {} bytes", found.len()))),
                None => self.buffers.check_absent(rank)?,
            }
        }
        match operation {
            Operation::Put { version, .. }
            | Operation::Insert { version, .. }
            | Operation::ReadModifyWrite { version, .. } => {
                self.buffers.fill_value(rank, version);
                index.put(client, &self.buffers.key, &self.buffers.value).await?;
            }
            Operation::Remove { .. } => drop(index.remove(client, &self.buffers.key).await?),
            Operation::Scan { length, .. } => {
                drop(index.scan(client, &self.buffers.key, length as usize).await?);
            }
            Operation::Get { .. } => {}
        }
        Ok(())
    }
}
