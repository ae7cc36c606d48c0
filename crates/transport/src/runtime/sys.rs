//! Runs a function that borrows from its caller on a task thread, while the caller waits.

use super::catch_panic::poll_and_catch;
use super::task_thread::{Job, TaskThread};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

/// A job that borrows from its caller, and creates a future that does.
type ScopedJob<'s> = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + 's>> + Send + 's>;

/// The task thread stores the result here, and the caller waits for it.
struct Rendezvous<T> {
    /// The result, and whether everything that borrows from the caller is dropped.
    state: Mutex<(Option<thread::Result<T>>, bool)>,
    is_done: Condvar,
}

impl<T> Rendezvous<T> {
    /// Waits until nothing borrows from the caller any longer, or `pause` has passed. Returns whether nothing does.
    fn is_done_within(&self, pause: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_done.wait_timeout_while(state, pause, |(_, is_done)| !*is_done);
        waited.unwrap_or_else(PoisonError::into_inner).0.1
    }
}

/// Tells the caller at its drop that nothing borrows from it any longer.
struct Done<'r, T>(&'r Rendezvous<T>);

impl<T> Done<'_, T> {
    fn store(&self, outcome: thread::Result<T>) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(outcome);
    }
}

impl<T> Drop for Done<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = true;
        // Under the mutex: once the caller sees the flag, the rendezvous may be gone.
        self.0.is_done.notify_one();
    }
}

/// Work that has not begun. The fields are dropped in this order.
struct Unstarted<'r, T, W> {
    work: W,
    done: Done<'r, T>,
}

impl<'r, T, F: Future<Output = T>, W: FnOnce() -> F> Unstarted<'r, T, W> {
    fn start(self) -> Scoped<'r, T, F> {
        let Self { work, done } = self;
        let future = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| done.store(Err(panic)));
        Scoped { future: future.ok().map(Box::pin), done }
    }
}

/// The running future of a caller. The fields are dropped in this order.
struct Scoped<'r, T, F> {
    future: Option<Pin<Box<F>>>,
    done: Done<'r, T>,
}

impl<T, F: Future<Output = T>> Future for Scoped<'_, T, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else { return Poll::Ready(()) };
        let Poll::Ready(outcome) = poll_and_catch(future.as_mut(), context) else { return Poll::Pending };
        let dropped = catch_unwind(AssertUnwindSafe(|| self.future = None));
        self.done.store(outcome.and_then(|output| dropped.map(|()| output)));
        Poll::Ready(())
    }
}

impl TaskThread {
    /// Runs the future that `work` creates on the thread, and waits for its output. A panic of `work` or of the future
    /// continues in the caller. It must not be called on the thread itself, which would wait for itself.
    ///
    /// # Panics
    /// If `work` or the future panics, or the thread is the calling one.
    pub fn run<T: Send, F: Future<Output = T>>(&self, work: impl FnOnce() -> F + Send) -> T {
        self.run_beside(Duration::MAX, || (), work)
    }

    /// As [`run`](Self::run), and calls `meanwhile` on the calling thread after each `pause` until the output is there.
    ///
    /// # Panics
    /// As [`run`](Self::run), and if `meanwhile` panics: it is not called again, and the panic continues after the
    /// future has ended.
    pub fn run_beside<T: Send, F: Future<Output = T>>(
        &self,
        pause: Duration,
        mut meanwhile: impl FnMut(),
        work: impl FnOnce() -> F + Send,
    ) -> T {
        assert!(!self.is_current(), "a task thread does not wait for itself");
        let rendezvous = Rendezvous { state: Mutex::new((None, false)), is_done: Condvar::new() };
        let unstarted = Unstarted { work, done: Done(&rendezvous) };
        let job: ScopedJob<'_> = Box::new(move || Box::pin(unstarted.start()));
        // SAFETY: only the lifetime changes. The job and its future contain references to this stack frame, and to what
        // `work` borrows from the caller. This function returns only when `Done` has set its flag. `Done` is the last
        // field of `Unstarted` and of `Scoped`, so everything else that borrows is dropped before: `work`, or the
        // future, whose output moves to the rendezvous. The task thread drops each job and each future once, at the
        // latest when it ends; if it leaks one, this function does not return. No statement between here and the wait
        // unwinds: a panic of `meanwhile` is caught and its payload kept, and `send_job` may only abort for lack of
        // memory.
        let job: Job = unsafe { std::mem::transmute::<ScopedJob<'_>, Job>(job) };
        self.send_job(job);
        let mut panic = None;
        while !rendezvous.is_done_within(pause) {
            // Once only: the destructor of a payload may panic, too.
            if panic.is_none() {
                panic = catch_unwind(AssertUnwindSafe(&mut meanwhile)).err();
            }
        }
        let outcome = rendezvous.state.lock().unwrap_or_else(PoisonError::into_inner).0.take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        match outcome {
            Some(Ok(output)) => output,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("the thread polls each future to its end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sleep::{sleep, yield_now};
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_future_borrows_from_the_waiting_caller() {
        let tasks = TaskThread::start("test").unwrap();
        std::thread::scope(|scope| {
            for number in 0..8_usize {
                let tasks = &tasks;
                scope.spawn(move || {
                    for round in 0..200 {
                        let text = format!("{number} {round}");
                        let mut length = 0;
                        let (text, length_of) = (&text, &mut length);
                        let doubled = tasks.run(async || {
                            if round % 50 == 0 {
                                sleep(1_000_000).await;
                            }
                            yield_now().await;
                            *length_of = text.len();
                            2 * number
                        });
                        assert_eq!((doubled, length), (2 * number, text.len()));
                    }
                });
            }
        });
    }

    #[test]
    fn the_caller_works_while_it_waits() {
        let tasks = TaskThread::start("test").unwrap();
        let is_enough = AtomicBool::new(false);
        let mut calls = 0;
        let meanwhile = || {
            calls += 1;
            is_enough.store(calls >= 3, Ordering::Relaxed);
        };
        let output = tasks.run_beside(Duration::from_millis(1), meanwhile, async || {
            while !is_enough.load(Ordering::Relaxed) {
                sleep(100_000).await;
            }
            7
        });
        assert_eq!((output, calls >= 3), (7, true));
        let ended = AtomicBool::new(false);
        let panicked = panic_of(|| {
            tasks.run_beside(
                Duration::from_millis(1),
                || panic!("meanwhile"),
                async || {
                    sleep(20_000_000).await;
                    ended.store(true, Ordering::Relaxed);
                },
            );
        });
        assert_eq!((panicked, ended.into_inner()), (Some("meanwhile"), true));
    }

    /// Returns the text with which `call` panics.
    fn panic_of<T>(call: impl FnOnce() -> T) -> Option<&'static str> {
        catch_unwind(AssertUnwindSafe(call)).err().and_then(|panic| panic.downcast_ref().copied())
    }

    #[test]
    fn a_panic_continues_in_the_caller() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("of the drop");
            }
        }
        let tasks = TaskThread::start("test").unwrap();
        let of_future = panic_of(|| tasks.run(async || -> u8 { panic!("of the future") }));
        assert_eq!(of_future, Some("of the future"));
        let of_work = panic_of(|| tasks.run(|| -> std::future::Ready<u8> { panic!("of the work") }));
        assert_eq!(of_work, Some("of the work"));
        let of_drop = panic_of(|| {
            tasks.run(|| {
                let panics = Panics;
                std::future::poll_fn(move |_| {
                    let _ = &panics;
                    Poll::Ready(())
                })
            });
        });
        assert_eq!(of_drop, Some("of the drop"));
        assert_eq!(tasks.run(async || 7), 7, "the thread continues");
    }
}
