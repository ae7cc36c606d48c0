//! What happens when: a queue of events by virtual nanosecond.
//!
//! Events of one nanosecond happen in the order in which they were put into the queue; but lines of transfers, which
//! an exhaustive run puts there earlier than others do, come first, in the order of their verbs. So both kinds of run
//! have one order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Key of a verb, flight, thread, … in its table.
pub(crate) type Key = u32;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A doorbell reaches the client's NIC.
    Post(Key),
    /// A request's last byte reaches the memory node's NIC.
    Arrive(Key),
    /// A request has passed the memory node's NIC's entrance.
    Enter(Key),
    /// The kernel of a memory node has dealt with a request.
    Kernel(Key),
    /// A line of a transfer is copied.
    Line(Key, u32),
    /// A transfer's last line has been copied.
    TransferEnd(Key),
    /// An atomic may begin, the WRITEs that came before it being placed.
    AtomicBegin(Key),
    /// An atomic leaves its slot.
    AtomicEnd(Key),
    /// An answer leaves the memory node.
    Answer(Key),
    /// An answer's last byte reaches the client's NIC.
    Return(Key),
    /// A completion lies in the client's memory.
    Complete(Key),
    /// A request will never be answered.
    Expire(Key),
    /// A thread runs whoever is next.
    Thread(Key),
    /// A sleeper's time has come.
    Timer(Key),
    /// A core's slice is over.
    Slice(Key, Key),
    /// A thread that was done may have kept its core until now, and does not any more.
    Vacate(Key, Key),
    /// A rule's time has come.
    Rule(Key),
    /// The rival puts back what it found.
    Withdraw(Key),
}

/// Nanoseconds that the wheel spans; a power of two. Most events are nearer than that.
const SPAN: u64 = 1 << 12;
const WORDS: usize = (SPAN / 64) as usize;
const _: () = assert!(WORDS == 64, "one word tells which words of slots hold something");

/// An event that is farther away than the wheel spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Far {
    time: u64,
    added: u64,
    event: Event,
}

impl Ord for Far {
    /// Reversed: the heap yields its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.added).cmp(&(self.time, self.added))
    }
}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The events of one nanosecond: the first and the last of their links.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;

/// The queue, and the time.
///
/// The events of the next microseconds lie in a wheel of one slot per nanosecond; those behind them in a heap, from
/// which they come into the wheel before anything else can be put into their slot.
#[derive(Debug)]
pub(crate) struct Queue {
    wheel: Box<[Slot; SPAN as usize]>,
    /// The events of the wheel, each with the next of its slot; those that are not in use, as well.
    links: Vec<(Event, u32)>,
    unused: u32,
    /// Which slots of the wheel hold something.
    used: [u64; WORDS],
    /// Which words of `used` are not zero.
    used_words: u64,
    far: BinaryHeap<Far>,
    /// The time of the first of them.
    next_far: u64,
    /// Lines by time, number of the verb, and number of the line.
    lines: BTreeMap<(u64, u64, u32), Key>,
    added: u64,
    pub(crate) now: u64,
}

impl Default for Queue {
    fn default() -> Self {
        let slots: Box<[Slot]> = vec![Slot { first: NONE, last: NONE }; SPAN as usize].into();
        Self {
            wheel: slots.try_into().expect("there are as many"),
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

impl Queue {
    /// Lets `event` happen at `time`, which is not in the past.
    #[inline]
    pub(crate) fn at(&mut self, time: u64, event: Event) {
        debug_assert!(time >= self.now, "{event:?} at {time}, and it is {}", self.now);
        if time - self.now < SPAN {
            self.put(time, event);
        } else {
            self.put_far(time, event);
        }
    }

    #[inline(never)]
    fn put_far(&mut self, time: u64, event: Event) {
        self.added += 1;
        self.far.push(Far { time, added: self.added, event });
        self.next_far = self.next_far.min(time);
    }

    /// Lets line `line` of verb `verb`, the `number`th of all, be copied at `time`.
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

    /// When the next event is that is no line; [`NEVER`] where there is none.
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
        // Once around, and what lies before `start` in its own word comes last.
        let words = self.used_words.rotate_right(start as u32 / 64 + 1).trailing_zeros() as usize + 1;
        let word = (start / 64 + words) % WORDS;
        let slot = word * 64 + self.used[word].trailing_zeros() as usize;
        self.now + (slot + SPAN as usize - start) as u64 % SPAN
    }

    /// The next event, if it is not after `end`; time passes. `Err(true)`: there are only later ones; `Err(false)`:
    /// there are none.
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
        self.pass(time);
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

    /// The next line, unless another event comes before it.
    fn pop_line(&mut self, end: u64, other: u64) -> Option<Result<Event, bool>> {
        let (&(time, number, line), &verb) = self.lines.first_key_value()?;
        if other < time {
            return None;
        }
        if time > end {
            return Some(Err(true));
        }
        self.pass(time);
        self.lines.remove(&(time, number, line));
        Some(Ok(Event::Line(verb, line)))
    }

    /// Time passes; what comes near comes into the wheel.
    #[inline]
    fn pass(&mut self, time: u64) {
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
    fn events_happen_in_time_lines_first_then_in_order() {
        let mut queue = Queue::default();
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
        let mut queue = Queue::default();
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
        assert_eq!(happened, expected, "by time, and at one time in the order in which they were put there");
    }
}
