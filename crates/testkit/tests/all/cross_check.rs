//! Compares the search for an order with the checker of the crate todc-utils on thousands of random histories of one
//! key. Some histories are right and some are wrong, and some operations were never answered.

use farwood_testkit::harness::TestRng;
use farwood_testkit::history::{Action, Answer, Exchange, Expected, History, Operation};
use std::time::Duration;
use todc_utils::specifications::Specification;
use todc_utils::{Action as Event, WGLChecker};

/// A key that is absent or has a value.
#[derive(Debug)]
struct Key;

impl Specification for Key {
    type State = Option<Vec<u8>>;
    type Operation = (Action, Option<Answer>);

    fn init() -> Self::State {
        None
    }

    fn apply((action, answer): &Self::Operation, state: &Self::State) -> (bool, Self::State) {
        let (told, after) = perform(action, state);
        (answer.as_ref().is_none_or(|answer| *answer == told), after)
    }
}

/// The answer to an operation, and the state after it.
#[expect(clippy::ref_option, reason = "the state in the form of the other checker")]
fn perform(action: &Action, state: &Option<Vec<u8>>) -> (Answer, Option<Vec<u8>>) {
    let there = state.is_some();
    let either = |takes: bool, after| (Answer::Done(takes), if takes { after } else { state.clone() });
    match action {
        Action::Put(value) => (Answer::Stored { existed: there }, Some(value.clone())),
        Action::Insert(value) => either(!there, Some(value.clone())),
        Action::Update(value) => either(there, Some(value.clone())),
        Action::Remove => either(there, None),
        Action::Exchange(exchange) => {
            let after = if exchange.applies(state.as_deref()) { &exchange.new } else { state };
            (Answer::Found(state.clone()), after.clone())
        }
        Action::Get => (Answer::Found(state.clone()), state.clone()),
    }
}

/// Draws operations that take effect between call and answer; some answers are wrong or missing.
fn draw(random: &mut TestRng) -> Vec<Operation> {
    let (mut state, mut now) = (None, 0);
    let mut operations: Vec<Operation> = Vec::new();
    let mut open: Vec<(usize, Option<Answer>)> = Vec::new();
    for step in 0..14 {
        now += 1;
        let value = vec![step as u8];
        let kinds = [
            Action::Put(value.clone()),
            Action::Insert(value.clone()),
            Action::Update(value.clone()),
            Action::Remove,
            Action::Exchange(Exchange { expected: Expected::Any, new: Some(value.clone()) }),
            Action::Exchange(Exchange { expected: Expected::Value(state.clone()), new: Some(value.clone()) }),
            Action::Exchange(Exchange { expected: Expected::Value(None), new: Some(value) }),
            Action::Exchange(Exchange { expected: Expected::Value(state.clone()), new: None }),
            Action::Get,
        ];
        let action = kinds[random.below(kinds.len() as u64) as usize].clone();
        operations.push(Operation { client: step, key: vec![7], action, call: now, answer: None });
        open.push((operations.len() - 1, None));
        while open.len() > 3 || !open.is_empty() && random.once_in(3) {
            now += 1;
            let drawn = random.below(open.len() as u64) as usize;
            let (at, answer) = &mut open[drawn];
            if answer.is_none() {
                let (told, after) = perform(&operations[*at].action, &state);
                (*answer, state) = (Some(told), after);
            } else {
                let (at, answer) = (*at, answer.take());
                open.retain(|(other, _)| *other != at);
                operations[at].answer = answer.filter(|_| !random.once_in(12)).map(|answer| (now, answer));
            }
        }
    }
    if random.once_in(2) {
        let drawn = random.below(operations.len() as u64) as usize;
        match &mut operations[drawn].answer {
            Some((_, Answer::Done(told) | Answer::Stored { existed: told })) => *told = !*told,
            Some((_, Answer::Found(found))) => *found = found.take().map_or(Some(vec![3]), |_| None),
            None => {}
        }
    }
    operations
}

/// The result of the other checker, which requires an answer for every operation. An operation without an answer is
/// given an arbitrary answer after all others.
fn explained(operations: &[Operation]) -> bool {
    let mut events = Vec::new();
    for (at, Operation { action, call, answer, .. }) in operations.iter().enumerate() {
        let told = (action.clone(), answer.as_ref().map(|(_, answer)| answer.clone()));
        let end = answer.as_ref().map_or(u64::MAX, |(end, _)| *end);
        events.push(((*call, at), (at, Event::Call(told.clone()))));
        events.push(((end, at), (at, Event::Response(told))));
    }
    events.sort_by_key(|(time, _)| *time);
    let events = events.into_iter().map(|(_, event)| event).collect();
    WGLChecker::<Key>::is_linearizable(todc_utils::History::from_actions(events))
}

#[test]
fn both_checkers_agree() {
    let (mut random, mut wrong) = (TestRng::new(3), 0);
    for number in 0..5_000 {
        let operations = draw(&mut random);
        let history = History { operations: operations.clone(), ..History::default() };
        let ours = history.check(Duration::from_secs(10)).violations.is_empty();
        // An unanswered operation may have had no effect: any of them may be left out.
        let unanswered: Vec<_> =
            (0..operations.len()).filter(|&at| operations[at].answer.is_none()).collect();
        let theirs = (0..1_u32 << unanswered.len().min(6)).any(|left_out| {
            let kept = operations.iter().enumerate().filter(|(at, _)| {
                let place = unanswered.iter().position(|other| other == at);
                place.is_none_or(|place| left_out >> place & 1 == 0)
            });
            explained(&kept.map(|(_, operation)| operation.clone()).collect::<Vec<_>>())
        });
        assert_eq!(ours, theirs, "history {number}: {operations:#?}");
        wrong += u32::from(!ours);
    }
    assert!((100..4_000).contains(&wrong), "{wrong} of 5000 are wrong");
}
