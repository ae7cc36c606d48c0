//! The memory of a memory node: host and device memory, the fenced clients, and the node's membership in a pool.
//!
//! # Map
//!
//! ```text
//! 0                                  H                     H + D                      + 4096           + 36864
//! +----------------------------------+---------------------+--------------------------+----------------+
//! |        host memory, H bytes      | device memory, D    | header, one page         | fences         |
//! +----------------------------------+---------------------+--------------------------+----------------+
//!   verbs access these two                                   verbs do not access these
//!
//! header                                       fences
//! +  0   8   magic "FARNODE\0"                 +  8 i   8   slot i of the client table: 0, or
//! +  8   8   version, 1                                     1 << 32 | the newest fenced epoch
//! + 16   8   host memory, bytes: all that clients can address
//! + 24   8   device memory, bytes
//! + 32   8   identity of the pool, or 0
//! + 40   8   number of the node | number of nodes in the pool << 16
//! + 48   8   0: no pool, 1: a pool that is being formed, 2: a whole pool, 3: its last changes are lost, 4: it has
//!             returned to a cut
//! + 56   8   1: in use, 2: stopped cleanly
//! + 64   8   incarnation: random for fresh memory, and renewed when a file that says "in use" is accepted, when the
//!             fences are cleared, and if changes or locks are missing after a failure of the machine
//! + 72   8   the cut of the last return; 0: none
//! ```
//!
//! The memory is anonymous and ends with its memory node, or it is a file, mapped shared, that a later memory node
//! opens. An unlocked file that says "in use" is the result of a crash: it may hold an incomplete WRITE.

mod growth;
mod membership;
mod node_file;
mod snapshot;

pub(super) use growth::MemorySizes;
pub(super) use membership::Membership;
pub use node_file::NodeFile;
pub(super) use snapshot::SnapshotFault;

use super::event::NodeEvent;
use super::log::{self, Durability, Log, LogObserver, LogReport, LogSettings, LogWaits, Origin, Recorder};
use super::snapshot::{SnapshotMutant, Snapshots};
use super::verb_executor::{ImmediateQueue, NodeMemory};
use crate::error::{FileFault, TcpError};
use crate::random_number;
use crate::shm::{AccessFault, HUGE_PAGE_BYTES, Mapping, huge_bytes_free, loss, provision};
use crate::wire::{Code, WireOp, WireVerb};
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::client_table::{self, CLIENTS_MAX, SlotState};
use farwood_fabric::{ClientId, LINE_BYTES, LINE_WORDS, Memory, Remote};
use membership::NO_MEMBERSHIP;
use node_file::OTHER_SIZE;
use rustix::fs::MemfdFlags;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex};

const MAGIC: u64 = u64::from_le_bytes(*b"FARNODE\0");
const VERSION: u64 = 1;
const POOL: u64 = 32;
const NUMBERS: u64 = 40;
const FORMED: u64 = 48;
const STATE: u64 = 56;
const INCARNATION: u64 = 64;
const RETURNED: u64 = 72;
const IN_USE: u64 = 1;
const STOPPED: u64 = 2;
const HEADER_PAGE_BYTES: u64 = 4096;
const PAGE_BYTES: usize = 4096;
const FENCES_BYTES: u64 = 8 * CLIENTS_MAX as u64;
const FENCED: u64 = 1 << 32;
/// Immediates that wait for the server; a sender beyond this limit must retry.
pub(crate) const IMMEDIATES_MAX: usize = 4096;
/// Maximum distance of a fence's epoch from the last fence of the slot, if there is one and the client table is on
/// another node.
const EPOCHS_AHEAD_MAX: u32 = 1 << 20;
/// The number of a node that belongs to no pool.
const NO_NODE: u32 = u32::MAX;

fn bytes_of(host_bytes: u64, device_bytes: u64) -> u64 {
    host_bytes + device_bytes + HEADER_PAGE_BYTES + FENCES_BYTES
}

/// Gives a new file its length, and space for the memory that clients use.
fn allocate(file: &File, sizes: MemorySizes) -> io::Result<()> {
    let bytes = bytes_of(sizes.memory_max, sizes.device);
    file.set_len(bytes)?;
    provision(file, 0, sizes.memory)?;
    provision(file, sizes.memory_max, bytes - sizes.memory_max)
}

/// A memory node's memory. Any number of threads execute verbs in it concurrently.
#[derive(Debug)]
pub(super) struct Store {
    mapping: Arc<Mapping>,
    file: File,
    /// The path of the file; `None` for anonymous memory.
    path: Option<PathBuf>,
    /// The size of the memory when it was created, or the size that was asked for at this start.
    first_memory_bytes: u64,
    host_bytes: u64,
    device_bytes: u64,
    /// [`Membership::node`], for verbs, which take no lock.
    number: AtomicU32,
    /// Whether changes of device memory alone are answered before they are on the disk: the pool has one memory node.
    has_early_locks: AtomicBool,
    membership: Mutex<Membership>,
    immediates: Arc<ImmediateQueue>,
    /// The log of changes; `None`: there is none.
    log: Option<Log>,
    /// Its restart.
    log_report: Option<LogReport>,
    /// Whether clients that were attached to an earlier memory node may continue on its memory.
    has_returning_clients: bool,
    /// Whether verbs execute: not while the pool returns to a cut.
    is_open: AtomicBool,
    snapshots: Snapshots,
}

impl Store {
    /// Creates fresh anonymous memory.
    pub(super) fn anonymous(sizes: MemorySizes) -> io::Result<Self> {
        Self::in_memfd(sizes, MemfdFlags::empty(), (1, CHUNK_BYTES))
    }

    /// Creates fresh anonymous memory in pages of 2 MiB, if enough are free; a device translates addresses by
    /// the page.
    pub(super) fn in_huge_pages(sizes: MemorySizes) -> io::Result<Self> {
        let bytes = bytes_of(sizes.memory_max, sizes.device).next_multiple_of(HUGE_PAGE_BYTES);
        let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        if huge_bytes_free() >= bytes
            && let Ok(store) = Self::in_memfd(sizes, huge, (HUGE_PAGE_BYTES, CHUNK_BYTES))
        {
            return Ok(store);
        }
        Self::anonymous(sizes)
    }

    /// Creates fresh memory in pages of that size, and allocates the first bytes of it.
    fn in_memfd(
        sizes: MemorySizes,
        pages: MemfdFlags,
        (page_bytes, allocated_bytes): (u64, u64),
    ) -> io::Result<Self> {
        let MemorySizes { memory_max: host_bytes, device: device_bytes, .. } = sizes;
        let file: File = rustix::fs::memfd_create("farwood", MemfdFlags::CLOEXEC | pages)?.into();
        let bytes = bytes_of(host_bytes, device_bytes).next_multiple_of(page_bytes);
        file.set_len(bytes)?;
        // Every operation accesses the superblock and the locks, so they get their pages now, and a lack of memory is
        // reported here.
        provision(&file, 0, allocated_bytes)?;
        provision(&file, host_bytes, bytes - host_bytes)?;
        let store = Self::map(file, None, sizes)?;
        store.write_header();
        Ok(store)
    }

    /// Opens the memory in a file; creates a missing file.
    ///
    /// # Errors
    /// [`TcpError::File`]; [`TcpError::Unclean`] unless that is accepted.
    pub(super) fn in_file(file: &NodeFile, sizes: MemorySizes) -> Result<Self, TcpError> {
        if file.durability != Durability::Orderly {
            return Self::with_log(file, sizes);
        }
        if log::is_checkpoint(&file.path) {
            let why = "it is the checkpoint of a memory node with --durability interval or always; give that level, or \
                       another file";
            return Err(file.refused(FileFault::Unfit(why.to_owned())));
        }
        let system = |error| file.refused(FileFault::System(error));
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&file.path);
        let opened = opened.map_err(system)?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(file.refused(FileFault::InUse)),
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        let metadata = opened.metadata().map_err(system)?;
        if !metadata.is_file() {
            return Err(file.refused(FileFault::Unfit("it is not a regular file; name another".to_owned())));
        }
        file.check_owner(&metadata)?;
        let (found, path) = (metadata.len(), Some(file.path.clone()));
        if found == 0 {
            if let Err(error) = allocate(&opened, sizes) {
                // A partly initialised file would be refused as a foreign file, so it is emptied. If that fails as
                // well, the first error is reported.
                let _ = opened.set_len(0);
                return Err(system(error));
            }
            let store = Self::map(opened, path, sizes).map_err(system)?;
            store.write_header();
            return Ok(store);
        }
        let sizes = file.sizes_of(found, sizes)?;
        let mut store = Self::map(opened, path, sizes).map_err(system)?;
        store.check_header().map_err(|why| file.refused(FileFault::Unfit(why)))?;
        let was_stopped = store.header_word(STATE) == STOPPED;
        if !was_stopped && !file.accept_unclean {
            return Err(TcpError::Unclean { path: file.path.clone() });
        }
        if file.clear_fences {
            store.clear_fences();
        }
        // Revoked clients must not return without their fences.
        store.has_returning_clients = was_stopped && !file.clear_fences;
        if !store.has_returning_clients {
            store.set_header_word(INCARNATION, random_number());
        }
        store.load_membership().map_err(|why| file.refused(FileFault::Damaged(why)))?;
        store.set_header_word(STATE, IN_USE);
        store.grow_at_start(file).map_err(|why| file.refused(FileFault::Unfit(why)))?;
        // The word must reach the disk before any other change, so that after a machine failure the file says "in use".
        store.file.sync_all().map_err(system)?;
        Ok(store)
    }

    fn map(file: File, path: Option<PathBuf>, sizes: MemorySizes) -> io::Result<Self> {
        let MemorySizes { memory: first_memory_bytes, memory_max: host_bytes, device: device_bytes } = sizes;
        // The length of the file, which may end with a partial page.
        let bytes = file.metadata()?.len();
        Ok(Self {
            mapping: Arc::new(Mapping::new(&file, bytes)?),
            file,
            path,
            first_memory_bytes,
            host_bytes,
            device_bytes,
            number: AtomicU32::new(NO_NODE),
            has_early_locks: AtomicBool::new(false),
            membership: Mutex::new(NO_MEMBERSHIP),
            immediates: Arc::default(),
            log: None,
            log_report: None,
            has_returning_clients: false,
            is_open: AtomicBool::new(true),
            snapshots: Snapshots::new(first_memory_bytes / 4, None),
        })
    }

    /// Restores the memory from a checkpoint and its log; creates them if they are missing.
    fn with_log(file: &NodeFile, sizes: MemorySizes) -> Result<Self, TcpError> {
        if let Ok(metadata) = fs::metadata(&file.path) {
            file.check_owner(&metadata)?;
        }
        let sizes = match log::memory_bytes(&file.path) {
            Some(bytes) => file.sizes_of(bytes, sizes)?,
            // Its absence, or its damage, is found below.
            None => sizes,
        };
        let allocated_bytes = file.log_tuning.allocated_bytes.unwrap_or(CHUNK_BYTES);
        let mut store = Self::in_memfd(sizes, MemfdFlags::empty(), (1, allocated_bytes))
            .map_err(|error| TcpError::Memory { bytes: sizes.memory_max + sizes.device, error })?;
        let settings = LogSettings { level: file.durability, tuning: file.log_tuning };
        let opened = log::open(&file.path, settings, &store.mapping, &store.file);
        let recovered = opened.map_err(|fault| file.refused(fault))?;
        store.path = Some(file.path.clone());
        let was_stopped = store.header_word(STATE) == STOPPED;
        (store.log, store.log_report) = (Some(recovered.log), Some(recovered.report));
        if recovered.is_new {
            return Ok(store);
        }
        store.check_header().map_err(|why| file.refused(FileFault::Unfit(why)))?;
        if file.clear_fences {
            store.clear_fences();
        }
        store.load_membership().map_err(|why| file.refused(FileFault::Damaged(why)))?;
        // Clients that have seen changes that are missing now must not return, nor those that have taken locks which
        // were not durable.
        let has_failed = recovered.has_failed && !was_stopped;
        let may_miss = recovered.may_miss && has_failed;
        let may_miss_locks = has_failed && store.has_early_locks();
        store.log_report = Some(LogReport { may_miss, may_miss_locks, ..recovered.report });
        store.has_returning_clients = !may_miss && !may_miss_locks && !file.clear_fences;
        if !store.has_returning_clients {
            store.set_header_word(INCARNATION, random_number());
        }
        if may_miss {
            store.require_return();
        } else if may_miss_locks {
            store.clear_device_memory();
        }
        store.resume_cuts();
        store.set_header_word(STATE, IN_USE);
        store.grow_at_start(file).map_err(|why| file.refused(FileFault::Unfit(why)))?;
        // The word must be durable before any answer, so that a restart after a machine failure sees "in use".
        let settled = store.log().map_or(Ok(()), |log| log.sync().and_then(|()| log.begin_boot()));
        settled.map_err(|error| file.refused(FileFault::System(error)))?;
        Ok(store)
    }

    /// Whether changes of device memory alone are answered before they are on the disk. In a pool of several memory
    /// nodes, a lock of one also guards changes of others, which a client could make after a failure of that one.
    #[inline]
    fn has_early_locks(&self) -> bool {
        self.has_early_locks.load(Ordering::Acquire)
    }

    /// Whether clients that were attached to an earlier memory node may continue on its memory.
    pub(super) fn has_returning_clients(&self) -> bool {
        self.has_returning_clients
    }

    /// The log of changes.
    #[inline]
    pub(super) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// The restart of the log.
    pub(super) fn log_report(&self) -> Option<LogReport> {
        self.log_report
    }

    /// Syncs the log until the store is closed; see [`Log::run`].
    pub(super) fn run_log(&self, observer: LogObserver<'_>) {
        if let Some(log) = &self.log {
            log.run(&self.mapping, &self.file, observer);
        }
    }

    /// Frees the locks: no client that was attached before the failure may continue, and releases may be missing.
    fn clear_device_memory(&self) {
        for page in (0..self.device_bytes).step_by(PAGE_BYTES) {
            let (offset, bytes) =
                (self.host_bytes + page, PAGE_BYTES.min((self.device_bytes - page) as usize));
            let mut words = vec![0; bytes.div_ceil(8)];
            self.mapping.read_down(offset, &mut words).expect("device memory is mapped");
            if words.iter().any(|&word| word != 0) {
                self.change(offset, &vec![0; bytes]);
            }
        }
    }

    /// Changes bytes of the memory itself, and records the change.
    fn change(&self, offset: u64, bytes: &[u8]) {
        let _own = self.snapshots.begin_own_change();
        let make = || {
            let _change = self.before_change(offset, bytes.len());
            self.mapping.write_up(offset, bytes).expect("the caller has checked the offset");
        };
        match &self.log {
            None => make(),
            Some(log) => drop(log.change(offset, bytes, make)),
        }
    }

    /// Returns the memory for a verb executor.
    pub(super) fn memory(&self) -> NodeMemory {
        let (mapping, immediates) = (Arc::clone(&self.mapping), Arc::clone(&self.immediates));
        NodeMemory { mapping, host_bytes: self.host_bytes, device_bytes: self.device_bytes, immediates }
    }

    /// Writes the header of fresh memory, the magic last: a header with the magic is complete.
    fn write_header(&self) {
        let sizes = [(16, self.host_bytes), (24, self.device_bytes)];
        let states = [(STATE, IN_USE), (INCARNATION, random_number())];
        for (at, word) in [(8, VERSION)].into_iter().chain(sizes).chain(states).chain([(0, MAGIC)]) {
            self.set_header_word(at, word);
        }
    }

    /// Checks that the header is that of a memory node of these sizes and of a known version; returns the
    /// reason if not.
    fn check_header(&self) -> Result<(), String> {
        let [magic, version, host_bytes, device_bytes] = [0, 8, 16, 24].map(|at| self.header_word(at));
        if magic == MAGIC && version != VERSION {
            return Err(format!(
                "it has version {version}, and this program reads {VERSION}; use the program that created it, or \
                 another file"
            ));
        }
        let fits = (magic, host_bytes, device_bytes) == (MAGIC, self.host_bytes, self.device_bytes);
        if fits { Ok(()) } else { Err(OTHER_SIZE.to_owned()) }
    }

    /// Fails if the file was removed, truncated or replaced: what clients store would be lost at the end.
    pub(super) fn check_file(&self) -> io::Result<()> {
        if let Some(log) = &self.log {
            return log.failure().map_or(Ok(()), Err);
        }
        let Some(path) = &self.path else { return Ok(()) };
        let bytes = bytes_of(self.host_bytes, self.device_bytes);
        // A symbolic link may name the file.
        loss(&self.file, fs::metadata(path), bytes).map_or(Ok(()), |what| {
            let why = "the content of this memory node is lost; start it again with another file";
            Err(io::Error::other(format!("{} was {what} while it was in use: {why}", path.display())))
        })
    }

    /// Records in the header that the memory is unused and complete.
    pub(super) fn close(&self, report: &dyn Fn(NodeEvent)) -> io::Result<()> {
        if let Some(log) = &self.log {
            self.set_header_word(STATE, STOPPED);
            return log.close(&self.mapping, &self.file, report);
        }
        self.file.sync_all()?;
        self.set_header_word(STATE, STOPPED);
        self.file.sync_all()
    }

    /// Reads a word of the header.
    fn header_word(&self, at: u64) -> u64 {
        let at = self.host_bytes + self.device_bytes + at;
        u64::from_le(self.mapping.load(at).expect("the header is mapped"))
    }

    /// Writes a word of the header.
    fn set_header_word(&self, at: u64, word: u64) {
        self.change(self.host_bytes + self.device_bytes + at, &word.to_le_bytes());
    }

    /// Host memory, bytes.
    pub(super) fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    /// Device memory, bytes.
    pub(super) fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Returns the number of resident bytes.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.blocks() * 512)
    }

    /// Returns the incarnation of the memory. Writes of an earlier incarnation may be lost.
    pub(super) fn incarnation(&self) -> u64 {
        self.header_word(INCARNATION)
    }

    /// Records that no verb of `client`, or of an earlier owner of its slot, may execute from now on.
    ///
    /// # Errors
    /// The slot cannot have had this epoch: a fence of a later epoch would refuse the next owners of the slot.
    pub(super) fn fence(&self, client: ClientId) -> Result<(), String> {
        let newest = self.newest_epoch(client.slot);
        if client.epoch > newest {
            return Err(format!("client {client} does not exist: the newest epoch of its slot is {newest}"));
        }
        let at = self.fence_of(client.slot);
        let newest = self.fenced_epoch(client.slot).map_or(client.epoch, |epoch| epoch.max(client.epoch));
        let word = (FENCED | u64::from(newest)).to_le_bytes();
        self.change(at, &word);
        Ok(())
    }

    /// Returns the newest epoch that `slot` can have: memory node 0 has the client table; on the others, the epoch is
    /// near the last fence, because a client fences a predecessor that crashed at every node. Without a last fence, any
    /// epoch is possible: the fences may have been cleared.
    fn newest_epoch(&self, slot: u16) -> u32 {
        if self.number.load(Ordering::Acquire) == 0 {
            let word = self.load(client_table::state_offset(slot));
            // A damaged word does not name a client.
            return SlotState::from_word(slot, word).map_or(0, |state| state.client.epoch);
        }
        self.fenced_epoch(slot).map_or(u32::MAX, |epoch| epoch.saturating_add(EPOCHS_AHEAD_MAX))
    }

    /// Whether a client is attached with that slot, as memory node 0 has recorded it.
    pub(super) fn is_slot_live(&self, slot: u16) -> bool {
        let word = self.load(client_table::state_offset(slot));
        SlotState::from_word(slot, word).is_ok_and(|state| state.live)
    }

    /// Removes all fences.
    fn clear_fences(&self) {
        for slot in 0..CLIENTS_MAX as u16 {
            self.change(self.fence_of(slot), &[0; 8]);
        }
    }

    /// Returns whether `client` was fenced.
    pub(super) fn is_fenced(&self, client: ClientId) -> bool {
        usize::from(client.slot) >= CLIENTS_MAX
            || self.fenced_epoch(client.slot).is_some_and(|epoch| client.epoch <= epoch)
    }

    fn fence_of(&self, slot: u16) -> u64 {
        self.host_bytes + self.device_bytes + HEADER_PAGE_BYTES + 8 * (u64::from(slot) % CLIENTS_MAX as u64)
    }

    fn fenced_epoch(&self, slot: u16) -> Option<u32> {
        let word = self.mapping.load(self.fence_of(slot)).expect("the fences are mapped");
        let word = u64::from_le(word);
        (word & FENCED != 0).then_some(word as u32)
    }

    /// Returns the offset in the mapping of `bytes` bytes at the remote pointer `at`.
    #[inline]
    fn locate(&self, at: u64, bytes: usize) -> Result<u64, Code> {
        let at = Remote::<u8>::from_word(at).ok_or(Code::OutOfRange)?.address();
        let (start, limit) = match at.memory() {
            Memory::Host => (0, self.host_bytes),
            Memory::Device => (self.host_bytes, self.device_bytes),
        };
        let here = u32::from(at.node().0) == self.number.load(Ordering::Acquire);
        if here && at.offset() + bytes as u64 <= limit {
            Ok(start + at.offset())
        } else {
            Err(Code::OutOfRange)
        }
    }

    /// Whether the answer of a change, or of a READ, of these bytes waits for the disk.
    #[inline]
    fn waits_for_disk(&self, offset: u64) -> bool {
        offset < self.host_bytes || !self.has_early_locks()
    }

    /// The state of the log for which an answer waits that has these bytes, which were read before.
    #[inline]
    fn seen(&self, offset: u64, bytes: u64) -> LogWaits {
        match &self.log {
            None => LogWaits::default(),
            Some(log) if self.waits_for_disk(offset) => log.seen(offset, bytes),
            Some(log) => log.seen_early(),
        }
    }

    /// Provisions `bytes` at the remote pointer `at`.
    pub(super) fn provision(&self, at: u64, bytes: u64) -> Result<(), (Code, String)> {
        let out_of_range = || (Code::OutOfRange, "the address is not in its memory".to_owned());
        let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes as u64 <= self.host_bytes);
        let bytes = bytes.ok_or_else(out_of_range)?;
        let offset = self.locate(at, bytes).map_err(|_| out_of_range())?;
        if bytes == 0 {
            return Ok(());
        }
        provision(&self.file, offset, bytes as u64).map_err(|error| (Code::NoMemory, error.to_string()))
    }

    /// Executes one verb, and appends its answer to `out`. With a log, `record` has the frame's record, which the first
    /// verb that may change memory begins.
    #[inline]
    pub(super) fn execute<'s>(
        &'s self,
        verb: &WireVerb<'_>,
        write_fence: &mut WriteFence,
        record: &mut FrameRecord<'s>,
        out: &mut Vec<u64>,
    ) -> Result<(), Code> {
        let refused = |access| match access {
            AccessFault::OutOfRange => Code::OutOfRange,
            AccessFault::Misaligned => Code::Misaligned,
        };
        match verb.op {
            WireOp::Read(bytes) => {
                let offset = self.locate(verb.at, bytes)?;
                write_fence.before_read();
                let start = out.len();
                out.resize(start + bytes.div_ceil(8), 0);
                self.mapping.read_down(offset, &mut out[start..]).map_err(refused)?;
                record.has_seen(self.seen(offset, bytes as u64));
                Ok(())
            }
            WireOp::Write(data, immediate) => {
                let offset = self.locate(verb.at, data.len())?;
                write_fence.after_write();
                let mut recorder = record.begin(self.log.as_ref());
                if let Some(recorder) = &mut recorder
                    && self.waits_for_disk(offset)
                {
                    recorder.announce(offset, data.len() as u64);
                }
                let change = self.before_change(offset, data.len());
                match immediate {
                    None => self.mapping.write_up(offset, data).map_err(refused)?,
                    Some(immediate) => self.write_with_immediate(offset, data, immediate)?,
                }
                drop(change);
                if let Some(recorder) = recorder {
                    recorder.effect(offset, data);
                }
                Ok(())
            }
            WireOp::Cas { .. } | WireOp::MaskedCas { .. } | WireOp::Faa(_) => {
                let offset = self.locate(verb.at, 8)?;
                let Some(log) = &self.log else {
                    let _change = self.before_change(offset, 8);
                    out.push(self.atomic(offset, &verb.op).map_err(refused)?.to_le());
                    return Ok(());
                };
                let Some(recorder) = record.begin(Some(log)) else { unreachable!("there is a log") };
                // All changes wait for the log, so the word stays as it is.
                let old = self.mapping.load(offset).map_err(refused)?;
                let new = verb.op.word_after(old);
                recorder.answer(old);
                out.push(old.to_le());
                if new == old {
                    record.has_seen(self.seen(offset, 8));
                    return Ok(());
                }
                if self.waits_for_disk(offset) {
                    recorder.announce(offset, 8);
                }
                let change = self.before_change(offset, 8);
                self.atomic(offset, &verb.op).map_err(refused)?;
                drop(change);
                recorder.effect(offset, &new.to_ne_bytes());
                Ok(())
            }
        }
    }

    /// Executes an atomic; returns the word before.
    #[inline]
    fn atomic(&self, offset: u64, op: &WireOp<'_>) -> Result<u64, AccessFault> {
        match *op {
            WireOp::Cas { compare, swap } => self.mapping.compare_exchange(offset, compare, swap),
            WireOp::MaskedCas { words: [compare, compare_mask, swap, swap_mask] } => {
                self.mapping.masked_compare_exchange(offset, compare, compare_mask, swap, swap_mask)
            }
            WireOp::Faa(add) => self.mapping.fetch_add(offset, add),
            WireOp::Read(_) | WireOp::Write(..) => unreachable!("the caller executes them"),
        }
    }

    /// Executes a WRITE and its immediate, or neither: a sender that must retry must not have written
    /// already.
    fn write_with_immediate(&self, offset: u64, data: &[u8], immediate: u32) -> Result<(), Code> {
        let mut queue = self.immediates.queue();
        if queue.len() >= IMMEDIATES_MAX {
            return Err(Code::QueueFull);
        }
        self.mapping.write_up(offset, data).map_err(|_| Code::OutOfRange)?;
        queue.push_back(immediate);
        Ok(())
    }

    /// Takes the oldest immediate, if there is one.
    pub(super) fn receive(&self) -> Option<u32> {
        self.immediates.queue().pop_front()
    }

    /// Loads the word at `offset` of host memory, which the caller has checked.
    pub(super) fn load(&self, offset: u64) -> u64 {
        self.mapping.load(offset).expect("the offset was checked")
    }

    /// Loads the words of the line at `offset` of host memory, which the caller has checked, each atomically.
    #[inline]
    pub(super) fn load_line(&self, offset: u64) -> [u64; LINE_WORDS] {
        self.mapping.load_line(offset).expect("the offset was checked")
    }

    /// Copies lines from `offset` of host memory on, which the caller has checked, to their little-endian bytes.
    #[inline]
    pub(super) fn load_lines(&self, offset: u64, lines: &mut [[u8; LINE_BYTES]]) {
        self.mapping.load_lines(offset, lines).expect("the offset was checked");
    }

    /// Prefetches words that will be loaded.
    #[inline]
    pub(super) fn fetch_ahead(&self, offset: u64, bytes: u64) {
        self.mapping.prefetch(offset, bytes);
    }

    /// Stores the words of the line at `offset` of host memory, which the caller has checked, in ascending order.
    pub(super) fn store_line(&self, offset: u64, words: &[u64; LINE_WORDS]) {
        self.change(offset, words.map(u64::to_ne_bytes).as_flattened());
    }

    /// Stores the word at `offset` of host memory, which the caller has checked.
    pub(super) fn store(&self, offset: u64, word: u64) {
        self.change(offset, &word.to_ne_bytes());
    }
}

/// The record of a frame that is being executed, and the state of the log for which its answer waits because of bytes
/// that it contains.
#[derive(Debug, Default)]
pub(super) struct FrameRecord<'l> {
    recorder: Option<Recorder<'l>>,
    seen: LogWaits,
}

impl<'l> FrameRecord<'l> {
    /// The record of the frame, from its first change on; `None`: there is no log.
    #[inline]
    fn begin(&mut self, log: Option<&'l Log>) -> Option<&mut Recorder<'l>> {
        let log = log?;
        Some(self.recorder.get_or_insert_with(|| log.begin()))
    }

    /// The answer has bytes that wait for this.
    #[inline]
    fn has_seen(&mut self, seen: LogWaits) {
        self.seen = self.seen.and(seen);
    }

    /// Ends the record; returns the state of the log for which the answer waits.
    #[inline]
    pub(super) fn end(self, origin: Origin) -> LogWaits {
        let own = self.recorder.map_or_else(LogWaits::default, |recorder| recorder.end(origin));
        own.and(self.seen)
    }
}

/// Enforces the only order that x86 processors do not enforce: a store may wait in the store buffer while a later load
/// executes. A client that arrives after a WRITE was executed must see it, and a WRITE counts as executed when it, or a
/// later READ, is answered.
#[derive(Debug, Default)]
pub(super) struct WriteFence {
    pending: bool,
}

impl WriteFence {
    #[inline]
    fn before_read(&mut self) {
        self.flush();
    }

    #[inline]
    fn after_write(&mut self) {
        self.pending = true;
    }

    /// Must be called before answers are sent.
    #[inline]
    pub(super) fn flush(&mut self) {
        if self.pending {
            fence(Ordering::SeqCst);
            self.pending = false;
        }
    }
}

#[cfg(test)]
mod tests;

const _: () = assert!(RETURNED + 8 <= HEADER_PAGE_BYTES);
const _: () = assert!(HEADER_PAGE_BYTES + FENCES_BYTES == 36_864);
