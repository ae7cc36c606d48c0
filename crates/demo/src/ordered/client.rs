//! A process of the demo of an ordered index: its clients mix all operations and check every answer.

use std::cell::RefCell;
use std::pin::pin;

use farwood_bench::backend::ordered::get;
use farwood_bench::backend::pool::open_pool;
use farwood_bench::driver::clock::Clock;
use farwood_bench::driver::protocol::{Amount, Order, Report, Round};
use farwood_bench::driver::round_robin::{ClientFuture, then_yield};
use farwood_bench::driver::worker::{Job, ParentConnection};
use farwood_bench::record::measurement::{CostTotals, Measurement, OperationKind};
use farwood_bench::spec::fabric::pool_place;
use farwood_bench::workload::distribution::{Popularity, THETA_DEFAULT};
use farwood_bench::workload::keys::{FileKeys, Keys};
use farwood_bench::workload::random::Generator;
use farwood_bench::workload::values::fill_value;
use farwood_bench::{Error, Result};
use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::ordered::{Entries, Ordered};
use farwood_index::sherman::{Direction, Range};
use farwood_transport::any::AnyPool;
use farwood_transport::runtime::{block_on, run_all};

use super::model::ClientModel;
use super::{CACHE_BYTES, OrderedDemoJob, OrderedDemoReport, VALUE_BYTES, words_for};
use crate::CheckedAnswers;

/// Longest scan in keys.
const SCAN_MAX: u64 = 100;

impl Job for OrderedDemoJob {
    const KIND: &'static str = "ordered-demo";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        parent.follow();
        let Keys::File(keys) = words_for(self.system) else { unreachable!("words are keys of a file") };
        let pool = open_pool(&pool_place(&self.pool)?)?;
        let index = block_on(Ordered::open(&pool.client(), &self.index, CACHE_BYTES))?;
        parent.report(&Report::Ready)?;
        if let Order::Measure(amount) = parent.order()? {
            let report = run_clients(&self, &pool, &index, &keys, amount)?;
            block_on(index.leave(&pool.client()))?;
            parent.output(&report)?;
            parent.order()?;
        }
        Ok(())
    }
}

/// Runs all clients of the process concurrently, on one thread.
fn run_clients(
    job: &OrderedDemoJob,
    pool: &AnyPool,
    index: &Ordered,
    keys: &FileKeys,
    amount: Amount,
) -> Result<OrderedDemoReport> {
    let clock = Clock::new();
    let deadline = clock.deadline(amount);
    let (measurement, checked) = (RefCell::new(Measurement::new()), RefCell::new(CheckedAnswers::default()));
    let first = job.process * job.clients_per_process;
    let works = (first..first + job.clients_per_process).map(|number| {
        let mut client = OrderedDemoClient::new(job, number, pool.client(), index, keys)?;
        let (measurement, checked) = (&measurement, &checked);
        Ok(Box::pin(async move {
            let mut done = 0;
            while !deadline.is_over(clock.now(), done) {
                then_yield(pin!(client.step(&clock, measurement, checked))).await?;
                done += 1;
            }
            Ok(client.model.into_own())
        }) as ClientFuture<'_, Result<Vec<u64>>>)
    });
    let works = works.collect::<Result<Vec<_>>>()?;
    let models = run_all(works).into_iter().collect::<Result<Vec<_>>>()?;
    let seconds = clock.now() as f64 / 1e9;
    let bytes = Some(index.cache_bytes().0 as u64);
    let round = Round { measurement: measurement.into_inner(), seconds, bytes };
    Ok(OrderedDemoReport { round, checked: checked.into_inner(), models })
}

/// A client of the demo.
struct OrderedDemoClient<'a, F: Fabric> {
    client: Client<F>,
    index: &'a Ordered,
    keys: &'a FileKeys,
    ranks: u64,
    popularity: Popularity,
    generator: Generator,
    model: ClientModel,
    found: Entries,
    value: Vec<u8>,
}

/// The kind of an operation and its latency.
struct TimedOperation {
    kind: OperationKind,
    latency_ns: u64,
}

impl<'a, F: Fabric> OrderedDemoClient<'a, F> {
    fn new(
        job: &OrderedDemoJob,
        number: u64,
        client: Client<F>,
        index: &'a Ordered,
        keys: &'a FileKeys,
    ) -> Result<Self> {
        let ranks = keys.len() as u64;
        Ok(OrderedDemoClient {
            client,
            index,
            keys,
            ranks,
            popularity: Popularity::new(ranks, THETA_DEFAULT)?,
            generator: Generator::for_client(job.seed, number),
            model: ClientModel::new(number, job.clients, ranks, job.loaded),
            found: Entries::new(),
            value: vec![0; VALUE_BYTES],
        })
    }

    /// Executes one operation, measures it, and checks its answer.
    async fn step(
        &mut self,
        clock: &Clock,
        measurement: &RefCell<Measurement>,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<()> {
        let percent = self.generator.below(100);
        let step = match percent {
            0..50 => self.get(clock, checked).await,
            50..75 => self.change(clock, checked, OperationKind::Put).await,
            75..85 => self.change(clock, checked, OperationKind::Insert).await,
            85..95 => self.change(clock, checked, OperationKind::Remove).await,
            _ => self.scan(clock, checked).await,
        };
        let TimedOperation { kind, latency_ns } = step.map_err(Error::Index)?;
        let costs = CostTotals::from(self.client.take_costs());
        measurement.borrow_mut().record(kind, latency_ns, &costs);
        Ok(())
    }

    /// Reads a key; popular keys are read more often.
    async fn get(
        &mut self,
        clock: &Clock,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<TimedOperation, IndexError> {
        let rank = self.popularity.draw(&mut self.generator);
        let key = self.keys.key_of(rank);
        let start = clock.now();
        let is_there = get(self.index, &self.client, key, &mut self.value).await?;
        let latency_ns = clock.now() - start;
        let verdict = self.model.check(rank, key, is_there.then_some(&self.value));
        checked.borrow_mut().count(verdict);
        Ok(TimedOperation { kind: OperationKind::Get, latency_ns })
    }

    /// Writes or removes one of the client's own keys. Popular keys are updated more often.
    async fn change(
        &mut self,
        clock: &Clock,
        checked: &RefCell<CheckedAnswers>,
        kind: OperationKind,
    ) -> Result<TimedOperation, IndexError> {
        let drawn = match kind {
            OperationKind::Put => self.popularity.draw(&mut self.generator),
            _ => self.generator.below(self.ranks),
        };
        let rank = self.model.own_near(drawn);
        let (had, permanent) = (self.model.has(rank), self.model.is_permanent(rank));
        let version = self.model.next_version();
        let mut value = [0; VALUE_BYTES];
        fill_value(&mut value, rank, version);
        let (index, client, key) = (self.index, &self.client, self.keys.key_of(rank));
        let start = clock.now();
        // Whether the answer says that the key was present, and the effect on the key.
        let (was_there, now) = match (kind, permanent) {
            (OperationKind::Insert, _) => {
                let inserted = index.insert(client, key, &value).await?.inserted();
                (!inserted, if inserted { KeyEffect::Wrote } else { KeyEffect::None })
            }
            (OperationKind::Remove, false) => {
                (index.remove(client, key).await?.removed(), KeyEffect::Removed)
            }
            _ if version.is_multiple_of(5) => {
                (index.put(client, key, &value).await?.replaced(), KeyEffect::Wrote)
            }
            _ => {
                let updated = index.update(client, key, &value).await?.updated();
                (updated, if updated { KeyEffect::Wrote } else { KeyEffect::None })
            }
        };
        let latency_ns = clock.now() - start;
        match now {
            KeyEffect::None => {}
            KeyEffect::Wrote => self.model.wrote(rank, Some(version)),
            KeyEffect::Removed => self.model.wrote(rank, None),
        }
        let verdict = if was_there == had {
            Ok(())
        } else {
            Err(format!("{kind:?} of {} answered that the key was present: {was_there}", super::word(key)))
        };
        checked.borrow_mut().count(verdict);
        let kind = if kind == OperationKind::Remove && permanent { OperationKind::Put } else { kind };
        Ok(TimedOperation { kind, latency_ns })
    }

    /// Scans forward or backward from a random key; half of the scans have an end key.
    async fn scan(
        &mut self,
        clock: &Clock,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<TimedOperation, IndexError> {
        let words = self.keys.len();
        let start = self.generator.below(self.ranks) as usize;
        let limit = 1 + self.generator.below(SCAN_MAX) as usize;
        let span = self.generator.below(2 * SCAN_MAX) as usize;
        let bounded = self.generator.below(2) == 0;
        let backward = self.generator.below(2) == 0;
        let (direction, first, last) = match (backward, bounded) {
            (false, false) => (Direction::Forward, Some(start), None),
            (false, true) => (Direction::Forward, Some(start), Some((start + span).min(words - 1))),
            (true, false) => (Direction::Backward, None, Some(start)),
            (true, true) => (Direction::Backward, Some(start.saturating_sub(span)), Some(start)),
        };
        let key = |position: Option<usize>| position.map(|position| self.keys.key_at(position));
        let range = Range { from: key(first), to: key(last) };
        let began = clock.now();
        self.index.scan(&self.client, range, direction, limit, &mut self.found).await?;
        let latency_ns = clock.now() - began;
        let span = first.unwrap_or(0)..last.unwrap_or(words);
        let (model, checked) = (&mut self.model, &mut *checked.borrow_mut());
        let entries = self.found.iter();
        match direction {
            Direction::Forward => model.check_scan(self.keys, span, limit, entries, checked),
            Direction::Backward => model.check_scan(self.keys, span.rev(), limit, entries, checked),
        }
        Ok(TimedOperation { kind: OperationKind::Scan, latency_ns })
    }
}

/// The effect of an operation on its key.
enum KeyEffect {
    None,
    Wrote,
    Removed,
}
