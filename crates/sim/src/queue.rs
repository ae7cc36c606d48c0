//! What happens when: a queue of events by virtual nanosecond.
//!
//! Events of one nanosecond happen in the order in which they were put into the queue; but lines of transfers, which
//! an exhaustive run puts there earlier than others do, come first, in the order of their verbs. So both kinds of run
//! have one order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

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
    /// A rule's time has come.
    Rule(Key),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: u64,
    order: u64,
    event: Event,
}

impl Ord for Entry {
    /// Reversed: the heap yields its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Everything but lines comes after the lines of its nanosecond.
const AFTER_LINES: u64 = 1 << 63;

/// The queue, and the time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: BinaryHeap<Entry>,
    added: u64,
    pub(crate) now: u64,
}

impl Queue {
    /// Lets `event` happen at `time`, which is not in the past.
    #[inline]
    pub(crate) fn at(&mut self, time: u64, event: Event) {
        debug_assert!(time >= self.now, "{event:?} at {time}, and it is {}", self.now);
        self.added += 1;
        self.entries.push(Entry { time, order: AFTER_LINES | self.added, event });
    }

    /// Lets line `line` of verb `verb`, the `number`th of all, be copied at `time`.
    pub(crate) fn line_at(&mut self, time: u64, number: u64, verb: Key, line: u32) {
        debug_assert!(time >= self.now);
        self.entries.push(Entry { time, order: number, event: Event::Line(verb, line) });
    }

    /// When the next event is.
    #[inline]
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.entries.peek().map(|entry| entry.time)
    }

    /// The next event; time passes.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let entry = self.entries.pop()?;
        self.now = entry.time;
        Some(entry.event)
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
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|event| (queue.now, event))).collect();
        let expected = [
            (3, Event::Post(2)),
            (5, Event::Line(6, 0)),
            (5, Event::Line(7, 0)),
            (5, Event::Post(1)),
            (5, Event::Arrive(3)),
        ];
        assert_eq!(order, expected);
    }
}
