//! The files of a memory node after a power failure.

use farwood_fabric::{u32_at, u64_at};
use farwood_testkit::harness::TestRng;
use farwood_transport::tcp::FrozenLog;
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The bytes of a segment's head, and its fields: the boot of the machine, the checksum of the fields before it.
const HEAD_BYTES: usize = 64;
const BOOT: usize = 32;
const CHECKSUM: usize = 56;
const PAGE_BYTES: usize = 4096;
/// The bytes of a record's head, with its length, its number and the last durable record.
const RECORD_HEAD_BYTES: usize = 64;

/// A folder in memory, if the machine has one: memory nodes sync thousands of times.
pub(super) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder is created")
}

/// The folder of one memory node's files.
#[derive(Debug)]
pub(super) struct NodeFolder(PathBuf);

impl NodeFolder {
    pub(super) fn new(folder: &Path, node: u16) -> Self {
        let path = folder.join(node.to_string());
        fs::create_dir_all(&path).expect("the folder is created");
        Self(path)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("node")
    }

    /// The names of the segments in order.
    fn segments(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).expect("the folder exists").map(|entry| {
            entry.expect("an entry").file_name().into_string().expect("a name of the memory node")
        });
        let mut segments: Vec<_> = names.filter(|name| name.contains(".log.")).collect();
        segments.sort_unstable();
        segments
    }
}

/// The head and the records of a segment, without the zeros that were allocated in advance.
fn written(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).expect("a segment is read");
    let end = end_of(&bytes, u64::MAX);
    bytes.truncate(end);
    bytes
}

/// Replaces the boot of the machine in the head of a segment.
fn change_boot(segment: &mut [u8]) {
    segment[BOOT] ^= 1;
    let checksum = xxh3_64(&segment[..CHECKSUM]);
    segment[CHECKSUM..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// A copy of the files of a memory node.
#[derive(Debug)]
pub(super) struct DiskCopy {
    /// Checkpoints and complete segments.
    complete: Vec<(String, Vec<u8>)>,
    last: (String, Vec<u8>),
    /// The bytes of the last segment that are durable.
    durable: usize,
}

impl DiskCopy {
    /// Copies the files of a memory node whose log is frozen. Records that it has not written yet may be on the disk as
    /// well as others that it has not synced.
    pub(super) fn take(node: &NodeFolder, log: &FrozenLog<'_>) -> Self {
        let checkpoints = ["node", "node.before"].map(|name| (name, fs::read(node.0.join(name)).ok()));
        let mut complete: Vec<_> =
            checkpoints.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), bytes?))).collect();
        let segments = node.segments().into_iter().map(|name| {
            let bytes = written(&node.0.join(&name));
            (name, bytes)
        });
        complete.extend(segments);
        let mut last = complete.pop().expect("a log has a segment");
        let durable = end_of(&last.1, log.durable());
        last.1.extend(log.unwritten());
        Self { complete, last, durable }
    }

    /// Writes the files into another folder as one of many possible failures leaves them; returns the bytes of the log
    /// that are lost.
    pub(super) fn put(&self, to: &NodeFolder, random: &mut TestRng) -> u64 {
        fs::remove_dir_all(&to.0).and_then(|()| fs::create_dir(&to.0)).expect("the folder is empty");
        for (name, bytes) in &self.complete {
            let mut bytes = bytes.clone();
            if name.contains(".log.") {
                change_boot(&mut bytes);
            }
            fs::write(to.0.join(name), bytes).expect("a file is written");
        }
        let (name, bytes) = &self.last;
        let end = match random.below(4) {
            0 => self.durable,
            1 => bytes.len(),
            _ => self.durable + random.below((bytes.len() - self.durable) as u64 + 1) as usize,
        };
        let mut bytes = bytes[..end].to_vec();
        change_boot(&mut bytes);
        if end > self.durable {
            damage(&mut bytes, self.durable, random);
        }
        let kept = bytes.len();
        fs::write(to.0.join(name), bytes).expect("a file is written");
        (self.last.1.len() - kept) as u64
    }
}

/// The intact records of a segment: their numbers, the last durable record when they were written, and their ends.
fn records(segment: &[u8]) -> Vec<(u64, u64, usize)> {
    let (mut at, mut all) = (HEAD_BYTES, Vec::new());
    while let Some(head) = segment.get(at..at + RECORD_HEAD_BYTES) {
        let length = u32_at(head, 0) as usize;
        if length < RECORD_HEAD_BYTES || at + length > segment.len() {
            break;
        }
        at += length;
        all.push((u64_at(head, 8), u64_at(head, 16), at));
    }
    all
}

/// The end of the last record up to a number.
fn end_of(segment: &[u8], number: u64) -> usize {
    records(segment).iter().rev().find(|record| record.0 <= number).map_or(HEAD_BYTES, |record| record.2)
}

/// Changes a bit of what is not durable, or loses a page of it.
fn damage(bytes: &mut [u8], durable: usize, random: &mut TestRng) {
    let at = durable + random.below((bytes.len() - durable) as u64) as usize;
    match random.below(3) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => {
            let page = at / PAGE_BYTES * PAGE_BYTES;
            let end = (page + PAGE_BYTES).min(bytes.len());
            bytes[page.max(durable)..end].fill(0);
        }
        _ => {}
    }
}
