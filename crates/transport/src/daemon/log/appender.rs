//! Appending records: executed changes, in their order.

use super::checkpoint::EarlierCheckpoint;
use super::cuts::{BaseCheckpoint, CutPhase, Cuts};
use super::files::SegmentFile;
use super::granules::Granules;
use super::record::{Origin, RecordBuilder, RecordKind};
use super::tuning::{LogMutant, LogSettings};
use super::{Durability, checkpoint, files};
use crate::shm::Mapping;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Fewest bytes of a log before a checkpoint.
const CHECKPOINT_BYTES_LEAST: u64 = 64 << 20;

/// The longest time between two checks whether a checkpoint is due.
const PAUSE_MAX: Duration = Duration::from_secs(1);

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
    granules: Option<Granules>,
    pub(super) cuts: Cuts,
    /// Excludes checkpoints and returns from each other.
    maintenance: Mutex<()>,
    /// Bytes of the last checkpoint.
    checkpoint_bytes: AtomicU64,
    /// Whether the syncing thread has work.
    work: (Mutex<bool>, Condvar),
    stopping: AtomicBool,
    failed: OnceLock<String>,
    _lock: File,
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
    /// Announces a change, which the caller makes afterwards.
    #[inline]
    pub(in crate::daemon) fn announce(&mut self, offset: u64, bytes: u64) {
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

    /// Completes the record; returns its number, or 0 if it has no effects and no READ can wait for it.
    pub(in crate::daemon) fn end(mut self, origin: Origin) -> u64 {
        self.end_as(RecordKind::Frame, origin)
    }

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
        lock: File,
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
            granules: (settings.level == Durability::Always).then(Granules::new),
            cuts,
            maintenance: Mutex::new(()),
            checkpoint_bytes: AtomicU64::new(checkpoint_bytes),
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
        Recorder { log: self, tail, builder: Some(builder), is_announced: false }
    }

    /// Begins the cut of a request, before the request is executed.
    #[inline]
    pub(in crate::daemon) fn begin_cut(&self, cut: u64) {
        if cut > self.cuts.number() && !self.settings.has(LogMutant::CutForgotten) {
            self.append_cut(cut);
        }
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

    /// The record that an answer waits for, because it contains bytes that were read here.
    #[inline]
    pub(in crate::daemon) fn seen(&self, offset: u64, bytes: u64) -> u64 {
        self.granules.as_ref().map_or(0, |granules| granules.last(offset, bytes))
    }

    /// The last record.
    pub(in crate::daemon) fn last(&self) -> u64 {
        self.last_appended.load(Ordering::Acquire)
    }

    /// Whether an answer may leave that waits for `record`.
    #[inline]
    pub(in crate::daemon) fn is_safe(&self, record: u64) -> bool {
        let waits_for_disk = !self.settings.has(LogMutant::AnswersEarly);
        let level = match &self.granules {
            Some(_) if waits_for_disk => &self.last_durable,
            Some(_) => &self.last_appended,
            None => &self.last_written,
        };
        record <= level.load(Ordering::Acquire)
    }

    /// Prepares that answers leave: at `interval`, all changes that they can have seen are in the file then; at
    /// `always`, the syncing thread begins.
    #[inline]
    pub(in crate::daemon) fn before_answers(&self) -> io::Result<()> {
        if self.last_appended.load(Ordering::Acquire) == self.last_written.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.granules.is_some() {
            self.wake();
            return Ok(());
        }
        self.write()
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
        if last > self.last_durable.load(Ordering::Acquire) {
            handle.sync_data().map_err(|error| self.fail("sync", &error))?;
            self.last_durable.fetch_max(last, Ordering::AcqRel);
        }
        Ok(())
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

    /// Syncs and makes checkpoints until [`stop`](Self::stop). `wake` is called when answers may leave.
    pub(in crate::daemon) fn run(&self, mapping: &Mapping, memory: &File, wake: &dyn Fn()) {
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
                let _ = self.checkpoint(mapping, memory);
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
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = written.before + written.segment.bytes;
        let least = self.settings.tuning.checkpoint_bytes_least.unwrap_or(CHECKPOINT_BYTES_LEAST);
        bytes > self.checkpoint_bytes.load(Ordering::Relaxed).max(least)
    }

    /// Copies the memory into a new checkpoint, and removes the segments that no return needs.
    pub(in crate::daemon) fn checkpoint(&self, mapping: &Mapping, memory: &File) -> io::Result<()> {
        let _excluded = self.exclude_checkpoints();
        let earlier =
            if self.cuts.is_in(CutPhase::Off) { EarlierCheckpoint::Remove } else { EarlierCheckpoint::Keep };
        self.copy_memory(mapping, memory, earlier)
    }

    /// As [`checkpoint`](Self::checkpoint). The caller excludes other checkpoints.
    pub(super) fn copy_memory(
        &self,
        mapping: &Mapping,
        memory: &File,
        earlier: EarlierCheckpoint,
    ) -> io::Result<()> {
        // The rotation syncs what has arrived since, while no verb executes.
        self.sync()?;
        let first = self.rotate()?;
        let failed = |error: io::Error| self.fail("make a checkpoint of", &error);
        let copied = || {
            let mut draft =
                checkpoint::CheckpointDraft::begin(&self.path, mapping.bytes(), [self.salt, first])?;
            draft.copy(mapping, memory)?;
            // The copy may have changes that are not durable yet.
            let (last, cut) = {
                let tail = self.lock_tail();
                (tail.next - 1, self.cuts.number())
            };
            if !self.settings.has(LogMutant::CheckpointEarly) {
                self.sync()?;
            }
            draft.complete([last, cut], earlier).map(|bytes| (bytes, BaseCheckpoint { first, cut }))
        };
        let (bytes, base) = copied().map_err(failed)?;
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).before = 0;
        let needed = self.cuts.replace_base(base, earlier);
        for segment in files::segments(&self.path)?.into_iter().filter(|&segment| segment < needed.first) {
            // A segment that stays is ignored by a restart, and removed by the next checkpoint.
            let _ = std::fs::remove_file(files::segment_path(&self.path, segment));
        }
        Ok(())
    }

    /// Begins a new segment; returns the number of its first record.
    fn rotate(&self) -> io::Result<u64> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tail = self.lock_tail();
        let first = tail.next;
        let failed = |error: io::Error| self.fail("write", &error);
        written.segment.append(&tail.buffer).map_err(failed)?;
        tail.buffer.clear();
        written.handle.sync_data().map_err(|error| self.fail("sync", &error))?;
        self.last_written.store(first - 1, Ordering::Release);
        self.last_durable.fetch_max(first - 1, Ordering::AcqRel);
        if first > written.segment.head.first {
            let head = files::SegmentHead { first, ..written.segment.head };
            let bytes = written.segment.bytes;
            written.segment = SegmentFile::create(&self.path, head).map_err(failed)?;
            written.handle = Arc::new(written.segment.handle().map_err(failed)?);
            written.before += bytes;
        }
        Ok(first)
    }

    /// Ends the syncing thread.
    pub(in crate::daemon) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes everything durable, after the last change.
    pub(in crate::daemon) fn close(&self, mapping: &Mapping, memory: &File) -> io::Result<()> {
        match self.failure() {
            Some(error) => Err(error),
            // A return may need the present checkpoints.
            None if !self.cuts.is_in(CutPhase::Off) => self.sync(),
            None => self.checkpoint(mapping, memory),
        }
    }
}
