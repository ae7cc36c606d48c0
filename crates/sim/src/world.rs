//! A simulated network: machines, their NICs, a pool in their memory, and virtual time.

use crate::addition::NodeAddition;
use crate::device::{CasInterceptor, ComputeNode, Counts, Device, MemoryNode, Nic, SimConnection};
use crate::fabric::SimFabric;
use crate::fault::{FaultCounts, FaultRule, InjectedFault};
use crate::memory::HostMemory;
use crate::nic_model::NicModel;
use crate::queue::{EventQueue, Key};
use crate::random::RandomStream;
use crate::server::SimServer;
use crate::stages::atomics::AtomicSlots;
use crate::stages::cpu::Thread;
use crate::stages::messages::{MessageCosts, NicDirection};
use crate::stages::nic_caches::NicCaches;
use crate::stages::outstanding::InFlight;
use crate::stages::pcie::PcieBus;
use crate::stages::send_queue::SendQueue;
use crate::stages::server::Cores;
use crate::stages::units::{ProcessingUnit, unit_of};
use crate::task_group::{RunOutcome, TaskGroup};
use crate::trace::{Trace, Tracing};
use farwood_fabric::superblock::HEADER_OFFSET;
use farwood_fabric::{Capabilities, Client, ClientId, Costs, NodeId, PoolShape, client_table};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Capabilities of the NICs that the papers use, which the simulated device implements.
///
/// READs fetch upward and do not overtake a WRITE, up to 1 KiB, and sample these bytes within 60 µs unless the PCIe bus
/// of the NIC model is extremely slow; lines are not torn; a request that arrives after a
/// WRITE was executed sees it; a WRITE that the NIC received is placed completely, even if its writer crashes. The
/// memory node's CPU sees a WRITE when it is placed, which is after its completion.
pub const CAPABILITIES: Capabilities = Capabilities {
    version_pair_bytes_max: 1024,
    brief_reads: true,
    whole_bytes: 64,
    write_upward: true,
    atomic_then_read: true,
    arrival_sees_write: true,
    write_beside_cas: true,
    masked_cas: true,
    write_survives_writer_bytes_max: usize::MAX,
    cpu_sees_write: false,
};

/// The parameters of a [`World`].
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// The NIC model of all machines.
    pub card: NicModel,
    /// Memory nodes.
    pub memory_nodes: u16,
    /// Compute nodes.
    pub compute_nodes: usize,
    /// Threads of each compute node. Clients are assigned round robin.
    pub threads: usize,
    /// Host memory of each memory node, bytes. Unused pages take no memory.
    pub host_bytes: u64,
    /// Device memory of each memory node, bytes; `None`: the amount of the NIC model.
    pub device_bytes: Option<u64>,
    /// Whether memory node i and compute node i are one machine, with one NIC.
    pub colocate: bool,
    /// NICs of each memory node; a client uses one of them. More than one breaks the order of arrivals, for tests.
    pub nics: usize,
    /// The capabilities that the fabric reports to clients.
    pub promised: Capabilities,
    /// The capabilities that the device implements. Tests implement fewer than reported, and expect a detected error.
    pub kept: Capabilities,
    /// Largest factor by which a PCIe transfer is slowed down, drawn for each transfer. 1 outside of tests. With
    /// larger values, one transfer overtakes another while both are in progress.
    pub stretch: u64,
    /// Whether every line of every transfer is a separate event.
    pub exhaustive: bool,
    /// The level of tracing.
    pub tracing: Tracing,
    /// Time after which a frozen compute node may be revoked, nanoseconds; `None`: only crashed nodes are revoked.
    pub lease_ns: Option<u64>,
    /// The addition of memory nodes while clients work; `None`: the pool has all memory nodes from the start.
    pub addition: Option<NodeAddition>,
    /// The faults to inject.
    pub rules: Vec<FaultRule>,
    /// Seed of all random choices.
    pub seed: u64,
}

impl WorldSpec {
    /// Two memory nodes of 64 MiB, and three compute nodes of one thread.
    pub fn small(card: NicModel) -> Self {
        let promised = Capabilities {
            brief_reads: card.reads_briefly(CAPABILITIES.version_pair_bytes_max),
            ..CAPABILITIES
        };
        Self {
            card,
            memory_nodes: 2,
            compute_nodes: 3,
            threads: 1,
            host_bytes: 64 << 20,
            device_bytes: None,
            colocate: false,
            nics: 1,
            promised,
            kept: CAPABILITIES,
            stretch: 1,
            exhaustive: false,
            tracing: Tracing::Off,
            lease_ns: None,
            addition: None,
            rules: Vec::new(),
            seed: 1,
        }
    }

    fn shape(&self) -> PoolShape {
        PoolShape {
            pool: self.seed | 1,
            nodes: self.memory_nodes,
            host_bytes: self.host_bytes,
            device_bytes: self.device_bytes.unwrap_or(self.card.memory.device_bytes),
        }
    }
}

/// The reason why a world cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated network cannot be created: {0}")]
pub struct WorldError(String);

/// A simulated network of machines, in virtual time.
///
/// ```
/// use farwood_fabric::{Memory, NodeId, Remote, faa, read, write};
/// use farwood_sim::{NicModel, World, WorldSpec};
///
/// let world = World::new(WorldSpec::small(NicModel::named("cx5-100g")?))?;
/// let clients = [world.client(0), world.client(1)];
/// let word = Remote::<u64>::new(NodeId(0), Memory::Host, 16 << 20).unwrap();
/// let mut group = world.task_group();
/// for client in &clients {
///     group.spawn(client, async move {
///         for _ in 0..100 {
///             client.post(faa(word, 1)).await.unwrap();
///         }
///     });
/// }
/// group.run()?;
/// let sum = world.block_on(async { clients[0].post(read(word)).await.unwrap().check(&()).unwrap().word() });
/// assert_eq!(sum, 200);
/// assert_eq!(clients[0].take_costs().round_trips, 101);
/// assert!(world.now() > 100_000, "a hundred round trips take more than 100 us");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct World {
    pub(crate) device: Rc<RefCell<Device>>,
    spec: WorldSpec,
    next_thread: RefCell<Vec<usize>>,
    observer: Key,
    blocking: Cell<bool>,
}

impl World {
    /// Creates the machines and an empty pool, and enters the compute nodes in its client table.
    ///
    /// # Errors
    /// [`WorldError`] if the parameters are impossible.
    pub fn new(spec: WorldSpec) -> Result<Self, WorldError> {
        if let Some(why) = refuse(&spec) {
            return Err(WorldError(why));
        }
        let mut device = device(&spec);
        device.threads.push(Thread::default());
        device.schedule_timed_rules();
        let world = Self {
            device: Rc::new(RefCell::new(device)),
            next_thread: RefCell::new(vec![0; spec.compute_nodes]),
            observer: (spec.compute_nodes * spec.threads) as Key,
            blocking: Cell::new(false),
            spec,
        };
        for node in 0..world.spec.compute_nodes {
            world.enter(node, node as u16);
        }
        Ok(world)
    }

    /// Enters a compute node in the client table at `slot`.
    fn enter(&self, compute_node: usize, slot: u16) {
        let client = self.untimed(compute_node);
        let entered = untimed(client_table::enter(&client, slot, compute_node as u64));
        let identity = entered.ok().flatten().expect("no other client takes the slot");
        self.device.borrow_mut().compute[compute_node].identity = identity;
    }

    /// Adds a compute node on its own machine and yields its number. The node takes the first free slot of the client
    /// table.
    ///
    /// # Panics
    /// If the client table is full.
    pub fn add_compute_node(&self) -> usize {
        let number = {
            let mut device = self.device.borrow_mut();
            device.nics.push(nic(&self.spec.card, self.spec.host_bytes));
            let first = device.threads.len();
            device.threads.resize_with(first + self.spec.threads, Thread::default);
            let threads = (first..first + self.spec.threads).map(|thread| thread as Key).collect();
            let nic = device.nics.len() - 1;
            device.compute.push(compute_node(nic, threads));
            device.compute.len() - 1
        };
        self.next_thread.borrow_mut().push(0);
        let client = self.untimed(number);
        let free = (0..client_table::CLIENTS_MAX as u16).find(|&slot| {
            let state = untimed(client_table::slot_state(&client, slot));
            state.is_ok_and(|state| !state.live)
        });
        self.enter(number, free.expect("the client table has a free slot"));
        number
    }

    /// Adds a compute node with one client. The node leaves the pool when the client is dropped.
    pub fn transient_client(&self) -> Client<SimFabric> {
        let fabric = self.client(self.add_compute_node()).fabric().clone();
        let membership = PoolMembership(SimFabric { untimed: true, ..fabric.clone() });
        Client::new(SimFabric { membership: Some(Rc::new(membership)), ..fabric })
    }

    /// The parameters that the world was created with.
    pub fn spec(&self) -> &WorldSpec {
        &self.spec
    }

    /// Creates a client of a compute node.
    pub fn client(&self, compute_node: usize) -> Client<SimFabric> {
        self.connect(compute_node, Timing::Virtual)
    }

    /// Creates a client of a compute node whose posts take no virtual time, for loading data and for checks after a
    /// run.
    pub fn untimed(&self, compute_node: usize) -> Client<SimFabric> {
        self.connect(compute_node, Timing::None)
    }

    fn connect(&self, compute: usize, timing: Timing) -> Client<SimFabric> {
        let untimed = timing == Timing::None;
        let mut device = self.device.borrow_mut();
        let threads = &device.compute[compute].threads;
        let mut next_thread = self.next_thread.borrow_mut();
        let thread = threads[next_thread[compute] % threads.len()];
        next_thread[compute] += usize::from(!untimed);
        let first_queue = device.queues.len();
        let client = device.connections.len() as Key;
        let queues = self.send_queues(&device, client);
        if !untimed {
            self.count_queue_pairs(&mut device, compute, &queues);
        }
        device.queues.extend(queues);
        let traced_as = device.timed_clients;
        device.timed_clients += u32::from(!untimed);
        device.connections.push(SimConnection {
            compute,
            thread,
            traced_as,
            first_queue,
            failed: None,
            lost: 0,
            counts: Counts::default(),
            aside: Costs::default(),
            intercepted_at: None,
        });
        Client::new(SimFabric {
            device: Rc::clone(&self.device),
            promised: device.promised,
            shape: Cell::new(device.shape_at_first()),
            identity: device.compute[compute].identity,
            client,
            untimed,
            membership: None,
        })
    }

    /// Counts the queue pairs of a client at the NICs of both ends.
    fn count_queue_pairs(&self, device: &mut Device, compute: usize, queues: &[SendQueue]) {
        let nic = device.compute[compute].nic;
        for queue in queues {
            for nic in [nic, queue.server] {
                device.nics[nic].caches.add_queue_pair(&self.spec.card);
            }
        }
    }

    /// The send queues of a client, one for each memory node.
    fn send_queues(&self, device: &Device, client: Key) -> Vec<SendQueue> {
        let queue = |node: &MemoryNode| {
            let server = node.nics[client as usize % node.nics.len()];
            let unit = unit_of(self.spec.seed, client, server, self.spec.card.units.count);
            SendQueue { server, unit, ..SendQueue::default() }
        };
        device.memory.iter().map(queue).collect()
    }

    /// Creates a server thread of a memory node.
    pub fn server(&self, node: NodeId) -> SimServer {
        SimServer::new(Rc::clone(&self.device), node)
    }

    /// Creates an empty group of tasks.
    pub fn task_group<'env>(&self) -> TaskGroup<'env> {
        TaskGroup::new(Rc::clone(&self.device))
    }

    /// Runs a future to its end, while posted verbs continue. The future takes no CPU time.
    ///
    /// # Panics
    /// If the future waits for an event that is not scheduled.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        assert!(!self.blocking.replace(true), "block_on within block_on");
        let output = RefCell::new(None);
        let mut group = self.task_group();
        group.spawn_on(self.observer, None, async { *output.borrow_mut() = Some(work.await) });
        let ended = group.run();
        drop(group);
        self.blocking.set(false);
        output.into_inner().unwrap_or_else(|| panic!("deadlock: {ended:?}"))
    }

    /// Virtual nanoseconds since the world was created.
    pub fn now(&self) -> u64 {
        self.device.borrow().queue.now
    }

    /// The verbs that the device has executed.
    pub fn counts(&self) -> Counts {
        let device = self.device.borrow();
        let mut counts = device.counts;
        for connection in &device.connections {
            counts += connection.counts;
        }
        counts
    }

    /// The number of injected faults of each kind.
    pub fn met(&self) -> FaultCounts {
        self.device.borrow().met
    }

    /// The injected faults, each with its time.
    pub fn injected_faults(&self) -> Vec<InjectedFault> {
        self.device.borrow().happened.clone()
    }

    /// The number of times that clients hit each coverage mark.
    pub fn marks(&self) -> BTreeMap<&'static str, u64> {
        self.device.borrow().marks.clone()
    }

    /// The events and the injected faults so far.
    pub fn trace(&self) -> Trace {
        let device = self.device.borrow();
        device.trace.clone().with_faults(device.happened.clone())
    }

    /// Adds bytes to the trace's digest, such as the contents of memory at the end of a run.
    pub fn write_down(&self, bytes: &[u8]) {
        self.device.borrow_mut().trace.add_bytes(bytes);
    }

    /// Whether a compute node has crashed.
    pub fn crashed(&self, compute_node: usize) -> bool {
        self.device.borrow().compute[compute_node].crashed
    }

    /// Whether a compute node has crashed, or was revoked.
    pub fn gone(&self, compute_node: usize) -> bool {
        let node = &self.device.borrow().compute[compute_node];
        node.crashed || node.revoked
    }

    /// Verbs that a compute node has sent.
    pub fn sent(&self, compute_node: usize) -> u64 {
        self.device.borrow().compute[compute_node].sent
    }

    /// Disables all fault rules. Faults in progress continue.
    pub fn end_rules(&self) {
        self.device.borrow_mut().rules_ended = true;
    }

    /// Makes each client lose every CAS in device memory once that would have succeeded: the device stores `word`
    /// there first, and restores the previous word after `nanoseconds`. Ends with [`end_rules`](Self::end_rules).
    pub fn intercept_every_cas(&self, word: u64, nanoseconds: u64) {
        self.device.borrow_mut().cas_interceptor = Some(CasInterceptor::new(word, nanoseconds));
    }

    /// Adds a fault rule. A rule whose time has passed applies now.
    pub fn add_rule(&self, rule: FaultRule) {
        let mut device = self.device.borrow_mut();
        if let crate::fault::FaultTrigger::Time(time) = rule.when {
            let number = device.rules.len() as Key;
            let time = time.max(device.queue.now);
            device.queue.at(time, crate::queue::Event::FaultRule(number));
        }
        device.rules.push(rule);
    }
}

/// Whether the posts of a client take virtual time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timing {
    /// They take the time of the NIC model.
    Virtual,
    /// They take none.
    None,
}

fn refuse(spec: &WorldSpec) -> Option<String> {
    if spec.compute_nodes == 0 || spec.threads == 0 || spec.nics == 0 {
        return Some("it needs at least one compute node, one thread and one NIC".to_owned());
    }
    if spec.compute_nodes > client_table::CLIENTS_MAX {
        return Some(format!("a pool has at most {} compute nodes", client_table::CLIENTS_MAX));
    }
    if spec.colocate && spec.nics > 1 {
        return Some("with `colocate`, a memory node has one NIC".to_owned());
    }
    if spec.addition.is_some_and(|addition| !(1..spec.memory_nodes).contains(&addition.nodes_before)) {
        return Some("a pool has memory nodes before others are added".to_owned());
    }
    spec.shape().refuse()
}

fn device(spec: &WorldSpec) -> Device {
    let shape = spec.shape();
    let memory_machines = usize::from(spec.memory_nodes);
    let mut nics = Vec::new();
    let memory = (0..memory_machines)
        .map(|node| {
            let first = nics.len();
            nics.extend((0..spec.nics).map(|_| nic(&spec.card, spec.host_bytes)));
            memory_node(&shape, node as u16, (first..nics.len()).collect())
        })
        .collect();
    let compute = (0..spec.compute_nodes)
        .map(|node| {
            let shared = spec.colocate && node < memory_machines;
            let nic = if shared {
                node * spec.nics
            } else {
                nics.push(nic(&spec.card, spec.host_bytes));
                nics.len() - 1
            };
            let threads = (0..spec.threads).map(|thread| (node * spec.threads + thread) as Key).collect();
            compute_node(nic, threads)
        })
        .collect();
    Device {
        costs: MessageCosts::new(&spec.card),
        card: spec.card.clone(),
        promised: spec.promised,
        kept: spec.kept,
        shape,
        exhaustive: spec.exhaustive,
        stretch: spec.stretch,
        lease_ns: spec.lease_ns,
        addition: spec.addition,
        queue: EventQueue::default(),
        nics,
        memory,
        compute,
        threads: vec![Thread::default(); spec.compute_nodes * spec.threads],
        connections: Vec::new(),
        queues: Vec::new(),
        doorbells: slab::Slab::new(),
        verbs: slab::Slab::new(),
        timers: slab::Slab::new(),
        timed_clients: 0,
        thread_time: None,
        posted: 0,
        counts: Counts::default(),
        rules: spec.rules.clone(),
        met: FaultCounts::default(),
        rules_ended: false,
        cas_interceptor: None,
        happened: Vec::new(),
        random: RandomStream::new(spec.seed, "device"),
        marks: BTreeMap::new(),
        trace: Trace::new(spec.tracing),
        paused: None,
        lock_tag: 0,
        crews: 0,
        server_threads: 0,
        crashed_nodes: Vec::new(),
    }
}

/// A NIC of a machine with `registered` bytes of registered memory.
fn nic(card: &NicModel, registered: u64) -> Nic {
    Nic {
        out: NicDirection::default(),
        into: NicDirection::default(),
        in_flight: InFlight::default(),
        caches: NicCaches::new(card, registered),
        units: vec![ProcessingUnit::default(); card.units.count as usize],
        slots: AtomicSlots::new(&card.atomics),
        bus: PcieBus::new(&card.pcie, card.wire.mtu_bytes),
        slowdown: 1,
    }
}

fn memory_node(shape: &PoolShape, node: u16, nics: Vec<usize>) -> MemoryNode {
    let mut host = HostMemory::new(shape.host_bytes as usize);
    let header = shape.header(NodeId(node));
    host[HEADER_OFFSET as usize..HEADER_OFFSET as usize + header.len()].copy_from_slice(&header);
    for (offset, word) in PoolShape::first_words() {
        host[offset as usize..offset as usize + 8].copy_from_slice(&u64::to_le_bytes(word));
    }
    MemoryNode {
        host,
        device: vec![0; shape.device_bytes as usize],
        open: Vec::new(),
        nics,
        down_until: 0,
        immediates: VecDeque::new(),
        receivers: Vec::new(),
        cores: Cores::default(),
    }
}

fn compute_node(nic: usize, threads: Vec<Key>) -> ComputeNode {
    ComputeNode {
        identity: ClientId { slot: 0, epoch: 0 },
        nic,
        threads,
        crashed: false,
        revoked: false,
        frozen: None,
        sent: 0,
        partitioned: Vec::new(),
    }
}

/// A compute node's attachment to the pool. Dropping it expires the identity.
pub(crate) struct PoolMembership(SimFabric);

impl Drop for PoolMembership {
    fn drop(&mut self) {
        let table = Client::new(&self.0);
        let left = untimed(client_table::expire(&table, self.0.identity));
        debug_assert!(left.is_ok(), "a word of the client table can be swapped");
    }
}

/// Runs a future whose posts take no virtual time.
///
/// # Panics
/// If the future waits for something else.
pub fn untimed<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future without virtual time waits"),
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// Converts the outcome of a run that should have ended.
pub(crate) fn ended(ended: RunOutcome) -> Result<(), crate::Stuck> {
    match ended {
        RunOutcome::Done | RunOutcome::Time => Ok(()),
        RunOutcome::Stuck(tasks) => Err(crate::Stuck(tasks)),
    }
}
