//! Whose turn it is to change the tree: one worker of the server at a time, first come, first served.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Workers that want the turn, in the order in which they came. The first has it.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(u64, Option<Waker>)>,
    next: u64,
}

/// The turn, or a place in the queue for it; given up when dropped.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    ticket: u64,
}

impl Turns {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn. [0 RT]
    pub(super) async fn take(&self) -> Turn<'_> {
        let turn = {
            let mut queue = self.queue();
            let ticket = queue.next;
            queue.next += 1;
            queue.waiting.push_back((ticket, None));
            Turn { turns: self, ticket }
        };
        poll_fn(|context| {
            let mut queue = self.queue();
            if queue.waiting.front().is_some_and(|(first, _)| *first == turn.ticket) {
                return Poll::Ready(());
            }
            let mine = queue.waiting.iter_mut().find(|(ticket, _)| *ticket == turn.ticket);
            mine.expect("it waits until it is dropped").1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.turns.queue();
        queue.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        if let Some((_, Some(waker))) = queue.waiting.front() {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn one_at_a_time_in_the_order_of_coming_and_who_gives_up_is_passed_over() {
        let turns = Turns::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(turns.take());
        let Poll::Ready(first) = first.as_mut().poll(&mut context) else { panic!("nobody else is there") };
        let mut second = Box::pin(turns.take());
        let mut third = pin!(turns.take());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(third.as_mut().poll(&mut context).is_pending(), "the first still has it");
        drop(first);
        assert!(third.as_mut().poll(&mut context).is_ready());
    }
}
