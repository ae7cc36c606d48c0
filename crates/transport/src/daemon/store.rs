//! What a memory node keeps: its two memories, who may not come back, and which node of which pool it is.
//!
//! # Map
//!
//! ```text
//! 0                                  H                     H + D                      + 4096           + 36864
//! +----------------------------------+---------------------+--------------------------+----------------+
//! |        host memory, H bytes      | device memory, D    | papers, one page         | fences         |
//! +----------------------------------+---------------------+--------------------------+----------------+
//!   verbs reach these two                                    verbs do not reach these
//!
//! papers                                       fences
//! +  0   8   magic "FARNODE\0"                 +  8 i   8   slot i of the client table: 0, or
//! +  8   8   version, 1                                     1 << 32 | the newest epoch that was fenced
//! + 16   8   host memory, bytes
//! + 24   8   device memory, bytes
//! + 32   8   identity of the pool, or 0
//! + 40   8   number of the node, and of nodes in the pool << 16
//! + 48   8   0: no pool, 1: a pool that is being formed, 2: a whole pool
//! + 56   8   1: in use, 2: stopped, with everything in its place
//! + 64   8   incarnation: drawn for fresh memory, and again when a file is taken up that says "in use"
//! ```
//!
//! The memory has no name and is gone with its memory node, or it is a file, mapped shared, that a later memory node
//! takes up. A file that says "in use" and that nobody has locked is what a crash left: a WRITE may be half in it.

use super::verb_executor::{Immediates, NodeMemory};
use crate::error::{FileFault, TcpError};
use crate::shm::{Access, HUGE_PAGE_BYTES, Mapping, huge_bytes_free, provision};
use crate::wire::{Code, Formed, WireOp, WireVerb};
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::client_table::CLIENTS_MAX;
use farwood_fabric::superblock::HEADER_OFFSET;
use farwood_fabric::{ClientId, LINE_WORDS, Memory, NodeId, PoolShape, Remote};
use rustix::fs::MemfdFlags;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: u64 = u64::from_le_bytes(*b"FARNODE\0");
const VERSION: u64 = 1;
const POOL: u64 = 32;
const NUMBERS: u64 = 40;
const FORMED: u64 = 48;
const STATE: u64 = 56;
const INCARNATION: u64 = 64;
const IN_USE: u64 = 1;
const STOPPED: u64 = 2;
const PAPERS_BYTES: u64 = 4096;
const FENCES_BYTES: u64 = 8 * CLIENTS_MAX as u64;
const FENCED: u64 = 1 << 32;
/// Immediates that wait for the server; a sender beyond them is told to try again.
pub(crate) const IMMEDIATES_MAX: usize = 4096;
/// Why a file is not taken up whose length, or whose papers, are not those of a memory node of the wanted size.
const OTHER_SIZE: &str = "it is no memory node's, or one's of another size: give the --memory and --device-memory that \
                          it was made with, or another file";
/// The number of a node that belongs to no pool.
const BLANK: u32 = u32::MAX;

/// A file that keeps a memory node's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// Where it is. It is made if it is not there.
    pub path: PathBuf,
    /// Whether to take it up although its last memory node did not stop in an orderly way. What was being written then
    /// may be half-written; walking an index (`farwood check`) finds such nodes.
    pub accept_unclean: bool,
}

impl NodeFile {
    /// Whether a card can execute verbs in it: it pins the pages for good, which file systems on disks do not bear, and
    /// what it writes there might never reach the disk.
    ///
    /// # Errors
    /// [`TcpError::File`].
    pub(super) fn check_for_card(&self) -> Result<(), TcpError> {
        let refuse = |fault| Err(self.refused(fault));
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let there = if self.path.exists() { &*self.path } else { folder.unwrap_or(Path::new(".")) };
        match rustix::fs::statfs(there) {
            Ok(found) if found.f_type == libc::TMPFS_MAGIC => Ok(()),
            Ok(_) => refuse(FileFault::Unfit(
                "a card pins the pages of its memory, and only those of a tmpfs bear that; name a file on one \
                 (/dev/shm), which outlives the memory node but not the machine, or leave --file or --rdma out"
                    .to_owned(),
            )),
            Err(error) => refuse(FileFault::System(error.into())),
        }
    }

    fn refused(&self, fault: FileFault) -> TcpError {
        TcpError::File { path: self.path.clone(), fault }
    }
}

/// A number that nobody drew before.
fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn bytes_of(host_bytes: u64, device_bytes: u64) -> u64 {
    host_bytes + device_bytes + PAPERS_BYTES + FENCES_BYTES
}

/// Which node of which pool a memory node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    /// Identity of the pool.
    pub(super) pool: u64,
    /// Number of the node.
    pub(super) node: u16,
    /// Memory nodes of the pool.
    pub(super) nodes: u16,
    /// How far the forming of the pool has come, as this node knows.
    pub(super) formed: Formed,
}

const NOBODYS: Membership = Membership { pool: 0, node: 0, nodes: 0, formed: Formed::Blank };

/// A memory node's memory. Verbs of any number of threads execute in it at once.
#[derive(Debug)]
pub(super) struct Store {
    mapping: Arc<Mapping>,
    file: File,
    host_bytes: u64,
    device_bytes: u64,
    /// [`Membership::node`], where verbs find it without a lock.
    number: AtomicU32,
    membership: Mutex<Membership>,
    immediates: Arc<Immediates>,
}

impl Store {
    /// Fresh memory without a name.
    pub(super) fn anonymous(host_bytes: u64, device_bytes: u64) -> io::Result<Self> {
        Self::nameless(host_bytes, device_bytes, MemfdFlags::empty(), 1)
    }

    /// The same in pages of 2 MiB, where as many are free; a card translates addresses by the page.
    pub(super) fn in_huge_pages(host_bytes: u64, device_bytes: u64) -> io::Result<Self> {
        let bytes = bytes_of(host_bytes, device_bytes).next_multiple_of(HUGE_PAGE_BYTES);
        let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        if huge_bytes_free() >= bytes
            && let Ok(store) = Self::nameless(host_bytes, device_bytes, huge, HUGE_PAGE_BYTES)
        {
            return Ok(store);
        }
        Self::anonymous(host_bytes, device_bytes)
    }

    fn nameless(host_bytes: u64, device_bytes: u64, pages: MemfdFlags, page_bytes: u64) -> io::Result<Self> {
        let file: File = rustix::fs::memfd_create("farwood", MemfdFlags::CLOEXEC | pages)?.into();
        let bytes = bytes_of(host_bytes, device_bytes).next_multiple_of(page_bytes);
        file.set_len(bytes)?;
        // The superblock and the locks are touched by every operation; and here is told if there is no memory.
        provision(&file, 0, CHUNK_BYTES)?;
        provision(&file, host_bytes, bytes - host_bytes)?;
        let store = Self::map(file, host_bytes, device_bytes)?;
        store.note_all();
        Ok(store)
    }

    /// The memory in a file, which is made if it is not there.
    ///
    /// # Errors
    /// [`TcpError::File`]; [`TcpError::Unclean`] unless that is accepted.
    pub(super) fn in_file(file: &NodeFile, host_bytes: u64, device_bytes: u64) -> Result<Self, TcpError> {
        let system = |error| file.refused(FileFault::System(error));
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&file.path);
        let opened = opened.map_err(system)?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(file.refused(FileFault::InUse)),
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        let (bytes, found) = (bytes_of(host_bytes, device_bytes), opened.metadata().map_err(system)?.len());
        if found == 0 {
            if let Err(error) = opened.set_len(bytes).and_then(|()| provision(&opened, 0, bytes)) {
                // A file that is half made would be taken for another's. If this fails as well, the first is told.
                let _ = opened.set_len(0);
                return Err(system(error));
            }
            let store = Self::map(opened, host_bytes, device_bytes).map_err(system)?;
            store.note_all();
            return Ok(store);
        }
        if found != bytes {
            return Err(file.refused(FileFault::Unfit(OTHER_SIZE.to_owned())));
        }
        let store = Self::map(opened, host_bytes, device_bytes).map_err(system)?;
        store.check_papers().map_err(|why| file.refused(FileFault::Unfit(why)))?;
        let was_stopped = store.noted(STATE) == STOPPED;
        if !was_stopped && !file.accept_unclean {
            return Err(TcpError::Unclean { path: file.path.clone() });
        }
        if !was_stopped {
            store.note(INCARNATION, drawn());
        }
        store.remember().map_err(|why| file.refused(FileFault::Damaged(why)))?;
        store.note(STATE, IN_USE);
        // Before anything else of it changes on the disk: if the machine fails, this is known.
        store.file.sync_all().map_err(system)?;
        Ok(store)
    }

    fn map(file: File, host_bytes: u64, device_bytes: u64) -> io::Result<Self> {
        // As long as the file, which may end with a page that is not full.
        let bytes = file.metadata()?.len();
        Ok(Self {
            mapping: Arc::new(Mapping::new(&file, bytes)?),
            file,
            host_bytes,
            device_bytes,
            number: AtomicU32::new(BLANK),
            membership: Mutex::new(NOBODYS),
            immediates: Arc::default(),
        })
    }

    /// What a card is fitted to.
    pub(super) fn memory(&self) -> NodeMemory {
        let (mapping, immediates) = (Arc::clone(&self.mapping), Arc::clone(&self.immediates));
        NodeMemory { mapping, host_bytes: self.host_bytes, device_bytes: self.device_bytes, immediates }
    }

    /// Writes the papers of fresh memory, the magic last: who finds it finds the rest.
    fn note_all(&self) {
        let sizes = [(16, self.host_bytes), (24, self.device_bytes)];
        let states = [(STATE, IN_USE), (INCARNATION, drawn())];
        for (at, word) in [(8, VERSION)].into_iter().chain(sizes).chain(states).chain([(0, MAGIC)]) {
            self.note(at, word);
        }
    }

    /// Whether the papers are those of a memory node of these sizes that this program can read; if not, why.
    fn check_papers(&self) -> Result<(), String> {
        let [magic, version, host_bytes, device_bytes] = [0, 8, 16, 24].map(|at| self.noted(at));
        if magic == MAGIC && version != VERSION {
            return Err(format!(
                "it is of version {version}, and this program reads {VERSION}; use the program that made it, or \
                 another file"
            ));
        }
        let fits = (magic, host_bytes, device_bytes) == (MAGIC, self.host_bytes, self.device_bytes);
        if fits { Ok(()) } else { Err(OTHER_SIZE.to_owned()) }
    }

    /// Takes up what the papers say.
    fn remember(&self) -> Result<(), String> {
        let (pool, numbers) = (self.noted(POOL), self.noted(NUMBERS));
        let formed = match self.noted(FORMED) {
            0 => return Ok(()),
            1 => Formed::Part,
            2 => Formed::Whole,
            other => return Err(format!("its papers are damaged: {other} stands for no state of a pool")),
        };
        let (node, nodes) = (numbers as u16, (numbers >> 16) as u16);
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner) =
            Membership { pool, node, nodes, formed };
        self.number.store(node.into(), Ordering::Release);
        Ok(())
    }

    /// Notes that nobody uses the memory any more, and that all of it is in its place.
    pub(super) fn close(&self) -> io::Result<()> {
        self.file.sync_all()?;
        self.note(STATE, STOPPED);
        self.file.sync_all()
    }

    /// Reads a word of the papers.
    fn noted(&self, at: u64) -> u64 {
        let at = self.host_bytes + self.device_bytes + at;
        u64::from_le(self.mapping.load(at).expect("the papers are mapped"))
    }

    /// Writes a word of the papers.
    fn note(&self, at: u64, word: u64) {
        let at = self.host_bytes + self.device_bytes + at;
        self.mapping.write_up(at, &word.to_le_bytes()).expect("the papers are mapped");
    }

    /// Host memory, bytes.
    pub(super) fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    /// Device memory, bytes.
    pub(super) fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Bytes that have pages.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.blocks() * 512)
    }

    /// Which life of the memory this is. What was written in an earlier one may be lost.
    pub(super) fn incarnation(&self) -> u64 {
        self.noted(INCARNATION)
    }

    /// Which node of which pool this is.
    pub(super) fn membership(&self) -> Membership {
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes fresh memory that node of that pool, and writes its superblock. What it is already, it may become again.
    ///
    /// # Errors
    /// In words, where it is another node, or cannot be.
    pub(super) fn form(&self, pool: u64, node: u16, nodes: u16) -> Result<(), String> {
        const WITHIN: &str = "the superblock is mapped";
        let mut membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        let is = *membership;
        if is.formed != Formed::Blank {
            let same = (is.pool, is.node, is.nodes) == (pool, node, nodes);
            return if same {
                Ok(())
            } else {
                Err(format!("it is node {} of {} of another pool", is.node, is.nodes))
            };
        }
        let (host_bytes, device_bytes) = (self.host_bytes, self.device_bytes);
        let shape = PoolShape { pool, nodes, host_bytes, device_bytes };
        if node >= nodes || pool == 0 {
            return Err(format!("there is no node {node} of {nodes}"));
        }
        if let Some(why) = shape.refuse() {
            return Err(why);
        }
        for (offset, word) in PoolShape::first_words() {
            self.mapping.write_up(offset, &word.to_le_bytes()).expect(WITHIN);
        }
        self.mapping.write_up(HEADER_OFFSET, &shape.header(NodeId(node))).expect(WITHIN);
        *membership = Membership { pool, node, nodes, formed: Formed::Part };
        self.note(POOL, pool);
        self.note(NUMBERS, u64::from(node) | u64::from(nodes) << 16);
        self.note(FORMED, Formed::Part as u64);
        self.number.store(node.into(), Ordering::Release);
        Ok(())
    }

    /// Notes that all nodes of the pool were formed.
    pub(super) fn whole(&self) -> Result<(), String> {
        let mut membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        if membership.formed == Formed::Blank {
            return Err("it belongs to no pool".to_owned());
        }
        membership.formed = Formed::Whole;
        self.note(FORMED, Formed::Whole as u64);
        Ok(())
    }

    /// Notes that nothing of `client`, nor of who had its slot before it, may land any more.
    pub(super) fn fence(&self, client: ClientId) {
        let at = self.fence_of(client.slot);
        let newest = self.fenced_epoch(client.slot).map_or(client.epoch, |epoch| epoch.max(client.epoch));
        let word = (FENCED | u64::from(newest)).to_le_bytes();
        self.mapping.write_up(at, &word).expect("the fences are mapped");
    }

    /// Whether `client` was fenced.
    pub(super) fn is_fenced(&self, client: ClientId) -> bool {
        usize::from(client.slot) >= CLIENTS_MAX
            || self.fenced_epoch(client.slot).is_some_and(|epoch| client.epoch <= epoch)
    }

    fn fence_of(&self, slot: u16) -> u64 {
        self.host_bytes + self.device_bytes + PAPERS_BYTES + 8 * (u64::from(slot) % CLIENTS_MAX as u64)
    }

    fn fenced_epoch(&self, slot: u16) -> Option<u32> {
        let word = self.mapping.load(self.fence_of(slot)).expect("the fences are mapped");
        let word = u64::from_le(word);
        (word & FENCED != 0).then_some(word as u32)
    }

    /// The place in the mapping of `bytes` bytes at the remote pointer `at`.
    #[inline]
    fn place(&self, at: u64, bytes: usize) -> Result<u64, Code> {
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

    /// Makes `bytes` at the remote pointer `at` real.
    pub(super) fn provision(&self, at: u64, bytes: u64) -> Result<(), (Code, String)> {
        let out_of_range = || (Code::OutOfRange, "that is not its memory".to_owned());
        let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes as u64 <= self.host_bytes);
        let bytes = bytes.ok_or_else(out_of_range)?;
        let offset = self.place(at, bytes).map_err(|_| out_of_range())?;
        if bytes == 0 {
            return Ok(());
        }
        provision(&self.file, offset, bytes as u64).map_err(|error| (Code::NoMemory, error.to_string()))
    }

    /// Executes one verb, and appends its answer to `out`.
    #[inline]
    pub(super) fn execute(
        &self,
        verb: &WireVerb<'_>,
        order: &mut Order,
        out: &mut Vec<u64>,
    ) -> Result<(), Code> {
        let refused = |access| match access {
            Access::OutOfRange => Code::OutOfRange,
            Access::Misaligned => Code::Misaligned,
        };
        match verb.op {
            WireOp::Read(bytes) => {
                let offset = self.place(verb.at, bytes)?;
                order.before_read();
                let start = out.len();
                out.resize(start + bytes.div_ceil(8), 0);
                self.mapping.read_down(offset, &mut out[start..]).map_err(refused)
            }
            WireOp::Write(data, immediate) => {
                let offset = self.place(verb.at, data.len())?;
                order.after_write();
                match immediate {
                    None => self.mapping.write_up(offset, data).map_err(refused),
                    Some(immediate) => self.write_and_tell(offset, data, immediate),
                }
            }
            WireOp::Cas { compare, swap } => {
                let offset = self.place(verb.at, 8)?;
                out.push(self.mapping.compare_exchange(offset, compare, swap).map_err(refused)?.to_le());
                Ok(())
            }
            WireOp::MaskedCas { words: [compare, compare_mask, swap, swap_mask] } => {
                let offset = self.place(verb.at, 8)?;
                let old =
                    self.mapping.masked_compare_exchange(offset, compare, compare_mask, swap, swap_mask);
                out.push(old.map_err(refused)?.to_le());
                Ok(())
            }
            WireOp::Faa(add) => {
                let offset = self.place(verb.at, 8)?;
                out.push(self.mapping.fetch_add(offset, add).map_err(refused)?.to_le());
                Ok(())
            }
        }
    }

    /// A WRITE and its immediate, or neither: whoever is told to try again must not have written already.
    fn write_and_tell(&self, offset: u64, data: &[u8], immediate: u32) -> Result<(), Code> {
        let mut queue = self.immediates.queue();
        if queue.len() >= IMMEDIATES_MAX {
            return Err(Code::QueueFull);
        }
        self.mapping.write_up(offset, data).map_err(|_| Code::OutOfRange)?;
        queue.push_back(immediate);
        Ok(())
    }

    /// The oldest immediate, if there is one.
    pub(super) fn receive(&self) -> Option<u32> {
        self.immediates.queue().pop_front()
    }

    /// The word at `offset` of host memory, which the caller has checked.
    pub(super) fn load(&self, offset: u64) -> u64 {
        self.mapping.load(offset).expect("the offset was checked")
    }

    /// The words of the line at `offset` of host memory, which the caller has checked, each at its own moment.
    #[inline]
    pub(super) fn load_line(&self, offset: u64) -> [u64; LINE_WORDS] {
        self.mapping.load_line(offset).expect("the offset was checked")
    }

    /// Lets the processor fetch what will be loaded.
    #[inline]
    pub(super) fn fetch_ahead(&self, offset: u64, bytes: u64) {
        self.mapping.prefetch(offset, bytes);
    }

    /// Replaces the word at `offset` of host memory, which the caller has checked.
    pub(super) fn store(&self, offset: u64, word: u64) {
        self.mapping.write_up(offset, &word.to_ne_bytes()).expect("the offset was checked");
    }
}

/// Keeps the one order that a processor does not keep by itself: a store may wait in its store buffer while a later
/// load is served. Whoever arrives after a WRITE was executed must see it, and a WRITE was executed when a READ behind
/// it is answered, or the WRITE is.
#[derive(Debug, Default)]
pub(super) struct Order {
    unseen: bool,
}

impl Order {
    #[inline]
    fn before_read(&mut self) {
        self.before_answers();
    }

    #[inline]
    fn after_write(&mut self) {
        self.unseen = true;
    }

    /// To be called before answers leave.
    #[inline]
    pub(super) fn before_answers(&mut self) {
        if self.unseen {
            fence(Ordering::SeqCst);
            self.unseen = false;
        }
    }
}

const _: () = assert!(STATE + 8 <= PAPERS_BYTES);
const _: () = assert!(PAPERS_BYTES + FENCES_BYTES == 36_864);
