//! The text of a finding: the operations that show it, with their verbs, the faults, and the command that repeats it.

use crate::case::Case;
use crate::finding::{CheckedRun, FIRST_READER, Finding};
use crate::world::number_of;
use farwood_fabric::NodeId;
use farwood_sim::fault::InjectedFault;
use farwood_sim::trace::micros;
use farwood_sim::{OperationSpan, TraceEvent};
use farwood_testkit::history::{Action, Answer, Operation, Violation};
use std::fmt::Write as _;

/// Operations that a finding shows, the last ones.
const OPERATIONS_SHOWN: usize = 16;
/// Events that a finding shows of an operation, the last ones: one that waits forever has many.
const EVENTS_SHOWN: usize = 24;

/// The text of what a run found. `program`: the command that calls this program.
pub(crate) fn report(case: &Case, run: &CheckedRun, finding: &Finding, program: &str) -> String {
    let mut text = format!("seed {}: {}\n", case.seed, finding.headline());
    let unanswered = || run.history.operations.iter().filter(|operation| operation.answer.is_none());
    match finding {
        Finding::Violation(violation) => text.push_str(&violation_text(violation, run)),
        Finding::Error { client, .. } => {
            let failed: Vec<_> = unanswered().filter(|operation| operation.client == *client).collect();
            let last = failed.len().saturating_sub(1);
            text.push_str(&operations_text("The operation that failed:", &failed[last..], u64::MAX, run));
        }
        Finding::Stuck(_) => {
            let waiting: Vec<_> = unanswered().collect();
            text.push_str(&operations_text("Operations without an answer:", &waiting, u64::MAX, run));
        }
        Finding::Panic(_) | Finding::Invariant(_) | Finding::Undecided(_) => {}
    }
    if !run.injected.is_empty() {
        text.push_str("\nFaults of the run:\n");
        for InjectedFault { time, fault } in &run.injected {
            let _ = writeln!(text, "  {:>14}  {}", micros(*time), fault);
        }
    }
    let _ = writeln!(text, "\nrepeat: {program} {}", case.command());
    text
}

fn violation_text(Violation { key, operations, until, .. }: &Violation, run: &CheckedRun) -> String {
    let is_of_scan = *until == u64::MAX;
    let title = if is_of_scan {
        "The last operations on the key before the end of the scan:"
    } else {
        "No order of these operations that respects their times explains their answers:"
    };
    let shown: Vec<_> = operations.iter().collect();
    let mut text = operations_text(title, &shown, *until, run);
    for found in operations.iter().filter_map(found) {
        let stores = |operation: &&Operation| operation.action == Action::Put(found.to_vec());
        let stored = run.history.operations.iter().find(stores);
        if let Some(operation) = stored.filter(|operation| operation.key != *key) {
            let (client, other) = (operation.client, number_of(&operation.key));
            let value = number_of(found);
            let _ = writeln!(text, "\nClient {client} stored the value {value} under key {other}.");
        }
    }
    text
}

/// The value that an operation found.
fn found(operation: &Operation) -> Option<&[u8]> {
    match &operation.answer {
        Some((_, Answer::Found(Some(value)))) => Some(value),
        _ => None,
    }
}

/// Operations with their verbs; those that were answered after `until` were still running.
fn operations_text(title: &str, operations: &[&Operation], until: u64, run: &CheckedRun) -> String {
    let mut text = format!("\n{title}\n");
    let first = operations.len().saturating_sub(OPERATIONS_SHOWN);
    for operation in &operations[first..] {
        let _ = writeln!(text, "\n  {}", line_of(operation, until));
        text.push_str(&verbs_of(operation, run));
    }
    text
}

/// The operations of a run for its trace.
pub(crate) fn spans(run: &CheckedRun) -> Vec<OperationSpan> {
    let span = |operation: &Operation| {
        let traced = run.traced.iter().find(|(client, _)| *client == operation.client)?;
        let client =
            run.trace.events().iter().map(|event| event.client).find(|client| client.0 == traced.1)?;
        let (name, call) = (text_of(operation, u64::MAX), operation.call);
        Some(OperationSpan { client, name, call, end: operation.answer.as_ref().map(|(end, _)| *end) })
    };
    run.history.operations.iter().filter_map(span).collect()
}

/// An operation: its client, its times, its action and its answer.
fn line_of(operation: &Operation, until: u64) -> String {
    let Operation { client, call, answer, .. } = operation;
    let end = answer.as_ref().map_or("..".to_owned(), |(end, _)| micros(*end));
    let client = match client.checked_sub(FIRST_READER) {
        None => format!("client {client}"),
        Some(node) => format!("reader of compute node {node} at the end"),
    };
    format!("{} to {end}  {client}: {}", micros(*call), text_of(operation, until))
}

/// An operation in words: its key, its action, and its answer if it was given at `until` at the latest.
fn text_of(Operation { key, action, answer, .. }: &Operation, until: u64) -> String {
    let action = match action {
        Action::Put(value) => format!("put {} under key {}", number_of(value), number_of(key)),
        Action::Remove => format!("remove key {}", number_of(key)),
        _ => format!("get key {}", number_of(key)),
    };
    let answer = match answer {
        None => "no answer; it may have taken effect".to_owned(),
        Some((end, _)) if *end > until => "still running at that time".to_owned(),
        Some((_, answer)) => answer_text(answer),
    };
    format!("{action} -> {answer}")
}

fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Found(Some(value)) => format!("found {}", number_of(value)),
        Answer::Found(None) => "found nothing".to_owned(),
        Answer::Stored { existed: true } => "stored; the key was present".to_owned(),
        Answer::Stored { existed: false } => "stored; the key was absent".to_owned(),
        Answer::Done(true) => "removed".to_owned(),
        Answer::Done(false) => "the key was absent".to_owned(),
    }
}

/// The verbs of an operation: those of its client in its time.
fn verbs_of(operation: &Operation, run: &CheckedRun) -> String {
    let traced = run.traced.iter().find(|(client, _)| *client == operation.client);
    let Some(&(_, client)) = traced else { return String::new() };
    let end = operation.answer.as_ref().map_or(u64::MAX, |(end, _)| *end);
    let is_of = |event: &&TraceEvent| {
        event.client.0 == client && (operation.call..=end).contains(&event.time) && event.stage != "serve"
    };
    let events: Vec<_> = run.trace.events().iter().filter(is_of).collect();
    let first = events.len().saturating_sub(EVENTS_SHOWN);
    let mut text = String::new();
    for TraceEvent { time, stage, node, what, details, .. } in &events[first..] {
        let stage = if *stage == "complete" { "done" } else { stage };
        let separator = if details.is_empty() { "" } else { ": " };
        let (time, node) = (micros(*time), NodeId(*node));
        let _ = writeln!(text, "    {time:>14}  {stage:<5} memory {node}  {what}{separator}{details}");
    }
    text
}
