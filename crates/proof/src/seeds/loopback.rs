//! Runs on the loopback fabric: the seed draws which client is polled next.
//!
//! Transfers are copied word by word. Between two words any client may run, and a client may be stalled for many
//! polls. So torn reads, lost races and stale caches are frequent.

use super::RunTotals;
use super::check::{LEFT_CLOSED, check_contents, check_history, check_unfinished_changes, perform_request};
use super::plan::{DEVICE_BYTES, Plan, SIZES};
use super::record::RunRecord;
use crate::workload::{CHURNING, GROWING, MIXED, Mix, variant};
use farwood_fabric::{Client, PoolShape};
use farwood_index::IndexError;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::mutant::Mutant;
use farwood_index::ordered::{Ordered, OrderedConfig, OrderedReport, System};
use farwood_index::{sherman, smart, sphinx};
use farwood_testkit::Harness;
use farwood_testkit::harness::TestRng;
use farwood_testkit::history::ByteString;
use farwood_testkit::loopback::{Copying, EVERYTHING, Faults, Loopback, LoopbackFabric, SMALL, Settings};
use farwood_testkit::seeds::caught;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// The order in which the fabric copies transfers, and the proof that a copy is not torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// READs are copied downward and WRITEs upward: version pairs are a proof.
    SharedMemory,
    /// Both are copied upward, and a READ does not overtake a WRITE: version pairs are a proof.
    Nic,
    /// Both are copied upward, and READs overtake WRITEs: only checksums are a proof.
    Overtaking,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackCase {
    /// The configuration and the requests of the run.
    pub plan: Plan,
    /// The settings of the fabric.
    pub settings: Settings,
    /// Compute nodes.
    pub compute_nodes: usize,
    /// Clients of all compute nodes together.
    pub clients: usize,
    /// Operations of each client.
    pub steps: u64,
    /// One of this number of operations is dropped before it is answered.
    pub dropped_once_in: Option<u64>,
    /// One of this number of polls stalls its client.
    pub stalled_once_in: u64,
    /// Polls after which the run counts as stuck.
    pub polls_max: u64,
    /// The deliberate fault of the index, if it has one.
    pub mutant: Option<Mutant>,
}

impl LoopbackCase {
    /// The run of a seed: all variants in turn, each on every fabric.
    pub fn new(system: System, seed: u64) -> Self {
        let copies = [Copies::SharedMemory, Copies::Nic, Copies::Overtaking][(seed / 8 % 3) as usize];
        Self::on(system, seed, copies)
    }

    /// A short run in which a Sherman tree grows from empty: often two clients replace the root at the same time, one
    /// of them stalled.
    pub fn growing(seed: u64) -> Self {
        let mut case = Self::on(System::Sherman, seed, Copies::SharedMemory);
        case.plan.sherman().sizes = SIZES[1];
        (case.plan.keys, case.plan.mix) = (40, Mix { gets: 0, scans: 2, removals: 0, exchanges: 0 });
        case.steps = 8;
        case.stalled_once_in = 40;
        case
    }

    /// The run of a seed in which operations are dropped before they are answered.
    pub fn with_drops(system: System, seed: u64) -> Self {
        let copies = if seed.is_multiple_of(2) { Copies::SharedMemory } else { Copies::Overtaking };
        let mut case = Self::on(system, seed, copies);
        if let OrderedConfig::Sherman(config) = &mut case.plan.index {
            config.options = variant(seed / 2).features();
        }
        case.dropped_once_in = Some(10);
        case
    }

    /// The run of a seed on a fabric that copies in the order of `copies`.
    pub fn on(system: System, seed: u64, copies: Copies) -> Self {
        let mut case = Self::sherman(seed, copies);
        case.plan.index = match system {
            System::Sherman => case.plan.index,
            System::Smart => OrderedConfig::Smart(smart_config(seed)),
            System::Sphinx => OrderedConfig::Sphinx(sphinx_config(seed)),
        };
        if system == System::Sphinx {
            case.plan.cache_bytes = filter_bytes(seed);
        }
        if system == System::Smart && case.plan.cache_bytes > 0 {
            // A node cache of less than about 16 KiB caches nothing.
            case.plan.cache_bytes = case.plan.cache_bytes.max(1 << 14);
        }
        case
    }

    /// The run of a seed with a Sherman tree.
    fn sherman(seed: u64, copies: Copies) -> Self {
        let mut random = TestRng::new(seed);
        let mut options = variant(seed).features();
        if random.once_in(4) {
            options.lock.width = LockWidth::Packed;
        }
        let sizes = SIZES[random.below(SIZES.len() as u64) as usize];
        let swallows = random.once_in(3);
        let consistency = random.once_in(4).then_some(Consistency::Checksum);
        let config =
            sherman::ShermanConfig { sizes, options, consistency, ..sherman::ShermanConfig::default() };
        let shape = PoolShape { device_bytes: DEVICE_BYTES[random.below(3) as usize], ..SMALL };
        let mut settings = Settings { shape, ..settings(copies, seed) };
        settings.faults.atomic_loses_writes = swallows;
        let clients = 6 + random.below(3) as usize;
        let plan = Plan {
            seed,
            index: OrderedConfig::Sherman(config),
            radix_value_bytes: sizes.value_bytes,
            keys: [12, 40, 90, 240][random.below(4) as usize],
            mix: [MIXED, GROWING, CHURNING][random.below(3) as usize],
            cache_bytes: [0, 1 << 10, 1 << 20][random.below(3) as usize],
            snapshots: false,
        };
        Self {
            plan,
            settings,
            compute_nodes: 3,
            clients,
            steps: 60,
            dropped_once_in: None,
            stalled_once_in: 150,
            polls_max: 50_000_000,
            mutant: None,
        }
    }
}

/// Bytes of an entry up to which its value lies in the leaf, in runs in which some values are overflow values.
const INLINE_BYTES: usize = 24;

/// All variants of SMART in turn, combined with other options.
pub(crate) fn smart_config(seed: u64) -> smart::SmartConfig {
    let mut random = TestRng::new(seed ^ 0x736D_6172);
    let variants = smart::SmartVariant::ALL;
    let mut options = variants[(seed % variants.len() as u64) as usize].0.features();
    options.node_sizing = match random.below(8) {
        0 => smart::NodeSizing::Preallocated,
        1..4 => smart::NodeSizing::Typed,
        _ => smart::NodeSizing::Fitting,
    };
    if random.once_in(6) {
        options.scans = smart::options::Scans::OneByOne;
    }
    let mut config = smart::SmartConfig { options, ..smart::SmartConfig::default() };
    if random.once_in(4) {
        config.inline_bytes = INLINE_BYTES;
    }
    if random.once_in(4) {
        config.options.cache_policy = smart::CachePolicy::FirstIn;
    }
    config
}

/// All variants of Sphinx in turn, mostly the one with the filter. Subtables are small, so that they are split.
pub(crate) fn sphinx_config(seed: u64) -> sphinx::SphinxConfig {
    let mut random = TestRng::new(seed ^ 0x7370_6869);
    let variant = match seed % 4 {
        0 => sphinx::SphinxVariant::HashTable,
        1 if seed % 8 == 1 => sphinx::SphinxVariant::Art,
        _ => sphinx::SphinxVariant::Filter,
    };
    let mut options = variant.features();
    options.groups = sphinx::Groups::new(random.below(3) as u8 / 2).expect("0 and 1 are valid");
    if random.once_in(6) {
        options.scans = sphinx::options::Scans::OneByOne;
    }
    if random.once_in(3) {
        options.node_reads = sphinx::NodeReads::Whole;
    }
    options.leaf_locks = match random.below(6) {
        0 => sphinx::LeafLocks::HandedOver,
        1 => sphinx::LeafLocks::Contended,
        _ => sphinx::LeafLocks::Queued,
    };
    if random.once_in(4) {
        options.scan_starts = sphinx::ScanStarts::Root;
    }
    if random.once_in(8) {
        options.eviction = sphinx::Eviction::Random;
    }
    sphinx::SphinxConfig { options, ..sphinx::SphinxConfig::default() }
}

/// The size of a filter that is empty, that forgets most prefixes, or that is large enough.
pub(crate) fn filter_bytes(seed: u64) -> usize {
    [0, 16, 1 << 10][(seed / 4 % 3) as usize]
}

/// A fabric whose transfers are copied word by word.
pub fn settings(copies: Copies, seed: u64) -> Settings {
    let faults = Faults { reads: Copying::Upward, writes: Copying::Upward, ..Faults::NONE };
    let (faults, version_pair_bytes_max) = match copies {
        Copies::SharedMemory => (Faults { reads: Copying::Downward, ..faults }, usize::MAX),
        Copies::Nic => (Faults { reads_stay_behind: true, ..faults }, usize::MAX),
        Copies::Overtaking => (faults, 0),
    };
    let promises = farwood_fabric::Capabilities { version_pair_bytes_max, whole_bytes: 8, ..EVERYTHING };
    Settings { promises, faults, seed, ..Settings::default() }
}

/// Runs a case; a panic is a failure.
///
/// # Errors
/// The failure of the run.
pub fn outcome(case: &LoopbackCase) -> Result<RunTotals, String> {
    caught(|| run(case)).flatten()
}

type Node = (Ordered, Client<LoopbackFabric>);

/// Runs a case and checks everything.
///
/// # Errors
/// The failure of the run. Panics of the index are not caught.
pub fn run(case: &LoopbackCase) -> Result<RunTotals, String> {
    let loopback = Loopback::new(case.settings);
    let nodes = open(case, &loopback).map_err(|error| format!("opening: {error}"))?;
    let record = RunRecord::default();
    let keys = case.plan.draw_keys();
    let clients: Vec<_> =
        (0..case.clients).map(|number| loopback.sibling(&nodes[number % nodes.len()].1)).collect();
    let tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = (0..)
        .zip(&clients)
        .map(|(number, client)| {
            let tree = &nodes[number as usize % nodes.len()].0;
            Box::pin(run_client(case, number, tree, client, &keys, &record))
                as Pin<Box<dyn Future<Output = ()>>>
        })
        .collect();
    interleave(case, tasks, &record);
    for client in &clients {
        record.totals.borrow_mut().costs += client.take_costs();
    }
    record.verdict()?;
    loopback.finish();
    let reading: Vec<_> = nodes.iter().map(|(tree, client)| (tree, client)).collect();
    let walk = loopback.block_on(check_contents(&reading, &keys, &record));
    let walk = walk.map_err(|error| format!("at the end: {error}"))?;
    let mut totals = record.totals.take();
    totals.runs = 1;
    if case.dropped_once_in.is_none() && totals.locks_dropped > 0 {
        record.fail(format!("{} locks were dropped", totals.locks_dropped));
    }
    if case.dropped_once_in.is_none() {
        let rest = match &walk {
            OrderedReport::Radix(walk) => check_unfinished_changes(walk, loopback.marked(LEFT_CLOSED)),
            OrderedReport::Sherman(_) if walk.unfinished_changes() > 0 => {
                Err(format!("{} nodes are half-linked", walk.unfinished_changes()))
            }
            OrderedReport::Sherman(_) => Ok(()),
        };
        rest.unwrap_or_else(|what| record.fail(what));
    }
    record.verdict()?;
    check_history(&record.history.into_inner()).map(|()| totals)
}

fn open(case: &LoopbackCase, loopback: &Loopback) -> Result<Vec<Node>, IndexError> {
    let mut nodes = Vec::new();
    for number in 0..case.compute_nodes {
        let client = loopback.separate_client();
        let mut tree = loopback.block_on(async {
            match number {
                0 => Ordered::create(&client, "seeds", case.plan.index, case.plan.cache_bytes).await,
                _ => Ordered::open(&client, "seeds", case.plan.cache_bytes).await,
            }
        })?;
        if let Some(mutant) = case.mutant {
            tree.mutant(mutant);
        }
        nodes.push((tree, client));
    }
    Ok(nodes)
}

async fn run_client(
    case: &LoopbackCase,
    number: u64,
    tree: &Ordered,
    client: &Client<LoopbackFabric>,
    keys: &[ByteString],
    record: &RunRecord,
) {
    let mut workload = case.plan.workload(keys, number + 1);
    for _ in 0..case.steps {
        let Some(request) = workload.next() else { break };
        let polls = case.dropped_once_in.filter(|&once_in| workload.random().once_in(once_in));
        let polls = polls.map(|_| workload.random().below(60));
        let done = perform_request(number, tree, client, &request, record);
        match Box::pin(at_most(polls, done)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return record.fail(format!("client {number}: {error}")),
            None => record.totals.borrow_mut().dropped += 1,
        }
    }
}

/// Drops `operation` when it is still pending after `polls` polls.
async fn at_most<T>(polls: Option<u64>, operation: impl Future<Output = T>) -> Option<T> {
    let mut operation = pin!(operation);
    let mut left = polls;
    poll_fn(move |context| match operation.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == Some(0) => Poll::Ready(None),
        Poll::Pending => {
            left = left.map(|left| left - 1);
            Poll::Pending
        }
    })
    .await
}

/// Maximum number of polls for which a stalled client is not polled.
const STALL_POLLS_MAX: u64 = 600;

/// Polls the tasks in an order that the seed draws, until all are done.
fn interleave(case: &LoopbackCase, tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>, record: &RunRecord) {
    let mut random = TestRng::new(case.plan.seed ^ 0x7461_736B);
    let mut context = Context::from_waker(Waker::noop());
    let mut running: Vec<_> = tasks.into_iter().map(|task| (task, 0)).collect();
    let mut polls = 0;
    while !running.is_empty() && !record.failed() {
        polls += 1;
        if polls > case.polls_max {
            return record.fail(format!("{} clients are stuck", running.len()));
        }
        let at = random.below(running.len() as u64) as usize;
        let (task, stalled_until) = &mut running[at];
        if *stalled_until > polls {
            continue;
        }
        if task.as_mut().poll(&mut context).is_ready() {
            drop(running.swap_remove(at));
        } else if random.once_in(case.stalled_once_in) {
            *stalled_until = polls + random.below(STALL_POLLS_MAX);
        }
    }
}
