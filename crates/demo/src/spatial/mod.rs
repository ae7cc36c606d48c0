//! The demo of a spatial index: several processes search coastlines and move ships.
//!
//! The coastlines never change, so the answer of every search is compared with a list of them. Each client owns some
//! ships, which are points that only this client moves, by messages to the index's server: a search must find them at
//! their position. Other clients' ships must be points in the window, each at most once. At the end the whole index is
//! compared with the positions that the clients know, and its invariants are checked.

mod client;
mod coastlines;
mod picture;

use std::collections::BTreeMap;

use farwood_bench::Result;
use farwood_bench::backend::finish;
use farwood_bench::backend::spatial::store::SpatialStore;
use farwood_bench::driver::processes::{WorkerCommand, WorkerProcesses, outputs};
use farwood_bench::driver::protocol::{Amount, Order, Round};
use farwood_bench::record::Record;
use farwood_bench::run::{FabricKind, SpatialSpec, Variant};
use farwood_bench::workload::rectangles::{RectangleSource, SpatialMix};
use farwood_index::catfish::{Catfish, CatfishReport, Issue, Item, Query, Reader, Rectangle};
use farwood_transport::runtime::block_on;
use serde::{Deserialize, Serialize};

use crate::{CheckedAnswers, DemoPhase, check};

pub use coastlines::Coastlines;
pub use picture::{map_png, map_svg};

/// A demo of a spatial index.
#[derive(Clone, Debug)]
pub struct SpatialDemoSpec {
    /// The fabric: shared memory or TCP.
    pub fabric: FabricKind,
    /// Number of processes.
    pub processes: usize,
    /// Clients of each process, which share one thread.
    pub clients_per_process: u64,
    /// The duration of the demo, in seconds.
    pub seconds: f64,
    /// Seed of all clients' requests.
    pub seed: u64,
}

impl Default for SpatialDemoSpec {
    fn default() -> SpatialDemoSpec {
        SpatialDemoSpec {
            fabric: FabricKind::Shm,
            processes: 4,
            clients_per_process: 2,
            seconds: 12.0,
            seed: 1,
        }
    }
}

impl SpatialDemoSpec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A parameter that is out of range.
    pub fn check(&self) -> Result<()> {
        check(self.processes, self.fabric, self.seconds)
    }
}

/// A search that the map shows, and its results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SampleSearch {
    /// The process that searched.
    pub process: u64,
    /// The windows: least x, least y, greatest x, greatest y. Two if the search crosses the antimeridian.
    pub windows: Vec<[f64; 4]>,
    /// The segments of coastlines that the search found.
    pub segments: Vec<u64>,
}

/// The result of a demo of a spatial index.
#[derive(Clone, Debug)]
pub struct SpatialDemoOutcome {
    /// The measured costs. The seconds include the checks of the answers, the latencies do not.
    pub record: Record,
    /// Answers checked.
    pub answers: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// Descriptions of the first wrong answers.
    pub examples: Vec<String>,
    /// The result of the check of the invariants at the end.
    pub walk: CatfishReport,
    /// Some searches of each process, to draw on the map.
    pub samples: Vec<SampleSearch>,
    /// The final positions of all ships, each with the number of its process.
    pub ships: Vec<(u64, [f64; 2])>,
}

/// A process of the demo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpatialDemoJob {
    pool: String,
    index: String,
    seed: u64,
    process: u64,
    clients_per_process: u64,
}

/// The results of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SpatialDemoReport {
    round: Round,
    checked: CheckedAnswers,
    /// The positions of its ships, by their numbers.
    ships: Vec<(u64, [f64; 2])>,
    samples: Vec<SampleSearch>,
}

impl SpatialDemoSpec {
    /// The same index as a benchmark run: searches by READs, changes by message.
    fn run(&self, coast: &Coastlines) -> SpatialSpec {
        SpatialSpec {
            variant: Variant::MultiIssue,
            fabric: self.fabric,
            mix: SpatialMix::Mixed,
            source: RectangleSource::Uniform(coast.len()),
            compute_nodes: self.processes,
            clients: Some(self.processes as u64 * self.clients_per_process),
            threads: Some(1),
            seed: self.seed,
            ..SpatialSpec::default()
        }
    }
}

/// Runs the demo. `worker` starts processes that call [`serve`](farwood_bench::driver::worker::serve) with the jobs of
/// the demo and of the benchmarks.
///
/// # Errors
/// An invalid spec, errors of the pool or of the index, a process that died. Wrong answers are part of the outcome and
/// not errors.
pub fn run_spatial_demo(
    spec: &SpatialDemoSpec,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(DemoPhase),
) -> Result<SpatialDemoOutcome> {
    spec.check()?;
    let coast = Coastlines::shipped();
    let run = spec.run(coast);
    progress(DemoPhase::Loading { done: 0, all: coast.len() });
    let store = SpatialStore::open(&run, worker, &coast.items)?;
    progress(DemoPhase::Starting);
    let mut processes = WorkerProcesses::start(worker, &jobs(spec, &store))?;
    progress(DemoPhase::Working);
    let reports = processes.order(Order::Measure(Amount::Seconds(spec.seconds)))?;
    processes.end()?;
    progress(DemoPhase::Comparing);
    let (round, mut checked, ships, samples) = merge(outputs(reports)?);
    let client = store.pool.pool.client();
    let walk = block_on(async {
        let index = Catfish::open(&client, &store.pool.index).await?;
        let mut found: Vec<Item> = Vec::new();
        let everything = Rectangle::new([f64::MIN; 2], [f64::MAX; 2]).expect("its edges are finite");
        Reader::new(&index, &client, Issue::Many)
            .search(&Query::intersecting(everything), &mut found)
            .await?;
        compare(coast, &ships, &found, &mut checked);
        let walk = index.walk(&client).await?;
        index.close(&client).await?;
        Ok::<_, farwood_index::IndexError>(walk)
    })?;
    for problem in &walk.problems {
        checked.count(Err(format!("the tree: {problem}")));
    }
    let record = finish(store.record(&run, coast.len()), &round);
    let record = Record { workload: "demo".to_owned(), ..record };
    let CheckedAnswers { answers, wrong, examples } = checked;
    let owner = |id: u64| (id - coast.len()) / SHIPS / spec.clients_per_process;
    let ships = ships.into_iter().map(|(id, at)| (owner(id), at)).collect();
    Ok(SpatialDemoOutcome { record, answers, wrong, examples, walk, samples, ships })
}

/// Ships of each client.
const SHIPS: u64 = 12;

fn jobs(spec: &SpatialDemoSpec, store: &SpatialStore) -> Vec<SpatialDemoJob> {
    let job = |process| SpatialDemoJob {
        pool: store.pool.place.to_string(),
        index: store.pool.index.clone(),
        seed: spec.seed,
        process,
        clients_per_process: spec.clients_per_process,
    };
    (0..spec.processes as u64).map(job).collect()
}

/// The positions of ships, by their numbers.
type Ships = BTreeMap<u64, [f64; 2]>;

/// Merges the results of all processes.
fn merge(reports: Vec<SpatialDemoReport>) -> (Round, CheckedAnswers, Ships, Vec<SampleSearch>) {
    let (mut round, mut checked) = (Round::default(), CheckedAnswers::default());
    let (mut ships, mut samples) = (Ships::new(), Vec::new());
    for report in reports {
        round.merge(&report.round);
        checked.add(report.checked);
        ships.extend(report.ships);
        samples.extend(report.samples);
    }
    (round, checked, ships, samples)
}

/// Compares the whole index with the coastlines and with the positions that the clients know.
fn compare(coast: &Coastlines, ships: &Ships, found: &[Item], checked: &mut CheckedAnswers) {
    let ship = |(&id, &at): (&u64, &[f64; 2])| Item {
        bounds: Rectangle::point(at).expect("positions are finite"),
        id,
    };
    let mut expected: Vec<_> = coast.items.iter().copied().chain(ships.iter().map(ship)).collect();
    let mut found = found.to_vec();
    let place =
        |item: &Item| (item.id, item.bounds.min().map(f64::to_bits), item.bounds.max().map(f64::to_bits));
    expected.sort_by_key(place);
    found.sort_by_key(place);
    for (expected, found) in expected.iter().zip(&found) {
        let differs = || Err(format!("at the end, the index has {found:?} instead of {expected:?}"));
        checked.count(if expected == found { Ok(()) } else { differs() });
    }
    if expected.len() != found.len() {
        checked.count(Err(format!(
            "at the end, the index has {} items instead of {}",
            found.len(),
            expected.len()
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_misplaced_ship_at_the_end_is_found() {
        let coast = Coastlines::shipped();
        let ships = Ships::from([(coast.len(), [1.0, 2.0])]);
        let wrong = |ship: Option<[f64; 2]>| {
            let (mut found, mut checked) = (coast.items.clone(), CheckedAnswers::default());
            found.extend(ship.map(|at| Item { bounds: Rectangle::point(at).unwrap(), id: coast.len() }));
            compare(coast, &ships, &found, &mut checked);
            checked.wrong
        };
        assert_eq!((wrong(Some([1.0, 2.0])), wrong(Some([1.0, 3.0])), wrong(None)), (0, 1, 1));
    }
}
