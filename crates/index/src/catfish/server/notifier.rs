//! Notifiers: an immediate names a connection, and wakes the connection's flow (Catfish §IV-B, event mode).

use super::super::head::CONNECTIONS_MAX;
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, Server};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Time between two checks of a connection that has no owner, or whose notification may have been lost, nanoseconds.
pub(super) const IDLE_CHECK_NS: u64 = 500_000;
/// The same for a connection that has been idle for long: other checks find new clients.
const IDLE_CHECK_MAX_NS: u64 = 20_000_000;
/// Divisor of the time for which a connection has been idle.
const IDLE_SHARE: u64 = 16;
/// Time between two checks for new clients, nanoseconds. It equals the longest pause between two polls for immediates
/// in shared memory, so that one wake-up serves both.
const ACCEPT_CHECK_NS: u64 = 2_000_000;

/// How often a service without messages looks for clients and for lost notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleChecks {
    /// At a constant interval, for simulated servers: their timing then does not depend on the time of the first
    /// client.
    Frequent,
    /// Rarely, if there was no message for a while. The processor of an idle server sleeps.
    Rare,
}

/// Nanoseconds from `now` until the next check of a connection that has been idle for `idle` nanoseconds. The longest
/// pauses of all connections end at the same time, so that their thread wakes up once.
pub(super) fn idle_pause(now: u64, idle: u64) -> u64 {
    let pause = (idle / IDLE_SHARE).max(IDLE_CHECK_NS);
    if pause < IDLE_CHECK_MAX_NS { pause } else { until_multiple(now, IDLE_CHECK_MAX_NS) }
}

/// Nanoseconds from `now` until the next multiple of `interval`.
fn until_multiple(now: u64, interval: u64) -> u64 {
    interval - now % interval
}

/// Wakes the flow of one connection.
#[derive(Debug, Default)]
struct CompletionNotifier {
    notified: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl CompletionNotifier {
    fn notify(&self) {
        self.notified.store(true, Ordering::Release);
        if let Some(waker) = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    }

    fn take_notification(&self) -> bool {
        self.notified.swap(false, Ordering::AcqRel)
    }
}

/// The notifiers of all connections.
#[derive(Debug)]
pub(super) struct Notifiers {
    connections: Box<[CompletionNotifier]>,
}

impl Default for Notifiers {
    fn default() -> Self {
        Self { connections: (0..CONNECTIONS_MAX).map(|_| CompletionNotifier::default()).collect() }
    }
}

impl Notifiers {
    /// Notifies every connection.
    pub(super) fn notify_all(&self) {
        self.connections.iter().for_each(CompletionNotifier::notify);
    }

    /// Waits until connection `number` is notified, at most `nanoseconds`; yields whether a notification woke the
    /// flow. A notification that is already there is taken without waiting.
    pub(super) async fn wait<F: Fabric>(&self, number: usize, client: &Client<F>, nanoseconds: u64) -> bool {
        let notifier = &self.connections[number];
        if notifier.take_notification() {
            return false;
        }
        let mut sleep = std::pin::pin!(client.fabric().sleep(nanoseconds));
        poll_fn(|context| {
            if notifier.take_notification() {
                return Poll::Ready(true);
            }
            if sleep.as_mut().poll(context).is_ready() {
                return Poll::Ready(false);
            }
            let mut waker = notifier.waker.lock().unwrap_or_else(PoisonError::into_inner);
            *waker = Some(context.waker().clone());
            drop(waker);
            // A notification that came before the waker was stored has woken no task.
            if notifier.take_notification() { Poll::Ready(true) } else { Poll::Pending }
        })
        .await
    }

    /// Receives immediates, each the number of a connection, and notifies the connection. It never ends, and is
    /// dropped with the other flows.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(super) async fn dispatch<S: Server>(&self, server: &S) -> Result<(), IndexError> {
        loop {
            let number = server.receive().await?;
            if let Some(notifier) = self.connections.get(number as usize) {
                notifier.notify();
            }
        }
    }

    /// Notifies the connection.
    pub(super) fn notify(&self, number: usize) {
        self.connections[number].notify();
    }

    /// Runs [`dispatch`](Self::dispatch) until `check` returns true. Calls `check` whenever an immediate may have
    /// arrived, and at intervals.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(super) async fn dispatch_until<F: Fabric, S: Server>(
        &self,
        server: &S,
        client: &Client<F>,
        checks: IdleChecks,
        check: impl Fn() -> Result<bool, IndexError>,
    ) -> Result<(), IndexError> {
        let mut dispatch = std::pin::pin!(self.dispatch(server));
        let pause = || match checks {
            IdleChecks::Frequent => IDLE_CHECK_NS,
            IdleChecks::Rare => until_multiple(client.fabric().now(), ACCEPT_CHECK_NS),
        };
        let new_timer = || client.fabric().sleep(pause());
        let mut timer = Box::pin(new_timer());
        poll_fn(|context| {
            match check() {
                Ok(false) => {}
                ended => return Poll::Ready(ended.map(|_| ())),
            }
            restart_expired(&mut timer, new_timer, context);
            dispatch.as_mut().poll(context)
        })
        .await
    }
}

/// Replaces a timer that has expired, so that the task is woken again. The new timer may have expired as well, because
/// the thread may have been suspended in between.
fn restart_expired<P: Future>(timer: &mut Pin<Box<P>>, new_timer: impl Fn() -> P, context: &mut Context<'_>) {
    while timer.as_mut().poll(context).is_ready() {
        timer.set(new_timer());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_longest_pauses_of_idle_connections_end_together() {
        assert_eq!(idle_pause(3, 0), IDLE_CHECK_NS);
        assert!(idle_pause(3, 100_000_000) > IDLE_CHECK_NS);
        for (now, idle) in [(0, 1 << 30), (1, 1 << 40), (3 * IDLE_CHECK_MAX_NS - 1, 1 << 50)] {
            let next = now + idle_pause(now, idle);
            assert!(next > now && next.is_multiple_of(IDLE_CHECK_MAX_NS), "{now}");
        }
    }

    #[test]
    fn a_timer_that_expires_at_once_is_replaced_again() {
        let expired = Cell::new(3);
        let new_timer = || {
            let left = expired.replace(expired.get() - 1);
            async move {
                if left <= 0 {
                    std::future::pending::<()>().await;
                }
            }
        };
        let mut timer = Box::pin(new_timer());
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            restart_expired(&mut timer, new_timer, &mut context);
            assert_eq!(expired.get(), -1, "the fourth timer is the first one that has not expired");
        }
    }
}
