//! Is there an order? The Wing-Gong-Lowe search of `porcupine-rs`, one key at a time.
//!
//! Keys are independent, so the history of an index is linearizable if that of every key is. A key whose operations
//! do not overlap has one order only, and needs no search.

use super::{Action, Answer, KeyHistory, Operation, Verdict, Violation};
use porcupine_rs::{CheckResult, Model, Operation as Event};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Operations of a violation that are shown.
const SHOWN_MAX: usize = 16;

/// One key: absent, or one of its values by number.
#[derive(Clone, Debug)]
struct OneKey;

/// An operation on one key and its answer; `None` where that is unknown.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u32),
    Insert(u32, Option<bool>),
    Update(u32, Option<bool>),
    Remove(Option<bool>),
    Get(Option<u32>),
}

impl Model for OneKey {
    type State = Option<u32>;
    type Op = Step;
    type Metadata = ();

    fn init() -> Option<u32> {
        None
    }

    fn step(state: &Option<u32>, step: &Step) -> (bool, Option<u32>) {
        let present = state.is_some();
        let conditional = |told: Option<bool>, took: bool, after| {
            (told.is_none_or(|told| told == took), if took { after } else { *state })
        };
        match *step {
            Step::Put(value) => (true, Some(value)),
            Step::Insert(value, told) => conditional(told, !present, Some(value)),
            Step::Update(value, told) => conditional(told, present, Some(value)),
            Step::Remove(told) => conditional(told, present, None),
            Step::Get(found) => (found == *state, *state),
        }
    }
}

/// Numbers the values of one key.
#[derive(Default)]
struct Values<'a>(HashMap<&'a [u8], u32>);

impl<'a> Values<'a> {
    fn number(&mut self, value: &'a [u8]) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(value).or_insert(next)
    }

    /// `None`: an operation without effect and without answer.
    fn step(&mut self, operation: &'a Operation) -> Option<Step> {
        let told = match &operation.answer {
            Some((_, Answer::Done(told))) => Some(*told),
            _ => None,
        };
        Some(match (&operation.action, &operation.answer) {
            (Action::Put(value), _) => Step::Put(self.number(value)),
            (Action::Insert(value), _) => Step::Insert(self.number(value), told),
            (Action::Update(value), _) => Step::Update(self.number(value), told),
            (Action::Remove, _) => Step::Remove(told),
            (Action::Get, Some((_, Answer::Found(found)))) => {
                Step::Get(found.as_ref().map(|value| self.number(value)))
            }
            (Action::Get, _) => return None,
        })
    }
}

/// A time as the checker has it; the end of time for what never ended.
fn time(time: Option<u64>) -> i64 {
    time.map_or(i64::MAX, |time| i64::try_from(time).unwrap_or(i64::MAX - 1))
}

fn events(key: &KeyHistory<'_>) -> Vec<Event<OneKey>> {
    let mut values = Values::default();
    let event =
        |call_time, return_time, op| Event { client_id: None, call_time, return_time, op, metadata: None };
    // What was there before is a put before all others.
    let initial = key.initial.map(|value| event(-2, -1, Step::Put(values.number(value))));
    let mut events: Vec<_> = initial.into_iter().collect();
    for operation in &key.operations {
        if let Some(step) = values.step(operation) {
            let end = operation.answer.as_ref().map(|(end, _)| *end);
            events.push(event(time(Some(operation.call)), time(end), step));
        }
    }
    events
}

/// Checks all keys, on all processors.
pub(super) fn check(keys: &BTreeMap<&[u8], KeyHistory<'_>>, patience: Duration, verdict: &mut Verdict) {
    let jobs: Vec<_> = keys.iter().collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((key, history)) = jobs.get(next.fetch_add(1, Relaxed)) {
                    let result = decide(&events(history), patience);
                    if result != CheckResult::Ok {
                        found.lock().expect("nobody panics with it").push((**key, *history, result));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("nobody panicked with it");
    found.sort_by_key(|(key, ..)| *key);
    for (key, history, result) in found {
        match result {
            CheckResult::Illegal => verdict.violations.push(explain(key, history, patience)),
            _ => verdict.undecided.push(key.to_vec()),
        }
    }
}

fn decide(events: &[Event<OneKey>], patience: Duration) -> CheckResult {
    let one_by_one = events.windows(2).all(|pair| pair[0].return_time < pair[1].call_time);
    if !one_by_one {
        return porcupine_rs::check_operations_timeout(events, patience);
    }
    let mut state = OneKey::init();
    for event in events {
        let (right, after) = OneKey::step(&state, &event.op);
        if !right {
            return CheckResult::Illegal;
        }
        state = after;
    }
    CheckResult::Ok
}

/// The operations up to the first answer that no order explains.
fn explain(key: &[u8], history: &KeyHistory<'_>, patience: Duration) -> Violation {
    let mut ends: Vec<u64> =
        history.operations.iter().filter_map(|operation| Some(operation.answer.as_ref()?.0)).collect();
    ends.sort_unstable();
    // Every prefix of a right history is right: the first wrong one is found by halving.
    let wrong = |end: &u64| {
        let prefix = until(history, *end);
        let refs = KeyHistory { initial: history.initial, operations: prefix.iter().collect() };
        decide(&events(&refs), patience) == CheckResult::Illegal
    };
    let first = ends.partition_point(|end| !wrong(end));
    let end = ends.get(first).copied().unwrap_or(u64::MAX);
    let mut operations = until(history, end);
    operations.retain(|operation| !(operation.action == Action::Get && operation.answer.is_none()));
    let skipped = operations.len().saturating_sub(SHOWN_MAX);
    let what = format!("no order explains the answer at {end}");
    Violation { key: key.to_vec(), what, operations: operations.split_off(skipped) }
}

/// What was known at `end`.
fn until(history: &KeyHistory<'_>, end: u64) -> Vec<Operation> {
    let begun = history.operations.iter().filter(|operation| operation.call <= end);
    let known = begun.map(|&operation| {
        let mut operation = operation.clone();
        operation.answer = operation.answer.filter(|(answered, _)| *answered <= end);
        operation
    });
    known.collect()
}
