//! The checks of histories accept right histories and find violations.

use farwood_testkit::harness::TestRng;
use farwood_testkit::history::{
    Action, Answer, ByteString, Direction, Exchange, Expected, History, Operation, Recorder, Scan, Verdict,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn bytes(text: &str) -> ByteString {
    text.as_bytes().to_vec()
}

fn put(value: &str) -> Action {
    Action::Put(bytes(value))
}

fn insert(value: &str) -> Action {
    Action::Insert(bytes(value))
}

fn update(value: &str) -> Action {
    Action::Update(bytes(value))
}

fn found(value: &str) -> Answer {
    Answer::Found(Some(bytes(value)))
}

const YES: Answer = Answer::Done(true);
const NO: Answer = Answer::Done(false);
const NONE: Answer = Answer::Found(None);

/// An operation on key "k" from `call` to `end`.
fn operation(call: u64, end: u64, action: Action, answer: Answer) -> Operation {
    Operation { client: call, key: bytes("k"), action, call, answer: Some((end, answer)) }
}

/// An operation on key "k" that was never answered.
fn killed(call: u64, action: Action) -> Operation {
    Operation { client: call, key: bytes("k"), action, call, answer: None }
}

fn history(operations: &[Operation]) -> History {
    History { operations: operations.to_vec(), ..History::default() }
}

fn check(history: &History) -> Verdict {
    let verdict = history.check(PATIENCE);
    assert!(verdict.undecided.is_empty(), "{verdict:?}");
    // A history that is written and read back is the same.
    let (mut lines, back) = journal(history);
    assert_eq!(back.check(PATIENCE).violations.len(), verdict.violations.len());
    lines.truncate(lines.len().saturating_sub(1));
    History::read(lines.as_slice()).expect("a journal may be cut off");
    verdict
}

/// Writes a history as journals of its clients, and reads it back.
fn journal(history: &History) -> (Vec<u8>, History) {
    let mut journals: BTreeMap<u64, Recorder<Vec<u8>>> = BTreeMap::new();
    for (key, value) in &history.initial {
        journals.entry(0).or_insert_with(|| Recorder::new(0, Vec::new())).initial(key, value).unwrap();
    }
    for operation in &history.operations {
        let client = operation.client;
        let journal = journals.entry(client).or_insert_with(|| Recorder::new(client, Vec::new()));
        let pending = journal.call(operation.call, &operation.key, &operation.action).unwrap();
        if let Some((end, answer)) = &operation.answer {
            journal.answer(pending, *end, answer).unwrap();
        }
    }
    for scan in &history.scans {
        let client = scan.client;
        let journal = journals.entry(client).or_insert_with(|| Recorder::new(client, Vec::new()));
        journal.scan(scan).unwrap();
    }
    let mut lines = Vec::new();
    let mut merged = History::default();
    for journal in journals.into_values() {
        let written = journal.into_inner();
        merged.merge(History::read(written.as_slice()).expect("a journal"));
        lines.extend(written);
    }
    assert_eq!(merged.initial, history.initial);
    let sorted = |history: &History| {
        let mut operations = history.operations.clone();
        operations.sort_by_key(|operation| (operation.client, operation.call));
        operations
    };
    assert_eq!(sorted(&merged), sorted(history));
    (lines, merged)
}

fn right(operations: &[Operation]) {
    check(&history(operations)).expect_right();
}

fn wrong(operations: &[Operation]) {
    let verdict = check(&history(operations));
    assert_eq!(verdict.violations.len(), 1, "{verdict:?}");
    assert_eq!(verdict.violations[0].key, bytes("k"));
}

#[test]
fn sequential_operations_have_one_order() {
    right(&[
        operation(1, 2, Action::Get, NONE),
        operation(3, 4, update("a"), NO),
        operation(5, 6, insert("a"), YES),
        operation(7, 8, insert("b"), NO),
        operation(9, 10, Action::Get, found("a")),
        operation(11, 12, update("b"), YES),
        operation(13, 14, put("c"), YES),
        operation(15, 16, Action::Get, found("c")),
        operation(17, 18, Action::Remove, YES),
        operation(19, 20, Action::Remove, NO),
        operation(21, 22, Action::Get, NONE),
    ]);
    for (action, answer) in [
        (update("b"), NO),
        (insert("b"), YES),
        (Action::Remove, NO),
        (Action::Get, NONE),
        (Action::Get, found("b")),
    ] {
        wrong(&[operation(1, 2, insert("a"), YES), operation(3, 4, action, answer)]);
    }
}

#[test]
fn overlapping_operations_may_be_ordered_either_way() {
    for value in ["a", "b"] {
        right(&[
            operation(1, 10, put("a"), YES),
            operation(2, 9, put("b"), YES),
            operation(11, 12, Action::Get, found(value)),
        ]);
    }
    // The two readers disagree on the order.
    wrong(&[
        operation(1, 10, put("a"), YES),
        operation(2, 9, put("b"), YES),
        operation(11, 12, Action::Get, found("a")),
        operation(13, 14, Action::Get, found("b")),
    ]);
}

#[test]
fn a_put_that_reports_whether_the_key_existed_is_checked() {
    let stored = |existed| Answer::Stored { existed };
    right(&[operation(1, 2, put("a"), stored(false)), operation(3, 4, put("b"), stored(true))]);
    wrong(&[operation(1, 2, put("a"), stored(true))]);
    wrong(&[operation(1, 2, put("a"), stored(false)), operation(3, 4, put("b"), stored(false))]);
}

#[test]
fn equal_times_count_as_concurrent() {
    for value in ["a", "b"] {
        let get = operation(20, 21, Action::Get, found(value));
        right(&[operation(1, 5, put("a"), YES), operation(5, 9, put("b"), YES), get]);
    }
    wrong(&[
        operation(1, 5, put("a"), YES),
        operation(6, 9, put("b"), YES),
        operation(20, 21, Action::Get, found("a")),
    ]);
}

#[test]
fn a_stale_read_is_found() {
    // The second read returns an older value than the first.
    wrong(&[
        operation(1, 2, put("a"), YES),
        operation(3, 20, put("b"), YES),
        operation(4, 5, Action::Get, found("b")),
        operation(6, 7, Action::Get, found("a")),
    ]);
    wrong(&[
        operation(1, 2, put("a"), YES),
        operation(3, 4, put("b"), YES),
        operation(5, 9, Action::Get, found("a")),
    ]);
}

#[test]
fn a_lost_update_is_found() {
    wrong(&[
        operation(1, 2, insert("a"), YES),
        operation(3, 8, update("b"), YES),
        operation(4, 9, update("c"), YES),
        operation(10, 11, Action::Get, found("a")),
    ]);
    // Two removals of one insertion.
    wrong(&[
        operation(1, 2, insert("a"), YES),
        operation(3, 8, Action::Remove, YES),
        operation(4, 9, Action::Remove, YES),
    ]);
    // Two insertions, nothing removed.
    wrong(&[operation(1, 8, insert("a"), YES), operation(2, 9, insert("b"), YES)]);
}

#[test]
fn a_phantom_is_found() {
    wrong(&[operation(1, 2, put("a"), YES), operation(1, 9, Action::Get, found("never written"))]);
    // Read before it was written.
    wrong(&[operation(1, 2, Action::Get, found("a")), operation(3, 4, put("a"), YES)]);
}

#[test]
fn an_operation_without_an_answer_takes_effect_or_not() {
    let put_a = operation(1, 2, put("a"), YES);
    for value in ["a", "b"] {
        let get = operation(10, 11, Action::Get, found(value));
        right(&[put_a.clone(), killed(3, put("b")), get]);
    }
    // It may take effect late, but only once, and not before it began.
    right(&[
        put_a.clone(),
        killed(3, put("b")),
        operation(10, 11, Action::Get, found("a")),
        operation(12, 13, Action::Get, found("b")),
    ]);
    wrong(&[
        put_a.clone(),
        killed(3, put("b")),
        operation(10, 11, Action::Get, found("b")),
        operation(12, 13, Action::Get, found("a")),
    ]);
    wrong(&[put_a.clone(), operation(3, 4, Action::Get, found("b")), killed(5, put("b"))]);
    right(&[put_a.clone(), killed(3, Action::Remove), operation(10, 11, insert("b"), YES)]);
    right(&[put_a.clone(), killed(3, Action::Get), killed(4, Action::Get)]);
    wrong(&[put_a, killed(3, insert("b")), operation(10, 11, Action::Get, NONE)]);
}

fn exchange(expected: Expected, new: Option<&str>) -> Action {
    Action::Exchange(Exchange { expected, new: new.map(bytes) })
}

#[test]
fn an_exchange_is_one_step() {
    let put_a = operation(1, 2, put("a"), YES);
    let get = |value| operation(20, 21, Action::Get, found(value));
    let of_a = |call, end, new, answer| {
        operation(call, end, exchange(Expected::Value(Some(bytes("a"))), Some(new)), answer)
    };
    right(&[put_a.clone(), of_a(3, 4, "b", found("a")), get("b")]);
    wrong(&[put_a.clone(), of_a(3, 4, "b", found("a")), get("a")]);
    wrong(&[put_a.clone(), of_a(3, 4, "b", found("c")), get("a")]);
    // Two exchanges at the same time: one of them finds the value of the other.
    right(&[put_a.clone(), of_a(3, 9, "b", found("a")), of_a(4, 8, "c", found("b")), get("b")]);
    wrong(&[put_a.clone(), of_a(3, 9, "b", found("a")), of_a(4, 8, "c", found("a")), get("c")]);
    let any = |call, end, new, answer| operation(call, end, exchange(Expected::Any, new), answer);
    right(&[put_a.clone(), any(3, 4, None, found("a")), operation(5, 6, Action::Get, NONE)]);
    right(&[any(3, 4, None, NONE), any(5, 6, Some("b"), NONE), any(7, 8, Some("c"), found("b"))]);
    wrong(&[put_a.clone(), any(3, 4, Some("b"), NONE)]);
    // A client that was killed may have made its exchange, if the key had the expected value.
    right(&[put_a.clone(), killed(3, exchange(Expected::Value(Some(bytes("a"))), Some("b"))), get("b")]);
    wrong(&[put_a, killed(3, exchange(Expected::Value(None), Some("b"))), get("b")]);
}

#[test]
fn initial_entries_are_considered() {
    let initial: BTreeMap<ByteString, ByteString> = [(bytes("k"), bytes("old"))].into();
    let with = |operations: &[Operation]| History { initial: initial.clone(), ..history(operations) };
    check(&with(&[operation(0, 1, Action::Get, found("old"))])).expect_right();
    let verdict = check(&with(&[operation(0, 1, Action::Get, NONE)]));
    assert_eq!(verdict.violations.len(), 1);
}

#[test]
fn a_violation_shows_the_operations_that_led_to_it() {
    let mut operations: Vec<Operation> =
        (0..100).map(|time| operation(10 * time, 10 * time + 15, put("a"), YES)).collect();
    operations.push(operation(2000, 2001, Action::Get, NONE));
    operations.extend((0..50).map(|time| operation(3000 + 2 * time, 3001 + 2 * time, put("b"), YES)));
    let verdict = check(&history(&operations));
    let violation = &verdict.violations[0];
    assert!(violation.what.contains("at 2001"), "{violation}");
    let last = violation.operations.last().expect("an operation");
    assert_eq!((last.call, violation.operations.len() <= 16), (2000, true), "{violation}");
}

#[test]
fn invalid_lines_are_errors() {
    for line in [
        "<  1 2",
        "> 1 1 1 look xab",
        "> 1 1 1 exchange xab *",
        "> 1 1 1 exchange xab xa -",
        "> 1 1 1 put xab",
        "< 1 1 1 yes",
        "= xa xb",
        "s 1 1",
        "?",
    ] {
        let read = History::read(format!("{line}\n").as_bytes());
        assert!(read.is_err(), "{line}: {read:?}");
    }
    assert_eq!(History::read(&b""[..]).expect("an empty journal"), History::default());
}

/// Keys "a" to "e", initially with the value "1".
fn five() -> BTreeMap<ByteString, ByteString> {
    ["a", "b", "c", "d", "e"].map(|key| (bytes(key), bytes("1"))).into()
}

/// A scan from 100 to 200, of all keys in the order given.
fn scan(keys: &[&str], limit: usize) -> Scan {
    let entries = keys.iter().map(|key| (bytes(&key[..1]), bytes(&key[1..]))).collect();
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    Scan { client: 9, call: 100, end: 200, direction: Direction::Forward, from, to, limit, entries }
}

fn wrongs(scan: Scan, operations: &[(&str, Operation)]) -> usize {
    let on = |(key, operation): &(&str, Operation)| Operation { key: bytes(key), ..operation.clone() };
    let operations = operations.iter().map(on).collect();
    check(&History { initial: five(), operations, scans: vec![scan] }).violations.len()
}

#[test]
fn scans_show_all_entries_in_order() {
    let all = ["a1", "b1", "c1", "d1", "e1"];
    assert_eq!(wrongs(scan(&all, 10), &[]), 0);
    assert_eq!(wrongs(scan(&all, 5), &[]), 0);
    assert_eq!(wrongs(scan(&all, 4), &[]), 1, "more than the limit");
    assert_eq!(wrongs(scan(&["a1", "b1"], 2), &[]), 0, "no further than the limit");
    assert_eq!(wrongs(scan(&["a1", "c1"], 2), &[]), 1, "b is missing");
    assert_eq!(wrongs(scan(&["a1", "b1", "d1", "e1"], 10), &[]), 1, "c is missing");
    assert_eq!(wrongs(scan(&["a1", "b1", "b1", "c1", "d1", "e1"], 10), &[]), 1, "b twice");
    assert_eq!(wrongs(scan(&["a1", "c1", "b1", "d1", "e1"], 10), &[]), 1, "b after c");
    assert_eq!(wrongs(scan(&["a1", "b1", "c2", "d1", "e1"], 10), &[]), 1, "c never was 2");
    assert_eq!(wrongs(scan(&["a1", "b1", "c1", "d1", "e1", "f1"], 10), &[]), 1, "there is no f");
    let backward = |keys| Scan { direction: Direction::Backward, ..scan(keys, 3) };
    assert_eq!(wrongs(backward(&["e1", "d1", "c1"]), &[]), 0);
    assert_eq!(wrongs(backward(&["e1", "c1", "b1"]), &[]), 1, "d is missing");
    assert_eq!(wrongs(backward(&["c1", "d1", "e1"]), &[]), 2, "the wrong way");
    let bounded =
        |keys| Scan { from: Bound::Excluded(bytes("a")), to: Bound::Included(bytes("d")), ..scan(keys, 10) };
    assert_eq!(wrongs(bounded(&["b1", "c1", "d1"]), &[]), 0);
    assert_eq!(wrongs(bounded(&["b1", "c1"]), &[]), 1, "d is missing");
    assert_eq!(wrongs(bounded(&["a1", "b1", "c1", "d1"]), &[]), 1, "a is outside");
}

#[test]
fn scans_during_changes_are_checked() {
    let without = ["a1", "b1", "d1", "e1"];
    let with = ["a1", "b1", "c1", "d1", "e1"];
    let removed = |call, end| ("c", operation(call, end, Action::Remove, YES));
    // A key removed before the scan must not be shown, one removed during it may be, one removed after it must be.
    assert_eq!(
        (wrongs(scan(&without, 9), &[removed(10, 20)]), wrongs(scan(&with, 9), &[removed(10, 20)])),
        (0, 1)
    );
    assert_eq!(
        (wrongs(scan(&without, 9), &[removed(90, 110)]), wrongs(scan(&with, 9), &[removed(90, 110)])),
        (0, 0)
    );
    assert_eq!(
        (wrongs(scan(&without, 9), &[removed(201, 210)]), wrongs(scan(&with, 9), &[removed(201, 210)])),
        (1, 0)
    );
    // A removal that failed or began after the scan does not count; one of a killed client may have taken effect.
    assert_eq!(wrongs(scan(&without, 9), &[("c", operation(10, 20, Action::Remove, NO))]), 2);
    assert_eq!(wrongs(scan(&without, 9), &[("c", killed(10, Action::Remove))]), 0);
    assert_eq!(wrongs(scan(&with, 9), &[("c", killed(10, Action::Remove))]), 0);
    // A key that was removed and put again before the scan was present throughout.
    let back = [removed(10, 20), ("c", operation(30, 40, put("1"), YES))];
    assert_eq!((wrongs(scan(&without, 9), &back), wrongs(scan(&with, 9), &back)), (1, 0));
    // After an update before the scan only the new value is possible, during the scan both are.
    let changed = ["a1", "b1", "c2", "d1", "e1"];
    let before = [("c", operation(10, 20, put("2"), YES))];
    assert_eq!((wrongs(scan(&changed, 9), &before), wrongs(scan(&with, 9), &before)), (0, 1));
    let during = [("c", operation(90, 110, put("2"), YES))];
    assert_eq!((wrongs(scan(&changed, 9), &during), wrongs(scan(&with, 9), &during)), (0, 0));
    let after = [("c", operation(201, 210, put("2"), YES))];
    assert_eq!((wrongs(scan(&changed, 9), &after), wrongs(scan(&with, 9), &after)), (1, 0));
    // The value of the first of two completed puts.
    let twice = [before[0].clone(), ("c", operation(30, 40, put("3"), YES))];
    assert_eq!(wrongs(scan(&changed, 9), &twice), 1);
}

#[test]
fn scans_beside_exchanges_are_checked() {
    let (with, stored) = (["a1", "b1", "c1", "d1", "e1"], ["a1", "b1", "c2", "d1", "e1"]);
    let scans: [&[&str]; 3] = [&with, &stored, &["a1", "b1", "d1", "e1"]];
    let violations = |change: Operation| {
        let changes = [("c", change)];
        scans.map(|entries| wrongs(scan(entries, 9), &changes))
    };
    let exchanged = |expected, new, answer| {
        operation(10, 20, exchange(Expected::Value(Some(bytes(expected))), new), answer)
    };
    // One that found another value than the expected one changes nothing: its new value must not be shown.
    assert_eq!(violations(exchanged("7", Some("2"), found("1"))), [0, 1, 1]);
    // One that stored before the scan: only its new value is possible.
    assert_eq!(violations(exchanged("1", Some("2"), found("1"))), [1, 0, 1]);
    // One that removed the key before the scan: no value is possible, and the key is missing.
    assert_eq!(violations(exchanged("1", None, found("1"))), [1, 1, 0]);
    // One that was never answered may have stored, and may have removed the key.
    let never = |new| killed(10, exchange(Expected::Value(Some(bytes("1"))), new));
    assert_eq!(violations(never(Some("2"))), [0, 0, 1]);
    assert_eq!(violations(never(None)), [0, 1, 0]);
}

/// A million operations of 8 clients on 1,000 keys, each taking effect at some time between its call and its end.
fn large(seed: u64) -> History {
    const CLIENTS: u64 = 8;
    let (mut random, mut state) = (TestRng::new(seed), BTreeMap::new());
    let mut history = History::default();
    for time in 0..1_000_000_u64 {
        let key = random.below(1000).to_be_bytes().to_vec();
        let value = time.to_be_bytes().to_vec();
        let there = state.contains_key(&key);
        let (action, answer) = match random.below(8) {
            0 => (Action::Put(value.clone()), YES),
            1 => (Action::Insert(value.clone()), Answer::Done(!there)),
            2 => (Action::Update(value.clone()), Answer::Done(there)),
            3 => (Action::Remove, Answer::Done(there)),
            _ => (Action::Get, Answer::Found(state.get(&key).cloned())),
        };
        match (&action, &answer) {
            (Action::Remove, Answer::Done(true)) => drop(state.remove(&key)),
            (Action::Get, _) | (_, Answer::Done(false)) => {}
            _ => drop(state.insert(key.clone(), value)),
        }
        // One operation begins per tick, on one of a thousand keys, so operations on the same key overlap.
        let at = 100_000 + 10 * time;
        let (call, end) = (at - random.below(30_000), at + random.below(30_000));
        history.operations.push(Operation {
            client: time % CLIENTS,
            key,
            action,
            call,
            answer: Some((end, answer)),
        });
    }
    history
}

#[test]
fn a_million_operations_are_checked_in_seconds() {
    let mut history = large(1);
    let begun = Instant::now();
    history.check(PATIENCE).expect_right();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    // Changes one answer of a million.
    let stale = history.operations.iter().rposition(|operation| operation.answer.as_ref().unwrap().1 == NONE);
    let stale = &mut history.operations[stale.expect("some gets find nothing")];
    stale.answer.as_mut().unwrap().1 = found("a ghost");
    let key = stale.key.clone();
    let verdict = history.check(PATIENCE);
    assert_eq!(verdict.violations.len(), 1);
    assert_eq!(verdict.violations[0].key, key);
}
