//! Runs on the loopback fabric, in an order that is drawn poll by poll.
//!
//! Transfers are copied word by word, and between two words anybody may run, or be kept from running for long. So
//! torn reads, lost races and stale caches are not rare here: they are most of what happens.

use super::{
    Coverage, DEVICE_BYTES, LEFT_CLOSED, Notes, Plan, SIZES, caught, fulfil, judge, left_by_the_living,
    settle,
};
use crate::sherman::{CHURNING, GROWING, MIXED, Mix, variant};
use farwood_fabric::{Client, PoolShape};
use farwood_index::IndexError;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::{Ordered, Walk};
use farwood_index::sabotage::Sabotage;
use farwood_index::sherman::Config;
use farwood_index::{smart, sphinx};
use farwood_testkit::Harness;
use farwood_testkit::harness::Chance;
use farwood_testkit::history::Bytes;
use farwood_testkit::loopback::{Copying, EVERYTHING, Faults, Loopback, LoopbackFabric, SMALL, Settings};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// How the fabric copies, and what it promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Reads downward, writes upward: version pairs prove.
    SharedMemory,
    /// Both upward, and a READ stays behind a WRITE: version pairs prove.
    Nic,
    /// Both upward, and READs overtake: nothing proves but checksums.
    Overtaking,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is asked of the tree.
    pub plan: Plan,
    /// The fabric.
    pub settings: Settings,
    /// Compute nodes.
    pub compute_nodes: usize,
    /// Clients of all compute nodes together.
    pub clients: usize,
    /// Operations of each client.
    pub steps: u64,
    /// One operation of this many is dropped half-way.
    pub dropped_once_in: Option<u64>,
    /// One poll of this many keeps its client from running for a while.
    pub stalled_once_in: u64,
    /// Polls after which the run counts as stuck.
    pub polls_max: u64,
    /// How the tree is broken on purpose.
    pub sabotage: Option<Sabotage>,
}

impl Case {
    /// The run of a seed: all variants in turn, each on every fabric.
    pub fn of(seed: u64) -> Self {
        let fabric = [Fabric::SharedMemory, Fabric::Nic, Fabric::Overtaking][(seed / 8 % 3) as usize];
        Self::on(seed, fabric)
    }

    /// The run of a seed that is short, and all growth from the empty tree: two clients often want to give it its next
    /// root, and one of them was kept from running just then.
    pub fn growing(seed: u64) -> Self {
        let mut case = Self::on(seed, Fabric::SharedMemory);
        case.plan.config.sizes = SIZES[1];
        (case.plan.keys, case.plan.mix) = (40, Mix { gets: 0, scans: 2, removals: 0 });
        case.steps = 8;
        case.stalled_once_in = 40;
        case
    }

    /// The run of a seed in which operations are dropped half-way: on fabrics whose atomics cannot be dropped before
    /// they are answered (decision 6 says why).
    pub fn with_drops(seed: u64) -> Self {
        let fabric = if seed.is_multiple_of(2) { Fabric::SharedMemory } else { Fabric::Overtaking };
        let mut case = Self::on(seed, fabric);
        case.plan.config.options = variant(seed / 2).options();
        case.settings.faults.atomics_at_once = true;
        case.dropped_once_in = Some(10);
        case
    }

    /// The same run with a SMART tree: all variants in turn.
    #[must_use]
    pub fn of_smart(mut self) -> Self {
        self.plan.smart = Some(smart_config(self.plan.seed));
        self
    }

    /// The same run with a Sphinx tree: all variants in turn.
    #[must_use]
    pub fn of_sphinx(mut self) -> Self {
        self.plan.sphinx = Some(sphinx_config(self.plan.seed));
        self.plan.cache_bytes = filter_bytes(self.plan.seed);
        self
    }

    /// The run of a seed on a fabric of that kind.
    pub fn on(seed: u64, fabric: Fabric) -> Self {
        let mut chance = Chance::new(seed);
        let mut options = variant(seed).options();
        if chance.once_in(4) {
            options.lock.width = LockWidth::Packed;
        }
        let sizes = SIZES[chance.below(SIZES.len() as u64) as usize];
        let swallows = chance.once_in(3);
        let consistency = chance.once_in(4).then_some(Consistency::Checksum);
        let config = Config { sizes, options, consistency, ..Config::default() };
        let shape = PoolShape { device_bytes: DEVICE_BYTES[chance.below(3) as usize], ..SMALL };
        let mut settings = Settings { shape, ..settings(fabric, seed) };
        settings.faults.atomic_swallows = swallows;
        let clients = 6 + chance.below(3) as usize;
        let plan = Plan {
            seed,
            config,
            smart: None,
            sphinx: None,
            keys: [12, 40, 90, 240][chance.below(4) as usize],
            mix: [MIXED, GROWING, CHURNING][chance.below(3) as usize],
            cache_bytes: [0, 1 << 10, 1 << 20][chance.below(3) as usize],
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
            sabotage: None,
        }
    }
}

/// Bytes of an entry up to which values lie in their leaves, where some are to lie out of line.
const INLINE_BYTES: usize = 24;

/// All variants of SMART in turn, and what combines with each.
pub(crate) fn smart_config(seed: u64) -> smart::Config {
    let mut chance = Chance::new(seed ^ 0x736D_6172);
    let variants = smart::Variant::ALL;
    let mut options = variants[(seed % variants.len() as u64) as usize].0.options();
    if chance.once_in(8) {
        options.rooms = smart::Rooms::Preallocated;
    }
    if chance.once_in(6) {
        options.scans = smart::options::Scans::OneByOne;
    }
    let mut config = smart::Config { options, ..smart::Config::default() };
    if chance.once_in(4) {
        config.inline_bytes = INLINE_BYTES;
    }
    config
}

/// All variants of Sphinx in turn, mostly the filter's; subtables are small, so that they are split.
pub(crate) fn sphinx_config(seed: u64) -> sphinx::Config {
    let mut chance = Chance::new(seed ^ 0x7370_6869);
    let variant = match seed % 4 {
        0 => sphinx::Variant::HashTable,
        1 if seed % 8 == 1 => sphinx::Variant::Art,
        _ => sphinx::Variant::Filter,
    };
    let mut options = variant.options();
    options.groups = sphinx::Groups::new(chance.below(3) as u8 / 2).expect("they are few");
    if chance.once_in(6) {
        options.scans = sphinx::options::Scans::OneByOne;
    }
    sphinx::Config { options, ..sphinx::Config::default() }
}

/// A filter that knows nothing, that forgets most of the time, or that is large enough.
pub(crate) fn filter_bytes(seed: u64) -> usize {
    [0, 16, 1 << 10][(seed / 4 % 3) as usize]
}

/// A fabric whose transfers are copied word by word.
pub fn settings(fabric: Fabric, seed: u64) -> Settings {
    let faults = Faults { reads: Copying::Upward, writes: Copying::Upward, ..Faults::NONE };
    let (faults, version_pair_bytes_max) = match fabric {
        Fabric::SharedMemory => (Faults { reads: Copying::Downward, ..faults }, usize::MAX),
        Fabric::Nic => (Faults { reads_stay_behind: true, ..faults }, usize::MAX),
        Fabric::Overtaking => (faults, 0),
    };
    let promises = farwood_fabric::Capabilities { version_pair_bytes_max, whole_bytes: 8, ..EVERYTHING };
    Settings { promises, faults, seed, ..Settings::default() }
}

/// Runs a case; a panic is a failure like any other.
///
/// # Errors
/// What went wrong.
pub fn outcome(case: &Case) -> Result<Coverage, String> {
    caught(|| run(case))
}

type Node = (Ordered, Client<LoopbackFabric>);

/// Runs a case and checks everything.
///
/// # Errors
/// What went wrong. Panics of the index come through.
pub fn run(case: &Case) -> Result<Coverage, String> {
    let loopback = Loopback::new(case.settings);
    let nodes = open(case, &loopback).map_err(|error| format!("opening: {error}"))?;
    let notes = Notes::default();
    let keys = case.plan.draw_keys();
    let clients: Vec<_> = (0..case.clients).map(|me| loopback.sibling(&nodes[me % nodes.len()].1)).collect();
    let tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = (0..)
        .zip(&clients)
        .map(|(me, client)| {
            let tree = &nodes[me as usize % nodes.len()].0;
            Box::pin(one_client(case, me, tree, client, &keys, &notes)) as Pin<Box<dyn Future<Output = ()>>>
        })
        .collect();
    interleave(case, tasks, &notes);
    for client in &clients {
        notes.coverage.borrow_mut().costs += client.take_costs();
    }
    notes.verdict()?;
    loopback.finish();
    let looking: Vec<_> = nodes.iter().map(|(tree, client)| (tree, client)).collect();
    let walk = loopback.block_on(settle(&looking, &keys, &notes));
    let walk = walk.map_err(|error| format!("at the end: {error}"))?;
    let mut coverage = notes.coverage.take();
    coverage.runs = 1;
    if case.dropped_once_in.is_none() && coverage.locks_dropped > 0 {
        notes.fail(format!("{} locks were dropped", coverage.locks_dropped));
    }
    if case.dropped_once_in.is_none() {
        let rest = match &walk {
            Walk::Radix(walk) => left_by_the_living(walk, loopback.marked(LEFT_CLOSED)),
            Walk::Sherman(_) if walk.half_done() > 0 => {
                Err(format!("{} nodes are half-linked", walk.half_done()))
            }
            Walk::Sherman(_) => Ok(()),
        };
        rest.unwrap_or_else(|what| notes.fail(what));
    }
    notes.verdict()?;
    judge(&notes.history.into_inner()).map(|()| coverage)
}

fn open(case: &Case, loopback: &Loopback) -> Result<Vec<Node>, IndexError> {
    let mut nodes = Vec::new();
    for number in 0..case.compute_nodes {
        let client = loopback.stranger();
        let mut tree = loopback.block_on(async {
            match number {
                0 => Ordered::create(&client, "seeds", case.plan.tree(), case.plan.cache_bytes).await,
                _ => Ordered::open(&client, "seeds", case.plan.cache_bytes).await,
            }
        })?;
        if let Some(sabotage) = case.sabotage {
            tree.sabotage(sabotage);
        }
        nodes.push((tree, client));
    }
    Ok(nodes)
}

async fn one_client(
    case: &Case,
    me: u64,
    tree: &Ordered,
    client: &Client<LoopbackFabric>,
    keys: &[Bytes],
    notes: &Notes,
) {
    let mut wishes = case.plan.wishes(keys, me + 1);
    for _ in 0..case.steps {
        let Some(wish) = wishes.next() else { break };
        let polls = case.dropped_once_in.filter(|&once_in| wishes.chance().once_in(once_in));
        let polls = polls.map(|_| wishes.chance().below(60));
        let done = fulfil(me, tree, client, &wish, notes);
        match at_most(polls, done).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return notes.fail(format!("client {me}: {error}")),
            None => notes.coverage.borrow_mut().dropped += 1,
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

/// Polls of all others for which it is kept at most.
const STALL_POLLS_MAX: u64 = 600;

/// Polls the tasks in an order that the seed draws, until all are done.
fn interleave(case: &Case, tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>, notes: &Notes) {
    let mut chance = Chance::new(case.plan.seed ^ 0x7461_736B);
    let mut context = Context::from_waker(Waker::noop());
    let mut running: Vec<_> = tasks.into_iter().map(|task| (task, 0)).collect();
    let mut polls = 0;
    while !running.is_empty() && !notes.failed() {
        polls += 1;
        if polls > case.polls_max {
            return notes.fail(format!("{} clients are stuck", running.len()));
        }
        let at = chance.below(running.len() as u64) as usize;
        let (task, stalled_until) = &mut running[at];
        if *stalled_until > polls {
            continue;
        }
        if task.as_mut().poll(&mut context).is_ready() {
            drop(running.swap_remove(at));
        } else if chance.once_in(case.stalled_once_in) {
            *stalled_until = polls + chance.below(STALL_POLLS_MAX);
        }
    }
}
