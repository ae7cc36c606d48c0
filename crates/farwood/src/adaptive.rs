//! Requests that a server executes while it has time, and that its clients execute by READs while it is busy (Catfish
//! §IV and §VI), for servers of your own: they may answer requests about any index, over any channel.
//!
//! [`spatial::Spatial`](crate::spatial::Spatial) does this by itself. A program that has its own server, such as one
//! that adds up the values of a range, builds the same from three parts:
//!
//! - The threads of the server [join](ServerLoad::join) a [`ServerLoad`], which measures their processor time.
//! - At an interval, 10 ms in the paper, the server [publishes](Heartbeat::publish) its utilisation in a [`Heartbeat`],
//!   or sends it to clients in other processes, which publish it there.
//! - Before each request, a client asks its [`BackOff`] for the path, with the heartbeat that its [`HeartbeatReader`]
//!   has not seen yet.
//!
//! ```
//! use farwood::adaptive::{BackOff, BackOffSettings, Heartbeat, SearchPath};
//!
//! let heartbeat = Heartbeat::default();
//! let mut reader = heartbeat.reader();
//! let mut back_off = BackOff::new(BackOffSettings::default(), 1);
//! assert_eq!(back_off.next(reader.take()), SearchPath::Message, "without a heartbeat, the server is not busy");
//!
//! let mut offloaded = 0;
//! for _ in 0..100 {
//!     heartbeat.publish(1.0);
//!     offloaded += u32::from(back_off.next(reader.take()) == SearchPath::Offload);
//! }
//! assert!(offloaded > 50, "the window grows while the server stays busy");
//! ```
//!
//! `crates/farwood/examples/adaptive_server.rs` is a whole program.

pub use farwood_index::catfish::adaptive::{BackOff, BackOffRule, BackOffSettings, SearchPath};
pub use farwood_transport::thread_clock::Membership;

use farwood_index::catfish::adaptive::{heartbeat, next_pulse, number_and_beat, utilisation};
use farwood_transport::thread_clock::ThreadClocks;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The utilisation of a server: the processor time of its threads.
#[derive(Debug)]
pub struct ServerLoad {
    clocks: ThreadClocks,
    last: Mutex<Reading>,
}

/// Processor time up to a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    worked_ns: u64,
}

impl Default for ServerLoad {
    fn default() -> Self {
        Self {
            clocks: ThreadClocks::default(),
            last: Mutex::new(Reading { at: Instant::now(), worked_ns: 0 }),
        }
    }
}

impl ServerLoad {
    /// Adds the calling thread to the server, until the result is dropped. The thread must sleep while it waits for
    /// requests: a thread that polls uses its processor all the time.
    pub fn join(&self) -> Membership<'_> {
        self.clocks.join()
    }

    /// The utilisation since the last call, 0 to 1: the processor time of the server's threads, divided by that of the
    /// processors that they can use.
    pub fn utilisation(&self) -> f64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Reading { at: Instant::now(), worked_ns: self.clocks.nanoseconds() };
        let last = std::mem::replace(&mut *last, now);
        let worked_ns = now.worked_ns.saturating_sub(last.worked_ns);
        busy_share(worked_ns, now.at.duration_since(last.at), self.clocks.threads()).min(1.0)
    }
}

/// The processor time of `threads` threads in a time, divided by that of the processors that they can use.
pub(crate) fn busy_share(worked_ns: u64, passed: Duration, threads: usize) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    worked_ns as f64 / (passed.as_nanos().max(1) as f64 * threads.clamp(1, processors) as f64)
}

/// The most recent heartbeat of a server.
#[derive(Debug, Default)]
pub struct Heartbeat {
    /// The number of the heartbeat, counted from 1, and the utilisation.
    pulse: AtomicU64,
}

impl Heartbeat {
    /// Publishes a utilisation, 0 to 1. One thread at a time publishes.
    pub fn publish(&self, utilisation: f64) {
        let pulse = self.pulse.load(Ordering::Relaxed);
        self.pulse.store(next_pulse(pulse, 1, heartbeat(utilisation)), Ordering::Relaxed);
    }

    /// A reader for one client, which has not seen the most recent heartbeat.
    pub fn reader(&self) -> HeartbeatReader<'_> {
        HeartbeatReader { heartbeat: self, seen: 0 }
    }
}

/// A client's view of the heartbeats of its server.
#[derive(Debug)]
pub struct HeartbeatReader<'h> {
    heartbeat: &'h Heartbeat,
    /// The number of the last heartbeat that was taken.
    seen: u64,
}

impl HeartbeatReader<'_> {
    /// The utilisation in the most recent heartbeat; `None`: there was none since the last call.
    pub fn take(&mut self) -> Option<f64> {
        let (number, beat) = number_and_beat(self.heartbeat.pulse.load(Ordering::Relaxed));
        let is_new = number != std::mem::replace(&mut self.seen, number);
        utilisation(beat).filter(|_| is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_sees_each_heartbeat_once() {
        let heartbeat = Heartbeat::default();
        let (mut early, mut late) = (heartbeat.reader(), heartbeat.reader());
        assert_eq!((early.take(), late.take()), (None, None));
        heartbeat.publish(0.25);
        assert_eq!((early.take(), early.take()), (Some(0.25), None));
        heartbeat.publish(7.0);
        assert_eq!((early.take(), late.take()), (Some(1.0), Some(1.0)));
    }

    /// The utilisation while one thread runs `work`.
    fn during(load: &ServerLoad, work: impl FnOnce() + Send) -> f64 {
        std::thread::scope(|scope| {
            let measured = scope.spawn(|| {
                let _membership = load.join();
                load.utilisation();
                work();
                load.utilisation()
            });
            measured.join().expect("the thread ends")
        })
    }

    #[test]
    fn a_thread_that_works_is_busy_and_one_that_sleeps_is_not() {
        let (load, time) = (ServerLoad::default(), Duration::from_millis(60));
        let work = || {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        };
        // The thread may wait for a processor most of the time.
        assert!(during(&load, work) > 0.1);
        assert!(during(&load, || std::thread::sleep(time)) < 0.1);
        // The time before the thread joins does not count.
        work();
        let _membership = load.join();
        load.utilisation();
        std::thread::sleep(time);
        assert!(load.utilisation() < 0.1);
    }
}
