//! What all threads of a memory node share.

use super::counters::{Counters, NodeCounts};
use super::event::{NodeEvent, NodeEvents};
use super::registry::Registry;
use super::spec::NodeSpec;
use super::store::Store;
use super::verb_executor::Card;
use crate::stream::ServerTls;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

/// A compute node takes its last answers within this time, when the memory node stops.
pub(super) const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// What all threads of a memory node share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) registry: Registry,
    /// Each thread's.
    pub(super) counters: Vec<Counters>,
    pub(super) tls: Option<ServerTls>,
    /// What executes verbs in the threads' place.
    pub(super) card: Option<Box<dyn Card>>,
    events: Option<NodeEvents>,
    pub(super) stopping: AtomicBool,
    /// How long a thread looks again and again before it sleeps.
    pub(super) spin: Duration,
    pub(super) next_worker: AtomicUsize,
}

impl Shared {
    /// What `threads` threads share.
    pub(super) fn new(
        store: Store,
        registry: Registry,
        card: Option<Box<dyn Card>>,
        threads: usize,
        spec: &NodeSpec,
    ) -> Self {
        Self {
            store,
            registry,
            counters: (0..threads).map(|_| Counters::default()).collect(),
            tls: spec.tls.clone(),
            card,
            events: spec.events.clone(),
            stopping: AtomicBool::new(false),
            spin: spec.spin,
            next_worker: AtomicUsize::new(0),
        }
    }

    /// What the memory node has done so far.
    pub(super) fn counts(&self) -> NodeCounts {
        let (store, registry) = (&self.store, &self.registry);
        NodeCounts {
            connections: registry.connections() as u64,
            resident_bytes: store.resident_bytes(),
            memory_bytes: store.host_bytes() + store.device_bytes(),
            ..NodeCounts::sum(&self.counters)
        }
    }

    /// The same in words of four, by page: the answers to `Control::Stat`.
    pub(super) fn stat(&self, page: u64) -> Option<[u64; 4]> {
        let counts = self.counts();
        Some(match page {
            0 => [counts.resident_bytes, counts.connections, counts.requests, counts.verbs],
            1 => [counts.bytes_in, counts.bytes_out, counts.refused, counts.bad_frames],
            2 => [0.5, 0.9, 0.99, 1.0].map(|share| counts.latency_us_below(share)),
            _ => return None,
        })
    }

    /// Tells the log, unless it has too much to write already.
    pub(super) fn tell(&self, event: impl FnOnce() -> NodeEvent) {
        if let Some(events) = &self.events {
            let _ = events.try_send(event());
        }
    }
}
