//! Per-thread copies of hot cached nodes.
//!
//! Every search visits the root and a few nodes below it. If all threads read one shared copy of such a node, each
//! search changes the reference counter of the copy, and its cache line moves between cores. So each thread keeps its
//! own duplicates of the nodes that it used twice in a short time. A duplicate is valid while the version of the shared
//! copy is unchanged; checking that only reads the shared copy.

use super::cached_node::{CachedNode, EVICTED};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of thread tables; threads beyond that share them.
const TABLES: usize = 8;
/// Number of entries of a thread's table.
const ENTRIES: usize = 512;
/// Maximum bytes of all duplicates.
const BYTES_MAX: usize = TABLES * ENTRIES * (CachedNode::BYTES_MAX + size_of::<Mutex<ThreadEntry>>());
/// Part of the cache budget that the duplicates may use, as a divisor: a budget of 64 MiB is enough for them.
const SHARE: usize = 7;

/// Duplicates of one thread.
type ThreadTable = Box<[Mutex<ThreadEntry>]>;

/// The thread tables of a cache.
#[derive(Debug)]
pub(super) struct ThreadCache {
    tables: Box<[OnceLock<ThreadTable>]>,
    bytes: AtomicUsize,
}

/// Entry of a thread table.
#[derive(Debug, Default)]
struct ThreadEntry {
    /// Address of the last node for which a lookup found no duplicate here.
    missed: u64,
    duplicate: Option<Duplicate>,
}

/// A thread's own copy of a cached node.
#[derive(Debug)]
struct Duplicate {
    /// Address of the node.
    at: u64,
    /// The shared copy, and its version when it was duplicated.
    shared: Arc<CachedNode>,
    version: u32,
    copy: Arc<CachedNode>,
}

impl ThreadCache {
    /// Thread tables for a cache with a budget of `bytes_max` bytes: none if they would use too much of it.
    pub(super) fn new(bytes_max: usize) -> Self {
        let count = if BYTES_MAX <= bytes_max / SHARE { TABLES } else { 0 };
        Self { tables: (0..count).map(|_| OnceLock::new()).collect(), bytes: AtomicUsize::new(0) }
    }

    /// Bytes of the duplicates.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The entry of `thread` for the node at `at`; `None` if there are no thread tables.
    fn entry(&self, thread: usize, at: u64) -> Option<MutexGuard<'_, ThreadEntry>> {
        let table = self.tables.get(thread % TABLES)?;
        let entries = table.get_or_init(|| (0..ENTRIES).map(|_| Mutex::default()).collect());
        let number = (at >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let entry = &entries[number as usize % ENTRIES];
        Some(entry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The thread's duplicate of the node at `at`, or the shared copy that `shared` finds. Calls `touch` with the
    /// shared copy in both cases.
    #[inline]
    pub(super) fn get(
        &self,
        thread: usize,
        at: u64,
        shared: impl Fn() -> Option<Arc<CachedNode>>,
        touch: impl Fn(&CachedNode),
    ) -> Option<Arc<CachedNode>> {
        let Some(mut entry) = self.entry(thread, at) else {
            let node = shared()?;
            touch(&node);
            return Some(node);
        };
        if let Some(duplicate) = &entry.duplicate
            && duplicate.at == at
            && duplicate.shared.version() == duplicate.version
        {
            touch(&duplicate.shared);
            let copy = Arc::clone(&duplicate.copy);
            entry.missed = 0;
            return Some(copy);
        }
        let node = shared()?;
        touch(&node);
        if std::mem::replace(&mut entry.missed, at) == at {
            self.keep(&mut entry, &node);
        }
        Some(node)
    }

    /// Duplicates a node that was searched twice, unless the cache has just evicted it.
    fn keep(&self, entry: &mut ThreadEntry, node: &Arc<CachedNode>) {
        let version = node.version();
        if version & EVICTED != 0 {
            return;
        }
        let at = node.at.word();
        let duplicate = Duplicate { at, shared: Arc::clone(node), version, copy: node.duplicate() };
        self.bytes.fetch_add(node.bytes(), Relaxed);
        if let Some(before) = entry.duplicate.replace(duplicate) {
            self.bytes.fetch_sub(before.copy.bytes(), Relaxed);
        }
    }
}
