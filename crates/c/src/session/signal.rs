//! The descriptor that tells of completions, and the wakers that make it readable.

use crate::failure::{CallResult, Failure};
use farwood::Error;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

/// The operations that a session must poll.
pub(super) struct Signal {
    event: OwnedFd,
    ready: Mutex<Vec<usize>>,
}

/// Wakes the session for the operation of a slot.
pub(super) struct SlotWaker {
    slot: usize,
    signal: Arc<Signal>,
}

impl SlotWaker {
    /// The waker of a slot.
    pub(super) fn waker(slot: usize, signal: &Arc<Signal>) -> Waker {
        Waker::from(Arc::new(Self { slot, signal: Arc::clone(signal) }))
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut ready = self.signal.ready();
        let is_first = ready.is_empty();
        ready.push(self.slot);
        drop(ready);
        if is_first {
            self.signal.raise();
        }
    }
}

impl Signal {
    pub(super) fn new() -> CallResult<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|error| failed("open an eventfd", error))?;
        Ok(Self { event, ready: Mutex::default() })
    }

    /// The number of the descriptor.
    pub(super) fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    fn ready(&self) -> MutexGuard<'_, Vec<usize>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the descriptor readable.
    pub(super) fn raise(&self) {
        // The only error is a counter at its limit: the descriptor is readable then.
        let _ = write(&self.event, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable, until the next wake. Call it before [`take_ready`](Self::take_ready), or a wake
    /// between the two is lost.
    pub(super) fn clear(&self) {
        // The only error is a counter of 0.
        let _ = read(&self.event, &mut [0; 8]);
    }

    /// Takes the slots that were woken.
    pub(super) fn take_ready(&self) -> Vec<usize> {
        std::mem::take(&mut *self.ready())
    }

    /// Waits until the descriptor is readable, or a time limit.
    pub(super) fn wait(&self, limit: Option<Duration>) -> CallResult<()> {
        let limit = limit.map(Timespec::try_from).transpose();
        let limit = limit.map_err(|_| Failure::argument("the time limit is too long"))?;
        let mut event = [PollFd::new(&self.event, PollFlags::IN)];
        match poll(&mut event, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(failed("wait for an eventfd", error)),
        }
    }
}

fn failed(operation: &'static str, error: Errno) -> Failure {
    Error::System { operation, path: "eventfd".into(), source: error.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(signal: &Signal) -> bool {
        let mut event = [PollFd::new(&signal.event, PollFlags::IN)];
        poll(&mut event, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn the_descriptor_is_readable_from_the_first_wake_until_it_is_cleared() {
        let signal = Arc::new(Signal::new().unwrap());
        assert!(!is_readable(&signal));
        SlotWaker::waker(3, &signal).wake();
        SlotWaker::waker(5, &signal).wake();
        assert!(is_readable(&signal));
        signal.clear();
        assert!(!is_readable(&signal));
        assert_eq!(signal.take_ready(), [3, 5]);
        SlotWaker::waker(7, &signal).wake();
        assert!(is_readable(&signal));
    }
}
