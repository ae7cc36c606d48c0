//! The record of a run: the history of its operations, their costs, and the first failure.

use crate::workload::{ScanSpan, bounds};
use farwood_fabric::Costs;
use farwood_testkit::history::{Action, Answer, ByteString, History, Operation, Scan};
use std::cell::{Cell, RefCell};

/// Operations, costs and the final trees of some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// Costs of all operations.
    pub costs: Costs,
    /// Operations that were answered.
    pub operations: u64,
    /// Operations whose futures were dropped.
    pub dropped: u64,
    /// Held locks that were dropped with operations.
    pub locks_dropped: u64,
    /// Number of runs, by the number of levels of the tree at the end.
    pub levels: [u64; 8],
    /// Nodes at the end that no parent names.
    pub half_linked: u64,
    /// Runs.
    pub runs: u64,
}

impl RunTotals {
    /// Adds another run's totals.
    pub fn add(&mut self, other: &Self) {
        self.costs += other.costs;
        self.operations += other.operations;
        self.dropped += other.dropped;
        self.locks_dropped += other.locks_dropped;
        for (mine, other) in self.levels.iter_mut().zip(other.levels) {
            *mine += other;
        }
        self.half_linked += other.half_linked;
        self.runs += other.runs;
    }
}

/// The record that all clients of a run share.
#[derive(Default)]
pub(crate) struct RunRecord {
    now: Cell<u64>,
    pub(crate) history: RefCell<History>,
    pub(crate) totals: RefCell<RunTotals>,
    failure: RefCell<Option<String>>,
}

impl RunRecord {
    /// Advances the record's clock. All clients run in one thread, so the ticks are their order.
    pub(crate) fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    /// Records a failure, unless there is one already.
    pub(crate) fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }

    /// Whether there is a failure.
    pub(crate) fn failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Takes the failure.
    ///
    /// # Errors
    /// Fails with the first failure that the run recorded.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Records the call of an operation; yields its number.
    pub(crate) fn call(&self, client: u64, key: &[u8], action: &Action) -> usize {
        let call = self.tick();
        let mut history = self.history.borrow_mut();
        let (key, action) = (key.to_vec(), action.clone());
        history.operations.push(Operation { client, key, action, call, answer: None });
        history.operations.len() - 1
    }

    /// Turns the last operation of a client on `key`, which had no effect, into a get without an answer.
    pub(crate) fn cancel_last(&self, client: u64, key: &[u8]) {
        let mut history = self.history.borrow_mut();
        let mut last = history.operations.iter_mut().rev();
        if let Some(last) = last.find(|operation| operation.client == client && operation.key == key) {
            last.action = Action::Get;
        }
    }

    /// Records the answer to operation `number`.
    pub(crate) fn answer(&self, number: usize, answer: Answer) {
        let end = self.tick();
        self.history.borrow_mut().operations[number].answer = Some((end, answer));
        self.count();
    }

    /// Records a scan that began at `call` and ends now.
    pub(crate) fn scanned(
        &self,
        client: u64,
        call: u64,
        span: &ScanSpan,
        entries: Vec<(ByteString, ByteString)>,
    ) {
        let (end, (from, to)) = (self.tick(), bounds(span));
        let (direction, limit) = (span.direction, span.limit);
        self.history.borrow_mut().scans.push(Scan { client, call, end, direction, from, to, limit, entries });
        self.count();
    }

    /// Counts an answered operation.
    pub(crate) fn count(&self) {
        self.totals.borrow_mut().operations += 1;
    }
}
