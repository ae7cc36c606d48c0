//! The journal: a WRITE whose process is killed midway is completed by the process that proves the kill.
//!
//! ```text
//! farwood.NAME.ID.journal, beside the segments of pool NAME with identity ID; sparse
//! client slot i has 16 buffers from  i x 16 x 266240  on; each:
//! +    0    8   state: 0, or the hash (XXH3-64) of a WRITE in progress: of its three words below and its bytes
//! +    8    8   its memory node
//! +   16    8   its offset in that node's segment
//! +   24    8   its length, bytes
//! + 4096        its bytes, up to 256 KiB
//! after the last slot, in the journal of a pool on a disk: the record of `on_disk.rs`
//! ```
//!
//! A process copies a WRITE of more than one word into one of its buffers, marks the buffer as in progress, executes
//! the WRITE, and clears the mark. So after a kill each buffer is either unmarked or contains all bytes of a WRITE that
//! may have been executed partly. The process that claims the slot of the killed one
//! ([`Presence::claim`](super::Presence::claim)) repeats such WRITEs before any process may take over its locks: if a
//! lock guards the target, no other process has written there since. If it is killed during the replay, the next one
//! repeats it.
//!
//! The replay is correct for bytes that a lock guards, or that no pointer refers to yet. It is not correct for bytes
//! that another client consumes without a lock, like a message in a ring: after a replay it would arrive twice. Such a
//! WRITE must be of one word, or carry an immediate, which is not sent again.
//!
//! A buffer keeps its last WRITE. The state is a hash, so that a damaged word does not repeat an old WRITE over newer
//! bytes: the replay of a buffer that does not match its state fails. The slot then stays claimed, and its last owner
//! counts as alive, because its WRITE may be incomplete.
//!
//! Threads share the buffers of their process, one WRITE per buffer at a time. A forked child does not post. A WRITE
//! beyond the size of a buffer is not journaled.

use super::error::ShmError;
use super::name::PoolName;
use super::on_disk;
use super::ownership::{self, FileRights};
use super::segment::{Segment, SegmentDir, remove_file};
use super::sys::{self, AccessFault, Mapping};
use crate::fork::OwnDescriptor;
use farwood_fabric::Access;
use farwood_fabric::client_table::CLIENTS_MAX;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Journal buffers of a client slot.
const BUFFERS: usize = 16;
/// Longest WRITE that is journaled, bytes: a node of the largest size.
pub(super) const WRITE_BYTES_MAX: usize = 256 << 10;
/// The offset of the data in a buffer.
const DATA: u64 = 4096;
const BUFFER_BYTES: u64 = DATA + WRITE_BYTES_MAX as u64;
const SLOT_BYTES: u64 = BUFFERS as u64 * BUFFER_BYTES;
const FILE_BYTES: u64 = CLIENTS_MAX as u64 * SLOT_BYTES;
const NODE: u64 = 8;
const OFFSET: u64 = 16;
const LENGTH: u64 = 24;
/// Bytes of a buffer that get pages at its first use: enough for WRITEs of nodes of the usual size.
const PROVISION: u64 = DATA + 4096;

/// A pool's journal, opened by one attachment.
pub(super) struct Journal {
    file: OwnDescriptor<File>,
    path: PathBuf,
}

/// The journal buffers of this process.
pub(super) struct JournalBuffers {
    journal: Arc<Journal>,
    slot: u16,
    window: Mapping,
    /// Number of resident bytes of each buffer. The thread that holds the lock uses the buffer.
    pages: Box<[Mutex<u64>]>,
    next: AtomicUsize,
}

/// The target of a WRITE.
#[derive(Clone, Copy)]
pub(super) struct WriteTarget<'a> {
    pub(super) node: u16,
    pub(super) mapping: &'a Mapping,
    pub(super) offset: u64,
}

/// The WRITE that a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournaledWrite<'b> {
    /// The number of the memory node.
    pub node: usize,
    /// The offset in the memory node's segment.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'b [u8],
}

impl<'b> JournaledWrite<'b> {
    /// The bytes to read for a WRITE with these three words: node, offset and length.
    pub fn data_bytes([_, _, length]: [u64; 3]) -> usize {
        usize::try_from(length).map_or(WRITE_BYTES_MAX, |length| length.min(WRITE_BYTES_MAX))
    }

    /// Decodes a buffer with this state, these words (node, offset and length) and these bytes; `None` if no process
    /// stores such a buffer.
    pub fn decode(state: u64, target: [u64; 3], bytes: &'b [u8]) -> Option<Self> {
        let [node, offset, length] = target;
        let is_whole = length == bytes.len() as u64 && state == state_of(target, bytes);
        let node = usize::try_from(node).ok().filter(|_| is_whole)?;
        Some(Self { node, offset, bytes })
    }

    /// The state of a buffer while this WRITE executes.
    pub fn state(&self) -> u64 {
        state_of([self.node as u64, self.offset, self.bytes.len() as u64], self.bytes)
    }
}

/// The reason why a WRITE was refused.
pub(super) enum WriteRefused {
    AccessFault(AccessFault),
    /// No memory for the journal.
    Memory(ShmError),
}

impl Journal {
    /// Creates the journal of a new pool with this identity, and removes those of earlier pools of this name.
    /// The caller has the exclusive right to create the pool's node 0.
    pub(super) fn create(
        dir: &SegmentDir,
        name: &PoolName,
        pool: u64,
        rights: FileRights,
    ) -> Result<(), ShmError> {
        dir.journals(name)?.iter().try_for_each(|path| remove_file(path))?;
        let path = dir.path().join(name.journal_file(pool));
        let made = File::options().write(true).create_new(true).mode(rights.first_mode()).open(&path);
        let file = made.map_err(ShmError::on("create", &path))?;
        rights.give(&file).map_err(ShmError::on("share", &path))?;
        file.set_len(FILE_BYTES).map_err(ShmError::on("enlarge", &path))?;
        if sys::is_in_memory(&file).map_err(ShmError::on("examine", &path))? {
            return Ok(());
        }
        on_disk::begin(&file).map_err(ShmError::on("write", &path))
    }

    /// Opens the journal of the pool with this identity.
    pub(super) fn open(dir: &SegmentDir, name: &PoolName, pool: u64) -> Result<Self, ShmError> {
        Self::open_for(dir, name, pool, Access::ReadWrite)
    }

    /// As [`open`](Self::open). For reading, it needs only the permission to read the file.
    pub(super) fn open_for(
        dir: &SegmentDir,
        name: &PoolName,
        pool: u64,
        access: Access,
    ) -> Result<Self, ShmError> {
        let path = dir.path().join(name.journal_file(pool));
        if let Ok(data) = fs::symlink_metadata(&path) {
            ownership::check_regular(&path, &data)?;
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = match File::options()
            .read(true)
            .write(access == Access::ReadWrite)
            .custom_flags(flags)
            .open(&path)
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ShmError::JournalLost { pool: name.to_string(), path });
            }
            Err(error) => return Err(ShmError::from_io("open", &path, 0, error)),
        };
        let data = file.metadata().map_err(ShmError::on("examine", &path))?;
        ownership::check_file(&path, &data, dir.trust()?)?;
        if data.len() < FILE_BYTES {
            return Err(ShmError::JournalLost { pool: name.to_string(), path });
        }
        Ok(Self { file: OwnDescriptor::new(file), path })
    }

    /// The bytes of the buffers of all client slots.
    pub(super) const BYTES: u64 = FILE_BYTES;

    /// Returns the open file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Repeats the WRITEs that the crashed last owner of `slot` may not have completed. The caller has claimed the
    /// slot.
    pub(super) fn replay(&self, slot: u16, segments: &[Arc<Segment>]) -> Result<(), ShmError> {
        for buffer in 0..BUFFERS {
            let at = buffer_offset(slot, buffer);
            self.replay_buffer(at, segments).map_err(ShmError::on("replay", &self.path))?;
        }
        Ok(())
    }

    /// Replays one buffer. The buffer is read by a file operation, so an unused buffer gets no pages.
    fn replay_buffer(&self, at: u64, segments: &[Arc<Segment>]) -> io::Result<()> {
        let state = self.word(at)?;
        if state == 0 {
            return Ok(());
        }
        let target = [self.word(at + NODE)?, self.word(at + OFFSET)?, self.word(at + LENGTH)?];
        let mut bytes = vec![0; JournaledWrite::data_bytes(target)];
        self.file.read_exact_at(&mut bytes, at + DATA)?;
        let write = JournaledWrite::decode(state, target, &bytes);
        let target = write.and_then(|write| Some((write, segments.get(write.node)?.mapping())));
        let done = target.is_some_and(|(write, mapping)| mapping.write_up(write.offset, write.bytes).is_ok());
        if !done {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a buffer does not hold a WRITE of this pool",
            ));
        }
        self.file.write_all_at(&[0; 8], at)
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at)?;
        Ok(u64::from_ne_bytes(word))
    }
}

impl JournalBuffers {
    /// Maps the buffers of `slot`, which this process owns.
    pub(super) fn open(journal: Arc<Journal>, slot: u16) -> Result<Self, ShmError> {
        let window = Mapping::window(&journal.file, buffer_offset(slot, 0), SLOT_BYTES);
        let window = window.map_err(ShmError::on("map", &journal.path))?;
        let pages = (0..BUFFERS).map(|_| Mutex::new(0)).collect();
        Ok(Self { journal, slot, window, pages, next: AtomicUsize::new(0) })
    }

    /// Assigns a buffer to a new client.
    pub(super) fn assign(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % BUFFERS
    }

    /// Executes a WRITE so that after a kill either nothing or all of it remains.
    #[inline]
    pub(super) fn write(&self, buffer: usize, to: WriteTarget<'_>, bytes: &[u8]) -> Result<(), WriteRefused> {
        let within_a_word = to.offset % 8 + bytes.len() as u64 <= 8;
        if within_a_word || bytes.len() > WRITE_BYTES_MAX {
            return to.mapping.write_up(to.offset, bytes).map_err(WriteRefused::AccessFault);
        }
        let own = self.buffer(buffer, DATA + bytes.len() as u64)?;
        let at = buffer as u64 * BUFFER_BYTES;
        let target = [u64::from(to.node), to.offset, bytes.len() as u64];
        let write = |at, bytes: &[u8]| self.window.write_up(at, bytes).map_err(WriteRefused::AccessFault);
        write(at + NODE, target.map(u64::to_ne_bytes).as_flattened())?;
        write(at + DATA, bytes)?;
        write(at, &state_of(target, bytes).to_ne_bytes())?;
        let done = to.mapping.write_up(to.offset, bytes).map_err(WriteRefused::AccessFault);
        write(at, &[0; 8])?;
        drop(own);
        done
    }

    /// Locks the buffer, with pages for its first `bytes` bytes.
    #[inline]
    fn buffer(&self, buffer: usize, bytes: u64) -> Result<MutexGuard<'_, u64>, WriteRefused> {
        // If a thread panicked while it held the buffer, its WRITE had been completed or refused.
        let mut pages = self.pages[buffer].lock().unwrap_or_else(PoisonError::into_inner);
        if *pages < bytes {
            let wanted = bytes.max(PROVISION);
            sys::provision(&self.journal.file, buffer_offset(self.slot, buffer), wanted).map_err(
                |error| {
                    WriteRefused::Memory(ShmError::from_io("provision", &self.journal.path, wanted, error))
                },
            )?;
            *pages = wanted;
        }
        Ok(pages)
    }
}

/// Returns the state of a buffer with a WRITE in progress: node, offset and length, and the bytes. Never 0.
fn state_of(target: [u64; 3], bytes: &[u8]) -> u64 {
    let seed = xxh3_64(target.map(u64::to_ne_bytes).as_flattened());
    xxh3_64_with_seed(bytes, seed).max(1)
}

/// Returns the offset of a buffer of a slot in the file.
fn buffer_offset(slot: u16, buffer: usize) -> u64 {
    u64::from(slot) * SLOT_BYTES + buffer as u64 * BUFFER_BYTES
}

const _: () = assert!(BUFFER_BYTES.is_multiple_of(4096), "windows begin at pages");
const _: () = assert!(NODE + 8 == OFFSET && OFFSET + 8 == LENGTH && LENGTH + 8 <= DATA);

#[cfg(test)]
mod tests {
    use super::super::segment::SegmentSpec;
    use super::super::testing::Scratch;
    use super::*;

    const SLOT: u16 = 3;

    struct Bench {
        scratch: Scratch,
        segments: Vec<Arc<Segment>>,
        journal: Arc<Journal>,
        buffers: JournalBuffers,
    }

    impl Bench {
        fn new() -> Self {
            let scratch = Scratch::new();
            let spec = |node| SegmentSpec::new("demo".parse().unwrap(), node, 1 << 20);
            let segment = |node| scratch.dir().create::<ShmError>(&spec(node), |_| Ok(())).unwrap();
            let segments = vec![Arc::new(segment(0)), Arc::new(segment(1))];
            Journal::create(&scratch.dir(), &spec(0).name, 77, FileRights::OWNER).unwrap();
            let journal = Arc::new(Journal::open(&scratch.dir(), &spec(0).name, 77).unwrap());
            let buffers = JournalBuffers::open(Arc::clone(&journal), SLOT).unwrap();
            Self { scratch, segments, journal, buffers }
        }

        fn bytes(&self, node: usize, offset: u64, words: usize) -> Vec<u8> {
            let mut bytes = vec![0; words];
            self.segments[node].mapping().read_down(offset, &mut bytes).unwrap();
            bytes.into_iter().flat_map(u64::to_ne_bytes).collect()
        }

        /// Leaves the buffer in the state of a process that was killed just before it executed its WRITE.
        fn cut_off(&self, buffer: usize, node: u64, offset: u64, bytes: &[u8]) {
            drop(self.buffers.buffer(buffer, DATA + bytes.len() as u64).map_err(|_| ()).unwrap());
            let at = buffer as u64 * BUFFER_BYTES;
            self.buffers.window.write_up(at + NODE, &node.to_ne_bytes()).unwrap();
            self.buffers.window.write_up(at + OFFSET, &offset.to_ne_bytes()).unwrap();
            let length = bytes.len() as u64;
            self.buffers.window.write_up(at + LENGTH, &length.to_ne_bytes()).unwrap();
            self.buffers.window.write_up(at + DATA, bytes).unwrap();
            let state = state_of([node, offset, length], bytes);
            self.buffers.window.write_up(at, &state.to_ne_bytes()).unwrap();
        }
    }

    #[test]
    fn a_completed_write_is_not_replayed() {
        let bench = Bench::new();
        let to = |offset| WriteTarget { node: 1, mapping: bench.segments[1].mapping(), offset };
        for bytes in [3, 24, 1024, 100_001] {
            assert!(bench.buffers.write(2, to(256), &vec![7; bytes]).is_ok());
        }
        bench.segments[1].mapping().write_up(256, &[9; 8]).unwrap();
        bench.journal.replay(SLOT, &bench.segments).unwrap();
        assert_eq!(bench.bytes(1, 256, 2), [[9; 8], [7; 8]].as_flattened());
    }

    #[test]
    fn an_incomplete_write_is_replayed_once() {
        let bench = Bench::new();
        bench.cut_off(0, 1, 512, &[5; 24]);
        bench.cut_off(15, 0, 64, &[6; 16]);
        bench.journal.replay(SLOT + 1, &bench.segments).unwrap();
        assert_eq!(bench.bytes(1, 512, 3), [0; 24], "another slot's buffers");
        bench.journal.replay(SLOT, &bench.segments).unwrap();
        assert_eq!((bench.bytes(1, 512, 3), bench.bytes(0, 64, 2)), (vec![5; 24], vec![6; 16]));
        bench.segments[1].mapping().write_up(512, &[1; 24]).unwrap();
        bench.journal.replay(SLOT, &bench.segments).unwrap();
        assert_eq!(bench.bytes(1, 512, 3), [1; 24]);
    }

    #[test]
    fn a_damaged_state_does_not_repeat_an_old_write() {
        let bench = Bench::new();
        let to = WriteTarget { node: 1, mapping: bench.segments[1].mapping(), offset: 256 };
        for bit in 0..64 {
            assert!(bench.buffers.write(2, to, &[7; 64]).is_ok());
            bench.segments[1].mapping().write_up(256, &[9; 64]).unwrap();
            let state = 2 * BUFFER_BYTES;
            bench.buffers.window.write_up(state, &(1_u64 << bit).to_ne_bytes()).unwrap();
            assert!(bench.journal.replay(SLOT, &bench.segments).is_err(), "bit {bit}");
            assert_eq!(bench.bytes(1, 256, 8), [9; 64], "bit {bit}");
        }
    }

    #[test]
    fn a_damaged_write_is_not_repeated() {
        let bench = Bench::new();
        let at = u64::from(SLOT) * SLOT_BYTES;
        for damaged in [0, NODE, OFFSET, LENGTH, LENGTH + 7, DATA, DATA + 23] {
            bench.cut_off(0, 1, 512, &[5; 24]);
            let mut byte = [0];
            bench.journal.file.read_exact_at(&mut byte, at + damaged).unwrap();
            bench.journal.file.write_all_at(&[byte[0] ^ 1], at + damaged).unwrap();
            assert!(bench.journal.replay(SLOT, &bench.segments).is_err(), "byte {damaged}");
            assert_eq!(bench.bytes(1, 512, 3), [0; 24], "byte {damaged}");
        }
    }

    #[test]
    fn an_invalid_journal_entry_is_refused() {
        let bench = Bench::new();
        for (node, offset) in [(2, 64), (0, 1 << 40)] {
            bench.cut_off(0, node, offset, &[5; 24]);
            assert!(matches!(bench.journal.replay(SLOT, &bench.segments), Err(ShmError::Io { .. })));
        }
    }

    #[test]
    fn a_pool_is_removed_with_its_journal() {
        let bench = Bench::new();
        assert_eq!(bench.scratch.entries().iter().filter(|name| name.ends_with(".journal")).count(), 1);
        bench.scratch.dir().remove(&"demo".parse().unwrap()).unwrap();
        assert_eq!(bench.scratch.entries(), [""; 0]);
    }
}
