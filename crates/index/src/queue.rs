//! A first-come, first-served queue of futures that wait to be granted a value.
//!
//! A waiter joins under the queue's mutex, so its caller can check a condition and join in one step. Its [`Waiting`]
//! future then resolves to the value that another client grants it. Waiters carry a *key*, and a grant goes to the
//! first waiter of a key: one queue serves all locks, or all batches, of a shard.
//!
//! Cancellation is safe at any moment:
//!
//! - a waiter that is dropped before it is granted a value leaves the queue;
//! - a waiter that is dropped afterwards, with the value still in the queue, passes the value to its `give_up` closure,
//!   which grants it to the next waiter, or frees the resource that it stands for. No grant is lost.
//!
//! A future that nobody polls does not stop waiters that use [`pauses`](Waiting::with_pauses). At the end of each
//! pause, such a waiter looks for a grant of its key that has not been taken. If it finds the one that it found at the
//! end of the pause before, it revokes this grant: it passes the value on as if the granted waiter had been dropped. So
//! a revocation takes two pauses. The waiter that lost its grant finds out at its next poll.
//!
//! The local locks, request combining and the writer queue of the Catfish server are built on this queue.
//! `tests/queue_model.rs` checks all three with `loom`.

use super::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

/// A queue, with a state `S` that the same mutex guards.
#[derive(Debug)]
pub(crate) struct FairQueue<T, S = ()> {
    list: Mutex<WaitList<T, S>>,
}

/// The contents of a locked queue.
#[derive(Debug)]
pub(crate) struct WaitList<T, S = ()> {
    /// In ascending order of their tickets.
    waiters: VecDeque<Waiter<T>>,
    next_ticket: u64,
    /// The caller's own state.
    pub(crate) state: S,
}

#[derive(Debug)]
struct Waiter<T> {
    ticket: u64,
    key: u64,
    progress: Progress<T>,
}

#[derive(Debug)]
enum Progress<T> {
    /// Not granted a value; the waker is absent until the future is first polled.
    Waiting(Option<Waker>),
    /// Granted a value that the future has not taken yet.
    Granted(T),
    /// The granted value was passed on, because the future did not take it.
    Revoked,
}

impl<T> Waiter<T> {
    fn is_waiting_for(&self, key: u64) -> bool {
        self.key == key && matches!(self.progress, Progress::Waiting(_))
    }

    /// Stores the value and wakes the waiter.
    fn grant(&mut self, value: T) {
        if let Progress::Waiting(Some(waker)) =
            std::mem::replace(&mut self.progress, Progress::Granted(value))
        {
            waker.wake();
        }
    }
}

impl<T, S> FairQueue<T, S> {
    /// Creates an empty queue.
    pub(crate) fn new(state: S) -> Self {
        Self { list: Mutex::new(WaitList { waiters: VecDeque::new(), next_ticket: 0, state }) }
    }

    /// Locks the queue. The queue is usable after a panic, so poisoning is ignored.
    pub(crate) fn lock(&self) -> MutexGuard<'_, WaitList<T, S>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a waiter to `list`, which is this queue, locked. `give_up` receives a value that was granted to a
    /// future that is dropped; it runs without the queue's mutex.
    pub(crate) fn join<G: Fn(T)>(
        &self,
        list: &mut WaitList<T, S>,
        key: u64,
        give_up: G,
    ) -> Waiting<'_, T, S, G> {
        let ticket = list.next_ticket;
        list.next_ticket += 1;
        list.waiters.push_back(Waiter { ticket, key, progress: Progress::Waiting(None) });
        Waiting { queue: self, ticket: Some(ticket), key, give_up }
    }
}

impl<T, S> WaitList<T, S> {
    /// Whether a client waits for `key`.
    pub(crate) fn has_waiter(&self, key: u64) -> bool {
        self.waiters.iter().any(|waiter| waiter.is_waiting_for(key))
    }

    /// Grants a value to the first waiter of `key`; `false`: there is none, and the value is dropped.
    pub(crate) fn grant_first(&mut self, key: u64, value: T) -> bool {
        let first = self.waiters.iter_mut().find(|waiter| waiter.is_waiting_for(key));
        first.map(|waiter| waiter.grant(value)).is_some()
    }

    /// Grants a value to the last waiter of `key`; `false`: there is none, and the value is dropped.
    pub(crate) fn grant_last(&mut self, key: u64, value: T) -> bool {
        let last = self.waiters.iter_mut().rfind(|waiter| waiter.is_waiting_for(key));
        last.map(|waiter| waiter.grant(value)).is_some()
    }

    /// Grants a value to each waiter of `key`, in their order.
    pub(crate) fn grant_all(&mut self, key: u64, mut value: impl FnMut() -> T) {
        let waiting = self.waiters.iter_mut().filter(|waiter| waiter.is_waiting_for(key));
        waiting.for_each(|waiter| waiter.grant(value()));
    }

    fn position(&self, ticket: u64) -> usize {
        let found = self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket);
        found.expect("a waiter stays in its queue until its future takes its value or is dropped")
    }

    /// Removes a waiter; yields the value that it was granted.
    fn remove(&mut self, position: usize) -> Option<T> {
        match self.waiters.remove(position)?.progress {
            Progress::Granted(value) => Some(value),
            Progress::Waiting(_) | Progress::Revoked => None,
        }
    }

    /// The ticket of the first waiter of `key` that has not taken its value.
    fn first_granted(&self, key: u64) -> Option<u64> {
        let is_granted = |waiter: &&Waiter<T>| matches!(waiter.progress, Progress::Granted(_));
        let of_key = self.waiters.iter().filter(|waiter| waiter.key == key);
        of_key.filter(is_granted).map(|waiter| waiter.ticket).next()
    }

    /// Takes the value from a waiter that [`first_granted`](Self::first_granted) has found.
    fn revoke(&mut self, ticket: u64) -> Option<T> {
        let position = self.position(ticket);
        match std::mem::replace(&mut self.waiters[position].progress, Progress::Revoked) {
            Progress::Granted(value) => Some(value),
            Progress::Waiting(_) | Progress::Revoked => None,
        }
    }
}

/// A waiter of the queue, as a future of the value that it is granted. It is in the queue from the moment it is
/// created, polled or not, and leaves it when it is dropped. It must not be dropped while its queue is locked.
#[must_use = "a waiter that is dropped has left the queue"]
pub(crate) struct Waiting<'q, T, S, G: Fn(T)> {
    queue: &'q FairQueue<T, S>,
    /// `None`: the value has been taken.
    ticket: Option<u64>,
    key: u64,
    give_up: G,
}

/// Resolves to the value; `None`: it was passed on, because the future was not polled in time.
impl<T, S, G: Fn(T) + Unpin> Future for Waiting<'_, T, S, G> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let ticket = self.ticket.expect("a future is not polled after it has resolved");
        let mut list = self.queue.lock();
        let position = list.position(ticket);
        if let Progress::Waiting(waker) = &mut list.waiters[position].progress {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let value = list.remove(position);
        drop(list);
        self.ticket = None;
        Poll::Ready(value)
    }
}

impl<T, S, G: Fn(T) + Unpin> Waiting<'_, T, S, G> {
    /// Waits for the value. At the end of each `pause`, the waiter passes on the first grant of the same key if it
    /// found the same grant at the end of the pause before.
    ///
    /// # Errors
    /// The error with which a pause ends, unless the waiter has been granted a value by then: a grant that arrives with
    /// the error is not lost. The waiter has left the queue.
    pub(crate) async fn with_pauses<E>(
        mut self,
        mut pause: impl AsyncFnMut() -> Result<(), E>,
    ) -> Result<Option<T>, E> {
        let mut suspect = None;
        loop {
            let mut paused = pin!(pause());
            let ended = poll_fn(|context| {
                // A wake-up polls both.
                if let Poll::Ready(value) = Pin::new(&mut self).poll(context) {
                    return Poll::Ready(Ok(value));
                }
                paused.as_mut().poll(context).map(Err)
            });
            match ended.await {
                Ok(value) => return Ok(value),
                Err(Ok(())) => {}
                Err(Err(error)) => return self.leave().map_or(Err(error), |value| Ok(Some(value))),
            }
            suspect = self.pass_on_stale(suspect);
        }
    }

    /// Passes on the first grant of the key if it is that of `suspect`. Returns the ticket of the first grant that is
    /// left.
    fn pass_on_stale(&self, suspect: Option<u64>) -> Option<u64> {
        let mut list = self.queue.lock();
        let first = list.first_granted(self.key)?;
        if suspect != Some(first) {
            return Some(first);
        }
        let value = list.revoke(first);
        drop(list);
        value.map(&self.give_up);
        None
    }
}

impl<T, S, G: Fn(T)> Waiting<'_, T, S, G> {
    /// Leaves the queue; yields the value that the waiter was granted and has not taken.
    fn leave(&mut self) -> Option<T> {
        let ticket = self.ticket.take()?;
        let mut list = self.queue.lock();
        let position = list.position(ticket);
        list.remove(position)
    }
}

impl<T, S, G: Fn(T)> Drop for Waiting<'_, T, S, G> {
    fn drop(&mut self) {
        if let Some(value) = self.leave() {
            (self.give_up)(value);
        }
    }
}
