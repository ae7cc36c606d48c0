//! Tests of request combining. They are not in `combine.rs`, because `tests/queue_model.rs` compiles that file as well.

use crate::combine::{Combiner, Leader, Role};
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

#[test]
fn a_request_that_arrives_during_an_execution_waits_for_the_next() {
    let combiner = Combiner::<u32>::new(Leader::First);
    let Role::Lead(first) = ready(pin!(combiner.enter(b"k", 0))) else { panic!("the slot was free") };
    let (mut second, mut third) = (pin!(combiner.enter(b"k", 0)), pin!(combiner.enter(b"k", 0)));
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    first.share(|| 1);
    let Role::Lead(second) = ready(second) else { panic!("the client was the first of its batch") };
    let mut fourth = pin!(combiner.enter(b"k", 0));
    assert!(poll(third.as_mut()).is_pending() && poll(fourth.as_mut()).is_pending());
    second.share(|| 2);
    assert!(matches!(ready(third), Role::Done { result: 2, position: 1 }));
    assert!(matches!(ready(fourth), Role::Lead(_)));
    assert_eq!(combiner.shared(), 1);
}

#[test]
fn the_last_client_leads_and_the_first_client_knows_its_position() {
    let combiner = Combiner::<u32>::new(Leader::Last);
    let Role::Lead(first) = ready(pin!(combiner.enter(b"k", 0))) else { panic!("the slot was free") };
    let (mut second, mut third) = (pin!(combiner.enter(b"k", 0)), pin!(combiner.enter(b"k", 0)));
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    drop(first);
    let Role::Lead(lead) = ready(third) else { panic!("the client was the last of its batch") };
    assert_eq!(lead.position(), 1);
    lead.share(|| 7);
    assert!(matches!(ready(second), Role::Done { result: 7, position: 0 }));
}

#[test]
fn a_dropped_leader_leaves_no_client_waiting() {
    let combiner = Combiner::<u32>::new(Leader::First);
    let Role::Lead(first) = ready(pin!(combiner.enter(b"k", 0))) else { panic!("the slot was free") };
    let mut third = pin!(combiner.enter(b"k", 0));
    {
        let mut second = pin!(combiner.enter(b"k", 0));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        drop(first);
    }
    assert!(matches!(ready(third), Role::Alone));
    assert!(matches!(ready(pin!(combiner.enter(b"k", 0))), Role::Lead(_)));
}

#[test]
fn another_operation_on_the_key_is_executed_alone() {
    let combiner = Combiner::<u32>::new(Leader::First);
    let Role::Lead(_first) = ready(pin!(combiner.enter(b"k", 0))) else { panic!("the slot was free") };
    assert!(matches!(ready(pin!(combiner.enter(b"k", 1))), Role::Alone));
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
                match wait(combiner.enter(b"k", 0)) {
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
        assert!(matches!(ready(pin!(combiner.enter(b"k", 0))), Role::Lead(_)), "the slot is free");
    }
}
