//! Rates and latencies of READs, WRITEs and atomics.

use std::cell::Cell;
use std::str::FromStr;

use farwood_fabric::{
    Bits, Client, Fabric as _, FabricError, Memory, NodeId, Remote, Words as Bytes, all, cas, faa,
    masked_cas, read_bytes, write,
};
use farwood_sim::{SimFabric, World};
use serde_json::{Map, Value};

use super::Cluster;
use crate::driver::protocol::Amount;
use crate::driver::stopwatch::Stopwatch;
use crate::record::Record;
use crate::record::measurement::{CostTotals, OperationKind};
use crate::workload::random::Generator;
use crate::{Error, Result};

/// Offset of the target area in host memory: a chunk that nothing else uses.
const AREA_OFFSET: u64 = 32 << 20;
/// Bytes of the target area.
pub(super) const AREA_BYTES: u64 = 16 << 20;

/// The verb that a post loop repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A READ.
    Read,
    /// A WRITE.
    Write,
    /// A CAS that succeeds.
    Cas,
    /// A fetch-and-add.
    Faa,
    /// A masked CAS of all bits that succeeds.
    MaskedCas,
}

/// The targets of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Each atomic in flight has its own word; READs and WRITEs access random cache lines.
    Own,
    /// All verbs share [`FEW`] words.
    Few,
    /// All verbs have the same word, or the same cache line.
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
    /// All verbs.
    pub const ALL: [Verb; 5] = [Verb::Read, Verb::Write, Verb::Cas, Verb::Faa, Verb::MaskedCas];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Cas => "cas",
            Verb::Faa => "faa",
            Verb::MaskedCas => "masked-cas",
        }
    }

    /// Whether the verb is an atomic of eight bytes.
    pub fn is_atomic(self) -> bool {
        !matches!(self, Verb::Read | Verb::Write)
    }
}

impl FromStr for Verb {
    type Err = String;

    fn from_str(text: &str) -> Result<Verb, String> {
        let found = Verb::ALL.into_iter().find(|verb| verb.name() == text);
        found.ok_or_else(|| {
            let names = Verb::ALL.map(Verb::name).join(", ");
            format!("there is no verb '{text}'; give one of {names}")
        })
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
            let (seed, next) = (spec.cluster.seed, Cell::new(loops));
            let post_loop = PostLoop { client, load, number: loops, counts, seed, next };
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
    seed: u64,
    /// Number of the next post, which selects its memory node round-robin.
    next: Cell<usize>,
}

impl PostLoop<'_> {
    async fn run(self, stopwatch: &Stopwatch) {
        let fabric = self.client.fabric();
        let mut generator = Generator::for_client(self.seed, self.number as u64);
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
                let verbs = range.map(|_| read_bytes(self.line::<Bytes>(generator, node), data.len()));
                self.client.post(all(verbs)).await?.for_each(drop);
            }
            Verb::Write => {
                let verbs = range.map(|_| write(self.line::<Bytes>(generator, node), data));
                self.client.post(all(verbs)).await?.for_each(drop);
            }
            Verb::Cas => {
                let verbs = range.map(|of| cas(self.word(node, of), 0, 0));
                self.client.post(all(verbs)).await?.for_each(|_| {});
            }
            Verb::Faa => {
                let verbs = range.map(|of| faa(self.word(node, of), 1));
                self.client.post(all(verbs)).await?.for_each(|_| {});
            }
            Verb::MaskedCas => {
                let unchanged = Bits { mask: u64::MAX, value: 0 };
                let verbs = range.map(|of| masked_cas(self.word(node, of), unchanged, unchanged));
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
        let (begin, _) = self.area();
        Remote::new(node, self.load.memory, begin + 8 * number).expect("the words are in their memory")
    }

    /// The cache line of a READ or a WRITE: a random one, or the one that all share.
    fn line<T: ?Sized>(&self, generator: &mut Generator, node: NodeId) -> Remote<T> {
        let (begin, bytes) = self.area();
        let lines = (bytes - self.load.bytes as u64) / LINE_BYTES;
        let line = match self.load.words {
            Words::Own => generator.below(lines.max(1)),
            Words::Few => generator.below(FEW.min(lines.max(1))),
            Words::One => 0,
        };
        Remote::new(node, self.load.memory, begin + LINE_BYTES * line).expect("the line is in the area")
    }

    /// The offset and the number of bytes of the target area.
    fn area(&self) -> (u64, u64) {
        match self.load.memory {
            Memory::Host => (AREA_OFFSET, AREA_BYTES),
            Memory::Device => (0, self.client.fabric().shape().device_bytes),
        }
    }
}

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;
