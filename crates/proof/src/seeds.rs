//! Trees by seeds: clients of several compute nodes in one thread and an order that a seed draws, every operation
//! recorded and checked. The same seed is the same run.
//!
//! [`loopback`] draws the order word by word; [`laboratory`] has a network, virtual time and faults. What is asked of
//! the tree, what is written down, and what must hold when all is over, is the same for both, and is here.

pub mod canary;
pub mod laboratory;
pub mod loopback;
pub mod many;
pub mod spatial;

use crate::sherman::{Lengths, Mix, Span, Wish, Wishes, bounds, perform, scan};
use crate::tree::{Tree as _, snapshot_span};
use farwood_fabric::{Client, Costs, Fabric};
use farwood_index::IndexError;
use farwood_index::ordered::{self, Ordered, Walk};
use farwood_index::sherman::Config;
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::{smart, sphinx};
use farwood_testkit::harness::Chance;
use farwood_testkit::history::{Action, Answer, Bytes, Direction, History, Operation, Scan};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What a run asks of its tree.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of everything.
    pub seed: u64,
    /// A Sherman tree; of another, its sizes count.
    pub config: Config,
    /// A SMART tree, instead.
    pub smart: Option<smart::Config>,
    /// A Sphinx tree, instead.
    pub sphinx: Option<sphinx::Config>,
    /// Keys of the run.
    pub keys: u64,
    /// Kinds of operations.
    pub mix: Mix,
    /// Bytes of each compute node's cache.
    pub cache_bytes: usize,
    /// Whether scans with a limit are of one moment.
    pub snapshots: bool,
}

/// Sizes that make small nodes, and so high trees, in different ways.
pub(crate) const SIZES: [Sizes; 4] = [
    Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 },
    Sizes { key_bytes: 24, value_bytes: 8, node_bytes: 256 },
    Sizes { key_bytes: 13, value_bytes: 21, node_bytes: 256 },
    Sizes { key_bytes: 8, value_bytes: 0, node_bytes: 256 },
];

/// Sizes of device memory: many locks, and so few that nodes share them.
pub(crate) const DEVICE_BYTES: [u64; 3] = [4 << 10, 256, 64];

impl Plan {
    /// Lets values have any length.
    pub(crate) fn take_any_length(&mut self) {
        self.config.values = Values::AnyLength;
        (self.config.sizes.value_bytes, self.config.sizes.node_bytes) = (16, 320);
    }

    /// What the tree is created as.
    pub(crate) fn tree(&self) -> ordered::Config {
        match (self.smart, self.sphinx) {
            (Some(config), _) => ordered::Config::Smart(config),
            (None, Some(config)) => ordered::Config::Sphinx(config),
            (None, None) => ordered::Config::Sherman(self.config),
        }
    }

    /// Whether it is a radix tree.
    pub(crate) fn is_radix(&self) -> bool {
        self.smart.is_some() || self.sphinx.is_some()
    }

    /// The wishes of client number `client`.
    pub(crate) fn wishes<'k>(&self, keys: &'k [Bytes], client: u64) -> Wishes<'k> {
        let lengths = if self.is_radix() {
            Lengths::UpTo { bytes: self.config.sizes.value_bytes, times: 5 }
        } else {
            Lengths::of(&self.config)
        };
        let mut wishes = Wishes::new(keys, lengths, self.mix, client, self.seed);
        if self.snapshots {
            wishes.ask_for_snapshots();
        }
        wishes
    }

    /// Keys of many lengths: each begins with one that is there, or with nothing, and goes on with few bytes out of
    /// few, of all, or of one that is repeated.
    fn draw_paths(&self) -> Vec<Bytes> {
        let mut chance = Chance::new(self.seed ^ 0x7061_7468);
        let mut keys = vec![Bytes::new()];
        while keys.len() < self.keys as usize {
            let mut key = keys[chance.below(keys.len() as u64) as usize].clone();
            key.truncate(chance.below(key.len() as u64 + 1) as usize);
            let more = chance.below(4);
            match chance.below(4) {
                0 => key.extend((0..more).map(|_| chance.next_u64() as u8)),
                1 => key.extend(std::iter::repeat_n(7, more as usize * 17)),
                _ => key.extend((0..=more).map(|_| [0, 1, 255][chance.below(3) as usize])),
            }
            if key.len() <= 300 && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort();
        keys.rotate_left(chance.below(self.keys) as usize);
        keys
    }

    /// The keys of the run: the least and the greatest key, and numbers that differ in all bytes or in the last.
    pub(crate) fn draw_keys(&self) -> Vec<Bytes> {
        if self.is_radix() {
            return self.draw_paths();
        }
        let bytes = self.config.sizes.key_bytes;
        let mut keys = vec![vec![0; bytes], vec![u8::MAX; bytes]];
        let mut chance = Chance::new(self.seed ^ 0x6B65_7973);
        while keys.len() < self.keys as usize {
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
        keys.rotate_left(chance.below(self.keys) as usize);
        keys
    }
}

/// What runs met.
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
#[derive(Default)]
pub(crate) struct Notes {
    now: Cell<u64>,
    pub(crate) history: RefCell<History>,
    pub(crate) coverage: RefCell<Coverage>,
    failure: RefCell<Option<String>>,
}

impl Notes {
    /// The time: what happens in one thread has one order.
    pub(crate) fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    /// Notes what went wrong, if nothing has before.
    pub(crate) fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }

    /// Whether anything went wrong.
    pub(crate) fn failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// # Errors
    /// What went wrong first.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn call(&self, client: u64, key: &[u8], action: &Action) -> usize {
        let call = self.tick();
        let mut history = self.history.borrow_mut();
        let (key, action) = (key.to_vec(), action.clone());
        history.operations.push(Operation { client, key, action, call, answer: None });
        history.operations.len() - 1
    }

    /// The last operation of client `me` on `key` surely had no effect: it is as if it had looked, and not been told.
    pub(crate) fn forget_last(&self, me: u64, key: &[u8]) {
        let mut history = self.history.borrow_mut();
        let mut last = history.operations.iter_mut().rev();
        if let Some(last) = last.find(|operation| operation.client == me && operation.key == key) {
            last.action = Action::Get;
        }
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

/// Runs something of which a panic is a failure like any other.
///
/// # Errors
/// What went wrong.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Fulfils a wish of client `me`, and writes down what was asked and answered. What fails stays without an answer.
pub(crate) async fn fulfil<F: Fabric>(
    me: u64,
    tree: &Ordered,
    client: &Client<F>,
    wish: &Wish,
    notes: &Notes,
) -> Result<(), IndexError> {
    match wish {
        Wish::One(key, action) => {
            let number = notes.call(me, key, action);
            notes.answer(number, perform(tree, client, key, action).await?);
        }
        Wish::Scan(span) => {
            let call = notes.tick();
            notes.scanned(me, call, span, scan(tree, client, span).await?);
        }
        Wish::Snapshot(span) => {
            let call = notes.tick();
            notes.scanned(me, call, span, snapshot_span(tree, client, span).await?);
        }
        Wish::Count => {
            tree.count_all(client).await?;
            notes.coverage.borrow_mut().operations += 1;
        }
        Wish::Leave => tree.leave_all(client).await?,
    }
    Ok(())
}

/// Looks at everything from every compute node when nobody else runs, and walks the tree.
pub(crate) async fn settle<F: Fabric>(
    nodes: &[(&Ordered, &Client<F>)],
    keys: &[Bytes],
    notes: &Notes,
) -> Result<Walk, IndexError> {
    let mut present = 0;
    for (me, &(tree, client)) in (1_000..).zip(nodes) {
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
        let count = tree.count_all(client).await?;
        if count != present {
            notes.fail(format!("{count} are counted, {present} are there"));
        }
        notes.coverage.borrow_mut().locks_dropped += tree.locks_dropped();
    }
    let (tree, client) = nodes[0];
    let walk = tree.walk(client).await?;
    let mut coverage = notes.coverage.borrow_mut();
    let levels = walk.levels().min(coverage.levels.len() - 1);
    coverage.levels[levels] += 1;
    coverage.half_linked += walk.half_done();
    if let Some(problem) = walk.problems().first() {
        notes.fail(format!("the walk finds {} problems: {problem}", walk.problems().len()));
    }
    if walk.entries() != present {
        notes.fail(format!("the walk finds {} keys, {present} are there", walk.entries()));
    }
    Ok(walk)
}

/// What a client marks that leaves a node closed: its parent was taken, or is another by now.
const LEFT_CLOSED: &str = "radix: a node left closed";

/// Whether nothing is left half-way but what who lives may leave: nodes that were closed, as often as was marked.
fn left_by_the_living(walk: &smart::Walk, marked: u64) -> Result<(), String> {
    if walk.unsettled > walk.closed || walk.closed > marked {
        return Err(format!(
            "{} slots or entries are unsettled, {} closed nodes among them; nothing was cut off, {marked} left closed",
            walk.unsettled, walk.closed
        ));
    }
    Ok(())
}

/// Time in which a key must be decided.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether some order explains every answer.
pub(crate) fn judge(history: &History) -> Result<(), String> {
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
