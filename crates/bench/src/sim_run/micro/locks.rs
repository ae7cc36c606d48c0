//! Taking and releasing locks of one memory node, without a tree (Sherman Figures 2 and 16).

use std::collections::BTreeMap;

use farwood_fabric::{Client, Fabric as _, Memory, NodeId, PoolShape, Remote, Words};
use farwood_index::IndexError;
use farwood_index::lock::{GlobalLock, LockMemory, LockOptions, NodeLocks};
use farwood_sim::SimFabric;
use serde_json::{Map, Value};

use super::{Cluster, SEED};
use crate::driver::protocol::Amount;
use crate::driver::stopwatch::Stopwatch;
use crate::record::Record;
use crate::record::measurement::{CostTotals, OperationKind};
use crate::workload::distribution::{Distribution, KeyChooser};
use crate::workload::random::Generator;
use crate::{Error, Result};

/// A micro-benchmark of locks.
#[derive(Clone, Debug)]
pub(crate) struct LocksSpec {
    pub(crate) cluster: Cluster,
    /// Number of locks, all at one memory node.
    pub(crate) locks: u64,
    pub(crate) options: LockOptions,
    /// Skew of the popularity of locks.
    pub(crate) theta: f64,
    pub(crate) seconds: f64,
    pub(crate) warm_up_seconds: f64,
}

/// Distance between two objects with locks.
const OBJECT_BYTES: u64 = 64;

/// Simulates `spec`.
pub(crate) fn simulate_locks(spec: &LocksSpec) -> Result<Record> {
    let world = spec.cluster.world((spec.options.memory == LockMemory::Device).then_some(8 * spec.locks))?;
    let distribution = Distribution::Zipf { theta: spec.theta };
    let chooser = KeyChooser::new(distribution, spec.locks, spec.locks)?;
    let shape = world.client(0).fabric().shape();
    let nodes = locked_nodes(spec, &shape);
    let tables: Vec<NodeLocks> = (0..spec.cluster.compute_nodes)
        .map(|_| NodeLocks::new(spec.options, shape, OBJECT_BYTES as usize))
        .collect();
    let stopwatch = Stopwatch::new(&world, spec.warm_up_seconds, Amount::Seconds(spec.seconds));
    let mut group = world.task_group();
    let mut number = 0;
    for (compute_node, locks) in tables.iter().enumerate() {
        for _ in 0..spec.cluster.threads {
            let client = world.client(compute_node);
            let mut popularity = Generator::for_client(SEED, number);
            let (stopwatch, chooser, nodes) = (&stopwatch, &chooser, &nodes);
            group.spawn_at(client.fabric().sim_thread(), async move {
                while !stopwatch.is_over(client.fabric().now(), 0) {
                    let node = nodes[chooser.choose(&mut popularity) as usize];
                    let start = client.fabric().now();
                    if let Err(error) = lock_and_unlock(locks, &client, node).await {
                        return stopwatch.fail(Error::Index(error));
                    }
                    let costs = CostTotals::from(client.take_costs());
                    stopwatch.record(OperationKind::Put, start..client.fabric().now(), &costs);
                }
            });
            number += 1;
        }
    }
    let timed = stopwatch.run(&world, group)?;
    Ok(Record {
        index: "locks".to_owned(),
        workload: "lock and unlock".to_owned(),
        distribution: distribution.name().to_owned(),
        theta: spec.theta,
        keys: spec.locks,
        zipf_ranks: spec.locks,
        ..spec.cluster.record(&world, &timed, describe(spec.options))
    })
}

async fn lock_and_unlock(
    locks: &NodeLocks,
    client: &Client<SimFabric>,
    node: Remote<Words>,
) -> Result<(), IndexError> {
    locks.acquire(client, node, "lock").await?.give_up().await
}

fn describe(options: LockOptions) -> Map<String, Value> {
    let pairs = farwood_index::sherman::ShermanFeatures { lock: options, ..Default::default() }.describe();
    let of_locks = pairs.into_iter().filter(|(name, _)| !matches!(*name, "leaves" | "write_back"));
    of_locks.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// One object for each lock. Addresses of objects hash to locks, so the function tries addresses until each lock has
/// one.
fn locked_nodes(spec: &LocksSpec, shape: &PoolShape) -> Vec<Remote<Words>> {
    let count = GlobalLock::count(spec.options, shape);
    let mut found = BTreeMap::new();
    for line in 1.. {
        if found.len() as u64 == spec.locks {
            break;
        }
        let object =
            Remote::new(NodeId(0), Memory::Host, line * OBJECT_BYTES).expect("48 bits of offset are enough");
        let lock = GlobalLock::of(spec.options, count, object).index();
        if lock < spec.locks {
            found.entry(lock).or_insert(object);
        }
    }
    found.into_values().collect()
}
