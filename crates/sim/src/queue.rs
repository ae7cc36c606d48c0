//! The event queue, ordered by virtual nanosecond.
//!
//! Events of the same nanosecond are processed in insertion order, after the lines of transfers, which are processed
//! in the order of their verbs. An exhaustive run inserts lines earlier than a normal run does; with this rule both
//! kinds of run process events in the same order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Key of a verb, doorbell or thread in its table.
pub(crate) type Key = u32;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A doorbell reaches the client's NIC.
    Post(Key),
    /// A request's first packet reaches the memory node's NIC.
    Arrive(Key),
    /// A request has passed the message engine of the memory node's NIC.
    Enter(Key),
    /// The kernel of a memory node has processed a request.
    Kernel(Key),
    /// A line of a transfer is copied.
    Line(Key, u32),
    /// A transfer's last line has been copied.
    TransferEnd(Key),
    /// An atomic begins, because all earlier WRITEs are placed.
    AtomicBegin(Key),
    /// An atomic releases its slot.
    AtomicEnd(Key),
    /// An answer leaves the memory node.
    Answer(Key),
    /// An answer's first packet reaches the client's NIC.
    Return(Key),
    /// A completion is in the client's memory.
    Complete(Key),
    /// The NIC stops retrying a request.
    Expire(Key),
    /// A thread runs its next task.
    Thread(Key),
    /// The sleep of a task ends.
    Timer(Key),
    /// A time slice of a core ends.
    Slice(Key, Key),
    /// An idle thread loses the core that it retained.
    ReleaseCore(Key, Key),
    /// The time of a fault rule.
    FaultRule(Key),
    /// The device restores a word that it changed to make a CAS fail.
    RestoreWord(Key),
}

/// Nanoseconds that the timing wheel spans; a power of two. Most events are nearer.
const SPAN: u64 = 1 << 12;
const WORDS: usize = (SPAN / 64) as usize;
const _: () = assert!(WORDS == 64, "one word marks the words that have bits");

/// An event beyond the span of the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FarEvent {
    time: u64,
    added: u64,
    event: Event,
}

impl Ord for FarEvent {
    /// Reversed, because the heap yields its maximum first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.added).cmp(&(self.time, self.added))
    }
}

impl PartialOrd for FarEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The events of one nanosecond: a linked list in `links`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;

/// The event queue and the current time.
///
/// A timing wheel with one slot per nanosecond holds the events of the next microseconds. A heap holds later events,
/// and moves them to the wheel before other events can be inserted into their slot.
#[derive(Debug)]
pub(crate) struct EventQueue {
    wheel: Box<[Slot; SPAN as usize]>,
    /// The events of the wheel, each with the link to the next event of its slot. Free entries are linked as well.
    links: Vec<(Event, u32)>,
    unused: u32,
    /// A bit for each slot of the wheel that is not empty.
    used: [u64; WORDS],
    /// A bit for each word of `used` that is not zero.
    used_words: u64,
    far: BinaryHeap<FarEvent>,
    /// The time of the first event of the heap.
    next_far: u64,
    /// Lines of transfers by time, number of the verb, and number of the line.
    lines: BTreeMap<(u64, u64, u32), Key>,
    added: u64,
    pub(crate) now: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        let slots: Box<[Slot]> = vec![Slot { first: NONE, last: NONE }; SPAN as usize].into();
        Self {
            wheel: slots.try_into().expect("both have SPAN slots"),
            links: Vec::new(),
            unused: NONE,
            used: [0; WORDS],
            used_words: 0,
            far: BinaryHeap::new(),
            next_far: NEVER,
            lines: BTreeMap::new(),
            added: 0,
            now: 0,
        }
    }
}

impl EventQueue {
    /// Schedules `event` at `time`, which must not be in the past.
    #[inline]
    pub(crate) fn at(&mut self, time: u64, event: Event) {
        debug_assert!(time >= self.now, "{event:?} at {time}, before the current time {}", self.now);
        if time - self.now < SPAN {
            self.put(time, event);
        } else {
            self.put_far(time, event);
        }
    }

    #[inline(never)]
    fn put_far(&mut self, time: u64, event: Event) {
        self.added += 1;
        self.far.push(FarEvent { time, added: self.added, event });
        self.next_far = self.next_far.min(time);
    }

    /// Schedules the copy of line `line` of `verb`, which was posted as number `number`.
    pub(crate) fn line_at(&mut self, time: u64, number: u64, verb: Key, line: u32) {
        debug_assert!(time >= self.now);
        self.lines.insert((time, number, line), verb);
    }

    #[inline]
    fn put(&mut self, time: u64, event: Event) {
        let link = self.unused;
        let link = if let Some(unused) = self.links.get_mut(link as usize) {
            self.unused = unused.1;
            *unused = (event, NONE);
            link
        } else {
            self.links.push((event, NONE));
            (self.links.len() - 1) as u32
        };
        let at = (time % SPAN) as usize;
        let slot = &mut self.wheel[at];
        let before = std::mem::replace(&mut slot.last, link);
        if slot.first == NONE {
            slot.first = link;
            self.used[at / 64] |= 1 << (at % 64);
            self.used_words |= 1 << (at / 64);
        } else {
            self.links[before as usize].1 = link;
        }
    }

    /// The time of the next event other than a line; [`NEVER`] if there is none.
    #[inline]
    fn next_other(&self) -> u64 {
        let start = (self.now % SPAN) as usize;
        let first = self.used[start / 64] >> (start % 64);
        if first != 0 {
            return self.now + u64::from(first.trailing_zeros());
        }
        if self.used_words == 0 {
            return self.next_far;
        }
        // The search wraps around. The bits below `start` in its own word come last.
        let words = self.used_words.rotate_right(start as u32 / 64 + 1).trailing_zeros() as usize + 1;
        let word = (start / 64 + words) % WORDS;
        let slot = word * 64 + self.used[word].trailing_zeros() as usize;
        self.now + (slot + SPAN as usize - start) as u64 % SPAN
    }

    /// Takes the next event, unless it is after `end`, and advances the time. `Err(true)`: there are only later
    /// events; `Err(false)`: there are none.
    #[inline]
    pub(crate) fn pop(&mut self, end: u64) -> Result<Event, bool> {
        let time = self.next_other();
        if !self.lines.is_empty()
            && let Some(line) = self.pop_line(end, time)
        {
            return line;
        }
        if time > end || time == NEVER {
            return Err(time != NEVER);
        }
        self.advance(time);
        let at = (time % SPAN) as usize;
        let slot = &mut self.wheel[at];
        let number = slot.first;
        let link = &mut self.links[number as usize];
        slot.first = std::mem::replace(&mut link.1, self.unused);
        self.unused = number;
        if slot.first == NONE {
            let word = &mut self.used[at / 64];
            *word &= !(1 << (at % 64));
            self.used_words &= !(u64::from(*word == 0) << (at / 64));
        }
        Ok(link.0)
    }

    /// Takes the next line, unless another event precedes it.
    fn pop_line(&mut self, end: u64, other: u64) -> Option<Result<Event, bool>> {
        let (&(time, number, line), &verb) = self.lines.first_key_value()?;
        if other < time {
            return None;
        }
        if time > end {
            return Some(Err(true));
        }
        self.advance(time);
        self.lines.remove(&(time, number, line));
        Some(Ok(Event::Line(verb, line)))
    }

    /// Advances the time, and moves events from the heap to the wheel.
    #[inline]
    fn advance(&mut self, time: u64) {
        self.now = time;
        if self.next_far - time < SPAN {
            self.approach(time);
        }
    }

    #[inline(never)]
    fn approach(&mut self, time: u64) {
        while self.next_far - time < SPAN {
            let Some(far) = self.far.pop() else { return };
            self.next_far = self.far.peek().map_or(NEVER, |far| far.time);
            self.put(far.time, far.event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_ordered_by_time_then_lines_then_insertion() {
        let mut queue = EventQueue::default();
        queue.at(5, Event::Post(1));
        queue.at(3, Event::Post(2));
        queue.at(5, Event::Arrive(3));
        queue.line_at(5, 9, 7, 0);
        queue.line_at(5, 8, 6, 0);
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop(NEVER).ok().map(|event| (queue.now, event))).collect();
        let expected = [
            (3, Event::Post(2)),
            (5, Event::Line(6, 0)),
            (5, Event::Line(7, 0)),
            (5, Event::Post(1)),
            (5, Event::Arrive(3)),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn near_and_far_events_keep_their_order() {
        let mut queue = EventQueue::default();
        let mut expected = Vec::new();
        let mut number = 0;
        let mut state = 7_u64;
        let mut happened = Vec::new();
        for round in 0..2_000 {
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let ahead = [1, 70, SPAN - 1, SPAN, 3 * SPAN][(state >> 40) as usize % 5];
                let time = queue.now + (state >> 33) % ahead;
                queue.at(time, Event::Post(number));
                expected.push((time, number));
                number += 1;
            }
            for _ in 0..if round < 1_000 { 1 } else { 5 } {
                if let Ok(Event::Post(number)) = queue.pop(NEVER) {
                    happened.push((queue.now, number));
                }
            }
        }
        assert_eq!(happened.len(), 6_000, "all happened");
        expected.sort_unstable();
        assert_eq!(happened, expected, "by time, then by insertion");
    }
}
