//! The device: NICs, memory, and the verbs on their way through them.
//!
//! | file | the part of a verb's way |
//! |---|---|
//! | `post.rs` | doorbell, send queue, the client's NIC, the wire |
//! | `serve.rs` | the memory node's NIC: entrance, processing unit, what the verb does |
//! | `transfer.rs` | bytes, copied line by line at their times, or at once where nothing overlaps |
//! | `atomic.rs` | slots, read, compare, write back |
//! | `answer.rs` | the way back, completion |
//! | `broken.rs` | rules: what is delayed, lost, crashed, cut off |
//! | `rival.rs` | somebody who is faster |

mod answer;
mod atomic;
mod broken;
mod post;
mod rival;
mod serve;
mod transfer;

use crate::card::Card;
use crate::fault::Rule;
use crate::memory::HostMemory;
use crate::queue::{Event, Key, Queue};
use crate::random::Stream;
use crate::stations::atomics::Slots;
use crate::stations::cpu::Thread;
use crate::stations::messages::{Direction, MessageCosts, Service};
use crate::stations::outstanding::InFlight;
use crate::stations::pcie::{Bus, Window};
use crate::stations::send_queue::SendQueue;
use crate::stations::server::Cores;
use crate::stations::units::Unit;
use crate::sys::prefetch;
use crate::trace::Trace;
use farwood_fabric::{
    Address, Capabilities, ClientId, Costs, Doorbell, FabricError, Link, Memory, Op, PoolShape,
};
pub(crate) use rival::Rival;
use slab::Slab;
use std::collections::VecDeque;
use std::task::Waker;

/// A NIC: the machine that it is in may be a memory node, a compute node, or both.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) out: Direction,
    pub(crate) into: Direction,
    pub(crate) in_flight: InFlight,
    pub(crate) units: Vec<Unit>,
    pub(crate) slots: Slots,
    pub(crate) bus: Bus,
    /// Times its stations take longer: 1, unless a rule says so.
    pub(crate) slowness: u64,
}

/// A memory node.
#[derive(Debug)]
pub(crate) struct MemoryNode {
    pub(crate) host: HostMemory,
    pub(crate) device: Vec<u8>,
    /// Transfers whose lines are not all copied yet, all of them of host memory.
    pub(crate) open: Vec<OpenTransfer>,
    /// Its NICs: requests of a client go through one of them.
    pub(crate) nics: Vec<usize>,
    /// Until when it is down.
    pub(crate) down_until: u64,
    pub(crate) immediates: VecDeque<u32>,
    /// Who waits for an immediate.
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
    /// Verbs of it that have not been served yet are dropped.
    pub(crate) revoked: bool,
    /// Since when it shows no life, and until when.
    pub(crate) silent: Option<(u64, u64)>,
    /// Verbs that have left.
    pub(crate) sent: u64,
    /// Memory nodes that it cannot reach, each until when.
    pub(crate) cut_off: Vec<(u16, u64)>,
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) compute: usize,
    pub(crate) thread: Key,
    /// First of its send queues, one for each memory node.
    pub(crate) first_queue: usize,
    /// What went wrong with a detached post.
    pub(crate) failed: Option<FabricError>,
    /// Verbs of it that failed, whether they were executed or not.
    pub(crate) lost: u64,
    /// Verbs that the device has executed for it, by kind.
    pub(crate) counts: Counts,
    /// Those of them that the fabric posted on its own account.
    pub(crate) aside: Costs,
    /// The word at which the rival was faster than it.
    pub(crate) outrun_at: Option<Address>,
}

/// A doorbell on its way.
pub(crate) struct Flight {
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) client: Key,
    /// Verbs that are not answered.
    pub(crate) left: u32,
    pub(crate) error: Option<FabricError>,
    pub(crate) waker: Option<Waker>,
    pub(crate) waited_for: bool,
}

/// What kind of verb it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Atomic,
}

/// The NICs that a verb goes through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) client: usize,
    pub(crate) server: usize,
}

/// A transfer that is not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTransfer {
    pub(crate) verb: Key,
    /// Its bytes: the first, and the one after the last.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) writes: bool,
    /// The memory node's NIC.
    pub(crate) nic: usize,
    /// When its last line is copied.
    pub(crate) to: u64,
}

impl OpenTransfer {
    #[inline]
    pub(crate) fn overlaps(&self, at: Address, bytes: usize) -> bool {
        self.start < at.offset() + bytes as u64 && at.offset() < self.end
    }
}

/// A verb on its way.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says one thing about the verb, and all combine")]
pub(crate) struct Flying {
    /// How many were posted before it.
    pub(crate) number: u64,
    pub(crate) flight: Key,
    /// Its place in the doorbell.
    pub(crate) index: u32,
    pub(crate) kind: Kind,
    pub(crate) at: Address,
    pub(crate) bytes: u32,
    pub(crate) link: Link,
    pub(crate) client: Key,
    /// The NICs at both ends.
    pub(crate) nics: Ends,
    /// The processing unit of the memory node's NIC that serves the queue pair.
    pub(crate) unit: usize,
    pub(crate) service: Service,
    pub(crate) queue: usize,
    pub(crate) epoch: u32,
    /// Counted by the client's NIC as in flight.
    pub(crate) counted: bool,
    pub(crate) window: Window,
    /// Lines are copied one by one.
    pub(crate) by_line: bool,
    /// The transfer or the atomic is not over.
    pub(crate) open: bool,
    /// The answer has arrived, or never will.
    pub(crate) answered: bool,
    /// What a WRITE delivers when all of it is placed.
    pub(crate) immediate: Option<u32>,
    /// What a WRITE places, if its doorbell went back before all was placed.
    pub(crate) kept: Option<Vec<u8>>,
    /// A WRITE whose writer is gone, and what it had not placed with it.
    pub(crate) abandoned: bool,
    /// What a successful atomic will store.
    pub(crate) store: Option<u64>,
    /// Where a READ or WRITE whose lines are not copied upward begins.
    pub(crate) shuffle: u64,
    /// It is sent again until it gets through.
    pub(crate) resent: bool,
    /// Crash its compute node when it is answered.
    pub(crate) last_words: bool,
}

/// Verbs that the device has executed, by kind; the cost ledgers of all clients must add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Doorbells that somebody waited for.
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

/// Everything that the laboratory knows.
pub(crate) struct Device {
    pub(crate) card: Card,
    pub(crate) costs: MessageCosts,
    /// What it says that it promises.
    pub(crate) promised: Capabilities,
    /// What it keeps.
    pub(crate) kept: Capabilities,
    pub(crate) shape: PoolShape,
    pub(crate) exhaustive: bool,
    /// Up to how many times as long transfers take.
    pub(crate) stretch: u64,
    /// For how long a frozen compute node is left alone.
    pub(crate) lease_ns: Option<u64>,
    pub(crate) queue: Queue,
    pub(crate) nics: Vec<Nic>,
    pub(crate) memory: Vec<MemoryNode>,
    pub(crate) compute: Vec<ComputeNode>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) queues: Vec<SendQueue>,
    pub(crate) flights: Slab<Flight>,
    pub(crate) verbs: Slab<Flying>,
    pub(crate) timers: Slab<Waker>,
    /// How far the thread that runs now has come, nanoseconds.
    pub(crate) cursor: Option<u64>,
    pub(crate) posted: u64,
    pub(crate) counts: Counts,
    pub(crate) rules: Vec<Rule>,
    pub(crate) met: crate::fault::Met,
    pub(crate) rules_ended: bool,
    /// Who is faster than everybody else at every CAS in device memory.
    pub(crate) rival: Option<Rival>,
    pub(crate) happened: Vec<crate::fault::Happened>,
    pub(crate) chance: Stream,
    pub(crate) marks: std::collections::BTreeMap<&'static str, u64>,
    pub(crate) trace: Trace,
    /// The crew that was stopped in the middle of its work: no other may run meanwhile.
    pub(crate) paused: Option<u64>,
    /// How many crews there were.
    pub(crate) crews: u64,
    /// How many threads of servers there are.
    pub(crate) server_threads: Key,
    /// Compute nodes that crashed since somebody asked.
    pub(crate) fallen: Vec<usize>,
}

impl Device {
    /// Lets an event happen; threads are their crew's affair.
    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Post(flight) => self.post(flight),
            Event::Arrive(verb) => self.arrive(verb),
            Event::Enter(verb) => self.enter(verb),
            Event::Kernel(verb) => self.leave_kernel(verb),
            Event::Line(verb, line) => self.copy_line(verb, line),
            Event::TransferEnd(verb) => self.end_transfer(verb),
            Event::AtomicBegin(verb) => self.begin_atomic(verb),
            Event::AtomicEnd(verb) => self.end_atomic(verb),
            Event::Answer(verb) => self.answer(verb),
            Event::Return(verb) => self.come_back(verb),
            Event::Complete(verb) => self.complete(verb),
            Event::Expire(verb) => self.expire(verb),
            Event::Timer(timer) => self.timers.remove(timer as usize).wake(),
            Event::Slice(node, slice) => self.end_slice(node, slice),
            Event::Vacate(node, thread) => self.vacate(node, thread),
            Event::Rule(rule) => self.apply(rule as usize),
            Event::Withdraw(held) => self.withdraw(held),
            Event::Thread(_) => unreachable!("threads are run by the crew"),
        }
    }

    /// The time of whoever asks: the thread that runs now has come farther than the last event.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.cursor.unwrap_or(self.queue.now)
    }

    /// Lets the thread that runs now spend time.
    #[inline]
    pub(crate) fn spend(&mut self, nanoseconds: f64) {
        if let Some(cursor) = &mut self.cursor {
            *cursor += nanoseconds as u64;
        }
    }

    /// Has the processor fetch the bytes that a verb will touch: it will touch them many events later, and they lie
    /// somewhere among gigabytes.
    #[inline]
    fn fetch_ahead(&mut self, at: Address, bytes: usize) {
        let start = at.offset() as usize;
        prefetch(&self.bytes(at)[start..start + bytes]);
    }

    /// The bytes of one memory of a node.
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
        let Flying { flight, index, .. } = self.verbs[verb as usize];
        let doorbell = self.flights[flight as usize].doorbell.as_mut().expect("a verb's doorbell is there");
        let (requests, payload) = doorbell.parts_mut();
        (&mut requests[index as usize].op, payload)
    }

    /// Whether a doorbell can be posted at all.
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

    /// Executes a doorbell at once, outside of time: for making and loading, and for looking when all is over.
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
    /// Writes down that something happened to a verb.
    #[inline]
    fn note(&mut self, verb: Key, stage: &'static str) {
        if self.trace.tracing != crate::trace::Tracing::Off {
            self.write_down(verb, stage);
        }
    }

    #[cold]
    fn write_down(&mut self, verb: Key, stage: &'static str) {
        let flying = &self.verbs[verb as usize];
        let (number, client, at, bytes) = (flying.number, flying.client, flying.at, flying.bytes);
        let compute = self.connections[client as usize].compute;
        let (op, _) = self.op(verb);
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
            client: (client, compute),
            node: at.node().0,
            what: format!("{name} {bytes} B at {at}"),
        };
        self.trace.add(event, &seen);
    }
}
