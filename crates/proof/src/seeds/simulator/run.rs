//! Runs a case: opens the index on every compute node, runs all clients, and checks the result.

use super::SimulatorReport;
use super::check::{check_costs, check_remains, explains_lock_held, explains_node_lost, time_before_freeze};
use super::draw::{FAULTS, OPERATIONS, SimulatorCase};
use crate::seeds::check::{check_contents, check_history, perform_request};
use crate::seeds::record::RunRecord;
use crate::workload::TreeRequest;
use farwood_fabric::chunks::{self, InUse};
use farwood_fabric::{Client, Costs, Fabric as _, FabricError, LockWord, NodeId, Words, read_bytes, u32_at};
use farwood_index::IndexError;
use farwood_index::consistency::Consistency;
use farwood_index::mutant::Mutant;
use farwood_index::ordered::{Ordered, OrderedReport};
use farwood_index::sherman::layout::Layout;
use farwood_index::sherman::node::Node;
use farwood_sim::{RunOutcome, SimFabric, Trace, World, untimed};
use farwood_testkit::history::{Action, ByteString};
use farwood_testkit::seeds::caught;
use std::cell::Cell;

/// A run: its outcome and its trace.
#[derive(Debug)]
pub struct SimulatorRun {
    /// The faults and counts of the run, or its failure.
    pub outcome: Result<SimulatorReport, String>,
    /// The trace of its events.
    pub trace: Trace,
}

/// Runs a case and checks everything; a panic is a failure.
pub fn run(case: &SimulatorCase) -> SimulatorRun {
    let world = match World::new(case.spec.clone()) {
        Ok(world) => world,
        Err(error) => return SimulatorRun { outcome: Err(error.to_string()), trace: Trace::default() },
    };
    let outcome = caught(|| run_in(case, &world)).flatten();
    SimulatorRun { outcome, trace: world.trace() }
}

/// Runs a case as [`run`] does, without the trace.
///
/// # Errors
/// The failure of the run.
pub fn outcome(case: &SimulatorCase) -> Result<SimulatorReport, String> {
    run(case).outcome
}

/// Longer than any drawn outage, nanoseconds.
const QUIET: u64 = 40_000_000;

/// A run in progress.
pub(super) struct Running<'r> {
    pub(super) case: &'r SimulatorCase,
    pub(super) world: &'r World,
    record: &'r RunRecord,
    /// Operations whose errors faults explain.
    pub(super) explained_errors: Cell<u64>,
}

fn run_in(case: &SimulatorCase, world: &World) -> Result<SimulatorReport, String> {
    let record = RunRecord::default();
    let trees = open(case, world).map_err(|error| format!("opening: {error}"))?;
    let keys = case.plan.draw_keys();
    let clients: Vec<_> = (0..case.clients).map(|number| world.client(number % trees.len())).collect();
    let running = Running { case, world, record: &record, explained_errors: Cell::new(0) };
    if let Some(nanoseconds) = case.rival_holds_ns {
        let rival = world.client(world.add_compute_node());
        world.intercept_every_cas(LockWord::held_by(rival.fabric().identity()).word(), nanoseconds);
    }
    let mut group = world.task_group();
    for (number, client) in (0..).zip(&clients) {
        let tree = &trees[number as usize % trees.len()];
        group.spawn(client, running.run_client(number, tree, client, &keys));
    }
    let ended = group.run_until(case.nanoseconds_max);
    drop(group);
    record.verdict()?;
    if ended != RunOutcome::Done {
        return Err(format!("the run does not end: {ended:?} at {} ns", world.now()));
    }
    let mut report = running.report(&clients);
    let survivors: Vec<usize> = (0..trees.len()).filter(|&node| !world.gone(node)).collect();
    let readers: Vec<_> = survivors.iter().map(|&node| world.client(node)).collect();
    let reading: Vec<_> =
        survivors.iter().zip(&readers).map(|(&node, client)| (&trees[node], client)).collect();
    let walk = world
        .block_on(running.check_contents(&reading, &keys))
        .map_err(|error| format!("at the end: {error}"))?;
    record.verdict()?;
    let rest = record.totals.take();
    report.totals.levels = rest.levels;
    report.totals.half_linked = rest.half_linked;
    report.totals.locks_dropped = rest.locks_dropped;
    check_remains(&running, &trees, &walk, &report)?;
    if case.mutant == Some(Mutant::VersionsHigh)
        && let Ordered::Sherman(tree) = &trees[0]
    {
        report.wrapped =
            wrapped_versions(world, tree.layout()).map_err(|error| format!("at the end: {error}"))?;
    }
    check_costs(&running, &clients)?;
    check_costs(&running, &readers)?;
    check_history(&record.history.take())?;
    Ok(report)
}

/// Versions below this have wrapped, in runs whose versions start high.
const SMALL_VERSIONS: u32 = 1 << 16;
const SMALL_BYTE_VERSIONS: u8 = 1 << 7;

/// Counts the nodes of a tree, and the entries of its leaves, whose version has wrapped.
fn wrapped_versions(world: &World, layout: &Layout) -> Result<[u64; 2], FabricError> {
    let client = world.untimed(0);
    let mut wrapped = [0; 2];
    for node in 0..world.spec().memory_nodes {
        for InUse { chunk, .. } in untimed(chunks::in_use(&client, NodeId(node)))? {
            let copy = untimed(
                client.post(read_bytes(chunk.start().part::<Words>(0), chunks::CHUNK_BYTES as usize)),
            )?;
            let Ok(bytes) = copy.check(&()) else { unreachable!("any bytes pass the check") };
            for slot_bytes in bytes.chunks_exact(layout.slot_bytes) {
                let Ok(node) = Node::decode(layout, &slot_bytes[..layout.node_bytes]) else { continue };
                wrapped[0] += u64::from((1..SMALL_VERSIONS).contains(&node.version()));
                let entries = if node.level() == 0 { 0..layout.leaf_capacity } else { 0..0 };
                let is_wrapped = |entry: &[u8]| match layout.consistency {
                    Consistency::ByteVersions => (2..SMALL_BYTE_VERSIONS).contains(&entry[0]),
                    _ => (2..SMALL_VERSIONS).contains(&u32_at(entry, 0)),
                };
                wrapped[1] +=
                    entries.filter(|&slot| is_wrapped(&slot_bytes[layout.entry(slot)])).count() as u64;
            }
        }
    }
    Ok(wrapped)
}

/// Opens the index on every compute node; compute node 0 creates it.
fn open(case: &SimulatorCase, world: &World) -> Result<Vec<Ordered>, IndexError> {
    (0..case.spec.compute_nodes)
        .map(|node| {
            let (client, plan) = (world.untimed(node), &case.plan);
            let opened = untimed(async {
                match node {
                    0 => Ordered::create(&client, "seeds", plan.index, plan.cache_bytes).await,
                    _ => Ordered::open(&client, "seeds", plan.cache_bytes).await,
                }
            });
            let mut tree = opened?;
            if let Some(mutant) = case.mutant {
                tree.mutant(mutant);
            }
            Ok(tree)
        })
        .collect()
}

impl Running<'_> {
    async fn run_client(&self, number: u64, tree: &Ordered, client: &Client<SimFabric>, keys: &[ByteString]) {
        let mut workload = self.case.plan.workload(keys, number + 1);
        // A client that could not release a lock when a memory node was lost continues until the lock is released.
        let continues =
            || self.record.totals.borrow().operations < self.case.operations || tree.locks_uncertain() > 0;
        while !self.record.failed() && continues() {
            let Some(request) = workload.next() else { break };
            let begun = client.fabric().now();
            if let Err(error) = perform_request(number, tree, client, &request, self.record).await {
                let node = number as usize % self.case.spec.compute_nodes;
                self.check_error(number, node, (begun, client.fabric().now()), &error, &request);
                if matches!(error, IndexError::Fabric(FabricError::Revoked(_))) {
                    break;
                }
            }
        }
    }

    /// Fails the run if no fault explains an operation's error. The rules are in the documentation of the module
    /// `simulator`.
    fn check_error(
        &self,
        number: u64,
        compute_node: usize,
        span: (u64, u64),
        error: &IndexError,
        request: &TreeRequest,
    ) {
        let happened = self.world.injected_faults();
        // A loss before or during a freeze is reported after the freeze.
        let lost_since =
            happened.iter().fold(span.0, |begun, fault| time_before_freeze(fault, compute_node, begun));
        let is_explained = match error {
            IndexError::Fabric(FabricError::NodeLost { node, .. }) => happened
                .iter()
                .any(|fault| explains_node_lost(fault, compute_node, *node, (lost_since, span.1))),
            IndexError::LockHeld { .. } => {
                if let TreeRequest::Operation(key, _) = request {
                    self.record.cancel_last(number, key);
                }
                happened.iter().any(|fault| explains_lock_held(fault, span))
            }
            // Its operation may have taken effect, as that of a crashed client may.
            IndexError::Fabric(FabricError::Revoked(_)) => self.world.gone(compute_node),
            _ => false,
        };
        if is_explained {
            self.explained_errors.set(self.explained_errors.get() + 1);
        } else {
            let (begun, ended) = span;
            self.record
                .fail(format!("client {number}, from {begun} to {ended} ns: {error}; faults: {happened:?}"));
        }
    }

    /// Updates every key from every surviving compute node once no fault is active, which acquires every lock that a
    /// crashed client held, and then reads everything from all of them.
    async fn check_contents(
        &self,
        reading: &[(&Ordered, &Client<SimFabric>)],
        keys: &[ByteString],
    ) -> Result<OrderedReport, IndexError> {
        self.world.end_rules();
        let (_, client) = reading[0];
        client.fabric().sleep(QUIET).await;
        let value = vec![0xEE; self.case.plan.value_bytes()];
        for (tree, client) in reading {
            for key in keys {
                let request = TreeRequest::Operation(key.clone(), Action::Update(value.clone()));
                perform_request(2_000, tree, client, &request, self.record).await?;
            }
        }
        check_contents(reading, keys, self.record).await
    }

    fn report(&self, clients: &[Client<SimFabric>]) -> SimulatorReport {
        let mut totals = self.record.totals.take();
        totals.runs = 1;
        // The clients keep their counters, which are compared with the device's counts later.
        for client in clients {
            let mut costs = Costs::default();
            client.note(|ledger| costs = *ledger);
            totals.costs += costs;
        }
        let met = self.world.met();
        let counted = totals.operations >= OPERATIONS
            && met.faults() >= FAULTS
            && self.case.clients >= 8
            && self.case.spec.compute_nodes >= 3;
        SimulatorReport {
            totals,
            met,
            counts: self.world.counts(),
            marks: self.world.marks(),
            explained_errors: self.explained_errors.get(),
            counted: u64::from(counted),
            nanoseconds: self.world.now(),
            wrapped: [0; 2],
        }
    }
}
