//! Checks which entries a scan may show and which it must show.

use super::{Action, Answer, ByteString, Direction, Exchange, History, KeyHistory, Scan, Verdict, Violation};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// The changes of one key, indexed by time.
#[derive(Default)]
struct Changes {
    /// Stores that certainly took effect, by their ends, with the latest call up to each.
    stores: Latest,
    /// Stores and removals that certainly took effect.
    both: Latest,
    /// Removals that may have taken effect, by their calls, with the latest end up to each.
    removals: Latest,
    /// For each value, the stores that may have written it: call and end.
    sources: HashMap<ByteString, Vec<(u64, u64)>>,
}

/// Points of time, each with the largest number among the points up to it.
#[derive(Default)]
struct Latest(Vec<(u64, u64)>);

impl Latest {
    fn new(mut points: Vec<(u64, u64)>) -> Self {
        points.sort_unstable();
        let mut largest = 0;
        for (_, number) in &mut points {
            largest = largest.max(*number);
            *number = largest;
        }
        Self(points)
    }

    /// The largest number among the points before `moment`.
    fn before(&self, moment: u64) -> Option<u64> {
        let count = self.0.partition_point(|(at, _)| *at < moment);
        count.checked_sub(1).map(|last| self.0[last].1)
    }
}

impl Changes {
    fn of(key: &KeyHistory<'_>) -> Self {
        let (mut stores, mut changes, mut removals) = (Vec::new(), Vec::new(), Vec::new());
        let mut sources: HashMap<ByteString, Vec<(u64, u64)>> = HashMap::new();
        if let Some(value) = key.initial {
            stores.push((0, 0));
            sources.entry(value.to_vec()).or_default().push((0, 0));
        }
        for operation in &key.operations {
            // Times are shifted by one: initial entries come before time 0.
            let call = operation.call.saturating_add(1);
            let (end, sure) = match &operation.answer {
                Some((_, Answer::Done(false))) => continue,
                Some((end, _)) => (end.saturating_add(1), true),
                None => (u64::MAX, false),
            };
            match &operation.action {
                Action::Get => continue,
                Action::Exchange(exchange) if !exchange.may_change(operation.answer.as_ref()) => continue,
                Action::Remove | Action::Exchange(Exchange { new: None, .. }) => removals.push((call, end)),
                Action::Put(value)
                | Action::Insert(value)
                | Action::Update(value)
                | Action::Exchange(Exchange { new: Some(value), .. }) => {
                    sources.entry(value.clone()).or_default().push((call, end));
                    stores.extend(sure.then_some((end, call)));
                }
            }
            changes.extend(sure.then_some((end, call)));
        }
        let [stores, both, removals] = [stores, changes, removals].map(Latest::new);
        Self { stores, both, removals, sources }
    }

    /// Whether the key was certainly present from before `call` until after `end`.
    fn throughout(&self, call: u64, end: u64) -> bool {
        // Only a removal after the latest complete store matters.
        let Some(store) = self.stores.before(call) else { return false };
        self.removals.before(end.saturating_add(1)).is_none_or(|removed| removed < store)
    }

    /// Whether the key may have had `value` at some time between `call` and `end`.
    fn possible(&self, value: &[u8], call: u64, end: u64) -> bool {
        let overwritten = self.both.before(call);
        let alive = |&(stored, stored_end): &(u64, u64)| {
            stored <= end && overwritten.is_none_or(|change| change <= stored_end)
        };
        self.sources.get(value).is_some_and(|sources| sources.iter().any(alive))
    }
}

pub(super) fn check(history: &History, keys: &BTreeMap<&[u8], KeyHistory<'_>>, verdict: &mut Verdict) {
    if history.scans.is_empty() {
        return;
    }
    let changes: BTreeMap<&[u8], Changes> =
        keys.iter().map(|(key, operations)| (*key, Changes::of(operations))).collect();
    for scan in &history.scans {
        let begun = format!("a scan by client {} from {} to {}", scan.client, scan.call, scan.end);
        let wrongs = check_form(scan).into_iter().chain(shown(scan, &changes)).chain(missed(scan, &changes));
        verdict.violations.extend(wrongs.map(|(key, what)| Violation {
            what: format!("{begun} {what}"),
            until: u64::MAX,
            operations: keys.get(key.as_slice()).map(|key| last(key, scan)).unwrap_or_default(),
            key,
        }));
    }
}

/// The last operations on a key that began before a scan ended.
fn last(key: &KeyHistory<'_>, scan: &Scan) -> Vec<super::Operation> {
    const SHOWN_MAX: usize = 8;
    let changes = key.operations.iter().filter(|operation| operation.action != Action::Get);
    let before: Vec<_> = changes.filter(|operation| operation.call <= scan.end).collect();
    before[before.len().saturating_sub(SHOWN_MAX)..].iter().map(|&&operation| operation.clone()).collect()
}

type Wrong = (ByteString, String);

/// Checks order, bounds and limit.
fn check_form(scan: &Scan) -> Vec<Wrong> {
    let mut wrongs = Vec::new();
    for pair in scan.entries.windows(2) {
        let (one, next) = (&pair[0].0, &pair[1].0);
        let ordered = match scan.direction {
            Direction::Forward => one < next,
            Direction::Backward => one > next,
        };
        if !ordered {
            wrongs.push((next.clone(), format!("shows it after {one:02x?}")));
        }
    }
    for (key, _) in &scan.entries {
        if !within(key, &scan.from, &scan.to) {
            wrongs.push((key.clone(), "shows it outside its bounds".to_owned()));
        }
    }
    if scan.entries.len() > scan.limit {
        let key = scan.entries[scan.limit].0.clone();
        wrongs.push((key, format!("shows {} entries, and its limit is {}", scan.entries.len(), scan.limit)));
    }
    wrongs
}

fn within(key: &[u8], from: &Bound<ByteString>, to: &Bound<ByteString>) -> bool {
    let above = match from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= from.as_slice(),
        Bound::Excluded(from) => key > from.as_slice(),
    };
    let below = match to {
        Bound::Unbounded => true,
        Bound::Included(to) => key <= to.as_slice(),
        Bound::Excluded(to) => key < to.as_slice(),
    };
    above && below
}

/// Entries that were not present at any time during the scan.
fn shown(scan: &Scan, changes: &BTreeMap<&[u8], Changes>) -> Vec<Wrong> {
    let (call, end) = (scan.call.saturating_add(1), scan.end.saturating_add(1));
    let impossible = scan.entries.iter().filter(|(key, value)| {
        !changes.get(key.as_slice()).is_some_and(|changes| changes.possible(value, call, end))
    });
    impossible
        .map(|(key, value)| {
            (key.clone(), format!("shows {value:02x?}, which the key did not have during the scan"))
        })
        .collect()
}

/// Keys in the scanned part that were present throughout and are not shown.
fn missed(scan: &Scan, changes: &BTreeMap<&[u8], Changes>) -> Vec<Wrong> {
    let (call, end) = (scan.call.saturating_add(1), scan.end.saturating_add(1));
    let (mut from, mut to) = (scan.from.clone(), scan.to.clone());
    if scan.limit == 0 {
        return Vec::new();
    }
    if scan.entries.len() >= scan.limit {
        let reached = Bound::Included(scan.entries[scan.entries.len() - 1].0.clone());
        match scan.direction {
            Direction::Forward => to = reached,
            Direction::Backward => from = reached,
        }
    }
    let shown: std::collections::HashSet<&[u8]> =
        scan.entries.iter().map(|(key, _)| key.as_slice()).collect();
    let start = from.as_ref().map(Vec::as_slice);
    let all = changes.range::<[u8], _>((start, Bound::Unbounded));
    let covered = all.take_while(|(key, _)| within(key, &Bound::Unbounded, &to));
    let missed = covered.filter(|(key, changes)| !shown.contains(*key) && changes.throughout(call, end));
    missed
        .map(|(key, _)| (key.to_vec(), "does not show it, although it was present throughout".to_owned()))
        .collect()
}
