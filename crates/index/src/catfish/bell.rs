//! How a connection's flow is woken: immediates name connections, and each has a bell (Catfish §IV-B, event mode).

use super::service::{IDLE_NS, Service};
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, Server};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

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
        let mut look = Box::pin(client.fabric().sleep(IDLE_NS));
        poll_fn(|context| {
            if self.is_ended() {
                return Poll::Ready(Ok(()));
            }
            if look.as_mut().poll(context).is_ready() {
                look = Box::pin(client.fabric().sleep(IDLE_NS));
                // Before it is polled nobody is woken for it.
                let _ = look.as_mut().poll(context);
            }
            dispatch.as_mut().poll(context)
        })
        .await
    }
}
