//! Range scans: the leaves of a range fetched in parallel, each checked against where the last one ended
//! (Sherman §4.4, "Range query").
//!
//! A scan is not atomic: it sees each leaf at another moment. But it never misses a key that was there throughout:
//! leaves are taken in the order of their fences, and the next one must begin where the last one ended. A leaf
//! that was split after its parent was cached ends earlier than the parent says: the parent is then read again.
//!
//! Keys have a fixed length, so the largest key below another is that key minus one: a scan backwards looks for
//! the leaf that covers the key before the last leaf's lower fence.

use super::Sherman;
use super::cached::CachedInner;
use super::descend::{
    Copy, NO_LINK, RESTARTS_MAX, STEPS_RIGHT_MAX, TORN_TRIES_MAX, Whereabouts, torn, whereabouts,
};
use super::layout::{Layout, Values};
use super::node::RawNode;
use super::snapshot::{SNAPSHOT_LEAVES_MAX, Seen};
use super::values::Stored;
use crate::error::IndexError;
use crate::extent::{self, Link};
use crate::key::compare;
use crate::marks;
use crate::retry::Retry;
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, Fetched, Remote, Torn, all, read_bytes};
use std::cmp::Ordering;
use std::ops::Range as Span;

/// Leaves fetched by one doorbell, at most.
const LEAVES_MAX: usize = 32;
/// Values out of line fetched by one doorbell, at most.
const VALUES_PER_POST: usize = 64;
/// The longest of them, bytes: others are looked up one by one.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// Share of a leaf that is expected to be in use, in percent: what random insertion settles at.
const FILL_PERCENT: usize = 70;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// By increasing key.
    Forward,
    /// By decreasing key.
    Backward,
}

/// The keys of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range<'a> {
    /// The smallest key, itself in the range; `None`: from the first.
    pub from: Option<&'a [u8]>,
    /// The end, itself not in the range; `None`: to the last.
    pub to: Option<&'a [u8]>,
}

/// What a scan found, and room to find it in. Used again, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    key_bytes: usize,
    value_bytes: usize,
    bytes: Vec<u8>,
    count: usize,
    slots: Vec<u16>,
    cursor: Vec<u8>,
    /// Where values of any length are; `None`: they have one length, and lie behind their keys.
    far: Option<FarValues>,
    /// The leaves that were visited, where they are to be compared.
    pub(super) seen: Option<Vec<Seen>>,
}

/// Values of any length that a scan found.
#[derive(Clone, Debug, Default)]
struct FarValues {
    /// Values that lay out of line.
    bytes: Vec<u8>,
    /// Where the value of each entry is.
    places: Vec<Place>,
}

/// Where a value of any length is: from here to there,
#[derive(Clone, Debug)]
enum Place {
    /// in the entries' bytes;
    Near(Span<usize>),
    /// in the values that lay out of line.
    Far(Span<usize>),
}

impl Entries {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Key and value number `at`, in the order of the scan.
    #[inline]
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        (at < self.count).then(|| self.entry(at))
    }

    #[inline]
    fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let (key, slot) = self.slot(at);
        match &self.far {
            None => (key, slot),
            Some(far) => match &far.places[at] {
                Place::Near(span) => (key, &self.bytes[span.clone()]),
                Place::Far(span) => (key, &far.bytes[span.clone()]),
            },
        }
    }

    /// The key of entry `at` and what its leaf had for its value.
    #[inline]
    fn slot(&self, at: usize) -> (&[u8], &[u8]) {
        let step = self.key_bytes + self.value_bytes;
        self.bytes[at * step..(at + 1) * step].split_at(self.key_bytes)
    }

    /// Keys and values, in the order of the scan.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.count).map(|at| self.entry(at))
    }

    fn begin(&mut self, layout: &Layout) {
        (self.key_bytes, self.value_bytes, self.count) = (layout.key_bytes, layout.value_bytes, 0);
        self.bytes.clear();
        self.far = match layout.values {
            Values::Fixed => None,
            Values::AnyLength => Some(FarValues::default()),
        };
        self.seen = None;
    }

    /// Begins a scan whose leaves are written down.
    pub(super) fn begin_snapshot(&mut self, layout: &Layout) {
        self.begin(layout);
        self.seen = Some(Vec::new());
    }

    /// Keeps only the first `count` entries.
    fn truncate(&mut self, count: usize) {
        self.count = count;
        self.bytes.truncate(count * (self.key_bytes + self.value_bytes));
    }

    /// Copies the key and the slot of entry `from` over those of entry `to`.
    fn shift(&mut self, from: usize, to: usize) {
        let step = self.key_bytes + self.value_bytes;
        self.bytes.copy_within(from * step..(from + 1) * step, to * step);
    }

    /// Adds an entry: its key, and its value right behind it.
    #[inline]
    fn push(&mut self, entry: &[u8]) {
        match <&[u8; 16]>::try_from(entry) {
            // Numbers under numbers, copied without a call.
            Ok(entry) => self.bytes.extend_from_slice(entry),
            Err(_) => self.bytes.extend_from_slice(entry),
        }
        self.count += 1;
    }
}

/// Lowers a key by one; `false`: it is the lowest.
fn decrement(key: &mut [u8]) -> bool {
    for byte in key.iter_mut().rev() {
        let borrowed;
        (*byte, borrowed) = byte.overflowing_sub(1);
        if !borrowed {
            return true;
        }
    }
    false
}

/// Raises a key by one; `false`: it is the highest.
fn increment(key: &mut [u8]) -> bool {
    for byte in key.iter_mut().rev() {
        let carried;
        (*byte, carried) = byte.overflowing_add(1);
        if !carried {
            return true;
        }
    }
    false
}

/// Appends a value; yields where it is.
fn append(bytes: &mut Vec<u8>, value: &[u8]) -> Span<usize> {
    let start = bytes.len();
    bytes.extend_from_slice(value);
    start..bytes.len()
}

fn unlinked(key: &[u8]) -> IndexError {
    IndexError::Damaged { operation: "scan", at: format!("key {key:02x?}"), what: NO_LINK.to_owned() }
}

/// A scan under way.
struct Course<'r> {
    direction: Direction,
    /// The end that the scan goes towards: `to` forwards, `from` backwards.
    end: Option<&'r [u8]>,
    /// The key that the next leaf must cover. All before it, seen in the scan's direction, is done.
    cursor: Vec<u8>,
    /// Entries still wanted.
    left: usize,
    /// Leaves passed.
    passed: u64,
    /// Steps to the right before the way down is tried afresh; twice as many each time that this leads nowhere.
    steps_max: u32,
    /// The leaves passed, where they are written down.
    seen: Option<Vec<Seen>>,
}

impl Course<'_> {
    /// Moves past a leaf; `false`: the scan is done.
    fn pass(&mut self, leaf: &Copy<'_>) -> bool {
        self.passed += 1;
        match self.direction {
            Direction::Forward => match leaf.upper() {
                Some(upper) if self.end.is_none_or(|end| upper < end) => self.cursor.copy_from_slice(upper),
                _ => return false,
            },
            Direction::Backward => {
                if self.end.is_some_and(|end| leaf.lower() <= end) {
                    return false;
                }
                self.cursor.copy_from_slice(leaf.lower());
                if !decrement(&mut self.cursor) {
                    return false;
                }
            }
        }
        self.left > 0
    }

    /// Writes a leaf down, where that is asked for; whether they are more than a snapshot may have.
    fn is_wide(&mut self, at: Remote<RawNode>, leaf: &Copy<'_>) -> bool {
        let Some(seen) = &mut self.seen else { return false };
        seen.push(Seen { at, bytes: leaf.bytes().to_vec() });
        seen.len() > SNAPSHOT_LEAVES_MAX
    }

    /// Whether all keys of a leaf that covers the cursor are wanted, as far as its fences tell.
    fn wants_all(&self, leaf: &Copy<'_>) -> bool {
        self.direction == Direction::Forward
            && *self.cursor == *leaf.lower()
            && self.end.is_none_or(|end| leaf.upper().is_some_and(|upper| upper <= end))
    }

    /// Whether `key` lies between the cursor and the end.
    fn wants(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => {
                compare(key, &self.cursor) != Ordering::Less && self.end.is_none_or(|end| key < end)
            }
            Direction::Backward => {
                compare(key, &self.cursor) != Ordering::Greater && self.end.is_none_or(|end| key >= end)
            }
        }
    }
}

impl Sherman {
    /// Finds up to `limit` entries of `range`, in `direction`. `found` is emptied first.
    /// [1 RT for up to 32 leaves whose parent is cached; 1 more per parent, torn leaf, and leaf split since]
    ///
    /// # Errors
    /// [`IndexError::WrongLength`]; [`IndexError::Damaged`] where a leaf stays torn; the fabric's errors.
    pub async fn scan<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        found.begin(&self.layout);
        match self.layout.values {
            Values::Fixed => self.collect(client, range, direction, limit, found).await,
            Values::AnyLength => self.scan_any_length(client, range, direction, limit, found).await,
        }
    }

    /// Adds up to `limit` entries of `range` to `found`, with what their leaves have for their values.
    pub(super) async fn collect<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        let mut slots = std::mem::take(&mut found.slots);
        let cursor = std::mem::take(&mut found.cursor);
        if let Some(mut course) = self.course(range, direction, limit, cursor)? {
            course.seen = found.seen.take();
            self.travel(client, &mut course, &mut slots, |leaf, slot| {
                found.push(leaf.key_and_value(usize::from(slot)));
            })
            .await?;
            (found.cursor, found.seen) = (course.cursor, course.seen);
        }
        found.slots = slots;
        Ok(())
    }

    /// A scan where values have any length. An entry whose value was removed since its leaf was read is left out, and the
    /// scan goes on behind the last one for as many as were left out. [1 RT more for up to 64 values out of line, 1 for
    /// each that is of several parts or was replaced meanwhile]
    async fn scan_any_length<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        let mut retry = Retry::new("scan", RESTARTS_MAX);
        let (mut from, mut to) = (range.from.map(<[u8]>::to_vec), range.to.map(<[u8]>::to_vec));
        loop {
            let first = found.count;
            let wanted = limit - first;
            let rest = Range { from: from.as_deref(), to: to.as_deref() };
            self.collect(client, rest, direction, wanted, found).await?;
            let Some(last) = found.count.checked_sub(1) else { return Ok(()) };
            let all = found.count - first < wanted;
            let mut last = found.slot(last).0.to_vec();
            self.fetch_values(client, found, first).await?;
            if all || found.count == limit {
                return Ok(());
            }
            match direction {
                Direction::Forward if increment(&mut last) => from = Some(last),
                Direction::Forward => return Ok(()),
                Direction::Backward => to = Some(last),
            }
            retry.again(client).await?;
        }
    }

    /// Finds the values of the entries from `first` on, and drops the entries that have none any more.
    async fn fetch_values<F: Fabric>(
        &self,
        client: &Client<F>,
        found: &mut Entries,
        first: usize,
    ) -> Result<(), IndexError> {
        let mut far = found.far.take().unwrap_or_default();
        let mut kept = first;
        for start in (first..found.count).step_by(VALUES_PER_POST) {
            let batch = start..found.count.min(start + VALUES_PER_POST);
            let mut fetched =
                self.fetch_batch(client, found, batch.clone(), &mut far.bytes).await?.into_iter();
            for at in batch {
                let (key, slot) = found.slot(at);
                let place = match self.layout.stored(slot) {
                    Stored::Here(value) => Some(Place::Near(self.near(found, kept, value.len()))),
                    Stored::Far(_) => match fetched.next().flatten() {
                        Some(span) => Some(Place::Far(span)),
                        None => self.fetch_again(client, key, &mut far.bytes).await?.map(Place::Far),
                    },
                    Stored::Nowhere => return Err(unlinked(key)),
                };
                if let Some(place) = place {
                    far.places.push(place);
                    found.shift(at, kept);
                    kept += 1;
                }
            }
        }
        found.truncate(kept);
        found.far = Some(far);
        Ok(())
    }

    /// Finds the values that a snapshot's entries link; `false` where one is not there any more.
    pub(super) async fn fetch_linked<F: Fabric>(
        &self,
        client: &Client<F>,
        found: &mut Entries,
    ) -> Result<bool, IndexError> {
        let mut far = FarValues::default();
        for start in (0..found.count).step_by(VALUES_PER_POST) {
            let batch = start..found.count.min(start + VALUES_PER_POST);
            let mut fetched =
                self.fetch_batch(client, found, batch.clone(), &mut far.bytes).await?.into_iter();
            for at in batch {
                let (key, slot) = found.slot(at);
                let link = match self.layout.stored(slot) {
                    Stored::Far(link) => link,
                    Stored::Here(value) => {
                        far.places.push(Place::Near(self.near(found, at, value.len())));
                        continue;
                    }
                    Stored::Nowhere => return Err(unlinked(key)),
                };
                let span = match fetched.next().flatten() {
                    None if link.length as usize > SHORT_BYTES_MAX => {
                        self.far_value(client, link).await?.map(|value| append(&mut far.bytes, &value))
                    }
                    span => span,
                };
                let Some(span) = span else { return Ok(false) };
                far.places.push(Place::Far(span));
            }
        }
        found.far = Some(far);
        Ok(true)
    }

    /// Reads the values of `batch` that lie out of line in one part, in one doorbell. Yields one item for each that lies
    /// out of line: where in `bytes` it is now.
    async fn fetch_batch<F: Fabric>(
        &self,
        client: &Client<F>,
        found: &Entries,
        batch: Span<usize>,
        bytes: &mut Vec<u8>,
    ) -> Result<Vec<Option<Span<usize>>>, IndexError> {
        let links = batch.filter_map(|at| self.layout.link(found.slot(at).1));
        let links: Vec<Link> = links.collect();
        let is_short = |link: &Link| link.length as usize <= SHORT_BYTES_MAX;
        let short: Vec<Link> = links.iter().copied().filter(is_short).collect();
        let mut spans = Vec::with_capacity(short.len());
        if !short.is_empty() {
            let take = |_, value: Option<&[u8]>| spans.push(value.map(|value| append(bytes, value)));
            extent::follow_all(client, self.layout.index, &short, take).await?;
        }
        let mut spans = spans.into_iter();
        Ok(links.iter().map(|link| if is_short(link) { spans.next().flatten() } else { None }).collect())
    }

    /// The value of a key whose value has moved, or is long.
    async fn fetch_again<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Span<usize>>, IndexError> {
        Ok(self.get(client, key).await?.map(|value| append(bytes, &value)))
    }

    /// Where the value of entry `at` of a scan is that lies in its entry.
    fn near(&self, found: &Entries, at: usize, length: usize) -> Span<usize> {
        let end = (at + 1) * (found.key_bytes + found.value_bytes);
        let start = end - self.layout.inline_bytes_max();
        start..start + length
    }

    /// How many entries the tree has; not atomic, as a scan is not. [1 RT per 32 leaves, and per parent]
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let mut count = 0;
        if let Some(mut course) = self.course(Range::default(), Direction::Forward, usize::MAX, Vec::new())? {
            self.travel(client, &mut course, &mut Vec::new(), |_, _| count += 1).await?;
        }
        Ok(count)
    }

    /// Where a scan begins and ends; `None` where there is nothing to scan.
    fn course<'r>(
        &self,
        range: Range<'r>,
        direction: Direction,
        limit: usize,
        mut cursor: Vec<u8>,
    ) -> Result<Option<Course<'r>>, IndexError> {
        range.from.map_or(Ok(()), |key| self.check_key(key))?;
        range.to.map_or(Ok(()), |key| self.check_key(key))?;
        let empty = matches!((range.from, range.to), (Some(from), Some(to)) if from >= to);
        cursor.clear();
        let end = match direction {
            Direction::Forward => {
                cursor.extend_from_slice(range.from.unwrap_or_default());
                cursor.resize(self.layout.key_bytes, 0);
                range.to
            }
            Direction::Backward => {
                cursor.extend_from_slice(range.to.unwrap_or_default());
                cursor.resize(self.layout.key_bytes, u8::MAX);
                if range.to.is_some() && !decrement(&mut cursor) {
                    return Ok(None);
                }
                range.from
            }
        };
        Ok((limit > 0 && !empty).then_some(Course {
            direction,
            end,
            cursor,
            left: limit,
            passed: 0,
            steps_max: STEPS_RIGHT_MAX,
            seen: None,
        }))
    }

    /// Visits the entries on a course.
    async fn travel<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        slots: &mut Vec<u16>,
        mut visit: impl FnMut(&Copy<'_>, u16),
    ) -> Result<(), IndexError> {
        let mut restarts = Retry::new("scan", RESTARTS_MAX);
        loop {
            let before = course.passed;
            let leg = if let Some(parent) = self.parent_for(client, &course.cursor).await? {
                let first = parent.child_covering(&course.cursor);
                let leaves = self.leaves_of(&parent, first, course);
                self.visit_leaves(client, leaves, course, slots, &mut visit).await?
            } else {
                let root = self.top(client).await?.root;
                self.visit_leaves(client, std::iter::once(root), course, slots, &mut visit).await?
            };
            match leg {
                Leg::Done => return Ok(()),
                Leg::More => {}
                Leg::Stale => {
                    self.forget(client, &course.cursor);
                    if course.passed == before {
                        course.steps_max = course.steps_max.saturating_mul(2);
                        restarts.again(client).await?;
                    }
                }
            }
        }
    }

    /// The leaves to fetch next, in the order of the scan.
    fn leaves_of<'c>(
        &self,
        parent: &'c CachedInner,
        first: usize,
        course: &Course<'_>,
    ) -> impl Iterator<Item = Remote<RawNode>> + Clone + use<'c> {
        let per_leaf = (self.layout.leaf_capacity * FILL_PERCENT / 100).max(1);
        // The first leaf is entered in its middle, on average.
        let count = course.left.saturating_add(per_leaf / 2).div_ceil(per_leaf).clamp(1, LEAVES_MAX);
        let (forward, span) = match course.direction {
            Direction::Forward => (true, first..parent.children().min(first + count)),
            Direction::Backward => (false, (first + 1).saturating_sub(count)..first + 1),
        };
        let length = span.len();
        (0..length).map(move |at| parent.child(if forward { span.start + at } else { span.end - 1 - at }))
    }

    /// Fetches `leaves` in one doorbell and visits them as far as they follow each other.
    async fn visit_leaves<F: Fabric>(
        &self,
        client: &Client<F>,
        leaves: impl Iterator<Item = Remote<RawNode>> + Clone,
        course: &mut Course<'_>,
        slots: &mut Vec<u16>,
        visit: &mut impl FnMut(&Copy<'_>, u16),
    ) -> Result<Leg, IndexError> {
        let reads = leaves.clone().map(|at| read_bytes(at, self.layout.node_bytes));
        let copies = client.post(all(reads)).await?;
        for (at, copy) in leaves.zip(copies) {
            let mut next = Some((at, Some(copy)));
            let mut left = None;
            let mut steps = 0;
            while let Some((at, copy)) = next.take() {
                let Some(leaf) = self.whole_leaf(client, at, copy, slots).await? else {
                    return Ok(Leg::Stale);
                };
                let blind = self.layout.sabotage == Some(Sabotage::ScanBlind);
                let seen = whereabouts(&leaf, 0, &course.cursor);
                match if blind { Whereabouts::Here } else { seen } {
                    Whereabouts::Here => {
                        take_entries(course, &leaf, slots, visit);
                        if course.is_wide(at, &leaf) {
                            return Ok(Leg::Done);
                        }
                        if !course.pass(&leaf) {
                            return Ok(Leg::Done);
                        }
                    }
                    Whereabouts::Right(sibling) => {
                        client.fabric().mark(marks::STEPPED_RIGHT_SCAN);
                        self.misled(client, &course.cursor);
                        steps += 1;
                        if steps > course.steps_max {
                            return Ok(Leg::Stale);
                        }
                        (left, next) = (Some(at), Some((sibling, None)));
                    }
                    Whereabouts::Astray => {
                        if let Some(left) = left.filter(|_| leaf.freed()) {
                            self.revive(client, left, at).await?;
                        }
                        return Ok(Leg::Stale);
                    }
                }
            }
        }
        Ok(Leg::More)
    }

    /// A copy of the leaf at `at` whose every entry is whole, the slots in use by increasing key in `slots`.
    /// `None`: it is no leaf. [0 RT; 1 where there is no copy yet; 1 for each torn one]
    async fn whole_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        mut copy: Option<Fetched<RawNode>>,
        slots: &mut Vec<u16>,
    ) -> Result<Option<Copy<'_>>, IndexError> {
        let mut retry = Retry::new("scan", TORN_TRIES_MAX);
        loop {
            let checked = match copy.take() {
                Some(copy) => copy.check(&self.layout),
                None => client.post(read_bytes(at, self.layout.node_bytes)).await?.check(&self.layout),
            };
            match checked.map(|copy| self.decode(at, copy, "scan")) {
                Ok(Err(damage)) => return Err(damage),
                Ok(Ok(leaf)) if leaf.level() != 0 => return Ok(None),
                Ok(Ok(leaf)) => {
                    if leaf.sorted_slots(slots) != Err(Torn) {
                        return Ok(Some(leaf));
                    }
                }
                Err(Torn) => {}
            }
            client.fabric().mark(marks::TORN_SCAN);
            torn(client, &mut retry, at).await?;
        }
    }
}

/// How a leg of a scan ended.
enum Leg {
    /// The scan is done.
    Done,
    /// All leaves were visited; the scan goes on.
    More,
    /// A leaf was not where the parent said: the way down is tried again from the cursor.
    Stale,
}

/// Visits the entries of a leaf that the scan wants.
fn take_entries(
    course: &mut Course<'_>,
    leaf: &Copy<'_>,
    slots: &[u16],
    visit: &mut impl FnMut(&Copy<'_>, u16),
) {
    let (direction, all) = (course.direction, course.wants_all(leaf));
    let mut take = |&slot: &u16| {
        if course.left > 0 && (all || course.wants(leaf.key(usize::from(slot)))) {
            visit(leaf, slot);
            course.left -= 1;
        }
    };
    match direction {
        Direction::Forward => slots.iter().for_each(&mut take),
        Direction::Backward => slots.iter().rev().for_each(&mut take),
    }
}

#[cfg(test)]
mod tests {
    use super::{decrement, increment};

    #[test]
    fn the_key_before_a_key() {
        let mut key = [1, 0, 0];
        assert!(decrement(&mut key));
        assert_eq!(key, [0, 255, 255]);
        let mut lowest = [0, 0, 0];
        assert!(!decrement(&mut lowest));
        let mut key = [0, 255, 255];
        assert!(increment(&mut key));
        assert_eq!(key, [1, 0, 0]);
        assert!(!increment(&mut [255, 255]));
    }
}
