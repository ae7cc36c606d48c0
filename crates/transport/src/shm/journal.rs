//! The journal: a WRITE whose process is killed in the middle of it is ended by whoever proves the process dead.
//!
//! ```text
//! farwood.NAME.ID.journal, beside the segments of pool NAME, whose number is ID; sparse
//! client slot i has 16 lanes from  i x 16 x 266240  on; each:
//! +    0    8   state: 0, or the length of a WRITE that is under way, bytes
//! +    8    8   its memory node
//! +   16    8   its place in that node's segment
//! + 4096        its bytes, up to 256 KiB
//! ```
//!
//! A WRITE of more than one word is first copied into a lane of its own process, then said to be under way, then done,
//! then said to be done. So of a process that was killed each lane holds a whole WRITE that may have been cut short,
//! or none. Whoever proves that the process is gone ([`Presence::claim`](super::Presence::claim)) does such WRITEs
//! again, before anybody may break the dead one's locks: nothing else has been written there since, if what is written
//! is guarded by a lock. Dying in the middle of this, it leaves the same to do to the next.
//!
//! That is right for what is guarded by a lock, or linked by nothing yet. It is not for what another consumes without
//! a lock, as a message in a ring: done again, it would come twice. Such a WRITE may be of one word, or come with an
//! immediate, which is not sent again.
//!
//! Threads share the lanes of their process, each lane one at a time. A forked child must not post. What is longer
//! than a lane is not journaled.

use super::error::ShmError;
use super::name::PoolName;
use super::segment::{Segment, SegmentDir, remove_file};
use super::sys::{self, Access, Mapping};
use farwood_fabric::client_table::CLIENTS_MAX;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lanes of a client slot.
const LANES: usize = 16;
/// Longest WRITE that is journaled, bytes: a node of the largest size.
pub(super) const WRITE_BYTES_MAX: usize = 256 << 10;
/// Where a lane's bytes begin.
const DATA: u64 = 4096;
const LANE_BYTES: u64 = DATA + WRITE_BYTES_MAX as u64;
const SLOT_BYTES: u64 = LANES as u64 * LANE_BYTES;
const FILE_BYTES: u64 = CLIENTS_MAX as u64 * SLOT_BYTES;
const NODE: u64 = 8;
const PLACE: u64 = 16;
/// Bytes of a lane that get their pages at its first use: they hold WRITEs of nodes of the usual size.
const PROVISION: u64 = DATA + 4096;
/// Whoever may attach to the pool: its owner.
const MODE: u32 = 0o600;

/// A pool's journal, as one attachment sees it.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
}

/// The lanes of this process.
pub(super) struct Lanes {
    journal: Arc<Journal>,
    slot: u16,
    window: Mapping,
    /// How many bytes of each have pages. Who holds the lock has the lane.
    pages: Box<[Mutex<u64>]>,
    next: AtomicUsize,
}

/// The place of a WRITE.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) node: u16,
    pub(super) mapping: &'a Mapping,
    pub(super) offset: u64,
}

/// Why a WRITE was not done.
pub(super) enum Refused {
    Access(Access),
    /// There is no memory for the journal.
    Memory(ShmError),
}

impl Journal {
    /// Makes the journal of a new pool, which has this number, and removes those of earlier pools of this name. The
    /// caller has the sole right to create the pool's node 0.
    pub(super) fn create(dir: &SegmentDir, name: &PoolName, pool: u64) -> Result<(), ShmError> {
        dir.journals(name)?.iter().try_for_each(|path| remove_file(path))?;
        let path = dir.path().join(name.journal_file(pool));
        let made = File::options().write(true).create_new(true).mode(MODE).open(&path);
        let file = made.map_err(ShmError::on("create", &path))?;
        file.set_len(FILE_BYTES).map_err(ShmError::on("enlarge", &path))
    }

    /// Opens the journal of the pool that has this number.
    pub(super) fn open(dir: &SegmentDir, name: &PoolName, pool: u64) -> Result<Self, ShmError> {
        let path = dir.path().join(name.journal_file(pool));
        let found = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        Ok(Self { file: found.map_err(ShmError::on("open", &path))?, path })
    }

    /// Does again what the last owner of `slot`, which is gone, may have been cut off in. The caller has claimed the
    /// slot.
    pub(super) fn replay(&self, slot: u16, segments: &[Arc<Segment>]) -> Result<(), ShmError> {
        for lane in 0..LANES {
            let at = lane_at(slot, lane);
            self.replay_lane(at, segments).map_err(ShmError::on("replay", &self.path))?;
        }
        Ok(())
    }

    /// One lane. Read as a file: a lane that was never used has no pages, and gets none.
    fn replay_lane(&self, at: u64, segments: &[Arc<Segment>]) -> io::Result<()> {
        let length = self.word(at)?;
        if length == 0 {
            return Ok(());
        }
        let corrupt = || io::Error::new(io::ErrorKind::InvalidData, "a lane holds no WRITE of this pool");
        let length =
            usize::try_from(length).ok().filter(|&length| length <= WRITE_BYTES_MAX).ok_or_else(corrupt)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at + DATA)?;
        let segment = usize::try_from(self.word(at + NODE)?).ok().and_then(|node| segments.get(node));
        let segment = segment.ok_or_else(corrupt)?;
        segment.mapping().write_up(self.word(at + PLACE)?, &bytes).map_err(|_| corrupt())?;
        self.file.write_all_at(&[0; 8], at)
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at)?;
        Ok(u64::from_ne_bytes(word))
    }
}

impl Lanes {
    /// The lanes of `slot`, which this process has.
    pub(super) fn open(journal: Arc<Journal>, slot: u16) -> Result<Self, ShmError> {
        let window = Mapping::window(&journal.file, lane_at(slot, 0), SLOT_BYTES);
        let window = window.map_err(ShmError::on("map", &journal.path))?;
        let pages = (0..LANES).map(|_| Mutex::new(0)).collect();
        Ok(Self { journal, slot, window, pages, next: AtomicUsize::new(0) })
    }

    /// A lane for a new client.
    pub(super) fn assign(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % LANES
    }

    /// WRITE, of which a killed process leaves nothing or all.
    #[inline]
    pub(super) fn write(&self, lane: usize, to: Target<'_>, bytes: &[u8]) -> Result<(), Refused> {
        let within_a_word = to.offset % 8 + bytes.len() as u64 <= 8;
        if within_a_word || bytes.len() > WRITE_BYTES_MAX {
            return to.mapping.write_up(to.offset, bytes).map_err(Refused::Access);
        }
        let own = self.lane(lane, DATA + bytes.len() as u64)?;
        let at = lane as u64 * LANE_BYTES;
        let place = [u64::from(to.node).to_ne_bytes(), to.offset.to_ne_bytes()];
        let note = |at, bytes: &[u8]| self.window.write_up(at, bytes).map_err(Refused::Access);
        note(at + NODE, place.as_flattened())?;
        note(at + DATA, bytes)?;
        note(at, &(bytes.len() as u64).to_ne_bytes())?;
        let done = to.mapping.write_up(to.offset, bytes).map_err(Refused::Access);
        note(at, &[0; 8])?;
        drop(own);
        done
    }

    /// The lane, with pages for its first `bytes` bytes.
    #[inline]
    fn lane(&self, lane: usize, bytes: u64) -> Result<MutexGuard<'_, u64>, Refused> {
        // A thread that panicked with a lane had done its WRITE, or was refused it.
        let mut pages = self.pages[lane].lock().unwrap_or_else(PoisonError::into_inner);
        if *pages < bytes {
            let wanted = bytes.max(PROVISION);
            sys::provision(&self.journal.file, lane_at(self.slot, lane), wanted).map_err(|error| {
                Refused::Memory(ShmError::from_io("provision", &self.journal.path, wanted, error))
            })?;
            *pages = wanted;
        }
        Ok(pages)
    }
}

/// Where a lane of a slot begins in the file.
fn lane_at(slot: u16, lane: usize) -> u64 {
    u64::from(slot) * SLOT_BYTES + lane as u64 * LANE_BYTES
}

const _: () = assert!(LANE_BYTES.is_multiple_of(4096), "windows begin at pages");
const _: () = assert!(PLACE + 8 <= DATA);

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
        lanes: Lanes,
    }

    impl Bench {
        fn new() -> Self {
            let scratch = Scratch::new();
            let spec = |node| SegmentSpec::new("demo".parse().unwrap(), node, 1 << 20);
            let segment = |node| scratch.dir().create::<ShmError>(&spec(node), |_| Ok(())).unwrap();
            let segments = vec![Arc::new(segment(0)), Arc::new(segment(1))];
            Journal::create(&scratch.dir(), &spec(0).name, 77).unwrap();
            let journal = Arc::new(Journal::open(&scratch.dir(), &spec(0).name, 77).unwrap());
            let lanes = Lanes::open(Arc::clone(&journal), SLOT).unwrap();
            Self { scratch, segments, journal, lanes }
        }

        fn bytes(&self, node: usize, offset: u64, words: usize) -> Vec<u8> {
            let mut bytes = vec![0; words];
            self.segments[node].mapping().read_down(offset, &mut bytes).unwrap();
            bytes.into_iter().flat_map(u64::to_ne_bytes).collect()
        }

        /// What a process leaves that was killed just before it did its WRITE.
        fn cut_off(&self, lane: usize, node: u64, offset: u64, bytes: &[u8]) {
            drop(self.lanes.lane(lane, DATA + bytes.len() as u64).map_err(|_| ()).unwrap());
            let at = lane as u64 * LANE_BYTES;
            self.lanes.window.write_up(at + NODE, &node.to_ne_bytes()).unwrap();
            self.lanes.window.write_up(at + PLACE, &offset.to_ne_bytes()).unwrap();
            self.lanes.window.write_up(at + DATA, bytes).unwrap();
            self.lanes.window.write_up(at, &(bytes.len() as u64).to_ne_bytes()).unwrap();
        }
    }

    #[test]
    fn a_write_that_was_done_is_not_done_again() {
        let bench = Bench::new();
        let to = |offset| Target { node: 1, mapping: bench.segments[1].mapping(), offset };
        for bytes in [3, 24, 1024, 100_001] {
            assert!(bench.lanes.write(2, to(256), &vec![7; bytes]).is_ok());
        }
        bench.segments[1].mapping().write_up(256, &[9; 8]).unwrap();
        bench.journal.replay(SLOT, &bench.segments).unwrap();
        assert_eq!(bench.bytes(1, 256, 2), [[9; 8], [7; 8]].as_flattened());
    }

    #[test]
    fn a_write_that_was_cut_off_is_done_once() {
        let bench = Bench::new();
        bench.cut_off(0, 1, 512, &[5; 24]);
        bench.cut_off(15, 0, 64, &[6; 16]);
        bench.journal.replay(SLOT + 1, &bench.segments).unwrap();
        assert_eq!(bench.bytes(1, 512, 3), [0; 24], "another slot's lanes");
        bench.journal.replay(SLOT, &bench.segments).unwrap();
        assert_eq!((bench.bytes(1, 512, 3), bench.bytes(0, 64, 2)), (vec![5; 24], vec![6; 16]));
        bench.segments[1].mapping().write_up(512, &[1; 24]).unwrap();
        bench.journal.replay(SLOT, &bench.segments).unwrap();
        assert_eq!(bench.bytes(1, 512, 3), [1; 24]);
    }

    #[test]
    fn what_cannot_be_a_write_is_refused() {
        let bench = Bench::new();
        for (node, offset) in [(2, 64), (0, 1 << 40)] {
            bench.cut_off(0, node, offset, &[5; 24]);
            assert!(matches!(bench.journal.replay(SLOT, &bench.segments), Err(ShmError::Io { .. })));
        }
    }

    #[test]
    fn a_pool_s_journal_goes_with_it() {
        let bench = Bench::new();
        assert_eq!(bench.scratch.entries().iter().filter(|name| name.ends_with(".journal")).count(), 1);
        bench.scratch.dir().remove(&"demo".parse().unwrap()).unwrap();
        assert_eq!(bench.scratch.entries(), [""; 0]);
    }
}
