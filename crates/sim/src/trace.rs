//! Traces: the events of a run, to compare two runs or to inspect one.
//!
//! A trace opens in `chrome://tracing` and Perfetto ([`Trace::to_json`]), and can be printed as a sequence diagram.

mod json;

use crate::fault::InjectedFault;
use farwood_fabric::Op;
use std::fmt::Write as _;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Virtual time, nanoseconds.
    pub time: u64,
    /// Number of the verb.
    pub verb: u64,
    /// The stage that the verb has reached: `post`, `serve`, `complete` or `lost`.
    pub stage: &'static str,
    /// The client, and its compute node.
    pub client: (u32, usize),
    /// The memory node.
    pub node: u16,
    /// The verb, its size and its address.
    pub what: String,
    /// With [`Tracing::Full`]: of a `post`, the operands of an atomic and the first bytes of a WRITE; of a `complete`,
    /// the outcome of an atomic and the first bytes that a READ fetched. Otherwise empty.
    pub details: String,
}

/// Bytes of a READ or WRITE that a trace shows.
const BYTES_SHOWN: usize = 32;

/// The operands of a verb.
pub(crate) fn operands(op: &Op, payload: &[u8]) -> String {
    match op {
        Op::Read { .. } => String::new(),
        Op::Write { data, .. } => bytes_shown(&payload[data.clone()]),
        Op::Cas { compare, swap, .. } => format!("{compare:#x} -> {swap:#x}"),
        Op::MaskedCas { compare, compare_mask, swap, swap_mask, .. } => {
            format!("{compare:#x} & {compare_mask:#x} -> {swap:#x} & {swap_mask:#x}")
        }
        Op::Faa { add, .. } => format!("+ {add}"),
    }
}

/// The outcome of a verb.
pub(crate) fn outcome(op: &Op) -> String {
    let swapped = |won: bool, old: u64| if won { "won".to_owned() } else { format!("lost, found {old:#x}") };
    match op {
        Op::Read { into } => bytes_shown(into),
        Op::Write { .. } => String::new(),
        Op::Cas { compare, old, .. } => swapped(compare == old, *old),
        Op::MaskedCas { compare, compare_mask, old, .. } => {
            swapped((old ^ compare) & compare_mask == 0, *old)
        }
        Op::Faa { old, .. } => format!("was {old:#x}"),
    }
}

/// The first bytes of a copy, in words as in memory.
fn bytes_shown(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(BYTES_SHOWN)];
    let mut text = String::new();
    for word in shown.chunks(8) {
        let separator = if text.is_empty() { "" } else { " " };
        let digits = word.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
        let _ = write!(text, "{separator}{digits}");
    }
    if shown.len() < bytes.len() { text + " .." } else { text }
}

/// The level of detail of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracing {
    /// Nothing.
    #[default]
    Off,
    /// A digest of all events and of all bytes that READs fetched.
    Digest,
    /// The digest, and every event.
    Full,
}

/// The record of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(crate) tracing: Tracing,
    events: Vec<TraceEvent>,
    operations: Vec<OperationSpan>,
    faults: Vec<InjectedFault>,
    digest: u64,
}

/// An operation of an index, which a trace shows above its verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationSpan {
    /// The client, and its compute node.
    pub client: (u32, usize),
    /// The operation and its answer, in words.
    pub name: String,
    /// The time of the call, nanoseconds.
    pub call: u64,
    /// The time of the answer; `None`: it was not answered.
    pub end: Option<u64>,
}

impl Trace {
    pub(crate) fn new(tracing: Tracing) -> Self {
        Self { tracing, ..Self::default() }
    }

    pub(crate) fn add(&mut self, event: TraceEvent, bytes: &[u8]) {
        let (client, compute) = event.client;
        let head = [event.time, event.verb, u64::from(client), compute as u64, u64::from(event.node)];
        self.add_bytes(head.map(u64::to_le_bytes).as_flattened());
        self.add_bytes(event.stage.as_bytes());
        self.add_bytes(event.what.as_bytes());
        self.add_bytes(bytes);
        if self.tracing == Tracing::Full {
            self.events.push(event);
        }
    }

    /// The trace with these faults, which happened during it.
    pub(crate) fn with_faults(self, faults: Vec<InjectedFault>) -> Self {
        Self { faults, ..self }
    }

    /// The trace with these operations.
    #[must_use]
    pub fn with_operations(self, operations: Vec<OperationSpan>) -> Self {
        Self { operations, ..self }
    }

    /// The part of the trace in a range of time, nanoseconds: the events and faults in it, and the operations that
    /// overlap it. The digest is that of the whole trace.
    #[must_use]
    pub fn within(&self, time: Range<u64>) -> Self {
        let overlaps = |operation: &&OperationSpan| {
            operation.call < time.end && operation.end.is_none_or(|end| end >= time.start)
        };
        Self {
            events: self.events.iter().filter(|event| time.contains(&event.time)).cloned().collect(),
            faults: self.faults.iter().filter(|fault| time.contains(&fault.time)).copied().collect(),
            operations: self.operations.iter().filter(overlaps).cloned().collect(),
            ..*self
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.digest = xxh3_64_with_seed(bytes, self.digest);
    }

    /// A hash of all events with their times and bytes: equal for equal runs.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// All events.
    pub fn events(&self) -> &[TraceEvent] {
        &self.events
    }

    /// The number of the last verb; 0 if there is none. Numbers begin at 1 and increase.
    pub fn last_verb(&self) -> u64 {
        self.events.iter().map(|event| event.verb).max().unwrap_or(0)
    }

    /// The events of a client's verbs after the verb `after`, with the times since `begin`.
    pub fn of_client(&self, client: u32, after: u64, begin: u64) -> Vec<TraceEvent> {
        let is_of = |event: &&TraceEvent| event.client.0 == client && event.verb > after;
        let since = |event: &TraceEvent| TraceEvent { time: event.time - begin, ..event.clone() };
        self.events.iter().filter(is_of).map(since).collect()
    }

    /// Formats the last `events` events as a sequence diagram.
    pub fn to_sequence(&self, events: usize) -> String {
        sequence(&self.events[self.events.len().saturating_sub(events)..])
    }
}

/// A virtual time or duration in microseconds.
pub fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03} us", nanoseconds / 1000, nanoseconds % 1000)
}

/// Formats events as a sequence diagram: one line per event, clients to the left, memory nodes to the right.
pub fn sequence<'e>(events: impl IntoIterator<Item = &'e TraceEvent>) -> String {
    let mut text = String::new();
    for TraceEvent { time, verb, stage, client: (client, compute), node, what, details } in events {
        let arrow = match *stage {
            "post" => "---->        ",
            "serve" => "        [x]  ",
            "complete" => "<----        ",
            _ => "  -- lost    ",
        };
        let time = micros(*time);
        let _ = write!(
            text,
            "{time:>16}  compute {compute} client {client:<4} {arrow} memory {node}  #{verb} {what}",
        );
        let separator = if details.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "{separator}{details}");
    }
    text
}
