//! A fabric in one thread, for tests: memory nodes are byte vectors, a doorbell is executed when it is posted, and
//! time is a counter.
//!
//! It is correct by default. [`Faults`] break promises that other fabrics make: a READ or WRITE is cut into pieces
//! between which other clients run, READs overtake atomics, WRITEs take effect late. A [`Bug`] breaks the contract of
//! all fabrics. Both serve to test that the litmus programs and the checks of the contract find violations.

mod execute;
mod flight;
mod time;

use crate::harness::{self, Harness, ServerHarness, TestRng};
use execute::{LateWrite, Writing};
use farwood_fabric::client_table::{self, CLIENTS_MAX};
use farwood_fabric::superblock::{HEADER_BYTES, HEADER_OFFSET};
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, Memory, NodeId, Op, PoolShape,
    Request, Revocation, Server, ServerMemory,
};
use flight::{DetachedPost, Flight, PostId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::rc::{Rc, Weak};
use time::{Sleep, YieldOnce};

/// The promises of a correct loopback fabric: all but those about time.
pub const EVERYTHING: Capabilities = Capabilities {
    version_pair_bytes_max: usize::MAX,
    // The loopback has no time.
    brief_reads: false,
    whole_bytes: usize::MAX,
    write_upward: true,
    atomic_then_read: true,
    arrival_sees_write: true,
    write_beside_cas: true,
    masked_cas: true,
    write_survives_writer_bytes_max: usize::MAX,
    cpu_sees_write: true,
};

/// Two memory nodes of 64 MiB.
pub const SMALL: PoolShape =
    PoolShape { pool: 0x100B, nodes: 2, host_bytes: 64 << 20, device_bytes: 256 << 10 };

/// The order in which the pieces of a transfer are copied while other clients run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copying {
    /// All bytes at once: no other client runs during the transfer.
    #[default]
    Whole,
    /// In increasing address order.
    Upward,
    /// In decreasing address order.
    Downward,
}

/// The promises that the fabric breaks.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each breaks a different promise")]
pub struct Faults {
    /// The order in which READs are copied.
    pub reads: Copying,
    /// The order in which WRITEs are copied.
    pub writes: Copying,
    /// Aligned bytes that are copied at once if a transfer is cut. Less than 8 breaks a promise of every fabric.
    pub piece_bytes: usize,
    /// A READ that saw some new bytes of a WRITE does not overtake that WRITE. NICs do this when both are copied
    /// upward.
    pub reads_stay_behind: bool,
    /// Posts with atomics are complete when the call returns, so none can be dropped halfway. Shared memory does this.
    pub atomics_at_once: bool,
    /// A READ is executed before the atomic or READ that precedes it in its chain.
    pub read_overtakes: bool,
    /// The later of two WRITEs in a chain takes effect first.
    pub write_overtakes: bool,
    /// A WRITE is answered long before other clients see it.
    pub write_is_late: bool,
    /// WRITEs of other clients between an atomic's load and its store of the same word are lost.
    pub atomic_loses_writes: bool,
    /// Other atomics can run between an atomic's load and its store.
    pub atomic_races: bool,
    /// A failed compare-and-swap stores the word that it found, so WRITEs in between are lost.
    pub failed_cas_stores: bool,
}

impl Faults {
    /// No faults: the fabric keeps all promises.
    pub const NONE: Self = Self {
        reads: Copying::Whole,
        writes: Copying::Whole,
        piece_bytes: 8,
        reads_stay_behind: false,
        atomics_at_once: false,
        read_overtakes: false,
        write_overtakes: false,
        write_is_late: false,
        atomic_loses_writes: false,
        atomic_races: false,
        failed_cas_stores: false,
    };
}

/// A violation of the contract of all fabrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An unaligned WRITE clears the byte after its range.
    NeighbourCleared,
    /// A READ does not fill the last word of its buffer.
    ReadShort,
    /// A masked CAS compares and replaces all bits.
    MaskIgnored,
    /// FAA stops at the largest number.
    AddSaturates,
    /// A failed CAS stores its new word.
    CasAlwaysSwaps,
    /// A failed CAS reports success.
    CasReportsSuccess,
    /// Chains are executed last verb first.
    ChainReversed,
    /// Detached verbs are dropped.
    DetachedLost,
    /// The failure of detached verbs is not reported.
    DetachedFailureSilent,
    /// Verbs that leave a memory node are cut off at its end.
    RangeUnchecked,
    /// Atomics work at any address.
    AlignmentUnchecked,
    /// All compute nodes have the identity of the first.
    IdentityShared,
    /// Revoking a live client succeeds.
    RevokesLiveClients,
    /// Time sometimes decreases.
    ClockBack,
    /// Dropping the future of a post cancels its verbs.
    DropCancels,
    /// An immediate is delivered before the bytes.
    ImmediateFirst,
}

/// The settings of a [`Loopback`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The memory nodes.
    pub shape: PoolShape,
    /// The promises that the fabric declares.
    pub promises: Capabilities,
    /// The promises that it breaks.
    pub faults: Faults,
    /// The violation of the contract that the fabric commits, if any.
    pub bug: Option<Bug>,
    /// Seed of the interleaving of clients.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { shape: SMALL, promises: EVERYTHING, faults: Faults::NONE, bug: None, seed: 1 }
    }
}

/// A pool of memory nodes in this thread, which creates its clients.
#[derive(Clone)]
pub struct Loopback(Rc<World>);

struct World {
    settings: Settings,
    /// The compute node of [`Harness::client`], while it has clients.
    shared: RefCell<Weak<Member>>,
    state: RefCell<State>,
}

struct State {
    nodes: Vec<Node>,
    clients: BTreeSet<ClientId>,
    now: u64,
    /// Counts all actions. A sleeper for which the count stays the same is the only active client.
    progress: u64,
    /// Deadlines of sleeping clients, and the number of clients for each.
    sleepers: BTreeMap<u64, usize>,
    late_writes: VecDeque<LateWrite>,
    /// WRITEs in progress that READs must not overtake.
    writing: BTreeMap<u64, Writing>,
    /// Posts in progress whose futures were dropped.
    detached: Vec<DetachedPost>,
    /// The ids of the detached posts, ordered by connection, including posts that are being polled.
    detached_ids: BTreeSet<PostId>,
    /// Number of posts, and of connections.
    posts: u64,
    connections: u64,
    /// Tag of the last acquisition of a lock.
    lock_tags: u16,
    /// Words of atomics that are between load and store.
    busy: BTreeSet<Address>,
    /// Coverage marks, and how often each was passed.
    marks: BTreeMap<&'static str, u64>,
    random: TestRng,
}

/// One memory node.
struct Node {
    host: Vec<u8>,
    device: Vec<u8>,
    immediates: VecDeque<u32>,
}

impl Node {
    fn new(shape: &PoolShape, node: NodeId) -> Self {
        let mut host = vec![0; shape.host_bytes as usize];
        host[HEADER_OFFSET as usize..][..HEADER_BYTES].copy_from_slice(&shape.header(node));
        for (offset, word) in PoolShape::first_words() {
            host[offset as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
        Self { host, device: vec![0; shape.device_bytes as usize], immediates: VecDeque::new() }
    }

    fn memory(&mut self, memory: Memory) -> &mut Vec<u8> {
        match memory {
            Memory::Host => &mut self.host,
            Memory::Device => &mut self.device,
        }
    }
}

impl Default for Loopback {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Loopback {
    /// Creates a pool of empty memory nodes.
    ///
    /// # Panics
    /// If the shape is invalid.
    pub fn new(settings: Settings) -> Self {
        assert_eq!(settings.shape.refuse(), None, "a valid shape");
        let nodes = (0..settings.shape.nodes).map(|node| Node::new(&settings.shape, NodeId(node))).collect();
        let state = State {
            nodes,
            clients: BTreeSet::new(),
            now: 1,
            progress: 0,
            sleepers: BTreeMap::new(),
            late_writes: VecDeque::new(),
            writing: BTreeMap::new(),
            detached: Vec::new(),
            detached_ids: BTreeSet::new(),
            posts: 0,
            connections: 0,
            lock_tags: 0,
            busy: BTreeSet::new(),
            marks: BTreeMap::new(),
            random: TestRng::new(settings.seed),
        };
        Self(Rc::new(World { settings, shared: RefCell::default(), state: RefCell::new(state) }))
    }

    /// Kills a client: its verbs fail from now on, it can be revoked, and its slot stays in use until another client
    /// expires it.
    pub fn kill(&self, client: ClientId) {
        self.0.state.borrow_mut().clients.remove(&client);
    }

    /// The number of times that clients passed a coverage mark.
    pub fn marked(&self, mark: &str) -> u64 {
        self.0.state.borrow().marks.get(mark).copied().unwrap_or(0)
    }

    /// Runs posts whose futures were dropped until they end.
    pub fn finish(&self) {
        while !self.0.state.borrow().detached.is_empty() {
            self.0.progress();
        }
    }

    /// Drops posts in progress whose futures were dropped. They would keep the pool's memory allocated.
    pub fn drop_detached(&self) {
        let detached = std::mem::take(&mut self.0.state.borrow_mut().detached);
        drop(detached);
    }

    /// Another client of the compute node that `client` belongs to.
    pub fn sibling(&self, client: &Client<LoopbackFabric>) -> Client<LoopbackFabric> {
        let fabric = client.fabric();
        self.connect(fabric.identity, fabric.member.clone())
    }

    /// A client of compute node `identity`. It keeps its member, if any, in the pool.
    fn connect(&self, identity: ClientId, member: Option<Rc<Member>>) -> Client<LoopbackFabric> {
        let (world, failure) = (Rc::clone(&self.0), RefCell::new(None));
        world.state.borrow_mut().connections += 1;
        let connection = world.state.borrow().connections;
        Client::new(LoopbackFabric { world, identity, connection, member, failure })
    }

    /// Enters a new compute node into the pool.
    fn enter(&self) -> Rc<Member> {
        let client = self.connect(NO_COMPUTE_NODE, None);
        for slot in 0..CLIENTS_MAX as u16 {
            let looked = harness::poll_until_ready(client_table::slot_state(&client, slot))
                .expect("the client table is readable");
            if looked.live {
                continue;
            }
            let entered = harness::poll_until_ready(client_table::enter(&client, slot, 0));
            let identity = entered.expect("the client table is readable").expect("no other client enters");
            self.0.state.borrow_mut().clients.insert(identity);
            return Rc::new(Member { world: Rc::clone(&self.0), identity });
        }
        panic!("all {CLIENTS_MAX} client slots are taken")
    }
}

/// The identity of clients that belong to no compute node.
const NO_COMPUTE_NODE: ClientId = ClientId { slot: 0, epoch: 0 };

/// A compute node in the pool. It leaves when its last client is dropped.
struct Member {
    world: Rc<World>,
    identity: ClientId,
}

impl Drop for Member {
    fn drop(&mut self) {
        let alive = self.world.state.borrow_mut().clients.remove(&self.identity);
        if alive {
            let client = Loopback(Rc::clone(&self.world)).connect(NO_COMPUTE_NODE, None);
            let left = harness::poll_until_ready(client_table::expire(&client, self.identity));
            left.expect("the client table is readable");
        }
    }
}

impl Harness for Loopback {
    type Fabric = LoopbackFabric;

    fn client(&self) -> Client<LoopbackFabric> {
        let member = self.0.shared.borrow().upgrade();
        let member = member.unwrap_or_else(|| self.enter());
        *self.0.shared.borrow_mut() = Rc::downgrade(&member);
        self.connect(member.identity, Some(member))
    }

    fn separate_client(&self) -> Client<LoopbackFabric> {
        if self.0.settings.bug == Some(Bug::IdentityShared) {
            return self.client();
        }
        let member = self.enter();
        self.connect(member.identity, Some(member))
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        time::drive(work)
    }

    fn run_clients<T: Send>(
        &self,
        count: usize,
        work: impl AsyncFn(usize, Client<LoopbackFabric>) -> T + Sync,
    ) -> Vec<T> {
        harness::round_robin(self, count, work)
    }

    fn shape(&self) -> PoolShape {
        self.0.settings.shape
    }
}

impl ServerHarness for Loopback {
    type Server = LoopbackServer;

    fn server(&self, node: NodeId) -> LoopbackServer {
        LoopbackServer { local: LoopbackMemory { world: Rc::clone(&self.0), node } }
    }

    fn serve<S: Send, C: Send>(
        &self,
        server: impl AsyncFnOnce(LoopbackServer) -> S + Send,
        client: impl AsyncFnOnce(Client<LoopbackFabric>) -> C + Send,
    ) -> (S, C) {
        let (served, asked) = (Cell::new(None), Cell::new(None));
        let server = async { served.set(Some(server(self.server(NodeId(0))).await)) };
        let client = async { asked.set(Some(client(self.client()).await)) };
        harness::poll_until_ready(time::both(server, client));
        let (Some(server), Some(client)) = (served.into_inner(), asked.into_inner()) else {
            unreachable!("server and client ended")
        };
        (server, client)
    }
}

/// The connection of one client to a [`Loopback`].
pub struct LoopbackFabric {
    world: Rc<World>,
    identity: ClientId,
    connection: u64,
    /// Keeps the compute node in the pool; `None` for clients of no compute node.
    member: Option<Rc<Member>>,
    /// The failure of a detached post.
    failure: RefCell<Option<FabricError>>,
}

impl LoopbackFabric {
    fn admit(&self) -> Result<(), FabricError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let known = self.member.is_none() || self.world.state.borrow().clients.contains(&self.identity);
        if known { Ok(()) } else { Err(FabricError::Revoked(self.identity)) }
    }
}

impl LoopbackFabric {
    fn flight(&self, doorbell: Doorbell) -> Flight {
        Flight::new(&self.world, self.connection, self.identity, doorbell)
    }
}

impl Fabric for LoopbackFabric {
    fn capabilities(&self) -> &Capabilities {
        &self.world.settings.promises
    }

    fn shape(&self) -> PoolShape {
        self.world.settings.shape
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }

    fn identity(&self) -> ClientId {
        self.identity
    }

    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        self.admit()?;
        if self.world.settings.bug == Some(Bug::DropCancels) {
            YieldOnce::new(&self.world).await;
        }
        let atomic = |request: &Request| !matches!(request.op, Op::Read { .. } | Op::Write { .. });
        if self.world.settings.faults.atomics_at_once && doorbell.requests().iter().any(atomic) {
            return time::drive(self.flight(doorbell));
        }
        let doorbell = self.flight(doorbell).await?;
        self.world.maybe_yield().await;
        Ok(doorbell)
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        if self.world.settings.bug == Some(Bug::DetachedLost) {
            return Some(doorbell);
        }
        // All errors of a doorbell are found before any verb of it is executed.
        if let Err(failure) = self.world.check_all(&doorbell) {
            if self.world.settings.bug != Some(Bug::DetachedFailureSilent) {
                *self.failure.borrow_mut() = Some(failure);
            }
            return Some(doorbell);
        }
        self.flight(doorbell).finish_or_detach()?.ok()
    }

    fn lock_tag(&self) -> u16 {
        let mut state = self.world.state.borrow_mut();
        state.lock_tags = state.lock_tags.checked_add(1).unwrap_or(1);
        state.lock_tags
    }

    fn now(&self) -> u64 {
        let mut state = self.world.state.borrow_mut();
        state.now += 1;
        match self.world.settings.bug {
            Some(Bug::ClockBack) if state.now.is_multiple_of(64) => state.now - 50,
            _ => state.now,
        }
    }

    async fn sleep(&self, nanoseconds: u64) {
        Sleep::new(&self.world, nanoseconds).await;
    }

    /// The alarm never completes, because the loopback polls every operation that is woken.
    fn alarm(&self, _: u64) -> impl Future<Output = ()> {
        std::future::pending()
    }

    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        let alive = self.world.state.borrow().clients.contains(&client);
        if alive && self.world.settings.bug != Some(Bug::RevokesLiveClients) {
            return Ok(Revocation::Alive);
        }
        Ok(Revocation::Gone)
    }

    async fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        self.world.range(at, bytes as usize).map(|_| ())
    }

    fn record_coverage(&self, mark: &'static str) {
        *self.world.state.borrow_mut().marks.entry(mark).or_default() += 1;
    }
}

/// The server of one memory node of a [`Loopback`].
pub struct LoopbackServer {
    local: LoopbackMemory,
}

impl Server for LoopbackServer {
    type Local = LoopbackMemory;

    fn local(&self) -> &LoopbackMemory {
        &self.local
    }

    async fn receive(&self) -> Result<u32, FabricError> {
        loop {
            let node = usize::from(self.local.node.0);
            let immediate = self.local.world.state.borrow_mut().nodes[node].immediates.pop_front();
            match immediate {
                Some(immediate) => return Ok(immediate),
                None => time::idle().await,
            }
        }
    }

    async fn compute(&self, nanoseconds: u64) {
        self.local.world.state.borrow_mut().now += nanoseconds;
        YieldOnce::new(&self.local.world).await;
    }

    async fn busy_wait(&self, nanoseconds: u64) {
        self.compute(nanoseconds).await;
    }
}

/// The local memory of a memory node.
pub struct LoopbackMemory {
    world: Rc<World>,
    node: NodeId,
}

impl LoopbackMemory {
    fn at(&self, offset: u64) -> Result<std::ops::Range<usize>, FabricError> {
        let address = Address::new(self.node, Memory::Host, offset);
        let at = address.ok_or(FabricError::NodeLost { node: self.node, why: "offset 0".to_owned() })?;
        self.world.range(at, 8)
    }
}

impl ServerMemory for LoopbackMemory {
    fn load(&self, offset: u64) -> Result<u64, FabricError> {
        let range = self.at(offset)?;
        let state = self.world.state.borrow();
        let bytes = &state.nodes[usize::from(self.node.0)].host[range];
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError> {
        let range = self.at(offset)?;
        let mut state = self.world.state.borrow_mut();
        state.nodes[usize::from(self.node.0)].host[range].copy_from_slice(&word.to_le_bytes());
        Ok(())
    }
}
