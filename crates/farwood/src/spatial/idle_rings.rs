//! Connections through rings that stay open between calls, each with the back-off of Algorithm 1.
//!
//! A call takes a connection and returns it, so a handle has as many connections as its threads have used at the same
//! time. Any thread can continue a connection.

use farwood_index::catfish::RingConnection;
use farwood_index::catfish::adaptive::BackOff;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A connection through rings that no call has used for this time is closed when a call ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The idle connections of a handle through rings.
#[derive(Debug, Default)]
pub(super) struct IdleRings {
    /// The one that was used last is at the end.
    list: Mutex<Vec<(Instant, Box<RingConnection>, BackOff)>>,
}

impl IdleRings {
    fn list(&self) -> MutexGuard<'_, Vec<(Instant, Box<RingConnection>, BackOff)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection that was used last; one whose response is outstanding, because a call was dropped, only if
    /// there is no other.
    pub(super) fn take(&self) -> Option<(Box<RingConnection>, BackOff)> {
        let mut list = self.list();
        let free = list.iter().rposition(|(_, rings, _)| !rings.is_waiting());
        let last = list.len().checked_sub(1)?;
        let (_, rings, back_off) = list.remove(free.unwrap_or(last));
        Some((rings, back_off))
    }

    /// Whether there is an idle connection.
    pub(super) fn has_some(&self) -> bool {
        !self.list().is_empty()
    }

    /// Keeps a connection.
    pub(super) fn keep(&self, rings: Box<RingConnection>, back_off: BackOff) {
        self.list().push((Instant::now(), rings, back_off));
    }

    /// Takes a connection that no call has used for a while: the caller closes it.
    pub(super) fn take_unused(&self) -> Option<(Box<RingConnection>, BackOff)> {
        let mut list = self.list();
        let unused = list.first().is_some_and(|(since, ..)| since.elapsed() > IDLE_MAX);
        unused.then(|| {
            let (_, rings, back_off) = list.remove(0);
            (rings, back_off)
        })
    }
}
