//! Runs a function that borrows from its caller on a task thread, while the caller waits.

use super::task_thread::{Job, TaskThread};
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};

/// The result of a future, or its panic.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// A job that borrows from its caller, and creates a future that does.
type ScopedJob<'s> = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + 's>> + Send + 's>;

/// Where the caller waits for its result.
struct Rendezvous<T> {
    /// The result, and whether everything that borrows from the caller is dropped.
    state: Mutex<(Option<Outcome<T>>, bool)>,
    is_done: Condvar,
}

/// Tells the caller at its drop that nothing borrows from it any longer.
struct Done<'r, T>(&'r Rendezvous<T>);

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
        Scoped { future: Some(Box::pin((self.work)())), done: self.done }
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
        let outcome = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(panic),
        };
        self.future = None;
        self.done.0.state.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(outcome);
        Poll::Ready(())
    }
}

impl TaskThread {
    /// Runs the future that `work` creates on the thread, and waits for its output. A panic of the future continues in
    /// the caller. It must not be called on the thread itself, which would wait for itself.
    ///
    /// # Panics
    /// If the future panics, or the thread is the calling one.
    pub fn run<T: Send, F: Future<Output = T>>(&self, work: impl FnOnce() -> F + Send) -> T {
        assert!(!self.is_current(), "a task thread does not wait for itself");
        let rendezvous = Rendezvous { state: Mutex::new((None, false)), is_done: Condvar::new() };
        let unstarted = Unstarted { work, done: Done(&rendezvous) };
        let job: ScopedJob<'_> = Box::new(move || Box::pin(unstarted.start()));
        // SAFETY: only the lifetime changes. The job and its future contain references to this stack frame, and to what
        // `work` borrows from the caller. This function returns only when `Done` has set its flag. `Done` is the last
        // field of `Unstarted` and of `Scoped`, so everything else that borrows is dropped before: `work`, or the
        // future, whose output moves to the rendezvous. The task thread drops each job and each future once, at the
        // latest when it ends; if it leaks one, this function does not return. No statement between here and the wait
        // unwinds, except that `send_job` may abort for lack of memory.
        let job: Job = unsafe { std::mem::transmute::<ScopedJob<'_>, Job>(job) };
        self.send_job(job);
        let state = rendezvous.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = rendezvous.is_done.wait_while(state, |(_, is_done)| !*is_done);
        let outcome = waited.unwrap_or_else(PoisonError::into_inner).0.take();
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
    use std::time::Duration;

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
    fn a_panic_continues_in_the_caller() {
        let tasks = TaskThread::start("test").unwrap();
        let panicking =
            catch_unwind(AssertUnwindSafe(|| tasks.run(async || -> u8 { panic!("of the caller") })));
        assert_eq!(panicking.unwrap_err().downcast_ref::<&str>(), Some(&"of the caller"));
        assert_eq!(tasks.run(async || 7), 7, "the thread continues");
        assert!(tasks.wait_idle(Duration::from_secs(5)));
    }
}
