//! Scheduling and time of a [`Loopback`](super::Loopback).
//!
//! No waker is used, because the executors of tests poll all clients repeatedly. A sleeper that is polled twice
//! without an action in between advances the clock to the next deadline.

use super::World;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Nanoseconds that a post takes.
const POST_NANOSECONDS: u64 = 2_000;

impl World {
    /// Counts an action of a client.
    pub(super) fn progress(&self) {
        {
            let mut state = self.state.borrow_mut();
            state.progress += 1;
            state.now += POST_NANOSECONDS;
        }
        self.poll_detached();
    }

    /// Yields to the other clients with probability 1/2.
    pub(super) async fn maybe_yield(self: &Rc<Self>) {
        let yields = self.state.borrow_mut().random.once_in(2);
        if yields {
            YieldOnce::new(self).await;
        }
    }
}

/// Yields until every other client has run once.
pub(super) struct YieldOnce {
    world: Rc<World>,
    has_yielded: bool,
}

impl YieldOnce {
    pub(super) fn new(world: &Rc<World>) -> Self {
        Self { world: Rc::clone(world), has_yielded: false }
    }
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        self.world.progress();
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Yields until every other client has run once, and counts no action.
pub(super) fn idle() -> impl Future<Output = ()> {
    let mut polled = false;
    poll_fn(move |context| {
        if polled {
            return Poll::Ready(());
        }
        polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Runs one client's work until it ends; no other client runs.
pub(super) fn drive<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Runs both futures until both are ready.
pub(super) async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut one_done, mut other_done) = (false, false);
    poll_fn(|context| {
        one_done = one_done || one.as_mut().poll(context).is_ready();
        other_done = other_done || other.as_mut().poll(context).is_ready();
        if one_done && other_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A sleeping client.
pub(super) struct Sleep {
    world: Rc<World>,
    deadline: u64,
    /// The number of actions at the last poll.
    seen: Option<u64>,
}

impl Sleep {
    pub(super) fn new(world: &Rc<World>, nanoseconds: u64) -> Self {
        let mut state = world.state.borrow_mut();
        let deadline = state.now + nanoseconds;
        *state.sleepers.entry(deadline).or_default() += 1;
        Self { world: Rc::clone(world), deadline, seen: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let world = Rc::clone(&self.world);
        let mut state = world.state.borrow_mut();
        if self.seen == Some(state.progress) {
            let next = state.sleepers.first_key_value().map_or(self.deadline, |(deadline, _)| *deadline);
            state.now = state.now.max(next);
        }
        if self.seen.is_some() && state.now >= self.deadline {
            state.progress += 1;
            return Poll::Ready(());
        }
        self.seen = Some(state.progress);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut state = self.world.state.borrow_mut();
        if let Some(count) = state.sleepers.get_mut(&self.deadline) {
            *count -= 1;
            if *count == 0 {
                state.sleepers.remove(&self.deadline);
            }
        }
    }
}
