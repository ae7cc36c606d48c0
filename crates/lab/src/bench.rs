//! `bench`: measures the index in virtual time, as `farwood bench --fabric sim` measures Farwood's own.

use crate::world::Lab;
use crate::{FarIndex, LabError, LabResult};
use farwood_bench::backend::checked::{CheckedBuffers, rank_and_kind};
use farwood_bench::backend::finish;
use farwood_bench::driver::protocol::Round;
use farwood_bench::driver::stopwatch::Stopwatch;
use farwood_bench::record::Record;
use farwood_bench::record::machine::{Machine, commit, profile};
use farwood_bench::record::measurement::CostTotals;
use farwood_bench::run::{RunSpec, nic_model};
use farwood_bench::workload::keys::Keys;
use farwood_bench::workload::values::fill_value;
use farwood_bench::workload::{Operation, OperationStream, Workload};
use farwood_fabric::{Client, Fabric as _};
use farwood_sim::{SimFabric, WorldSpec, untimed};

/// Measures the index in a run with the parameters of `spec`.
pub(crate) fn measure<I: FarIndex>(spec: &RunSpec) -> LabResult<Record> {
    let keys = Keys::integers(I::KEY_BYTES.max(8))?;
    let workload = spec.workload(keys.ranks());
    workload.check()?;
    let nic = spec.nic.as_deref().unwrap_or("cx5-100g");
    let mut card = nic_model(nic)?;
    card.cpu.operation_ns = spec.operation_ns.or(I::OPERATION_NS).unwrap_or(card.cpu.operation_ns);
    let world_spec = WorldSpec {
        memory_nodes: spec.memory_nodes,
        compute_nodes: spec.compute_nodes,
        threads: spec.threads(),
        colocate: spec.colocate,
        seed: spec.seed,
        ..WorldSpec::small(card)
    };
    let entries = spec.entries_max(&workload);
    let lab = Lab::<I>::new(world_spec, entries, None)?;
    let loaded = if workload.workload == Workload::Load { 0 } else { workload.keys };
    load(&lab, &keys, loaded, spec.value_bytes)?;
    let stopwatch = Stopwatch::new(&lab.world, spec.warm_up_seconds(), spec.amount().share(spec.clients()));
    let mut group = lab.world.task_group();
    for number in 0..spec.clients() {
        let node = number as usize % spec.compute_nodes;
        let measured = Measured {
            client: lab.world.client(node),
            index: &lab.indexes[node],
            stream: workload.stream(number)?,
            buffers: CheckedBuffers::new(&keys, spec.value_bytes, workload.workload),
        };
        group.spawn_at(measured.client.fabric().sim_thread(), measured.run(&stopwatch));
    }
    let timed = stopwatch.run(&lab.world, group)?;
    let distribution = workload.effective_distribution();
    let record = Record {
        index: I::NAME.to_owned(),
        fabric: "sim".to_owned(),
        nic: Some(nic.to_owned()),
        nic_hash: Some(lab.world.spec().card.hash()),
        nic_values: serde_json::to_value(&lab.world.spec().card).ok(),
        warm_up_seconds: Some(spec.warm_up_seconds()),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        colocate: Some(spec.colocate),
        workload: workload.workload.name().to_owned(),
        distribution: distribution.name().to_owned(),
        theta: distribution.theta(),
        zipf_ranks: workload.effective_zipf_ranks(),
        keys: workload.keys,
        key_bytes: keys.key_bytes() as u64,
        value_bytes: spec.value_bytes as u64,
        memory_nodes: Some(u64::from(spec.memory_nodes)),
        compute_nodes: spec.compute_nodes as u64,
        threads: spec.threads() as u64,
        clients: workload.clients,
        seed: spec.seed,
        commit: commit(),
        profile: profile(),
        simulated_verbs_per_second: Some(timed.verbs_per_second),
        machine: Machine::here(),
        ..Record::default()
    };
    let round = Round { measurement: timed.measurement, seconds: timed.seconds, bytes: None };
    let mut record = finish(record, &round);
    round.measurement.count_into(&mut record);
    Ok(record)
}

/// Puts the first keys into the index, without virtual time.
fn load<I: FarIndex>(lab: &Lab<I>, keys: &Keys, loaded: u64, value_bytes: usize) -> LabResult<()> {
    let client = lab.world.untimed(0);
    let (mut key, mut value) = (Vec::new(), vec![0; value_bytes]);
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
                return stopwatch.fail(farwood_bench::Error::WrongAnswer(error.to_string()));
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
