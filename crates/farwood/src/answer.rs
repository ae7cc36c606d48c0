//! The answer to a call that another thread executes, as a future that any executor may poll.

use crate::error::{Error, Result};
use farwood_transport::fork::ForkCount;
use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

/// The answer to a call of an async handle, such as [`AsyncIndex`](crate::AsyncIndex).
///
/// The call is executed whether or not its answer is polled. A dropped answer is forgotten: the call ends as it would
/// have ended. If a function that was given to the call panics, the panic continues where the answer is awaited.
#[must_use = "the answer tells whether the call has succeeded"]
pub struct Answer<T>(Inner<T>);

enum Inner<T> {
    /// The call has failed before it began; `None`: the error has been taken.
    Failed(Option<Error>),
    Pending(Arc<Slot<T>>),
}

/// The place of an answer.
struct Slot<T> {
    state: Mutex<State<T>>,
    forks: ForkCount,
    /// The error of a forked child.
    forked: Box<dyn Fn() -> Error + Send + Sync>,
}

enum State<T> {
    Waiting(Option<Waker>),
    Done(thread::Result<Result<T>>),
    Taken,
}

/// Sends the answer.
pub(crate) struct AnswerSender<T>(Arc<Slot<T>>);

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> AnswerSender<T> {
    pub(crate) fn send(self, outcome: thread::Result<Result<T>>) {
        let before = std::mem::replace(&mut *self.0.lock(), State::Done(outcome));
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Answer<T> {
    /// An answer, and its sender. `forked` is the error in a forked child, which gets no answer.
    pub(crate) fn pair(
        forks: ForkCount,
        forked: impl Fn() -> Error + Send + Sync + 'static,
    ) -> (AnswerSender<T>, Self) {
        let slot =
            Arc::new(Slot { state: Mutex::new(State::Waiting(None)), forks, forked: Box::new(forked) });
        (AnswerSender(Arc::clone(&slot)), Self(Inner::Pending(slot)))
    }

    /// The answer to a call that has failed before it began.
    pub(crate) fn failed(error: Error) -> Self {
        Self(Inner::Failed(Some(error)))
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let slot = match &mut self.0 {
            Inner::Failed(error) => {
                return Poll::Ready(Err(error.take().expect("an answer is awaited once")));
            }
            Inner::Pending(slot) => slot,
        };
        if !slot.forks.is_current() {
            return Poll::Ready(Err((slot.forked)()));
        }
        let mut state = slot.lock();
        if let State::Waiting(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(Ok(result)) => Poll::Ready(result),
            State::Done(Err(panic)) => {
                drop(state);
                resume_unwind(panic)
            }
            State::Waiting(_) | State::Taken => unreachable!("an answer is awaited once"),
        }
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}
