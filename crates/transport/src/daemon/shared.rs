//! The state that all threads of a memory node share.

use super::counters::{Counters, NodeCounts};
use super::event::{NodeEvent, NodeEvents};
use super::registry::Registry;
use super::spec::NodeSpec;
use super::store::Store;
use super::verb_executor::VerbExecutor;
use crate::fork::ForkCount;
use crate::stream::ServerTls;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

/// How long a stopping memory node waits for compute nodes to read their last answers.
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
    pub(super) stopping: AtomicBool,
    /// How long a thread polls before it sleeps.
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
            memory_bytes: store.host_bytes() + store.device_bytes(),
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

    /// Logs an event, unless the log is behind.
    pub(super) fn log(&self, event: impl FnOnce() -> NodeEvent) {
        if let Some(events) = &self.events {
            let _ = events.try_send(event());
        }
    }
}
