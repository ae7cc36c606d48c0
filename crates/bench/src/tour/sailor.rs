//! A process of the tour of the map: its clients search, sail their ships, and check every answer.

use std::cell::RefCell;
use std::io::Write;
use std::pin::pin;

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, Issue, Item, Near, Query, Reader, Rectangle, Talk as _};
use farwood_transport::any::{AnyFabric, AnyMemory, AnyPool, AnyServer};
use farwood_transport::runtime::{block_on, run_all};

use super::map::{MapJob, MapReport, SHIPS, Sighting};
use super::{Coast, Findings};
use crate::clock::Clock;
use crate::measure::{CostTotals, Measurement, OperationKind};
use crate::random::Generator;
use crate::run::Amount;
use crate::run::ground::{open, pool_of};
use crate::run::node::until;
use crate::run::protocol::{Order, Report, Round};
use crate::run::turns::{Work, in_turn};
use crate::run::worker::Parent;
use crate::{Error, Result};
use farwood::spatial::{Connection, ServerLocation};

/// Searches of each client that go into the picture.
const SIGHTINGS: usize = 2;
/// Where windows end in the north, as the map does, degrees.
const NORTH: f64 = 85.0;
/// Longest edge of a window, degrees.
const EDGE_MAX: u64 = 40;

/// A process's life.
pub(crate) fn serve<W: Write>(job: &MapJob, parent: &mut Parent<W>) -> Result<()> {
    let pool = open(&pool_of(&job.pool)?)?;
    let client = pool.client();
    let index = block_on(Catfish::open(&client, &job.index))?;
    parent.report(&Report::Ready)?;
    if let Order::Go(amount) = parent.order()? {
        let report = sail(job, &pool, &index, amount)?;
        block_on(index.close(&client))?;
        parent.report(&Report::Mapped(Box::new(report)))?;
        parent.order()?;
    }
    Ok(())
}

/// All clients of the process, in turn.
fn sail(job: &MapJob, pool: &AnyPool, index: &Catfish, amount: Amount) -> Result<MapReport> {
    let server: Option<AnyServer> = match pool {
        AnyPool::Shm(pool) => pool.server(index.layout().node).map(AnyServer::from),
        AnyPool::Tcp(_) | AnyPool::Rdma(_) => None,
    };
    let reach = match (&server, pool) {
        (Some(server), _) => ServerLocation::Memory(server),
        (None, AnyPool::Tcp(pool)) => ServerLocation::Machine(pool),
        _ => return Err(IndexError::NotServed { name: job.index.clone() }.into()),
    };
    let clock = Clock::new();
    let end = until(&clock, amount);
    let first = job.process * job.clients_per_process;
    let clients: Vec<_> = (0..job.clients_per_process).map(|_| pool.client()).collect();
    let (measurement, findings) = (RefCell::new(Measurement::new()), RefCell::new(Findings::default()));
    let works = clients.iter().zip(first..).map(|(client, number)| {
        let (measurement, findings, clock) = (&measurement, &findings, &clock);
        Box::pin(async move {
            let connection = Connection::open(index, client, reach).await?;
            let mut sailor = Sailor::new(job, number, (index, client), connection);
            sailor.set_out().await?;
            let mut done = 0;
            while !end.is_over(clock.now(), done) {
                in_turn(pin!(sailor.step(clock, measurement, findings))).await?;
                done += 1;
            }
            sailor.connection.close().await?;
            Ok((sailor.ships, sailor.sightings))
        }) as Work<'_, Result<(Vec<Item>, Vec<Sighting>)>>
    });
    let done = run_all(works.collect()).into_iter().collect::<Result<Vec<_>>>()?;
    let seconds = clock.now() as f64 / 1e9;
    let mut report = MapReport {
        round: Round { measurement: measurement.into_inner(), seconds, bytes: None },
        findings: findings.into_inner(),
        ..MapReport::default()
    };
    for (ships, sightings) in done {
        report.ships.extend(ships.iter().map(|ship| (ship.id, ship.bounds.min())));
        report.sightings.extend(sightings);
    }
    Ok(report)
}

/// A client of the tour.
struct Sailor<'a> {
    process: u64,
    coast: &'static Coast,
    client: &'a Client<AnyFabric>,
    reader: Reader<'a, AnyFabric>,
    connection: Connection<'a, AnyFabric, AnyMemory>,
    chance: Generator,
    ships: Vec<Item>,
    sightings: Vec<Sighting>,
}

impl<'a> Sailor<'a> {
    fn new(
        job: &MapJob,
        number: u64,
        (index, client): (&'a Catfish, &'a Client<AnyFabric>),
        connection: Connection<'a, AnyFabric, AnyMemory>,
    ) -> Self {
        let (coast, mut chance) = (Coast::shipped(), Generator::for_client(job.seed, number));
        let first = coast.len() + number * SHIPS;
        let ships = (first..first + SHIPS).map(|id| Item { bounds: somewhere(&mut chance), id }).collect();
        let reader = Reader::new(index, client, Issue::Many);
        Self { process: job.process, coast, client, reader, connection, chance, ships, sightings: Vec::new() }
    }

    /// Puts the ships on the map.
    async fn set_out(&mut self) -> Result<(), IndexError> {
        for ship in &self.ships {
            self.connection.insert(ship).await?;
        }
        let _ = self.client.take_costs();
        Ok(())
    }

    /// One request, measured and checked.
    async fn step(
        &mut self,
        clock: &Clock,
        measurement: &RefCell<Measurement>,
        findings: &RefCell<Findings>,
    ) -> Result<()> {
        let die = self.chance.below(100);
        let step = match die {
            0..70 => self.search(clock, findings).await,
            70..80 => self.nearest(clock, findings).await,
            80..85 => self.count(clock, findings).await,
            _ => self.sail(clock, findings).await,
        };
        let (kind, latency_ns) = step.map_err(Error::Index)?;
        let costs = CostTotals::from(self.client.take_costs());
        measurement.borrow_mut().record(kind, latency_ns, &costs);
        Ok(())
    }

    /// Searches a window, now and then one across the antimeridian.
    async fn search(
        &mut self,
        clock: &Clock,
        findings: &RefCell<Findings>,
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
        findings.borrow_mut().note(self.judge(&windows, &found));
        self.sight(&windows, &found);
        Ok((OperationKind::Search, latency_ns))
    }

    fn windows(&mut self) -> Vec<Rectangle> {
        let (corner, chance) = (somewhere(&mut self.chance).min(), &mut self.chance);
        let [width, height] = [0, 1].map(|_| 1.0 + chance.below(EDGE_MAX) as f64);
        let east = if corner[0] + width > 180.0 { corner[0] + width - 360.0 } else { corner[0] + width };
        let north = (corner[1] + height).min(NORTH);
        let (west, beyond) = Rectangle::around_globe(corner, [east, north]).expect("its edges are degrees");
        [west].into_iter().chain(beyond).collect()
    }

    /// The answer must have the coast's segments exactly, this client's ships exactly, and the others' at most once.
    fn judge(&self, windows: &[Rectangle], found: &[Item]) -> Result<(), String> {
        let meets = |item: &&Item| windows.iter().any(|window| window.intersects(&item.bounds));
        let mut expected: Vec<_> =
            self.coast.items.iter().chain(&self.ships).filter(meets).map(|item| item.id).collect();
        let first = self.ships.first().map_or(0, |ship| ship.id);
        let others = |id: u64| id >= self.coast.len() && !(first..first + SHIPS).contains(&id);
        let mut ids: Vec<_> = found.iter().map(|item| item.id).collect();
        ids.sort_unstable();
        // A segment that reaches to the antimeridian meets both parts of a window that reaches across it; a ship may
        // have sailed from one to the other between the two searches.
        let whole = windows.len() == 1;
        let before = ids.len();
        ids.dedup();
        if whole && ids.len() != before {
            return Err(format!("{windows:?} has {} more than once", before - ids.len()));
        }
        if let Some(stray) = found.iter().find(|item| !meets(item)) {
            return Err(format!("{windows:?} has {stray:?}, which lies elsewhere"));
        }
        ids.retain(|&id| !others(id));
        expected.sort_unstable();
        if ids == expected { Ok(()) } else { Err(format!("{windows:?} has {ids:?} and not {expected:?}")) }
    }

    /// Keeps a search for the picture.
    fn sight(&mut self, windows: &[Rectangle], found: &[Item]) {
        let segments: Vec<_> = found.iter().map(|item| item.id).filter(|&id| id < self.coast.len()).collect();
        if segments.len() < 8 || self.sightings.len() == SIGHTINGS {
            return;
        }
        let edges = |window: &Rectangle| {
            let ([x1, y1], [x2, y2]) = (window.min(), window.max());
            [x1, y1, x2, y2]
        };
        let windows = windows.iter().map(edges).collect();
        self.sightings.push(Sighting { process: self.process, windows, segments });
    }

    /// The nearest to a point: nothing that stays where it is may be left out.
    async fn nearest(
        &mut self,
        clock: &Clock,
        findings: &RefCell<Findings>,
    ) -> Result<(OperationKind, u64), IndexError> {
        let (point, count) = (somewhere(&mut self.chance).min(), 1 + self.chance.below(8) as usize);
        let start = clock.now();
        let near = self.reader.nearest(point, count).await?;
        let latency_ns = clock.now() - start;
        findings.borrow_mut().note(self.judge_near(point, count, &near));
        Ok((OperationKind::Search, latency_ns))
    }

    fn judge_near(&self, point: [f64; 2], count: usize, near: &[Near]) -> Result<(), String> {
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

    /// Counts a window, by message.
    async fn count(
        &mut self,
        clock: &Clock,
        findings: &RefCell<Findings>,
    ) -> Result<(OperationKind, u64), IndexError> {
        let window = self.windows()[0];
        let start = clock.now();
        let count = self.connection.count(&Query::intersecting(window)).await?;
        let latency_ns = clock.now() - start;
        let known = self.coast.items.iter().chain(&self.ships);
        let least = known.filter(|item| window.intersects(&item.bounds)).count() as u64;
        findings.borrow_mut().note(if count >= least {
            Ok(())
        } else {
            Err(format!("{window} has {count}, and at least {least} are there"))
        });
        Ok((OperationKind::Search, latency_ns))
    }

    /// Moves a ship a little, around the globe where need be.
    async fn sail(
        &mut self,
        clock: &Clock,
        findings: &RefCell<Findings>,
    ) -> Result<(OperationKind, u64), IndexError> {
        let ship = self.chance.below(SHIPS) as usize;
        let [x, y] = self.ships[ship].bounds.min();
        let [east, north] = [0, 1].map(|_| self.chance.below(401) as f64 / 100.0 - 2.0);
        let x = (x + east + 540.0).rem_euclid(360.0) - 180.0;
        let to = Rectangle::point([x, (y + north).clamp(-85.0, 85.0)]).expect("two finite numbers");
        let start = clock.now();
        let was_there = self.connection.update(&self.ships[ship], to).await?;
        let latency_ns = clock.now() - start;
        let lost = || Err(format!("{:?} was not where it was put", self.ships[ship]));
        findings.borrow_mut().note(if was_there { Ok(()) } else { lost() });
        self.ships[ship].bounds = to;
        Ok((OperationKind::Put, latency_ns))
    }
}

/// A point on the globe, to a hundredth of a degree.
fn somewhere(chance: &mut Generator) -> Rectangle {
    let [x, y] = [36_000, 15_000].map(|most| chance.below(most) as f64 / 100.0);
    Rectangle::point([x - 180.0, y - 70.0]).expect("two finite numbers")
}
