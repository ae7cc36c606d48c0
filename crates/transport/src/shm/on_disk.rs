//! Pools on a disk: `$FARWOOD_SHM_DIR` may name a directory of a disk file system. The last process that leaves such a
//! pool writes its files to the disk, and a record in the journal says whether they are complete there.
//!
//! ```text
//! farwood.NAME.ID.journal, after the buffers of the last client slot
//! +  0   8   magic "FARSTATE"
//! +  8   8   1: in use, 2: saved
//! + 16   8   the boot of the machine that wrote the record
//! + 24   8   XXH3-64 of the fields before it
//! ```
//!
//! A process makes the record "in use" durable before its first change. The last process to leave makes the segments
//! and the journal durable, and then the record "saved". If processes are killed, the record says "in use" with this
//! boot: the kernel has all their pages, and other processes continue. If the machine stops, the record has an earlier
//! boot, and each page of the files may be old or new, so the pool is refused until a user accepts it. So is a pool
//! whose files could not be made durable (the boot is 0 then), because the kernel may have dropped their pages, and one
//! whose record is damaged.
//!
//! A process that enters or leaves holds a lock on one byte of the journal, so a process that enters waits while
//! another one saves the pool. A process that only reads changes nothing: it takes no lock, and refuses the same pools.
//!
//! Pools in memory (tmpfs, huge pages) have no record.

use super::error::ShmError;
use super::journal::Journal;
use super::presence::Presence;
use super::segment::Segment;
use super::sys;
use crate::boot::boot;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: u64 = u64::from_le_bytes(*b"FARSTATE");
const IN_USE: u64 = 1;
const SAVED: u64 = 2;
const RECORD_BYTES: usize = 32;
/// The byte of the journal whose lock excludes other processes that enter or leave.
const TURN: i64 = 1 << 62;
const PAUSE: Duration = Duration::from_millis(5);
/// The longest wait for that lock: a process that is stopped keeps it.
const TURN_MAX: Duration = Duration::from_mins(10);

/// The state of a pool's files when the last process has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saving {
    /// The pool is in memory, and has no files on a disk.
    InMemory,
    /// Other processes use it; the last of them saves it.
    InUse,
    /// The files are complete on the disk.
    Saved,
}

/// The record of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// The pool is new, or of a version without records.
    Absent,
    /// A process may have changed the files since they were complete; the boot of its machine.
    InUse {
        boot: u64,
    },
    Saved,
}

impl Record {
    fn decode(bytes: &[u8; RECORD_BYTES]) -> Self {
        let word = |at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if *bytes == [0; RECORD_BYTES] {
            return Self::Absent;
        }
        if (word(0), word(24)) != (MAGIC, xxh3_64(&bytes[..24])) {
            return Self::InUse { boot: 0 };
        }
        if word(8) == SAVED { Self::Saved } else { Self::InUse { boot: word(16) } }
    }

    /// The record of this boot with this state.
    fn encode(state: u64) -> [u8; RECORD_BYTES] {
        Self::encode_as(state, boot())
    }

    fn encode_as(state: u64, boot: u64) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        for (at, word) in [MAGIC, state, boot].into_iter().enumerate() {
            bytes[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; RECORD_BYTES];
        match file.read_exact_at(&mut bytes, Journal::BYTES) {
            Ok(()) => Ok(Self::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }
}

/// The files of a pool on a disk.
pub(super) struct DiskPool<'p> {
    pub(super) journal: &'p Journal,
    pub(super) segments: &'p [Arc<Segment>],
}

impl<'p> DiskPool<'p> {
    /// The files; `None`: the pool is in memory.
    pub(super) fn of(journal: &'p Journal, segments: &'p [Arc<Segment>]) -> Result<Option<Self>, ShmError> {
        Ok(segments[0].is_on_disk()?.then_some(Self { journal, segments }))
    }

    /// Refuses a pool that was in use when the machine stopped. Another process may be writing the record, so a second
    /// look decides.
    pub(super) fn check(&self) -> Result<(), ShmError> {
        if self.record().is_ok() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
        self.record().map(drop)
    }

    /// Attaches a process by `attach`, which makes the first change.
    pub(super) fn enter<T>(
        &self,
        presence: &Presence,
        attach: impl FnOnce() -> Result<T, ShmError>,
    ) -> Result<T, ShmError> {
        let _turn = Turn::wait(self.journal)?;
        // A process that was killed may have written the record, and not made it durable.
        if !matches!(self.record()?, Record::InUse { .. }) || presence.is_unused()? {
            self.write(IN_USE)?;
        }
        attach().inspect_err(|_| {
            // The error of the attachment has the cause.
            let _ = self.save_unless_used(presence);
        })
    }

    /// Ends an attachment by `detach`, which makes the last change, and saves the pool if no process uses it. `detach`
    /// yields whether the files are those of the pool.
    pub(super) fn leave(
        &self,
        presence: &Presence,
        detach: impl FnOnce() -> bool,
    ) -> Result<Saving, ShmError> {
        let turn = Turn::wait(self.journal);
        let is_intact = detach();
        let _turn = turn?;
        if is_intact { self.save_unless_used(presence) } else { Ok(Saving::InUse) }
    }

    /// Accepts a pool that was in use when the machine stopped.
    pub(super) fn accept(&self) -> Result<(), ShmError> {
        let _turn = Turn::wait(self.journal)?;
        match self.record() {
            Err(ShmError::Unsaved { .. }) => self.write(SAVED),
            other => other.map(drop),
        }
    }

    /// The record, unless it has an earlier boot.
    fn record(&self) -> Result<Record, ShmError> {
        let path = self.journal.path();
        match Record::read(self.journal.file()).map_err(ShmError::on("read", path))? {
            // A system without the identity of a boot has 0.
            Record::InUse { boot: of } if of != boot() || of == 0 => {
                Err(ShmError::Unsaved { pool: self.segments[0].name().to_string(), path: path.to_owned() })
            }
            record => Ok(record),
        }
    }

    /// Writes the record of this boot with this state, and makes it durable.
    fn write(&self, state: u64) -> Result<(), ShmError> {
        self.write_record(&Record::encode(state))
    }

    fn write_record(&self, record: &[u8; RECORD_BYTES]) -> Result<(), ShmError> {
        let file = self.journal.file();
        let written = file.write_all_at(record, Journal::BYTES);
        written.and_then(|()| file.sync_all()).map_err(ShmError::on("write", self.journal.path()))
    }

    fn save_unless_used(&self, presence: &Presence) -> Result<Saving, ShmError> {
        if !presence.is_unused()? {
            return Ok(Saving::InUse);
        }
        if let Err(error) = self.sync() {
            // The kernel may have dropped the pages that it could not write, and the next sync would not report it.
            let _ = self.write_record(&Record::encode_as(IN_USE, 0));
            return Err(error);
        }
        self.write(SAVED)?;
        Ok(Saving::Saved)
    }

    /// Makes the segments, the journal and their names durable.
    fn sync(&self) -> Result<(), ShmError> {
        self.segments.iter().try_for_each(|segment| segment.sync())?;
        let path = self.journal.path();
        self.journal.file().sync_all().map_err(ShmError::on("sync", path))?;
        let directory = self.journal.path().parent().expect("a journal is in a directory");
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(ShmError::on("sync", directory))
    }
}

/// Writes the record of a new pool, whose creator is about to write its segments.
pub(super) fn begin(journal: &File) -> io::Result<()> {
    journal.write_all_at(&Record::encode(IN_USE), Journal::BYTES)?;
    journal.sync_all()
}

/// The exclusive right to enter or to leave. A killed process loses it.
struct Turn<'j>(&'j Journal);

impl<'j> Turn<'j> {
    fn wait(journal: &'j Journal) -> Result<Self, ShmError> {
        let lock = || sys::lock_byte(journal.file(), TURN).map_err(ShmError::on("lock", journal.path()));
        let begun = Instant::now();
        while !lock()? {
            if begun.elapsed() > TURN_MAX {
                let why = "another process has been saving the pool for 10 minutes, or is stopped: end it";
                let late = io::Error::new(io::ErrorKind::TimedOut, why);
                return Err(ShmError::from_io("lock", journal.path(), 0, late));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Self(journal))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // If this fails, the lock ends with the attachment.
        let _ = sys::unlock_byte(self.0.file(), TURN);
    }
}

#[cfg(test)]
mod tests {
    use super::super::create::{PoolSpec, create};
    use super::super::pool::ShmPool;
    use super::super::segment::{Backing, SegmentDir};
    use super::super::testing::Scratch;
    use super::*;
    use farwood_fabric::chunks::CHUNK_BYTES;

    fn pool(scratch: &Scratch) -> SegmentDir {
        let dir = scratch.dir();
        let spec = PoolSpec {
            name: "demo".parse().unwrap(),
            nodes: 2,
            host_bytes: 4 * CHUNK_BYTES,
            host_bytes_max: None,
            device_bytes: 4096,
            backing: Backing::Growable,
            group: None,
            mode: None,
        };
        create(&dir, &spec).unwrap();
        dir
    }

    fn journal(scratch: &Scratch) -> File {
        let name = scratch.entries().into_iter().find(|name| name.ends_with(".journal")).unwrap();
        File::options().read(true).write(true).open(scratch.path().join(name)).unwrap()
    }

    fn open(dir: &SegmentDir) -> Result<ShmPool, ShmError> {
        ShmPool::open(dir, &"demo".parse().unwrap())
    }

    /// The record, as a machine wrote it that has stopped since.
    fn change_boot(journal: &File) {
        let mut bytes = Record::encode(IN_USE);
        bytes[16] ^= 1;
        let checksum = xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        journal.write_all_at(&bytes, Journal::BYTES).unwrap();
    }

    #[test]
    fn the_last_process_to_leave_saves_the_pool() {
        let Some(scratch) = Scratch::on_disk() else { return };
        let (dir, journal) = (pool(&scratch), journal(&scratch));
        assert_eq!(Record::read(&journal).unwrap(), Record::Saved, "a new pool is complete");
        let (first, second) = (open(&dir).unwrap(), open(&dir).unwrap());
        assert_eq!(Record::read(&journal).unwrap(), Record::InUse { boot: boot() });
        assert_eq!(first.save().unwrap(), Saving::InUse);
        assert_eq!(Record::read(&journal).unwrap(), Record::InUse { boot: boot() });
        drop(second);
        assert_eq!(Record::read(&journal).unwrap(), Record::Saved);
        let third = open(&dir).unwrap();
        assert_eq!(third.save().unwrap(), Saving::Saved);
    }

    #[test]
    fn a_pool_that_was_in_use_when_the_machine_stopped_is_refused_until_it_is_accepted() {
        let Some(scratch) = Scratch::on_disk() else { return };
        let (dir, journal) = (pool(&scratch), journal(&scratch));
        let name = "demo".parse().unwrap();
        let accept = || ShmPool::accept_unsaved(&dir, &name);
        for damage in [change_boot, |journal: &File| journal.write_all_at(&[7], Journal::BYTES + 9).unwrap()]
        {
            damage(&journal);
            assert!(matches!(open(&dir), Err(ShmError::Unsaved { .. })));
            assert!(matches!(ShmPool::open_read_only(&dir, &name), Err(ShmError::Unsaved { .. })));
            accept().unwrap();
            ShmPool::open_read_only(&dir, &name).unwrap();
            drop(open(&dir).unwrap());
            assert_eq!(Record::read(&journal).unwrap(), Record::Saved);
        }
        let user = open(&dir).unwrap();
        accept().unwrap();
        assert_eq!(Record::read(&journal).unwrap(), Record::InUse { boot: boot() }, "nothing to accept");
        drop(user);
    }

    #[test]
    fn a_pool_without_a_record_gets_one() {
        let Some(scratch) = Scratch::on_disk() else { return };
        let (dir, journal) = (pool(&scratch), journal(&scratch));
        journal.set_len(Journal::BYTES).unwrap();
        let user = open(&dir).unwrap();
        assert_eq!(Record::read(&journal).unwrap(), Record::InUse { boot: boot() });
        drop(user);
        assert_eq!(Record::read(&journal).unwrap(), Record::Saved);
    }

    #[test]
    fn a_pool_in_memory_has_no_record() {
        let scratch = Scratch::new();
        let (dir, journal) = (pool(&scratch), journal(&scratch));
        let user = open(&dir).unwrap();
        assert_eq!(user.save().unwrap(), Saving::InMemory);
        assert_eq!(Record::read(&journal).unwrap(), Record::Absent);
    }

    #[test]
    fn a_process_that_enters_waits_for_one_that_saves() {
        let Some(scratch) = Scratch::on_disk() else { return };
        let (dir, journal) = (pool(&scratch), journal(&scratch));
        assert!(sys::lock_byte(&journal, TURN).unwrap());
        std::thread::scope(|scope| {
            let entering = scope.spawn(|| open(&dir).map(drop));
            std::thread::sleep(20 * PAUSE);
            assert!(!entering.is_finished());
            sys::unlock_byte(&journal, TURN).unwrap();
            entering.join().unwrap().unwrap();
        });
    }
}
