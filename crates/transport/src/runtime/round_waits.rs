//! The waits of an executor between two rounds of polls.

use super::idle_pause::{PAUSE_FIRST, idle_pause};
use super::poll_source::{Progress, advance_all};
use super::timers::{park, park_for};
use std::thread;
use std::time::Duration;

/// Consecutive waits before the thread yields its processor.
const SPINS: u32 = 64;
/// Yields before the thread sleeps.
const YIELDS: u32 = 2_000;

/// The polls of an executor since the last wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Timers were due.
    pub(super) fired: bool,
    /// Futures were polled.
    pub(super) polled: bool,
    /// A future has ended, or a new one has begun.
    pub(super) advanced: bool,
}

/// The waits of a thread: between polls of sources whose answers it awaits, and without sources.
#[derive(Default)]
pub(super) struct RoundWaits {
    backoff: Backoff,
    park: ParkBackoff,
}

impl RoundWaits {
    /// Polls the sources of the thread, and waits if neither the round nor a source has made progress. The thread does
    /// not sleep after a round that has polled futures: the executor does not know whether they wait or work.
    pub(super) fn end(&mut self, round: Round) {
        let Some(progress) = self.advance(round) else { return };
        if round.polled {
            self.backoff.wait_awake();
        } else {
            self.wait(progress);
        }
    }

    /// Ends a round as [`end`](Self::end) does, for a thread with one future. `is_woken` returns whether the future
    /// asks to be polled again: then the thread sleeps for short times only.
    pub(super) fn end_single(&mut self, round: Round, is_woken: impl FnOnce() -> bool) {
        let Some(progress) = self.advance(round) else { return };
        if is_woken() {
            self.backoff.wait_briefly();
        } else {
            self.wait(progress);
        }
    }

    /// Polls the sources. Returns `None` if a future need not wait.
    fn advance(&mut self, round: Round) -> Option<Progress> {
        if round.polled {
            self.park = if round.fired { ParkBackoff::without_spins() } else { ParkBackoff::default() };
        }
        let progress = advance_all();
        if round.advanced || progress.answered {
            self.backoff = Backoff::default();
            return None;
        }
        Some(progress)
    }

    fn wait(&mut self, progress: Progress) {
        if progress.awaited {
            self.backoff.wait();
        } else {
            self.park.wait();
        }
    }
}

/// The number of waits of a thread in succession.
#[derive(Default)]
struct Backoff(u32);

impl Backoff {
    /// Spins in the first waits, then yields the processor. The count of waits does not fall, so the next wait without
    /// a polled future sleeps: a timer that wakes a future at intervals is no progress.
    fn wait_awake(&mut self) {
        if self.0 < SPINS {
            self.0 += 1;
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }

    /// Spins in the first waits, then yields the processor, and later sleeps until the thread is woken, its next timer
    /// is due, or a pause has ended.
    fn wait(&mut self) {
        if let Some(number) = self.next_pause() {
            park_for(idle_pause(number));
        }
    }

    /// Spins in the first waits, then yields the processor, and later sleeps for the shortest pause.
    fn wait_briefly(&mut self) {
        if self.next_pause().is_some() {
            thread::sleep(Duration::from_nanos(PAUSE_FIRST));
        }
    }

    /// Counts a wait. Returns the number of the pause, or `None` after a spin or a yield.
    fn next_pause(&mut self) -> Option<u32> {
        let waits = self.0;
        self.0 = self.0.saturating_add(1);
        if waits < SPINS {
            std::hint::spin_loop();
        } else if waits < SPINS + YIELDS {
            thread::yield_now();
        }
        waits.checked_sub(SPINS + YIELDS)
    }
}

/// The number of waits of a thread that has nothing to poll.
#[derive(Default)]
struct ParkBackoff(u32);

impl ParkBackoff {
    /// The back-off of a thread that timers have woken up: its futures probably pause again.
    fn without_spins() -> Self {
        Self(SPINS)
    }

    /// Spins for a short time and then parks the thread, because another thread often wakes it before it could park.
    fn wait(&mut self) {
        if self.0 < SPINS {
            self.0 += 1;
            std::hint::spin_loop();
        } else {
            park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::poll_source::{PollSource, add_poll_source};
    use super::*;
    use std::rc::{Rc, Weak};
    use std::time::Instant;

    /// A source whose answers do not arrive.
    struct Silent;

    impl PollSource for Silent {
        fn advance(&self) -> Progress {
            Progress { answered: false, awaited: true }
        }
    }

    /// Waits that have reached the longest pauses, beside a silent source.
    fn idle() -> (RoundWaits, Rc<Silent>) {
        let source = Rc::new(Silent);
        add_poll_source(Rc::downgrade(&source) as Weak<dyn PollSource>);
        let mut waits = RoundWaits::default();
        waits.backoff.0 = u32::MAX;
        (waits, source)
    }

    #[test]
    fn a_wake_up_ends_a_pause() {
        let (mut waits, _source) = idle();
        let began = Instant::now();
        // 20 s of pauses.
        for _ in 0..10_000 {
            thread::current().unpark();
            waits.end(Round::default());
        }
        assert!(began.elapsed() < Duration::from_secs(19), "{:?}", began.elapsed());
    }

    #[test]
    fn only_progress_ends_the_pauses() {
        let (mut waits, _source) = idle();
        waits.end(Round { fired: true, polled: true, advanced: false });
        assert_eq!(waits.backoff.0, u32::MAX, "a timer has woken a future that waits");
        waits.end(Round { fired: false, polled: true, advanced: true });
        assert_eq!(waits.backoff.0, 0, "a future has begun");
    }
}
