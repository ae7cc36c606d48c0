//! The result of a checked run, and the text of what it found.

use crate::case::Case;
use farwood_fabric::NodeId;
use farwood_sim::fault::{FaultCounts, InjectedFault};
use farwood_sim::{Trace, TraceEvent};
use farwood_testkit::history::{Action, Answer, ByteString, Operation, Violation};
use std::fmt::Write as _;

/// Number of the client that reads everything at the end on compute node 0.
pub(crate) const FIRST_READER: u64 = 1_000;
/// Operations of a key that a finding shows, the last ones.
const OPERATIONS_SHOWN: usize = 16;

/// What a checked run found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// No order of the operations on a key explains their answers.
    Violation(Violation),
    /// An operation ended with an error that no fault explains.
    Error { client: u64, what: String },
    /// The run does not end.
    Stuck(String),
    /// The code of the index panicked.
    Panic(String),
    /// An invariant does not hold at the end of the run.
    Invariant(String),
    /// The key's operations have too many possible orders.
    Undecided(ByteString),
}

impl Finding {
    /// Whether both are findings of one kind, so that a smaller run shows the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// One line.
    pub(crate) fn headline(&self) -> String {
        match self {
            Self::Violation(Violation { key, until, .. }) if *until < u64::MAX => {
                format!(
                    "key {}: no order of its operations explains the answer at {}",
                    number(key),
                    micros(*until)
                )
            }
            Self::Violation(Violation { key, what, .. }) => format!("key {}: {what}", number(key)),
            Self::Error { client, what } => format!("an operation of client {client} failed: {what}"),
            Self::Stuck(what) => what.clone(),
            Self::Panic(what) => format!("panic: {what}"),
            Self::Invariant(what) => format!("an invariant does not hold at the end: {what}"),
            Self::Undecided(key) => {
                format!(
                    "key {}: too many possible orders; give more --keys or fewer --operations",
                    number(key)
                )
            }
        }
    }
}

/// A run: its size and what it found.
#[derive(Debug, Default)]
pub(crate) struct CheckedRun {
    /// Operations that were answered.
    pub(crate) operations: u64,
    pub(crate) faults: FaultCounts,
    pub(crate) finding: Option<Finding>,
    pub(crate) injected: Vec<InjectedFault>,
    /// The clients, and their numbers in the trace.
    pub(crate) traced: Vec<(u64, u32)>,
    pub(crate) trace: Trace,
}

fn number(key: &[u8]) -> u64 {
    crate::world::number_of(key)
}

/// The text of a finding: the operations of its key with their verbs, the faults, and the command that repeats it.
pub(crate) fn report(case: &Case, outcome: &CheckedRun, finding: &Finding, program: &str) -> String {
    let mut text = format!("seed {}: {}\n", case.seed, finding.headline());
    if let Finding::Violation(Violation { operations, until, .. }) = finding {
        text.push_str("\nNo order of these operations that respects their times explains their answers:\n");
        let first = operations.len().saturating_sub(OPERATIONS_SHOWN);
        for operation in &operations[first..] {
            let _ = writeln!(text, "\n  {}", line_of(operation, *until));
            text.push_str(&verbs_of(operation, outcome));
        }
    }
    if !outcome.injected.is_empty() {
        text.push_str("\nFaults of the run:\n");
        for InjectedFault { time, fault } in &outcome.injected {
            let _ = writeln!(text, "  {:>12} {fault:?}", micros(*time));
        }
    }
    let _ = writeln!(text, "\nrepeat: {program} {}", case.command());
    text
}

/// An operation: its client, its times, its action and its answer, if it was answered until then.
fn line_of(Operation { client, action, call, answer, .. }: &Operation, until: u64) -> String {
    let value = |value: &[u8]| number(value).to_string();
    let action = match action {
        Action::Put(bytes) => format!("put {}", value(bytes)),
        Action::Remove => "remove".to_owned(),
        Action::Get => "get".to_owned(),
        other => format!("{other:?}"),
    };
    let (end, answer) = match answer {
        None => ("never".to_owned(), "no answer: its client crashed, or a fault failed it".to_owned()),
        Some((end, _)) if *end > until => (micros(*end), "still running at that time".to_owned()),
        Some((end, answer)) => {
            let answer = match answer {
                Answer::Found(Some(found)) => format!("found {}", value(found)),
                Answer::Found(None) => "found nothing".to_owned(),
                Answer::Stored { existed: true } => "stored; the key was present".to_owned(),
                Answer::Stored { existed: false } => "stored; the key was absent".to_owned(),
                Answer::Done(true) => "removed".to_owned(),
                Answer::Done(false) => "the key was absent".to_owned(),
            };
            (micros(*end), answer)
        }
    };
    let who = match client.checked_sub(FIRST_READER) {
        None => format!("client {client}"),
        Some(node) => format!("at the end, compute node {node}"),
    };
    format!("{} to {end}  {who}: {action} -> {answer}", micros(*call))
}

/// The verbs of an operation: those of its client in its time.
fn verbs_of(operation: &Operation, outcome: &CheckedRun) -> String {
    let traced = outcome.traced.iter().find(|(client, _)| *client == operation.client);
    let Some(&(_, client)) = traced else { return String::new() };
    let end = operation.answer.as_ref().map_or(u64::MAX, |(end, _)| *end);
    let is_of = |event: &&TraceEvent| {
        event.client.0 == client && (operation.call..=end).contains(&event.time) && event.stage != "serve"
    };
    let mut text = String::new();
    for event in outcome.trace.events().iter().filter(is_of) {
        let TraceEvent { time, stage, node, what, details, .. } = event;
        let stage = if *stage == "complete" { "done" } else { stage };
        let details = if details.is_empty() { String::new() } else { format!(": {details}") };
        let _ = writeln!(text, "    {:>12}  {stage:<5} {} {what}{details}", micros(*time), NodeId(*node));
    }
    text
}

fn micros(time: u64) -> String {
    format!("{}.{:03} us", time / 1000, time % 1000)
}
