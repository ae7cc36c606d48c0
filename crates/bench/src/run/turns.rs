//! Several clients on one thread, in turn.

use farwood_transport::runtime::give_way;
use std::future::{Future, poll_fn};
use std::pin::Pin;

/// A client's work on a thread that it shares.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Does one thing, and then lets the thread's other clients have their turn, unless they had it while it waited. The
/// future is not moved: it may have kilobytes.
pub(crate) async fn in_turn<T>(one: Pin<&mut impl Future<Output = T>>) -> T {
    take_turn(one).await.0
}

/// The same; and whether the others had their turn behind it.
pub(crate) async fn take_turn<T>(mut one: Pin<&mut impl Future<Output = T>>) -> (T, bool) {
    let mut waited = false;
    let output = poll_fn(|context| {
        let polled = one.as_mut().poll(context);
        waited |= polled.is_pending();
        polled
    })
    .await;
    if !waited {
        give_way().await;
    }
    (output, !waited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_transport::runtime::run_all;
    use std::cell::RefCell;
    use std::pin::pin;

    #[test]
    fn clients_take_turns_and_end_by_themselves() {
        let seen = RefCell::new(Vec::new());
        let work = |me: u64, operations: u64| {
            let seen = &seen;
            let work = async move {
                for _ in 0..operations {
                    in_turn(pin!(async { seen.borrow_mut().push(me) })).await;
                }
                me
            };
            Box::pin(work) as Work<'_, u64>
        };
        assert_eq!(run_all(vec![work(7, 3), work(8, 1), work(9, 2)]), [7, 8, 9]);
        assert_eq!(*seen.borrow(), [7, 8, 9, 7, 9, 7]);
    }

    #[test]
    fn who_waited_does_not_give_way_again() {
        let polls = RefCell::new(0);
        let work = async {
            for _ in 0..3 {
                in_turn(pin!(give_way())).await;
                *polls.borrow_mut() += 1;
            }
        };
        let mut work = pin!(work);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for done in 0..3 {
            assert!(work.as_mut().poll(&mut context).is_pending());
            assert_eq!(*polls.borrow(), done);
        }
        assert!(work.as_mut().poll(&mut context).is_ready());
    }
}
