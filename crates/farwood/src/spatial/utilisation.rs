//! The utilisation of a server: the processor time of its threads.

use crate::adaptive::busy_share;
use farwood_index::catfish::Service;
use farwood_transport::thread_clock::ThreadClocks;
use std::time::Instant;

/// The threads of a server.
#[derive(Debug, Default)]
pub(super) struct ServerThreads {
    /// Those that answer messages in rings.
    pub(super) rings: ThreadClocks,
    /// Those that answer messages from sockets.
    pub(super) sockets: ThreadClocks,
}

/// Processor time up to a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    rings_ns: u64,
    /// Time of answers in rings, waits for a processor included.
    answers_ns: u64,
    sockets_ns: u64,
}

impl ServerThreads {
    fn read(&self, service: &Service<'_>) -> Reading {
        Reading {
            at: Instant::now(),
            rings_ns: self.rings.nanoseconds(),
            answers_ns: service.worked_ns(),
            sockets_ns: self.sockets.nanoseconds(),
        }
    }

    /// Returns a function that yields the utilisation since its last call: processor time of the threads, divided by
    /// that of the processors that they can use.
    ///
    /// A thread that serves rings also uses processor time to look for requests, so its processor time counts up to the
    /// time of its answers.
    pub(super) fn utilisation<'s>(&'s self, service: &'s Service<'_>) -> impl FnMut() -> f64 + 's {
        let mut last = self.read(service);
        move || {
            let now = self.read(service);
            let rings_ns = (now.rings_ns - last.rings_ns).min(now.answers_ns - last.answers_ns);
            let worked_ns = rings_ns + now.sockets_ns.saturating_sub(last.sockets_ns);
            let passed = now.at.duration_since(last.at);
            last = now;
            busy_share(worked_ns, passed, self.rings.threads() + self.sockets.threads())
        }
    }
}
