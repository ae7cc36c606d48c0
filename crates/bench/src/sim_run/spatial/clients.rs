//! The tasks of a simulated spatial run: the threads of the server, and the clients.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use farwood_fabric::{Client, Fabric as _, Memory, NodeId, Remote, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, IdleChecks, Inbox, Reader, Rectangle, RingRpc, Service, ServiceSettings, TreeServer,
};
use farwood_sim::{Counts, SimFabric, SimMemory, SimServer, TaskGroup, World, untimed};

use super::{INDEX, VISIT_NS, message_ns, request_ns};
use crate::Result;
use crate::backend::spatial::access::SpatialAccess;
use crate::backend::spatial::client::next_request;
use crate::driver::stopwatch::{Stopwatch, Timed};
use crate::record::measurement::CostTotals;
use crate::spec::spatial::SpatialSpec;
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::RequestStream;

/// Offset of the inboxes of a machine's clients in its memory.
const INBOXES_OFFSET: u64 = 16 << 20;
/// Initial interval at which the server's threads poll their rings, in nanoseconds.
const POLL_NS: u64 = 200;

/// Connections of the server: clients search for a free one, beginning at the number of their machine.
pub(super) fn connections(spec: &SpatialSpec) -> usize {
    if spec.connects() { spec.clients() as usize + spec.compute_nodes + 1 } else { 0 }
}

/// The load of the server.
pub(super) struct ServerLoad {
    /// Share of its cores that were busy.
    pub(super) busy: f64,
    /// Data that its NIC sent, in Gb/s.
    pub(super) gbps: f64,
}

/// A thread of the server.
struct ServerThread {
    client: Client<SimFabric>,
    server: SimServer,
}

/// A simulated client of a spatial index, with its connection and its requests.
struct SimClient {
    client: Client<SimFabric>,
    /// The memory of its machine.
    memory: SimServer,
    inbox: Remote<[u8]>,
    machine: usize,
    stream: RefCell<RequestStream>,
    /// Seed of the back-off.
    seed: u64,
}

/// The server and all clients.
pub(super) struct SimSystem<'w> {
    spec: &'w SpatialSpec,
    world: &'w World,
    service: Service<'w>,
    threads: Vec<ServerThread>,
    /// The open index of each machine.
    indexes: Vec<Catfish>,
    clients: Vec<SimClient>,
    /// Clients that have not finished.
    active: Cell<usize>,
}

impl<'w> SimSystem<'w> {
    pub(super) fn new(
        spec: &'w SpatialSpec,
        world: &'w World,
        tree: &'w TreeServer,
        loaded: u64,
        windows: &Arc<[Rectangle]>,
    ) -> Result<SimSystem<'w>> {
        let card = &world.spec().card;
        let settings = ServiceSettings {
            notice: spec.variant.notice(),
            poll_ns: POLL_NS,
            message_ns: message_ns(card),
            wake_ns: card.server.wake_ns as u64,
            idle_checks: IdleChecks::Frequent,
            ..ServiceSettings::default()
        };
        let thread = |_| ServerThread {
            client: world.client(0),
            server: world.server(NodeId(0)).without_wake_up_cost(),
        };
        let open = |machine| untimed(Catfish::open(&world.untimed(machine), INDEX));
        let indexes: Result<Vec<_>, IndexError> = (0..=spec.compute_nodes).map(open).collect();
        let clients =
            (0..spec.clients()).map(|number| sim_client(spec, world, number, loaded, windows)).collect();
        Ok(SimSystem {
            spec,
            world,
            service: Service::new(tree, settings),
            threads: (0..connections(spec)).map(thread).collect(),
            indexes: indexes?,
            clients,
            active: Cell::new(spec.clients() as usize),
        })
    }

    /// Runs the server and the clients.
    pub(super) fn run(&self, stopwatch: &Stopwatch) -> Result<(Timed, ServerLoad)> {
        let system = self;
        let watch = system.world.client(0);
        let beats = system.world.client(0);
        let (server, load) = (system.world.server(NodeId(0)).without_wake_up_cost(), Cell::new(None));
        let mut group = system.world.task_group();
        system.spawn_server(&mut group, stopwatch, &server, &beats);
        group.spawn(&watch, async { load.set(Some(system.watch(stopwatch, &server, &watch).await)) });
        for client in &system.clients {
            group.spawn(&client.client, async {
                if let Err(error) = system.run_client(client, stopwatch).await {
                    stopwatch.fail(error);
                }
                system.active.set(system.active.get() - 1);
                if system.active.get() == 0 {
                    system.service.end();
                }
            });
        }
        let timed = stopwatch.run(system.world, group)?;
        Ok((timed, load.take().expect("the watch ends with the clients")))
    }

    fn spawn_server<'f>(
        &'f self,
        group: &mut TaskGroup<'f>,
        stopwatch: &'f Stopwatch,
        server: &'f SimServer,
        beats: &'f Client<SimFabric>,
    ) {
        if self.threads.is_empty() {
            return;
        }
        let service = &self.service;
        for (number, thread) in self.threads.iter().enumerate() {
            group.spawn(&thread.client, async move {
                if let Err(error) = service.connection(number, &thread.client, &thread.server).await {
                    stopwatch.fail(error);
                }
            });
        }
        group.spawn_server(async move {
            if let Err(error) = service.dispatch_until_end(server, beats).await {
                stopwatch.fail(error);
            }
        });
        let mut last = (self.world.now(), server.worked());
        let cores = f64::from(self.world.spec().card.server.cores);
        let busy = move || {
            let now = (self.world.now(), server.worked());
            let share = (now.1 - last.1) as f64 / ((now.0 - last.0).max(1) as f64 * cores);
            last = now;
            share
        };
        group.spawn(beats, async move {
            if let Err(error) = service.heartbeats(beats, server, busy).await {
                stopwatch.fail(error);
            }
        });
    }

    /// Samples the load of the server at the beginning and at the end of the measured phase.
    async fn watch(
        &self,
        stopwatch: &Stopwatch,
        server: &SimServer,
        client: &Client<SimFabric>,
    ) -> ServerLoad {
        let sample = || (self.world.now(), server.worked(), self.sent_bytes());
        let wait = stopwatch.begin().saturating_sub(self.world.now());
        client.fabric().sleep(wait).await;
        let begin = sample();
        let mut end = begin;
        while !stopwatch.is_over(client.fabric().now(), 0) && self.active.get() > 0 {
            client.fabric().sleep(WATCH_NS).await;
            end = sample();
        }
        let passed = (end.0 - begin.0).max(1) as f64;
        let cores = f64::from(self.world.spec().card.server.cores);
        ServerLoad {
            busy: (end.1 - begin.1) as f64 / (passed * cores),
            gbps: 8.0 * (end.2 - begin.2) as f64 / passed,
        }
    }

    /// Bytes that the server's NIC has sent: responses, and replies to READs and WRITEs.
    fn sent_bytes(&self) -> u64 {
        let wire = &self.world.spec().card.wire;
        let of = |all: &mut Counts, client: &Client<SimFabric>| *all += client.fabric().executed();
        let (mut ours, mut theirs) = (Counts::default(), Counts::default());
        self.threads.iter().for_each(|thread| of(&mut ours, &thread.client));
        self.clients.iter().for_each(|sim| of(&mut theirs, &sim.client));
        let responses = ours.bytes_written + ours.writes * wire.request_header_bytes;
        responses + theirs.bytes_read + theirs.verbs() * wire.response_header_bytes
    }

    /// Connects a client and runs it.
    #[expect(clippy::await_holding_refcell_ref, reason = "only this client uses its stream")]
    async fn run_client(&self, sim: &SimClient, stopwatch: &Stopwatch) -> Result<()> {
        let mut access = self.connect(sim).await?;
        let (client, mut done) = (&sim.client, 0);
        let search_ns = self.spec.search_ns.unwrap_or_else(|| request_ns(&self.world.spec().card));
        while !stopwatch.is_over(client.fabric().now(), done) {
            if self.spec.think_ns > 0 {
                client.fabric().sleep(self.spec.think_ns).await;
            }
            let start = client.fabric().now();
            let stream = &mut *sim.stream.borrow_mut();
            let (kind, counted) = next_request(&mut access, stream).await?;
            let costs = CostTotals::from(client.take_costs());
            if counted.offloaded > 0 {
                // The clients of a machine share its cores.
                sim.memory.compute(counted.offloaded * search_ns + costs.reads * VISIT_NS).await;
            }
            let costs = CostTotals { offloaded: counted.offloaded, found: counted.found, ..costs };
            done += stopwatch.record(kind, start..client.fabric().now(), &costs);
        }
        match access.into_connection() {
            Some(connection) => Ok(connection.close().await?),
            None => Ok(()),
        }
    }

    async fn connect<'f>(
        &'f self,
        sim: &'f SimClient,
    ) -> Result<SpatialAccess<'f, SimFabric, RingRpc<'f, SimFabric, SimMemory>, SimServer>> {
        let (index, variant) = (&self.indexes[sim.machine], self.spec.variant);
        let reader = Reader::new(index, &sim.client, variant.issue());
        let inbox = Inbox { local: sim.memory.local(), at: Some(sim.inbox) };
        let connection = if self.spec.connects() {
            Some(RingRpc::connect(index, &sim.client, inbox, variant.notice()).await?)
        } else {
            None
        };
        let _ = sim.client.take_costs();
        Ok(SpatialAccess::new(variant, reader, connection, sim.seed))
    }
}

/// Interval between two samples of the server's load, in nanoseconds.
const WATCH_NS: u64 = 1_000_000;

/// Creates client `number`. Consecutive clients share a machine.
fn sim_client(
    spec: &SpatialSpec,
    world: &World,
    number: u64,
    loaded: u64,
    windows: &Arc<[Rectangle]>,
) -> SimClient {
    debug_assert!(spec.variant != Variant::Local, "the spec refuses local searches");
    let (clients, machines) = (spec.clients(), spec.compute_nodes as u64);
    let machine = 1 + number * machines / clients;
    let node = NodeId(machine as u16);
    let inbox_bytes = spec.config().ring_bytes + 4096;
    let inbox = Remote::new(node, Memory::Host, INBOXES_OFFSET + number * inbox_bytes);
    SimClient {
        client: world.client(machine as usize),
        memory: world.server(node),
        inbox: inbox.expect("the inboxes fit in the memory of a machine"),
        machine: machine as usize,
        stream: RefCell::new(RequestStream::new(
            (spec.mix, spec.scale),
            Arc::clone(windows),
            (number, clients),
            loaded,
            spec.seed,
        )),
        seed: spec.seed ^ (number + 1),
    }
}
