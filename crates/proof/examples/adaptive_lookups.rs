//! Catfish's switch between messages and READs, used with another index: lookups in a Sherman tree.
//!
//! [`adaptive`](farwood_index::catfish::adaptive) does not depend on rectangles. Here a client sends a lookup by
//! message to a server with few cores, which reads the tree in its local memory, or the client reads the tree itself.
//! Heartbeats report the utilisation of the server, and each client has its own back-off.
//!
//! A request is one WRITE into the client's buffer at the server, with an immediate that holds the client's number.
//! The response is one WRITE into a buffer in the client's memory, which the client polls.
//!
//! Run it with `cargo run --release -p farwood-proof --example adaptive_lookups`.
#![expect(clippy::print_stdout, reason = "the example prints its measurements")]

use farwood_fabric::chunks::{self, CHUNK_BYTES, ChunkOwner};
use farwood_fabric::{Client, Fabric as _, NodeId, Remote, Server as _, ServerMemory as _, write, write_imm};
use farwood_index::IndexError;
use farwood_index::catfish::adaptive::{BackOff, BackOffSettings, SearchPath, heartbeat, utilisation};
use farwood_index::sherman::{Sherman, ShermanConfig};
use farwood_sim::{NicModel, RunOutcome, SimFabric, SimServer, World, WorldSpec, untimed};
use std::cell::Cell;

/// Number of machines. The server runs on the first one, and the clients run on the others.
const MACHINES: usize = 5;
const KEYS: u64 = 20_000;
const CACHE_BYTES: usize = 1 << 20;
/// Cores of the server, and its tasks that answer messages.
const CORES: u32 = 4;
const TASKS: usize = 16;
/// Processor time of a lookup at the server, nanoseconds: long enough to make its cores the bottleneck.
const LOOKUP_NS: u64 = 20_000;
const HEARTBEAT_NS: u64 = 400_000;
/// Parts of a heartbeat interval; each client receives its heartbeat in one of them.
const PARTS: usize = 8;
const LOOK_NS: u64 = 500;
const RUN_NS: u64 = 20_000_000;

/// The method by which clients look up keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Messages,
    Reads,
    Adaptive,
}

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupStats {
    pub(crate) lookups: u64,
    pub(crate) wrong: u64,
    /// Lookups by READs.
    pub(crate) offloaded: u64,
    /// Busy share of the server's cores.
    pub(crate) busy: f64,
}

/// Bytes of a client's buffer, at the server and in the memory of its machine.
const BUFFER_BYTES: u64 = 64;
/// Words of a response buffer: the heartbeat, the value, and the number and outcome of the lookup.
const HEARTBEAT: u64 = 0;
const VALUE: u64 = 8;
const OUTCOME: u64 = 16;

/// The buffers of messages: one chunk on each machine.
struct Buffers {
    chunks: Vec<Remote<[u8]>>,
}

impl Buffers {
    async fn new(client: &Client<SimFabric>, entry: u8) -> Result<Self, IndexError> {
        let mut chunks = Vec::new();
        for machine in 0..MACHINES as u16 {
            let owner = ChunkOwner { client: client.fabric().identity(), entry };
            let taken = chunks::take(client, NodeId(machine), owner, CHUNK_BYTES).await?;
            chunks.push(taken.expect("the pool is large enough").chunk.start());
        }
        Ok(Self { chunks })
    }

    /// The request buffer of client `number`, at the server.
    fn request(&self, number: u64) -> Remote<[u8]> {
        self.chunks[0].part(BUFFER_BYTES * number)
    }

    /// The buffer for responses and heartbeats of client `number`, on the client's machine.
    fn response(&self, number: u64) -> Remote<[u8]> {
        self.chunks[machine_of(number)].part(BUFFER_BYTES * number)
    }
}

fn machine_of(client: u64) -> usize {
    1 + client as usize % (MACHINES - 1)
}

fn value_of(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The state of one run.
struct LookupRun<'w> {
    world: &'w World,
    buffers: Buffers,
    /// One for each machine.
    trees: Vec<Sherman>,
    scheme: Scheme,
    clients: u64,
    lookups: Cell<u64>,
    wrong: Cell<u64>,
    offloaded: Cell<u64>,
}

impl LookupRun<'_> {
    /// A task of the server: it answers lookups one after the other.
    async fn answer(&self, client: &Client<SimFabric>, server: &SimServer) -> Result<(), IndexError> {
        let start = self.buffers.chunks[0].address().offset();
        loop {
            let number = u64::from(server.receive().await?);
            let word = |at| server.local().load(start + BUFFER_BYTES * number + at);
            let (key, asked) = (word(0)?, word(8)?);
            server.compute(LOOKUP_NS).await;
            let found = self.trees[0].get(client, &key.to_be_bytes()).await?;
            let value =
                found.as_deref().and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes);
            let outcome = asked << 1 | u64::from(found.is_some());
            let response: Vec<u8> = [value, outcome].into_iter().flat_map(u64::to_le_bytes).collect();
            client.post(write(self.buffers.response(number).part::<u8>(VALUE), &response)).await?;
        }
    }

    /// Sends each client one heartbeat per interval, at different times: otherwise all clients would offload at the
    /// same time, and then find the server idle at the same time.
    async fn beat(&self, client: &Client<SimFabric>, server: &SimServer) -> Result<(), IndexError> {
        let mut worked = [server.worked(); PARTS];
        for part in (0..PARTS).cycle() {
            client.fabric().sleep(HEARTBEAT_NS / PARTS as u64).await;
            let before = std::mem::replace(&mut worked[part], server.worked());
            let busy = (worked[part] - before) as f64 / (HEARTBEAT_NS * u64::from(CORES)) as f64;
            for number in (part as u64..self.clients).step_by(PARTS) {
                let address = self.buffers.response(number).part::<u64>(HEARTBEAT);
                client.post(write(address, &heartbeat(busy).to_le_bytes())).await?;
            }
        }
        Ok(())
    }

    /// A client: it looks up keys until the time limit.
    async fn ask(&self, number: u64, client: &Client<SimFabric>) -> Result<(), IndexError> {
        let machine = machine_of(number);
        let memory = self.world.server(NodeId(machine as u16));
        let at = self.buffers.response(number).address().offset();
        let mut back_off = BackOff::new(BackOffSettings::default(), number + 1);
        for asked in 1.. {
            let key = value_of(asked ^ number << 32) % (2 * KEYS);
            client.fabric().spend_operation();
            let heartbeat = memory.local().load(at + HEARTBEAT)?;
            memory.local().store(at + HEARTBEAT, 0)?;
            let route = match self.scheme {
                Scheme::Messages => SearchPath::Message,
                Scheme::Reads => SearchPath::Offload,
                Scheme::Adaptive => back_off.next(utilisation(heartbeat)),
            };
            let found = match route {
                SearchPath::Message => self.ask_server(number, (key, asked), client, &memory).await?,
                SearchPath::Offload => {
                    self.offloaded.set(self.offloaded.get() + 1);
                    let found = self.trees[machine].get(client, &key.to_be_bytes()).await?;
                    found.as_deref().and_then(|value| value.try_into().ok()).map(u64::from_le_bytes)
                }
            };
            self.lookups.set(self.lookups.get() + 1);
            self.wrong.set(self.wrong.get() + u64::from(found != (key < KEYS).then(|| value_of(key))));
        }
        Ok(())
    }

    async fn ask_server(
        &self,
        number: u64,
        (key, asked): (u64, u64),
        client: &Client<SimFabric>,
        memory: &SimServer,
    ) -> Result<Option<u64>, IndexError> {
        let request: Vec<u8> = [key, asked].into_iter().flat_map(u64::to_le_bytes).collect();
        client.post(write_imm(self.buffers.request(number).part::<u8>(0), &request, number as u32)).await?;
        let at = self.buffers.response(number).address().offset();
        loop {
            let outcome = memory.local().load(at + OUTCOME)?;
            if outcome >> 1 == asked {
                // The value lies before the outcome, and a WRITE places its bytes in increasing address order.
                let value = memory.local().load(at + VALUE)?;
                return Ok((outcome & 1 == 1).then_some(value));
            }
            client.fabric().sleep(LOOK_NS).await;
        }
    }
}

/// Runs `clients` clients that look keys up, and measures them.
pub(crate) fn measure(scheme: Scheme, clients: u64) -> Result<LookupStats, Box<dyn std::error::Error>> {
    let mut card = NicModel::named("cx5-100g")?;
    card.server.cores = CORES;
    let spec = WorldSpec {
        memory_nodes: MACHINES as u16,
        compute_nodes: MACHINES,
        threads: 16,
        colocate: true,
        ..WorldSpec::small(card)
    };
    let world = World::new(spec)?;
    let creator = world.untimed(0);
    let entry = untimed(async {
        let tree = Sherman::create(&creator, "lookups", ShermanConfig::default(), CACHE_BYTES).await?;
        let entries = (0..KEYS).map(|key| (key.to_be_bytes(), value_of(key).to_le_bytes()));
        tree.bulk_load(&creator, entries, 0.8, |_| ()).await?;
        Ok::<_, IndexError>(tree.entry().slot)
    })?;
    let open = |machine| untimed(Sherman::open(&world.untimed(machine), "lookups", CACHE_BYTES));
    let run = LookupRun {
        world: &world,
        buffers: untimed(Buffers::new(&creator, entry))?,
        trees: (0..MACHINES).map(open).collect::<Result<_, _>>()?,
        scheme,
        clients,
        lookups: Cell::default(),
        wrong: Cell::default(),
        offloaded: Cell::default(),
    };
    let server = world.server(NodeId(0));
    let tasks: Vec<_> = (0..=TASKS).map(|_| (world.client(0), world.server(NodeId(0)))).collect();
    let senders: Vec<_> = (0..clients).map(|number| (number, world.client(machine_of(number)))).collect();
    let mut group = world.task_group();
    for (number, (client, server)) in tasks.iter().enumerate() {
        let run = &run;
        group.spawn(client, async move {
            let ended = if number < TASKS {
                run.answer(client, server).await
            } else {
                run.beat(client, server).await
            };
            ended.expect("the network works");
        });
    }
    for (number, client) in &senders {
        let run = &run;
        group.spawn(client, async move { run.ask(*number, client).await.expect("the network works") });
    }
    let from = (world.now(), server.worked());
    assert_eq!(group.run_until(from.0 + RUN_NS), RunOutcome::Time, "all run until the time limit");
    drop(group);
    let busy = (server.worked() - from.1) as f64 / (RUN_NS * u64::from(CORES)) as f64;
    let LookupRun { lookups, wrong, offloaded, .. } = &run;
    Ok(LookupStats { lookups: lookups.get(), wrong: wrong.get(), offloaded: offloaded.get(), busy })
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    for clients in [2, 32] {
        for scheme in [Scheme::Messages, Scheme::Reads, Scheme::Adaptive] {
            let LookupStats { lookups, wrong, offloaded, busy } = measure(scheme, clients)?;
            println!(
                "{clients:>2} clients, {scheme:?}: {:.0} k lookups/s, {wrong} wrong, {:.0} % by READs, \
                 server {:.0} % busy",
                lookups as f64 / RUN_NS as f64 * 1e6,
                100.0 * offloaded as f64 / lookups as f64,
                100.0 * busy
            );
        }
    }
    Ok(())
}
