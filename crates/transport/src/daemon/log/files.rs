//! The files of a log: `FILE` is the checkpoint, `FILE.log.NUMBER` a segment that begins with that record (16
//! hexadecimal digits), `FILE.before` the checkpoint before, `FILE.lock` the lock of the memory node.
//!
//! ```text
//! segment:  + 0  8  "FARLOG\0\0"     + 8   8  version, 1        + 16  8  number of the first record
//!           + 24 8  salt             + 32  8  hash of the machine's boot    + 40  8   1: interval, 2: always
//!           + 48 8  zero
//!           + 56 8  checksum: XXH3-64 of the bytes before       then records
//! ```

use super::Durability;
use super::tuning::LogSettings;
use crate::boot::boot;
use farwood_fabric::u64_at;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: u64 = u64::from_le_bytes(*b"FARLOG\0\0");
const VERSION: u64 = 1;
pub(super) const SEGMENT_HEAD_BYTES: usize = 64;
const CHECKSUM: usize = 56;
/// Bytes by which a segment is extended: a file that does not grow is synced faster.
pub(super) const EXTENT_BYTES: u64 = 16 << 20;

/// `path` with more text at the end of its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The path of the segment that begins with `record`.
pub(super) fn segment_path(path: &Path, record: u64) -> PathBuf {
    beside(path, &format!(".log.{record:016x}"))
}

/// The path of a checkpoint that is being written.
pub(super) fn draft_path(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// The path of the checkpoint before the last one, which a pool of several memory nodes keeps.
pub(super) fn before_path(path: &Path) -> PathBuf {
    beside(path, ".before")
}

/// The first records of the segments of a log, in order.
pub(super) fn segments(path: &Path) -> io::Result<Vec<u64>> {
    let folder = folder_of(path);
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut prefix = name.as_encoded_bytes().to_vec();
    prefix.extend(b".log.");
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name();
        let digits = file.as_encoded_bytes().strip_prefix(prefix.as_slice());
        let digits =
            digits.and_then(|digits| std::str::from_utf8(digits).ok()).filter(|digits| digits.len() == 16);
        numbers.extend(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in the folder of `path` durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Removes a segment without records, also after a failure of the machine.
pub(super) fn remove_segment(path: &Path, record: u64) -> io::Result<()> {
    match fs::remove_file(segment_path(path, record)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    sync_folder(path)
}

/// Free bytes of the file system of `path`; `None`: it does not say.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder_of(path)).ok().filter(|stat| stat.f_blocks > 0)?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A new file that only its owner may access.
pub(super) fn create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The lock of the memory node that uses a log. Its file is removed at the end, so that a failed start leaves none.
#[derive(Debug)]
pub(super) struct LogLock {
    /// Its lock excludes other memory nodes.
    _file: File,
    path: PathBuf,
    /// The process that has the lock: a forked child does not remove the file of its parent.
    process: u32,
}

impl Drop for LogLock {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Attempts to lock a file that its last owner removes meanwhile.
const LOCK_ATTEMPTS_MAX: usize = 100;

/// Takes the lock; `None`: another memory node has it.
pub(super) fn lock(path: &Path) -> io::Result<Option<LogLock>> {
    let path = beside(path, ".lock");
    for _ in 0..LOCK_ATTEMPTS_MAX {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The lock of a file that was removed excludes nobody.
        let identity = |data: &fs::Metadata| (data.dev(), data.ino());
        match fs::metadata(&path) {
            Ok(there) if identity(&there) == identity(&file.metadata()?) => {
                return Ok(Some(LogLock { _file: file, path, process: std::process::id() }));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub(super) first: u64,
    pub(super) salt: u64,
    pub(super) boot: u64,
    /// Whether every answered change is durable.
    pub(super) is_always: bool,
}

impl SegmentHead {
    fn encode(self) -> [u8; SEGMENT_HEAD_BYTES] {
        let mut bytes = [0; SEGMENT_HEAD_BYTES];
        for (at, word) in [
            (0, MAGIC),
            (8, VERSION),
            (16, self.first),
            (24, self.salt),
            (32, self.boot),
            (40, 1 + u64::from(self.is_always)),
        ] {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The head at the start of a segment, or the reason why there is none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let head = bytes.get(..SEGMENT_HEAD_BYTES).ok_or("it is shorter than the head of a segment")?;
        if u64_at(head, 0) != MAGIC || u64_at(head, CHECKSUM) != xxh3_64(&head[..CHECKSUM]) {
            return Err("its head is damaged".to_owned());
        }
        match u64_at(head, 8) {
            VERSION => Ok(Self {
                first: u64_at(head, 16),
                salt: u64_at(head, 24),
                boot: u64_at(head, 32),
                is_always: u64_at(head, 40) == 2,
            }),
            other => Err(format!("it has version {other}, and this program reads {VERSION}")),
        }
    }
}

/// The segment to which records are appended.
#[derive(Debug)]
pub(super) struct SegmentFile {
    file: File,
    pub(super) head: SegmentHead,
    /// Bytes of the head and the records.
    pub(super) bytes: u64,
    allocated: u64,
    /// Bytes that are allocated at once.
    extent: u64,
}

impl SegmentFile {
    /// Creates a segment whose name is durable.
    pub(super) fn create(path: &Path, head: SegmentHead, settings: &LogSettings) -> io::Result<Self> {
        let mut file = create(&segment_path(path, head.first))?;
        file.write_all(&head.encode())?;
        file.sync_all()?;
        sync_folder(path)?;
        let bytes = SEGMENT_HEAD_BYTES as u64;
        Ok(Self { file, head, bytes, allocated: bytes, extent: settings.extent_bytes() })
    }

    pub(super) fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let end = self.bytes + records.len() as u64;
        if end > self.allocated {
            let extent = end.next_multiple_of(self.extent) - self.bytes;
            // A file system without this call lets the file grow with each record.
            let _ =
                rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), self.bytes, extent);
            self.allocated = self.bytes + extent;
        }
        self.file.write_all(records)?;
        self.bytes = end;
        Ok(())
    }

    /// Replaces the boot and the level in the head, durably.
    pub(super) fn begin_boot(&mut self, level: Durability) -> io::Result<()> {
        let head = SegmentHead { boot: boot(), is_always: level == Durability::Always, ..self.head };
        if head == self.head {
            return Ok(());
        }
        self.head = head;
        self.file.write_all_at(&self.head.encode(), 0)?;
        self.file.sync_data()
    }

    /// Returns the space after the last record to the file system.
    pub(super) fn trim(&mut self) -> io::Result<()> {
        self.allocated = self.bytes;
        self.file.set_len(self.bytes)
    }

    /// Another handle of the file, whose sync does not need the lock of the appender.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}
