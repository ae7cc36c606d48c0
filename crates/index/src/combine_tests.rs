//! Tests of request combining. They are not in `combine.rs`, because `tests/queue_model.rs` compiles that file as well.

use crate::combine::{Combiner, Leader, Role};
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn ready<F: Future>(future: Pin<&mut F>) -> F::Output {
    match poll(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

/// Requests an operation of a client that waits for any time.
async fn enter<T: Clone>(combiner: &Combiner<T>, operation: u8) -> Role<'_, T> {
    combiner.enter(b"k", operation, async || pending().await).await
}

#[test]
fn a_request_that_arrives_during_an_execution_waits_for_the_next() {
    let combiner = Combiner::<u32>::new(Leader::First);
    let Role::Lead(first) = ready(pin!(enter(&combiner, 0))) else { panic!("the slot was free") };
    let (mut second, mut third) = (pin!(enter(&combiner, 0)), pin!(enter(&combiner, 0)));
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    assert_eq!(first.share(|| 1), 0, "no client shares an execution that has begun");
    let Role::Lead(second) = ready(second) else { panic!("the client was the first of its batch") };
    let mut fourth = pin!(enter(&combiner, 0));
    assert!(poll(third.as_mut()).is_pending() && poll(fourth.as_mut()).is_pending());
    assert_eq!(second.share(|| 2), 1);
    assert!(matches!(ready(third), Role::Done { result: 2, position: 0 }));
    assert!(matches!(ready(fourth), Role::Lead(_)));
    assert_eq!(combiner.shared(), 1);
}

#[test]
fn the_last_client_leads_and_each_client_knows_its_position() {
    let combiner = Combiner::<u32>::new(Leader::Last);
    let Role::Lead(first) = ready(pin!(enter(&combiner, 0))) else { panic!("the slot was free") };
    let (mut second, mut third) = (pin!(enter(&combiner, 0)), pin!(enter(&combiner, 0)));
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    drop(first);
    let Role::Lead(lead) = ready(third) else { panic!("the client was the last of its batch") };
    assert_eq!(lead.share(|| 7), 1);
    assert!(matches!(ready(second), Role::Done { result: 7, position: 0 }));
}

#[test]
fn a_dropped_leader_leaves_no_client_waiting() {
    let combiner = Combiner::<u32>::new(Leader::First);
    let Role::Lead(first) = ready(pin!(enter(&combiner, 0))) else { panic!("the slot was free") };
    let mut third = pin!(enter(&combiner, 0));
    {
        let mut second = pin!(enter(&combiner, 0));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        drop(first);
    }
    assert!(matches!(ready(third), Role::Alone));
    assert!(matches!(ready(pin!(enter(&combiner, 0))), Role::Lead(_)));
}

#[test]
fn another_operation_on_the_key_is_executed_alone() {
    let combiner = Combiner::<u32>::new(Leader::First);
    let Role::Lead(_first) = ready(pin!(enter(&combiner, 0))) else { panic!("the slot was free") };
    assert!(matches!(ready(pin!(enter(&combiner, 1))), Role::Alone));
}

#[test]
fn a_client_that_has_waited_too_long_leaves_its_batch() {
    let combiner = Combiner::<u32>::new(Leader::Last);
    let Role::Lead(first) = ready(pin!(enter(&combiner, 0))) else { panic!("the slot was free") };
    let late = combiner.enter(b"k", 0, async || None);
    let (mut second, mut third) = (pin!(enter(&combiner, 0)), pin!(enter(&combiner, 0)));
    assert!(matches!(ready(pin!(late)), Role::Alone));
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    drop(first);
    let Role::Lead(lead) = ready(third) else { panic!("the client was the last of its batch") };
    assert_eq!(lead.share(|| 7), 1, "the client that has left does not count");
    assert!(matches!(ready(second), Role::Done { result: 7, position: 0 }));
}

/// The second client leads the batch of the third, and nobody polls it.
#[test]
fn a_leader_that_is_not_polled_loses_its_batch() {
    let combiner = Combiner::<u32>::new(Leader::First);
    let Role::Lead(first) = ready(pin!(enter(&combiner, 0))) else { panic!("the slot was free") };
    let mut unpolled = pin!(enter(&combiner, 0));
    let mut third = pin!(combiner.enter(b"k", 0, async || {
        yield_once().await;
        Some(())
    }));
    assert!(poll(unpolled.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    drop(first);
    // The first pause notices the grant, and the second one finds that it was not taken.
    let polls = (0..4).find(|_| matches!(poll(third.as_mut()), Poll::Ready(Role::Alone)));
    assert!(polls.is_some(), "the client executes its request alone");
    assert!(matches!(ready(pin!(enter(&combiner, 0))), Role::Lead(_)), "the slot is free");
    assert!(matches!(ready(unpolled), Role::Alone));
}

async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|_| if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// All threads that request the same operation proceed, one at a time, and a shared result comes from an execution that
/// began after the request.
#[test]
fn threads_share_only_executions_that_began_after_the_request() {
    for leader in [Leader::First, Leader::Last] {
        let combiner = Combiner::<u64>::new(leader);
        let (clock, busy) = (AtomicU64::new(0), AtomicU64::new(0));
        let client = || {
            for round in 0..20_000 {
                let requested = clock.fetch_add(1, SeqCst);
                match wait(enter(&combiner, 0)) {
                    Role::Lead(lead) => {
                        assert_eq!(busy.fetch_add(1, SeqCst), 0, "another request is being executed");
                        let executed = clock.fetch_add(1, SeqCst);
                        if round % 7 == 0 {
                            thread::yield_now();
                        }
                        assert_eq!(busy.fetch_sub(1, SeqCst), 1);
                        if round % 100 != 0 {
                            lead.share(|| executed);
                        }
                    }
                    Role::Done { result, .. } => {
                        assert!(result > requested, "the execution began before the request");
                    }
                    Role::Alone => {}
                }
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(client))));
        assert!(combiner.shared() > 0, "no request was combined");
        assert!(matches!(ready(pin!(enter(&combiner, 0))), Role::Lead(_)), "the slot is free");
    }
}
