//! The device: NICs, memory, and the path of verbs through them.
//!
//! | file | stage of a verb |
//! |---|---|
//! | `post.rs` | doorbell, send queue, the client's NIC, the wire |
//! | `serve.rs` | the memory node's NIC: message engine, processing unit, execution |
//! | `transfer.rs` | copies of bytes: line by line at their times, or at once if no transfer overlaps |
//! | `atomic.rs` | slots, read, compare, write back |
//! | `answer.rs` | answer and completion |
//! | `faults.rs` | fault rules: delays, losses, crashes, partitions |
//! | `cas_interceptor.rs` | CASes that are made to fail |

mod answer;
mod atomic;
mod cas_interceptor;
mod faults;
mod post;
mod serve;
mod transfer;

use crate::addition::NodeAddition;
use crate::fault::FaultRule;
use crate::memory::HostMemory;
use crate::nic_model::NicModel;
use crate::queue::{Event, EventQueue, Key};
use crate::random::RandomStream;
use crate::stages::atomics::AtomicSlots;
use crate::stages::cpu::Thread;
use crate::stages::messages::{MessageCosts, NicDirection, VerbService};
use crate::stages::nic_caches::NicCaches;
use crate::stages::outstanding::InFlight;
use crate::stages::pcie::{PcieBus, TransferWindow};
use crate::stages::send_queue::SendQueue;
use crate::stages::server::Cores;
use crate::stages::units::ProcessingUnit;
use crate::sys::prefetch;
use crate::trace::{self, Trace};
pub(crate) use cas_interceptor::CasInterceptor;
use farwood_fabric::{
    Address, Capabilities, ChainFlag, ClientId, Costs, Doorbell, FabricError, Memory, Op, PoolShape,
};
use slab::Slab;
use std::collections::VecDeque;
use std::task::Waker;

/// A NIC of a memory node, a compute node, or both.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) out: NicDirection,
    pub(crate) into: NicDirection,
    pub(crate) in_flight: InFlight,
    pub(crate) caches: NicCaches,
    pub(crate) units: Vec<ProcessingUnit>,
    pub(crate) slots: AtomicSlots,
    pub(crate) bus: PcieBus,
    /// Factor of all service times: 1 unless a rule sets it.
    pub(crate) slowdown: u64,
}

/// A memory node.
#[derive(Debug)]
pub(crate) struct MemoryNode {
    pub(crate) host: HostMemory,
    pub(crate) device: Vec<u8>,
    /// Transfers to or from host memory whose lines are not all copied yet.
    pub(crate) open: Vec<OpenTransfer>,
    /// The NICs of the node; each client uses one of them.
    pub(crate) nics: Vec<usize>,
    /// End of the current outage.
    pub(crate) down_until: u64,
    pub(crate) immediates: VecDeque<u32>,
    /// Tasks that wait for an immediate.
    pub(crate) receivers: Vec<Waker>,
    pub(crate) cores: Cores,
}

/// A compute node.
#[derive(Debug)]
pub(crate) struct ComputeNode {
    pub(crate) identity: ClientId,
    pub(crate) nic: usize,
    pub(crate) threads: Vec<Key>,
    pub(crate) crashed: bool,
    /// Whether its verbs that have not been served yet are dropped.
    pub(crate) revoked: bool,
    /// Start and end of the time in which it is frozen.
    pub(crate) frozen: Option<(u64, u64)>,
    /// Number of verbs that it sent.
    pub(crate) sent: u64,
    /// Memory nodes that it cannot reach, each with the end of the partition.
    pub(crate) partitioned: Vec<(u16, u64)>,
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct SimConnection {
    pub(crate) compute: usize,
    pub(crate) thread: Key,
    /// The number of the client in traces: that of the clients that were created before it, without those whose posts
    /// take no virtual time.
    pub(crate) traced_as: u32,
    /// The first of its send queues, one for each memory node.
    pub(crate) first_queue: usize,
    /// The error of a detached post.
    pub(crate) failed: Option<FabricError>,
    /// Number of its verbs that failed, executed or not.
    pub(crate) lost: u64,
    /// Verbs that the device executed for it, by kind.
    pub(crate) counts: Counts,
    /// The costs of verbs that the fabric posted to revoke other clients.
    pub(crate) aside: Costs,
    /// The word at which its last CAS was intercepted.
    pub(crate) intercepted_at: Option<Address>,
}

/// Whether a client waits for a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// It awaits the answers.
    Awaited,
    /// It continues, and an error shows at its next post.
    Detached,
}

/// A posted doorbell, until all its verbs are answered.
pub(crate) struct PostedDoorbell {
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) client: Key,
    /// Number of verbs without an answer.
    pub(crate) left: u32,
    pub(crate) error: Option<FabricError>,
    pub(crate) waker: Option<Waker>,
    pub(crate) awaited: bool,
}

/// The kind of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerbKind {
    Read,
    Write,
    Atomic,
}

/// The NICs at both ends of a verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NicPair {
    pub(crate) client: usize,
    pub(crate) server: usize,
}

/// The effect of a transfer on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferAccess {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// A transfer in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTransfer {
    pub(crate) verb: Key,
    /// Offsets of its first byte and of the byte after its last.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) access: TransferAccess,
    /// The memory node's NIC.
    pub(crate) nic: usize,
    /// The time at which its last line is copied.
    pub(crate) to: u64,
}

impl OpenTransfer {
    #[inline]
    pub(crate) fn overlaps(&self, at: Address, bytes: usize) -> bool {
        self.start < at.offset() + bytes as u64 && at.offset() < self.end
    }
}

/// A posted verb, until it is answered and its transfer has ended.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent property of the verb")]
pub(crate) struct PostedVerb {
    /// Number of verbs that were posted before it.
    pub(crate) number: u64,
    pub(crate) doorbell_key: Key,
    /// The index of the verb in its doorbell.
    pub(crate) index: u32,
    pub(crate) kind: VerbKind,
    pub(crate) at: Address,
    pub(crate) bytes: u32,
    pub(crate) link: ChainFlag,
    pub(crate) client: Key,
    /// The NICs at both ends.
    pub(crate) nics: NicPair,
    /// The processing unit of the memory node's NIC that serves the queue pair.
    pub(crate) unit: usize,
    pub(crate) service: VerbService,
    pub(crate) queue: usize,
    pub(crate) epoch: u32,
    /// Whether the client's NIC counts it as in flight.
    pub(crate) counted: bool,
    /// The time at which the last byte of its request or answer reaches the stage that the first packet has reached,
    /// nanoseconds; earlier than the current time for a message of one packet.
    pub(crate) last_byte: u64,
    pub(crate) window: TransferWindow,
    /// Whether its lines are copied one by one.
    pub(crate) copies_by_line: bool,
    /// Whether its transfer or atomic is in progress.
    pub(crate) open: bool,
    /// Whether its answer has arrived, or it has failed.
    pub(crate) answered: bool,
    /// The immediate that a WRITE delivers when all of it is placed.
    pub(crate) immediate: Option<u32>,
    /// The bytes of a WRITE whose doorbell was returned before all of them were placed.
    pub(crate) kept: Option<Vec<u8>>,
    /// Whether the writer of a WRITE crashed, so that the remaining lines are not placed.
    pub(crate) abandoned: bool,
    /// The word that a successful atomic stores.
    pub(crate) store: Option<u64>,
    /// The first line of a transfer that is not copied upward.
    pub(crate) rotation: u64,
    /// Whether it is being resent.
    pub(crate) resent: bool,
    /// Whether its compute node crashes when it is answered.
    pub(crate) crash_after_answer: bool,
}

impl PostedVerb {
    /// Whether its answer has several packets, the first of which leaves while others are sampled.
    #[inline]
    pub(crate) fn is_answered_in_packets(&self) -> bool {
        self.service.answer.rest > 0
    }
}

/// Verbs that the device executed, by kind. The cost counters of all clients add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Doorbells that a client awaited.
    pub doorbells: u64,
    /// READs.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// WRITEs with an immediate.
    pub write_imm: u64,
    /// CAS.
    pub cas: u64,
    /// Masked CAS.
    pub masked_cas: u64,
    /// FAA.
    pub faa: u64,
    /// Bytes that READs fetched.
    pub bytes_read: u64,
    /// Bytes that WRITEs placed.
    pub bytes_written: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.doorbells += other.doorbells;
        self.reads += other.reads;
        self.writes += other.writes;
        self.write_imm += other.write_imm;
        self.cas += other.cas;
        self.masked_cas += other.masked_cas;
        self.faa += other.faa;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

impl Counts {
    /// All verbs.
    pub fn verbs(&self) -> u64 {
        self.reads + self.writes + self.write_imm + self.cas + self.masked_cas + self.faa
    }
}

/// The state of the simulated network.
pub(crate) struct Device {
    pub(crate) card: NicModel,
    pub(crate) costs: MessageCosts,
    /// The capabilities that it reports.
    pub(crate) promised: Capabilities,
    /// The capabilities that it implements.
    pub(crate) kept: Capabilities,
    pub(crate) shape: PoolShape,
    pub(crate) exhaustive: bool,
    /// Largest factor by which a transfer is slowed down.
    pub(crate) stretch: u64,
    /// Time after which a frozen compute node may be revoked.
    pub(crate) lease_ns: Option<u64>,
    /// The addition of memory nodes.
    pub(crate) addition: Option<NodeAddition>,
    pub(crate) queue: EventQueue,
    pub(crate) nics: Vec<Nic>,
    pub(crate) memory: Vec<MemoryNode>,
    pub(crate) compute: Vec<ComputeNode>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) connections: Vec<SimConnection>,
    pub(crate) queues: Vec<SendQueue>,
    pub(crate) doorbells: Slab<PostedDoorbell>,
    pub(crate) verbs: Slab<PostedVerb>,
    pub(crate) timers: Slab<Waker>,
    /// Number of clients whose posts take virtual time.
    pub(crate) timed_clients: u32,
    /// The time of the running thread, nanoseconds.
    pub(crate) thread_time: Option<u64>,
    pub(crate) posted: u64,
    pub(crate) counts: Counts,
    pub(crate) rules: Vec<FaultRule>,
    pub(crate) met: crate::fault::FaultCounts,
    pub(crate) rules_ended: bool,
    /// Makes CASes in device memory fail.
    pub(crate) cas_interceptor: Option<CasInterceptor>,
    pub(crate) happened: Vec<crate::fault::InjectedFault>,
    pub(crate) random: RandomStream,
    pub(crate) marks: std::collections::BTreeMap<&'static str, u64>,
    pub(crate) trace: Trace,
    /// The task group whose run was interrupted: no other may run until it continues.
    pub(crate) paused: Option<u64>,
    /// Tag of the last acquisition of a lock.
    pub(crate) lock_tag: u16,
    /// Number of task groups so far.
    pub(crate) crews: u64,
    /// Number of server threads so far.
    pub(crate) server_threads: Key,
    /// Compute nodes that crashed since the executor last dropped their tasks.
    pub(crate) crashed_nodes: Vec<usize>,
}

impl Device {
    /// Processes an event. The executor processes events of threads.
    pub(crate) fn process(&mut self, event: Event) {
        match event {
            Event::Post(doorbell_key) => self.post(doorbell_key),
            Event::Arrive(verb) => self.arrive(verb),
            Event::Enter(verb) => self.enter(verb),
            Event::Kernel(verb) => self.finish_kernel_work(verb),
            Event::Line(verb, line) => self.copy_line(verb, line),
            Event::TransferEnd(verb) => self.end_transfer(verb),
            Event::AtomicBegin(verb) => self.begin_atomic(verb),
            Event::AtomicEnd(verb) => self.end_atomic(verb),
            Event::Answer(verb) => self.answer(verb),
            Event::Return(verb) => self.receive_answer(verb),
            Event::Complete(verb) => self.complete(verb),
            Event::Expire(verb) => self.expire(verb),
            Event::Timer(timer) => self.timers.remove(timer as usize).wake(),
            Event::Slice(node, slice) => self.end_slice(node, slice),
            Event::ReleaseCore(node, thread) => self.release_core(node, thread),
            Event::FaultRule(rule) => self.apply(rule as usize),
            Event::RestoreWord(held) => self.restore_word(held),
            Event::Thread(_) => unreachable!("the executor runs threads"),
        }
    }

    /// The time of the running thread, or of the last event.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.thread_time.unwrap_or(self.queue.now)
    }

    /// The tag of the next acquisition of a lock.
    pub(crate) fn take_lock_tag(&mut self) -> u16 {
        self.lock_tag = self.lock_tag.checked_add(1).unwrap_or(1);
        self.lock_tag
    }

    /// Adds CPU time to the running thread.
    #[inline]
    pub(crate) fn spend(&mut self, nanoseconds: f64) {
        if let Some(thread_time) = &mut self.thread_time {
            *thread_time += nanoseconds as u64;
        }
    }

    /// Prefetches the bytes that a verb will access many events later.
    #[inline]
    fn fetch_ahead(&mut self, at: Address, bytes: usize) {
        let start = at.offset() as usize;
        prefetch(&self.bytes(at)[start..start + bytes]);
    }

    /// The host or device memory that `at` points into.
    #[inline]
    pub(crate) fn bytes(&mut self, at: Address) -> &mut [u8] {
        let node = &mut self.memory[usize::from(at.node().0)];
        match at.memory() {
            Memory::Host => &mut node.host,
            Memory::Device => &mut node.device,
        }
    }

    #[inline]
    pub(crate) fn op(&mut self, verb: Key) -> (&mut Op, &[u8]) {
        let PostedVerb { doorbell_key, index, .. } = self.verbs[verb as usize];
        let doorbell =
            self.doorbells[doorbell_key as usize].doorbell.as_mut().expect("a posted verb has a doorbell");
        let (requests, payload) = doorbell.parts_mut();
        (&mut requests[index as usize].op, payload)
    }

    /// The pool before memory nodes are added.
    pub(crate) fn shape_at_first(&self) -> PoolShape {
        let nodes = self.addition.map_or(self.shape.nodes, |addition| addition.nodes_before);
        PoolShape { nodes, ..self.shape }
    }

    /// The pool with the memory nodes that it has now.
    pub(crate) fn shape_now(&self) -> PoolShape {
        match self.addition {
            Some(addition) if self.now() < addition.at_ns => self.shape_at_first(),
            _ => self.shape,
        }
    }

    /// Checks the addresses and the capabilities of a doorbell.
    pub(crate) fn check(&self, doorbell: &Doorbell) -> Result<(), FabricError> {
        doorbell.requests().iter().try_for_each(|request| {
            let (bytes, atomic) = match &request.op {
                Op::Read { into } => (into.len(), false),
                Op::Write { data, .. } => (data.len(), false),
                Op::MaskedCas { .. } if !self.promised.masked_cas => {
                    return Err(FabricError::Missing(farwood_fabric::Capability::MaskedCas));
                }
                _ => (8, true),
            };
            let at = request.at;
            let size = match at.memory() {
                _ if at.node().0 >= self.shape.nodes => 0,
                Memory::Host => self.shape.host_bytes,
                Memory::Device => self.shape.device_bytes,
            };
            if at.offset().saturating_add(bytes as u64) > size {
                return Err(FabricError::OutOfRange { at, bytes });
            }
            if atomic && !at.offset().is_multiple_of(8) {
                return Err(FabricError::Misaligned { at });
            }
            Ok(())
        })
    }

    /// Executes a doorbell without virtual time: for setup, loading and checks after a run.
    pub(crate) fn execute_at_once(&mut self, doorbell: &mut Doorbell) -> Result<(), FabricError> {
        self.check(doorbell)?;
        let (requests, payload) = doorbell.parts_mut();
        for request in requests {
            let at = request.at;
            let start = at.offset() as usize;
            match &mut request.op {
                Op::Read { into } => {
                    self.touch(at, into.len());
                    let end = start + into.len();
                    into.copy_from_slice(&self.bytes(at)[start..end]);
                }
                Op::Write { data, immediate } => {
                    self.touch(at, data.len());
                    let data = &payload[data.clone()];
                    self.bytes(at)[start..start + data.len()].copy_from_slice(data);
                    self.deliver(at, *immediate);
                }
                atomic => {
                    self.touch(at, 8);
                    let before = self.word(at);
                    if let Some(after) = atomic::answer(atomic, before) {
                        self.set_word(at, after);
                    }
                }
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn word(&mut self, at: Address) -> u64 {
        let start = at.offset() as usize;
        u64::from_le_bytes(self.bytes(at)[start..start + 8].try_into().expect("eight bytes"))
    }

    #[inline]
    pub(crate) fn set_word(&mut self, at: Address, word: u64) {
        let start = at.offset() as usize;
        self.bytes(at)[start..start + 8].copy_from_slice(&word.to_le_bytes());
    }
}

impl Device {
    /// Traces a stage of a verb.
    #[inline]
    fn note(&mut self, verb: Key, stage: &'static str) {
        if self.trace.tracing != crate::trace::Tracing::Off {
            self.write_down(verb, stage);
        }
    }

    #[cold]
    fn write_down(&mut self, verb: Key, stage: &'static str) {
        let posted = &self.verbs[verb as usize];
        let (number, client, at, bytes) = (posted.number, posted.client, posted.at, posted.bytes);
        let SimConnection { compute, traced_as, .. } = self.connections[client as usize];
        let is_shown = self.trace.tracing == crate::trace::Tracing::Full;
        let (op, payload) = self.op(verb);
        let details = match stage {
            "post" if is_shown => trace::operands(op, payload),
            "complete" if is_shown => trace::outcome(op),
            _ => String::new(),
        };
        let (name, seen) = match op {
            Op::Read { into } => ("READ", if stage == "complete" { into.to_vec() } else { Vec::new() }),
            Op::Write { immediate: None, .. } => ("WRITE", Vec::new()),
            Op::Write { immediate: Some(_), .. } => ("WRITE_WITH_IMM", Vec::new()),
            Op::Cas { old, .. } => ("CAS", old.to_le_bytes().to_vec()),
            Op::MaskedCas { old, .. } => ("masked CAS", old.to_le_bytes().to_vec()),
            Op::Faa { old, .. } => ("FAA", old.to_le_bytes().to_vec()),
        };
        let event = crate::trace::TraceEvent {
            time: self.queue.now,
            verb: number,
            stage,
            client: (traced_as, compute),
            node: at.node().0,
            what: format!("{name} {bytes} B at {at}"),
            details,
        };
        self.trace.add(event, &seen);
    }
}
