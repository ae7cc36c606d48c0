//! Sherman by seeds: several compute nodes on the loopback fabric, in one thread and an order that a seed draws,
//! every operation recorded and checked. The same seed is the same run.
//!
//! Transfers are copied word by word, and between two words anybody may run, or be kept from running for long. So
//! torn reads, lost races and stale caches are not rare here: they are most of what happens.

use crate::sherman::{GROWING, MIXED, Mix, Span, Wish, Wishes, bounds, perform, scan, variant};
use farwood_fabric::{Client, Costs, PoolShape};
use farwood_index::IndexError;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Config, Sherman};
use farwood_testkit::Harness;
use farwood_testkit::harness::Chance;
use farwood_testkit::history::{Action, Answer, Bytes, Direction, History, Operation, Scan};
use farwood_testkit::loopback::{Copying, EVERYTHING, Faults, Loopback, LoopbackFabric, SMALL, Settings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

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
    /// Seed of everything.
    pub seed: u64,
    /// The tree.
    pub config: Config,
    /// The fabric.
    pub settings: Settings,
    /// Compute nodes.
    pub compute_nodes: usize,
    /// Clients of all compute nodes together.
    pub clients: usize,
    /// Keys of the run.
    pub keys: u64,
    /// Operations of each client.
    pub steps: u64,
    /// Of which kinds.
    pub mix: Mix,
    /// Bytes of each compute node's cache.
    pub cache_bytes: usize,
    /// One operation of this many is dropped half-way.
    pub dropped_once_in: Option<u64>,
    /// One poll of this many keeps its client from running for a while.
    pub stalled_once_in: u64,
    /// Polls after which the run counts as stuck.
    pub polls_max: u64,
}

/// Sizes that make small nodes, and so high trees, in different ways.
const SIZES: [Sizes; 4] = [
    Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 },
    Sizes { key_bytes: 24, value_bytes: 8, node_bytes: 256 },
    Sizes { key_bytes: 13, value_bytes: 21, node_bytes: 256 },
    Sizes { key_bytes: 8, value_bytes: 0, node_bytes: 256 },
];

/// Sizes of device memory: many locks, and so few that nodes share them.
const DEVICE_BYTES: [u64; 3] = [4 << 10, 256, 64];

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
        case.config.sizes = SIZES[1];
        (case.keys, case.steps, case.mix) = (40, 8, Mix { gets: 0, scans: 2, removals: 0 });
        case.stalled_once_in = 40;
        case
    }

    /// The run of a seed in which operations are dropped half-way: on fabrics whose atomics cannot be dropped before
    /// they are answered (decision 6 says why).
    pub fn with_drops(seed: u64) -> Self {
        let fabric = if seed.is_multiple_of(2) { Fabric::SharedMemory } else { Fabric::Overtaking };
        let mut case = Self::on(seed, fabric);
        case.config.options = variant(seed / 2).options();
        case.settings.faults.atomics_at_once = true;
        case.dropped_once_in = Some(10);
        case
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
        Self {
            seed,
            config,
            settings,
            compute_nodes: 3,
            clients: 6 + chance.below(3) as usize,
            keys: [12, 40, 90, 240][chance.below(4) as usize],
            steps: 60,
            mix: [MIXED, GROWING][chance.below(2) as usize],
            cache_bytes: [0, 1 << 10, 1 << 20][chance.below(3) as usize],
            dropped_once_in: None,
            stalled_once_in: 150,
            polls_max: 50_000_000,
        }
    }
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

/// What a run met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Costs of all operations.
    pub costs: Costs,
    /// Operations that were answered.
    pub operations: u64,
    /// Operations that were dropped.
    pub dropped: u64,
    /// Held locks that were dropped with them.
    pub locks_dropped: u64,
    /// Runs by the levels of the tree at the end.
    pub levels: [u64; 8],
    /// Nodes at the end that no parent names.
    pub half_linked: u64,
    /// Runs.
    pub runs: u64,
}

impl Coverage {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.costs += other.costs;
        self.operations += other.operations;
        self.dropped += other.dropped;
        self.locks_dropped += other.locks_dropped;
        for (mine, other) in self.levels.iter_mut().zip(other.levels) {
            *mine += other;
        }
        self.half_linked += other.half_linked;
        self.runs += other.runs;
    }
}

/// What all clients of a run write down.
struct Notes {
    now: Cell<u64>,
    history: RefCell<History>,
    coverage: RefCell<Coverage>,
    failure: RefCell<Option<String>>,
}

impl Notes {
    fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }

    fn call(&self, client: u64, key: &[u8], action: &Action) -> usize {
        let call = self.tick();
        let mut history = self.history.borrow_mut();
        let (key, action) = (key.to_vec(), action.clone());
        history.operations.push(Operation { client, key, action, call, answer: None });
        history.operations.len() - 1
    }

    fn answer(&self, number: usize, answer: Answer) {
        let end = self.tick();
        self.history.borrow_mut().operations[number].answer = Some((end, answer));
        self.coverage.borrow_mut().operations += 1;
    }

    fn scanned(&self, client: u64, call: u64, span: &Span, entries: Vec<(Bytes, Bytes)>) {
        let (end, (from, to)) = (self.tick(), bounds(span));
        let (direction, limit) = (span.direction, span.limit);
        self.history.borrow_mut().scans.push(Scan { client, call, end, direction, from, to, limit, entries });
        self.coverage.borrow_mut().operations += 1;
    }
}

/// Runs a case; a panic is a failure like any other.
///
/// # Errors
/// What went wrong.
pub fn outcome(case: &Case) -> Result<Coverage, String> {
    catch_unwind(AssertUnwindSafe(|| run(case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

type Node = (Sherman, Client<LoopbackFabric>);

/// Runs a case and checks everything.
///
/// # Errors
/// What went wrong. Panics of the index come through.
pub fn run(case: &Case) -> Result<Coverage, String> {
    let loopback = Loopback::new(case.settings);
    let nodes = open(case, &loopback).map_err(|error| format!("opening: {error}"))?;
    let notes = Notes {
        now: Cell::new(0),
        history: RefCell::default(),
        coverage: RefCell::default(),
        failure: RefCell::default(),
    };
    let keys = keys(case);
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
    if let Some(failure) = notes.failure.take() {
        return Err(failure);
    }
    loopback.finish();
    loopback.block_on(settle(case, &nodes, &keys, &notes)).map_err(|error| format!("at the end: {error}"))?;
    let mut coverage = notes.coverage.into_inner();
    coverage.runs = 1;
    match notes.failure.take() {
        Some(failure) => Err(failure),
        None => judge(&notes.history.into_inner()).map(|()| coverage),
    }
}

fn open(case: &Case, loopback: &Loopback) -> Result<Vec<Node>, IndexError> {
    let mut nodes = Vec::new();
    for number in 0..case.compute_nodes {
        let client = loopback.stranger();
        let tree = loopback.block_on(async {
            match number {
                0 => Sherman::create(&client, "seeds", case.config, case.cache_bytes).await,
                _ => Sherman::open(&client, "seeds", case.cache_bytes).await,
            }
        })?;
        nodes.push((tree, client));
    }
    Ok(nodes)
}

/// The keys of a run: the least and the greatest key, and numbers that differ in all bytes or in the last.
fn keys(case: &Case) -> Vec<Bytes> {
    let bytes = case.config.sizes.key_bytes;
    let mut keys = vec![vec![0; bytes], vec![u8::MAX; bytes]];
    let mut chance = Chance::new(case.seed ^ 0x6B65_7973);
    while keys.len() < case.keys as usize {
        let number = keys.len() as u64;
        let mut key = vec![7; bytes];
        match chance.below(2) {
            0 => key.fill_with(|| chance.next_u64() as u8),
            _ => key[bytes - 8..].copy_from_slice(&number.to_be_bytes()),
        }
        keys.push(key);
    }
    // The first few are wished for most often: neighbours, somewhere.
    keys.sort();
    keys.rotate_left(chance.below(case.keys) as usize);
    keys
}

async fn one_client(
    case: &Case,
    me: u64,
    tree: &Sherman,
    client: &Client<LoopbackFabric>,
    keys: &[Bytes],
    notes: &Notes,
) {
    let value_bytes = case.config.sizes.value_bytes;
    let mut wishes = Wishes::new(keys, value_bytes, case.mix, me + 1, case.seed);
    for _ in 0..case.steps {
        let Some(wish) = wishes.next() else { break };
        let polls = case.dropped_once_in.filter(|&once_in| wishes.chance().once_in(once_in));
        let polls = polls.map(|_| wishes.chance().below(60));
        let done = fulfil(me, tree, client, wish, notes);
        match at_most(polls, done).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return notes.fail(format!("client {me}: {error}")),
            None => notes.coverage.borrow_mut().dropped += 1,
        }
    }
}

async fn fulfil(
    me: u64,
    tree: &Sherman,
    client: &Client<LoopbackFabric>,
    wish: Wish,
    notes: &Notes,
) -> Result<(), IndexError> {
    match wish {
        Wish::One(key, action) => {
            let number = notes.call(me, &key, &action);
            notes.answer(number, perform(tree, client, &key, &action).await?);
        }
        Wish::Scan(span) => {
            let call = notes.tick();
            notes.scanned(me, call, &span, scan(tree, client, &span).await?);
        }
        Wish::Count => {
            tree.count(client).await?;
            notes.coverage.borrow_mut().operations += 1;
        }
    }
    Ok(())
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
    let mut chance = Chance::new(case.seed ^ 0x7461_736B);
    let mut context = Context::from_waker(Waker::noop());
    let mut running: Vec<_> = tasks.into_iter().map(|task| (task, 0)).collect();
    let mut polls = 0;
    while !running.is_empty() && notes.failure.borrow().is_none() {
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

/// Looks at everything from every compute node when nobody else runs.
async fn settle(case: &Case, nodes: &[Node], keys: &[Bytes], notes: &Notes) -> Result<(), IndexError> {
    let mut present = 0;
    for (me, (tree, client)) in (1_000..).zip(nodes) {
        present = 0;
        for key in keys {
            let number = notes.call(me, key, &Action::Get);
            let found = perform(tree, client, key, &Action::Get).await?;
            present += u64::from(matches!(found, Answer::Found(Some(_))));
            notes.answer(number, found);
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (call, span) = (notes.tick(), Span::all(direction));
            let entries = scan(tree, client, &span).await?;
            if entries.len() as u64 != present {
                notes.fail(format!("a scan shows {} keys of {present}", entries.len()));
            }
            notes.scanned(me, call, &span, entries);
        }
        let count = tree.count(client).await?;
        if count != present {
            notes.fail(format!("{count} are counted, {present} are there"));
        }
        let dropped = tree.locks_dropped();
        notes.coverage.borrow_mut().locks_dropped += dropped;
        if case.dropped_once_in.is_none() && dropped > 0 {
            notes.fail(format!("{dropped} locks were dropped"));
        }
    }
    let (tree, client) = &nodes[0];
    let walk = tree.walk(client).await?;
    let mut coverage = notes.coverage.borrow_mut();
    coverage.levels[walk.nodes.len()] += 1;
    coverage.half_linked += walk.half_linked;
    if let Some(problem) = walk.problems.first() {
        notes.fail(format!("the walk finds {} problems: {problem}", walk.problems.len()));
    }
    if walk.entries != present {
        notes.fail(format!("the walk finds {} keys, {present} are there", walk.entries));
    }
    if case.dropped_once_in.is_none() && walk.half_linked > 0 {
        notes.fail(format!("{} nodes are half-linked", walk.half_linked));
    }
    Ok(())
}

/// Time in which a key must be decided.
const PATIENCE: Duration = Duration::from_secs(20);

fn judge(history: &History) -> Result<(), String> {
    let verdict = history.check(PATIENCE);
    let wrong: BTreeMap<_, _> = verdict.violations.iter().map(|wrong| (&wrong.key, wrong)).collect();
    if let Some(first) = wrong.values().next() {
        return Err(format!("{} keys are wrong: {first}", wrong.len()));
    }
    match verdict.undecided.first() {
        Some(key) => Err(format!("key {key:02x?} is undecided")),
        None => Ok(()),
    }
}
