//! The end of a call that waits: after a time limit, or when the program interrupts it.

use crate::error::{Error, Result};
use crate::tree::Tree;
use farwood_fabric::{Client, Fabric as _};
use farwood_transport::any::AnyFabric;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A function that a waiting call asks whether the program interrupts it.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// The time between two questions.
const INTERRUPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a call waits.
#[derive(Clone, Default)]
pub(crate) struct Patience {
    /// The longest duration; `None`: only the limits of its steps apply.
    pub(crate) limit: Option<Duration>,
    pub(crate) interrupt: Option<Interrupt>,
}

impl Patience {
    pub(crate) fn of_limit(limit: Option<Duration>) -> Self {
        Self { limit, interrupt: None }
    }

    /// Whether a call ends by itself only.
    #[inline]
    pub(crate) fn is_endless(&self) -> bool {
        self.limit.is_none() && self.interrupt.is_none()
    }

    /// The patience of a call on another thread, the pause between two questions, and a function that the waiting
    /// thread calls after each: it asks the program whether it interrupts the call.
    pub(crate) fn divided(&self) -> (Self, Duration, impl FnMut()) {
        let asked = self.interrupt.clone().map(|program| (program, Arc::new(AtomicBool::new(false))));
        let there = asked.as_ref().map(|(_, is_interrupted)| -> Interrupt {
            let is_interrupted = Arc::clone(is_interrupted);
            Arc::new(move || is_interrupted.load(Ordering::Relaxed))
        });
        let pause = if asked.is_some() { INTERRUPT_PAUSE } else { Duration::MAX };
        let ask = move || {
            if let Some((program, is_interrupted)) = &asked
                && program()
            {
                is_interrupted.store(true, Ordering::Relaxed);
            }
        };
        (Self { limit: self.limit, interrupt: there }, pause, ask)
    }

    /// Runs a call of the index that began at `begun` until it ends, the limit has passed, or it is interrupted.
    pub(crate) async fn run<T>(
        &self,
        begun: Instant,
        (tree, operation): (&Tree, &'static str),
        client: &Client<AnyFabric>,
        mut call: Pin<Box<impl Future<Output = Result<T>>>>,
    ) -> Result<T> {
        loop {
            let left = self.limit.map_or(Duration::MAX, |limit| limit.saturating_sub(begun.elapsed()));
            let pause = if self.interrupt.is_some() { left.min(INTERRUPT_PAUSE) } else { left };
            let nanoseconds = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
            if let Some(done) = until(&mut call, client.fabric().sleep(nanoseconds)).await {
                return done;
            }
            let has_passed = pause == left;
            if has_passed || self.interrupt.as_ref().is_some_and(|is_interrupted| is_interrupted()) {
                let after = if has_passed { self.limit.unwrap_or(left) } else { begun.elapsed() };
                return Err(Error::TimedOut { operation, url: tree.url(), after });
            }
        }
    }
}

/// Runs `work` until it or `pause` ends; `None`: the pause has ended first.
async fn until<T>(work: impl Future<Output = T>, pause: impl Future<Output = ()>) -> Option<T> {
    let (mut work, mut pause) = (pin!(work), pin!(pause));
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        pause.as_mut().poll(context).map(|()| None)
    })
    .await
}
