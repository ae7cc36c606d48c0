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
use super::descend::{Copy, RESTARTS_MAX, STEPS_RIGHT_MAX, TORN_TRIES_MAX, Whereabouts, torn, whereabouts};
use super::entries::Entries;
use super::layout::Values;
use super::node::RawNode;
use super::snapshot::{SNAPSHOT_LEAVES_MAX, Seen};
use crate::error::IndexError;
use crate::key::{compare, decrement};
use crate::marks;
use crate::range::{Direction, Range};
use crate::retry::Retry;
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, Fetched, Remote, Torn, all, read_bytes};
use std::cmp::Ordering;

/// Leaves fetched by one doorbell, at most.
const LEAVES_MAX: usize = 32;
/// Share of a leaf that is expected to be in use, in percent: what random insertion settles at.
const FILL_PERCENT: usize = 70;

/// What a scan is to find.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) range: Range<'a>,
    pub(super) direction: Direction,
    /// Entries, at most.
    pub(super) limit: usize,
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
        let wanted = Wanted { range, direction, limit };
        let done = match self.layout.values {
            Values::Fixed => self.collect(client, wanted, found).await,
            Values::AnyLength => self.scan_any_length(client, wanted, found).await,
        };
        found.only_if(done)
    }

    /// Adds the entries that are wanted to `found`, with what their leaves have for their values.
    pub(super) async fn collect<F: Fabric>(
        &self,
        client: &Client<F>,
        wanted: Wanted<'_>,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        let mut slots = std::mem::take(&mut found.slots);
        let cursor = std::mem::take(&mut found.cursor);
        if let Some(mut course) = self.course(wanted, cursor)? {
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

    /// How many entries the tree has; not atomic, as a scan is not. [1 RT per 32 leaves, and per parent]
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let mut count = 0;
        let all = Wanted { range: Range::default(), direction: Direction::Forward, limit: usize::MAX };
        if let Some(mut course) = self.course(all, Vec::new())? {
            self.travel(client, &mut course, &mut Vec::new(), |_, _| count += 1).await?;
        }
        Ok(count)
    }

    /// Where a scan begins and ends; `None` where there is nothing to scan.
    fn course<'r>(&self, wanted: Wanted<'r>, mut cursor: Vec<u8>) -> Result<Option<Course<'r>>, IndexError> {
        let Wanted { range, direction, limit } = wanted;
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
