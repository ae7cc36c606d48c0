//! Rates and latencies of READs, WRITEs and atomics.

use std::cell::Cell;

use farwood_fabric::{
    Client, Fabric as _, FabricError, Memory, NodeId, Remote, Words as Bytes, all, cas, read_bytes, write,
};
use farwood_sim::{SimFabric, World};
use serde_json::{Map, Value};

use super::{Cluster, SEED};
use crate::driver::protocol::Amount;
use crate::driver::stopwatch::Stopwatch;
use crate::record::Record;
use crate::record::measurement::{CostTotals, OperationKind};
use crate::workload::random::Generator;
use crate::{Error, Result};

/// Offset of the target area in host memory: a chunk that nothing else uses.
const AREA_OFFSET: u64 = 32 << 20;
/// Bytes of the target area.
const AREA_BYTES: u64 = 16 << 20;

/// The verb sequence that a post loop repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    /// A CAS that succeeds.
    Cas,
}

/// The target words of atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Each verb in flight has its own word.
    Own,
    /// All verbs share [`FEW`] words.
    Few,
    /// All verbs have the same word.
    One,
}

/// Number of words of [`Words::Few`].
const FEW: u64 = 4;

impl Words {
    fn name(self) -> &'static str {
        match self {
            Words::Own => "own",
            Words::Few => "few",
            Words::One => "one",
        }
    }
}

/// The posts of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) verb: Verb,
    pub(crate) memory: Memory,
    pub(crate) words: Words,
    /// Bytes of a READ or a WRITE.
    pub(crate) bytes: usize,
    /// Posts of a client in flight together, on its one queue pair per memory node.
    pub(crate) depth: usize,
    /// Verbs of a post.
    pub(crate) batch: usize,
}

/// A micro-benchmark of verbs.
#[derive(Clone, Debug)]
pub(crate) struct VerbsSpec {
    pub(crate) cluster: Cluster,
    pub(crate) load: Load,
    /// The posts of half of the clients, whose verbs are not measured.
    pub(crate) beside: Option<Load>,
    pub(crate) seconds: f64,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Cas => "cas",
        }
    }
}

/// Simulates `spec`.
pub(crate) fn simulate_verbs(spec: &VerbsSpec) -> Result<Record> {
    let world = spec.cluster.world(None)?;
    let stopwatch = Stopwatch::new(&world, spec.seconds / 4.0, Amount::Seconds(spec.seconds));
    let clients = clients(&world, &spec.cluster);
    let mut group = world.task_group();
    let mut loops = 0;
    for (number, client) in clients.iter().enumerate() {
        let (load, counts) = match spec.beside {
            Some(beside) if number % 2 == 1 => (beside, false),
            _ => (spec.load, true),
        };
        for _ in 0..load.depth {
            let post_loop = PostLoop { client, load, number: loops, counts, next: Cell::new(loops) };
            group.spawn(client, post_loop.run(&stopwatch));
            loops += 1;
        }
    }
    let timed = stopwatch.run(&world, group)?;
    Ok(Record {
        index: "verbs".to_owned(),
        workload: spec.load.verb.name().to_owned(),
        value_bytes: spec.load.bytes as u64,
        ..spec.cluster.record(&world, &timed, options(spec))
    })
}

/// One client per thread.
fn clients(world: &World, cluster: &Cluster) -> Vec<Client<SimFabric>> {
    let of_node = |node| (0..cluster.threads).map(move |_| world.client(node));
    (0..cluster.compute_nodes).flat_map(of_node).collect()
}

fn options(spec: &VerbsSpec) -> Map<String, Value> {
    let Load { memory, words, depth, batch, .. } = spec.load;
    let name = |memory| if memory == Memory::Device { "device" } else { "host" };
    let mut options = Map::new();
    options.insert("memory".to_owned(), name(memory).into());
    options.insert("words".to_owned(), words.name().into());
    options.insert("depth".to_owned(), depth.into());
    options.insert("batch".to_owned(), batch.into());
    if let Some(beside) = spec.beside {
        let (verb, words, memory) = (beside.verb.name(), beside.words.name(), name(beside.memory));
        let text = format!("{verb} on {words} words of {memory} memory by half of the clients");
        options.insert("beside".to_owned(), text.into());
    }
    options
}

/// A loop that has one post in flight at a time.
struct PostLoop<'a> {
    client: &'a Client<SimFabric>,
    load: Load,
    /// The number of this loop among all loops of the run.
    number: usize,
    counts: bool,
    /// Number of the next post, which selects its memory node round-robin.
    next: Cell<usize>,
}

impl PostLoop<'_> {
    async fn run(self, stopwatch: &Stopwatch) {
        let fabric = self.client.fabric();
        let mut generator = Generator::for_client(SEED, self.number as u64);
        let data = vec![0xA5; self.load.bytes];
        while !stopwatch.is_over(fabric.now(), 0) {
            let start = fabric.now();
            if let Err(error) = self.post(&mut generator, &data).await {
                return stopwatch.fail(Error::Index(error.into()));
            }
            let mut costs = CostTotals::from(self.client.take_costs());
            for _ in 0..if self.counts { self.load.batch } else { 0 } {
                // The costs of a post are those of its first verb.
                stopwatch.record(self.kind(), start..fabric.now(), &std::mem::take(&mut costs));
            }
        }
    }

    fn kind(&self) -> OperationKind {
        if self.load.verb == Verb::Read { OperationKind::Get } else { OperationKind::Put }
    }

    async fn post(&self, generator: &mut Generator, data: &[u8]) -> Result<(), FabricError> {
        let nodes = usize::from(self.client.fabric().shape().nodes);
        let node = NodeId((self.next.replace(self.next.get() + 1) % nodes) as u16);
        let range = 0..self.load.batch;
        match self.load.verb {
            Verb::Read => {
                let verbs =
                    range.map(|_| read_bytes(random_line::<Bytes>(generator, node, data.len()), data.len()));
                self.client.post(all(verbs)).await?.for_each(drop);
            }
            Verb::Write => {
                let verbs = range.map(|_| write(random_line::<Bytes>(generator, node, data.len()), data));
                self.client.post(all(verbs)).await?.for_each(drop);
            }
            Verb::Cas => {
                let verbs = range.map(|of| cas(self.word(node, of), 0, 0));
                self.client.post(all(verbs)).await?.for_each(|_| {});
            }
        }
        Ok(())
    }

    /// The word of the `of`th atomic of a post.
    fn word(&self, node: NodeId, of: usize) -> Remote<u64> {
        let number = match self.load.words {
            Words::One => 0,
            Words::Few => (self.number * self.load.batch + of) as u64 % FEW,
            Words::Own => (self.number * self.load.batch + of) as u64,
        };
        let offset = match self.load.memory {
            Memory::Host => AREA_OFFSET + 8 * number,
            Memory::Device => 8 * number,
        };
        Remote::new(node, self.load.memory, offset).expect("the words are in their memory")
    }
}

/// A random cache line of the target area.
fn random_line<T: ?Sized>(generator: &mut Generator, node: NodeId, bytes: usize) -> Remote<T> {
    let lines = (AREA_BYTES - bytes as u64) / 64;
    Remote::new(node, Memory::Host, AREA_OFFSET + 64 * generator.below(lines))
        .expect("the line is in the area")
}
