//! Copies of the memory.
//!
//! ```text
//! + 0   8  "FARCKPT\0"      + 8   8  version, 1                 + 16  8  bytes of the memory
//! + 24  8  salt of the log  + 32  8  number of the record at which the log is applied    + 40  16  zero
//! + 56  8  checksum: XXH3-64 of the bytes before
//! pages:   number 8 | XXH3-64 of the page, with (number + salt) as seed 8 | 4096 bytes     those that are not zero
//! end:     2^64 - 1 8 | number of pages 8 | last record of the log that the copy may contain 8 | the cut at that
//!          record 8 | checksum of these 8
//! ```

use super::cuts::cut_max;
use super::files;
use crate::shm::{Mapping, stored_range};
use farwood_fabric::{ByteCount, u64_at};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: u64 = u64::from_le_bytes(*b"FARCKPT\0");
const VERSION: u64 = 1;
const HEAD_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
const END: u64 = u64::MAX;
const END_BYTES: usize = 40;
const OTHER_SIZE: &str =
    "it is of a memory node of another size: give the --device-memory that it was created with";

/// The highest number of a record. Records are numbered from 1, so no log reaches it.
const RECORD_MAX: u64 = 1 << 62;
const IMPOSSIBLE: &str = "cannot be those of a log: another program has written it";

/// The treatment of the checkpoint that a new one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierCheckpoint {
    /// It stays under the name of [`files::before_path`].
    Keep,
    /// It is removed.
    Remove,
}

/// The reason why a checkpoint was not made.
#[derive(Debug)]
pub(in crate::daemon) enum CheckpointFault {
    /// It cannot be written. The files of before are as they were, and the log continues.
    Copy(io::Error),
    /// The log has failed.
    Log(io::Error),
}

/// Bytes that a checkpoint leaves free on its file system: the log grows by so much at once.
const SPARE_BYTES: u64 = files::EXTENT_BYTES;
/// Pages between two checks of the free space.
const PAGES_PER_CHECK: u64 = 4096;

/// Fails if a file of `bytes` at `path` would take the space that the log needs.
pub(super) fn check_space(path: &Path, bytes: u64) -> io::Result<()> {
    let Some(free) = files::free_bytes(path) else { return Ok(()) };
    if free >= bytes.saturating_add(SPARE_BYTES) {
        return Ok(());
    }
    let (free, bytes, spare) = (ByteCount(free), ByteCount(bytes), ByteCount(SPARE_BYTES));
    let why = format!("its file system has {free} free, and needs up to {bytes}, and {spare} more than that");
    Err(io::Error::new(io::ErrorKind::StorageFull, why))
}

/// The file of a checkpoint without its name. It is removed unless it gets the name.
struct DraftFile(Option<PathBuf>);

impl Drop for DraftFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// A checkpoint that is being written.
pub(super) struct CheckpointDraft<'p> {
    path: &'p Path,
    temporary: DraftFile,
    out: BufWriter<File>,
    salt: u64,
    pages: u64,
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl<'p> CheckpointDraft<'p> {
    pub(super) fn begin(path: &'p Path, bytes: u64, [salt, first]: [u64; 2]) -> io::Result<Self> {
        let temporary = files::draft_path(path);
        let file = files::create(&temporary)?;
        let temporary = DraftFile(Some(temporary));
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let head = words(&[MAGIC, VERSION, bytes, salt, first, 0, 0]);
        out.write_all(&head)?;
        out.write_all(&xxh3_64(&head).to_le_bytes())?;
        Ok(Self { path, temporary, out, salt, pages: 0 })
    }

    /// Copies the pages that are not zero, while the memory changes.
    pub(super) fn copy(&mut self, mapping: &Mapping, memory: &File) -> io::Result<()> {
        let (mut at, bytes) = (0, mapping.bytes() / PAGE_BYTES as u64 * PAGE_BYTES as u64);
        let mut page = [0; PAGE_BYTES / 8];
        while let Some(range) = stored_range(memory, at, bytes)? {
            at = range.start / PAGE_BYTES as u64 * PAGE_BYTES as u64;
            while at < range.end {
                mapping.read_down(at, &mut page).expect("the page is mapped");
                if page.iter().any(|&word| word != 0) {
                    self.page(at / PAGE_BYTES as u64, &page)?;
                }
                at += PAGE_BYTES as u64;
            }
        }
        Ok(())
    }

    fn page(&mut self, number: u64, page: &[u64; PAGE_BYTES / 8]) -> io::Result<()> {
        if self.pages % PAGES_PER_CHECK == PAGES_PER_CHECK - 1 {
            check_space(self.path, 0)?;
        }
        // The words are in the order of the memory, which is little-endian.
        let bytes: Vec<u8> = page.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let checksum = xxh3_64_with_seed(&bytes, number.wrapping_add(self.salt));
        self.out.write_all(&words(&[number, checksum]))?;
        self.out.write_all(&bytes)?;
        self.pages += 1;
        Ok(())
    }

    /// Gives the checkpoint its name, which the caller makes durable; returns its bytes. The log is durable up to
    /// `last`, where the cut is `cut`. The checkpoint before may get another name, also if an error follows.
    pub(super) fn complete(mut self, [last, cut]: [u64; 2], earlier: EarlierCheckpoint) -> io::Result<u64> {
        let end = words(&[END, self.pages, last, cut]);
        self.out.write_all(&end)?;
        self.out.write_all(&xxh3_64_with_seed(&end, self.salt).to_le_bytes())?;
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let before = files::before_path(self.path);
        match fs::remove_file(&before) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if earlier == EarlierCheckpoint::Keep {
            fs::hard_link(self.path, before)?;
        }
        let bytes = file.metadata()?.len();
        if let Some(temporary) = &self.temporary.0 {
            fs::rename(temporary, self.path)?;
        }
        self.temporary.0 = None;
        Ok(bytes)
    }
}

/// A checkpoint that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckpointHead {
    pub(super) salt: u64,
    /// The first record to apply.
    pub(super) first: u64,
    /// The last record that the copy may contain.
    pub(super) last: u64,
    /// The cut at that record.
    pub(super) cut: u64,
    /// Bytes of the file.
    pub(super) bytes: u64,
}

impl CheckpointHead {
    /// Whether a memory node can have written these numbers.
    fn is_possible(&self) -> bool {
        (1..=RECORD_MAX).contains(&self.first) && self.last <= RECORD_MAX && self.cut <= cut_max()
    }
}

/// The reason why there is no checkpoint.
#[derive(Debug)]
pub(super) enum NoCheckpoint {
    Io(io::Error),
    /// It is a file of another kind.
    Other,
    /// The contradiction, with its offset.
    Damaged(String),
    /// It is of a memory node of another size or version.
    Unfit(String),
}

impl From<io::Error> for NoCheckpoint {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damaged("it was cut off".to_owned()),
            _ => Self::Io(error),
        }
    }
}

/// Whether the file begins as a checkpoint.
pub(in crate::daemon) fn is_checkpoint(path: &Path) -> bool {
    let mut start = [0; 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && u64::from_le_bytes(start) == MAGIC
}

/// The size of the memory that a checkpoint was made of, bytes; `None`: there is none, or its head is damaged.
pub(in crate::daemon) fn memory_bytes(path: &Path) -> Option<u64> {
    let mut head = [0; HEAD_BYTES];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    let is_intact = u64_at(&head, 0) == MAGIC && u64_at(&head, 56) == xxh3_64(&head[..56]);
    is_intact.then(|| u64_at(&head, 16))
}

/// Reads a checkpoint into fresh memory.
pub(super) fn load(path: &Path, mapping: &Mapping) -> Result<CheckpointHead, NoCheckpoint> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut head = [0; HEAD_BYTES];
    input.read_exact(&mut head)?;
    if u64_at(&head, 0) != MAGIC {
        return Err(NoCheckpoint::Other);
    }
    if u64_at(&head, 56) != xxh3_64(&head[..56]) {
        return Err(NoCheckpoint::Damaged("the head at offset 0 is damaged".to_owned()));
    }
    let [version, memory_bytes, salt, first] = [8, 16, 24, 32].map(|at| u64_at(&head, at));
    if version != VERSION {
        return Err(NoCheckpoint::Unfit(format!(
            "it has version {version}, and this program reads {VERSION}"
        )));
    }
    if memory_bytes != mapping.bytes() {
        return Err(NoCheckpoint::Unfit(OTHER_SIZE.to_owned()));
    }
    let (mut pages, mut at, mut page) = (0, HEAD_BYTES as u64, [0; PAGE_BYTES]);
    loop {
        let mut place = [0; 16];
        input.read_exact(&mut place)?;
        let (number, checksum) = (u64_at(&place, 0), u64_at(&place, 8));
        if number == END {
            let mut rest = [0; END_BYTES - 16];
            input.read_exact(&mut rest)?;
            let end = [&place[..], &rest[..16]].concat();
            let is_whole = checksum == pages && u64_at(&rest, 16) == xxh3_64_with_seed(&end, salt);
            let (last, cut) = (u64_at(&rest, 0), u64_at(&rest, 8));
            let whole = CheckpointHead { salt, first, last, cut, bytes };
            if !is_whole {
                return Err(NoCheckpoint::Damaged(format!("the end at offset {at} is damaged")));
            }
            if !whole.is_possible() {
                return Err(NoCheckpoint::Damaged(format!(
                    "its records {first} to {last} or cut {cut} {IMPOSSIBLE}"
                )));
            }
            return Ok(whole);
        }
        input.read_exact(&mut page)?;
        let offset = number.checked_mul(PAGE_BYTES as u64);
        let is_intact = checksum == xxh3_64_with_seed(&page, number.wrapping_add(salt));
        let written = offset.filter(|_| is_intact).map(|offset| mapping.write_up(offset, &page));
        if !matches!(written, Some(Ok(()))) {
            return Err(NoCheckpoint::Damaged(format!("the page at offset {at} is damaged")));
        }
        pages += 1;
        at += (16 + PAGE_BYTES) as u64;
    }
}

/// The first record to apply to a checkpoint, and the cut at the last record that it may contain.
pub(super) fn span_of(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let (mut head, mut end) = ([0; HEAD_BYTES], [0; END_BYTES]);
    file.read_exact(&mut head)?;
    let at = file.metadata()?.len().saturating_sub(END_BYTES as u64);
    file.seek(io::SeekFrom::Start(at))?;
    file.read_exact(&mut end)?;
    let salt = u64_at(&head, 24);
    let is_intact = u64_at(&head, 56) == xxh3_64(&head[..56])
        && u64_at(&end, END_BYTES - 8) == xxh3_64_with_seed(&end[..END_BYTES - 8], salt);
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its head or end is damaged");
    let (first, last, cut) = (u64_at(&head, 32), u64_at(&end, 16), u64_at(&end, 24));
    let head = CheckpointHead { salt, first, last, cut, bytes: 0 };
    if is_intact && head.is_possible() { Ok((first, cut)) } else { Err(damaged()) }
}
