//! Everybody in the laboratory's run: the threads of the server, and the clients.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use farwood_fabric::{Client, Fabric as _, Memory, NodeId, Remote, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::adaptive::BackOff;
use farwood_index::catfish::{
    Catfish, Inbox, Messenger, Reader, Rectangle, Service, ServiceSettings, Switch, TreeServer,
};
use farwood_sim::{Counts, Crew, SimFabric, SimMemory, SimServer, World, at_once};

use super::super::stopwatch::{Stopwatch, Timed};
use super::access::Access;
use super::laboratory::{VISIT_NS, message_ns};
use super::seat::next_request;
use super::{SpatialSpec, Variant};
use crate::Result;
use crate::measure::CostTotals;
use crate::rectangles::RequestStream;

/// The name of the run's index.
const INDEX: &str = "bench";
/// Where the inboxes of a machine's clients begin in its memory.
const INBOXES_OFFSET: u64 = 16 << 20;
/// Nanoseconds between two looks of the server's threads at their rings, at first.
const LOOK_NS: u64 = 200;

/// How many connections the server must look after: clients look for a free one from their machine's number on.
pub(super) fn connections(spec: &SpatialSpec) -> usize {
    if spec.connects() { spec.clients() as usize + spec.compute_nodes + 1 } else { 0 }
}

/// How busy the server was.
pub(super) struct Load {
    /// Share of its cores.
    pub(super) busy: f64,
    /// What its card sent.
    pub(super) gbps: f64,
}

/// A thread of the server.
struct Thread {
    client: Client<SimFabric>,
    server: SimServer,
}

/// A client's seat.
struct Seat {
    client: Client<SimFabric>,
    /// Its machine's memory.
    memory: SimServer,
    inbox: Remote<[u8]>,
    machine: usize,
    stream: RefCell<RequestStream>,
    /// Of the back-off.
    seed: u64,
}

/// The server and all clients.
pub(super) struct Fleet<'w> {
    spec: &'w SpatialSpec,
    world: &'w World,
    service: Service<'w>,
    threads: Vec<Thread>,
    /// Each machine's own.
    indexes: Vec<Catfish>,
    seats: Vec<Seat>,
    /// Clients that are still at work.
    left: Cell<usize>,
}

impl<'w> Fleet<'w> {
    pub(super) fn new(
        spec: &'w SpatialSpec,
        world: &'w World,
        tree: &'w TreeServer,
        loaded: u64,
        windows: &Arc<[Rectangle]>,
    ) -> Result<Fleet<'w>> {
        let card = &world.spec().card;
        let settings = ServiceSettings {
            notice: spec.variant.notice(),
            poll_ns: LOOK_NS,
            message_ns: message_ns(card),
            wake_ns: card.server.wake_ns as u64,
            ..ServiceSettings::default()
        };
        let thread = |_| Thread { client: world.client(0), server: world.server(NodeId(0)).always_awake() };
        let open = |machine| at_once(Catfish::open(&world.at_once(machine), INDEX));
        let indexes: Result<Vec<_>, IndexError> = (0..=spec.compute_nodes).map(open).collect();
        let seats = (0..spec.clients()).map(|number| seat(spec, world, number, loaded, windows)).collect();
        Ok(Fleet {
            spec,
            world,
            service: Service::new(tree, settings),
            threads: (0..connections(spec)).map(thread).collect(),
            indexes: indexes?,
            seats,
            left: Cell::new(spec.clients() as usize),
        })
    }

    /// Lets all of them work.
    pub(super) fn run(&mut self, stopwatch: &Stopwatch) -> Result<(Timed, Load)> {
        let fleet = &*self;
        let watch = fleet.world.client(0);
        let beats = fleet.world.client(0);
        let (server, load) = (fleet.world.server(NodeId(0)).always_awake(), Cell::new(None));
        let mut crew = fleet.world.crew();
        fleet.spawn_server(&mut crew, stopwatch, &server, &beats);
        crew.spawn(&watch, async { load.set(Some(fleet.watch(stopwatch, &server, &watch).await)) });
        for seat in &fleet.seats {
            crew.spawn(&seat.client, async {
                if let Err(error) = fleet.attend(seat, stopwatch).await {
                    stopwatch.fail(error);
                }
                fleet.left.set(fleet.left.get() - 1);
                if fleet.left.get() == 0 {
                    fleet.service.end();
                }
            });
        }
        let timed = stopwatch.run(fleet.world, crew)?;
        Ok((timed, load.take().expect("who watches comes to an end")))
    }

    fn spawn_server<'f>(
        &'f self,
        crew: &mut Crew<'f>,
        stopwatch: &'f Stopwatch,
        server: &'f SimServer,
        beats: &'f Client<SimFabric>,
    ) {
        if self.threads.is_empty() {
            return;
        }
        let service = &self.service;
        for (number, thread) in self.threads.iter().enumerate() {
            crew.spawn(&thread.client, async move {
                if let Err(error) = service.connection(number, &thread.client, &thread.server).await {
                    stopwatch.fail(error);
                }
            });
        }
        crew.spawn_server(async move {
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
        crew.spawn(beats, async move {
            if let Err(error) = service.heartbeats(beats, server, busy).await {
                stopwatch.fail(error);
            }
        });
    }

    /// Looks at the server when the measured phase begins, and when it ends.
    async fn watch(&self, stopwatch: &Stopwatch, server: &SimServer, client: &Client<SimFabric>) -> Load {
        let look = || (self.world.now(), server.worked(), self.sent_bytes());
        let wait = stopwatch.from().saturating_sub(self.world.now());
        client.fabric().sleep(wait).await;
        let begin = look();
        let mut end = begin;
        while !stopwatch.is_over(client.fabric().now(), 0) && self.left.get() > 0 {
            client.fabric().sleep(WATCH_NS).await;
            end = look();
        }
        let passed = (end.0 - begin.0).max(1) as f64;
        let cores = f64::from(self.world.spec().card.server.cores);
        Load {
            busy: (end.1 - begin.1) as f64 / (passed * cores),
            gbps: 8.0 * (end.2 - begin.2) as f64 / passed,
        }
    }

    /// What the server's card has sent: responses, and answers to READs and WRITEs.
    fn sent_bytes(&self) -> u64 {
        let wire = &self.world.spec().card.wire;
        let of = |all: &mut Counts, client: &Client<SimFabric>| *all += client.fabric().executed();
        let (mut ours, mut theirs) = (Counts::default(), Counts::default());
        self.threads.iter().for_each(|thread| of(&mut ours, &thread.client));
        self.seats.iter().for_each(|seat| of(&mut theirs, &seat.client));
        let responses = ours.bytes_written + ours.writes * wire.request_header_bytes;
        responses + theirs.bytes_read + theirs.verbs() * wire.response_header_bytes
    }

    /// A client's work, from its connection on.
    #[expect(clippy::await_holding_refcell_ref, reason = "nobody but the seat's client has its stream")]
    async fn attend(&self, seat: &Seat, stopwatch: &Stopwatch) -> Result<()> {
        let mut access = self.connect(seat).await?;
        let (client, mut done) = (&seat.client, 0);
        while !stopwatch.is_over(client.fabric().now(), done) {
            if self.spec.think_ns > 0 {
                client.fabric().sleep(self.spec.think_ns).await;
            }
            let start = client.fabric().now();
            let stream = &mut *seat.stream.borrow_mut();
            let (kind, counted) = next_request(&mut access, stream).await?;
            let costs = CostTotals::from(client.take_costs());
            if counted.offloaded > 0 {
                // The processor time of looking at nodes is the client's now.
                client.fabric().spend((costs.reads * VISIT_NS) as f64);
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
        seat: &'f Seat,
    ) -> Result<Access<'f, SimFabric, Messenger<'f, SimFabric, SimMemory>, SimServer>> {
        let (index, variant) = (&self.indexes[seat.machine], self.spec.variant);
        let reader = || Reader::new(index, &seat.client, variant.issue());
        let inbox = Inbox { local: seat.memory.local(), at: Some(seat.inbox) };
        let connection = if self.spec.connects() {
            Some(Messenger::connect(index, &seat.client, inbox, variant.notice()).await?)
        } else {
            None
        };
        let _ = seat.client.take_costs();
        Ok(match (variant.rule(), connection) {
            (Some(rule), Some(connection)) => {
                let back_off = BackOff::new(SpatialSpec::back_off(rule), seat.seed);
                Access::Switch(Switch { connection, reader: reader(), back_off })
            }
            (None, Some(connection)) if variant.messages() => Access::Messages(connection),
            (_, connection) => Access::Reads(reader(), connection),
        })
    }
}

/// Nanoseconds between two looks of who watches the server.
const WATCH_NS: u64 = 1_000_000;

/// The seat of client `number`: clients of one machine follow each other.
fn seat(spec: &SpatialSpec, world: &World, number: u64, loaded: u64, windows: &Arc<[Rectangle]>) -> Seat {
    debug_assert!(spec.variant != Variant::Local, "the spec was checked");
    let (clients, machines) = (spec.clients(), spec.compute_nodes as u64);
    let machine = 1 + number * machines / clients;
    let node = NodeId(machine as u16);
    let room = spec.config().ring_bytes + 4096;
    let inbox = Remote::new(node, Memory::Host, INBOXES_OFFSET + number * room);
    Seat {
        client: world.client(machine as usize),
        memory: world.server(node),
        inbox: inbox.expect("inboxes lie within the memory of a machine"),
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
