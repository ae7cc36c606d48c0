//! Copies of hot cached nodes that each thread has for itself.
//!
//! Every search passes the root and few nodes below it. Where all threads read one copy of those, each counts itself
//! in and out of it, and the counter's line goes from core to core with every search. So a thread keeps copies of its
//! own of what it met twice in a short time. One is good as long as the shared copy is unchanged: its version says so,
//! which is only read.

use super::cached_node::{CachedNode, DROPPED};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Lanes; more threads share them.
const LANES: usize = 8;
/// Copies of a lane.
const PLACES: usize = 512;
/// Bytes that all copies take at most.
const BYTES_MAX: usize = LANES * PLACES * (CachedNode::BYTES_MAX + size_of::<Mutex<Place>>());
/// The part of a budget that they may take: 64 MiB have room for them.
const SHARE: usize = 7;

/// The places of a lane.
type Lane = Box<[Mutex<Place>]>;

/// The lanes of a cache.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Box<[OnceLock<Lane>]>,
    bytes: AtomicUsize,
}

/// A place for a copy.
#[derive(Debug, Default)]
struct Place {
    /// What was looked for here last, and was not here.
    missed: u64,
    copy: Option<Own>,
}

/// A thread's own copy.
#[derive(Debug)]
struct Own {
    /// Of which node.
    at: u64,
    of: Arc<CachedNode>,
    version: u32,
    copy: Arc<CachedNode>,
}

impl Lanes {
    /// Lanes for a cache of that budget: none where they would take too much of it.
    pub(super) fn new(bytes_max: usize) -> Self {
        let count = if BYTES_MAX <= bytes_max / SHARE { LANES } else { 0 };
        Self { lanes: (0..count).map(|_| OnceLock::new()).collect(), bytes: AtomicUsize::new(0) }
    }

    /// Bytes that the copies take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The place of a thread for the node at `at`.
    fn place(&self, thread: usize, at: u64) -> Option<MutexGuard<'_, Place>> {
        let lane = self.lanes.get(thread % LANES)?;
        let places = lane.get_or_init(|| (0..PLACES).map(|_| Mutex::default()).collect());
        let number = (at >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let place = &places[number as usize % PLACES];
        Some(place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The thread's own copy of the node at `at`, or the shared one, as `shared` finds it. Of either the shared one is
    /// touched.
    #[inline]
    pub(super) fn get(
        &self,
        thread: usize,
        at: u64,
        shared: impl Fn() -> Option<Arc<CachedNode>>,
        touch: impl Fn(&CachedNode),
    ) -> Option<Arc<CachedNode>> {
        let Some(mut place) = self.place(thread, at) else {
            let node = shared()?;
            touch(&node);
            return Some(node);
        };
        if let Some(own) = &place.copy
            && own.at == at
            && own.of.version() == own.version
        {
            touch(&own.of);
            let copy = Arc::clone(&own.copy);
            place.missed = 0;
            return Some(copy);
        }
        let node = shared()?;
        touch(&node);
        if std::mem::replace(&mut place.missed, at) == at {
            self.keep(&mut place, &node);
        }
        Some(node)
    }

    /// Keeps a copy of a node that was met again, unless the cache has just dropped it.
    fn keep(&self, place: &mut Place, node: &Arc<CachedNode>) {
        let version = node.version();
        if version & DROPPED != 0 {
            return;
        }
        let own = Own { at: node.at.word(), of: Arc::clone(node), version, copy: node.duplicate() };
        self.bytes.fetch_add(node.bytes(), Relaxed);
        if let Some(before) = place.copy.replace(own) {
            self.bytes.fetch_sub(before.copy.bytes(), Relaxed);
        }
    }
}
