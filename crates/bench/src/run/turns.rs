//! Several clients on one thread, in turn.
//!
//! A benchmark's clients never rest, so nobody is put to sleep: every client is polled in its turn, whether it was
//! woken or not. Only when none of them has finished an operation for a while does the thread step back.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

/// Turns without progress before the thread gives its processor to others.
const FRUITLESS_MAX: u32 = 64;

/// A client's work on a thread that it shares.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Runs `works` to their ends; each raises `progress` when it has done something. Yields the outputs in order.
pub(crate) fn take_turns<T>(works: Vec<Work<'_, T>>, progress: &Cell<u64>) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = works.iter().map(|_| None).collect();
    let mut running: Vec<_> = works.into_iter().enumerate().collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut fruitless = 0;
    while !running.is_empty() {
        let before = (progress.get(), running.len());
        running.retain_mut(|(at, work)| match work.as_mut().poll(&mut context) {
            Poll::Ready(output) => {
                outputs[*at] = Some(output);
                false
            }
            Poll::Pending => true,
        });
        if before != (progress.get(), running.len()) {
            fruitless = 0;
        } else if fruitless < FRUITLESS_MAX {
            fruitless += 1;
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::seat::next_turn;
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn clients_take_turns_and_end_by_themselves() {
        let (progress, seen) = (Cell::new(0), RefCell::new(Vec::new()));
        let work = |me: u64, operations: u64| {
            let (progress, seen) = (&progress, &seen);
            let work = async move {
                for _ in 0..operations {
                    seen.borrow_mut().push(me);
                    next_turn(progress).await;
                }
                me
            };
            Box::pin(work) as Work<'_, u64>
        };
        assert_eq!(take_turns(vec![work(7, 3), work(8, 1), work(9, 2)], &progress), [7, 8, 9]);
        assert_eq!(*seen.borrow(), [7, 8, 9, 7, 9, 7]);
    }
}
