//! The restart: the memory of the checkpoint, and the changes of the log since then.

use super::Durability;
use super::appender::Log;
use super::checkpoint::{self, CheckpointDraft, CheckpointHead, EarlierCheckpoint, NoCheckpoint};
use super::cuts::{BaseCheckpoint, Cuts, cut_max};
use super::files::{self, LogLock, SEGMENT_HEAD_BYTES, SegmentFile, SegmentHead};
use super::record::LogRecord;
use super::segment_reader::SegmentReader;
use super::tuning::{LogMutant, LogSettings};
use crate::boot::boot;
use crate::error::FileFault;
use crate::random_number;
use crate::shm::Mapping;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The state of the memory after a restart.
#[derive(Debug)]
pub(in crate::daemon) struct Recovered {
    pub(in crate::daemon) log: Log,
    /// The memory is fresh: there were no files.
    pub(in crate::daemon) is_new: bool,
    /// Whether answered changes may be missing: the machine has failed, and the level at that time permits it.
    pub(in crate::daemon) may_miss: bool,
    /// Whether the machine has failed or was started again since the last record.
    pub(in crate::daemon) has_failed: bool,
    pub(in crate::daemon) report: LogReport,
}

/// The restart of a memory node with a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Whether it has created its files.
    pub is_new: bool,
    /// Records of the log that were applied to the checkpoint.
    pub records: u64,
    /// Bytes of these records.
    pub log_bytes: u64,
    /// The last cut, milliseconds since 1970; 0: it has no cuts.
    pub cut: u64,
    /// Whether answered changes may be missing, because the machine has failed at `interval`. The memory nodes of a
    /// pool then return to a cut.
    pub may_miss: bool,
    /// Whether locks may be missing, because the machine has failed at `always`. All locks are free then, and clients
    /// that were attached before have to open the pool again.
    pub may_miss_locks: bool,
    /// The time for reading the checkpoint and applying the log.
    pub duration: Duration,
}

/// Restores the memory of the files at `path` into fresh memory, and opens the log.
///
/// # Errors
/// The files are in use, damaged, of another size or kind, or the system fails.
pub(in crate::daemon) fn open(
    path: &Path,
    settings: impl Into<LogSettings>,
    mapping: &Mapping,
    memory: &File,
) -> Result<Recovered, FileFault> {
    let (settings, begun) = (settings.into(), Instant::now());
    let Some(lock) = files::lock(path).map_err(FileFault::System)? else { return Err(FileFault::InUse) };
    let segments = files::segments(path).map_err(FileFault::System)?;
    if !path.exists() {
        // The first start may have been interrupted between its segment and its checkpoint.
        if !segments.is_empty() && !is_unused(path, &segments).map_err(FileFault::System)? {
            let why = "the checkpoint is missing, and there are segments of its log beside it: they belong together, \
                       so put it back; to start with fresh memory, move them away";
            return Err(FileFault::Damaged(why.to_owned()));
        }
        let log = begin(path, settings, mapping, memory, lock).map_err(FileFault::System)?;
        let report = LogReport { is_new: true, ..LogReport::default() };
        return Ok(Recovered { log, is_new: true, may_miss: false, has_failed: false, report });
    }
    let head = checkpoint::load(path, mapping).map_err(refused)?;
    let replayed = replay(path, &segments, &head, (mapping, settings), ReplayEnd::Log)?;
    // They become those of this start when the consequences of a failure are on the disk (`Log::begin_boot`).
    let (boot_before, is_always) = (replayed.boot, replayed.is_always);
    let segment = head_of(replayed.next, head.salt, settings.level);
    let segment = SegmentHead { boot: boot_before, is_always, ..segment };
    let segment = SegmentFile::create(path, segment, &settings).map_err(FileFault::System)?;
    let last = BaseCheckpoint { first: head.first, cut: head.cut };
    let cuts = Cuts::new(replayed.cut, last, before(path).map_err(FileFault::System)?);
    let log = Log::new(settings, path.to_owned(), (segment, replayed.bytes), (head.bytes, cuts), lock);
    let has_failed = replayed.boot != boot() || boot() == 0;
    let may_miss = !replayed.is_always && has_failed;
    let report = LogReport {
        is_new: false,
        records: replayed.next - head.first,
        log_bytes: replayed.bytes,
        cut: replayed.cut,
        may_miss,
        may_miss_locks: false,
        duration: begun.elapsed(),
    };
    Ok(Recovered { log: log.map_err(FileFault::System)?, is_new: false, may_miss, has_failed, report })
}

fn head_of(first: u64, salt: u64, level: Durability) -> SegmentHead {
    SegmentHead { first, salt, boot: boot(), is_always: level == Durability::Always }
}

/// Whether the segments are one without records.
fn is_unused(path: &Path, segments: &[u64]) -> io::Result<bool> {
    let &[only] = segments else { return Ok(false) };
    let mut segment = SegmentReader::open(path, only)?;
    let salt = SegmentHead::decode(segment.fill(SEGMENT_HEAD_BYTES)?).map_or(0, |head| head.salt);
    Ok(segment.last_durable(salt)?.is_none())
}

/// Creates the files of fresh memory.
fn begin(
    path: &Path,
    settings: LogSettings,
    mapping: &Mapping,
    memory: &File,
    lock: LogLock,
) -> io::Result<Log> {
    let salt = random_number();
    let segment = SegmentFile::create(path, head_of(1, salt, settings.level), &settings)?;
    let write = || -> io::Result<u64> {
        let mut draft = CheckpointDraft::begin(path, mapping.bytes(), [salt, 1])?;
        draft.copy(mapping, memory)?;
        let bytes = draft.complete([0, 0], EarlierCheckpoint::Remove)?;
        files::sync_folder(path)?;
        Ok(bytes)
    };
    let bytes = write().inspect_err(|_| {
        // The next start creates it again.
        let _ = files::remove_segment(path, 1);
    })?;
    let cuts = Cuts::new(0, BaseCheckpoint { first: 1, cut: 0 }, None);
    Log::new(settings, path.to_owned(), (segment, 0), (bytes, cuts), lock)
}

/// The checkpoint before the last one, if it is there.
pub(super) fn before(path: &Path) -> io::Result<Option<BaseCheckpoint>> {
    match checkpoint::span_of(&files::before_path(path)) {
        Ok((first, cut)) => Ok(Some(BaseCheckpoint { first, cut })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn refused(error: NoCheckpoint) -> FileFault {
    match error {
        NoCheckpoint::Io(error) => FileFault::System(error),
        NoCheckpoint::Damaged(why) => FileFault::Damaged(why),
        NoCheckpoint::Unfit(why) => FileFault::Unfit(why),
        NoCheckpoint::Other => FileFault::Unfit(
            "it is no checkpoint of a memory node with a log: it may be the file of one with --durability orderly; \
             give that level, or another file, and move the indexes with `farwood dump`"
                .to_owned(),
        ),
    }
}

/// Where a replay ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayEnd {
    /// At the end of the log.
    Log,
    /// Before this cut, or before the next one that the log has.
    Cut(u64),
}

/// The end of a replay.
pub(super) struct Replayed {
    /// The number of the next record.
    next: u64,
    /// Bytes of the applied segments.
    bytes: u64,
    /// The boot of the machine that wrote the last segment, and whether its level was `always`.
    boot: u64,
    is_always: bool,
    /// The last cut.
    cut: u64,
}

/// Applies the records of the segments from the one of the checkpoint on.
pub(super) fn replay(
    path: &Path,
    segments: &[u64],
    head: &CheckpointHead,
    (mapping, settings): (&Mapping, LogSettings),
    end: ReplayEnd,
) -> Result<Replayed, FileFault> {
    // A checkpoint takes its name after its segment exists.
    if !segments.contains(&head.first) {
        let missing = files::segment_path(path, head.first);
        return Err(FileFault::Damaged(format!(
            "the segment {} of its log is missing: they belong together, so put it back",
            missing.display()
        )));
    }
    let replayed = Replayed { next: head.first, bytes: 0, boot: 0, is_always: false, cut: head.cut };
    let mut replay = Replay { path, salt: head.salt, settings, mapping, end, durable: head.last, replayed };
    for (at, &first) in segments.iter().enumerate().filter(|(_, first)| **first >= head.first) {
        let place = if at + 1 == segments.len() { SegmentPlace::Last } else { SegmentPlace::Inner };
        match replay.apply_segment(first, place)? {
            SegmentEnd::Records => {}
            SegmentEnd::Unwritten => break,
            SegmentEnd::Cut => return Ok(replay.replayed),
        }
    }
    let (next, durable) = (replay.replayed.next, replay.durable);
    if durable >= next {
        let why = format!("its log ends with record {}, and {durable} records were durable", next - 1);
        return Err(FileFault::Damaged(why));
    }
    match end {
        ReplayEnd::Log => Ok(replay.replayed),
        ReplayEnd::Cut(cut) => Err(FileFault::Damaged(format!("its log ends before the cut {cut}"))),
    }
}

/// The position of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentPlace {
    Inner,
    Last,
}

/// The reason why a segment has no more records to apply.
enum SegmentEnd {
    /// They are applied.
    Records,
    /// The machine failed before the segment was durable.
    Unwritten,
    /// The cut begins.
    Cut,
}

/// A replay in progress.
struct Replay<'a> {
    path: &'a Path,
    salt: u64,
    settings: LogSettings,
    mapping: &'a Mapping,
    end: ReplayEnd,
    /// The last record that some intact record, or the checkpoint, calls durable.
    durable: u64,
    replayed: Replayed,
}

impl Replay<'_> {
    /// The record at the start of `bytes`, if there is an intact one.
    fn record<'b>(&self, bytes: &'b [u8]) -> Option<LogRecord<'b>> {
        if self.settings.has(LogMutant::ChecksumIgnored) {
            return LogRecord::unchecked(bytes);
        }
        LogRecord::first(bytes, self.salt)
    }

    /// Refuses an intact record that no memory node of this version writes.
    fn check_record(&self, record: &LogRecord<'_>) -> Result<(), String> {
        if self.settings.has(LogMutant::ChecksumIgnored) {
            return Ok(());
        }
        if let Some(why) = record.contradiction() {
            return Err(why);
        }
        match record.cut() {
            Some(cut) if cut > cut_max() => Err(format!("begins the cut {cut}, which is not a time")),
            _ => Ok(()),
        }
    }

    fn apply_segment(&mut self, first: u64, place: SegmentPlace) -> Result<SegmentEnd, FileFault> {
        let file = files::segment_path(self.path, first);
        let damaged = |why: &str| FileFault::Damaged(format!("{}: {why}", file.display()));
        if first != self.replayed.next {
            let why = format!("the records {} to {} before it are missing", self.replayed.next, first - 1);
            return Err(damaged(&why));
        }
        let mut input = SegmentReader::open(self.path, first).map_err(FileFault::System)?;
        let head = SegmentHead::decode(input.fill(SEGMENT_HEAD_BYTES).map_err(FileFault::System)?);
        let segment = match head {
            Ok(segment) if (segment.first, segment.salt) == (first, self.salt) => segment,
            // The machine failed before the head of the last segment was durable. Records follow a durable head only,
            // and the restart creates the segment again.
            Err(why) => {
                let durable = input.last_durable(self.salt).map_err(FileFault::System)?;
                if place == SegmentPlace::Last && self.durable < first && durable.is_none() {
                    return Ok(SegmentEnd::Unwritten);
                }
                return Err(damaged(&why));
            }
            Ok(_) => return Err(damaged("it belongs to another log")),
        };
        input.skip(SEGMENT_HEAD_BYTES);
        while let Some(record) = self.record(input.fill_record().map_err(FileFault::System)?) {
            if record.number != self.replayed.next {
                break;
            }
            if let Err(why) = self.check_record(&record) {
                return Err(damaged(&format!("the record {} {why}", record.number)));
            }
            if let Some(cut) = record.cut() {
                if matches!(self.end, ReplayEnd::Cut(end) if cut >= end) {
                    return Ok(SegmentEnd::Cut);
                }
                self.replayed.cut = self.replayed.cut.max(cut);
            }
            for (offset, data) in record.effects() {
                let written = self.mapping.write_up(offset, data);
                written.map_err(|_| damaged("a record changes bytes outside of the memory"))?;
            }
            self.durable = self.durable.max(record.durable);
            self.replayed.next += 1;
            let bytes = record.bytes;
            input.skip(bytes);
        }
        let offset = input.offset();
        let durable = input.last_durable(self.salt).map_err(FileFault::System)?;
        self.durable = self.durable.max(durable.unwrap_or(0));
        if self.durable >= self.replayed.next {
            let why = format!(
                "the record {} at offset {offset} is damaged, and was durable: {} records were",
                self.replayed.next, self.durable
            );
            return Err(damaged(&why));
        }
        self.replayed.bytes += offset;
        (self.replayed.boot, self.replayed.is_always) = (segment.boot, segment.is_always);
        Ok(SegmentEnd::Records)
    }
}
