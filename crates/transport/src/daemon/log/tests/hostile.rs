//! Files whose checksums are right and whose contents are not: a restart gives an error or ignores them.

use super::{Fresh, RECORDS, Written, copy, folder, segment_bytes, written};
use crate::daemon::log::segment_reader::SegmentReader;
use crate::daemon::log::{Durability, LogSettings, files, open};
use crate::daemon::store::{MemorySizes, NodeFile, Store};
use crate::error::FileFault;
use crate::shm::Mapping;
use farwood_fabric::{u32_at, u64_at};
use proptest::prelude::*;
use std::fs::{self, File};
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of the heads of checkpoints and segments, and the place of their checksums.
const HEAD_BYTES: usize = 64;
const HEAD_CHECKSUM: usize = 56;

/// Offsets of the fields of a record and of its first effect.
const FIELDS: [usize; 15] = [0, 4, 5, 8, 16, 32, 34, 36, 40, 48, 56, 60, 64, 72, 76];

/// Numbers at which calculations go wrong.
fn number() -> impl Strategy<Value = u64> {
    let special =
        [0, 1, 7, 8, 63, 64, 65, 4096, 1 << 16, (1 << 32) - 1, 1 << 62, 1 << 63, u64::MAX - 7, u64::MAX];
    prop_oneof![prop::sample::select(special.to_vec()), any::<u64>(), 0..200_u64]
}

/// The restart of a copy of the log with one file replaced. Every result but an error that names a cause is a bug.
fn restart(written: &Written, changed: &Path, contents: &[u8]) -> Result<(), String> {
    let copied = copy(&written.path, &written.folder.path().join("hostile"), changed, contents);
    let memory = Fresh::new();
    match memory.open(&copied, Durability::Always) {
        Ok(log) => {
            // What the memory node has accepted, it can continue and restart from.
            let mut random = 3;
            memory.change(&log, &mut random);
            log.sync().unwrap();
            log.checkpoint(&memory.mapping, &memory.file).unwrap();
            drop(log);
            Fresh::new().open(&copied, Durability::Always).unwrap();
            Ok(())
        }
        Err(FileFault::Damaged(why) | FileFault::Unfit(why)) => {
            assert!(!why.is_empty());
            Err(why)
        }
        Err(other) => panic!("{other}"),
    }
}

/// The offset of the record with this index.
fn record_at(segment: &[u8], index: usize) -> usize {
    (0..index).fold(files::SEGMENT_HEAD_BYTES, |at, _| at + u32_at(segment, at) as usize)
}

/// Gives a record of `bytes` bytes a right checksum.
fn seal_record(record: &mut [u8], salt: u64) {
    record[24..32].fill(0);
    let checksum = xxh3_64_with_seed(record, salt);
    record[24..32].copy_from_slice(&checksum.to_le_bytes());
}

/// Replaces bytes of the record with this index, and gives it a right checksum; its length may be that of the field.
fn forge(segment: &mut [u8], index: usize, field: usize, bytes: &[u8]) {
    let (at, salt) = (record_at(segment, index), u64_at(segment, 24));
    let own = u32_at(segment, at) as usize;
    let field = field.min(own - bytes.len());
    segment[at + field..at + field + bytes.len()].copy_from_slice(bytes);
    let named = u32_at(segment, at) as usize;
    let sealed = if (HEAD_BYTES..=segment.len() - at).contains(&named) { named } else { own };
    seal_record(&mut segment[at..at + sealed], salt);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn a_record_with_another_field_is_an_error_or_ignored(
        index in 0..RECORDS,
        field in prop_oneof![prop::sample::select(FIELDS.to_vec()), 0..300_usize],
        length in 1..=8_usize,
        value in number(),
    ) {
        let written = written(11);
        let path = files::segment_path(&written.path, 1);
        let mut segment = segment_bytes(&path);
        forge(&mut segment, index, field, &value.to_le_bytes()[..length]);
        let _ = restart(&written, &path, &segment);
    }

    #[test]
    fn a_head_with_another_field_is_an_error_or_ignored(
        of_segment in any::<bool>(),
        field in 0..HEAD_CHECKSUM / 8,
        value in number(),
    ) {
        let written = written(12);
        let path = if of_segment { files::segment_path(&written.path, 1) } else { written.path.clone() };
        let mut bytes = if of_segment { segment_bytes(&path) } else { fs::read(&path).unwrap() };
        bytes[8 * field..8 * field + 8].copy_from_slice(&value.to_le_bytes());
        let checksum = xxh3_64(&bytes[..HEAD_CHECKSUM]);
        bytes[HEAD_CHECKSUM..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let _ = restart(&written, &path, &bytes);
    }

    #[test]
    fn a_checkpoint_with_another_page_or_end_is_an_error_or_ignored(
        page in number(),
        pages in number(),
        last in number(),
        cut in number(),
    ) {
        let written = written(13);
        let mut bytes = fs::read(&written.path).unwrap();
        let salt = u64_at(&bytes, 24);
        // The fresh memory has no pages, so the head and the end are all.
        let end = bytes.len() - 40;
        let contents = [7; 4096];
        let checksum = xxh3_64_with_seed(&contents, page.wrapping_add(salt));
        let forged = [&page.to_le_bytes()[..], &checksum.to_le_bytes(), &contents].concat();
        bytes.truncate(end);
        bytes.extend(forged);
        let tail = [u64::MAX, pages, last, cut].map(u64::to_le_bytes).concat();
        bytes.extend(&tail);
        bytes.extend(xxh3_64_with_seed(&tail, salt).to_le_bytes());
        let _ = restart(&written, &written.path, &bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// The log may change any byte of the memory, so also the header of the memory node.
    #[test]
    fn a_header_with_another_word_is_an_error_or_ignored(word in 0..12_u64, value in number(), more in number()) {
        const MEMORY: u64 = 16 << 20;
        const DEVICE: u64 = 256 << 10;
        const SIZES: MemorySizes = MemorySizes { memory: MEMORY, memory_max: MEMORY, device: DEVICE };
        let folder = folder();
        let file = NodeFile { durability: Durability::Always, ..NodeFile::new(folder.path().join("node")) };
        let store = Store::in_file(&file, SIZES).unwrap();
        store.form(5, 0, 1).unwrap();
        store.close(&|_| ()).unwrap();
        drop(store);
        let memory: File = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap().into();
        let bytes = MEMORY + DEVICE + 36_864;
        memory.set_len(bytes).unwrap();
        let mapping = Mapping::new(&memory, bytes).unwrap();
        let log = open(&file.path, LogSettings::from(Durability::Always), &mapping, &memory).unwrap().log;
        for (at, value) in [(word, value), ((word + 1) % 12, more)] {
            log.change(MEMORY + DEVICE + 8 * at, &value.to_le_bytes(), || ());
        }
        log.sync().unwrap();
        drop(log);
        match Store::in_file(&file, SIZES) {
            Ok(store) => {
                let _ = (store.membership(), store.incarnation(), store.returned_cut());
            }
            Err(error) => prop_assert!(error.to_string().contains("node"), "{error}"),
        }
    }
}

/// The error for a record with these bytes at `field`.
fn error_of(field: usize, bytes: &[u8]) -> String {
    let written = written(14);
    let path = files::segment_path(&written.path, 1);
    let mut segment = segment_bytes(&path);
    forge(&mut segment, 3, field, bytes);
    restart(&written, &path, &segment).unwrap_err()
}

#[test]
fn errors_of_forged_records_name_the_file_and_the_cause() {
    for (field, bytes, words) in [
        (4, &[9][..], "the record 4 has the kind 9, which this version does not know"),
        (4, &[3], "the record 4 of a cut has other contents than its number"),
        (56, &[255; 4], "the record 4 does not have the effects and answers that it counts"),
        (60, &[255; 4], "the record 4 does not have the effects and answers that it counts"),
        (64, &[255; 8], "changes bytes outside of the memory"),
        (72, &[255; 4], "the record 4 does not have the effects and answers that it counts"),
        (16, &[3, 0, 0, 0, 0, 0, 0, 64], "is damaged"),
    ] {
        let why = error_of(field, bytes);
        assert!(why.contains("node.log.0000000000000001") && why.contains(words), "{field}: {why}");
    }
}

/// A cut that is not a time would leave no numbers for later ones.
#[test]
fn a_cut_that_is_not_a_time_is_refused() {
    let folder = folder();
    let path = folder.path().join("node");
    let memory = Fresh::new();
    let log = memory.open(&path, Durability::Interval(std::time::Duration::from_hours(1))).unwrap();
    log.enter_cut_phase(super::CutPhase::Active);
    for cut in [u64::MAX, 1 << 62, 1 << 50] {
        assert!(log.begin_cut(cut).unwrap_err().to_string().contains("100 years ahead of the clock"));
    }
    assert!(!log.can_resume_after(u64::MAX));
    log.begin_cut(77).unwrap();
    log.sync().unwrap();
    drop(log);
    let segment = files::segment_path(&path, 1);
    let mut bytes = segment_bytes(&segment);
    forge(&mut bytes, 0, 64, &u64::MAX.to_le_bytes());
    fs::write(&segment, bytes).unwrap();
    let fault = Fresh::new().open(&path, Durability::Always).unwrap_err();
    assert!(fault.to_string().contains("begins the cut 18446744073709551615"), "{fault}");
}

/// A pool whose cuts are far ahead, because a clock was, still returns to them.
#[test]
fn cuts_ahead_of_the_clock_leave_later_cuts() {
    let folder = folder();
    let path = folder.path().join("node");
    let (memory, mut random) = (Fresh::new(), 5);
    let log = memory.open(&path, Durability::Interval(std::time::Duration::from_hours(1))).unwrap();
    log.enter_cut_phase(super::CutPhase::Active);
    let ahead = crate::daemon::log::cuts::cut_max() - 1000;
    memory.change(&log, &mut random);
    let before = memory.state();
    log.begin_cut(ahead).unwrap();
    memory.change(&log, &mut random);
    let span = log.cut_span().unwrap();
    assert_eq!(span.newest, ahead + 1);
    log.return_to([ahead, span.newest], &memory.mapping, &memory.file, |_| ()).unwrap();
    assert!(memory.state() == before);
    assert!(log.cut_span().unwrap().newest > span.newest);
}

#[test]
fn the_memory_for_reading_a_segment_does_not_grow_with_it() {
    let folder = folder();
    let path = folder.path().join("node");
    let segment = File::create(files::segment_path(&path, 1)).unwrap();
    segment.set_len(64 << 20).unwrap();
    let mut reader = SegmentReader::open(&path, 1).unwrap();
    assert_eq!(reader.last_durable(1).unwrap(), None);
    assert!(reader.capacity() <= 4 << 20, "{}", reader.capacity());
}
