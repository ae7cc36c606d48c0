//! How a connection's flow is woken: immediates name connections, and each has a bell (Catfish §IV-B, event mode).

use super::service::{IDLE_NS, Service};
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, Server};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Wakes a connection's flow.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        if let Some(waker) = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    }
}

impl Service<'_> {
    /// Sleeps until the connection's bell rings, or for so long; yields whether it was woken.
    pub(super) async fn wait<F: Fabric>(&self, number: usize, client: &Client<F>, nanoseconds: u64) -> bool {
        let bell = &self.bells[number];
        if bell.rung.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut sleep = std::pin::pin!(client.fabric().sleep(nanoseconds));
        poll_fn(|context| {
            if bell.rung.swap(false, Ordering::AcqRel) {
                return Poll::Ready(true);
            }
            if sleep.as_mut().poll(context).is_ready() {
                return Poll::Ready(false);
            }
            *bell.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            if bell.rung.swap(false, Ordering::AcqRel) { Poll::Ready(true) } else { Poll::Pending }
        })
        .await
    }

    /// Takes immediates, each the number of a connection, and wakes its flow. For ever: to be dropped with the others.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn dispatch<S: Server>(&self, server: &S) -> Result<(), IndexError> {
        loop {
            let number = server.receive().await?;
            if let Some(bell) = self.bells.get(number as usize) {
                bell.ring();
            }
        }
    }

    /// As [`dispatch`](Self::dispatch), until the service ends.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn dispatch_until_end<F: Fabric, S: Server>(
        &self,
        server: &S,
        client: &Client<F>,
    ) -> Result<(), IndexError> {
        let mut dispatch = std::pin::pin!(self.dispatch(server));
        let pause = || client.fabric().sleep(IDLE_NS);
        let mut look = Box::pin(pause());
        poll_fn(|context| {
            if self.is_ended() {
                return Poll::Ready(Ok(()));
            }
            keep_pausing(&mut look, pause, context);
            dispatch.as_mut().poll(context)
        })
        .await
    }
}

/// Puts another pause in the place of one that is over, so that the task is woken again. Also of one that is over when
/// it begins: who waits may have been kept from running meanwhile.
fn keep_pausing<P: Future>(pause: &mut Pin<Box<P>>, again: impl Fn() -> P, context: &mut Context<'_>) {
    while pause.as_mut().poll(context).is_ready() {
        pause.set(again());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_pause_that_is_over_when_it_begins_is_not_asked_again() {
        let short = Cell::new(3);
        let again = || {
            let left = short.replace(short.get() - 1);
            async move {
                if left <= 0 {
                    std::future::pending::<()>().await;
                }
            }
        };
        let mut pause = Box::pin(again());
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            keep_pausing(&mut pause, again, &mut context);
            assert_eq!(short.get(), -1, "the fourth is the first that lasts");
        }
    }
}
