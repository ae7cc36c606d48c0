//! rstar as the peer of a spatial index: a tree in one process, searched with the same streams of requests.

use std::sync::{PoisonError, RwLock};

use farwood_index::catfish::{Item, Query};
use rstar::primitives::{GeomWithData, Rectangle as Bounds};
use rstar::{AABB, RTree};
use serde::{Deserialize, Serialize};

use super::super::interface::{Backend, Running, finish_peer, peer_record};
use super::backend::SpatialBackend;
use super::describe::with_searches;
use super::process::SpatialJob;
use crate::Result;
use crate::driver::clock::Clock;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::{Amount, Round};
use crate::driver::threads::{self, ThreadDriver};
use crate::driver::worker::{Job, ParentConnection};
use crate::record::Record;
use crate::record::measurement::{CostTotals, Measurement, OperationKind};
use crate::spec::RSTAR;
use crate::spec::spatial::SpatialSpec;
use crate::workload::rectangles::{RectangleRequest, RectangleSource, RequestStream};

type Entry = GeomWithData<Bounds<[f64; 2]>, u64>;

fn entry(item: &Item) -> Entry {
    GeomWithData::new(Bounds::from_corners(item.bounds.min(), item.bounds.max()), item.id)
}

/// The process of rstar, which loads the rectangles of `source`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RstarJob {
    clients: SpatialJob,
    source: RectangleSource,
}

impl Job for RstarJob {
    const KIND: &'static str = "rstar";

    fn run(self, parent: &mut ParentConnection<'_>) -> Result<()> {
        parent.follow();
        let job = &self.clients;
        let tree = RwLock::new(RTree::bulk_load(self.source.items(job.seed)?.iter().map(entry).collect()));
        let streams = job.streams(job.mix, job.seed);
        let has_inserts = job.mix.inserts();
        let make =
            |thread: usize| Ok(RstarDriver { tree: &tree, streams: streams[thread].clone(), has_inserts });
        threads::serve(parent, streams.len(), job.all_clients, make, || None)
    }
}

/// rstar in one process, with as many threads as all of Farwood's processes have.
pub(crate) struct RstarBackend<'s> {
    spec: &'s SpatialSpec,
    record: Record,
    job: RstarJob,
}

impl<'s> RstarBackend<'s> {
    pub(crate) fn new(spec: &'s SpatialSpec, ours: &SpatialBackend<'_>) -> RstarBackend<'s> {
        let threads = ours.job.threads * spec.compute_nodes;
        let clients = ours.job.clone().in_one_process(threads);
        let record = Record {
            fabric: "threads".to_owned(),
            compute_nodes: 1,
            threads: threads as u64,
            connections: None,
            ..peer_record(RSTAR, &ours.record)
        };
        RstarBackend { spec, record, job: RstarJob { clients, source: spec.source.clone() } }
    }
}

impl Backend for RstarBackend<'_> {
    fn label(&self) -> String {
        self.record.label()
    }

    fn start(&self, worker: &WorkerCommand) -> Result<Running> {
        let processes = WorkerProcesses::start(worker, std::slice::from_ref(&self.job))?;
        Ok(Running { record: self.record.clone(), processes, resources: None })
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        with_searches(self.spec, finish_peer(record, round), round)
    }
}

/// The clients of one thread.
struct RstarDriver<'t> {
    tree: &'t RwLock<RTree<Entry>>,
    streams: Vec<RequestStream>,
    has_inserts: bool,
}

impl RstarDriver<'_> {
    /// Executes a request. `tree` is the tree if the thread holds its lock.
    fn step(&self, tree: Option<&RTree<Entry>>, request: RectangleRequest) -> (OperationKind, u64) {
        let count = |tree: &RTree<Entry>, query: Query| {
            let window = AABB::from_corners(query.window.min(), query.window.max());
            let found = tree.locate_in_envelope_intersecting(&window);
            found.map(|found| std::hint::black_box(found.data)).fold(0, |count, _| count + 1)
        };
        match (request, tree) {
            (RectangleRequest::Search(query), Some(tree)) => (OperationKind::Search, count(tree, query)),
            (RectangleRequest::Search(query), None) => {
                let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
                (OperationKind::Search, count(&tree, query))
            }
            (RectangleRequest::Insert(item), _) => {
                self.tree.write().unwrap_or_else(PoisonError::into_inner).insert(entry(&item));
                (OperationKind::Insert, 0)
            }
        }
    }
}

impl ThreadDriver for RstarDriver<'_> {
    fn scan_all(&mut self) -> Result<()> {
        Ok(())
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let before = self.streams.clone();
        if !self.has_inserts {
            self.measure(Amount::Seconds(seconds))?;
        }
        self.streams = before;
        Ok(())
    }

    fn measure(&mut self, amount: Amount) -> Result<Measurement> {
        let mut measurement = Measurement::new();
        let clock = Clock::new();
        let deadline = clock.deadline(amount);
        let clients = self.streams.len();
        // Without inserts the thread holds the lock for the whole round, so that locking is not part of the measured
        // searches.
        let held = (!self.has_inserts).then(|| self.tree.read().unwrap_or_else(PoisonError::into_inner));
        let (mut start, mut done, mut number) = (clock.now(), 0, 0);
        loop {
            let request = self.streams[number % clients].next_request();
            let (kind, found) = self.step(held.as_deref(), request);
            let now = clock.now();
            measurement.record(kind, now - start, &CostTotals { found, ..CostTotals::default() });
            (start, number) = (now, number + 1);
            done += u64::from(number.is_multiple_of(clients));
            if deadline.is_over(now, done) {
                return Ok(measurement);
            }
        }
    }
}
