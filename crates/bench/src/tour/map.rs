//! The tour of the map: coastlines in a spatial index, searched by several processes that also sail ships on it.
//!
//! The coastlines never change, so every search is held against a list of them. Each client owns some ships, points
//! that it alone moves, by message to the index's server: it must find its own where it put them. Of the others' it
//! knows that they are points in the window, each there once. In the end all of the index is compared with what the
//! owners believe, and walked.

use std::collections::BTreeMap;

use farwood_index::catfish::{Catfish, Issue, Item, Query, Reader, Rectangle, Walk};
use farwood_transport::runtime::block_on;
use serde::{Deserialize, Serialize};

use super::{Coast, Findings, Leg};
use crate::measure::Measurement;
use crate::record::Record;
use crate::rectangles::{Mix, Source};
use crate::run::crew::Crew;
use crate::run::protocol::{Job, Order, Report, Round};
use crate::run::spatial::{Place, SpatialSpec, Variant};
use crate::run::{Amount, FabricKind, WorkerCommand, finish};
use crate::{Error, Result};

/// What a tour of the map is.
#[derive(Clone, Debug)]
pub struct MapSpec {
    /// Over what: shared memory, or TCP.
    pub fabric: FabricKind,
    /// Compute nodes: processes.
    pub processes: usize,
    /// Clients of each process, in turn on one thread.
    pub clients_per_process: u64,
    /// How long all processes work at once.
    pub seconds: f64,
    /// Seed of all clients' requests.
    pub seed: u64,
}

impl Default for MapSpec {
    fn default() -> MapSpec {
        MapSpec { fabric: FabricKind::Shm, processes: 4, clients_per_process: 2, seconds: 12.0, seed: 1 }
    }
}

/// A search, and what it found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sighting {
    /// The process that searched.
    pub process: u64,
    /// The windows, two where one reaches across the antimeridian: least x, least y, greatest x, greatest y.
    pub windows: Vec<[f64; 4]>,
    /// The segments of the coast that lie there.
    pub segments: Vec<u64>,
}

/// What a tour of the map found.
#[derive(Clone, Debug)]
pub struct MapOutcome {
    /// What was measured. Checking the answers is part of the seconds, and of no latency.
    pub record: Record,
    /// Answers that were checked.
    pub answers: u64,
    /// How many were wrong.
    pub wrong: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
    /// What the walker saw at the end.
    pub walk: Walk,
    /// Some searches of each process.
    pub sightings: Vec<Sighting>,
    /// Where the ships of each process are at the end.
    pub ships: Vec<(u64, [f64; 2])>,
}

/// A process of the tour of the map.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MapJob {
    pub(super) pool: String,
    pub(super) index: String,
    pub(super) seed: u64,
    pub(super) process: u64,
    pub(super) clients_per_process: u64,
}

/// What a process of the tour found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MapReport {
    pub(super) round: Round,
    pub(super) findings: Findings,
    /// Its ships, by their numbers.
    pub(super) ships: Vec<(u64, [f64; 2])>,
    pub(super) sightings: Vec<Sighting>,
}

impl MapSpec {
    fn check(&self) -> Result<()> {
        let refuse = |flag, problem: String, remedy: &str| Err(Error::parameter(flag, problem, remedy));
        if !(2..=64).contains(&self.processes) {
            return refuse("--processes", format!("{} processes", self.processes), "give 2 to 64");
        }
        if !matches!(self.fabric, FabricKind::Shm | FabricKind::Tcp) {
            let problem = "the tour is of real processes of this machine".to_owned();
            return refuse("--fabric", problem, "give shm or tcp");
        }
        if !(0.1..=3600.0).contains(&self.seconds) {
            let problem = format!("{} is no time for a tour", self.seconds);
            return refuse("--seconds", problem, "give 0.1 to 3600");
        }
        Ok(())
    }

    /// The tour as a run: searches by READs, changes by message.
    fn run(&self, coast: &Coast) -> SpatialSpec {
        SpatialSpec {
            variant: Variant::MultiIssue,
            fabric: self.fabric,
            mix: Mix::Mixed,
            source: Source::Uniform(coast.len()),
            compute_nodes: self.processes,
            clients: Some(self.processes as u64 * self.clients_per_process),
            threads: Some(1),
            seed: self.seed,
            ..SpatialSpec::default()
        }
    }
}

/// Runs the tour of the map. `worker` starts processes that end up in [`serve`](crate::run::serve).
///
/// # Errors
/// What the spec cannot be, what the pool or the index refuses, a process that died. Wrong answers are no errors but
/// part of the [`MapOutcome`].
pub fn tour_map(spec: &MapSpec, worker: &WorkerCommand, progress: &mut dyn FnMut(Leg)) -> Result<MapOutcome> {
    spec.check()?;
    let coast = Coast::shipped();
    let run = spec.run(coast);
    progress(Leg::Loading { done: 0, all: coast.len() });
    let place = Place::prepare(&run, worker, &coast.items)?;
    progress(Leg::Starting);
    let mut crew = Crew::start(worker, &jobs(spec, &place))?;
    progress(Leg::Working);
    let reports = crew.ask(Order::Go(Amount::Seconds(spec.seconds)))?;
    crew.end()?;
    progress(Leg::Comparing);
    let (round, mut findings, ships, sightings) = gather(reports)?;
    let client = place.ground.pool.client();
    let walk = block_on(async {
        let index = Catfish::open(&client, &place.ground.index).await?;
        let mut found: Vec<Item> = Vec::new();
        let everything = Rectangle::new([f64::MIN; 2], [f64::MAX; 2]).expect("its edges are finite");
        Reader::new(&index, &client, Issue::Many)
            .search(&Query::intersecting(everything), &mut found)
            .await?;
        compare(coast, &ships, &found, &mut findings);
        let walk = index.walk(&client).await?;
        index.close(&client).await?;
        Ok::<_, farwood_index::IndexError>(walk)
    })?;
    for problem in &walk.problems {
        findings.note(Err(format!("the tree: {problem}")));
    }
    let record = finish(place.record(&run, coast.len()), &round);
    let record = Record { workload: "demo".to_owned(), ..record };
    let Findings { answers, wrong, examples } = findings;
    let owner = |id: u64| (id - coast.len()) / SHIPS / spec.clients_per_process;
    let ships = ships.into_iter().map(|(id, at)| (owner(id), at)).collect();
    Ok(MapOutcome { record, answers, wrong, examples, walk, sightings, ships })
}

/// Ships of each client.
pub(super) const SHIPS: u64 = 12;

fn jobs(spec: &MapSpec, place: &Place) -> Vec<Job> {
    let job = |process| {
        Job::Map(MapJob {
            pool: place.ground.place.to_string(),
            index: place.ground.index.clone(),
            seed: spec.seed,
            process,
            clients_per_process: spec.clients_per_process,
        })
    };
    (0..spec.processes as u64).map(job).collect()
}

/// Where ships are, by their numbers.
type Ships = BTreeMap<u64, [f64; 2]>;

/// What all processes report, together.
fn gather(reports: Vec<Report>) -> Result<(Round, Findings, Ships, Vec<Sighting>)> {
    let mut round = Round { measurement: Measurement::new(), ..Round::default() };
    let (mut findings, mut ships, mut sightings) = (Findings::default(), Ships::new(), Vec::new());
    for (compute_node, report) in reports.into_iter().enumerate() {
        let Report::Mapped(report) = report else {
            let problem = "it answered something else than it was asked for".to_owned();
            return Err(Error::Worker { compute_node, problem });
        };
        round.measurement.merge(&report.round.measurement);
        round.seconds = round.seconds.max(report.round.seconds);
        findings.add(report.findings);
        ships.extend(report.ships);
        sightings.extend(report.sightings);
    }
    Ok((round, findings, ships, sightings))
}

/// Compares the whole index with what the owners believe.
fn compare(coast: &Coast, ships: &Ships, found: &[Item], findings: &mut Findings) {
    let ship = |(&id, &at): (&u64, &[f64; 2])| Item {
        bounds: Rectangle::point(at).expect("a ship is somewhere"),
        id,
    };
    let mut expected: Vec<_> = coast.items.iter().copied().chain(ships.iter().map(ship)).collect();
    let mut found = found.to_vec();
    let place =
        |item: &Item| (item.id, item.bounds.min().map(f64::to_bits), item.bounds.max().map(f64::to_bits));
    expected.sort_by_key(place);
    found.sort_by_key(place);
    for (expected, found) in expected.iter().zip(&found) {
        let told = || Err(format!("at the end, {found:?} is there, and {expected:?} should be"));
        findings.note(if expected == found { Ok(()) } else { told() });
    }
    if expected.len() != found.len() {
        findings.note(Err(format!("at the end, {} are there, and not {}", found.len(), expected.len())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ship_that_is_missing_or_elsewhere_at_the_end_is_noticed() {
        let coast = Coast::shipped();
        let ships = Ships::from([(coast.len(), [1.0, 2.0])]);
        let judge = |ship: Option<[f64; 2]>| {
            let (mut found, mut findings) = (coast.items.clone(), Findings::default());
            found.extend(ship.map(|at| Item { bounds: Rectangle::point(at).unwrap(), id: coast.len() }));
            compare(coast, &ships, &found, &mut findings);
            findings.wrong
        };
        assert_eq!((judge(Some([1.0, 2.0])), judge(Some([1.0, 3.0])), judge(None)), (0, 1, 1));
    }
}
