//! Several clients on one thread, which alternate after each operation.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};

use farwood_transport::runtime::{block_on, run_all, yield_now};

use super::clock::{Clock, Deadline};
use super::protocol::Amount;
use crate::record::measurement::{CostTotals, Measurement, OperationKind};
use crate::{Error, Result};

/// The work of a client that shares its thread.
pub type ClientFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A client that executes one operation after the other.
pub(crate) trait StepClient {
    /// The time between two operations of the client, in nanoseconds.
    fn think_ns(&self) -> u64 {
        0
    }

    /// Waits for [`think_ns`](Self::think_ns).
    async fn think(&mut self) {}

    /// Executes the next operation and checks its answer; `None` if no operation is left.
    async fn step(&mut self) -> Result<Option<(OperationKind, CostTotals)>>;
}

/// Runs each client until it has done `amount` of work, and measures all operations.
pub(crate) fn run_clients<C: StepClient>(clients: &mut [C], amount: Amount) -> Result<Measurement> {
    let clock = Clock::new();
    let deadline = clock.deadline(amount);
    match clients {
        [client] => run_alone(client, &clock, deadline),
        clients => run_in_turns(clients, &clock, deadline),
    }
}

/// Runs one client that has the thread to itself. The clock is read once per operation.
fn run_alone<C: StepClient>(client: &mut C, clock: &Clock, deadline: Deadline) -> Result<Measurement> {
    let mut measurement = Measurement::new();
    let (mut start, mut done) = (clock.now(), 0);
    loop {
        if client.think_ns() > 0 {
            block_on(client.think());
            start = clock.now();
        }
        let Some((kind, costs)) = block_on(client.step())? else { break };
        let now = clock.now();
        measurement.record(kind, now - start, &costs);
        start = now;
        done += 1;
        if deadline.is_over(now, done) {
            break;
        }
    }
    Ok(measurement)
}

/// Runs several clients alternately. The clock is read once per operation here too, unless other clients ran since the
/// client's last operation ended.
fn run_in_turns<C: StepClient>(clients: &mut [C], clock: &Clock, deadline: Deadline) -> Result<Measurement> {
    let measurement = RefCell::new(Measurement::new());
    let works = clients.iter_mut().map(|client| {
        let measurement = &measurement;
        Box::pin(async move {
            let (mut done, mut start) = (0, None);
            loop {
                if client.think_ns() > 0 {
                    client.think().await;
                    start = None;
                }
                let (ended, yielded) = yield_after(pin!(async {
                    let start = start.unwrap_or_else(|| clock.now());
                    let Some((kind, costs)) = client.step().await? else { return Ok(None) };
                    let now = clock.now();
                    measurement.borrow_mut().record(kind, now - start, &costs);
                    Ok::<_, Error>(Some(now))
                }))
                .await;
                let Some(now) = ended? else { break };
                start = (!yielded).then_some(now);
                done += 1;
                if deadline.is_over(now, done) {
                    break;
                }
            }
            Ok(())
        }) as ClientFuture<'_, Result<()>>
    });
    run_all(works.collect()).into_iter().collect::<Result<()>>()?;
    Ok(measurement.into_inner())
}

/// Awaits `operation`, and then yields to the thread's other clients unless they ran while it waited. The future is not
/// moved, because it can be several kilobytes large.
pub async fn then_yield<T>(operation: Pin<&mut impl Future<Output = T>>) -> T {
    yield_after(operation).await.0
}

/// Like [`then_yield`], and also returns whether it yielded.
async fn yield_after<T>(mut operation: Pin<&mut impl Future<Output = T>>) -> (T, bool) {
    let mut waited = false;
    let output = poll_fn(|context| {
        let polled = operation.as_mut().poll(context);
        waited |= polled.is_pending();
        polled
    })
    .await;
    if !waited {
        yield_now().await;
    }
    (output, !waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_alternate_until_each_is_done() {
        let seen = RefCell::new(Vec::new());
        let work = |number: u64, operations: u64| {
            let seen = &seen;
            let work = async move {
                for _ in 0..operations {
                    then_yield(pin!(async { seen.borrow_mut().push(number) })).await;
                }
                number
            };
            Box::pin(work) as ClientFuture<'_, u64>
        };
        assert_eq!(run_all(vec![work(7, 3), work(8, 1), work(9, 2)]), [7, 8, 9]);
        assert_eq!(*seen.borrow(), [7, 8, 9, 7, 9, 7]);
    }

    #[test]
    fn a_client_that_waited_does_not_yield_again() {
        let polls = RefCell::new(0);
        let work = async {
            for _ in 0..3 {
                then_yield(pin!(yield_now())).await;
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

    struct Countdown(u64);

    impl StepClient for Countdown {
        async fn step(&mut self) -> Result<Option<(OperationKind, CostTotals)>> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
            self.0 = left;
            Ok(Some((OperationKind::Get, CostTotals::default())))
        }
    }

    #[test]
    fn each_client_executes_its_amount_or_its_whole_stream() {
        for clients in [1, 3] {
            let mut all: Vec<Countdown> = (0..clients).map(|_| Countdown(5)).collect();
            assert_eq!(run_clients(&mut all, Amount::Operations(2)).unwrap().operations(), 2 * clients);
            assert_eq!(run_clients(&mut all, Amount::Operations(9)).unwrap().operations(), 3 * clients);
        }
    }
}
