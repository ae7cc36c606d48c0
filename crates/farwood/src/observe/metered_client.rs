//! A client that counts its calls.
//!
//! A blocking call has its client for itself, so its costs are those that the client has counted when it ends. The
//! calls of a session or of the thread of a pool share a client, and are polled in any order: the costs of such a call
//! are what the client counts while the call is polled.

use super::call_counters::CallCounters;
use super::observer::{CallOutcome, ObservedCall};
use super::registry::{CallRegistry, Duties, MeteredIndex};
use crate::error::HasKind;
use farwood_fabric::{Client, Costs};
use farwood_transport::any::AnyFabric;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The mean distance of two calls whose duration is measured if not all are.
const SAMPLE_DISTANCE: u32 = 64;

/// The counters of the operations of an index, in the order of their first calls.
type OfIndex = Vec<(&'static str, Arc<CallCounters>)>;

/// A client that counts its calls.
pub(crate) struct MeteredClient {
    client: Client<AnyFabric>,
    registry: Arc<CallRegistry>,
    /// By the number of the index.
    counters: RefCell<Vec<OfIndex>>,
    /// Whether the client may have counted costs that belong to no blocking call.
    has_other_costs: Cell<bool>,
    /// Calls before the next one whose duration is measured.
    unsampled: Cell<u32>,
    random: Cell<u32>,
}

impl Deref for MeteredClient {
    type Target = Client<AnyFabric>;

    #[inline]
    fn deref(&self) -> &Client<AnyFabric> {
        &self.client
    }
}

impl MeteredClient {
    pub(crate) fn new(client: Client<AnyFabric>, registry: Arc<CallRegistry>) -> Self {
        let random = Cell::new(registry.seed().max(1));
        let (counters, has_other_costs, unsampled) = (RefCell::default(), Cell::new(false), Cell::new(0));
        let metered = Self { client, registry, counters, has_other_costs, unsampled, random };
        metered.draw();
        metered
    }

    /// The client is used for something that is not a blocking call.
    #[inline]
    pub(crate) fn expect_other_costs(&self) {
        self.has_other_costs.set(true);
    }

    /// Executes a blocking call, and counts it.
    #[inline]
    pub(crate) fn call<T, E: HasKind>(
        &self,
        index: &MeteredIndex,
        operation: &'static str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.call_since(None, (index, operation), work)
    }

    /// As [`call`](Self::call), for a call that began at `begun`. If no other use of the client is expected, its costs
    /// since the last call count too.
    #[inline]
    pub(crate) fn call_since<T, E: HasKind>(
        &self,
        begun: Option<Instant>,
        (index, operation): (&MeteredIndex, &'static str),
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.counted(begun, (index, operation), work, |done| Some(outcome_of(done)))
    }

    /// As [`call`](Self::call), for a call that is given up if it would wait: then its costs are those of the next
    /// call, which repeats it.
    #[inline]
    pub(crate) fn attempt<T, E: HasKind>(
        &self,
        index: &MeteredIndex,
        operation: &'static str,
        work: impl FnOnce() -> Poll<Result<T, E>>,
    ) -> Poll<Result<T, E>> {
        self.counted(None, (index, operation), work, |polled| match polled {
            Poll::Ready(done) => Some(outcome_of(done)),
            Poll::Pending => None,
        })
    }

    #[inline]
    fn counted<T>(
        &self,
        begun: Option<Instant>,
        (index, operation): (&MeteredIndex, &'static str),
        work: impl FnOnce() -> T,
        outcome_of: impl FnOnce(&T) -> Option<CallOutcome>,
    ) -> T {
        let duties = self.registry.duties();
        if duties.is_none() {
            self.has_other_costs.set(true);
            return work();
        }
        if self.has_other_costs.replace(false) {
            self.client.take_costs();
        }
        let begun = self.is_measured(duties).then(|| begun.unwrap_or_else(Instant::now));
        let mut call =
            BlockingCall { client: self, index, operation, begun, outcome: CallOutcome::Unfinished };
        let done = work();
        match outcome_of(&done) {
            Some(outcome) => call.outcome = outcome,
            None => mem::forget(call),
        }
        done
    }

    /// Executes a call that shares the client with others, and counts it. It began at `begun`; `None`: at the first
    /// poll.
    pub(crate) async fn shared_call<T, E: HasKind, F: Future<Output = Result<T, E>>>(
        &self,
        index: &MeteredIndex,
        operation: &'static str,
        begun: Option<Instant>,
        work: impl FnOnce() -> F,
    ) -> Result<T, E> {
        let duties = self.registry.duties();
        if duties.is_none() {
            return work().await;
        }
        let begun = self.is_measured(duties).then(|| begun.unwrap_or_else(Instant::now));
        let (outcome, costs) = (CallOutcome::Unfinished, Costs::default());
        let mut call = SharedCall { client: self, index, operation, begun, outcome, costs };
        let mut work = pin!(work());
        let done = poll_fn(|context| {
            let before = self.client.costs();
            let polled = work.as_mut().poll(context);
            call.costs += self.client.costs().since(before);
            polled
        })
        .await;
        call.outcome = outcome_of(&done);
        done
    }

    /// Whether the duration of the next call is measured.
    #[inline]
    fn is_measured(&self, duties: Duties) -> bool {
        duties.measures() || duties.samples() && self.is_sampled()
    }

    #[inline]
    fn is_sampled(&self) -> bool {
        if let Some(unsampled) = self.unsampled.get().checked_sub(1) {
            self.unsampled.set(unsampled);
            return false;
        }
        self.draw();
        true
    }

    /// Chooses the next call whose duration is measured, at random, so that no period of the program's calls matters.
    #[cold]
    fn draw(&self) {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        self.unsampled.set(random % (2 * SAMPLE_DISTANCE - 1));
    }

    /// Counts and observes a call.
    fn end(
        &self,
        index: &MeteredIndex,
        operation: &'static str,
        (duration, costs): (Option<Duration>, &Costs),
        outcome: CallOutcome,
    ) {
        let duties = self.registry.duties();
        if duties.counts() {
            self.with_counters(index, operation, |counters| {
                counters.add(outcome, costs);
                if let Some(duration) = duration {
                    counters.measure(duration);
                }
            });
        }
        if let (true, Some(duration)) = (duties.observes(), duration) {
            let call = |index| ObservedCall { index, operation, duration, costs: *costs, outcome };
            self.registry.observe(index, call);
        }
    }

    /// Calls `change` with the counters of an operation.
    #[inline]
    fn with_counters(
        &self,
        index: &MeteredIndex,
        operation: &'static str,
        change: impl FnOnce(&CallCounters),
    ) {
        let counters = self.counters.borrow();
        let of_index = counters.get(index.number).map_or(&[][..], Vec::as_slice);
        // The same name may have several addresses, and then several counters.
        if let Some((_, counters)) = of_index.iter().find(|(name, _)| std::ptr::eq(*name, operation)) {
            return change(counters);
        }
        drop(counters);
        self.acquire(index, operation, change);
    }

    #[cold]
    fn acquire(&self, index: &MeteredIndex, operation: &'static str, change: impl FnOnce(&CallCounters)) {
        let Some(acquired) = self.registry.acquire(index.number, operation) else { return };
        let mut counters = self.counters.borrow_mut();
        if counters.len() <= index.number {
            counters.resize_with(index.number + 1, Vec::new);
        }
        change(&acquired);
        counters[index.number].push((operation, acquired));
    }
}

impl Drop for MeteredClient {
    fn drop(&mut self) {
        for (index, counters) in self.counters.get_mut().iter().enumerate() {
            if !counters.is_empty() {
                self.registry.release(index, counters);
            }
        }
    }
}

#[inline]
fn outcome_of<T, E: HasKind>(done: &Result<T, E>) -> CallOutcome {
    match done {
        Ok(_) => CallOutcome::Succeeded,
        Err(error) => CallOutcome::Failed(error.kind()),
    }
}

/// A blocking call, which is counted when this is dropped.
struct BlockingCall<'c> {
    client: &'c MeteredClient,
    index: &'c MeteredIndex,
    operation: &'static str,
    begun: Option<Instant>,
    outcome: CallOutcome,
}

impl Drop for BlockingCall<'_> {
    #[inline]
    fn drop(&mut self) {
        let Self { client, index, operation, begun, outcome } = *self;
        if begun.is_none() && outcome == CallOutcome::Succeeded {
            client.with_counters(index, operation, |counters| {
                client.client.note(|costs| counters.succeed(costs));
            });
        } else {
            self.end();
        }
    }
}

impl BlockingCall<'_> {
    #[cold]
    fn end(&self) {
        let costs = self.client.client.take_costs();
        let duration = self.begun.map(|begun| begun.elapsed());
        self.client.end(self.index, self.operation, (duration, &costs), self.outcome);
    }
}

/// A call that shares its client, which is counted when this is dropped.
struct SharedCall<'c> {
    client: &'c MeteredClient,
    index: &'c MeteredIndex,
    operation: &'static str,
    begun: Option<Instant>,
    outcome: CallOutcome,
    costs: Costs,
}

impl Drop for SharedCall<'_> {
    fn drop(&mut self) {
        let duration = self.begun.map(|begun| begun.elapsed());
        self.client.end(self.index, self.operation, (duration, &self.costs), self.outcome);
    }
}
