//! The system calls of shared memory, and the only unsafe code of this fabric: mapped words, and the calls
//! that `std` does not have.
//!
//! **No reference into mapped memory.** Other processes store to it at any time, so neither `&[u8]` nor
//! `&u64` into it may ever exist. All accesses go through raw pointers and one [`AtomicU64`] per word; only
//! an atomic may be shared with a writer. The order in which words are copied is a promise, proven in
//! [`copying`](super::copying).

use crate::fork::{ForkCount, OwnMapping};
use farwood_fabric::{Access, LINE_BYTES, LINE_WORDS, line_bytes};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of huge pages: the one that x86-64 and most arm64 systems have.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;
const WORD_BYTES: u64 = size_of::<u64>() as u64;
/// Maximum lines of a prefetch: more would only fill the queue of outstanding misses.
const PREFETCH_LINES_MAX: usize = 32;

// Offsets are 64-bit and become pointers.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// The reason why a mapping refused an access: the caller's pointer is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessFault {
    /// Part of the access lies outside the mapping.
    #[error("the access leaves the segment")]
    OutOfRange,
    /// The offset is not a multiple of 8.
    #[error("the access is not aligned to 8 bytes")]
    Misaligned,
}

/// A file's bytes, mapped and shared with every process that maps the same file; unmapped on drop.
///
/// All methods take a byte offset from the start of the file, and are safe during concurrent accesses by
/// other threads and processes. They may kill the process with `SIGBUS` if the kernel has no page for a word:
/// after a truncation of the file, or at a hole on a full file system. So segments are never truncated, and a
/// range is provisioned before it is used.
///
/// The mapping keeps the open file description of its file alive (see [`Presence`](super::Presence)).
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u64>,
    bytes: u64,
    /// The bytes that may be stored to: all, or none if the pages are mapped for reading.
    writable_bytes: u64,
    /// The process in which a device has registered it. The kernel may keep registered pages out of a forked child,
    /// whose C library may then use the addresses for other memory.
    registered: OnceLock<ForkCount>,
    /// `None` while it is dropped.
    own: Option<OwnMapping>,
}

// SAFETY: `Mapping` owns its range of addresses, which any thread may use and unmap; it is not tied to a
// thread.
unsafe impl Send for Mapping {}
// SAFETY: every access through `&Mapping` is an atomic one, and unmapping needs the mapping by value.
unsafe impl Sync for Mapping {}

/// Returns nanoseconds on a clock that all processes of this machine share and that never decreases.
pub(crate) fn monotonic_nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` through the pointer, which is valid for the whole call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert!(failed == 0, "every Linux has a monotonic clock");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Mapping {
    /// Maps the first `bytes` of `file`, for reading and writing. `bytes` is a positive multiple of 8, and
    /// the file is at least that long.
    pub fn new(file: &File, bytes: u64) -> io::Result<Self> {
        Self::window(file, 0, bytes)
    }

    /// As [`new`](Self::new) with [`Access::ReadWrite`]. With [`Access::ReadOnly`], the file may be open for reading
    /// only, and every method that stores returns [`AccessFault::OutOfRange`].
    pub fn with_access(file: &File, bytes: u64, access: Access) -> io::Result<Self> {
        Self::map(file, 0, bytes, access)
    }

    /// Like [`new`](Self::new), from offset `from` on, which is a multiple of the page size. Offsets count
    /// from there.
    pub(super) fn window(file: &File, from: u64, bytes: u64) -> io::Result<Self> {
        Self::map(file, from, bytes, Access::ReadWrite)
    }

    fn map(file: &File, from: u64, bytes: u64, access: Access) -> io::Result<Self> {
        let end = from.saturating_add(bytes);
        if bytes == 0 || !bytes.is_multiple_of(WORD_BYTES) || i64::try_from(end).is_err() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("cannot map {bytes} bytes")));
        }
        if file.metadata()?.len() < end {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than its mapping"));
        }
        let reserved = if from.is_multiple_of(HUGE_PAGE_BYTES) { Reserved::new(bytes) } else { None };
        let (address_hint, fixed) = reserved.as_ref().map_or((std::ptr::null_mut(), 0), |reserved| {
            (reserved.at.map_addr(|at| at.next_multiple_of(HUGE_PAGE_BYTES as usize)), libc::MAP_FIXED)
        });
        let (protection, writable_bytes) = match access {
            Access::ReadWrite => (libc::PROT_READ | libc::PROT_WRITE, bytes),
            Access::ReadOnly => (libc::PROT_READ, 0),
        };
        // SAFETY: the kernel chooses the address, or it lies in a range that was reserved for this mapping
        // and that it fits into; so it overlaps no memory in use. The kernel checks the length, and the
        // descriptor is open for the whole call.
        let at = unsafe {
            let (share, file, from) = (libc::MAP_SHARED | fixed, file.as_raw_fd(), from.cast_signed());
            libc::mmap(address_hint, bytes as usize, protection, share, file, from)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if let Some(reserved) = reserved {
            reserved.keep(at.addr(), bytes as usize);
        }
        let base = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        let own = Some(OwnMapping::new(at.addr(), bytes as usize));
        Ok(Self { base, bytes, writable_bytes, registered: OnceLock::new(), own })
    }

    /// Returns the mapped bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the address of the first byte, for an RDMA device. No reference is made from it.
    #[cfg(any(test, feature = "rdma"))]
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr().expose_provenance() as u64
    }

    /// Records that a device has registered the memory.
    #[cfg(feature = "rdma")]
    pub(crate) fn set_registered(&self) {
        let _ = self.registered.get_or_init(ForkCount::now);
        self.own.iter().for_each(OwnMapping::exclude);
    }

    /// READ: copies `into.len()` words from `offset` on, in **decreasing** address order, each with Acquire.
    #[inline]
    pub fn read_down(&self, offset: u64, into: &mut [u64]) -> Result<(), AccessFault> {
        let from = self.words(offset, size_of_val(into) as u64)?;
        prefetch_words(from, into.len());
        let (head, lines) = into.as_rchunks_mut::<LINE_WORDS>();
        let head_words = head.len();
        for (index, line) in lines.iter_mut().enumerate().rev() {
            // SAFETY: `from` starts `into.len()` mapped words, and line `index` lies within as many words.
            let at = unsafe { from.add(head_words + index * LINE_WORDS) };
            copy_down(at, line);
        }
        copy_down(from, head);
        Ok(())
    }

    /// WRITE: copies `bytes` to `offset`, in **increasing** address order, each word with Release. Any offset and
    /// length is valid: words that are covered in part are merged atomically, so that neighbouring bytes are neither
    /// lost nor torn; whole words are stored by plain stores.
    #[inline]
    pub fn write_up(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessFault> {
        self.writable(offset, bytes.len() as u64)?;
        let byte_in_word = (offset % WORD_BYTES) as usize;
        let mut at = self.word(offset - byte_in_word as u64);
        let mut rest = bytes;
        if byte_in_word != 0 {
            let (edge, after) = bytes.split_at(bytes.len().min(WORD_BYTES as usize - byte_in_word));
            merge(at, byte_in_word, edge);
            if after.is_empty() {
                return Ok(());
            }
            at = self.word(offset + edge.len() as u64);
            rest = after;
        }
        let (words, edge) = rest.as_chunks();
        for (index, word) in words.iter().enumerate() {
            // SAFETY: `at` starts `words.len()` whole words within the range checked above.
            let at = unsafe { at.add(index) };
            atomic(at).store(u64::from_ne_bytes(*word), Ordering::Release);
        }
        if !edge.is_empty() {
            merge(self.word(offset + (bytes.len() - edge.len()) as u64), 0, edge);
        }
        Ok(())
    }

    /// Hints that `bytes` from `offset` on will be read soon, so that several reads' misses overlap. Does nothing
    /// where the range is not mapped.
    #[inline]
    pub fn prefetch(&self, offset: u64, bytes: u64) {
        if let Ok(from) = self.words(offset & !(WORD_BYTES - 1), bytes) {
            prefetch_words(from, (bytes / WORD_BYTES) as usize);
        }
    }

    /// Loads the eight words from `offset` on, each with Acquire.
    #[expect(clippy::inline_always, reason = "servers load words in the inner loops of searches")]
    #[inline(always)]
    pub fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], AccessFault> {
        let mut line = [0; LINE_WORDS];
        copy_down(self.words(offset, LINE_BYTES as u64)?, &mut line);
        Ok(line)
    }

    /// Copies lines from `offset` on to their little-endian bytes, each word with Acquire.
    #[inline]
    pub fn load_lines(&self, offset: u64, lines: &mut [[u8; LINE_BYTES]]) -> Result<(), AccessFault> {
        for (at, line) in lines.iter_mut().enumerate() {
            *line = line_bytes(self.load_line(offset + (LINE_BYTES * at) as u64)?);
        }
        Ok(())
    }

    /// Loads the word at `offset`. SeqCst.
    #[inline]
    pub fn load(&self, offset: u64) -> Result<u64, AccessFault> {
        Ok(atomic(self.words(offset, WORD_BYTES)?).load(Ordering::SeqCst))
    }

    /// CAS: stores `swap` if the word is `compare`; returns the old word (`compare`: it was swapped). SeqCst.
    #[inline]
    pub fn compare_exchange(&self, offset: u64, compare: u64, swap: u64) -> Result<u64, AccessFault> {
        let word = atomic(self.writable_word(offset)?);
        let was = word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
        Ok(was.unwrap_or_else(|was| was))
    }

    /// Masked CAS: if the word equals `compare` in the bits of `compare_mask`, its bits of `swap_mask` become
    /// those of `swap`; returns the old word. Atomic over all eight bytes. SeqCst.
    #[inline]
    pub fn masked_compare_exchange(
        &self,
        offset: u64,
        compare: u64,
        compare_mask: u64,
        swap: u64,
        swap_mask: u64,
    ) -> Result<u64, AccessFault> {
        let word = atomic(self.writable_word(offset)?);
        let was = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |was| {
            ((was ^ compare) & compare_mask == 0).then_some((was & !swap_mask) | (swap & swap_mask))
        });
        Ok(was.unwrap_or_else(|was| was))
    }

    /// FAA: adds `add`, wrapping; returns the old word. SeqCst.
    #[inline]
    pub fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessFault> {
        Ok(atomic(self.writable_word(offset)?).fetch_add(add, Ordering::SeqCst))
    }

    /// Requests transparent huge pages. Nothing else changes, whether they are granted or not.
    pub fn advise_huge_pages(&self) -> io::Result<()> {
        self.advise(0, self.bytes, libc::MADV_HUGEPAGE)
    }

    /// Collapses the existing pages of a range into huge pages, where they fill whole huge pages. If it fails, because
    /// no huge page is free or the range fills none, only the cost of accesses differs.
    pub fn collapse(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.within(offset, bytes).map_err(|access| io::Error::new(io::ErrorKind::InvalidInput, access))?;
        let (start, end) = (offset.next_multiple_of(HUGE_PAGE_BYTES), offset + bytes);
        let whole = end.saturating_sub(start) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if whole == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the range fills no huge page"));
        }
        self.advise(start, whole, libc::MADV_COLLAPSE)
    }

    /// Enters the pages of a range into this process's page table, so that no later access faults. Holes get
    /// pages: provision the range first. `offset` and `bytes` are rounded outward to whole pages.
    pub fn prefault(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.within(offset, bytes).map_err(|access| io::Error::new(io::ErrorKind::InvalidInput, access))?;
        let page = page_bytes();
        let start = offset / page * page;
        let length = (offset + bytes).next_multiple_of(page).min(self.bytes) - start;
        let advice =
            if self.writable_bytes == 0 { libc::MADV_POPULATE_READ } else { libc::MADV_POPULATE_WRITE };
        match self.advise(start, length, advice) {
            // Linux before 5.14 does not have the call.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.touch(start, length),
            other => other,
        }
    }

    /// Reads one word of every page of a range.
    fn touch(&self, start: u64, length: u64) -> io::Result<()> {
        for offset in (start..start + length).step_by(page_bytes() as usize) {
            self.load(offset).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Calls `madvise` on a range within the mapping.
    fn advise(&self, offset: u64, bytes: u64, advice: libc::c_int) -> io::Result<()> {
        let at = self.word(offset).cast();
        // SAFETY: the range is mapped by this object; no advice used here changes its contents.
        let failed = unsafe { libc::madvise(at, bytes as usize, advice) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Checks that a range is mapped.
    #[inline]
    fn within(&self, offset: u64, bytes: u64) -> Result<(), AccessFault> {
        if offset.saturating_add(bytes) > self.bytes { Err(AccessFault::OutOfRange) } else { Ok(()) }
    }

    /// Checks that a range is mapped for writing.
    #[inline]
    fn writable(&self, offset: u64, bytes: u64) -> Result<(), AccessFault> {
        if offset.saturating_add(bytes) > self.writable_bytes { Err(AccessFault::OutOfRange) } else { Ok(()) }
    }

    /// Returns a mapped, aligned word that may be stored to.
    #[inline]
    fn writable_word(&self, offset: u64) -> Result<*mut u64, AccessFault> {
        self.writable(offset, WORD_BYTES)?;
        self.words(offset, WORD_BYTES)
    }

    /// Returns the first of the mapped, aligned words of a range.
    #[inline]
    fn words(&self, offset: u64, bytes: u64) -> Result<*mut u64, AccessFault> {
        self.within(offset, bytes)?;
        if !offset.is_multiple_of(WORD_BYTES) {
            return Err(AccessFault::Misaligned);
        }
        Ok(self.word(offset))
    }

    /// Returns the word at `offset`, which the caller has checked to be a multiple of 8 and not beyond the
    /// end.
    #[inline]
    fn word(&self, offset: u64) -> *mut u64 {
        debug_assert!(offset <= self.bytes && offset.is_multiple_of(WORD_BYTES));
        // SAFETY: the offset is within the mapping or just at its end, as all callers have checked.
        unsafe { self.base.as_ptr().byte_add(offset as usize) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.own = None;
        if self.registered.get().is_some_and(|forks| !forks.is_current()) {
            return;
        }
        // SAFETY: this object owns the range since `new`, also in a forked child, which has private memory there;
        // nothing points into it after the mapping is unmapped.
        let failed = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes as usize) };
        debug_assert_eq!(failed, 0);
    }
}

/// Returns one mapped word, valid as long as the caller holds its mapping.
#[inline]
fn atomic<'a>(at: *mut u64) -> &'a AtomicU64 {
    // SAFETY: every caller passes an aligned word within a mapping that outlives its use of the result (it is used
    // in the same expression), and mapped words are accessed by atomics only. Callers that store have checked that the
    // pages are writable. Pages that are mapped for reading are only loaded: the supported processors load an aligned
    // word by one instruction that does not store (mov; ldar or ldr), for each order that is used here.
    unsafe { AtomicU64::from_ptr(at) }
}

/// Copies `into.len()` mapped words from `from` on, the last one first.
#[inline]
fn copy_down(from: *mut u64, into: &mut [u64]) {
    for (index, word) in into.iter_mut().enumerate().rev() {
        // SAFETY: the callers pass as many mapped words as `into` has.
        let at = unsafe { from.add(index) };
        *word = atomic(at).load(Ordering::Acquire);
    }
}

/// Overwrites bytes `byte_in_word..byte_in_word + edge.len()` of a word, and keeps its other bytes.
#[inline]
fn merge(at: *mut u64, byte_in_word: usize, edge: &[u8]) {
    // The closure always returns a value, so the update cannot fail.
    let _ = atomic(at).fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
        let mut bytes = word.to_ne_bytes();
        bytes[byte_in_word..byte_in_word + edge.len()].copy_from_slice(edge);
        Some(u64::from_ne_bytes(bytes))
    });
}

/// Prefetches every line of `words` words, so that their misses overlap.
///
/// Measured on an AMD EPYC 9004 (4 KiB pages, random 1 KiB reads): an upward prefetch is slightly faster than a
/// downward one, and both are faster than none. The non-temporal hint is another 10 % faster if every node is read
/// once, and not faster for skewed reads. It is not used, because with a non-inclusive last-level cache it keeps hot
/// nodes out of that cache.
#[inline]
fn prefetch_words(from: *mut u64, words: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..words.div_ceil(LINE_WORDS).min(PREFETCH_LINES_MAX) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = from.wrapping_add(line * LINE_WORDS);
        // SAFETY: a prefetch is a hint at an address: it never faults, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, words, PREFETCH_LINES_MAX);
}

/// Addresses reserved for a mapping, released on drop.
struct Reserved {
    at: *mut libc::c_void,
    bytes: usize,
}

impl Reserved {
    /// Reserves addresses for a mapping of `bytes` that begins at a multiple of a huge page; `None`: it is
    /// shorter than one, or the system has no such range.
    fn new(bytes: u64) -> Option<Self> {
        if bytes < HUGE_PAGE_BYTES {
            return None;
        }
        let bytes = bytes.checked_next_multiple_of(page_bytes())?.checked_add(HUGE_PAGE_BYTES)?;
        let bytes = usize::try_from(bytes).ok()?;
        let share = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses the address; no mapping of this process is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, share, -1, 0) };
        (at != libc::MAP_FAILED).then_some(Self { at, bytes })
    }

    /// Keeps `bytes` from address `start` on for the new mapping, and releases the rest.
    fn keep(self, start: usize, bytes: usize) {
        let end = (start + bytes).next_multiple_of(page_bytes() as usize);
        let behind = self.at.map_addr(|_| end);
        let (before, after) = (start - self.at.addr(), self.at.addr() + self.bytes - end);
        drop(Self { at: self.at, bytes: before });
        drop(Self { at: behind, bytes: after });
        std::mem::forget(self);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the range was reserved here, and excludes what was mapped into it.
            unsafe { libc::munmap(self.at, self.bytes) };
        }
    }
}

/// Returns the size of an ordinary page.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes a number, returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

/// Allocates the pages of a range of a file, zeroed, so that accesses cannot fail; existing contents stay. Not
/// `posix_fallocate`: on file systems without the system call, that function *writes* into the file, which races with
/// every process that has the file mapped.
pub(crate) fn provision(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (offset, bytes) = (i64::try_from(offset).map_err(invalid)?, i64::try_from(bytes).map_err(invalid)?);
    loop {
        // SAFETY: takes an open descriptor and numbers, which the kernel checks.
        let failed = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, bytes) };
        if failed == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns whether the file lives in memory (tmpfs), where pages that do not fit wake the kernel's
/// out-of-memory killer.
pub(super) fn is_in_memory(file: &File) -> io::Result<bool> {
    let mut stat = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the descriptor is open, and the pointer is valid for the result.
    let failed = unsafe { libc::fstatfs(file.as_raw_fd(), stat.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call filled it; and all zeroes are a valid value of plain numbers.
    let stat = unsafe { stat.assume_init() };
    Ok(stat.f_type == libc::TMPFS_MAGIC)
}

/// Returns the user whose rights this process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing, returns a number, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Bytes for the entry of a user or a group: at first, and at most. A group lists its members.
const ENTRY_BYTES: usize = 1 << 10;
const ENTRY_BYTES_MAX: usize = 1 << 22;

/// A function that finds an entry by its name: name, entry, buffer, bytes of the buffer, pointer to the entry or null.
type FindByName<E> = unsafe extern "C" fn(
    *const libc::c_char,
    *mut E,
    *mut libc::c_char,
    libc::size_t,
    *mut *mut E,
) -> libc::c_int;

/// Returns the number of the user of that name.
pub(super) fn user_named(name: &str) -> Option<u32> {
    // SAFETY: the function is that of the system, and its entry is a `passwd`.
    unsafe { number_of(name, libc::getpwnam_r, |user: &libc::passwd| user.pw_uid) }
}

/// Returns the number of the group of that name.
pub(super) fn group_named(name: &str) -> Option<u32> {
    // SAFETY: the function is that of the system, and its entry is a `group`.
    unsafe { number_of(name, libc::getgrnam_r, |group: &libc::group| group.gr_gid) }
}

/// Returns the number in the entry of that name.
///
/// # Safety
/// `find` accepts a name that ends with NUL, an entry and a pointer to write, and a buffer of the given length. If it
/// returns 0 and the pointer is not null, it has filled the entry.
unsafe fn number_of<E>(name: &str, find: FindByName<E>, number: fn(&E) -> u32) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut bytes: Vec<libc::c_char> = vec![0; ENTRY_BYTES];
    loop {
        let mut entry = MaybeUninit::<E>::uninit();
        let (mut found, length) = (std::ptr::null_mut(), bytes.len());
        // SAFETY: the name ends with NUL, the entry and the pointer are writable, and the buffer has `length` bytes.
        let failed =
            unsafe { find(name.as_ptr(), entry.as_mut_ptr(), bytes.as_mut_ptr(), length, &raw mut found) };
        if failed == libc::ERANGE && length < ENTRY_BYTES_MAX {
            bytes.resize(2 * length, 0);
        } else if failed != 0 || found.is_null() {
            return None;
        } else {
            // SAFETY: the call has filled the entry, whose pointers are into `bytes`.
            return Some(number(unsafe { entry.assume_init_ref() }));
        }
    }
}

/// Takes the write lock on one byte of a file for its open file description. False: another description has
/// it. (The same description may take it repeatedly.)
pub(super) fn lock_byte(file: &File, at: i64) -> io::Result<bool> {
    match lock_call(file, libc::F_OFD_SETLK, libc::F_WRLCK, at..at + 1) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases the lock on one byte.
pub(super) fn unlock_byte(file: &File, at: i64) -> io::Result<()> {
    lock_call(file, libc::F_OFD_SETLK, libc::F_UNLCK, at..at + 1).map(drop)
}

/// Returns whether an open file description *other than `file`'s* holds the lock on one byte.
pub(super) fn is_byte_locked(file: &File, at: i64) -> io::Result<bool> {
    are_bytes_locked(file, at..at + 1)
}

/// Returns whether an open file description *other than `file`'s* holds the lock on one of these bytes.
pub(super) fn are_bytes_locked(file: &File, bytes: Range<i64>) -> io::Result<bool> {
    Ok(lock_call(file, libc::F_OFD_GETLK, libc::F_WRLCK, bytes)? != libc::F_UNLCK)
}

/// Calls `fcntl` on the lock of some bytes; returns the kind of lock that the kernel reports.
fn lock_call(
    file: &File,
    command: libc::c_int,
    kind: libc::c_int,
    bytes: Range<i64>,
) -> io::Result<libc::c_int> {
    // `l_pid` must be zero for locks of open file descriptions.
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: bytes.start,
        l_len: bytes.end - bytes.start,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and these commands take a pointer to a `flock`, which is valid for the
    // call.
    let failed = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if failed == -1 { Err(io::Error::last_os_error()) } else { Ok(libc::c_int::from(lock.l_type)) }
}

#[cfg(test)]
#[path = "sys_tests.rs"]
mod tests;
