//! rstar as a contestant: a tree in one process, searched with the same streams.

use super::super::contest::Contestant;
use super::super::crew::WorkerCommand;
use super::SpatialSpec;
use super::node::SpatialJob;
use crate::record::Record;
use crate::{Error, Result};

/// The only peer.
const NAME: &str = "rstar";

/// Refuses a name that is no peer's.
fn check(name: &str) -> Result<()> {
    if name == NAME {
        return Ok(());
    }
    let problem = format!("no such peer of a spatial index: {name}");
    Err(Error::parameter("--peer", problem, "give rstar"))
}

#[cfg(not(feature = "peers"))]
pub(super) fn contestant(
    name: &str,
    _: &SpatialSpec,
    _: &SpatialJob,
    _: &Record,
    _: &WorkerCommand,
) -> Result<Contestant> {
    check(name)?;
    Err(super::super::spec::not_built(name))
}

#[cfg(not(feature = "peers"))]
pub(crate) fn serve<W: std::io::Write>(
    _: &(SpatialJob, crate::rectangles::Source),
    _: &mut super::super::worker::Parent<W>,
) -> Result<()> {
    Err(super::super::spec::not_built(NAME))
}

#[cfg(feature = "peers")]
pub(super) use with_rstar::contestant;
#[cfg(feature = "peers")]
pub(crate) use with_rstar::serve;

#[cfg(feature = "peers")]
mod with_rstar {
    use std::io::Write;
    use std::sync::{PoisonError, RwLock};

    use rstar::primitives::{GeomWithData, Rectangle as Bounds};
    use rstar::{AABB, RTree};

    use super::super::super::crew::Crew;
    use super::super::super::node::until;
    use super::super::super::protocol::Job;
    use super::super::super::spec::Amount;
    use super::super::super::team::{self, Hand};
    use super::super::super::worker::Parent;
    use super::{Contestant, NAME, Record, Result, SpatialJob, SpatialSpec, WorkerCommand, check};
    use crate::clock::Clock;
    use crate::measure::{CostTotals, Measurement, OperationKind};
    use crate::rectangles::{Asked, Mix, RequestStream, Source};
    use farwood_index::catfish::Item;

    type Tree = RTree<GeomWithData<Bounds<[f64; 2]>, u64>>;

    fn entry(item: &Item) -> GeomWithData<Bounds<[f64; 2]>, u64> {
        GeomWithData::new(Bounds::from_corners(item.bounds.min(), item.bounds.max()), item.id)
    }

    /// Its one process, with as many threads as Farwood's have together.
    pub(in super::super) fn contestant(
        name: &str,
        spec: &SpatialSpec,
        job: &SpatialJob,
        record: &Record,
        worker: &WorkerCommand,
    ) -> Result<Contestant> {
        check(name)?;
        let threads = job.threads * spec.compute_nodes;
        let job = SpatialJob { threads, clients: 0..job.all_clients, ..job.clone() };
        let crew = Crew::start(worker, &[Job::SpatialPeer((job, spec.source.clone()))])?;
        let record = Record {
            index: NAME.to_owned(),
            peer: Some(NAME.to_owned()),
            fabric: "threads".to_owned(),
            compute_nodes: 1,
            threads: threads as u64,
            variant: None,
            options: serde_json::Map::new(),
            consistency: None,
            memory_nodes: None,
            connections: None,
            ..record.clone()
        };
        Ok(Contestant::of(record, crew))
    }

    /// The peer's process.
    pub(crate) fn serve<W: Write>(
        (job, source): &(SpatialJob, Source),
        parent: &mut Parent<W>,
    ) -> Result<()> {
        let tree = RwLock::new(Tree::bulk_load(source.items(job.seed)?.iter().map(entry).collect()));
        let streams = job.streams(job.mix, job.seed);
        let make = |thread: usize| {
            Ok(Searcher { tree: &tree, streams: streams[thread].clone(), has_inserts: job.mix == Mix::Mixed })
        };
        team::serve(parent, streams.len(), job.all_clients, make, || None)
    }

    struct Searcher<'t> {
        tree: &'t RwLock<Tree>,
        streams: Vec<RequestStream>,
        has_inserts: bool,
    }

    impl Searcher<'_> {
        fn step(&self, tree: Option<&Tree>, asked: Asked) -> (OperationKind, u64) {
            let count = |tree: &Tree, query: farwood_index::catfish::Query| {
                let window = AABB::from_corners(query.window.min(), query.window.max());
                let found = tree.locate_in_envelope_intersecting(&window);
                found.map(|found| std::hint::black_box(found.data)).fold(0, |count, _| count + 1)
            };
            match (asked, tree) {
                (Asked::Search(query), Some(tree)) => (OperationKind::Search, count(tree, query)),
                (Asked::Search(query), None) => {
                    let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
                    (OperationKind::Search, count(&tree, query))
                }
                (Asked::Insert(item), _) => {
                    self.tree.write().unwrap_or_else(PoisonError::into_inner).insert(entry(&item));
                    (OperationKind::Insert, 0)
                }
            }
        }
    }

    impl Hand for Searcher<'_> {
        fn pass(&mut self) -> Result<()> {
            Ok(())
        }

        fn warm_up(&mut self, seconds: f64) -> Result<()> {
            let before = self.streams.clone();
            if !self.has_inserts {
                self.work(Amount::Seconds(seconds))?;
            }
            self.streams = before;
            Ok(())
        }

        fn work(&mut self, amount: Amount) -> Result<Measurement> {
            let mut measurement = Measurement::new();
            let clock = Clock::new();
            let end = until(&clock, amount);
            let clients = self.streams.len();
            // Where nobody inserts, nobody pays for a lock.
            let held = (!self.has_inserts).then(|| self.tree.read().unwrap_or_else(PoisonError::into_inner));
            let (mut start, mut done, mut turn) = (clock.now(), 0, 0);
            loop {
                let asked = self.streams[turn % clients].ask();
                let (kind, found) = self.step(held.as_deref(), asked);
                let now = clock.now();
                measurement.record(kind, now - start, &CostTotals { found, ..CostTotals::default() });
                (start, turn) = (now, turn + 1);
                done += u64::from(turn.is_multiple_of(clients));
                if end.is_over(now, done) {
                    return Ok(measurement);
                }
            }
        }
    }
}
