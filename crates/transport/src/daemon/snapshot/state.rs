//! The states of the snapshot of a memory node: prepared, aimed at a cut, taken, ended. One exists at a time.

use super::SnapshotPages;
use crate::shm::Mapping;
use crate::wire::Code;
use farwood_fabric::ByteCount;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that a preparation waits for the memory node's own changes, each of which is a copy of a few bytes.
const OWN_CHANGES_MAX: Duration = Duration::from_secs(3);

/// A defect of snapshots, for tests of tests.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotMutant {
    /// Requests do not raise the cut.
    CutForgotten,
    /// Pages are not copied before they change.
    PageNotCopied,
}

/// A refusal: its code and the reason.
type SnapshotRefusal = (Code, String);

/// A snapshot.
#[derive(Debug)]
struct Snapshot {
    number: u64,
    /// The number of the connection with which it ends.
    owner: u64,
    /// The cut at which it is taken; `None`: not known yet.
    aim: Option<u64>,
    /// The copies, from the moment on at which it was taken.
    pages: Option<SnapshotPages>,
}

/// A snapshot that has ended, as its event states it.
#[derive(Debug)]
pub(in crate::daemon) struct EndedSnapshot {
    /// Bytes of its pages.
    pub(in crate::daemon) bytes: u64,
    /// The reason, if it was not the end of the connection.
    pub(in crate::daemon) why: Option<String>,
    /// Freed outside of the mutex, because freeing gigabytes takes a second.
    _pages: Option<SnapshotPages>,
}

#[derive(Debug, Default)]
struct SnapshotState {
    present: Option<Snapshot>,
    /// The number of the last snapshot that has ended by itself, and the reason.
    lost: Option<(u64, String)>,
    /// Ends that are not logged yet.
    ended: Vec<EndedSnapshot>,
}

/// The live memory, and the cut that the memory node has entered.
#[derive(Clone, Copy, Debug)]
pub(in crate::daemon) struct SnapshotMemory<'m> {
    pub(in crate::daemon) mapping: &'m Mapping,
    /// The cut of the log; 0: the log begins none.
    pub(in crate::daemon) log_cut: u64,
}

/// The right to change the live memory while there is a snapshot. Excludes all other changes.
#[must_use = "other changes are excluded until it is dropped"]
#[derive(Debug)]
pub(in crate::daemon) struct SnapshotChange<'s> {
    _state: MutexGuard<'s, SnapshotState>,
}

/// A change by the memory node itself, which no execution guard covers.
#[must_use = "a snapshot waits until it is dropped"]
#[derive(Debug)]
pub(in crate::daemon) struct OwnChange<'s>(&'s AtomicU64);

impl Drop for OwnChange<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The snapshot of a memory node, if there is one.
#[derive(Debug)]
pub(in crate::daemon) struct Snapshots {
    /// Whether changes take the mutex.
    is_present: AtomicBool,
    own_changes: AtomicU64,
    /// The highest cut in requests while there was a snapshot.
    cut: AtomicU64,
    state: Mutex<SnapshotState>,
    bytes_max: u64,
    mutant: Option<SnapshotMutant>,
}

impl Snapshots {
    /// No snapshot; the pages of one have at most `bytes_max` bytes.
    pub(in crate::daemon) fn new(bytes_max: u64, mutant: Option<SnapshotMutant>) -> Self {
        Self {
            is_present: AtomicBool::new(false),
            own_changes: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            state: Mutex::default(),
            bytes_max,
            mutant,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SnapshotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, mutant: SnapshotMutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether there is a snapshot, prepared or taken.
    #[inline]
    pub(in crate::daemon) fn is_present(&self) -> bool {
        self.is_present.load(Ordering::Acquire)
    }

    /// Records the cut of a request, before the request is executed.
    #[inline]
    pub(in crate::daemon) fn enter_cut(&self, cut: u64) {
        if self.is_present() && !self.has(SnapshotMutant::CutForgotten) {
            self.cut.fetch_max(cut, Ordering::AcqRel);
        }
    }

    /// The cut for an answer with bytes that the caller has read before; 0: there is no snapshot.
    #[inline]
    pub(in crate::daemon) fn cut_after_reads(&self) -> u64 {
        fence(Ordering::Acquire);
        if self.is_present.load(Ordering::Relaxed) { self.cut.load(Ordering::Relaxed) } else { 0 }
    }

    fn cut(&self, memory: SnapshotMemory<'_>) -> u64 {
        self.cut.load(Ordering::Acquire).max(memory.log_cut)
    }

    /// Begins a change of the live memory by the memory node itself.
    #[inline]
    pub(in crate::daemon) fn begin_own_change(&self) -> OwnChange<'_> {
        self.own_changes.fetch_add(1, Ordering::SeqCst);
        OwnChange(&self.own_changes)
    }

    /// Copies the pages of a range of the live memory, which the caller changes while it has the result. With a log,
    /// the caller holds its lock. `None`: there is no snapshot.
    #[inline]
    pub(in crate::daemon) fn before_change<'s>(
        &'s self,
        memory: impl FnOnce() -> SnapshotMemory<'s>,
        (offset, bytes): (u64, u64),
    ) -> Option<SnapshotChange<'s>> {
        // In one order with the counter of own changes; as cheap as any load on x86.
        self.is_present.load(Ordering::SeqCst).then(|| self.keep(memory(), (offset, bytes)))
    }

    #[cold]
    fn keep(&self, memory: SnapshotMemory<'_>, (offset, bytes): (u64, u64)) -> SnapshotChange<'_> {
        let mut state = self.lock();
        if let Some(snapshot) = &mut state.present {
            snapshot.take_if_due(self.cut(memory));
            if let Some(pages) = &mut snapshot.pages
                && !self.has(SnapshotMutant::PageNotCopied)
            {
                pages.keep(memory.mapping, offset, bytes);
                self.enforce_limit(&mut state);
            }
        }
        SnapshotChange { _state: state }
    }

    /// Ends a snapshot that has too many pages.
    fn enforce_limit(&self, state: &mut SnapshotState) {
        let bytes = state.present.as_ref().map_or(0, Snapshot::bytes);
        if bytes <= self.bytes_max {
            return;
        }
        let why = format!(
            "the snapshot has ended, because more than {} of memory changed during the dump: start the memory node \
             with a larger --snapshot-memory, or repeat the dump when less is written",
            ByteCount(self.bytes_max)
        );
        self.end(state, Some(why));
    }

    fn end(&self, state: &mut SnapshotState, why: Option<String>) {
        let Some(snapshot) = state.present.take() else { return };
        self.is_present.store(false, Ordering::SeqCst);
        let (bytes, number) = (snapshot.bytes(), snapshot.number);
        state.ended.push(EndedSnapshot { bytes, why: why.clone(), _pages: snapshot.pages });
        state.lost = why.map(|why| (number, why));
    }

    /// Prepares snapshot `number`, which ends with connection `owner`. Changes that are executed meanwhile may not be
    /// covered: the caller then waits for them ([`await_own_changes`](Self::await_own_changes)).
    ///
    /// # Errors
    /// There is a snapshot.
    pub(in crate::daemon) fn prepare(&self, number: u64, owner: u64) -> Result<(), SnapshotRefusal> {
        let mut state = self.lock();
        if state.present.is_some() {
            let why = "another dump --consistent of the pool is running: wait for its end, or end it";
            return Err((Code::SnapshotBusy, why.to_owned()));
        }
        state.present = Some(Snapshot { number, owner, aim: None, pages: None });
        self.is_present.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Waits until the memory node's own changes have ended that may not have seen the snapshot.
    ///
    /// # Errors
    /// They do not end.
    pub(in crate::daemon) fn await_own_changes(&self) -> Result<(), SnapshotRefusal> {
        let end = Instant::now() + OWN_CHANGES_MAX;
        while self.own_changes.load(Ordering::SeqCst) > 0 {
            if Instant::now() > end {
                let why = "the server of a spatial index changes memory without a pause: repeat the dump";
                return Err((Code::SnapshotBusy, why.to_owned()));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The cut of the memory node.
    pub(in crate::daemon) fn current_cut(&self, memory: SnapshotMemory<'_>) -> u64 {
        let _state = self.lock();
        self.cut(memory)
    }

    /// Lets the snapshot be taken at `cut`. `Ok(false)`: the memory node has entered such a cut before.
    ///
    /// # Errors
    /// The snapshot has ended, or is not that of the connection `owner`.
    pub(in crate::daemon) fn aim<'m>(
        &self,
        (number, owner): (u64, u64),
        cut: u64,
        memory: impl FnOnce() -> SnapshotMemory<'m>,
    ) -> Result<bool, SnapshotRefusal> {
        let mut state = self.lock();
        // The cut of the log is loaded here: a change that has seen a later one has ended before.
        let is_ahead = self.cut(memory()) < cut;
        let snapshot = state.of(number)?;
        if snapshot.owner != owner {
            return Err((Code::SnapshotLost, "another connection has prepared the snapshot".to_owned()));
        }
        (snapshot.aim, snapshot.pages) = (is_ahead.then_some(cut), None);
        Ok(is_ahead)
    }

    /// The cut at which the snapshot is taken.
    ///
    /// # Errors
    /// It has ended, or has none.
    pub(in crate::daemon) fn aim_of(&self, number: u64) -> Result<u64, SnapshotRefusal> {
        self.lock().of(number)?.aim.ok_or_else(not_taken)
    }

    /// Raises the cut of the memory node, as a request does.
    pub(in crate::daemon) fn raise_cut(&self, cut: u64) {
        self.cut.fetch_max(cut, Ordering::AcqRel);
    }

    /// Ends the snapshot of connection `owner`.
    pub(in crate::daemon) fn end_of(&self, owner: u64) {
        if !self.is_present.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.lock();
        if state.present.as_ref().is_some_and(|snapshot| snapshot.owner == owner) {
            self.end(&mut state, None);
        }
    }

    /// Ends the snapshot, because the memory is replaced.
    pub(in crate::daemon) fn end_all(&self, why: &str) {
        self.end(&mut self.lock(), Some(why.to_owned()));
    }

    /// Takes the ends since the last call, which the caller logs.
    pub(in crate::daemon) fn take_ended(&self) -> Vec<EndedSnapshot> {
        std::mem::take(&mut self.lock().ended)
    }

    /// Bytes of the pages of the snapshot; 0: there is none.
    pub(in crate::daemon) fn bytes(&self) -> u64 {
        self.lock().present.as_ref().map_or(0, Snapshot::bytes)
    }

    /// Calls `work` with the pages of snapshot `number`, while nobody changes the live memory.
    ///
    /// # Errors
    /// It has ended, or is not taken yet.
    pub(in crate::daemon) fn with_pages<T>(
        &self,
        number: u64,
        memory: SnapshotMemory<'_>,
        work: impl FnOnce(&mut SnapshotPages) -> T,
    ) -> Result<T, SnapshotRefusal> {
        let mut state = self.lock();
        let snapshot = state.of(number)?;
        snapshot.take_if_due(self.cut(memory));
        let done = work(snapshot.pages.as_mut().ok_or_else(not_taken)?);
        self.enforce_limit(&mut state);
        // The work may have used pages that are gone now, so it has been done.
        Ok(done)
    }
}

fn not_taken() -> SnapshotRefusal {
    (Code::SnapshotLost, "the snapshot is not taken yet".to_owned())
}

impl SnapshotState {
    fn of(&mut self, number: u64) -> Result<&mut Snapshot, SnapshotRefusal> {
        let lost = self.lost.as_ref().filter(|(lost, _)| *lost == number);
        let why = lost.map_or_else(
            || "the snapshot has ended: the dump that has made it does not run any more".to_owned(),
            |(_, why)| why.clone(),
        );
        let present = self.present.as_mut().filter(|snapshot| snapshot.number == number);
        present.ok_or((Code::SnapshotLost, why))
    }
}

impl Snapshot {
    fn bytes(&self) -> u64 {
        self.pages.as_ref().map_or(0, SnapshotPages::bytes)
    }

    /// Takes the snapshot if the memory node has entered its cut.
    fn take_if_due(&mut self, cut: u64) {
        if self.pages.is_none() && self.aim.is_some_and(|aim| cut >= aim) {
            self.pages = Some(SnapshotPages::default());
        }
    }
}
