//! The search for an order of the operations on each key, by the algorithm of Wing and Gong with Lowe's cache of states
//! that were already searched.
//!
//! Keys are independent, so the history of an index is linearizable if the history of every key is. The search
//! considers few operations at a time: those that had begun when the first of the others ended.

use super::{Action, Answer, ByteString, Exchange, Expected, KeyHistory, Operation, Verdict, Violation};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum number of operations that a violation shows.
const SHOWN_MAX: usize = 16;
/// Steps of the search between two checks of the time limit.
const STEPS_PER_CLOCK: u64 = 1 << 10;

/// The state of a key: absent, or the number of its value.
type KeyState = Option<u32>;

/// An operation on one key and its answer; `None` if the answer is unknown.
#[derive(Clone, Copy, Debug)]
enum AnsweredStep {
    Put(u32),
    Insert(u32, Option<bool>),
    Update(u32, Option<bool>),
    Remove(Option<bool>),
    Get(Option<u32>),
    Exchange {
        /// The expected state; `None`: any.
        expected: Option<KeyState>,
        new: KeyState,
        /// The state that the operation found; `None`: the answer is unknown.
        found: Option<KeyState>,
    },
}

impl AnsweredStep {
    /// The state after the step; `None` if the answer contradicts `state`.
    fn after(self, state: KeyState) -> Option<KeyState> {
        let present = state.is_some();
        let conditional = |told: Option<bool>, took: bool, after| {
            told.is_none_or(|told| told == took).then_some(if took { after } else { state })
        };
        match self {
            Self::Put(value) => Some(Some(value)),
            Self::Insert(value, told) => conditional(told, !present, Some(value)),
            Self::Update(value, told) => conditional(told, present, Some(value)),
            Self::Remove(told) => conditional(told, present, None),
            Self::Get(found) => (found == state).then_some(state),
            Self::Exchange { expected, new, found } => {
                let applies = expected.is_none_or(|expected| expected == state);
                found.is_none_or(|found| found == state).then_some(if applies { new } else { state })
            }
        }
    }
}

/// A step and its time: from the call to the answer.
#[derive(Clone, Copy, Debug)]
struct Event {
    call: u64,
    end: u64,
    step: AnsweredStep,
}

/// The steps of one key in the order of their calls: with and without an answer.
#[derive(Debug, Default)]
struct Events {
    answered: Vec<Event>,
    unanswered: Vec<Event>,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Explained,
    Unexplained,
    Undecided,
}

/// The beginning of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PartialOrder {
    /// All answered steps before this one are placed.
    frontier: u32,
    /// Answered steps after the frontier that are placed, in increasing order.
    beyond: Vec<u32>,
    /// Unanswered steps that are placed, in increasing order.
    taken: Vec<u32>,
    state: KeyState,
}

impl PartialOrder {
    /// Returns this order, extended by an answered step.
    fn with_answered(&self, at: u32, state: KeyState) -> Self {
        let mut next = Self { state, ..self.clone() };
        if at != self.frontier {
            let index = next.beyond.partition_point(|&other| other < at);
            next.beyond.insert(index, at);
            return next;
        }
        next.frontier += 1;
        let run = next.beyond.iter().zip(next.frontier..).take_while(|(placed, wanted)| *placed == wanted);
        let run = run.count();
        next.beyond.drain(..run);
        next.frontier += run as u32;
        next
    }

    /// Returns this order, extended by an unanswered step.
    fn with_unanswered(&self, at: u32, state: KeyState) -> Self {
        let mut next = Self { state, ..self.clone() };
        let index = next.taken.partition_point(|&other| other < at);
        next.taken.insert(index, at);
        next
    }
}

impl Events {
    fn decide(&self, patience: Duration) -> Decision {
        let start = Instant::now();
        let mut tried = HashSet::new();
        let mut open = vec![PartialOrder { frontier: 0, beyond: Vec::new(), taken: Vec::new(), state: None }];
        let mut steps = 0;
        let mut ready = Vec::new();
        while let Some(reached) = open.pop() {
            if reached.frontier as usize == self.answered.len() {
                return Decision::Explained;
            }
            steps += 1;
            if steps % STEPS_PER_CLOCK == 0 && start.elapsed() > patience {
                return Decision::Undecided;
            }
            let first_end = self.ready(&reached, &mut ready);
            self.take_unanswered(&reached, first_end, &mut tried, &mut open);
            // The step that ended first is tried first.
            ready.sort_unstable_by_key(|&at| std::cmp::Reverse(self.answered[at as usize].end));
            for &at in &ready {
                if let Some(state) = self.answered[at as usize].step.after(reached.state) {
                    let next = reached.with_answered(at, state);
                    if tried.insert(next.clone()) {
                        open.push(next);
                    }
                }
            }
        }
        Decision::Unexplained
    }

    /// Collects the answered steps that may come next: those that had begun when the first of them ended. Yields that
    /// time.
    fn ready(&self, reached: &PartialOrder, ready: &mut Vec<u32>) -> u64 {
        ready.clear();
        let mut first_end = u64::MAX;
        let mut placed = reached.beyond.iter().peekable();
        for (at, event) in (reached.frontier..).zip(&self.answered[reached.frontier as usize..]) {
            if event.call > first_end {
                break;
            }
            if placed.next_if(|placed| **placed == at).is_none() {
                first_end = first_end.min(event.end);
                ready.push(at);
            }
        }
        ready.retain(|&at| self.answered[at as usize].call <= first_end);
        first_end
    }

    /// Adds the unanswered steps that may come next: those that had begun and change the state.
    fn take_unanswered(
        &self,
        reached: &PartialOrder,
        first_end: u64,
        tried: &mut HashSet<PartialOrder>,
        open: &mut Vec<PartialOrder>,
    ) {
        for (at, event) in (0..).zip(&self.unanswered).take_while(|(_, event)| event.call <= first_end) {
            let after = event.step.after(reached.state).filter(|after| *after != reached.state);
            if let Some(state) = after.filter(|_| reached.taken.binary_search(&at).is_err()) {
                let next = reached.with_unanswered(at, state);
                if tried.insert(next.clone()) {
                    open.push(next);
                }
            }
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

    /// The step of an operation; `None` for a get without an answer.
    fn step(&mut self, operation: &'a Operation) -> Option<AnsweredStep> {
        let told = match &operation.answer {
            Some((_, Answer::Done(told))) => Some(*told),
            _ => None,
        };
        Some(match (&operation.action, &operation.answer) {
            // A put that reports whether the key existed is an update or an insert that took effect.
            (Action::Put(value), Some((_, Answer::Stored { existed: true }))) => {
                AnsweredStep::Update(self.number(value), Some(true))
            }
            (Action::Put(value), Some((_, Answer::Stored { existed: false }))) => {
                AnsweredStep::Insert(self.number(value), Some(true))
            }
            (Action::Put(value), _) => AnsweredStep::Put(self.number(value)),
            (Action::Insert(value), _) => AnsweredStep::Insert(self.number(value), told),
            (Action::Update(value), _) => AnsweredStep::Update(self.number(value), told),
            (Action::Remove, _) => AnsweredStep::Remove(told),
            (Action::Exchange(Exchange { expected, new }), answer) => {
                let mut state =
                    |value: &'a Option<ByteString>| value.as_ref().map(|value| self.number(value));
                AnsweredStep::Exchange {
                    expected: match expected {
                        Expected::Any => None,
                        Expected::Value(expected) => Some(state(expected)),
                    },
                    new: state(new),
                    found: match answer {
                        Some((_, Answer::Found(found))) => Some(state(found)),
                        _ => None,
                    },
                }
            }
            (Action::Get, Some((_, Answer::Found(found)))) => {
                AnsweredStep::Get(found.as_ref().map(|value| self.number(value)))
            }
            (Action::Get, _) => return None,
        })
    }
}

fn events(key: &KeyHistory<'_>) -> Events {
    let mut values = Values::default();
    let mut events = Events::default();
    if let Some(value) = key.initial {
        // The initial value is a put before all others, so times are shifted by two.
        events.answered.push(Event { call: 0, end: 1, step: AnsweredStep::Put(values.number(value)) });
    }
    for operation in &key.operations {
        let Some(step) = values.step(operation) else { continue };
        let call = operation.call.saturating_add(2);
        match &operation.answer {
            Some((end, _)) => events.answered.push(Event { call, end: end.saturating_add(2), step }),
            None => events.unanswered.push(Event { call, end: u64::MAX, step }),
        }
    }
    events
}

/// Checks all keys on all processors.
pub(super) fn check(keys: &BTreeMap<&[u8], KeyHistory<'_>>, patience: Duration, verdict: &mut Verdict) {
    let jobs: Vec<_> = keys.iter().collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((key, history)) = jobs.get(next.fetch_add(1, Relaxed)) {
                    let result = events(history).decide(patience);
                    if result != Decision::Explained {
                        found
                            .lock()
                            .expect("no thread panics while it holds the lock")
                            .push((**key, *history, result));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panicked while it held the lock");
    found.sort_by_key(|(key, ..)| *key);
    for (key, history, result) in found {
        match result {
            Decision::Unexplained => verdict.violations.push(explain(key, history, patience)),
            _ => verdict.undecided.push(key.to_vec()),
        }
    }
}

/// The operations up to the first answer that no order explains.
fn explain(key: &[u8], history: &KeyHistory<'_>, patience: Duration) -> Violation {
    let mut ends: Vec<u64> =
        history.operations.iter().filter_map(|operation| Some(operation.answer.as_ref()?.0)).collect();
    ends.sort_unstable();
    // Every prefix of a correct history is correct, so a binary search finds the first wrong one.
    let wrong = |end: &u64| {
        let prefix = until(history, *end);
        let refs = KeyHistory { initial: history.initial, operations: prefix.iter().collect() };
        events(&refs).decide(patience) == Decision::Unexplained
    };
    let first = ends.partition_point(|end| !wrong(end));
    let end = ends.get(first).copied().unwrap_or(u64::MAX);
    let begun = history.operations.iter().filter(|operation| operation.call <= end);
    let is_answered = |operation: &&&Operation| operation.answer.as_ref().is_some_and(|(at, _)| *at <= end);
    // A get without an answer explains nothing.
    let shown = begun.filter(|operation| operation.action != Action::Get || is_answered(operation));
    let mut operations: Vec<_> = shown.map(|operation| (*operation).clone()).collect();
    let skipped = operations.len().saturating_sub(SHOWN_MAX);
    let what = format!("no order explains the answer at {end}");
    Violation { key: key.to_vec(), what, until: end, operations: operations.split_off(skipped) }
}

/// The operations and answers until `end`.
fn until(history: &KeyHistory<'_>, end: u64) -> Vec<Operation> {
    let begun = history.operations.iter().filter(|operation| operation.call <= end);
    let known = begun.map(|&operation| {
        let mut operation = operation.clone();
        operation.answer = operation.answer.filter(|(answered, _)| *answered <= end);
        operation
    });
    known.collect()
}
