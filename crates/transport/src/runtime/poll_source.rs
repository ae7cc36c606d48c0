//! Poll sources: connections that make progress only while their thread polls them.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::rc::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// A source of answers that makes progress only while its thread polls it.
pub(crate) trait PollSource {
    /// Sends and receives without waiting, and wakes the futures whose answers have arrived.
    fn advance(&self) -> Progress;
}

/// The result of polling a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Whether an answer arrived.
    pub(crate) answered: bool,
    /// A future waits for an answer.
    pub(crate) awaited: bool,
}

thread_local! {
    /// The sources of this thread's executors.
    static SOURCES: RefCell<Vec<Weak<dyn PollSource>>> = const { RefCell::new(Vec::new()) };
    /// The data pointer of the waker that an executor polls with right now; null: no executor is polling.
    static POLLING: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Returns the number of this thread: threads count from 0 in the order of their first call.
#[inline]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // At the end of the thread any number is correct.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Registers `source` with this thread's executors.
#[cfg(any(test, feature = "tcp"))]
pub(crate) fn add_poll_source(source: Weak<dyn PollSource>) {
    // At the end of the thread no executor polls it; the waiting future does.
    let _ = SOURCES.try_with(|sources| sources.borrow_mut().push(source));
}

/// The waker of a future's first poll in [`block_on`](super::block_on), which polls it a second time at once. A static
/// variable, because two results of [`Waker::noop`] can differ.
pub(super) static FIRST_POLL: &Waker = Waker::noop();

/// Returns whether `context` belongs to an executor that polls the sources of this thread, and polls the future again
/// only when it is woken. Returns false if a future has substituted another waker.
#[inline]
pub(crate) fn is_polled_by_executor(context: &Context<'_>) -> bool {
    let polling = POLLING.try_with(Cell::get).unwrap_or(ptr::null());
    !polling.is_null() && polling == context.waker().data()
}

/// Polls all sources of this thread.
pub(super) fn advance_all() -> Progress {
    SOURCES.with_borrow_mut(|sources| {
        let mut all = Progress::default();
        sources.retain(|source| {
            let Some(source) = source.upgrade() else { return false };
            let progress = source.advance();
            all.answered |= progress.answered;
            all.awaited |= progress.awaited;
            true
        });
        all
    })
}

/// Polls a future as an executor that also polls the sources.
pub(super) fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>, waker: &Waker) -> Poll<T> {
    /// The waker of the outer executor: executors may nest.
    struct Outer(*const ());
    impl Drop for Outer {
        fn drop(&mut self) {
            POLLING.set(self.0);
        }
    }
    let _outer = Outer(POLLING.replace(waker.data()));
    future.poll(&mut Context::from_waker(waker))
}
