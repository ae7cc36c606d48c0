//! A process of the tour: its clients ask for everything at once and check every answer.

use std::cell::RefCell;
use std::io::Write;
use std::pin::pin;

use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::ordered::{Entries, Ordered};
use farwood_index::sherman::{Direction, Range};
use farwood_transport::any::AnyPool;
use farwood_transport::runtime::{block_on, run_all};

use super::model::Model;
use super::{CACHE_BYTES, Findings, TourJob, TourReport, VALUE_BYTES, words_for};
use crate::clock::Clock;
use crate::distribution::{Popularity, THETA_DEFAULT};
use crate::keys::{FileKeys, Keys};
use crate::measure::{CostTotals, Measurement, OperationKind};
use crate::random::Generator;
use crate::run::Amount;
use crate::run::ground::{open, pool_of};
use crate::run::node::until;
use crate::run::protocol::{Order, Report, Round};
use crate::run::seat::get;
use crate::run::turns::{Work, in_turn};
use crate::run::worker::Parent;
use crate::values::fill_value;
use crate::{Error, Result};

/// Longest scan, in keys.
const SCAN_MAX: u64 = 100;

/// A process's life.
pub(crate) fn serve<W: Write>(job: &TourJob, parent: &mut Parent<W>) -> Result<()> {
    let Keys::File(keys) = words_for(job.system) else { unreachable!("words are keys of a file") };
    let pool = open(&pool_of(&job.pool)?)?;
    let index = block_on(Ordered::open(&pool.client(), &job.index, CACHE_BYTES))?;
    parent.report(&Report::Ready)?;
    if let Order::Go(amount) = parent.order()? {
        let report = visit(job, &pool, &index, &keys, amount)?;
        block_on(index.leave(&pool.client()))?;
        parent.report(&Report::Toured(Box::new(report)))?;
        parent.order()?;
    }
    Ok(())
}

/// All clients of the process, in turn.
fn visit(
    job: &TourJob,
    pool: &AnyPool,
    index: &Ordered,
    keys: &FileKeys,
    amount: Amount,
) -> Result<TourReport> {
    let clock = Clock::new();
    let end = until(&clock, amount);
    let (measurement, findings) = (RefCell::new(Measurement::new()), RefCell::new(Findings::default()));
    let first = job.process * job.clients_per_process;
    let works = (first..first + job.clients_per_process).map(|number| {
        let mut visitor = Visitor::new(job, number, pool.client(), index, keys)?;
        let (measurement, findings) = (&measurement, &findings);
        Ok(Box::pin(async move {
            let mut done = 0;
            while !end.is_over(clock.now(), done) {
                in_turn(pin!(visitor.step(&clock, measurement, findings))).await?;
                done += 1;
            }
            Ok(visitor.model.into_own())
        }) as Work<'_, Result<Vec<u64>>>)
    });
    let works = works.collect::<Result<Vec<_>>>()?;
    let models = run_all(works).into_iter().collect::<Result<Vec<_>>>()?;
    let seconds = clock.now() as f64 / 1e9;
    let bytes = Some(index.cache_bytes().0 as u64);
    let round = Round { measurement: measurement.into_inner(), seconds, bytes };
    Ok(TourReport { round, findings: findings.into_inner(), models })
}

/// A client of the tour.
struct Visitor<'a, F: Fabric> {
    client: Client<F>,
    index: &'a Ordered,
    keys: &'a FileKeys,
    ranks: u64,
    popularity: Popularity,
    generator: Generator,
    model: Model,
    found: Entries,
    value: Vec<u8>,
}

/// What an operation was, how long it took, and what is wrong with its answer.
struct Step {
    kind: OperationKind,
    latency_ns: u64,
}

impl<'a, F: Fabric> Visitor<'a, F> {
    fn new(
        job: &TourJob,
        number: u64,
        client: Client<F>,
        index: &'a Ordered,
        keys: &'a FileKeys,
    ) -> Result<Self> {
        let ranks = keys.len() as u64;
        Ok(Visitor {
            client,
            index,
            keys,
            ranks,
            popularity: Popularity::new(ranks, THETA_DEFAULT)?,
            generator: Generator::for_client(job.seed, number),
            model: Model::new(number, job.clients, ranks, job.loaded),
            found: Entries::new(),
            value: vec![0; VALUE_BYTES],
        })
    }

    /// One operation, measured and checked.
    async fn step(
        &mut self,
        clock: &Clock,
        measurement: &RefCell<Measurement>,
        findings: &RefCell<Findings>,
    ) -> Result<()> {
        let die = self.generator.below(100);
        let step = match die {
            0..50 => self.get(clock, findings).await,
            50..75 => self.change(clock, findings, OperationKind::Put).await,
            75..85 => self.change(clock, findings, OperationKind::Insert).await,
            85..95 => self.change(clock, findings, OperationKind::Remove).await,
            _ => self.scan(clock, findings).await,
        };
        let Step { kind, latency_ns } = step.map_err(Error::Index)?;
        let costs = CostTotals::from(self.client.take_costs());
        measurement.borrow_mut().record(kind, latency_ns, &costs);
        Ok(())
    }

    /// Reads any key, popular ones often.
    async fn get(&mut self, clock: &Clock, findings: &RefCell<Findings>) -> Result<Step, IndexError> {
        let rank = self.popularity.draw(&mut self.generator);
        let key = self.keys.key_of(rank);
        let start = clock.now();
        let is_there = get(self.index, &self.client, key, &mut self.value).await?;
        let latency_ns = clock.now() - start;
        let verdict = self.model.check(rank, key, is_there.then_some(&self.value));
        findings.borrow_mut().note(verdict);
        Ok(Step { kind: OperationKind::Get, latency_ns })
    }

    /// Writes or removes a key of its own. Updates go to popular ones, as reads do.
    async fn change(
        &mut self,
        clock: &Clock,
        findings: &RefCell<Findings>,
        kind: OperationKind,
    ) -> Result<Step, IndexError> {
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
        // Whether it said that the key was there, and what is there now.
        let (was_there, now) = match (kind, permanent) {
            (OperationKind::Insert, _) => {
                let inserted = index.insert(client, key, &value).await?.inserted();
                (!inserted, if inserted { Change::Wrote } else { Change::None })
            }
            (OperationKind::Remove, false) => (index.remove(client, key).await?.removed(), Change::Removed),
            _ if version.is_multiple_of(5) => {
                (index.put(client, key, &value).await?.replaced(), Change::Wrote)
            }
            _ => {
                let updated = index.update(client, key, &value).await?.updated();
                (updated, if updated { Change::Wrote } else { Change::None })
            }
        };
        let latency_ns = clock.now() - start;
        match now {
            Change::None => {}
            Change::Wrote => self.model.wrote(rank, Some(version)),
            Change::Removed => self.model.wrote(rank, None),
        }
        let verdict = if was_there == had {
            Ok(())
        } else {
            Err(format!("{kind:?} of {} said that it was there: {was_there}", super::word(key)))
        };
        findings.borrow_mut().note(verdict);
        let kind = if kind == OperationKind::Remove && permanent { OperationKind::Put } else { kind };
        Ok(Step { kind, latency_ns })
    }

    /// Scans forward or backward from somewhere, half of the time with an end.
    async fn scan(&mut self, clock: &Clock, findings: &RefCell<Findings>) -> Result<Step, IndexError> {
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
        let (model, findings) = (&mut self.model, &mut *findings.borrow_mut());
        let entries = self.found.iter();
        match direction {
            Direction::Forward => model.check_scan(self.keys, span, limit, entries, findings),
            Direction::Backward => model.check_scan(self.keys, span.rev(), limit, entries, findings),
        }
        Ok(Step { kind: OperationKind::Scan, latency_ns })
    }
}

/// What became of a key.
enum Change {
    None,
    Wrote,
    Removed,
}
