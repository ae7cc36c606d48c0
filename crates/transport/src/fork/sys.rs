//! The handlers of forks, and a future that a forked child neither polls nor drops. All unsafe code of this module.

use super::{ForkCount, inheritance};
use farwood_fabric::FabricError;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Poll};

/// Forks between the first process that counted them and this one.
pub(super) static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn before_fork() {
    inheritance::lock_for_fork();
}

extern "C" fn in_parent() {
    inheritance::unlock_in_parent();
}

/// Runs in a forked child, before `fork` returns there.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    inheritance::give_up_in_child();
}

/// Counts the forks of this process and of its children from now on.
///
/// No lock guards the registration, because a child that was forked during the registration would wait for that lock
/// for ever. Two threads may both register: then a fork counts twice, which makes no difference.
pub(super) fn count_forks() {
    static COUNTS: AtomicBool = AtomicBool::new(false);
    if COUNTS.load(Relaxed) {
        return;
    }
    // SAFETY: the handlers have the signature that the library expects and live as long as the program. In a child of a
    // process with several threads they neither allocate nor wait for a lock: the thread that forks holds the only one.
    let failed = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    assert!(failed == 0, "out of memory: the C library cannot register a fork handler");
    COUNTS.store(true, Relaxed);
}

/// In a forked child: maps private zeros over a mapping of a file. If the kernel refuses, the mapping stays, and the
/// parent counts as alive as long as this child.
pub(super) fn replace_mapping(address: usize, bytes: usize) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let at = std::ptr::without_provenance_mut(address);
    // SAFETY: the range is one that `OwnMapping` lists, so it is mapped and belongs to an object that accesses it by
    // atomics only. This process has no other thread, and the object that unmaps the range unmaps the zeros instead.
    unsafe { libc::mmap(at, bytes, access, private, -1, 0) };
}

/// The device and the number of an open file or socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity(u64, u64);

/// The identity of the file or socket at a descriptor; `None`: it is closed. A forked child may call it.
pub(super) fn identity(descriptor: RawFd) -> Option<FileIdentity> {
    let mut data = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is valid for the result, and any number may be asked for.
    if unsafe { libc::fstat(descriptor, data.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it has written the result.
    let data = unsafe { data.assume_init() };
    Some(FileIdentity(data.st_dev, data.st_ino))
}

/// In a forked child: puts an empty file at each descriptor. If the kernel has none, the descriptors stay.
pub(super) fn replace_descriptors(descriptors: impl Iterator<Item = RawFd>) {
    let mut empty = None;
    for descriptor in descriptors {
        // SAFETY: the name ends with a zero.
        let file = *empty.get_or_insert_with(|| unsafe {
            libc::memfd_create(c"farwood-forked".as_ptr(), libc::MFD_CLOEXEC)
        });
        if file >= 0 {
            // SAFETY: `OwnDescriptor` lists the number until it closes it, so it belongs to an object of this module's
            // callers, which refuse to use it in a forked child.
            unsafe { libc::dup3(file, descriptor, libc::O_CLOEXEC) };
        }
    }
    if let Some(file) = empty.filter(|&file| file >= 0) {
        // SAFETY: the number was opened here, and is used nowhere else.
        unsafe { libc::close(file) };
    }
}

/// An operation of one process. In a forked child, polling it yields [`FabricError::Forked`], and dropping it leaks the
/// inner future.
#[derive(Debug)]
pub struct OneProcess<F> {
    forks: ForkCount,
    /// Structurally pinned: it is never moved out.
    future: ManuallyDrop<F>,
}

impl<F> OneProcess<F> {
    /// Binds a future to the process of `forks`.
    pub(super) fn new(forks: ForkCount, future: F) -> Self {
        Self { forks, future: ManuallyDrop::new(future) }
    }
}

impl<T, E: From<FabricError>, F: Future<Output = Result<T, E>>> Future for OneProcess<F> {
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(forked) = self.forks.check() {
            return Poll::Ready(Err(forked.into()));
        }
        // SAFETY: the field is structurally pinned: no method moves it, it is dropped in place, and the type is `Unpin`
        // only if the future is.
        let future = unsafe { self.map_unchecked_mut(|this| &mut *this.future) };
        future.poll(context)
    }
}

impl<F> Drop for OneProcess<F> {
    fn drop(&mut self) {
        if self.forks.is_current() {
            // SAFETY: it is dropped once, here, and no code uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.future) };
        }
    }
}

/// Forks the process. Returns the child's number in the parent, and `None` in the child, which ends with
/// [`end_child`].
#[cfg(test)]
pub(super) fn fork() -> Option<libc::pid_t> {
    // SAFETY: the child runs code of a test, which uses no lock of another thread.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => None,
        child => Some(child),
    }
}

/// Ends a forked child without the destructors of its parent.
#[cfg(test)]
pub(super) fn end_child(succeeded: bool) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(i32::from(!succeeded)) }
}

/// Returns whether the child called [`end_child`] with true.
#[cfg(test)]
pub(super) fn succeeded(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the pointer is valid for the result.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    waited == child && status == 0
}
