//! Restarts after simulated failures: the log is cut at every byte, bits are flipped, pages are lost.

use super::appender::{Log, LogObserver};
use super::checkpoint::CheckpointFault;
use super::record::Origin;
use super::{CutPhase, CutSpan, Durability, LogMutant, LogSettings, LogTuning, checkpoint, files, open};
use crate::daemon::event::NodeEvent;
use crate::daemon::sync_timing::SyncTiming;
use crate::error::FileFault;
use crate::shm::Mapping;
use rustix::fs::MemfdFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod hostile;

const BYTES: u64 = 64 << 10;
const ORIGIN: Origin = Origin { client: None, connection: 1, tag: 2 };

struct Fresh {
    mapping: Mapping,
    file: File,
}

impl Fresh {
    fn new() -> Self {
        let file: File = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap().into();
        file.set_len(BYTES).unwrap();
        Self { mapping: Mapping::new(&file, BYTES).unwrap(), file }
    }

    fn open(&self, path: &Path, level: Durability) -> Result<Log, FileFault> {
        for _ in 0..1_000 {
            match open(path, level, &self.mapping, &self.file) {
                // A child that another test has just forked still has the lock.
                Err(FileFault::InUse) => std::thread::sleep(Duration::from_millis(1)),
                opened => return opened.map(|recovered| recovered.log),
            }
        }
        Err(FileFault::InUse)
    }

    fn state(&self) -> Vec<u64> {
        let mut words = vec![0; BYTES as usize / 8];
        self.mapping.read_down(0, &mut words).unwrap();
        words
    }

    /// Changes some bytes, which `random` determines, in one record of one to three effects.
    fn change(&self, log: &Log, random: &mut u64) {
        let mut recorder = log.begin();
        for _ in 0..=next(random) % 3 {
            let bytes = vec![next(random) as u8; 1 + next(random) as usize % 200];
            let offset = next(random) % (BYTES - bytes.len() as u64);
            recorder.announce(offset, bytes.len() as u64);
            self.mapping.write_up(offset, &bytes).unwrap();
            recorder.effect(offset, &bytes);
        }
        recorder.answer(next(random));
        recorder.end(ORIGIN);
    }
}

/// A pseudo-random number.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// The files of a log in another folder, with one of them changed.
fn copy(from: &Path, to: &Path, changed: &Path, contents: &[u8]) -> PathBuf {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(to).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for entry in fs::read_dir(from.parent().unwrap())
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.path().is_file())
    {
        let target = to.join(entry.file_name());
        if entry.path() == changed {
            fs::write(target, contents).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
    to.join(from.file_name().unwrap())
}

/// A folder in memory, if the machine has one: the tests sync thousands of files.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// A log of 40 records, of which the first 25 are durable, and the memory after each.
struct Written {
    folder: tempfile::TempDir,
    path: PathBuf,
    states: Vec<Vec<u64>>,
}

const DURABLE: usize = 25;
const RECORDS: usize = 40;

fn written(seed: u64) -> Written {
    let folder = folder();
    let path = folder.path().join("node");
    let (memory, mut random) = (Fresh::new(), seed);
    let log = memory.open(&path, Durability::Always).unwrap();
    let mut states = vec![memory.state()];
    for record in 1..=RECORDS {
        memory.change(&log, &mut random);
        states.push(memory.state());
        if record == DURABLE {
            log.sync().unwrap();
        }
    }
    log.write().unwrap();
    drop(log);
    Written { folder, path, states }
}

/// The bytes of a segment without the zeros that were allocated in advance.
fn segment_bytes(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| (last + 1).next_multiple_of(8));
    bytes.truncate(end);
    bytes
}

#[test]
fn a_log_that_is_cut_off_at_any_byte_gives_a_state_that_existed() {
    for seed in 1..3 {
        let Written { folder, path, states } = written(seed);
        let segment = files::segment_path(&path, 1);
        let bytes = segment_bytes(&segment);
        let mut seen = vec![false; states.len()];
        for cut in (0..=bytes.len()).rev() {
            let copied = copy(&path, &folder.path().join("cut"), &segment, &bytes[..cut]);
            let memory = Fresh::new();
            let log = memory.open(&copied, Durability::Always).unwrap();
            let records = log.last() as usize;
            assert!(
                memory.state() == states[records],
                "seed {seed}, cut at {cut}: not the state after {records}"
            );
            seen[records] = true;
        }
        assert_eq!(seen, vec![true; states.len()]);
    }
}

#[test]
fn a_changed_bit_gives_a_state_that_existed_or_an_error_that_names_the_file() {
    let Written { folder, path, states } = written(9);
    let segment = files::segment_path(&path, 1);
    let bytes = segment_bytes(&segment);
    let (mut refused, mut shortened) = (0, 0);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let copied = copy(&path, &folder.path().join("flip"), &segment, &damaged);
        let memory = Fresh::new();
        match memory.open(&copied, Durability::Always) {
            Ok(log) => {
                let records = log.last() as usize;
                assert!(memory.state() == states[records], "a change at {at}");
                // A record that was durable is never dropped silently.
                assert!(records >= DURABLE, "a change at {at} has lost record {}", records + 1);
                shortened += 1;
            }
            Err(FileFault::Damaged(why)) => {
                assert!(why.contains("node.log.0000000000000001"), "{why}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0 && shortened > 0, "{refused} refused, {shortened} shortened");
}

/// After a power failure, any of the pages that were not synced may be missing.
#[test]
fn unsynced_pages_may_be_lost_in_any_combination() {
    let Written { folder, path, states } = written(5);
    let segment = files::segment_path(&path, 1);
    let bytes = segment_bytes(&segment);
    // The bytes of the durable records.
    let synced = {
        let mut at = files::SEGMENT_HEAD_BYTES;
        for _ in 0..DURABLE {
            at += u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        }
        at
    };
    let mut random = 77;
    for _ in 0..300 {
        let mut left = bytes.clone();
        // Small pages, so that the loss is within records.
        for page in (0..left.len()).step_by(64) {
            if page >= synced && next(&mut random).is_multiple_of(3) {
                let end = (page + 64).min(left.len());
                left[page..end].fill(0);
            }
        }
        let copied = copy(&path, &folder.path().join("lost"), &segment, &left);
        let memory = Fresh::new();
        let log = memory.open(&copied, Durability::Always).unwrap();
        let records = log.last() as usize;
        assert!(records >= DURABLE && memory.state() == states[records]);
    }
}

#[test]
fn restarts_continue_the_log() {
    let folder = folder();
    let path = folder.path().join("node");
    let mut random = 3;
    let mut expected = vec![0; BYTES as usize / 8];
    for restart in 0..20 {
        let memory = Fresh::new();
        let log = memory.open(&path, Durability::Always).unwrap();
        assert!(memory.state() == expected, "restart {restart}");
        for _ in 0..restart {
            memory.change(&log, &mut random);
        }
        log.sync().unwrap();
        if restart % 5 == 3 {
            log.checkpoint(&memory.mapping, &memory.file).unwrap();
            assert_eq!(files::segments(&path).unwrap().len(), 1);
        }
        expected = memory.state();
    }
    // A torn record at the end of a segment stays there, and the next segment continues.
    let last = *files::segments(&path).unwrap().last().unwrap();
    let segment = files::segment_path(&path, last);
    let mut bytes = segment_bytes(&segment);
    bytes.extend([200, 0, 0, 0, 1, 0, 0, 0, 9]);
    fs::write(&segment, bytes).unwrap();
    for _ in 0..2 {
        let memory = Fresh::new();
        let log = memory.open(&path, Durability::Always).unwrap();
        assert!(memory.state() == expected);
        memory.change(&log, &mut random);
        log.sync().unwrap();
        expected = memory.state();
    }
}

/// Checkpoints while other threads change the memory: what a copy of the files restores is the state at the end.
#[test]
fn a_checkpoint_beside_changes_converges() {
    let folder = folder();
    let path = folder.path().join("node");
    let memory = Fresh::new();
    let log = memory.open(&path, Durability::Always).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for seed in 1..3 {
            let (memory, log, ended) = (&memory, &log, &ended);
            threads.spawn(move || {
                let mut random = seed;
                while !ended.load(Ordering::Relaxed) {
                    memory.change(log, &mut random);
                }
            });
        }
        for _ in 0..30 {
            let before = log.last();
            while log.last() < before + 5 {
                std::thread::yield_now();
            }
            log.checkpoint(&memory.mapping, &memory.file).unwrap();
        }
        ended.store(true, Ordering::Relaxed);
    });
    log.sync().unwrap();
    let expected = memory.state();
    drop(log);
    let again = Fresh::new();
    let log = again.open(&path, Durability::Always).unwrap();
    assert!(again.state() == expected);
    assert!(log.last() > 30);
}

#[test]
fn damaged_checkpoints_and_missing_segments_are_refused() {
    let Written { folder, path, .. } = written(2);
    let checkpoint = fs::read(&path).unwrap();
    let open = |contents: &[u8]| {
        let copied = copy(&path, &folder.path().join("other"), &path, contents);
        Fresh::new().open(&copied, Durability::Always).map(drop)
    };
    assert!(open(&checkpoint).is_ok());
    for at in 0..checkpoint.len() {
        let mut damaged = checkpoint.clone();
        damaged[at] ^= 1;
        assert!(open(&damaged).is_err(), "a change at {at}");
        assert!(open(&checkpoint[..at]).is_err(), "a cut at {at}");
    }
    // The checkpoint is missing.
    let other = copy(&path, &folder.path().join("other"), Path::new(""), &[]);
    fs::remove_file(&other).unwrap();
    let error = Fresh::new().open(&other, Durability::Always).unwrap_err();
    assert!(error.to_string().contains("the checkpoint is missing"), "{error}");
    // The segment is missing.
    let other = copy(&path, &folder.path().join("other"), Path::new(""), &[]);
    fs::remove_file(files::segment_path(&other, 1)).unwrap();
    let error = Fresh::new().open(&other, Durability::Always).unwrap_err();
    assert!(error.to_string().contains("node.log.0000000000000001 of its log is missing"), "{error}");
    // Two memory nodes.
    let _first = Fresh::new().open(&path, Durability::Always).unwrap();
    assert!(matches!(Fresh::new().open(&path, Durability::Always), Err(FileFault::InUse)));
}

/// The file of the lock is removed with the lock, also after a start that fails.
#[test]
fn no_lock_stays_after_the_end_of_a_memory_node() {
    let Written { folder, path, .. } = written(3);
    let lock = path.with_extension("lock");
    assert!(!lock.exists());
    let first = Fresh::new().open(&path, Durability::Always).unwrap();
    assert!(lock.exists());
    assert!(matches!(Fresh::new().open(&path, Durability::Always), Err(FileFault::InUse)));
    assert!(lock.exists(), "it belongs to the first memory node");
    drop(first);
    assert!(!lock.exists());
    fs::write(&path, "damaged").unwrap();
    assert!(Fresh::new().open(&path, Durability::Always).is_err());
    // A first start without a checkpoint leaves no segment either.
    let other = folder.path().join("other");
    fs::create_dir(files::draft_path(&other)).unwrap();
    assert!(Fresh::new().open(&other, Durability::Always).is_err());
    let left =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["node", "node.log.0000000000000001", "node.log.0000000000000029", "other.new"]);
}

/// A first start that was interrupted before its checkpoint had its name does not block the next one.
#[test]
fn an_interrupted_first_start_is_repeated() {
    let folder = folder();
    let path = folder.path().join("node");
    drop(Fresh::new().open(&path, Durability::Always).unwrap());
    let segment = files::segment_path(&path, 1);
    for bytes in [0, 20, files::SEGMENT_HEAD_BYTES as u64] {
        fs::remove_file(&path).unwrap();
        File::options().write(true).open(&segment).unwrap().set_len(bytes).unwrap();
        drop(Fresh::new().open(&path, Durability::Always).unwrap());
    }
}

/// Nothing is written after a write that failed: its records would be lost at the restart.
#[test]
fn a_log_that_has_failed_writes_nothing_more() {
    let folder = folder();
    let (memory, mut random) = (Fresh::new(), 4);
    let log = memory.open(&folder.path().join("node"), Durability::Interval(Duration::from_secs(9))).unwrap();
    memory.change(&log, &mut random);
    log.fail("write", &std::io::Error::other("a test"));
    assert!(log.before_answers(log.all()).is_err() && log.sync().is_err());
    assert!(!log.is_durable(log.last()), "no answer leaves");
}

#[test]
fn the_thread_that_asks_makes_short_syncs_and_leaves_long_ones_to_the_syncing_thread() {
    for (short_sync, is_made) in [(Duration::from_secs(9), true), (Duration::ZERO, false)] {
        let (folder, memory, mut random) = (folder(), Fresh::new(), 4);
        let tuning = LogTuning { short_sync: Some(short_sync), ..LogTuning::default() };
        let settings = LogSettings { level: Durability::Always, tuning };
        let log = open(&folder.path().join("node"), settings, &memory.mapping, &memory.file).unwrap().log;
        assert!(log.begin_sync(), "no answer waits");
        memory.change(&log, &mut random);
        log.before_answers(log.all()).unwrap();
        assert_eq!((log.begin_sync(), log.is_durable(log.last())), (is_made, is_made));
        if !is_made {
            let observer = LogObserver { wake: &|| log.stop(), report: &|_| () };
            log.run(&memory.mapping, &memory.file, observer);
            assert!(log.is_durable(log.last()));
        }
    }
}

#[test]
fn a_sync_waits_for_more_requests_if_many_shared_the_last_one() {
    let (folder, memory, mut random) = (folder(), Fresh::new(), 4);
    let tuning = LogTuning { short_sync: Some(Duration::from_secs(9)), ..LogTuning::default() };
    let settings = LogSettings { level: Durability::Always, tuning };
    let log = open(&folder.path().join("node"), settings, &memory.mapping, &memory.file).unwrap().log;
    let mut timing = SyncTiming::default();
    let mut ask = |timing: &mut SyncTiming| {
        memory.change(&log, &mut random);
        log.before_answers(log.all()).unwrap();
        timing.begin_sync(&log)
    };
    assert!(ask(&mut timing) && ask(&mut timing), "one request at a time does not wait");
    // The thread may be paused for longer than the wait.
    let waits = (0..100).any(|_| {
        timing.count(8);
        assert!(ask(&mut timing) || timing.is_waiting());
        let waits = !ask(&mut timing) && timing.is_waiting();
        std::thread::sleep(log.short_sync());
        assert!(timing.begin_sync(&log) || !timing.is_waiting());
        waits
    });
    assert!(waits);
    assert!(log.is_durable(log.last()));
}

#[test]
fn levels_are_read_and_shown() {
    for level in ["orderly", "interval=1", "interval=0.25", "always"] {
        assert_eq!(level.parse::<Durability>().unwrap().to_string(), level);
    }
    for text in ["", "interval", "interval=", "interval=x", "interval=0", "interval=-1", "sometimes"] {
        assert!(text.parse::<Durability>().is_err(), "{text}");
    }
}

/// A log with cuts, checkpoints beside them, and the memory before each cut.
struct WithCuts {
    memory: Fresh,
    log: Log,
    /// The cuts, and the memory before each.
    states: Vec<(u64, Vec<u64>)>,
}

const CUTS: u64 = 12;

/// Changes the memory between cuts 10, 20, 30 and so on, and makes a checkpoint after those in `checkpoints`.
fn with_cuts(path: &Path, random: &mut u64, checkpoints: &[u64]) -> WithCuts {
    let memory = Fresh::new();
    let log = memory.open(path, Durability::Interval(Duration::from_hours(1))).unwrap();
    log.enter_cut_phase(CutPhase::Active);
    let mut states = Vec::new();
    for number in 1..=CUTS {
        for _ in 0..next(random) % 4 {
            memory.change(&log, random);
        }
        states.push((10 * number, memory.state()));
        log.begin_cut(10 * number).unwrap();
        // A cut that is not newer is none.
        log.begin_cut(10 * number - 5).unwrap();
        memory.change(&log, random);
        if checkpoints.contains(&number) {
            log.checkpoint(&memory.mapping, &memory.file).unwrap();
        }
    }
    WithCuts { memory, log, states }
}

#[test]
fn the_memory_returns_to_each_cut_after_its_last_but_one_checkpoint() {
    let folder = folder();
    for seed in 1..4 {
        for checkpoints in [&[][..], &[3], &[3, 8], &[2, 3, 8]] {
            let path = folder.path().join(format!("{seed}-{checkpoints:?}"));
            let kept = checkpoints.len().checked_sub(2).map_or(0, |at| checkpoints[at]);
            for number in kept + 1..=CUTS {
                let mut random = seed;
                let at = path.with_extension(number.to_string());
                let WithCuts { memory, log, states } = with_cuts(&at, &mut random, checkpoints);
                let CutSpan { oldest, newest } = log.cut_span().unwrap();
                assert_eq!(oldest, 10 * kept + 1);
                let (cut, state) = &states[number as usize - 1];
                log.return_to([*cut, newest], &memory.mapping, &memory.file, |_| ()).unwrap();
                assert!(memory.state() == *state, "seed {seed}, {checkpoints:?}, cut {cut}");
                // The log goes on from there.
                memory.change(&log, &mut random);
                let after = memory.state();
                log.sync().unwrap();
                let span = log.cut_span().unwrap();
                assert!(span.oldest == newest + 1 && span.newest > newest);
                drop(log);
                let restarted = Fresh::new();
                let log = restarted.open(&at, Durability::Interval(Duration::from_secs(1))).unwrap();
                assert!(restarted.state() == after, "seed {seed}, {checkpoints:?}, cut {cut}, restarted");
                assert!(log.cut_span().unwrap().newest >= span.newest);
            }
        }
    }
}

/// Whether a restart refuses the files that a failure leaves just after a checkpoint, of a memory that changed during
/// the copy. Records that were appended since then are lost.
fn is_refused_after_a_checkpoint(path: &Path, mutant: Option<LogMutant>) -> bool {
    let memory = Fresh::new();
    let tuning = LogTuning { mutant, ..LogTuning::default() };
    let settings = LogSettings { level: Durability::Always, tuning };
    let log = open(path, settings, &memory.mapping, &memory.file).unwrap().log;
    let stopping = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = 3;
            while !stopping.load(Ordering::Relaxed) {
                memory.change(&log, &mut random);
            }
        });
        std::thread::sleep(Duration::from_millis(1));
        let made = log.checkpoint(&memory.mapping, &memory.file);
        stopping.store(true, Ordering::Relaxed);
        made.unwrap();
    });
    drop(log);
    Fresh::new().open(path, Durability::Always).is_err()
}

#[test]
fn a_checkpoint_with_changes_that_the_log_does_not_have_is_noticed() {
    let folder = folder();
    let is_refused = |round: u32, mutant: Option<LogMutant>| {
        let name = format!("{round}-{}", mutant.is_some());
        is_refused_after_a_checkpoint(&folder.path().join(name), mutant)
    };
    assert!(!(0..20).any(|round| is_refused(round, None)));
    assert!((0..200).any(|round| is_refused(round, Some(LogMutant::CheckpointEarly))));
}

/// A failure in the middle of a return leaves the files of before.
#[test]
fn a_return_that_fails_leaves_the_log() {
    let folder = folder();
    let path = folder.path().join("node");
    let mut random = 5;
    let WithCuts { memory, log, states } = with_cuts(&path, &mut random, &[3, 8]);
    let before = memory.state();
    // The name of the new checkpoint is taken.
    let draft = files::draft_path(&path);
    fs::create_dir(&draft).unwrap();
    let fault = log.return_to([60, 5000], &memory.mapping, &memory.file, |_| ()).unwrap_err();
    assert!(matches!(fault, FileFault::System(_)));
    assert!(log.failure().is_some(), "the memory node ends");
    drop(log);
    fs::remove_dir(&draft).unwrap();
    let memory = Fresh::new();
    let log = memory.open(&path, Durability::Interval(Duration::from_secs(1))).unwrap();
    assert!(memory.state() == before);
    log.return_to([60, 5000], &memory.mapping, &memory.file, |_| ()).unwrap();
    assert!(memory.state() == states[5].1);
}

/// Asserts that the files restore the memory.
fn assert_restores(memory: &Fresh, path: &Path, folder: &Path) {
    let copied = copy(path, folder, Path::new(""), &[]);
    let restarted = Fresh::new();
    restarted.open(&copied, Durability::Always).unwrap();
    assert!(restarted.state() == memory.state());
}

/// A checkpoint that cannot be written leaves the files of before, no partial file, and a log that continues.
#[test]
fn a_log_continues_without_a_checkpoint_that_cannot_be_written() {
    let folder = folder();
    let path = folder.path().join("node");
    let (memory, mut random) = (Fresh::new(), 6);
    let log = memory.open(&path, Durability::Always).unwrap();
    // One of the names is a directory, so that the beginning or the end of a checkpoint fails.
    for taken in [files::draft_path(&path), files::before_path(&path)] {
        fs::create_dir(&taken).unwrap();
        for _ in 0..3 {
            memory.change(&log, &mut random);
            let fault = log.checkpoint(&memory.mapping, &memory.file).unwrap_err();
            assert!(matches!(fault, CheckpointFault::Copy(_)), "{fault:?}");
        }
        fs::remove_dir(&taken).unwrap();
        assert!(!files::draft_path(&path).exists());
        memory.change(&log, &mut random);
        log.sync().unwrap();
        assert_restores(&memory, &path, &folder.path().join("copy"));
    }
    log.checkpoint(&memory.mapping, &memory.file).unwrap();
    assert_eq!(files::segments(&path).unwrap().len(), 1);
    assert_restores(&memory, &path, &folder.path().join("copy"));
}

/// A checkpoint begins with a new segment. If that cannot be created, the records stay in the segment of before.
#[test]
fn a_log_continues_without_a_segment_that_cannot_be_created() {
    let folder = folder();
    let path = folder.path().join("node");
    let (memory, mut random) = (Fresh::new(), 8);
    let log = memory.open(&path, Durability::Always).unwrap();
    for _ in 0..3 {
        memory.change(&log, &mut random);
        let segment = files::segment_path(&path, log.last() + 1);
        std::os::unix::fs::symlink(folder.path().join("none/segment"), &segment).unwrap();
        let fault = log.checkpoint(&memory.mapping, &memory.file).unwrap_err();
        assert!(matches!(fault, CheckpointFault::Copy(_)), "{fault:?}");
        memory.change(&log, &mut random);
        log.sync().unwrap();
        assert_restores(&memory, &path, &folder.path().join("copy"));
    }
    // A segment that cannot be removed would follow records that it does not have.
    fs::create_dir(files::segment_path(&path, log.last() + 1)).unwrap();
    let fault = log.checkpoint(&memory.mapping, &memory.file).unwrap_err();
    assert!(matches!(fault, CheckpointFault::Log(_)) && log.failure().is_some(), "{fault:?}");
}

/// The thread of the log reports a checkpoint that cannot be written once, tries again, and reports its success.
#[test]
fn a_checkpoint_that_cannot_be_written_is_reported_and_tried_again() {
    let folder = folder();
    let path = folder.path().join("node");
    let memory = Fresh::new();
    let tuning = LogTuning {
        checkpoint_bytes_least: Some(1 << 10),
        attempt_pause: Some(Duration::from_millis(1)),
        ..LogTuning::default()
    };
    let settings = LogSettings { level: Durability::Always, tuning };
    let log = open(&path, settings, &memory.mapping, &memory.file).unwrap().log;
    fs::create_dir(files::draft_path(&path)).unwrap();
    let (sender, events) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (log, memory) = (&log, &memory);
        scope.spawn(move || {
            let report = |event| sender.send(event).unwrap();
            log.run(&memory.mapping, &memory.file, LogObserver { wake: &|| (), report: &report });
        });
        let mut random = 9;
        while log.checkpoint_failures() < 3 {
            memory.change(log, &mut random);
            log.before_answers(log.all()).unwrap();
            log.begin_sync();
            std::thread::sleep(Duration::from_millis(1));
        }
        fs::remove_dir(files::draft_path(&path)).unwrap();
        let failed = events.recv().unwrap();
        assert!(matches!(failed, NodeEvent::CheckpointFailed { .. }), "{failed}");
        let text = failed.to_string();
        assert!(text.contains(path.to_str().unwrap()) && text.contains("free space"), "{text}");
        let next = events.recv().unwrap();
        assert!(matches!(next, NodeEvent::CheckpointWritten { .. }), "{next}");
        log.stop();
    });
    assert!(log.failure().is_none());
    log.sync().unwrap();
    assert_restores(&memory, &path, &folder.path().join("copy"));
}

#[test]
fn a_checkpoint_that_would_fill_the_file_system_is_not_begun() {
    let folder = folder();
    let path = folder.path().join("node");
    assert!(checkpoint::check_space(&path, 1 << 10).is_ok());
    let error = checkpoint::check_space(&path, u64::MAX).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
