//! Sums of events of refused and invalid connections: of each source and kind, the first event of a second is logged,
//! and the others are counted. So one source adds at most two lines per kind and second to the log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The length of a sum.
const WINDOW: Duration = Duration::from_secs(1);
/// Sources that are counted separately.
const SOURCES_MAX: usize = 1024;
/// The source that stands for all beyond the limit, and for connections whose address is unknown.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The kind of an event that is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SummedEvent {
    /// Connections were refused.
    Refused,
    /// Connections were closed for invalid frames.
    BadFrame,
}

/// The events of one source and kind since `begun`.
#[derive(Clone, Copy, Debug)]
struct Sum {
    begun: Instant,
    count: u64,
}

/// A sum whose second is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndedSum {
    pub(super) from: IpAddr,
    pub(super) event: SummedEvent,
    /// Events beyond the first.
    pub(super) more: u64,
}

/// The events of the current second.
#[derive(Debug, Default)]
pub(super) struct EventSums(Mutex<HashMap<(IpAddr, SummedEvent), Sum>>);

impl EventSums {
    /// Counts an event; returns its number in its second, from 1. The first is logged by itself.
    pub(super) fn count(&self, from: Option<IpAddr>, event: SummedEvent, now: Instant) -> u64 {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (from.unwrap_or(OTHERS), event);
        if sums.len() >= SOURCES_MAX && !sums.contains_key(&key) {
            key.0 = OTHERS;
        }
        let sum = sums.entry(key).or_insert(Sum { begun: now, count: 0 });
        sum.count += 1;
        sum.count
    }

    /// Removes the sums whose second is over at `now`, and returns those with more than one event.
    pub(super) fn take_ended(&self, now: Instant) -> Vec<EndedSum> {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = sums.extract_if(|_, sum| now.duration_since(sum.begun) >= WINDOW);
        let ended = ended.map(|((from, event), sum)| EndedSum { from, event, more: sum.count - 1 });
        ended.filter(|sum| sum.more > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_of_a_second_is_apart_and_the_others_are_a_sum() {
        let (sums, start) = (EventSums::default(), Instant::now());
        let from = |number: u8| Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)));
        let count = |number, event| sums.count(from(number), event, start);
        assert_eq!([1, 1, 1, 2].map(|number| count(number, SummedEvent::BadFrame)), [1, 2, 3, 1]);
        assert_eq!(count(1, SummedEvent::Refused), 1);
        assert_eq!(sums.take_ended(start + WINDOW / 2), []);
        let ended = sums.take_ended(start + WINDOW);
        assert_eq!(ended, [EndedSum { from: from(1).unwrap(), event: SummedEvent::BadFrame, more: 2 }]);
        assert_eq!(count(1, SummedEvent::BadFrame), 1, "the next second begins");
    }

    #[test]
    fn the_number_of_sources_is_bounded() {
        let (sums, start) = (EventSums::default(), Instant::now());
        for number in 0..10 * SOURCES_MAX as u32 {
            sums.count(Some(IpAddr::V4((number + 1).into())), SummedEvent::Refused, start);
        }
        assert_eq!(sums.0.lock().unwrap().len(), SOURCES_MAX + 1);
        let ended = sums.take_ended(start + WINDOW);
        let more = 9 * SOURCES_MAX as u64 - 1;
        assert_eq!(ended, [EndedSum { from: OTHERS, event: SummedEvent::Refused, more }]);
    }
}
