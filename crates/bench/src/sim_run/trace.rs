//! The verbs of one operation of an ordered index.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::ordered::{Entries, Ordered};
use farwood_index::sherman::{Direction, Range};
use farwood_sim::{SimFabric, TraceEvent, Tracing, World, WorldSpec, untimed};

use super::ordered::card_of;
use crate::backend::pool::bulk_load;
use crate::spec::ordered::RunSpec;
use crate::workload::values::fill_value;
use crate::{Error, Result};

/// The name of the run's index.
const INDEX: &str = "trace";
/// Keys of a scan.
const SCANNED: usize = 10;

/// An operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedOperation {
    /// Read the key.
    Get,
    /// Store a value, whether the key is present or not.
    Put,
    /// Remove the key.
    Remove,
    /// Read 10 keys in order, from the key on.
    Scan,
}

/// The caches of the client at the beginning of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachesBefore {
    /// The client has executed the operation's search twice before.
    Warm,
    /// The client has only opened the index.
    Cold,
}

/// One operation: its answer, its time and its verbs.
#[derive(Clone, Debug)]
pub struct TracedRun {
    /// The answer in words.
    pub answer: String,
    /// Virtual time from the call to the answer, nanoseconds.
    pub nanoseconds: u64,
    /// Round trips.
    pub round_trips: u64,
    /// The events of the operation's verbs, with the times since its call.
    pub events: Vec<TraceEvent>,
}

/// Executes one operation on the key with rank `rank`, in an index with the parameters and the loaded keys of `spec`.
/// Keys from the number of loaded ones on are absent.
///
/// # Errors
/// An invalid spec, errors of the index.
pub fn trace(
    spec: &RunSpec,
    operation: TracedOperation,
    rank: u64,
    caches: CachesBefore,
) -> Result<TracedRun> {
    spec.check()?;
    let keys = spec.key_source.keys()?;
    let workload = spec.workload(keys.ranks());
    if rank >= keys.ranks() {
        let problem = format!("there is no key with number {rank}");
        return Err(Error::parameter("KEY", problem, format!("give at most {}", keys.ranks() - 1)));
    }
    let world = World::new(WorldSpec {
        memory_nodes: spec.memory_nodes,
        compute_nodes: 1,
        host_bytes: spec.host_bytes(&keys, spec.entries_max(&workload)),
        tracing: Tracing::Full,
        seed: spec.seed,
        ..WorldSpec::small(card_of(spec)?)
    })?;
    let cache_bytes = spec.cache_bytes(&keys, &workload);
    let loader = world.untimed(0);
    let index = untimed(Ordered::create(&loader, INDEX, spec.config(&keys)?, cache_bytes))?;
    untimed(bulk_load(&loader, &index, (&keys, workload.keys), spec.value_bytes, &mut |_, _| {}))?;
    drop(index);
    let index = untimed(Ordered::open(&loader, INDEX, cache_bytes))?;
    let (client, key) = (world.client(0), keys.key(rank));
    let search = if operation == TracedOperation::Scan { operation } else { TracedOperation::Get };
    // After the first search, the caches have what a later search needs: of Sphinx, the second search reads more.
    let searches = if caches == CachesBefore::Warm { 2 } else { 0 };
    for _ in 0..searches {
        world.block_on(execute(&index, &client, search, rank, (&key, spec.value_bytes)))?;
    }
    let (begin, before) = (world.now(), world.trace().last_verb());
    client.take_costs();
    let answer = world.block_on(execute(&index, &client, operation, rank, (&key, spec.value_bytes)))?;
    Ok(TracedRun {
        answer,
        nanoseconds: world.now() - begin,
        round_trips: client.take_costs().round_trips,
        events: world.trace().of_client(client.fabric().number(), before, begin),
    })
}

/// Executes an operation; yields its answer in words.
async fn execute(
    index: &Ordered,
    client: &Client<SimFabric>,
    operation: TracedOperation,
    rank: u64,
    (key, value_bytes): (&[u8], usize),
) -> std::result::Result<String, IndexError> {
    Ok(match operation {
        TracedOperation::Get => match index.get(client, key).await? {
            Some(value) => format!("a value of {} bytes", value.len()),
            None => "the key is absent".to_owned(),
        },
        TracedOperation::Put => {
            let mut value = vec![0; value_bytes];
            fill_value(&mut value, rank, 1);
            let replaced = index.put(client, key, &value).await?.replaced();
            if replaced { "a value was replaced" } else { "the key was inserted" }.to_owned()
        }
        TracedOperation::Remove => {
            let removed = index.remove(client, key).await?.removed();
            if removed { "the key was removed" } else { "the key is absent" }.to_owned()
        }
        TracedOperation::Scan => {
            let mut entries = Entries::new();
            let range = Range { from: Some(key), to: None };
            index.scan(client, range, Direction::Forward, SCANNED, &mut entries).await?;
            format!("{} entries", entries.iter().count())
        }
    })
}
