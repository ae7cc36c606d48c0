//! The state that all threads of a memory node share.

use super::counters::{Counters, NodeCounts};
use super::event::{NodeEvent, NodeEvents};
use super::event_sums::{EndedSum, EventSums, SummedEvent};
use super::log::Log;
use super::registry::Registry;
use super::snapshot::EndedSnapshot;
use super::spec::NodeSpec;
use super::store::Store;
use super::verb_executor::VerbExecutor;
use crate::fork::ForkCount;
use crate::stream::ServerTls;
use crate::wire::Code;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

/// The time that a stopping memory node waits for compute nodes to read their last answers.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(2);

/// The state that all threads of a memory node share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) registry: Registry,
    /// The counters of each thread.
    pub(super) counters: Vec<Counters>,
    pub(super) tls: Option<ServerTls>,
    /// The device that executes verbs in place of the threads.
    pub(super) executor: Option<Box<dyn VerbExecutor>>,
    events: Option<NodeEvents>,
    sums: EventSums,
    pub(super) stopping: AtomicBool,
    /// The time for which a thread polls before it sleeps.
    pub(super) spin: Duration,
    pub(super) next_worker: AtomicUsize,
    /// The process of the memory node.
    pub(super) forks: ForkCount,
}

impl Shared {
    /// The state for `threads` threads.
    pub(super) fn new(
        store: Store,
        registry: Registry,
        executor: Option<Box<dyn VerbExecutor>>,
        threads: usize,
        spec: &NodeSpec,
    ) -> Self {
        Self {
            store,
            registry,
            counters: (0..threads).map(|_| Counters::default()).collect(),
            tls: spec.tls.clone(),
            executor,
            events: spec.events.clone(),
            sums: EventSums::default(),
            stopping: AtomicBool::new(false),
            spin: spec.spin,
            next_worker: AtomicUsize::new(0),
            forks: ForkCount::now(),
        }
    }

    /// Returns the counters of the memory node.
    pub(super) fn counts(&self) -> NodeCounts {
        let (store, registry) = (&self.store, &self.registry);
        NodeCounts {
            connections: registry.connections() as u64,
            resident_bytes: store.resident_bytes(),
            memory_bytes: store.memory_bytes() + store.device_bytes(),
            checkpoint_failures: store.log().map_or(0, Log::checkpoint_failures),
            snapshot_bytes: store.snapshots().bytes(),
            ..NodeCounts::sum(&self.counters)
        }
    }

    /// Returns one page of four counters: the answer to `Control::Stat`.
    pub(super) fn stat(&self, page: u64) -> Option<[u64; 4]> {
        let counts = self.counts();
        Some(match page {
            0 => [counts.resident_bytes, counts.connections, counts.requests, counts.verbs],
            1 => [counts.bytes_in, counts.bytes_out, counts.refused, counts.bad_frames],
            2 => [0.5, 0.9, 0.99, 1.0].map(|share| counts.latency_us_below(share)),
            _ => return None,
        })
    }

    /// Logs the refusal of a connection; returns the number of such events of this source within a second, from 1.
    pub(super) fn log_refusal(&self, from: Option<SocketAddr>, code: Code, why: String) -> u64 {
        let number = self.count(from, SummedEvent::Refused);
        if number == 1 {
            self.log(|| NodeEvent::Refused { from, code, why });
        }
        number
    }

    /// Logs the end of a connection for an invalid frame.
    pub(super) fn log_bad_frame(&self, from: Option<SocketAddr>, why: String) {
        if self.count(from, SummedEvent::BadFrame) == 1 {
            self.log(|| NodeEvent::BadFrame { from, why });
        }
    }

    fn count(&self, from: Option<SocketAddr>, event: SummedEvent) -> u64 {
        self.sums.count(from.map(|from| from.ip()), event, Instant::now())
    }

    /// Logs the sums of events whose second is over at `now`.
    pub(super) fn log_sums(&self, now: Instant) {
        for EndedSum { from, event, more } in self.sums.take_ended(now) {
            self.log(|| NodeEvent::Repeated { from, event, more });
        }
    }

    /// Logs the clients that have been lost. Only memory node 0 detects them, because every client keeps a
    /// connection to it.
    pub(super) fn log_lost(&self, now: Instant) {
        if self.store.membership().node == 0 {
            self.registry.take_lost(now).into_iter().for_each(|client| self.log(|| NodeEvent::Lost(client)));
        }
    }

    /// Logs the end of a snapshot.
    pub(super) fn log_snapshot_end(&self) {
        for ended in self.store.snapshots().take_ended() {
            let EndedSnapshot { bytes, why, .. } = &ended;
            self.log(|| NodeEvent::SnapshotEnded { bytes: *bytes, why: why.clone() });
            // Freeing many pages takes a while. If there is no thread for it, this one frees them.
            let _ = std::thread::Builder::new().name("farwood-free".to_owned()).spawn(move || drop(ended));
        }
    }

    /// Logs an event, unless the channel is full.
    pub(super) fn log(&self, event: impl FnOnce() -> NodeEvent) {
        if let Some(events) = &self.events {
            let _ = events.try_send(event());
        }
    }
}
