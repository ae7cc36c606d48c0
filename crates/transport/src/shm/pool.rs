//! A pool of shared-memory nodes, and this process's attachment to it.

use super::error::ShmError;
use super::immediates::Immediates;
use super::journal::{Journal, Lanes, Refused, Target, WRITE_BYTES_MAX};
use super::name::PoolName;
use super::pages::Pages;
use super::presence::Presence;
use super::segment::{Backing, Segment, SegmentDir, SegmentSpec};
use super::sys::{self, Access, Mapping};
use crate::runtime::{block_on, thread_number};
use crate::timers::{look_for, sleep};
use farwood_fabric::superblock::{HEADER_BYTES, HEADER_OFFSET};
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, LINE_WORDS, LocalMemory, Memory,
    NodeId, Op, PoolShape, Revocation, Server, client_table,
};
use std::cell::RefCell;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// What two processors that copy through shared memory promise.
///
/// READs copy downward and WRITEs upward, so that a pair of versions proves a copy of any size whole
/// ([`copying`](super::copying)); nothing above a word is whole by itself. What a process leaves half-written that
/// dies in the middle of a WRITE, of up to 256 KiB, is ended before it counts as gone.
pub const CAPABILITIES: Capabilities = Capabilities {
    version_pair_bytes_max: usize::MAX,
    whole_bytes: 8,
    write_upward: true,
    atomic_then_read: true,
    arrival_sees_write: true,
    write_beside_cas: true,
    masked_cas: true,
    write_survives_writer_bytes_max: WRITE_BYTES_MAX,
    cpu_sees_write: true,
};

/// A pool to be created.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// The name.
    pub name: PoolName,
    /// Memory nodes.
    pub nodes: u16,
    /// Host memory of each, bytes.
    pub host_bytes: u64,
    /// Device memory of each, bytes.
    pub device_bytes: u64,
    /// Whether all of it is taken at once.
    pub backing: Backing,
}

/// The memory nodes of a pool, mapped into this process.
struct Nodes {
    shape: PoolShape,
    segments: Vec<Arc<Segment>>,
    capabilities: Capabilities,
}

/// This process's attachment to a pool: a compute node. Clones share it.
#[derive(Clone)]
pub struct ShmPool(Arc<Attachment>);

struct Attachment {
    nodes: Nodes,
    presence: Presence,
    journal: Arc<Journal>,
    lanes: Lanes,
    identity: ClientId,
    /// Set once, when this compute node has left the pool: none of its clients may post any more.
    left: AtomicBool,
}

/// Creates the pool's segments, node 0 last: nobody can open the pool before it is whole.
///
/// # Errors
/// [`ShmError::Exists`], [`ShmError::NoSpace`], [`ShmError::BadShape`] and the system's.
pub fn create(dir: &SegmentDir, spec: &PoolSpec) -> Result<(), ShmError> {
    let shape = PoolShape {
        pool: RandomState::new().build_hasher().finish(),
        nodes: spec.nodes,
        host_bytes: spec.host_bytes,
        device_bytes: spec.device_bytes,
    };
    if let Some(why) = shape.refuse() {
        return Err(ShmError::BadShape { pool: spec.name.to_string(), why });
    }
    // Seen for certain when node 0 is made, whose turn is the last: this spares the others.
    dir.refuse_existing(&spec.name, 0)?;
    let mut made = Vec::new();
    for node in (0..spec.nodes).rev() {
        let segment = SegmentSpec {
            backing: spec.backing,
            ..SegmentSpec::new(spec.name.clone(), node, spec.host_bytes + spec.device_bytes)
        };
        let created = dir.create(&segment, |segment| {
            if node == 0 {
                Journal::create(dir, &spec.name, shape.pool)?;
            }
            initialise(segment, &shape, node)
        });
        match created {
            Ok(segment) => made.push(segment),
            Err(error) => {
                for segment in made {
                    dir.remove_segment(&spec.name, segment.node())?;
                }
                dir.remove_journal(&spec.name, shape.pool)?;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Writes the superblock of a new memory node. The chunk that it lies in, and the device memory, get their pages.
fn initialise(segment: &Segment, shape: &PoolShape, node: u16) -> Result<(), ShmError> {
    segment.provision(0, farwood_fabric::chunks::CHUNK_BYTES)?;
    segment.provision(shape.host_bytes, shape.device_bytes)?;
    let header = shape.header(NodeId(node));
    let mut writes = vec![(HEADER_OFFSET, header.to_vec())];
    writes.extend(PoolShape::first_words().map(|(offset, word)| (offset, word.to_le_bytes().to_vec())));
    for (offset, bytes) in writes {
        segment.mapping().write_up(offset, &bytes).expect("the superblock lies within its segment");
    }
    Ok(())
}

impl ShmPool {
    /// Attaches this process to a pool, as a new compute node.
    ///
    /// # Errors
    /// [`ShmError::NotFound`], [`ShmError::Permission`], [`ShmError::TooSmall`]; [`ShmError::Pool`] where what is
    /// there is no pool of this version, or all client slots are taken.
    pub fn open(dir: &SegmentDir, name: &PoolName) -> Result<Self, ShmError> {
        Self::open_promising(dir, name, CAPABILITIES)
    }

    /// As [`open`](Self::open), promising less than is true: so that tests see what an index does without.
    pub fn open_promising(
        dir: &SegmentDir,
        name: &PoolName,
        capabilities: Capabilities,
    ) -> Result<Self, ShmError> {
        let nodes = Nodes::open(dir, name, capabilities)?;
        let presence = Presence::new(Arc::clone(&nodes.segments[0]));
        let journal = Arc::new(Journal::open(dir, name, nodes.shape.pool)?);
        let identity = enter(&nodes, &presence, &journal)?;
        let lanes = Lanes::open(Arc::clone(&journal), identity.slot)?;
        let left = AtomicBool::new(false);
        Ok(Self(Arc::new(Attachment { nodes, presence, journal, lanes, identity, left })))
    }

    /// A new client of this compute node, for the calling thread.
    pub fn client(&self) -> Client<ShmFabric> {
        Client::new(self.fabric())
    }

    /// What a client of this compute node posts on.
    pub fn fabric(&self) -> ShmFabric {
        ShmFabric { lane: self.0.lanes.assign(), pool: Arc::clone(&self.0), failed: RefCell::new(None) }
    }

    /// Leaves the pool before the last handle is dropped: the identity ends, and every later post of this compute
    /// node's clients is refused with [`FabricError::Revoked`]. No operation may be under way.
    pub fn leave(&self) {
        self.0.leave();
    }

    /// The memory nodes and their sizes.
    pub fn shape(&self) -> &PoolShape {
        &self.0.nodes.shape
    }

    /// Who this compute node is.
    pub fn identity(&self) -> ClientId {
        self.0.identity
    }

    /// The pages that each memory node lies in, and the bytes of it that have pages.
    ///
    /// # Errors
    /// The system's.
    pub fn memory(&self) -> Result<Vec<(Pages, u64)>, ShmError> {
        self.0.nodes.segments.iter().map(|segment| Ok((segment.pages(), segment.bytes_resident()?))).collect()
    }

    /// The server role of memory node `node`. At most one process plays it.
    pub fn server(&self, node: NodeId) -> Option<ShmServer> {
        let segment = self.0.nodes.segments.get(usize::from(node.0))?;
        let memory = ShmMemory { segment: Arc::clone(segment), node, host_bytes: self.shape().host_bytes };
        Some(ShmServer { memory })
    }
}

/// Takes a slot of the client table: one whose presence lock is free, which proves that nobody else
/// has it, or that whoever had it is gone. What that one was writing is ended first.
fn enter(nodes: &Nodes, presence: &Presence, journal: &Journal) -> Result<ClientId, ShmError> {
    let client = Client::new(Nameless(nodes));
    let process = u64::from(std::process::id());
    let mut refused = None;
    for slot in 0..client_table::CLIENTS_MAX as u16 {
        if !presence.claim(u32::from(slot))? {
            continue;
        }
        if let Err(error) = journal.replay(slot, &nodes.segments) {
            // What the dead one left cannot be ended: its slot stays its own, and others are tried.
            refused = Some(error);
            presence.release(u32::from(slot))?;
            continue;
        }
        let entered = block_on(client_table::enter(&client, slot, process));
        if let Some(identity) = entered.map_err(|error| nodes.refuse(error))? {
            return Ok(identity);
        }
        presence.release(u32::from(slot))?;
    }
    let full = nodes.refuse(FabricError::NoClientSlot { slots: client_table::CLIENTS_MAX });
    Err(refused.unwrap_or(full))
}

impl Attachment {
    /// Leaves the client table, once. Should that fail, the process's end will do.
    fn leave(&self) {
        if !self.left.swap(true, Ordering::SeqCst) {
            let client = Client::new(Nameless(&self.nodes));
            let _ = block_on(client_table::expire(&client, self.identity));
            let _ = self.presence.release(u32::from(self.identity.slot));
        }
    }

    #[inline]
    fn execute(&self, lane: usize, doorbell: &mut Doorbell) -> Result<(), FabricError> {
        if self.left.load(Ordering::Relaxed) {
            return Err(FabricError::Revoked(self.identity));
        }
        self.nodes.execute(doorbell, |to, bytes| self.lanes.write(lane, to, bytes))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Nodes {
    fn open(dir: &SegmentDir, name: &PoolName, capabilities: Capabilities) -> Result<Self, ShmError> {
        let first = dir.open(name, 0, HEADER_OFFSET + HEADER_BYTES as u64)?;
        let refuse = |error| ShmError::Pool { pool: name.to_string(), error };
        let mut header = [0; HEADER_BYTES / 8];
        first.mapping().read_down(HEADER_OFFSET, &mut header).expect("the segment has a superblock's size");
        let header: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let shape = PoolShape::from_header(NodeId(0), &header).map_err(refuse)?;
        let bytes = shape.host_bytes + shape.device_bytes;
        let mut segments = Vec::new();
        for node in 0..shape.nodes {
            let segment = dir.open(name, node, bytes)?;
            let mut header = [0; HEADER_BYTES / 8];
            segment.mapping().read_down(HEADER_OFFSET, &mut header).expect("its size was checked");
            let header: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
            if PoolShape::from_header(NodeId(node), &header).map_err(refuse)? != shape {
                let why = "it belongs to another pool of the same name".to_owned();
                return Err(refuse(FabricError::NotAPool { node: NodeId(node), why }));
            }
            // The superblock and the locks are touched by every operation: no fault on first use.
            segment.prefault(0, farwood_fabric::chunks::CHUNK_BYTES)?;
            segment.prefault(shape.host_bytes, shape.device_bytes)?;
            segments.push(Arc::new(segment));
        }
        Ok(Self { shape, segments, capabilities })
    }

    fn refuse(&self, error: FabricError) -> ShmError {
        ShmError::Pool { pool: self.segments[0].name().to_string(), error }
    }

    /// The mapping and the place in it of `bytes` bytes at `at`.
    #[inline]
    fn place(&self, at: Address, bytes: usize) -> Result<(&Mapping, u64), FabricError> {
        let (start, limit) = match at.memory() {
            Memory::Host => (0, self.shape.host_bytes),
            Memory::Device => (self.shape.host_bytes, self.shape.device_bytes),
        };
        let segment = self.segments.get(usize::from(at.node().0));
        match segment {
            Some(segment) if at.offset() + bytes as u64 <= limit => {
                Ok((segment.mapping(), start + at.offset()))
            }
            _ => Err(FabricError::OutOfRange { at, bytes }),
        }
    }

    /// Executes a doorbell, verb after verb.
    #[inline]
    fn execute(
        &self,
        doorbell: &mut Doorbell,
        write: impl Fn(Target<'_>, &[u8]) -> Result<(), Refused>,
    ) -> Result<(), FabricError> {
        let (requests, payload) = doorbell.parts_mut();
        if requests.len() > 1 {
            // Several READs miss the processor's caches at the same time instead of one after the other.
            for request in &*requests {
                if let Op::Read { into } = &request.op
                    && let Ok((mapping, offset)) = self.place(request.at, into.len())
                {
                    mapping.prefetch(offset, into.len() as u64);
                }
            }
        }
        // A store may wait in the processor's store buffer while a later load is served. Whoever arrives after a
        // WRITE was executed must see it, and a WRITE was executed when a READ chained behind it is answered, or
        // the post is.
        let mut unseen = false;
        for request in requests {
            if unseen && matches!(request.op, Op::Read { .. }) {
                fence(Ordering::SeqCst);
                unseen = false;
            }
            self.execute_one(request.at, &mut request.op, payload, &write)?;
            unseen |= matches!(request.op, Op::Write { .. });
        }
        if unseen {
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    #[inline]
    fn execute_one(
        &self,
        at: Address,
        op: &mut Op,
        payload: &[u8],
        write: &impl Fn(Target<'_>, &[u8]) -> Result<(), Refused>,
    ) -> Result<(), FabricError> {
        let fault = |bytes: usize| {
            move |access| match access {
                Access::OutOfRange => FabricError::OutOfRange { at, bytes },
                Access::Misaligned => FabricError::Misaligned { at },
            }
        };
        match op {
            Op::Read { into } => {
                let bytes = into.len();
                let (mapping, offset) = self.place(at, bytes)?;
                mapping.read_down(offset, into.words_mut()).map_err(fault(bytes))
            }
            Op::Write { data, immediate } => {
                let (mapping, offset) = self.place(at, data.len())?;
                let to = Target { node: at.node().0, mapping, offset };
                write(to, &payload[data.clone()]).map_err(|refused| match refused {
                    Refused::Access(access) => fault(data.len())(access),
                    Refused::Memory(error) => {
                        FabricError::NoMemory { node: at.node(), why: error.to_string() }
                    }
                })?;
                match immediate {
                    Some(immediate) if !Immediates::of(mapping).send(*immediate).map_err(fault(8))? => {
                        let why = "its server takes no messages".to_owned();
                        Err(FabricError::NodeLost { node: at.node(), why })
                    }
                    _ => Ok(()),
                }
            }
            Op::Cas { compare, swap, old } => {
                let (mapping, offset) = self.place(at, 8)?;
                *old = mapping.compare_exchange(offset, *compare, *swap).map_err(fault(8))?;
                Ok(())
            }
            Op::MaskedCas { compare, compare_mask, swap, swap_mask, old } => {
                let (mapping, offset) = self.place(at, 8)?;
                let swapped =
                    mapping.masked_compare_exchange(offset, *compare, *compare_mask, *swap, *swap_mask);
                *old = swapped.map_err(fault(8))?;
                Ok(())
            }
            Op::Faa { add, old } => {
                let (mapping, offset) = self.place(at, 8)?;
                *old = mapping.fetch_add(offset, *add).map_err(fault(8))?;
                Ok(())
            }
        }
    }

    fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        let (_, offset) = self.place(at, bytes as usize)?;
        let segment = &self.segments[usize::from(at.node().0)];
        let no_memory = |error: ShmError| FabricError::NoMemory { node: at.node(), why: error.to_string() };
        segment.provision(offset, bytes).map_err(no_memory)
    }
}

/// One client's connection to a shared-memory pool. Posts are done when they return.
pub struct ShmFabric {
    pool: Arc<Attachment>,
    /// Which of the process's lanes in the journal is its.
    lane: usize,
    /// What went wrong with a detached post.
    failed: RefCell<Option<FabricError>>,
}

impl ShmFabric {
    /// Ends a client whose slot has been claimed: first what it was writing, then its identity.
    async fn end(&self, table: &Client<&Self>, client: ClientId) -> Result<Revocation, FabricError> {
        if client_table::look(table, client.slot).await?.is(client) {
            if self.pool.journal.replay(client.slot, &self.pool.nodes.segments).is_err() {
                return Ok(Revocation::Alive);
            }
            client_table::expire(table, client).await?;
        }
        Ok(Revocation::Gone)
    }
}

impl Fabric for ShmFabric {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        &self.pool.nodes.capabilities
    }

    #[inline]
    fn shape(&self) -> &PoolShape {
        &self.pool.nodes.shape
    }

    #[inline]
    fn identity(&self) -> ClientId {
        self.pool.identity
    }

    #[inline]
    fn submit(&self, mut doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        let earlier = self.failed.take();
        let done = earlier.map_or_else(|| self.pool.execute(self.lane, &mut doorbell), Err);
        std::future::ready(done.map(|()| doorbell))
    }

    fn submit_detached(&self, mut doorbell: Doorbell) -> Option<Doorbell> {
        if let Err(error) = self.pool.execute(self.lane, &mut doorbell) {
            self.failed.replace(Some(error));
        }
        Some(doorbell)
    }

    fn now(&self) -> u64 {
        sys::monotonic_nanoseconds()
    }

    #[inline]
    fn thread(&self) -> usize {
        thread_number()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    /// A client is gone when the kernel has dropped its process's presence lock, which it does only
    /// when all threads of the process have stopped, and when what it was writing has been ended. Whoever does that
    /// has the lock meanwhile, and the client still counts as alive.
    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        let table = Client::new(self);
        if !client_table::look(&table, client.slot).await?.is(client) {
            return Ok(Revocation::Gone);
        }
        let slot = u32::from(client.slot);
        if client.slot == self.pool.identity.slot || !self.pool.presence.claim(slot).unwrap_or(false) {
            return Ok(Revocation::Alive);
        }
        let ended = self.end(&table, client).await;
        let _ = self.pool.presence.release(slot);
        ended
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(self.pool.nodes.provision(at, bytes))
    }
}

/// A WRITE of a process that has no lanes: it writes single words.
fn unjournaled(to: Target<'_>, bytes: &[u8]) -> Result<(), Refused> {
    to.mapping.write_up(to.offset, bytes).map_err(Refused::Access)
}

/// The connection of a process that is not in the client table: while it enters, and when it leaves.
struct Nameless<'a>(&'a Nodes);

impl Fabric for Nameless<'_> {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn shape(&self) -> &PoolShape {
        &self.0.shape
    }

    fn identity(&self) -> ClientId {
        unreachable!("who enters or leaves the client table asks for no identity")
    }

    fn submit(&self, mut doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        std::future::ready(self.0.execute(&mut doorbell, unjournaled).map(|()| doorbell))
    }

    fn submit_detached(&self, mut doorbell: Doorbell) -> Option<Doorbell> {
        // Nobody here posts detached verbs; their failure would have nobody to be told.
        let _ = self.0.execute(&mut doorbell, unjournaled);
        Some(doorbell)
    }

    fn now(&self) -> u64 {
        sys::monotonic_nanoseconds()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    fn revoke(&self, _: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        std::future::ready(Ok(Revocation::Alive))
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(self.0.provision(at, bytes))
    }
}

/// A memory node's own view of its memory.
#[derive(Clone)]
pub struct ShmMemory {
    segment: Arc<Segment>,
    node: NodeId,
    host_bytes: u64,
}

impl ShmMemory {
    #[inline]
    fn checked(&self, offset: u64, bytes: u64) -> Result<(), FabricError> {
        if offset.is_multiple_of(8) && offset.saturating_add(bytes) <= self.host_bytes {
            return Ok(());
        }
        Err(self.refused(offset, bytes))
    }

    #[cold]
    fn refused(&self, offset: u64, bytes: u64) -> FabricError {
        let somewhere = || Address::new(self.node, Memory::Host, 8).expect("offset 8 is an address");
        let at = Address::new(self.node, Memory::Host, offset).unwrap_or_else(somewhere);
        if offset.is_multiple_of(8) {
            FabricError::OutOfRange { at, bytes: bytes as usize }
        } else {
            FabricError::Misaligned { at }
        }
    }
}

impl LocalMemory for ShmMemory {
    #[inline]
    fn load(&self, offset: u64) -> Result<u64, FabricError> {
        self.checked(offset, 8)?;
        Ok(self.segment.mapping().load(offset).expect("the offset was checked"))
    }

    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError> {
        self.checked(offset, 8)?;
        self.segment.mapping().write_up(offset, &word.to_ne_bytes()).expect("the offset was checked");
        Ok(())
    }

    #[inline]
    fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], FabricError> {
        self.checked(offset, LINE_BYTES)?;
        Ok(self.segment.mapping().load_line(offset).expect("the offset was checked"))
    }

    #[inline]
    fn fetch_ahead(&self, offset: u64, bytes: u64) {
        self.segment.mapping().prefetch(offset, bytes);
    }
}

/// Bytes of a line.
const LINE_BYTES: u64 = 8 * LINE_WORDS as u64;

/// The server role of one memory node.
pub struct ShmServer {
    memory: ShmMemory,
}

impl Server for ShmServer {
    type Local = ShmMemory;

    fn local(&self) -> &ShmMemory {
        &self.memory
    }

    async fn receive(&self) -> Result<u32, FabricError> {
        Ok(look_for(|| Immediates::of(self.memory.segment.mapping()).receive()).await)
    }

    async fn compute(&self, _: u64) {}

    fn look_on(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }
}

impl std::fmt::Debug for ShmPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmPool").field("shape", self.shape()).field("identity", &self.identity()).finish()
    }
}

impl std::fmt::Debug for ShmFabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmFabric").field("identity", &self.pool.identity).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ShmMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmMemory").field("node", &self.node).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ShmServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmServer").field("node", &self.memory.node).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
