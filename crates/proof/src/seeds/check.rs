//! Performs the requests of a run, and checks the index at its end.

use super::record::RunRecord;
use crate::tree::{Tree as _, snapshot_span};
use crate::workload::{ScanSpan, TreeRequest, perform, scan};
use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::ordered::{Ordered, OrderedReport};
use farwood_index::smart;
use farwood_testkit::history::{Action, Answer, ByteString, Direction, History};
use std::collections::BTreeMap;
use std::time::Duration;

/// Performs a request of client number `number`, and records the call and the answer. A failed request keeps no
/// answer.
pub(crate) async fn perform_request<F: Fabric>(
    number: u64,
    tree: &Ordered,
    client: &Client<F>,
    request: &TreeRequest,
    record: &RunRecord,
) -> Result<(), IndexError> {
    match request {
        TreeRequest::Operation(key, action) => {
            let operation = record.call(number, key, action);
            record.answer(operation, perform(tree, client, key, action).await?);
        }
        TreeRequest::Scan(span) => {
            let call = record.tick();
            record.scanned(number, call, span, scan(tree, client, span).await?);
        }
        TreeRequest::Snapshot(span) => {
            let call = record.tick();
            record.scanned(number, call, span, snapshot_span(tree, client, span).await?);
        }
        TreeRequest::Count => {
            tree.count_all(client).await?;
            record.count();
        }
        TreeRequest::Leave => tree.leave_all(client).await?,
    }
    Ok(())
}

/// Reads every key from every compute node when no client runs, and verifies the invariants of the tree.
pub(crate) async fn check_contents<F: Fabric>(
    nodes: &[(&Ordered, &Client<F>)],
    keys: &[ByteString],
    record: &RunRecord,
) -> Result<OrderedReport, IndexError> {
    let mut present = 0;
    for (number, &(tree, client)) in (1_000..).zip(nodes) {
        present = 0;
        for key in keys {
            let operation = record.call(number, key, &Action::Get);
            let found = perform(tree, client, key, &Action::Get).await?;
            present += u64::from(matches!(found, Answer::Found(Some(_))));
            record.answer(operation, found);
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (call, span) = (record.tick(), ScanSpan::all(direction));
            let entries = scan(tree, client, &span).await?;
            if entries.len() as u64 != present {
                record.fail(format!("a scan shows {} keys of {present}", entries.len()));
            }
            record.scanned(number, call, &span, entries);
        }
        let count = tree.count_all(client).await?;
        if count != present {
            record.fail(format!("the count is {count}, and {present} keys are present"));
        }
        record.totals.borrow_mut().locks_dropped += tree.locks_dropped();
    }
    for (tree, client) in nodes {
        tree.complete_changes(client).await;
    }
    let (tree, client) = nodes[0];
    let walk = tree.walk(client).await?;
    let mut totals = record.totals.borrow_mut();
    let levels = walk.levels().min(totals.levels.len() - 1);
    totals.levels[levels] += 1;
    totals.half_linked += walk.unfinished_changes();
    if let Some(problem) = walk.problems().first() {
        record.fail(format!("the walk finds {} problems: {problem}", walk.problems().len()));
    }
    if walk.entries() != present {
        record.fail(format!("the walk finds {} keys, and {present} are present", walk.entries()));
    }
    Ok(walk)
}

/// The coverage mark of a client that leaves a node closed because its parent is locked or has changed.
pub(crate) const LEFT_CLOSED: &str = "radix: a node left closed";

/// Checks a radix tree after a run in which no client crashed: only closed nodes may be unfinished
/// changes, at most as many as were marked.
pub(crate) fn check_unfinished_changes(walk: &smart::RadixReport, marked: u64) -> Result<(), String> {
    if walk.unfinished_changes > walk.closed || walk.closed > marked {
        return Err(format!(
            "{} changes are unfinished and {} nodes are closed, though no client crashed and clients left only \
             {marked} nodes closed",
            walk.unfinished_changes, walk.closed
        ));
    }
    Ok(())
}

/// Time limit for ordering the operations of a key.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks that some order explains every answer.
pub(crate) fn check_history(history: &History) -> Result<(), String> {
    let verdict = history.check(PATIENCE);
    let wrong: BTreeMap<_, _> = verdict.violations.iter().map(|wrong| (&wrong.key, wrong)).collect();
    if let Some(first) = wrong.values().next() {
        return Err(format!("{} keys are wrong: {first}", wrong.len()));
    }
    match verdict.undecided.first() {
        Some(key) => Err(format!("key {key:02x?} is undecided")),
        None => Ok(()),
    }
}
