//! Runs a case: concurrent clients with faults, whose answers are recorded and checked.

use crate::case::Case;
use crate::finding::{CheckedRun, FIRST_READER, Finding};
use crate::world::{Lab, key, value};
use crate::{FarIndex, LabError, LabResult};
use farwood_fabric::{Client, Fabric as _, FabricError};
use farwood_sim::fault::Fault;
use farwood_sim::{RandomStream, RunOutcome, SimFabric, Tracing};
use farwood_testkit::history::{Action, Answer, Direction, History, Operation, Scan};
use farwood_testkit::seeds::caught;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Bound;
use std::time::Duration;

/// Virtual time after which clients that have not ended are stuck, nanoseconds.
const TIME_MAX: u64 = 500_000_000;
/// Longer than any drawn outage, nanoseconds.
const QUIET: u64 = 20_000_000;
/// Time limit for ordering the operations of a key.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a case; a panic of the index is a finding.
pub(crate) fn run<I: FarIndex>(case: &Case, tracing: Tracing) -> CheckedRun {
    let outcome = RefCell::new(CheckedRun::default());
    let ended = caught(|| run_in::<I>(case, tracing, &outcome));
    let finding = match ended {
        Ok(Ok(finding)) => finding,
        Ok(Err(error)) => Some(Finding::Error { client: 0, what: format!("opening the index: {error}") }),
        Err(panic) => Some(Finding::Panic(panic)),
    };
    CheckedRun { finding, ..outcome.into_inner() }
}

/// A run in progress.
struct Running<'r> {
    case: &'r Case,
    history: RefCell<History>,
    /// Operations that were answered.
    answered: Cell<u64>,
    finding: RefCell<Option<Finding>>,
    /// The clients, and their numbers in the trace.
    traced: RefCell<Vec<(u64, u32)>>,
}

fn run_in<I: FarIndex>(
    case: &Case,
    tracing: Tracing,
    outcome: &RefCell<CheckedRun>,
) -> LabResult<Option<Finding>> {
    let lab = Lab::<I>::new(case.world_spec(tracing), case.keys, case.mutant)?;
    let (world, nodes) = (&lab.world, lab.indexes.len());
    let clients: Vec<_> = (0..case.clients).map(|number| world.client(number % nodes)).collect();
    let running = Running {
        case,
        history: RefCell::default(),
        answered: Cell::new(0),
        finding: RefCell::new(None),
        traced: RefCell::default(),
    };
    let mut group = world.task_group();
    for (number, client) in clients.iter().enumerate() {
        group.spawn(client, running.run_client(number as u64, &lab.indexes[number % nodes], client));
    }
    let ended = group.run_until(TIME_MAX);
    drop(group);
    let end = if ended == RunOutcome::Done && running.finding.borrow().is_none() {
        running.check_contents(&lab)
    } else {
        ended
    };
    let mut outcome = outcome.borrow_mut();
    outcome.operations = running.answered.get();
    outcome.faults = world.met();
    outcome.injected = world.injected_faults();
    outcome.traced = running.traced.take();
    outcome.trace = world.trace();
    outcome.history = running.history.take();
    if let Some(finding) = running.finding.take() {
        return Ok(Some(finding));
    }
    match end {
        RunOutcome::Done => Ok(check_history(&outcome.history)),
        RunOutcome::Time => {
            let what = format!("the run has not ended after {} ms of virtual time", TIME_MAX / 1_000_000);
            Ok(Some(Finding::Stuck(what)))
        }
        RunOutcome::Stuck(tasks) => {
            Ok(Some(Finding::Stuck(format!("{tasks} clients wait for an event that never happens"))))
        }
    }
}

fn check_history(history: &History) -> Option<Finding> {
    let verdict = history.check(PATIENCE);
    let violation = verdict.violations.first().cloned().map(Finding::Violation);
    violation.or_else(|| verdict.undecided.first().map(|key| Finding::Undecided(key.clone())))
}

impl Running<'_> {
    async fn run_client<I: FarIndex>(&self, number: u64, index: &I, client: &Client<SimFabric>) {
        self.traced.borrow_mut().push((number, client.fabric().number()));
        let mut random = RandomStream::new(self.case.seed, &format!("client {number} of the lab"));
        let mut values = 0;
        while self.answered.get() < self.case.operations && self.finding.borrow().is_none() {
            client.fabric().spend_operation();
            let key = key::<I>(1 + random.below(self.case.keys));
            let done = match random.below(20) {
                0 if I::SCANS => self.scan(number, index, client, &key, 1 + random.below(8) as usize).await,
                0..8 => self.operate(number, index, client, key, Action::Get).await,
                8..15 => {
                    values += 1;
                    let value = value::<I>((number + 1) << 20 | values);
                    self.operate(number, index, client, key, Action::Put(value)).await
                }
                _ => self.operate(number, index, client, key, Action::Remove).await,
            };
            match done {
                Ok(()) => self.answered.set(self.answered.get() + 1),
                Err(error) if self.is_explained(&error) => {}
                Err(error) => self.fail(Finding::Error { client: number, what: error.to_string() }),
            }
        }
    }

    fn fail(&self, finding: Finding) {
        self.finding.borrow_mut().get_or_insert(finding);
    }

    /// Whether a fault of the run explains an error.
    fn is_explained(&self, error: &LabError) -> bool {
        let is_outage = |fault: Fault| matches!(fault, Fault::Down { .. } | Fault::Partition { .. });
        matches!(error, LabError::Fabric(FabricError::NodeLost { .. }))
            && self.case.rules.iter().any(|(_, rule)| is_outage(rule.fault))
    }

    /// Performs an operation, and records its call and its answer. A failed one keeps no answer.
    async fn operate<I: FarIndex>(
        &self,
        number: u64,
        index: &I,
        client: &Client<SimFabric>,
        key: Vec<u8>,
        action: Action,
    ) -> LabResult<()> {
        let call = client.fabric().now();
        let begun = self.history.borrow().operations.len();
        let operation =
            Operation { client: number, key: key.clone(), action: action.clone(), call, answer: None };
        self.history.borrow_mut().operations.push(operation);
        let answer = match &action {
            Action::Put(value) => Answer::Stored { existed: index.put(client, &key, value).await? },
            Action::Remove => Answer::Done(index.remove(client, &key).await?),
            _ => Answer::Found(index.get(client, &key).await?),
        };
        self.history.borrow_mut().operations[begun].answer = Some((client.fabric().now(), answer));
        Ok(())
    }

    async fn scan<I: FarIndex>(
        &self,
        number: u64,
        index: &I,
        client: &Client<SimFabric>,
        from: &[u8],
        limit: usize,
    ) -> LabResult<()> {
        let call = client.fabric().now();
        let entries = index.scan(client, from, limit).await?;
        let scan = Scan {
            client: number,
            call,
            end: client.fabric().now(),
            direction: Direction::Forward,
            from: Bound::Included(from.to_vec()),
            to: Bound::Unbounded,
            limit,
            entries,
        };
        self.history.borrow_mut().scans.push(scan);
        Ok(())
    }

    /// Reads every key from every surviving compute node once no fault is active, and verifies the invariants.
    fn check_contents<I: FarIndex>(&self, lab: &Lab<I>) -> RunOutcome {
        lab.world.end_rules();
        for (node, index) in lab.indexes.iter().enumerate().filter(|(node, _)| !lab.world.gone(*node)) {
            let client = lab.world.client(node);
            let mut group = lab.world.task_group();
            let number = FIRST_READER + node as u64;
            group.spawn(&client, self.report(number, self.read_all(number, index, &client)));
            let ended = group.run_until(lab.world.now() + TIME_MAX);
            if ended != RunOutcome::Done {
                return ended;
            }
        }
        RunOutcome::Done
    }

    async fn report(&self, client: u64, reading: impl Future<Output = LabResult<()>>) {
        if let Err(error) = reading.await {
            self.fail(Finding::Error { client, what: format!("at the end: {error}") });
        }
    }

    async fn read_all<I: FarIndex>(
        &self,
        number: u64,
        index: &I,
        client: &Client<SimFabric>,
    ) -> LabResult<()> {
        self.traced.borrow_mut().push((number, client.fabric().number()));
        client.fabric().sleep(QUIET).await;
        for number_of_key in 1..=self.case.keys {
            self.operate(number, index, client, key::<I>(number_of_key), Action::Get).await?;
        }
        if I::SCANS {
            self.scan(number, index, client, &key::<I>(1), usize::MAX).await?;
        }
        if let [problem, ..] = &index.verify(client).await?[..] {
            self.fail(Finding::Invariant(problem.clone()));
        }
        Ok(())
    }
}
