//! The handler that counts forks, and a future that a forked child neither polls nor drops. All unsafe code of this
//! module.

use super::ForkCount;
use farwood_fabric::FabricError;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Poll};

/// Forks between the first process that counted them and this one.
pub(super) static FORKS: AtomicU64 = AtomicU64::new(0);

/// Runs in a forked child, before `fork` returns there.
extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
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
    // SAFETY: the handler has the signature that the library expects, lives as long as the program, and only adds to
    // an atomic, which is permitted in a child of a process with several threads.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    assert!(failed == 0, "out of memory: the C library cannot register a fork handler");
    COUNTS.store(true, Relaxed);
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
