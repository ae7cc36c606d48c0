//! Appending records: executed changes, in their order.

use super::checkpoint::{CheckpointFault, EarlierCheckpoint};
use super::cuts::{BaseCheckpoint, CutPhase, Cuts, cut_max};
use super::files::{LogLock, SegmentFile};
use super::granules::Granules;
use super::record::{Origin, RecordBuilder, RecordKind};
use super::tuning::{LogMutant, LogSettings};
use super::{Durability, checkpoint, files, recovery};
use crate::daemon::event::NodeEvent;
use crate::shm::Mapping;
use crate::wire::Malformed;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Fewest bytes of a log before a checkpoint.
const CHECKPOINT_BYTES_LEAST: u64 = 64 << 20;

/// The unit of the blocks of a file.
const BLOCK_BYTES: u64 = 512;

/// The longest time between two checks whether a checkpoint is due.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time of a sync below which the thread that serves connections makes it.
const SHORT_SYNC: Duration = Duration::from_micros(500);

/// From a checkpoint that could not be written to the next attempt, at least.
const ATTEMPT_PAUSE_LEAST: Duration = Duration::from_secs(10);
/// The same, in durations of the attempt that failed.
const ATTEMPT_PAUSE_ATTEMPTS: u32 = 10;

/// The callers of the thread of the log.
#[derive(Clone, Copy)]
pub(in crate::daemon) struct LogObserver<'o> {
    /// Answers may leave.
    pub(in crate::daemon) wake: &'o dyn Fn(),
    /// An event for the operator.
    pub(in crate::daemon) report: &'o dyn Fn(NodeEvent),
}

/// A checkpoint that could not be written.
#[derive(Debug)]
struct PostponedCheckpoint {
    /// The time of the next attempt.
    until: Instant,
    why: String,
}

/// Records that are not in the file yet.
#[derive(Debug)]
pub(super) struct Tail {
    buffer: Vec<u8>,
    /// The number of the next record.
    next: u64,
}

/// The segment, and its handle for syncs.
#[derive(Debug)]
struct Written {
    segment: SegmentFile,
    handle: Arc<File>,
    spare: Vec<u8>,
    /// Bytes of earlier segments since the last checkpoint.
    before: u64,
}

/// The log of a memory node.
#[derive(Debug)]
pub(in crate::daemon) struct Log {
    settings: LogSettings,
    path: PathBuf,
    salt: u64,
    tail: Mutex<Tail>,
    written: Mutex<Written>,
    /// The last record that has been appended to the buffer, written to the file, and synced.
    last_appended: AtomicU64,
    last_written: AtomicU64,
    last_durable: AtomicU64,
    /// At `always`: the last record whose sync was asked for.
    last_asked: AtomicU64,
    /// Excludes syncs from each other.
    syncing: Mutex<()>,
    /// The time of a sync, nanoseconds, averaged over the last few.
    sync_ns: AtomicU64,
    granules: Option<Granules>,
    pub(super) cuts: Cuts,
    /// Excludes checkpoints and returns from each other.
    maintenance: Mutex<()>,
    /// Bytes of the last checkpoint.
    checkpoint_bytes: AtomicU64,
    /// The last checkpoint, if it could not be written.
    postponed: Mutex<Option<PostponedCheckpoint>>,
    /// Checkpoints that could not be written.
    checkpoint_failures: AtomicU64,
    /// Whether the syncing thread has work.
    work: (Mutex<bool>, Condvar),
    stopping: AtomicBool,
    failed: OnceLock<String>,
    _lock: LogLock,
}

/// The state of the log for which an answer waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon) struct LogWaits {
    /// The disk has the records up to this one.
    pub(in crate::daemon) durable: u64,
    /// The kernel has the records up to this one.
    pub(in crate::daemon) written: u64,
}

impl LogWaits {
    /// Waits for both.
    #[inline]
    pub(in crate::daemon) fn and(self, other: Self) -> Self {
        Self { durable: self.durable.max(other.durable), written: self.written.max(other.written) }
    }
}

/// A record under construction. It excludes all other changes until it ends.
#[derive(Debug)]
pub(in crate::daemon) struct Recorder<'l> {
    log: &'l Log,
    tail: MutexGuard<'l, Tail>,
    /// `None`: the record has ended.
    builder: Option<RecordBuilder>,
    /// Whether READs may wait for this record.
    is_announced: bool,
    /// Whether it has changes other than those of locks that need not be on the disk.
    waits_for_disk: bool,
}

/// A log whose file does not change, so that a test can copy it as a power failure leaves it.
#[doc(hidden)]
#[derive(Debug)]
pub struct FrozenLog<'l> {
    log: &'l Log,
    _excluded: MutexGuard<'l, ()>,
    _written: MutexGuard<'l, Written>,
    tail: MutexGuard<'l, Tail>,
}

impl FrozenLog<'_> {
    /// The last record that is durable.
    pub fn durable(&self) -> u64 {
        self.log.last_durable.load(Ordering::SeqCst)
    }

    /// Records that are not in the file yet.
    pub fn unwritten(&self) -> &[u8] {
        &self.tail.buffer
    }
}

/// The origin of changes of the memory node itself.
const OWN: Origin = Origin { client: None, connection: 0, tag: 0 };

impl Recorder<'_> {
    /// Announces a change for which answers wait, and which the caller makes afterwards.
    #[inline]
    pub(in crate::daemon) fn announce(&mut self, offset: u64, bytes: u64) {
        self.waits_for_disk = true;
        if let Some(granules) = &self.log.granules {
            granules.mark(offset, bytes, self.tail.next);
            self.is_announced = true;
        }
    }

    /// Records a change that the caller has made.
    #[inline]
    pub(in crate::daemon) fn effect(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(builder) = &mut self.builder {
            builder.effect(&mut self.tail.buffer, offset, bytes);
        }
    }

    /// Records the answer of an atomic.
    pub(in crate::daemon) fn answer(&mut self, word: u64) {
        if let Some(builder) = &mut self.builder {
            builder.answer(word);
        }
    }

    /// Completes the record; returns the state of the log for which its answer waits.
    pub(in crate::daemon) fn end(mut self, origin: Origin) -> LogWaits {
        let number = self.end_as(RecordKind::Frame, origin);
        if self.waits_for_disk { self.log.waits_of(number) } else { LogWaits { durable: 0, written: number } }
    }

    /// Completes the record; returns its number, or 0 if it has no effects and no READ can wait for it.
    fn end_as(&mut self, kind: RecordKind, origin: Origin) -> u64 {
        let Some(builder) = self.builder.take() else { return 0 };
        let (log, number) = (self.log, self.tail.next);
        let durable = log.last_durable.load(Ordering::Relaxed);
        // A READ may wait for a record that was announced, so it exists also if nothing has changed.
        if builder.is_empty() && !self.is_announced {
            builder.cancel(&mut self.tail.buffer);
            return 0;
        }
        builder.end(&mut self.tail.buffer, (kind, origin), [number, durable, log.salt]);
        self.tail.next += 1;
        log.last_appended.store(number, Ordering::Release);
        number
    }
}

/// A frame that is not completed has made its changes.
impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        self.end_as(RecordKind::Node, OWN);
    }
}

impl Log {
    pub(super) fn new(
        settings: LogSettings,
        path: PathBuf,
        (segment, before): (SegmentFile, u64),
        (checkpoint_bytes, cuts): (u64, Cuts),
        lock: LogLock,
    ) -> io::Result<Self> {
        let (last, salt) = (segment.head.first - 1, segment.head.salt);
        let handle = Arc::new(segment.handle()?);
        Ok(Self {
            settings,
            path,
            salt,
            tail: Mutex::new(Tail { buffer: Vec::new(), next: last + 1 }),
            written: Mutex::new(Written { segment, handle, spare: Vec::new(), before }),
            last_appended: AtomicU64::new(last),
            last_written: AtomicU64::new(last),
            last_durable: AtomicU64::new(last),
            last_asked: AtomicU64::new(last),
            syncing: Mutex::default(),
            sync_ns: AtomicU64::new(SHORT_SYNC.as_nanos() as u64),
            granules: (settings.level == Durability::Always).then(Granules::new),
            cuts,
            maintenance: Mutex::new(()),
            checkpoint_bytes: AtomicU64::new(checkpoint_bytes),
            postponed: Mutex::new(None),
            checkpoint_failures: AtomicU64::new(0),
            work: (Mutex::new(false), Condvar::new()),
            stopping: AtomicBool::new(false),
            failed: OnceLock::new(),
            _lock: lock,
        })
    }

    pub(in crate::daemon) fn level(&self) -> Durability {
        self.settings.level
    }

    /// Begins a record.
    #[inline]
    pub(in crate::daemon) fn begin(&self) -> Recorder<'_> {
        let mut tail = self.lock_tail();
        let builder = RecordBuilder::begin(&mut tail.buffer);
        Recorder { log: self, tail, builder: Some(builder), is_announced: false, waits_for_disk: false }
    }

    /// Begins the cut of a request, before the request is executed.
    ///
    /// # Errors
    /// The cut is too far ahead of the clock to be one of the pool.
    #[inline]
    pub(in crate::daemon) fn begin_cut(&self, cut: u64) -> Result<(), Malformed> {
        if cut <= self.cuts.number() || self.settings.has(LogMutant::CutForgotten) {
            return Ok(());
        }
        if cut > cut_max() {
            return Err(Malformed::Cut(cut));
        }
        self.append_cut(cut);
        Ok(())
    }

    /// Begins the next cut by itself.
    pub(in crate::daemon) fn begin_next_cut(&self) {
        self.append_cut(self.cuts.next());
    }

    #[cold]
    fn append_cut(&self, cut: u64) {
        if !self.cuts.is_in(CutPhase::Active) {
            return;
        }
        let mut tail = self.lock_tail();
        if cut <= self.cuts.number() {
            return;
        }
        let (number, durable) = (tail.next, self.last_durable.load(Ordering::Relaxed));
        let mut builder = RecordBuilder::begin(&mut tail.buffer);
        builder.answer(cut);
        builder.end(&mut tail.buffer, (RecordKind::Cut, OWN), [number, durable, self.salt]);
        tail.next += 1;
        self.last_appended.store(number, Ordering::Release);
        self.cuts.set(cut);
    }

    /// The last cut that has begun.
    pub(in crate::daemon) fn cut(&self) -> u64 {
        self.cuts.number()
    }

    pub(in crate::daemon) fn is_in(&self, phase: CutPhase) -> bool {
        self.cuts.is_in(phase)
    }

    /// The cut for an answer with bytes that the caller has read.
    #[inline]
    pub(in crate::daemon) fn cut_after_reads(&self) -> u64 {
        self.cuts.after_reads()
    }

    /// Stops all changes, writes and checkpoints until the guard is dropped.
    pub(in crate::daemon) fn freeze(&self) -> FrozenLog<'_> {
        let excluded = self.exclude_checkpoints();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        FrozenLog { log: self, _excluded: excluded, _written: written, tail: self.lock_tail() }
    }

    pub(super) fn lock_tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes checkpoints.
    pub(super) fn exclude_checkpoints(&self) -> MutexGuard<'_, ()> {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settings(&self) -> LogSettings {
        self.settings
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Records a change that the memory node makes itself.
    pub(in crate::daemon) fn change(&self, offset: u64, bytes: &[u8], make: impl FnOnce()) -> u64 {
        let mut recorder = self.begin();
        recorder.announce(offset, bytes.len() as u64);
        make();
        recorder.effect(offset, bytes);
        recorder.end_as(RecordKind::Node, OWN)
    }

    /// The state for which an answer waits that has these bytes, which were read before.
    #[inline]
    pub(in crate::daemon) fn seen(&self, offset: u64, bytes: u64) -> LogWaits {
        let durable = self.granules.as_ref().map_or(0, |granules| granules.last(offset, bytes));
        LogWaits { durable, written: 0 }
    }

    /// The same for bytes of locks that need not be on the disk.
    #[inline]
    pub(in crate::daemon) fn seen_early(&self) -> LogWaits {
        LogWaits { durable: 0, written: if self.granules.is_some() { self.last() } else { 0 } }
    }

    /// The state for which an answer waits that may contain the last record.
    pub(in crate::daemon) fn all(&self) -> LogWaits {
        self.waits_of(self.last())
    }

    /// The state for which an answer waits that contains `record`.
    #[inline]
    fn waits_of(&self, record: u64) -> LogWaits {
        match &self.granules {
            Some(_) => LogWaits { durable: record, written: 0 },
            None => LogWaits { durable: 0, written: record },
        }
    }

    /// The last record.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.last_appended.load(Ordering::Acquire)
    }

    /// Whether the disk has all records up to `record`.
    #[inline]
    pub(in crate::daemon) fn is_durable(&self, record: u64) -> bool {
        let is_early = self.settings.has(LogMutant::AnswersEarly);
        let last = if is_early { &self.last_appended } else { &self.last_durable };
        record <= last.load(Ordering::Acquire)
    }

    /// Prepares that answers leave: at `interval`, all changes that they can have seen are in the file then; at
    /// `always`, those that `waits` names. It asks for a sync, which [`begin_sync`](Self::begin_sync) begins.
    #[inline]
    pub(in crate::daemon) fn before_answers(&self, waits: LogWaits) -> io::Result<()> {
        let (appended, last) =
            (self.last_appended.load(Ordering::Acquire), self.last_written.load(Ordering::Acquire));
        if self.granules.is_none() {
            return if appended == last { Ok(()) } else { self.write() };
        }
        if waits.written > last {
            self.write()?;
        }
        self.last_asked.fetch_max(waits.durable, Ordering::AcqRel);
        Ok(())
    }

    /// The last record whose sync was asked for; 0 at `interval`.
    #[inline]
    pub(in crate::daemon) fn last_asked(&self) -> u64 {
        if self.granules.is_some() { self.last_asked.load(Ordering::Acquire) } else { 0 }
    }

    /// The average time of a sync if it is short; 0: it is not.
    #[inline]
    pub(in crate::daemon) fn short_sync(&self) -> Duration {
        let limit = self.settings.tuning.short_sync.unwrap_or(SHORT_SYNC);
        let average = Duration::from_nanos(self.sync_ns.load(Ordering::Relaxed));
        if average < limit { average } else { Duration::ZERO }
    }

    /// Begins the sync that answers wait for. If syncs are short, the calling thread makes it: waking the syncing
    /// thread, and being woken by it, would take as long. True: the disk has all records that were asked for, so
    /// answers may leave now.
    pub(in crate::daemon) fn begin_sync(&self) -> bool {
        if self.is_durable(self.last_asked()) {
            return true;
        }
        let is_synced = !self.short_sync().is_zero() && self.sync().is_ok();
        // The syncing thread also makes checkpoints, and reports a failure of the log.
        if !is_synced || self.is_checkpoint_due() {
            self.wake();
        }
        is_synced
    }

    fn wake(&self) {
        *self.work.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.work.1.notify_one();
    }

    /// Writes all records to the file.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_to(&mut written)
    }

    fn write_to(&self, written: &mut Written) -> io::Result<()> {
        // A record after one that was written in part would be lost at the restart.
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let mut buffer = std::mem::take(&mut written.spare);
        let last = {
            let mut tail = self.lock_tail();
            std::mem::swap(&mut tail.buffer, &mut buffer);
            tail.next - 1
        };
        let done = if buffer.is_empty() { Ok(()) } else { written.segment.append(&buffer) };
        buffer.clear();
        written.spare = buffer;
        if let Err(error) = done {
            return Err(self.fail("write", &error));
        }
        self.last_written.store(last, Ordering::Release);
        Ok(())
    }

    /// Writes and syncs all records.
    pub(in crate::daemon) fn sync(&self) -> io::Result<()> {
        let (last, handle) = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            self.write_to(&mut written)?;
            (self.last_written.load(Ordering::Acquire), Arc::clone(&written.handle))
        };
        self.sync_file(&handle, last)
    }

    /// Syncs the file of the last segment, which has the records up to `last`. The kernel reports a failed write to one
    /// sync only, so syncs exclude each other, and none begins after one has failed.
    fn sync_file(&self, file: &File, last: u64) -> io::Result<()> {
        let _excluded = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if last > self.last_durable.load(Ordering::Acquire) {
            let begun = Instant::now();
            file.sync_data().map_err(|error| self.fail("sync", &error))?;
            self.last_durable.fetch_max(last, Ordering::AcqRel);
            self.count_sync(begun.elapsed());
        }
        Ok(())
    }

    fn count_sync(&self, duration: Duration) {
        let (before, last) = (self.sync_ns.load(Ordering::Relaxed), duration.as_nanos() as u64);
        self.sync_ns.store((before * 7 + last.max(1)).div_ceil(8), Ordering::Relaxed);
    }

    /// Records that this boot of the machine uses the log, with its level. Until then a restart finds the earlier boot
    /// and level, and draws the same conclusions from them.
    pub(in crate::daemon) fn begin_boot(&self) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.segment.begin_boot(self.settings.level).map_err(|error| self.fail("write", &error))
    }

    /// After a failed write or sync, the contents of the file are unknown: the memory node ends.
    pub(super) fn fail(&self, operation: &str, error: &io::Error) -> io::Error {
        let path = files::segment_path(&self.path, 0);
        let why = format!("cannot {operation} the log {}: {error}", path.with_extension("*").display());
        let _ = self.failed.set(why.clone());
        io::Error::other(why)
    }

    /// The reason why the log has failed.
    pub(in crate::daemon) fn failure(&self) -> Option<io::Error> {
        self.failed.get().map(|why| io::Error::other(why.clone()))
    }

    /// Syncs and makes checkpoints until [`stop`](Self::stop).
    pub(in crate::daemon) fn run(&self, mapping: &Mapping, memory: &File, observer: LogObserver<'_>) {
        let LogObserver { wake, report } = observer;
        let mut synced = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            self.wait(synced);
            let due = match self.settings.level {
                Durability::Interval(interval) => synced.elapsed() >= interval,
                Durability::Always | Durability::Orderly => true,
            };
            if due {
                synced = Instant::now();
                if let Durability::Interval(_) = self.settings.level {
                    self.begin_next_cut();
                }
                let _ = self.sync();
                wake();
            }
            if self.is_checkpoint_due() {
                self.attempt_checkpoint(mapping, memory, report);
                wake();
            }
            if self.failed.get().is_some() {
                wake();
                return;
            }
        }
    }

    fn wait(&self, synced: Instant) {
        let limit = match self.settings.level {
            Durability::Interval(interval) => interval.saturating_sub(synced.elapsed()).min(PAUSE_MAX),
            Durability::Always | Durability::Orderly => PAUSE_MAX,
        };
        let (is_wanted, wanted) = &self.work;
        let mut guard = is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if !*guard && !self.stopping.load(Ordering::Acquire) {
            guard = wanted.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0;
        }
        *guard = false;
    }

    fn is_checkpoint_due(&self) -> bool {
        if self.cuts.is_in(CutPhase::Lost) {
            return false;
        }
        if let Durability::Interval(interval) = self.settings.level
            && self.cuts.postpones_checkpoints(interval)
        {
            return false;
        }
        if self.postponed().as_ref().is_some_and(|postponed| Instant::now() < postponed.until) {
            return false;
        }
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = written.before + written.segment.bytes;
        let least = self.settings.tuning.checkpoint_bytes_least.unwrap_or(CHECKPOINT_BYTES_LEAST);
        bytes > self.checkpoint_bytes.load(Ordering::Relaxed).max(least)
    }

    fn postponed(&self) -> MutexGuard<'_, Option<PostponedCheckpoint>> {
        self.postponed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checkpoints that could not be written.
    pub(in crate::daemon) fn checkpoint_failures(&self) -> u64 {
        self.checkpoint_failures.load(Ordering::Relaxed)
    }

    /// Makes a checkpoint. If it cannot be written, the log grows until a later attempt succeeds.
    fn attempt_checkpoint(&self, mapping: &Mapping, memory: &File, report: &dyn Fn(NodeEvent)) {
        let begun = Instant::now();
        let path = self.path.clone();
        match self.checkpoint(mapping, memory) {
            Ok(()) => {
                if self.postponed().take().is_some() {
                    report(NodeEvent::CheckpointWritten { path });
                }
            }
            // The caller sees the failure of the log.
            Err(CheckpointFault::Log(_)) => {}
            Err(CheckpointFault::Copy(error)) => {
                self.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
                let least = self.settings.tuning.attempt_pause.unwrap_or(ATTEMPT_PAUSE_LEAST);
                let until = Instant::now() + least.max(ATTEMPT_PAUSE_ATTEMPTS * begun.elapsed());
                let why = error.to_string();
                let before = self.postponed().replace(PostponedCheckpoint { until, why: why.clone() });
                // Each reason is reported once.
                if before.is_none_or(|before| before.why != why) {
                    report(NodeEvent::CheckpointFailed { path, why });
                }
            }
        }
    }

    /// Copies the memory into a new checkpoint, and removes the segments that no return needs.
    pub(in crate::daemon) fn checkpoint(
        &self,
        mapping: &Mapping,
        memory: &File,
    ) -> Result<(), CheckpointFault> {
        let _excluded = self.exclude_checkpoints();
        self.copy_memory(mapping, memory, None)
    }

    /// As [`checkpoint`](Self::checkpoint). The caller excludes other checkpoints. `earlier`: the treatment of the one
    /// before; `None`: it stays if the memory node takes part in cuts.
    pub(super) fn copy_memory(
        &self,
        mapping: &Mapping,
        memory: &File,
        earlier: Option<EarlierCheckpoint>,
    ) -> Result<(), CheckpointFault> {
        // About as many bytes as the last time; a copy that grows beyond the free space ends by itself.
        let resident = memory.metadata().map_err(CheckpointFault::Copy)?.blocks() * BLOCK_BYTES;
        let bytes = resident.min(self.checkpoint_bytes.load(Ordering::Relaxed));
        checkpoint::check_space(&self.path, bytes).map_err(CheckpointFault::Copy)?;
        // The rotation syncs what has arrived since, while no verb executes.
        self.sync().map_err(CheckpointFault::Log)?;
        let first = self.rotate()?;
        let written = self.write_checkpoint(first, mapping, memory, earlier).inspect_err(|_| {
            // The attempt may have replaced the checkpoint before the last one.
            self.cuts.replace_before(recovery::before(&self.path).ok().flatten());
        });
        let (bytes, base, earlier) = written?;
        // Which of two checkpoints a failure of the machine leaves is known only if this succeeds.
        files::sync_folder(&self.path)
            .map_err(|error| CheckpointFault::Log(self.fail("sync the folder of", &error)))?;
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).before = 0;
        let needed = self.cuts.replace_base(base, earlier);
        // A segment that stays is ignored by a restart, and removed by the next checkpoint.
        let segments = files::segments(&self.path).unwrap_or_default();
        for segment in segments.into_iter().filter(|&segment| segment < needed.first) {
            let _ = std::fs::remove_file(files::segment_path(&self.path, segment));
        }
        Ok(())
    }

    fn write_checkpoint(
        &self,
        first: u64,
        mapping: &Mapping,
        memory: &File,
        earlier: Option<EarlierCheckpoint>,
    ) -> Result<(u64, BaseCheckpoint, EarlierCheckpoint), CheckpointFault> {
        let begin = || checkpoint::CheckpointDraft::begin(&self.path, mapping.bytes(), [self.salt, first]);
        let mut draft = begin().map_err(CheckpointFault::Copy)?;
        draft.copy(mapping, memory).map_err(CheckpointFault::Copy)?;
        // The copy may have changes that are not durable yet.
        let (last, cut) = {
            let tail = self.lock_tail();
            (tail.next - 1, self.cuts.number())
        };
        if !self.settings.has(LogMutant::CheckpointEarly) {
            self.sync().map_err(CheckpointFault::Log)?;
        }
        // The memory node may take part in cuts since the copy began. If it does not now, it had begun no cut above.
        let has_cuts = !self.cuts.is_in(CutPhase::Off);
        let chosen = if has_cuts { EarlierCheckpoint::Keep } else { EarlierCheckpoint::Remove };
        let earlier = earlier.unwrap_or(chosen);
        let bytes = draft.complete([last, cut], earlier).map_err(CheckpointFault::Copy)?;
        Ok((bytes, BaseCheckpoint { first, cut }, earlier))
    }

    /// Begins a new segment; returns the number of its first record.
    fn rotate(&self) -> Result<u64, CheckpointFault> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tail = self.lock_tail();
        let first = tail.next;
        let failed = |operation, error: io::Error| CheckpointFault::Log(self.fail(operation, &error));
        written.segment.append(&tail.buffer).map_err(|error| failed("write", error))?;
        tail.buffer.clear();
        self.sync_file(&written.handle, first - 1).map_err(CheckpointFault::Log)?;
        self.last_written.store(first - 1, Ordering::Release);
        if first > written.segment.head.first {
            let head = files::SegmentHead { first, ..written.segment.head };
            let created = SegmentFile::create(&self.path, head, &self.settings);
            match created.and_then(|segment| segment.handle().map(|handle| (segment, handle))) {
                Ok((segment, handle)) => {
                    // The space of a segment that has ended is not needed.
                    let _ = written.segment.trim();
                    written.before += written.segment.bytes;
                    (written.segment, written.handle) = (segment, Arc::new(handle));
                }
                Err(error) => {
                    // The records that follow are in the segment of before, so a restart must not find this one.
                    let removed = files::remove_segment(&self.path, first);
                    removed.map_err(|error| failed("remove a segment of", error))?;
                    return Err(CheckpointFault::Copy(error));
                }
            }
        }
        Ok(first)
    }

    /// Ends the syncing thread.
    pub(in crate::daemon) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes everything durable, after the last change. A checkpoint that cannot be written is reported: the next
    /// start applies the log.
    pub(in crate::daemon) fn close(
        &self,
        mapping: &Mapping,
        memory: &File,
        report: &dyn Fn(NodeEvent),
    ) -> io::Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.sync()?;
        // A return may need the present checkpoints.
        if self.cuts.is_in(CutPhase::Off) {
            self.attempt_checkpoint(mapping, memory, report);
        }
        self.failure().map_or(Ok(()), Err)
    }
}
