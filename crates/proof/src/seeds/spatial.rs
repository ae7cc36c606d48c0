//! Spatial indexes by seeds, in the laboratory: a server that changes its tree word by word, and clients that search it
//! by READs meanwhile.
//!
//! Every change is a commit, and commits have an order. So what is asked of a search is much: its answer must be
//! exactly what the tree of *one* commit has for it, of those between its beginning and its end. Missing what was there
//! throughout, or reporting something twice, is a small part of what this excludes.
//!
//! A *counted* seed has 8 clients on 3 compute nodes, 1,000 answered searches, 100 commits and 3 faults.

use super::caught;
use super::many::Sum;
use farwood_fabric::{Client, Fabric as _, FabricError, LocalMemory, Memory, NodeId, Remote, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, Config, Grain, Inbox, Issue, Item, Messenger, Near, Notice, Query, Reader, Rectangle, Relation,
    Request, ServerSettings, Service, ServiceSettings, TreeServer,
    adaptive::{BackOff, BackOffSettings, Way},
};
use farwood_index::sabotage::Sabotage;
use farwood_sim::fault::{CrashPoint, Fault, Met, RETRY_NS, Rule, When};
use farwood_sim::{Card, Ended, SimFabric, World, WorldSpec, at_once};
use farwood_testkit::harness::Chance;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The world, with its faults. Compute node 0 serves, 1 serves after it; the others search.
    pub spec: WorldSpec,
    /// The index.
    pub config: Config,
    /// How the server works.
    pub settings: ServerSettings,
    /// Items that are loaded before the run.
    pub loaded: u64,
    /// Changes that a worker makes between two rests, on average.
    pub burst: u64,
    /// Workers of the server that change the tree.
    pub workers: usize,
    /// Clients that search.
    pub clients: usize,
    /// Searches that are answered before all stop.
    pub searches: u64,
    /// How many READs a search has in flight.
    pub issue: Issue,
    /// Virtual time after which a run is stuck.
    pub nanoseconds_max: u64,
    /// Clients that change the tree and search it by message, too; `None`: all search by READs, and the server changes
    /// the tree by itself.
    pub talk: Option<ServiceSettings>,
    /// How server and clients are broken on purpose.
    pub sabotage: Option<Sabotage>,
}

/// Searches of a counted seed.
pub const SEARCHES: u64 = 1_000;
/// Commits of a counted seed.
pub const COMMITS: u64 = 100;
/// Faults of a counted seed.
pub const FAULTS: u64 = 3;
const TIME_MAX: u64 = 20_000_000_000;
/// The same where everybody looks for messages all the time.
const TALK_TIME_MAX: u64 = 10_000_000_000;
/// Compute nodes that serve, one after the other.
const SERVERS: usize = 2;
/// Edge of the square in which everything lies: so few places that rectangles meet.
const PLACES: u64 = 40;

impl Case {
    /// The run of a seed without faults.
    pub fn calm(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x7370_6174);
        let names = Card::names();
        let card =
            if chance.once_in(2) { "cx5-100g" } else { names[chance.below(names.len() as u64) as usize] };
        let mut card = Card::named(card).expect("it is one of the named");
        card.pcie.bytes_per_ns = [card.pcie.bytes_per_ns, 0.5, 0.2][chance.below(3) as usize];
        let memory_nodes = 1 + chance.below(2) as u16;
        let spec = WorldSpec {
            memory_nodes,
            compute_nodes: SERVERS + 3,
            threads: 1 + chance.below(2) as usize,
            stretch: [1, 2, 8][chance.below(3) as usize],
            seed,
            ..WorldSpec::small(card)
        };
        let grains = [Grain::Node, Grain::Line, Grain::Word, Grain::Word];
        let settings = ServerSettings {
            visit_ns: chance.below(300),
            store_ns: 1 + chance.below(60),
            grain: grains[chance.below(4) as usize],
            rest_ns: [0, 0, 2_000, 20_000][chance.below(4) as usize],
        };
        Self {
            spec,
            config: Config {
                blocks: 1 + chance.below(2) as usize,
                node: NodeId(memory_nodes - 1),
                ring_bytes: 1024,
            },
            settings,
            loaded: [0, 30, 300][chance.below(3) as usize],
            burst: [4, 16][chance.below(2) as usize],
            workers: 1 + chance.below(3) as usize,
            clients: 8,
            searches: SEARCHES,
            issue: if chance.once_in(4) { Issue::One } else { Issue::Many },
            nanoseconds_max: TIME_MAX,
            talk: None,
            sabotage: None,
        }
    }

    /// Lets clients talk to the server: each machine is a memory node, too, where its clients have their inboxes.
    #[must_use]
    pub fn talking(mut self) -> Self {
        let mut chance = Chance::new(self.spec.seed ^ 0x7461_6C6B);
        self.spec.memory_nodes = self.spec.compute_nodes as u16;
        self.spec.colocate = true;
        self.config.node = NodeId(0);
        self.nanoseconds_max = TALK_TIME_MAX;
        self.talk = Some(ServiceSettings {
            notice: if chance.once_in(2) { Notice::Event } else { Notice::Polling },
            poll_ns: 100 + chance.below(2_000),
            heartbeat_ns: 50_000 + chance.below(500_000),
            silence_ns: 200_000 + chance.below(2_000_000),
            message_ns: chance.below(1_000),
        });
        self
    }

    /// The run of a counted seed: in every other the server crashes, and another takes its place.
    pub fn of(seed: u64) -> Self {
        let mut case = Self::calm(seed);
        let mut chance = Chance::new(seed ^ 0x6661_756C);
        let mut rules: Vec<_> = (0..=FAULTS).map(|_| case.fault(&mut chance)).collect();
        if chance.once_in(2) {
            let fault = Fault::Crash { compute_node: 0, point: CrashPoint::At };
            rules.push(Rule { when: When::Time(1 + chance.below(3_000_000)), fault });
        }
        case.spec.rules = rules;
        case
    }

    /// A fault that a search survives, or that excuses it.
    fn fault(&self, chance: &mut Chance) -> Rule {
        let searchers = (self.spec.compute_nodes - SERVERS) as u64;
        let compute_node = SERVERS + chance.below(searchers) as usize;
        let when = When::Verb { compute_node, number: 1 + chance.below(600) };
        let node = self.config.node;
        let longest = [100_000, RETRY_NS, 3 * RETRY_NS][chance.below(3) as usize];
        let outage = 1 + chance.below(longest);
        let fault = match chance.below(6) {
            // Compute node 2 stays, so that searches go on.
            0 if compute_node > SERVERS => {
                let points = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
                Fault::Crash { compute_node, point: points[chance.below(3) as usize] }
            }
            1 => Fault::Freeze { compute_node, nanoseconds: 1 + chance.below(3_000_000) },
            2 => Fault::Down { node, nanoseconds: outage },
            3 => Fault::Partition { compute_node, node, nanoseconds: outage },
            4 => Fault::Slow { node, times: 2 + chance.below(20) },
            _ => Fault::Delay { nanoseconds: 1 + chance.below(1_000_000) },
        };
        Rule { when, fault }
    }
}

/// What runs met.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Runs, and those that count.
    pub runs: u64,
    /// Runs that were counted seeds.
    pub counted: u64,
    /// Answered searches.
    pub searches: u64,
    /// Of those, how many ran while the tree changed.
    pub raced: u64,
    /// What was found, all in all.
    pub found: u64,
    /// Commits.
    pub commits: u64,
    /// Servers that took the place of one that crashed.
    pub successors: u64,
    /// Searches that failed because their memory node was lost.
    pub excused: u64,
    /// Faults.
    pub met: Met,
    /// Marks passed.
    pub marks: BTreeMap<&'static str, u64>,
    /// Runs by the levels of the tree at the end.
    pub levels: [u64; 8],
}

impl Sum for Report {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.counted += other.counted;
        self.searches += other.searches;
        self.raced += other.raced;
        self.found += other.found;
        self.commits += other.commits;
        self.successors += other.successors;
        self.excused += other.excused;
        self.met += other.met;
        for (mark, times) in &other.marks {
            *self.marks.entry(mark).or_default() += times;
        }
        for (mine, other) in self.levels.iter_mut().zip(other.levels) {
            *mine += other;
        }
    }
}

/// One change of a commit.
#[derive(Clone, Copy, Debug)]
enum Change {
    In(Item),
    Out(Item),
    Moved(Item, Item),
}

impl From<Request> for Change {
    fn from(request: Request) -> Self {
        match request {
            Request::Insert(item) => Self::In(item),
            Request::Remove(item) => Self::Out(item),
            Request::Update(from, bounds) => Self::Moved(from, Item { bounds, id: from.id }),
            other => unreachable!("{other:?} changes nothing"),
        }
    }
}

/// Items by their numbers, which are given once.
type Items = BTreeMap<u64, Rectangle>;

impl Change {
    fn apply(&self, items: &mut Items) {
        match self {
            Self::In(item) => assert_eq!(items.insert(item.id, item.bounds), None, "numbers are given once"),
            Self::Out(item) => assert_eq!(items.remove(&item.id), Some(item.bounds), "what goes was there"),
            Self::Moved(from, to) => {
                assert_eq!(items.insert(to.id, to.bounds), Some(from.bounds), "what is moved was there");
            }
        }
    }
}

/// What everybody of a run writes down.
struct Notes {
    log: RefCell<Vec<Change>>,
    /// The tree whose server has the office: what it commits belongs in the log.
    tree: RefCell<Option<Rc<TreeServer>>>,
    /// The tree after the last commit.
    now: RefCell<Items>,
    next_id: Cell<u64>,
    searches: Cell<u64>,
    raced: Cell<u64>,
    found: Cell<u64>,
    successors: Cell<u64>,
    excused: Cell<u64>,
    searching: Cell<usize>,
    failure: RefCell<Option<String>>,
}

impl Notes {
    fn new(first: Items, searching: usize) -> Self {
        Self {
            next_id: Cell::new(first.len() as u64),
            now: RefCell::new(first),
            log: RefCell::default(),
            tree: RefCell::default(),
            searches: Cell::new(0),
            raced: Cell::new(0),
            found: Cell::new(0),
            successors: Cell::new(0),
            excused: Cell::new(0),
            searching: Cell::new(searching),
            failure: RefCell::default(),
        }
    }

    fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }

    /// How many commits there were.
    fn commits(&self) -> usize {
        let committed = self.tree.borrow().as_ref().map(|tree| tree.take_journal()).unwrap_or_default();
        for change in committed.into_iter().map(Change::from) {
            change.apply(&mut self.now.borrow_mut());
            self.log.borrow_mut().push(change);
        }
        self.log.borrow().len()
    }

    /// The tree of another server.
    fn serve(&self, tree: TreeServer) -> Rc<TreeServer> {
        self.commits();
        let tree = Rc::new(tree.with_journal());
        *self.tree.borrow_mut() = Some(Rc::clone(&tree));
        tree
    }

    fn new_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }

    /// The tree as it is when a search begins.
    fn begin(&self) -> Begun {
        Begun { commits: self.commits(), items: self.now.borrow().clone() }
    }

    /// Whether the tree of one of the commits since a search began passes.
    fn some_tree(&self, begun: Begun, passes: impl Fn(&Items) -> bool) -> bool {
        let Begun { commits, mut items } = begun;
        // What was committed meanwhile belongs in the log first.
        self.commits();
        if passes(&items) {
            return true;
        }
        self.log.borrow()[commits..].iter().any(|change| {
            change.apply(&mut items);
            passes(&items)
        })
    }
}

/// What a search may find.
struct Begun {
    commits: usize,
    items: Items,
}

/// Draws an item's place: from the few there are, some of them points.
fn place(chance: &mut Chance) -> Rectangle {
    let min = [chance.below(PLACES) as f64, chance.below(PLACES) as f64];
    let edges = [chance.below(4) as f64, chance.below(4) as f64];
    Rectangle::new(min, [min[0] + edges[0], min[1] + edges[1]]).expect("edges are not negative")
}

fn query(chance: &mut Chance) -> Query {
    let min = [chance.below(PLACES) as f64, chance.below(PLACES) as f64];
    let edge = [0, 3, 10, PLACES][chance.below(4) as usize] as f64;
    let window = Rectangle::new(min, [min[0] + edge, min[1] + edge]).expect("an edge is not negative");
    let relations = [Relation::Intersects, Relation::Intersects, Relation::Within, Relation::Contains];
    Query { window, relation: relations[chance.below(4) as usize] }
}

/// Runs a case and checks everything; a panic is a failure like any other.
///
/// # Errors
/// What went wrong.
pub fn outcome(case: &Case) -> Result<Report, String> {
    let world = World::new(case.spec.clone()).map_err(|error| error.to_string())?;
    caught(|| run(case, &world))
}

fn run(case: &Case, world: &World) -> Result<Report, String> {
    let first = load(case, world).map_err(|error| format!("loading: {error}"))?;
    let notes = Notes::new(first, case.clients);
    let servers: Vec<_> = (0..SERVERS).map(|node| world.client(node)).collect();
    let clients: Vec<_> = (0..case.clients)
        .map(|me| world.client(SERVERS + me % (case.spec.compute_nodes - SERVERS)))
        .collect();
    let indexes = open(case, world).map_err(|error| format!("opening: {error}"))?;
    let mut crew = world.crew();
    crew.spawn(&servers[0], serve(case, world, &indexes[0], &servers[0], &notes));
    crew.spawn(&servers[1], succeed(case, world, &indexes[1], &servers[1], &notes));
    for (me, client) in clients.iter().enumerate() {
        // From now on, for its compute node may crash before it is polled.
        let searching = Searching(&notes);
        let index = &indexes[client.fabric().seat().compute_node()];
        match case.talk {
            Some(talk) => {
                crew.spawn(client, one_talker(case, (me as u64, talk), index, client, world, searching));
            }
            None => crew.spawn(client, one_client(case, me as u64, index, client, world, searching)),
        }
    }
    // Where a compute node crashes, so do its clients; the others go on.
    let ended = crew.run_until(case.nanoseconds_max);
    let living = notes.searching.get();
    drop(crew);
    if let Some(failure) = notes.failure.take() {
        return Err(failure);
    }
    if ended != Ended::Done {
        return Err(format!(
            "the run does not end: {ended:?} at {} ns, after {} searches and {} commits, with {} clients; {:?}",
            world.now(),
            notes.searches.get(),
            notes.commits(),
            living,
            world.marks()
        ));
    }
    settle(case, world, &notes)
}

/// Makes the index and loads it, outside of time.
fn load(case: &Case, world: &World) -> Result<Items, IndexError> {
    let client = world.at_once(0);
    let mut chance = Chance::new(case.spec.seed ^ 0x6C6F_6164);
    let items: Vec<_> = (0..case.loaded).map(|id| Item { bounds: place(&mut chance), id }).collect();
    at_once(async {
        let index = Catfish::create(&client, "seeds", case.config).await?;
        let server = world.server(case.config.node);
        let tree = index.serve(&client, &server, ServerSettings::default()).await?;
        tree.worker(&client, &server).bulk_load(&items, 0.8).await?;
        tree.resign(&client).await
    })?;
    Ok(items.iter().map(|item| (item.id, item.bounds)).collect())
}

fn open(case: &Case, world: &World) -> Result<Vec<Catfish>, IndexError> {
    (0..case.spec.compute_nodes)
        .map(|node| {
            let client = world.at_once(node);
            let index = at_once(Catfish::open(&client, "seeds"))?;
            Ok(match case.sabotage {
                Some(sabotage) => index.sabotage(sabotage),
                None => index,
            })
        })
        .collect()
}

/// The server, until all searches are done or its compute node crashes.
async fn serve(case: &Case, world: &World, index: &Catfish, client: &Client<SimFabric>, notes: &Notes) {
    let server = world.server(case.config.node);
    while notes.searching.get() > 0 {
        let began = world.now();
        match index.serve(client, &server, case.settings).await {
            Ok(tree) => {
                let tree = match case.sabotage {
                    Some(sabotage) => tree.sabotage(sabotage),
                    None => tree,
                };
                let tree = notes.serve(tree);
                return match case.talk {
                    Some(talk) => answer(case, world, &tree, talk, client, notes).await,
                    None => work(case, world, &tree, client, notes).await,
                };
            }
            Err(error) if is_loss(&error) && lost(world, began) => {}
            // A memory node that is down cannot confirm yet that the dead one's verbs are over.
            Err(IndexError::Served { .. }) if world.crashed(0) => client.fabric().sleep(100_000).await,
            Err(error) => return notes.fail(format!("serving: {error}")),
        }
    }
}

fn is_loss(error: &IndexError) -> bool {
    matches!(error, IndexError::Fabric(FabricError::NodeLost { .. }))
}

/// Changes the tree, with several workers at once.
async fn work(case: &Case, world: &World, tree: &TreeServer, client: &Client<SimFabric>, notes: &Notes) {
    all((0..case.workers).map(|me| one_worker(case, me as u64, world, tree, client, notes))).await;
}

/// Runs flows of one task together, to their ends.
async fn all(flows: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut flows: Vec<_> = flows.map(Box::pin).collect();
    poll_fn(|context| {
        flows.retain_mut(|flow| flow.as_mut().poll(context).is_pending());
        if flows.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Connections that the server looks after: more than there are clients, for some are left by the dead.
const CONNECTIONS: usize = 40;

/// Answers messages until all searches are done.
async fn answer(
    case: &Case,
    world: &World,
    tree: &TreeServer,
    talk: ServiceSettings,
    client: &Client<SimFabric>,
    notes: &Notes,
) {
    let seat = client.fabric().seat().compute_node();
    let service = Service::new(tree, talk);
    let server = world.server(case.config.node);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| world.client(seat)).collect();
    let (service, server, failed) = (&service, &server, |what: &str, error: IndexError| {
        notes.fail(format!("{what}: {error}"));
    });
    let connections = clients.iter().enumerate().map(|(number, client)| {
        let flow = async move {
            // A memory node that is lost is the client's to wait for.
            while let Err(error) = service.connection(number, client, server).await {
                if !is_loss(&error) {
                    return failed("a connection", error);
                }
            }
        };
        Box::pin(flow) as Pin<Box<dyn Future<Output = ()> + '_>>
    });
    let beats = Box::pin(async {
        if let Err(error) = service.heartbeats(client, server, || 0.99).await {
            failed("heartbeats", error);
        }
    });
    let end = Box::pin(async {
        while notes.searching.get() > 0 {
            client.fabric().sleep(20_000).await;
        }
        service.end();
    });
    let flows: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        connections.chain([beats as _, end as _]).collect();
    let mut dispatch = std::pin::pin!(service.dispatch(server));
    let mut flows = std::pin::pin!(all(flows.into_iter()));
    poll_fn(|context| {
        let _ = dispatch.as_mut().poll(context);
        flows.as_mut().poll(context)
    })
    .await;
}

async fn one_worker(
    case: &Case,
    me: u64,
    world: &World,
    tree: &TreeServer,
    client: &Client<SimFabric>,
    notes: &Notes,
) {
    let server = world.server(case.config.node);
    let worker = tree.worker(client, &server);
    let mut chance = Chance::new(case.spec.seed ^ (0x776F_726B + me) ^ notes.commits() as u64);
    // Items that this worker put there, so that no other takes them out.
    let mut mine: Vec<Item> = Vec::new();
    while notes.searching.get() > 0 {
        let result = match chance.below(4) {
            0 | 1 if mine.len() < 120 => {
                let item = Item { bounds: place(&mut chance), id: notes.new_id() };
                mine.push(item);
                worker.insert(&item).await
            }
            2 if !mine.is_empty() => {
                let at = chance.below(mine.len() as u64) as usize;
                let (from, to) = (mine[at], Item { bounds: place(&mut chance), id: mine[at].id });
                mine[at] = to;
                expect_there(worker.update(&from, to.bounds).await, notes)
            }
            _ if !mine.is_empty() => {
                let item = mine.swap_remove(chance.below(mine.len() as u64) as usize);
                expect_there(worker.remove(&item).await, notes)
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            return notes.fail(format!("worker {me}: {error}"));
        }
        if chance.once_in(8) {
            look_locally(&worker, &mut chance, notes).await;
        }
        // Now and then the server rests until some searches are through, or those by READs would never end.
        if chance.once_in(case.burst) {
            let enough = notes.searches.get() + chance.below(4 * case.clients as u64);
            while notes.searches.get() < enough && notes.searching.get() > 0 {
                client.fabric().sleep(case.spec.card.wire.one_way_ns as u64).await;
            }
        }
        client.fabric().sleep(chance.below(3_000)).await;
    }
}

fn expect_there(done: Result<bool, IndexError>, notes: &Notes) -> Result<(), IndexError> {
    if !done? {
        notes.fail("an item that is there was not found to be changed".to_owned());
    }
    Ok(())
}

/// The server's own search: it holds a snapshot.
async fn look_locally(
    worker: &farwood_index::catfish::Worker<'_, SimFabric, farwood_sim::SimServer>,
    chance: &mut Chance,
    notes: &Notes,
) {
    let (query, begun, mut found) = (query(chance), notes.begin(), Vec::new());
    match worker.search(&query, &mut found).await {
        Ok(()) => judge(&query, begun, found, notes),
        Err(error) => notes.fail(format!("the server's own search: {error}")),
    }
}

/// The second server: it waits until the first has crashed.
async fn succeed(case: &Case, world: &World, index: &Catfish, client: &Client<SimFabric>, notes: &Notes) {
    while !world.crashed(0) {
        if notes.searching.get() == 0 {
            return;
        }
        client.fabric().sleep(50_000).await;
    }
    notes.successors.set(1);
    serve(case, world, index, client, notes).await;
}

async fn one_client(
    case: &Case,
    me: u64,
    index: &Catfish,
    client: &Client<SimFabric>,
    world: &World,
    searching: Searching<'_>,
) {
    let notes = searching.0;
    let mut chance = Chance::new(case.spec.seed ^ (0x7365_6172 + 7 * me));
    let mut reader = Reader::new(index, client, case.issue);
    let mut found = Vec::new();
    while notes.searches.get() < case.searches && notes.failure.borrow().is_none() {
        let (began, begun) = (world.now(), notes.begin());
        let outcome = if chance.once_in(6) {
            let point = [chance.below(PLACES) as f64, chance.below(PLACES) as f64];
            let count = chance.below(12) as usize;
            let near = reader.nearest(point, count).await;
            near.map(|near| judge_near(point, count, begun, &near, notes))
        } else {
            let query = query(&mut chance);
            found.clear();
            let searched = reader.search(&query, &mut found).await;
            searched.map(|()| judge(&query, begun, found.clone(), notes))
        };
        match outcome {
            Ok(()) => notes.searches.set(notes.searches.get() + 1),
            Err(error) if is_loss(&error) && lost(world, began) => {
                notes.excused.set(notes.excused.get() + 1);
            }
            Err(error) => return notes.fail(format!("client {me}: {error}")),
        }
    }
}

/// A client with a connection; without one it waits for the next server.
async fn one_talker(
    case: &Case,
    (me, talk): (u64, ServiceSettings),
    index: &Catfish,
    client: &Client<SimFabric>,
    world: &World,
    searching: Searching<'_>,
) {
    let notes = searching.0;
    let machine = NodeId(client.fabric().seat().compute_node() as u16);
    let memory = world.server(machine);
    let at = Remote::new(machine, Memory::Host, (16 << 20) + (64 << 10) * me).expect("it is an address");
    let inbox = Inbox { local: memory.local(), at: Some(at) };
    let mut chance = Chance::new(case.spec.seed ^ (0x7461_6C6B + 7 * me));
    let mut mine = Vec::new();
    while notes.tree.borrow().is_none() && notes.failure.borrow().is_none() && !world.crashed(0) {
        client.fabric().sleep(10_000).await;
    }
    while notes.searches.get() < case.searches && notes.failure.borrow().is_none() {
        let began = world.now();
        let connected = Messenger::connect(index, client, inbox, talk.notice).await;
        let done = match connected {
            Ok(connection) => {
                converse(case, (index, client), connection, &mut chance, &mut mine, notes).await
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => {}
            Err(IndexError::NotServed { .. } | IndexError::ServerLost { .. })
                if world.crashed(0) || outage(world, began) =>
            {
                notes.excused.set(notes.excused.get() + 1);
            }
            // A WRITE of which nobody knows whether it will land: this client's inbox is no good any more.
            Err(error) if is_loss(&error) && lost(world, began) => {
                notes.excused.set(notes.excused.get() + 1);
                return;
            }
            Err(error) => return notes.fail(format!("client {me}: {error}")),
        }
    }
}

/// Asks and tells the server this and that, and leaves.
async fn converse<L: LocalMemory>(
    case: &Case,
    (index, client): (&Catfish, &Client<SimFabric>),
    mut connection: Messenger<'_, SimFabric, L>,
    chance: &mut Chance,
    mine: &mut Vec<Item>,
    notes: &Notes,
) -> Result<(), IndexError> {
    let mut reader = Reader::new(index, client, case.issue);
    let mut back_off = BackOff::new(BackOffSettings::default(), chance.next_u64());
    let mut found = Vec::new();
    for _ in 0..20 + chance.below(60) {
        if notes.searches.get() >= case.searches {
            break;
        }
        let begun = notes.begin();
        match chance.below(8) {
            0 | 1 if mine.len() < 40 => {
                let item = Item { bounds: place(chance), id: notes.new_id() };
                connection.insert(&item).await?;
                told_to_be(Change::In(item), &begun, notes);
                mine.push(item);
            }
            0 | 2 if !mine.is_empty() => {
                // Where the answer is lost, nobody knows whether it is still there.
                let item = mine.swap_remove(chance.below(mine.len() as u64) as usize);
                if chance.once_in(2) {
                    expect_there(connection.remove(&item).await, notes)?;
                    told_to_be(Change::Out(item), &begun, notes);
                } else {
                    let to = Item { bounds: place(chance), id: item.id };
                    expect_there(connection.update(&item, to.bounds).await, notes)?;
                    told_to_be(Change::Moved(item, to), &begun, notes);
                    mine.push(to);
                }
            }
            3 => {
                let point = [chance.below(PLACES) as f64, chance.below(PLACES) as f64];
                let count = chance.below(30) as usize;
                let near = connection.nearest(point, count).await?;
                judge_near(point, count, begun, &near, notes);
            }
            4 => judge_count(&mut connection, &query(chance), begun, notes).await?,
            _ => {
                let query = query(chance);
                found.clear();
                match back_off.next(connection.take_heartbeat()?) {
                    Way::Message => connection.search(&query, &mut found).await?,
                    Way::Offload => reader.search(&query, &mut found).await?,
                }
                judge(&query, begun, found.clone(), notes);
            }
        }
        notes.searches.set(notes.searches.get() + 1);
    }
    connection.close().await
}

/// The count must be that of the tree of one commit.
async fn judge_count<L: LocalMemory>(
    connection: &mut Messenger<'_, SimFabric, L>,
    query: &Query,
    begun: Begun,
    notes: &Notes,
) -> Result<(), IndexError> {
    let count = connection.count(query).await?;
    let matches = |items: &Items| items.values().filter(|bounds| query.matches(bounds)).count() as u64;
    let from = begun.commits;
    let seen = RefCell::new(Vec::new());
    let passes = |items: &Items| {
        seen.borrow_mut().push(matches(items));
        matches(items) == count
    };
    if !notes.some_tree(begun, passes) {
        let (to, seen) = (notes.commits(), seen.into_inner());
        notes.fail(format!("{query:?} counts {count}: commits {from} to {to} have {seen:?}"));
    }
    Ok(())
}

/// A change that the server says is done is one of the commits since it was asked for.
fn told_to_be(change: Change, begun: &Begun, notes: &Notes) {
    let commits = notes.commits();
    let log = notes.log.borrow();
    if !log[begun.commits..commits].iter().any(|done| format!("{done:?}") == format!("{change:?}")) {
        notes.fail(format!("{change:?} was said to be done, and is not"));
    }
}

/// Whether there was an outage at all since `began`: the server may have taken it for this client's end.
fn outage(world: &World, began: u64) -> bool {
    world.happened().iter().any(|happened| match happened.fault {
        Fault::Down { nanoseconds, .. }
        | Fault::Partition { nanoseconds, .. }
        | Fault::Freeze { nanoseconds, .. } => began <= happened.time + nanoseconds + RETRY_NS + 40_000_000,
        _ => false,
    })
}

/// A client that searches; when it ends, or its compute node crashes, it does not count any more.
struct Searching<'n>(&'n Notes);

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.0.searching.set(self.0.searching.get() - 1);
    }
}

/// Whether an outage of more than the card's retries explains that a memory node was lost since `began`.
fn lost(world: &World, began: u64) -> bool {
    world.happened().iter().any(|happened| match happened.fault {
        Fault::Down { nanoseconds, .. } | Fault::Partition { nanoseconds, .. } => {
            nanoseconds > RETRY_NS && began <= happened.time + nanoseconds + RETRY_NS + 1_000_000
        }
        _ => false,
    })
}

fn order(one: &Item, other: &Item) -> std::cmp::Ordering {
    let key =
        |item: &Item| (item.id, item.bounds.min().map(f64::to_bits), item.bounds.max().map(f64::to_bits));
    key(one).cmp(&key(other))
}

/// The answer must be what the tree of one commit has.
fn judge(query: &Query, begun: Begun, mut found: Vec<Item>, notes: &Notes) {
    let (from, to) = (begun.commits, notes.commits());
    found.sort_by(order);
    notes.found.set(notes.found.get() + found.len() as u64);
    notes.raced.set(notes.raced.get() + u64::from(to > from));
    let explained = notes.some_tree(begun, |items| {
        let matching = items.iter().filter(|(_, bounds)| query.matches(bounds));
        matching.map(|(&id, &bounds)| Item { bounds, id }).eq(found.iter().copied())
    });
    if !explained {
        let twice = found.windows(2).find(|pair| pair[0].id == pair[1].id);
        notes.fail(match twice {
            Some(pair) => format!("{query:?} reports {} twice", pair[0].id),
            None => {
                format!("{query:?} finds {} items: no tree of commits {from} to {to} has these", found.len())
            }
        });
    }
}

fn judge_near(point: [f64; 2], count: usize, begun: Begun, near: &[Near], notes: &Notes) {
    let (from, to) = (begun.commits, notes.commits());
    let explained = notes.some_tree(begun, |items| {
        let mut distances: Vec<_> = items.values().map(|bounds| bounds.distance_squared(point)).collect();
        distances.sort_by(f64::total_cmp);
        let there = near.iter().all(|near| items.get(&near.item.id) == Some(&near.item.bounds));
        let mut ids: Vec<_> = near.iter().map(|near| near.item.id).collect();
        ids.sort_unstable();
        ids.dedup();
        there
            && ids.len() == near.len()
            && distances.iter().take(count).eq(near.iter().map(|near| &near.distance_squared))
    });
    if !explained {
        notes.fail(format!("the {count} nearest to {point:?}: no tree of commits {from} to {to} has these"));
    }
}

/// Looks at everything when nobody else runs, and walks the tree.
fn settle(case: &Case, world: &World, notes: &Notes) -> Result<Report, String> {
    world.end_rules();
    let client = world.at_once(SERVERS);
    let walk = at_once(async {
        let index = Catfish::open(&client, "seeds").await?;
        let mut found = Vec::new();
        let window = Rectangle::new([-1.0, -1.0], [100.0, 100.0]).expect("it is a rectangle");
        let query = Query::intersecting(window);
        Reader::new(&index, &client, Issue::Many).search(&query, &mut found).await?;
        judge(&query, notes.begin(), found, notes);
        index.walk(&client).await
    });
    let walk = walk.map_err(|error| format!("at the end: {error}"))?;
    if let Some(failure) = notes.failure.take() {
        return Err(format!("at the end: {failure}"));
    }
    if let Some(problem) = walk.problems.first() {
        return Err(format!("the walk finds {} problems: {problem}", walk.problems.len()));
    }
    if walk.entries != notes.now.borrow().len() as u64 {
        return Err(format!("the walk finds {} entries of {}", walk.entries, notes.now.borrow().len()));
    }
    let (met, commits) = (world.met(), notes.commits() as u64);
    let counted = notes.searches.get() >= SEARCHES && commits >= COMMITS && met.faults() >= FAULTS;
    let mut levels = [0; 8];
    levels[walk.nodes.len()] = 1;
    let _ = case;
    Ok(Report {
        runs: 1,
        counted: u64::from(counted),
        searches: notes.searches.get(),
        raced: notes.raced.get(),
        found: notes.found.get(),
        commits,
        successors: notes.successors.get(),
        excused: notes.excused.get(),
        met,
        marks: world.marks(),
        levels,
    })
}
