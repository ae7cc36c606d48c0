//! A compute node of a benchmark: opens the pool and the index, and seats its clients on threads.

use std::cell::RefCell;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;

use farwood_fabric::Fabric;
use farwood_index::ordered::Ordered;
use farwood_transport::any::AnyPool;
use farwood_transport::runtime::{block_on, run_all};

use super::attachment::ComputeNode;
use super::glance::{Glances, glance};
use super::ground::{open, pool_of};
use super::protocol::{ClientsJob, NodeJob};
use super::seat::{Buffers, Seat, Until, subject_of};
use super::spec::{Amount, FabricKind};
use super::team::{self, Hand};
use super::turns::{Work, take_turn};
use super::worker::Parent;
use crate::clock::Clock;
use crate::keys::Keys;
use crate::measure::{CostTotals, Measurement};
use crate::workload::{InsertBoard, OperationStream, Workload};
use crate::{Error, Result};

/// Filling the caches lasts at most so long: over a network it may be one key after the other. The record's hit ratio
/// then says so.
const FILL_SECONDS_MAX: f64 = 60.0;
/// Mixed into the seed for the reads of the warm-up.
const REHEARSAL: u64 = 0x7761_726D_5F75_7021;

/// A compute node's life.
pub(super) fn serve<W: Write>(job: &NodeJob, parent: &mut Parent<W>) -> Result<()> {
    if job.fabric == FabricKind::Sim {
        let problem = "the laboratory has no processes";
        return Err(Error::parameter("worker", problem, "run `farwood bench --fabric sim`"));
    }
    // The fabric itself is measured, not the enum.
    match open(&pool_of(&job.pool)?)? {
        AnyPool::Shm(node) => serve_on(&node, job, parent),
        AnyPool::Tcp(node) => serve_on(&node, job, parent),
        AnyPool::Rdma(node) => serve_on(&node, job, parent),
    }
}

/// The same on a fabric that is known.
fn serve_on<N: ComputeNode, W: Write>(node: &N, job: &NodeJob, parent: &mut Parent<W>) -> Result<()> {
    let client = node.client();
    let index = block_on(Ordered::open(&client, &job.name, job.cache_bytes))?;
    let loaded = if job.clients.workload.workload == Workload::Load { 0 } else { job.clients.workload.keys };
    let glances = Glances::new(index.system(), loaded, job.cache_bytes);
    serve_index(node, &index, (&job.clients, glances), parent)?;
    Ok(block_on(index.leave(&client))?)
}

/// Clients at work on an index that is open.
fn serve_index<N: ComputeNode, W: Write>(
    node: &N,
    index: &Ordered,
    (job, glances): (&ClientsJob, Glances),
    parent: &mut Parent<W>,
) -> Result<()> {
    let keys = job.keys.keys()?;
    let may_miss = job.workload.workload.may_miss();
    let streams = streams_by_thread(job)?;
    let make = |thread: usize| {
        let seat = |pair: &Pair| {
            let buffers = Buffers::new(&keys, job.value_bytes, may_miss);
            Seat::new(node.client(), index, pair.clone(), buffers)
        };
        let glances = glances.share(thread, streams.len());
        Ok(Bench { seats: streams[thread].iter().map(seat).collect(), keys: &keys, glances })
    };
    let clients = job.workload.clients;
    team::serve(parent, streams.len(), clients, make, || Some(index.cache_bytes().0 as u64))
}

/// A client's stream, and that of its warm-up.
pub(crate) type Pair = (OperationStream, OperationStream);

/// The streams of a process's clients, dealt to its threads.
pub(crate) fn streams_by_thread(job: &ClientsJob) -> Result<Vec<Vec<Pair>>> {
    let threads = job.threads.clamp(1, job.clients.clone().count().max(1));
    let mut hands = vec![Vec::new(); threads];
    for (turn, pair) in streams(job)?.into_iter().enumerate() {
        hands[turn % threads].push(pair);
    }
    Ok(hands)
}

/// The streams of a compute node's clients.
pub(crate) fn streams(job: &ClientsJob) -> Result<Vec<Pair>> {
    let board = Arc::new(InsertBoard::new(job.workload.clients));
    let mut rehearsal = job.workload.clone();
    rehearsal.seed ^= REHEARSAL;
    let pair = |client| {
        let stream = job.workload.stream(client)?.with_board(Arc::clone(&board));
        Ok((stream, rehearsal.stream(client)?))
    };
    job.clients.clone().map(pair).collect()
}

/// The clients of one thread.
struct Bench<'a, F: Fabric> {
    seats: Vec<Seat<'a, F>>,
    keys: &'a Keys,
    /// What fills its caches.
    glances: Glances,
}

impl<F: Fabric> Hand for Bench<'_, F> {
    fn pass(&mut self) -> Result<()> {
        let seat = &self.seats[0];
        block_on(seat.index.count(&seat.client))?;
        let _ = seat.client.take_costs();
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        let clock = Clock::new();
        let end = until(&clock, Amount::Seconds(FILL_SECONDS_MAX));
        let works = self.seats.iter().enumerate().map(|(number, seat)| {
            let (glances, is_over) =
                (self.glances.share(number, self.seats.len()), || end.is_over(clock.now(), 0));
            Box::pin(glance(&seat.client, seat.index, self.keys, glances, is_over)) as Work<'_, Result<()>>
        });
        run_all(works.collect()).into_iter().collect::<Result<()>>()?;
        for seat in &self.seats {
            let _ = seat.client.take_costs();
        }
        Ok(())
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let clock = Clock::new();
        let end = until(&clock, Amount::Seconds(seconds));
        let mut turn = 0;
        while !end.is_over(clock.now(), 0) {
            turn = (turn + 1) % self.seats.len();
            block_on(self.seats[turn].rehearse())?;
        }
        for seat in &self.seats {
            let _ = seat.client.take_costs();
        }
        Ok(())
    }

    fn work(&mut self, amount: Amount) -> Result<Measurement> {
        match &mut self.seats[..] {
            [seat] => work_alone(seat, amount),
            seats => work_in_turns(seats, amount),
        }
    }
}

pub(crate) fn until(clock: &Clock, amount: Amount) -> Until {
    match amount {
        Amount::Seconds(seconds) => Until::Time(clock.now() + (seconds * 1e9) as u64),
        Amount::Operations(operations) => Until::Operations(operations),
    }
}

/// One client with a thread of its own: nothing between it and the index.
fn work_alone<F: Fabric>(seat: &mut Seat<'_, F>, amount: Amount) -> Result<Measurement> {
    let mut measurement = Measurement::new();
    let clock = Clock::new();
    let end = until(&clock, amount);
    let (mut start, mut done) = (clock.now(), 0);
    while let Some(operation) = seat.stream.next() {
        let (rank, kind) = subject_of(operation);
        block_on(seat.execute(operation, rank))?;
        let now = clock.now();
        measurement.record(kind, now - start, &CostTotals::from(seat.client.take_costs()));
        start = now;
        done += 1;
        if end.is_over(now, done) {
            break;
        }
    }
    Ok(measurement)
}

/// Several clients in turn. The clock is read once per operation here too, unless others ran since the client's last
/// one ended.
fn work_in_turns<F: Fabric>(seats: &mut [Seat<'_, F>], amount: Amount) -> Result<Measurement> {
    let clock = Clock::new();
    let end = until(&clock, amount);
    let measurement = RefCell::new(Measurement::new());
    let works = seats.iter_mut().map(|seat| {
        let measurement = &measurement;
        Box::pin(async move {
            let (mut done, mut start) = (0, None);
            while let Some(operation) = seat.stream.next() {
                let (ended, others_ran) = take_turn(pin!(async {
                    let start = start.unwrap_or_else(|| clock.now());
                    let (rank, kind) = subject_of(operation);
                    seat.execute(operation, rank).await?;
                    let now = clock.now();
                    let costs = CostTotals::from(seat.client.take_costs());
                    measurement.borrow_mut().record(kind, now - start, &costs);
                    Ok::<_, Error>(now)
                }))
                .await;
                let now = ended?;
                start = (!others_ran).then_some(now);
                done += 1;
                if end.is_over(now, done) {
                    break;
                }
            }
            Ok(())
        }) as Work<'_, Result<()>>
    });
    run_all(works.collect()).into_iter().collect::<Result<()>>()?;
    Ok(measurement.into_inner())
}
