//! A future whose panics are results.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::thread;

/// Runs a future; a panic of it is returned. The future is dropped before its result is returned.
pub async fn catch_panic<T>(future: impl Future<Output = T>) -> thread::Result<T> {
    let mut future = pin!(future);
    poll_fn(|context| poll_and_catch(future.as_mut(), context)).await
}

/// Polls a future; a panic of it is returned. The future must not be polled again then.
pub(super) fn poll_and_catch<T>(
    future: Pin<&mut impl Future<Output = T>>,
    context: &mut Context<'_>,
) -> Poll<thread::Result<T>> {
    match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}
