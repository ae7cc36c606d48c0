//! Runs in the laboratory: a network in virtual time, with faults.
//!
//! A *counted* seed has at least 3 compute nodes, 8 clients, 1,000 answered operations on few keys, and 3 faults that
//! happened. [`Case::of`] draws one, [`Case::calm`] the same without faults.
//!
//! # What a fault excuses
//!
//! An operation that ends with an error is right only in these cases:
//!
//! - `NodeLost`: the memory node was down, or cut off from this client's compute node, in one outage of more than the
//!   card's retries ([`RETRY_NS`]), and while the operation ran, or so shortly before that it still waited for the
//!   retries; time in which its compute node was frozen does not count, for a detached post's loss shows at the next;
//! - `LockHeld`: a compute node was frozen for about the index's patience of 20 s while the operation ran;
//! - `Revoked`: the compute node was frozen for longer than the lease, where there is one;
//! - `PoolFull`, `Damaged`, `Exhausted` and others: never. Pools are large enough, and a WRITE lands whole.
//!
//! An operation that lost its node may have taken effect, or may yet; so may one whose compute node crashed. One that
//! gave up waiting for a lock has not. Locks and nodes may be left behind by compute nodes that crashed: each of their
//! clients may leave one lock, which survivors take when they need it, one node that no parent names, one node
//! that nothing links, and one merge that was cut off. So may each operation that lost its node, but for the lock.

mod faults;

use super::loopback::{filter_bytes, smart_config, sphinx_config};
use super::{
    Coverage, DEVICE_BYTES, LEFT_CLOSED, Notes, Plan, SIZES, caught, fulfil, judge, left_by_the_living,
    settle,
};
use crate::sherman::{CHURNING, GROWING, MIXED, Wish, variant};
use farwood_fabric::chunks::{self, InUse};
use farwood_fabric::{Client, Costs, Fabric as _, FabricError, LockWord, NodeId, Words, read_bytes};
use farwood_index::IndexError;
use farwood_index::consistency::Consistency;
use farwood_index::lock::{LocalLocks, LockWidth};
use farwood_index::ordered::{Ordered, Walk};
use farwood_index::radix::inner::Size;
use farwood_index::sabotage::Sabotage;
use farwood_index::sherman::layout::{Layout, Values};
use farwood_index::sherman::node::Node;
use farwood_index::sherman::options::LockRead;
use farwood_index::sherman::{self, Config};
use farwood_index::sphinx::table::layout::subtable_bytes;
use farwood_index::{smart, sphinx};
use farwood_sim::fault::{Fault, Happened, Met, RETRY_NS, Rule, When};
use farwood_sim::{Card, Counts, Ended, SimFabric, Trace, World, WorldSpec, at_once};
use farwood_testkit::harness::Chance;
use farwood_testkit::history::{Action, Bytes};
use std::cell::Cell;
use std::collections::BTreeMap;

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is asked of the tree.
    pub plan: Plan,
    /// The world, with its faults.
    pub spec: WorldSpec,
    /// Clients of all compute nodes together.
    pub clients: usize,
    /// Operations that are answered before the clients stop.
    pub operations: u64,
    /// Virtual time after which the run is stuck, nanoseconds.
    pub nanoseconds_max: u64,
    /// How the tree is broken on purpose.
    pub sabotage: Option<Sabotage>,
    /// For how long a rival takes every lock before its taker does, once, nanoseconds; `None`: there is no rival.
    pub outrun: Option<u64>,
}

/// Operations of a counted seed.
pub const OPERATIONS: u64 = 1_000;
/// Faults of a counted seed.
pub const FAULTS: u64 = 3;
/// Virtual time after which a run is stuck, nanoseconds: several times the patience for a lock.
const TIME_MAX: u64 = 400_000_000_000;
/// Longer than any outage lasts that is drawn, nanoseconds.
const QUIET: u64 = 40_000_000;
/// How long a lock is waited for, nanoseconds, within a hundredth.
const LOCK_PATIENCE: u64 = 19_800_000_000;
/// For how long a frozen compute node is left alone where it may be taken for dead, nanoseconds.
const LEASE: u64 = 2_500_000;
/// Compute node 0 neither crashes nor freezes for long: what it sends is what the other faults wait for.
const CLOCK: usize = 0;

impl Case {
    /// The run of a seed without faults.
    pub fn calm(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut options = variant(seed).options();
        if chance.once_in(6) {
            options.lock.width = LockWidth::Packed;
        }
        if chance.once_in(4) {
            options.lock_read = LockRead::Together;
        }
        let sizes = SIZES[chance.below(SIZES.len() as u64) as usize];
        let consistency = chance.once_in(4).then_some(Consistency::Checksum);
        let compute_nodes = 3 + chance.below(3) as usize;
        let plan = Plan {
            seed,
            config: Config { sizes, options, consistency, ..Config::default() },
            smart: None,
            sphinx: None,
            keys: [12, 40, 90, 240][chance.below(4) as usize],
            mix: [MIXED, GROWING, CHURNING, CHURNING][chance.below(4) as usize],
            cache_bytes: [0, 1 << 10, 1 << 20][chance.below(3) as usize],
            snapshots: false,
        };
        let names = Card::names();
        // The tests of the cards are about their numbers: mostly it is the papers' own.
        let card =
            if chance.once_in(2) { "cx5-100g" } else { names[chance.below(names.len() as u64) as usize] };
        let mut card = Card::named(card).expect("it is one of the named");
        // Where PCIe is slow, transfers last, and meet each other.
        card.pcie.bytes_per_ns = [card.pcie.bytes_per_ns, 0.5, 0.2][chance.below(3) as usize];
        let spec = WorldSpec {
            memory_nodes: 1 + chance.below(3) as u16,
            compute_nodes,
            threads: 1 + chance.below(2) as usize,
            device_bytes: Some(DEVICE_BYTES[chance.below(3) as usize]),
            colocate: chance.once_in(4),
            stretch: [1, 2, 8][chance.below(3) as usize],
            seed,
            ..WorldSpec::small(card)
        };
        Self {
            plan,
            spec,
            clients: compute_nodes.max(8) + chance.below(4) as usize,
            operations: OPERATIONS,
            nanoseconds_max: TIME_MAX,
            sabotage: None,
            outrun: None,
        }
    }

    /// The run of a seed with a SMART tree and without faults.
    pub fn calm_smart(seed: u64) -> Self {
        let mut case = Self::calm(seed);
        // What Sherman's locks cannot mend does not count here.
        case.plan.config.options = sherman::Variant::Sherman.options();
        case.plan.smart = Some(smart_config(seed));
        case
    }

    /// The run of a seed with a Sphinx tree and without faults.
    pub fn calm_sphinx(seed: u64) -> Self {
        let mut case = Self::calm(seed);
        case.plan.config.options = sherman::Variant::Sherman.options();
        case.plan.sphinx = Some(sphinx_config(seed));
        case.plan.cache_bytes = filter_bytes(seed);
        case
    }

    /// The run of a counted seed with a Sphinx tree. Of eight, one has tables that soon cannot grow, and two have
    /// clients that are late where tables are split.
    pub fn of_sphinx(seed: u64) -> Self {
        let calm = Self::calm_sphinx(seed);
        match seed % 8 {
            3 => Self { sabotage: Some(Sabotage::TablesShallow), ..Self::with_faults(calm) },
            2 | 6 => Self::with_faults(calm.with_a_growing_table()).with_late_entries(),
            _ => Self::with_faults(calm),
        }
    }

    /// The same with many keys and one table of small parts.
    fn with_a_growing_table(mut self) -> Self {
        let groups = sphinx::Groups::new(0).expect("it is one");
        let options = sphinx::Options { groups, ..sphinx::Variant::Filter.options() };
        self.plan.sphinx = Some(sphinx::Config { options, ..sphinx::Config::default() });
        (self.plan.keys, self.plan.mix, self.spec.memory_nodes) = (240, CHURNING, 1);
        self
    }

    /// The same where every compute node is late when it first changes an entry where a split is near, and when it
    /// first splits.
    fn with_late_entries(mut self) -> Self {
        let mut chance = Chance::new(self.plan.seed ^ 0x6C61_7465);
        for compute_node in 0..self.spec.compute_nodes {
            for mark in LATE {
                let when = When::Mark { compute_node, mark, number: 1 };
                let nanoseconds = 1_000 + chance.below(60_000);
                self.spec.rules.push(Rule { when, fault: Fault::Delay { nanoseconds } });
            }
        }
        self
    }

    /// The run of a counted seed with a SMART tree.
    pub fn of_smart(seed: u64) -> Self {
        Self::with_faults(Self::calm_smart(seed))
    }

    /// The run of a counted seed.
    pub fn of(seed: u64) -> Self {
        Self::with_faults(Self::calm(seed))
    }

    fn with_faults(mut case: Self) -> Self {
        let rules = faults::drawn(&case);
        // A chunk whose taking was cut off is nobody's: each compute node may lose one so.
        if rules.iter().any(|rule| matches!(rule.fault, Fault::Down { .. } | Fault::Partition { .. })) {
            case.spec.host_bytes *= 2;
        }
        case.spec.rules = rules;
        case
    }

    /// The run of a seed of a swarm: every fourth has values of any length, another a lease, every other scans of
    /// one moment.
    pub fn swarmed(seed: u64) -> Self {
        let mut case = Self::of(seed);
        case.plan.snapshots = seed % 2 == 1;
        match seed % 4 {
            2 => case.with_lease(),
            3 => case.with_any_length(),
            _ => case,
        }
    }

    /// The same, but who is frozen for longer than a lease may be taken for dead, and wakes up all the same.
    #[must_use]
    pub fn with_lease(mut self) -> Self {
        self.spec.lease_ns = Some(LEASE);
        let crashes = |rule: &Rule| match rule.fault {
            Fault::Crash { compute_node, .. } => Some(compute_node),
            _ => None,
        };
        let mut gone: Vec<usize> = self.spec.rules.iter().filter_map(crashes).collect();
        let (tell, nodes) = (self.locks_tell(), self.spec.compute_nodes);
        for rule in &mut self.spec.rules {
            let Fault::Freeze { compute_node, nanoseconds } = &mut rule.fault else { continue };
            let may_go =
                tell && *compute_node != CLOCK && (gone.contains(compute_node) || nodes - gone.len() > 2);
            if *nanoseconds >= LEASE && may_go {
                gone.push(*compute_node);
                gone.sort_unstable();
                gone.dedup();
            } else {
                *nanoseconds = (*nanoseconds).min(LEASE - 1);
            }
        }
        self
    }

    /// The same, with values of any length.
    #[must_use]
    pub fn with_any_length(mut self) -> Self {
        self.plan.take_any_length();
        // Every compute node has a chunk, and whoever gives back the one that it has may take another meanwhile.
        self.spec.host_bytes *= 2;
        self
    }

    /// Whether everything that a lost node or a dead client may leave behind can be mended: locks name their holders.
    fn locks_tell(&self) -> bool {
        self.plan.config.options.lock.width == LockWidth::Word
    }

    /// Whether a lock whose release got lost is known to be one's own.
    fn locks_are_certain(&self) -> bool {
        self.locks_tell() && self.plan.config.options.lock.local != LocalLocks::None
    }
}

/// Where who is late meets a split of a hash table.
const LATE: [&str; 3] = [
    "sphinx: an entry about to be entered where there is little room",
    "sphinx: an entry about to change where there is little room",
    "sphinx: entries in both halves",
];

/// What a run met, and what it wrote down.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Operations and their costs.
    pub coverage: Coverage,
    /// Faults.
    pub met: Met,
    /// Verbs.
    pub counts: Counts,
    /// Marks passed.
    pub marks: BTreeMap<&'static str, u64>,
    /// Operations that failed, and were right to.
    pub excused: u64,
    /// Runs that were counted seeds.
    pub counted: u64,
    /// Virtual nanoseconds.
    pub nanoseconds: u64,
    /// Where versions begin high: nodes, and entries of leaves, whose version at the end is a small one.
    pub young: [u64; 2],
}

impl Report {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.coverage.add(&other.coverage);
        self.met += other.met;
        self.counts += other.counts;
        for (mark, times) in &other.marks {
            *self.marks.entry(mark).or_default() += times;
        }
        self.excused += other.excused;
        self.counted += other.counted;
        self.nanoseconds += other.nanoseconds;
        self.young[0] += other.young[0];
        self.young[1] += other.young[1];
    }
}

/// A run: what came of it, and its trace.
#[derive(Debug)]
pub struct Run {
    /// What it met, or what went wrong.
    pub outcome: Result<Report, String>,
    /// What was written down of it.
    pub trace: Trace,
}

/// Runs a case and checks everything; a panic is a failure like any other.
pub fn run(case: &Case) -> Run {
    let world = match World::new(case.spec.clone()) {
        Ok(world) => world,
        Err(error) => return Run { outcome: Err(error.to_string()), trace: Trace::default() },
    };
    let outcome = caught(|| run_in(case, &world));
    Run { outcome, trace: world.trace() }
}

/// As [`run`], for whoever wants no trace.
///
/// # Errors
/// What went wrong.
pub fn outcome(case: &Case) -> Result<Report, String> {
    run(case).outcome
}

/// A compute node's tree.
type Trees = Vec<Ordered>;

/// A run under way.
struct Running<'r> {
    case: &'r Case,
    world: &'r World,
    notes: &'r Notes,
    /// Operations that failed, and were right to.
    excused: Cell<u64>,
}

fn run_in(case: &Case, world: &World) -> Result<Report, String> {
    let notes = Notes::default();
    let trees = open(case, world).map_err(|error| format!("opening: {error}"))?;
    let keys = case.plan.draw_keys();
    let clients: Vec<_> = (0..case.clients).map(|me| world.client(me % trees.len())).collect();
    let running = Running { case, world, notes: &notes, excused: Cell::new(0) };
    if let Some(nanoseconds) = case.outrun {
        // It lives, and does nothing else.
        let rival = world.client(world.add_compute_node());
        world.outrun_all(LockWord::held_by(rival.fabric().identity()).word(), nanoseconds);
    }
    let mut crew = world.crew();
    for (me, client) in (0..).zip(&clients) {
        let tree = &trees[me as usize % trees.len()];
        crew.spawn(client, running.one_client(me, tree, client, &keys));
    }
    let ended = crew.run_until(case.nanoseconds_max);
    drop(crew);
    notes.verdict()?;
    if ended != Ended::Done {
        return Err(format!("the run does not come to its end: {ended:?} at {} ns", world.now()));
    }
    let mut report = running.report(&clients);
    let survivors: Vec<usize> = (0..trees.len()).filter(|&node| !world.gone(node)).collect();
    let lookers: Vec<_> = survivors.iter().map(|&node| world.client(node)).collect();
    let looking: Vec<_> =
        survivors.iter().zip(&lookers).map(|(&node, client)| (&trees[node], client)).collect();
    let walk = world
        .block_on(running.afterwards(&looking, &keys))
        .map_err(|error| format!("at the end: {error}"))?;
    notes.verdict()?;
    let rest = notes.coverage.take();
    report.coverage.levels = rest.levels;
    report.coverage.half_linked = rest.half_linked;
    report.coverage.locks_dropped = rest.locks_dropped;
    running.check_rest(&trees, &walk, &report)?;
    if case.sabotage == Some(Sabotage::VersionsHigh)
        && let Ordered::Sherman(tree) = &trees[0]
    {
        report.young = young(world, tree.layout()).map_err(|error| format!("at the end: {error}"))?;
    }
    running.check_ledgers(&clients)?;
    running.check_ledgers(&lookers)?;
    judge(&notes.history.take())?;
    Ok(report)
}

/// Versions up to here are small.
const YOUNG: u32 = 1 << 16;

/// Nodes of a tree, and entries of its leaves, that have been written and whose version is small.
fn young(world: &World, layout: &Layout) -> Result<[u64; 2], FabricError> {
    let client = world.at_once(0);
    let mut young = [0; 2];
    for node in 0..world.spec().memory_nodes {
        for InUse { chunk, .. } in at_once(chunks::in_use(&client, NodeId(node)))? {
            let copy = at_once(
                client.post(read_bytes(chunk.start().part::<Words>(0), chunks::CHUNK_BYTES as usize)),
            )?;
            let Ok(bytes) = copy.check(&()) else { unreachable!("bytes are bytes") };
            for room in bytes.chunks_exact(layout.room_bytes) {
                let Ok(node) = Node::decode(layout, &room[..layout.node_bytes]) else { continue };
                young[0] += u64::from((1..YOUNG).contains(&node.version()));
                let entries = if node.level() == 0 { 0..layout.leaf_capacity } else { 0..0 };
                let version =
                    |slot| u32::from_le_bytes(room[layout.entry(slot)][..4].try_into().expect("four"));
                young[1] += entries.filter(|&slot| (2..YOUNG).contains(&version(slot))).count() as u64;
            }
        }
    }
    Ok(young)
}

fn open(case: &Case, world: &World) -> Result<Trees, IndexError> {
    (0..case.spec.compute_nodes)
        .map(|node| {
            let (client, plan) = (world.at_once(node), &case.plan);
            let opened = at_once(async {
                match node {
                    0 => Ordered::create(&client, "seeds", plan.tree(), plan.cache_bytes).await,
                    _ => Ordered::open(&client, "seeds", plan.cache_bytes).await,
                }
            });
            let mut tree = opened?;
            if let Some(sabotage) = case.sabotage {
                tree.sabotage(sabotage);
            }
            Ok(tree)
        })
        .collect()
}

impl Running<'_> {
    async fn one_client(&self, me: u64, tree: &Ordered, client: &Client<SimFabric>, keys: &[Bytes]) {
        let mut wishes = self.case.plan.wishes(keys, me + 1);
        // Whoever has left a lock when a memory node was lost goes on until it is given back.
        let goes_on =
            || self.notes.coverage.borrow().operations < self.case.operations || tree.locks_in_doubt() > 0;
        while !self.notes.failed() && goes_on() {
            let Some(wish) = wishes.next() else { break };
            let begun = client.fabric().now();
            if let Err(error) = fulfil(me, tree, client, &wish, self.notes).await {
                let node = me as usize % self.case.spec.compute_nodes;
                self.judge_error(me, node, (begun, client.fabric().now()), &error, &wish);
                if matches!(error, IndexError::Fabric(FabricError::Revoked(_))) {
                    break;
                }
            }
        }
    }

    /// Tells errors that faults excuse from bugs; the module's table is the rule.
    fn judge_error(&self, me: u64, compute_node: usize, span: (u64, u64), error: &IndexError, wish: &Wish) {
        let happened = self.world.happened();
        // What was lost before a freeze, or in it, is heard of behind it.
        let heard = happened.iter().fold(span.0, |begun, fault| thawed(fault, compute_node, begun));
        let excused = match error {
            IndexError::Fabric(FabricError::NodeLost { node, .. }) => {
                happened.iter().any(|fault| loses(fault, compute_node, *node, (heard, span.1)))
            }
            IndexError::LockHeld { .. } => {
                if let Wish::One(key, _) = wish {
                    self.notes.forget_last(me, key);
                }
                happened.iter().any(|fault| keeps_locks(fault, span))
            }
            // Its operation may have taken effect, as that of a client that crashed.
            IndexError::Fabric(FabricError::Revoked(_)) => self.world.gone(compute_node),
            _ => false,
        };
        if excused {
            self.excused.set(self.excused.get() + 1);
        } else {
            let (begun, ended) = span;
            self.notes
                .fail(format!("client {me}, from {begun} to {ended} ns: {error}; faults: {happened:?}"));
        }
    }

    /// When all is quiet, a survivor writes every key once more, taking every lock that the dead have left on its way,
    /// and all survivors look.
    async fn afterwards(
        &self,
        looking: &[(&Ordered, &Client<SimFabric>)],
        keys: &[Bytes],
    ) -> Result<Walk, IndexError> {
        self.world.end_rules();
        let (_, client) = looking[0];
        client.fabric().sleep(QUIET).await;
        let value = vec![0xEE; self.case.plan.config.sizes.value_bytes];
        for (tree, client) in looking {
            for key in keys {
                let wish = Wish::One(key.clone(), Action::Update(value.clone()));
                fulfil(2_000, tree, client, &wish, self.notes).await?;
            }
        }
        settle(looking, keys, self.notes).await
    }

    fn report(&self, clients: &[Client<SimFabric>]) -> Report {
        let mut coverage = self.notes.coverage.take();
        coverage.runs = 1;
        // Their ledgers stay theirs: they are compared with the device's counts.
        for client in clients {
            let mut costs = Costs::default();
            client.note(|ledger| costs = *ledger);
            coverage.costs += costs;
        }
        let met = self.world.met();
        let counted = coverage.operations >= OPERATIONS
            && met.faults() >= FAULTS
            && self.case.clients >= 8
            && self.case.spec.compute_nodes >= 3;
        Report {
            coverage,
            met,
            counts: self.world.counts(),
            marks: self.world.marks(),
            excused: self.excused.get(),
            counted: u64::from(counted),
            nanoseconds: self.world.now(),
            young: [0; 2],
        }
    }

    /// What is left behind is what faults may leave.
    fn check_rest(&self, trees: &[Ordered], walk: &Walk, report: &Report) -> Result<(), String> {
        let dead = (0..self.case.clients).filter(|me| self.world.gone(me % trees.len())).count() as u64;
        // An operation that has done what it was asked to, and only failed to tell a parent, fails nobody.
        let marked = |mark| report.marks.get(mark).copied().unwrap_or(0);
        let untold = marked("a parent that was not told")
            + marked("a merge that was cut off")
            + marked("radix: a replacement that was cut off")
            + marked("sphinx: a node that was not entered");
        let lost = dead + self.excused.get() + untold;
        if report.coverage.locks_dropped > 0 {
            return Err(format!("{} locks were dropped", report.coverage.locks_dropped));
        }
        match walk {
            Walk::Sherman(walk) => {
                // A node, the value that it had written, and the one that it replaced.
                let rooms = if self.case.plan.config.values == Values::AnyLength { 3 } else { 1 };
                sherman_rest(trees, walk, lost, rooms * lost)?;
            }
            Walk::Radix(walk) => {
                self.radix_rest(trees, walk, (lost, marked(LEFT_CLOSED)))?;
            }
        }
        let gone = self.chunks_gone().map_err(|error| format!("looking at the chunks: {error}"))?;
        if gone > lost {
            return Err(format!("{gone} chunks are nobody's, and {lost} operations were cut off"));
        }
        Ok(())
    }

    /// What of a radix tree is left behind is what faults may leave.
    fn radix_rest(
        &self,
        trees: &[Ordered],
        walk: &smart::Walk,
        (lost, closed): (u64, u64),
    ) -> Result<(), String> {
        // A table that could not be told of a node is out of date until somebody misses the entry.
        if lost == 0 {
            left_by_the_living(walk, closed)?;
        }
        let linked = (walk.node_bytes + walk.leaf_bytes + walk.value_bytes + walk.census.bytes).cast_signed();
        // The root, and the first subtables and directories, were allocated by whoever created the tree.
        let nodes = i64::from(self.case.spec.memory_nodes);
        let tables = self.case.plan.sphinx.filter(|_| walk.census.subtables > 0);
        let table =
            tables.map_or(0, |config| 8 + subtable_bytes(config.options.groups.log2()).cast_signed() as i64);
        let planted = Size::All.bytes().cast_signed() as i64 + nodes * table;
        let allocated = planted + trees.iter().map(Ordered::bytes_allocated).sum::<i64>();
        if linked > allocated || allocated > linked + LOST_BYTES * lost.cast_signed() {
            return Err(format!(
                "{allocated} bytes were allocated, {linked} are linked, {lost} may have lost some"
            ));
        }
        Ok(())
    }

    /// Chunks that were taken, and that nobody has.
    fn chunks_gone(&self) -> Result<u64, FabricError> {
        let client = self.world.at_once(CLOCK);
        let mut gone = 0;
        for node in 0..self.case.spec.memory_nodes {
            let (taken, in_use) = at_once(async {
                Ok::<_, FabricError>((
                    chunks::taken(&client, NodeId(node)).await?,
                    chunks::in_use(&client, NodeId(node)).await?,
                ))
            })?;
            gone += taken - 1 - in_use.len() as u64;
        }
        Ok(gone)
    }

    /// The ledgers of clients that live agree with what the device executed for them; where a post failed, the device
    /// may have executed more.
    fn check_ledgers(&self, clients: &[Client<SimFabric>]) -> Result<(), String> {
        let loses_nodes = self
            .world
            .happened()
            .iter()
            .any(|happened| matches!(happened.fault, Fault::Down { .. } | Fault::Partition { .. }));
        for (me, client) in clients.iter().enumerate() {
            if self.world.gone(client.fabric().seat().compute_node()) {
                continue;
            }
            let (mut ledger, executed) = (executed(&client.take_costs()), client.fabric().executed());
            if loses_nodes && self.case.plan.is_radix() {
                // A CAS that nobody waits for, and that was lost with its memory node, was posted and not executed.
                ledger.cas = ledger.cas.min(executed.cas);
            }
            // A verb that failed was executed, or not; its client counts it only if it was told.
            let more = client.fabric().lost() > 0 && covers(&executed, &ledger);
            if executed != ledger && !more {
                return Err(format!("client {me} counts {ledger:?}, the device {executed:?}"));
            }
        }
        Ok(())
    }
}

/// Most bytes that an operation of a radix tree takes, or has in its hands, and loses when it is cut off: two inner
/// nodes and two leaves.
const LOST_BYTES: i64 = 8192;

/// What of a Sherman tree is left behind is what faults may leave.
fn sherman_rest(trees: &[Ordered], walk: &sherman::Walk, lost: u64, rooms_lost: u64) -> Result<(), String> {
    if walk.half_linked > lost {
        return Err(format!(
            "{} nodes are half-linked, and {lost} operations were cut off",
            walk.half_linked
        ));
    }
    if walk.half_merged > lost {
        return Err(format!("{} nodes are half-merged", walk.half_merged));
    }
    let linked = (walk.nodes.iter().sum::<u64>() + walk.values_far).cast_signed();
    let allocated = trees.iter().map(|tree| match tree {
        Ordered::Sherman(tree) => tree.nodes_allocated(),
        Ordered::Smart(_) | Ordered::Sphinx(_) => 0,
    });
    // The root was allocated by whoever created the tree.
    let allocated = 1 + allocated.sum::<i64>();
    if linked > allocated || allocated > linked + rooms_lost.cast_signed() {
        return Err(format!(
            "{allocated} rooms were allocated, {linked} are linked, and {rooms_lost} may be lost"
        ));
    }
    Ok(())
}

/// What a ledger says that the device executed.
fn executed(costs: &Costs) -> Counts {
    Counts {
        doorbells: 0,
        reads: costs.reads,
        writes: costs.writes,
        write_imm: costs.write_imm,
        cas: costs.cas,
        masked_cas: costs.masked_cas,
        faa: costs.faa,
        bytes_read: costs.bytes_read,
        bytes_written: costs.bytes_written,
    }
}

fn covers(executed: &Counts, ledger: &Counts) -> bool {
    executed.reads >= ledger.reads
        && executed.writes >= ledger.writes
        && executed.cas >= ledger.cas
        && executed.masked_cas >= ledger.masked_cas
        && executed.faa >= ledger.faa
        && executed.write_imm >= ledger.write_imm
        && executed.bytes_read >= ledger.bytes_read
        && executed.bytes_written >= ledger.bytes_written
}

/// Slack for ways and queues, nanoseconds.
const SLACK: u64 = 1_000_000;

/// When what began at `begun` would have begun if its compute node had not been frozen until just then.
fn thawed(happened: &Happened, compute_node: usize, begun: u64) -> u64 {
    match happened.fault {
        Fault::Freeze { compute_node: frozen, nanoseconds }
            if frozen == compute_node
                && (happened.time..=happened.time + nanoseconds + SLACK).contains(&begun) =>
        {
            happened.time
        }
        _ => begun,
    }
}

/// Whether a fault explains that an operation lost a memory node.
fn loses(happened: &Happened, compute_node: usize, lost: NodeId, (begun, ended): (u64, u64)) -> bool {
    let length = match happened.fault {
        Fault::Down { node, nanoseconds } if node == lost => nanoseconds,
        Fault::Partition { compute_node: cut_off, node, nanoseconds }
            if node == lost && cut_off == compute_node =>
        {
            nanoseconds
        }
        _ => return false,
    };
    length > RETRY_NS && happened.time <= ended && begun <= happened.time + length + RETRY_NS + SLACK
}

/// Whether a fault explains that a living client kept a lock for too long.
fn keeps_locks(happened: &Happened, (begun, ended): (u64, u64)) -> bool {
    matches!(happened.fault, Fault::Freeze { nanoseconds, .. }
        if nanoseconds >= LOCK_PATIENCE && happened.time <= ended && begun <= happened.time + nanoseconds)
}
