//! A process of the demo of a spatial index: its clients search, move their ships, and check every answer.

use std::cell::RefCell;
use std::pin::pin;

use farwood::spatial::{Connection, ServerLocation};
use farwood_bench::backend::pool::open_pool;
use farwood_bench::driver::clock::Clock;
use farwood_bench::driver::protocol::{Amount, Order, Report, Round};
use farwood_bench::driver::round_robin::{ClientFuture, then_yield};
use farwood_bench::driver::worker::{Job, ParentConnection};
use farwood_bench::record::measurement::{CostTotals, Measurement, OperationKind};
use farwood_bench::spec::fabric::pool_place;
use farwood_bench::workload::random::Generator;
use farwood_bench::{Error, Result};
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, Issue, Item, Near, Query, Reader, Rectangle, SpatialRpc as _};
use farwood_transport::any::{AnyFabric, AnyMemory, AnyPool, AnyServer};
use farwood_transport::runtime::{block_on, run_all};

use super::{Coastlines, SHIPS, SampleSearch, SpatialDemoJob, SpatialDemoReport};
use crate::CheckedAnswers;

/// Searches of each client that the map shows.
const SAMPLES: usize = 2;
/// Northern limit of windows and of the map, in degrees.
const NORTH: f64 = 85.0;
/// Longest edge of a window in degrees.
const EDGE_MAX: u64 = 40;

impl Job for SpatialDemoJob {
    const KIND: &'static str = "spatial-demo";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        parent.follow();
        let pool = open_pool(&pool_place(&self.pool)?)?;
        let client = pool.client();
        let index = block_on(Catfish::open(&client, &self.index))?;
        parent.report(&Report::Ready)?;
        if let Order::Measure(amount) = parent.order()? {
            let report = run_clients(&self, &pool, &index, amount)?;
            block_on(index.close(&client))?;
            parent.output(&report)?;
            parent.order()?;
        }
        Ok(())
    }
}

/// Runs all clients of the process concurrently, on one thread.
fn run_clients(
    job: &SpatialDemoJob,
    pool: &AnyPool,
    index: &Catfish,
    amount: Amount,
) -> Result<SpatialDemoReport> {
    let server: Option<AnyServer> = match pool {
        AnyPool::Shm(pool) => pool.server(index.layout().node).map(AnyServer::from),
        AnyPool::Tcp(_) | AnyPool::Rdma(_) => None,
    };
    let route = match (&server, pool) {
        (Some(server), _) => ServerLocation::Memory(server),
        (None, AnyPool::Tcp(pool)) => ServerLocation::Machine(pool.address()),
        _ => return Err(IndexError::NotServed { name: job.index.clone() }.into()),
    };
    let clock = Clock::new();
    let deadline = clock.deadline(amount);
    let first = job.process * job.clients_per_process;
    let clients: Vec<_> = (0..job.clients_per_process).map(|_| pool.client()).collect();
    let (measurement, checked) = (RefCell::new(Measurement::new()), RefCell::new(CheckedAnswers::default()));
    let works = clients.iter().zip(first..).map(|(client, number)| {
        let (measurement, checked, clock) = (&measurement, &checked, &clock);
        Box::pin(async move {
            let connection = Connection::open(index, client, route).await?;
            let mut demo = SpatialDemoClient::new(job, number, (index, client), connection);
            demo.insert_ships().await?;
            let mut done = 0;
            while !deadline.is_over(clock.now(), done) {
                then_yield(pin!(demo.step(clock, measurement, checked))).await?;
                done += 1;
            }
            demo.connection.close().await?;
            Ok((demo.ships, demo.samples))
        }) as ClientFuture<'_, Result<(Vec<Item>, Vec<SampleSearch>)>>
    });
    let done = run_all(works.collect()).into_iter().collect::<Result<Vec<_>>>()?;
    let seconds = clock.now() as f64 / 1e9;
    let mut report = SpatialDemoReport {
        round: Round { measurement: measurement.into_inner(), seconds, bytes: None },
        checked: checked.into_inner(),
        ..SpatialDemoReport::default()
    };
    for (ships, samples) in done {
        report.ships.extend(ships.iter().map(|ship| (ship.id, ship.bounds.min())));
        report.samples.extend(samples);
    }
    Ok(report)
}

/// A client of the demo.
struct SpatialDemoClient<'a> {
    process: u64,
    coast: &'static Coastlines,
    client: &'a Client<AnyFabric>,
    reader: Reader<'a, AnyFabric>,
    connection: Connection<'a, AnyFabric, AnyMemory>,
    generator: Generator,
    ships: Vec<Item>,
    samples: Vec<SampleSearch>,
}

impl<'a> SpatialDemoClient<'a> {
    fn new(
        job: &SpatialDemoJob,
        number: u64,
        (index, client): (&'a Catfish, &'a Client<AnyFabric>),
        connection: Connection<'a, AnyFabric, AnyMemory>,
    ) -> Self {
        let (coast, mut generator) = (Coastlines::shipped(), Generator::for_client(job.seed, number));
        let first = coast.len() + number * SHIPS;
        let ships = (first..first + SHIPS).map(|id| Item { bounds: somewhere(&mut generator), id }).collect();
        let reader = Reader::new(index, client, Issue::Many);
        Self {
            process: job.process,
            coast,
            client,
            reader,
            connection,
            generator,
            ships,
            samples: Vec::new(),
        }
    }

    /// Inserts the ships.
    async fn insert_ships(&mut self) -> Result<(), IndexError> {
        for ship in &self.ships {
            self.connection.insert(ship).await?;
        }
        let _ = self.client.take_costs();
        Ok(())
    }

    /// Executes one request, measures it, and checks its answer.
    async fn step(
        &mut self,
        clock: &Clock,
        measurement: &RefCell<Measurement>,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<()> {
        let percent = self.generator.below(100);
        let step = match percent {
            0..70 => self.search(clock, checked).await,
            70..80 => self.nearest(clock, checked).await,
            80..85 => self.count(clock, checked).await,
            _ => self.move_ship(clock, checked).await,
        };
        let (kind, latency_ns) = step.map_err(Error::Index)?;
        let costs = CostTotals::from(self.client.take_costs());
        measurement.borrow_mut().record(kind, latency_ns, &costs);
        Ok(())
    }

    /// Searches a window, which sometimes crosses the antimeridian.
    async fn search(
        &mut self,
        clock: &Clock,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<(OperationKind, u64), IndexError> {
        let windows = self.windows();
        let start = clock.now();
        let mut found: Vec<Item> = Vec::new();
        for window in &windows {
            let mut part = Vec::new();
            self.reader.search(&Query::intersecting(*window), &mut part).await?;
            found.extend(part);
        }
        let latency_ns = clock.now() - start;
        checked.borrow_mut().count(self.check(&windows, &found));
        self.keep_sample(&windows, &found);
        Ok((OperationKind::Search, latency_ns))
    }

    fn windows(&mut self) -> Vec<Rectangle> {
        let (corner, generator) = (somewhere(&mut self.generator).min(), &mut self.generator);
        let [width, height] = [0, 1].map(|_| 1.0 + generator.below(EDGE_MAX) as f64);
        let east = if corner[0] + width > 180.0 { corner[0] + width - 360.0 } else { corner[0] + width };
        let north = (corner[1] + height).min(NORTH);
        let (west, beyond) = Rectangle::around_globe(corner, [east, north]).expect("its edges are degrees");
        [west].into_iter().chain(beyond).collect()
    }

    /// Checks an answer: it must have exactly the segments of coastlines and the ships of this client in the windows,
    /// and other clients' ships at most once.
    fn check(&self, windows: &[Rectangle], found: &[Item]) -> Result<(), String> {
        let meets = |item: &&Item| windows.iter().any(|window| window.intersects(&item.bounds));
        let mut expected: Vec<_> =
            self.coast.items.iter().chain(&self.ships).filter(meets).map(|item| item.id).collect();
        let first = self.ships.first().map_or(0, |ship| ship.id);
        let others = |id: u64| id >= self.coast.len() && !(first..first + SHIPS).contains(&id);
        let mut ids: Vec<_> = found.iter().map(|item| item.id).collect();
        ids.sort_unstable();
        // A segment at the antimeridian intersects both parts of a window that crosses it, and a ship can move from one
        // part to the other between the two searches.
        let whole = windows.len() == 1;
        let before = ids.len();
        ids.dedup();
        if whole && ids.len() != before {
            return Err(format!("{windows:?} has {} items more than once", before - ids.len()));
        }
        if let Some(stray) = found.iter().find(|item| !meets(item)) {
            return Err(format!("{windows:?} has {stray:?}, which is outside"));
        }
        ids.retain(|&id| !others(id));
        expected.sort_unstable();
        if ids == expected { Ok(()) } else { Err(format!("{windows:?} has {ids:?} instead of {expected:?}")) }
    }

    /// Keeps a search for the map.
    fn keep_sample(&mut self, windows: &[Rectangle], found: &[Item]) {
        let segments: Vec<_> = found.iter().map(|item| item.id).filter(|&id| id < self.coast.len()).collect();
        if segments.len() < 8 || self.samples.len() == SAMPLES {
            return;
        }
        let edges = |window: &Rectangle| {
            let ([x1, y1], [x2, y2]) = (window.min(), window.max());
            [x1, y1, x2, y2]
        };
        let windows = windows.iter().map(edges).collect();
        self.samples.push(SampleSearch { process: self.process, windows, segments });
    }

    /// Searches the nearest items to a point. Coastlines and this client's ships must not be missing.
    async fn nearest(
        &mut self,
        clock: &Clock,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<(OperationKind, u64), IndexError> {
        let (point, count) = (somewhere(&mut self.generator).min(), 1 + self.generator.below(8) as usize);
        let start = clock.now();
        let near = self.reader.nearest(point, count).await?;
        let latency_ns = clock.now() - start;
        checked.borrow_mut().count(self.check_nearest(point, count, &near));
        Ok((OperationKind::Search, latency_ns))
    }

    fn check_nearest(&self, point: [f64; 2], count: usize, near: &[Near]) -> Result<(), String> {
        let farthest = near.last().map_or(0.0, |near| near.distance_squared);
        let known = self.coast.items.iter().chain(&self.ships);
        let mut closer = known.filter(|item| item.bounds.distance_squared(point) < farthest);
        let missed = closer.find(|item| near.iter().all(|near| near.item.id != item.id));
        let in_order = near.is_sorted_by(|one, other| one.distance_squared <= other.distance_squared);
        match missed {
            None if near.len() == count && in_order => Ok(()),
            None => Err(format!("the {count} nearest to {point:?} are {near:?}")),
            Some(missed) => Err(format!("the {count} nearest to {point:?} lack {missed:?}")),
        }
    }

    /// Counts the items in a window by message.
    async fn count(
        &mut self,
        clock: &Clock,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<(OperationKind, u64), IndexError> {
        let window = self.windows()[0];
        let start = clock.now();
        let count = self.connection.count(&Query::intersecting(window)).await?;
        let latency_ns = clock.now() - start;
        let known = self.coast.items.iter().chain(&self.ships);
        let least = known.filter(|item| window.intersects(&item.bounds)).count() as u64;
        checked.borrow_mut().count(if count >= least {
            Ok(())
        } else {
            Err(format!("{window} has {count} items instead of at least {least}"))
        });
        Ok((OperationKind::Search, latency_ns))
    }

    /// Moves a ship by at most two degrees, across the antimeridian if necessary.
    async fn move_ship(
        &mut self,
        clock: &Clock,
        checked: &RefCell<CheckedAnswers>,
    ) -> Result<(OperationKind, u64), IndexError> {
        let ship = self.generator.below(SHIPS) as usize;
        let [x, y] = self.ships[ship].bounds.min();
        let [east, north] = [0, 1].map(|_| self.generator.below(401) as f64 / 100.0 - 2.0);
        let x = (x + east + 540.0).rem_euclid(360.0) - 180.0;
        let to = Rectangle::point([x, (y + north).clamp(-85.0, 85.0)]).expect("two finite numbers");
        let start = clock.now();
        let was_there = self.connection.update(&self.ships[ship], to).await?;
        let latency_ns = clock.now() - start;
        let lost = || Err(format!("{:?} was not at its position", self.ships[ship]));
        checked.borrow_mut().count(if was_there { Ok(()) } else { lost() });
        self.ships[ship].bounds = to;
        Ok((OperationKind::Put, latency_ns))
    }
}

/// A point on the globe, to a hundredth of a degree.
fn somewhere(generator: &mut Generator) -> Rectangle {
    let [x, y] = [36_000, 15_000].map(|most| generator.below(most) as f64 / 100.0);
    Rectangle::point([x - 180.0, y - 70.0]).expect("two finite numbers")
}
