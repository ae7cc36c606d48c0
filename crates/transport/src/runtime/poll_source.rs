//! Poll sources: connections that make progress only while their thread polls them.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::rc::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// What futures of a thread wait for, and what goes on only while that thread turns it.
pub(crate) trait Crank {
    /// Does what can be done without waiting, and wakes whoever has an answer now.
    fn crank(&self) -> Turned;
}

/// What turning a crank has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turned {
    /// Something was answered.
    pub(crate) answered: bool,
    /// Somebody waits for an answer.
    pub(crate) waited_for: bool,
}

thread_local! {
    /// What this thread's executors turn.
    static CRANKS: RefCell<Vec<Weak<dyn Crank>>> = const { RefCell::new(Vec::new()) };
    /// Which waker one of them polls with right now, by its data; null: none does.
    static POLLING: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// The number of this thread: 0 for the first that asks, and so on.
#[inline]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // At the thread's end any will do.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Lets this thread's executors turn `crank`.
#[cfg(any(test, feature = "tcp"))]
pub(crate) fn add_crank(crank: Weak<dyn Crank>) {
    // At the thread's end nobody turns it; then whoever waits does.
    let _ = CRANKS.try_with(|cranks| cranks.borrow_mut().push(crank));
}

/// Whether whoever polls with `context` turns the cranks of this thread, and polls again only when it is woken. It does
/// not where a future has put another waker in between.
#[inline]
pub(crate) fn is_turning(context: &Context<'_>) -> bool {
    let polling = POLLING.try_with(Cell::get).unwrap_or(ptr::null());
    !polling.is_null() && polling == context.waker().data()
}

/// Turns all cranks of this thread.
pub(super) fn turn() -> Turned {
    CRANKS.with_borrow_mut(|cranks| {
        let mut all = Turned::default();
        cranks.retain(|crank| {
            let Some(crank) = crank.upgrade() else { return false };
            let turned = crank.crank();
            all.answered |= turned.answered;
            all.waited_for |= turned.waited_for;
            true
        });
        all
    })
}

/// Polls as an executor that turns the cranks.
pub(super) fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>, waker: &Waker) -> Poll<T> {
    /// Whoever was polling before: executors may lie within each other.
    struct Outer(*const ());
    impl Drop for Outer {
        fn drop(&mut self) {
            POLLING.set(self.0);
        }
    }
    let _outer = Outer(POLLING.replace(waker.data()));
    future.poll(&mut Context::from_waker(waker))
}
