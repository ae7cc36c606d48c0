//! A spatial index whose clients and whose server are killed with SIGKILL at any moment, over shared memory: in the
//! middle of a message, of a commit, of a response.
//!
//! Each client moves items of its own, one by one, by message, and tells the parent what the server said is done.
//! After its death each of its items must be where it was said to be, or, for the one that was under way, at its next
//! place; and whatever died, everybody else goes on, a new server takes the office, and the tree is whole.
//!
//! `FARWOOD_KILLS=N cargo test --release -p farwood-proof --test all catfish::killed` kills so many instead of 12.

use farwood_fabric::{Client, NodeId, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, Config, Inbox, Issue, Item, Messenger, Notice, Query, Reader, Rectangle, ServerSettings,
    Service, ServiceSettings, Talk as _,
};
use farwood_proof::children::rerun;
use farwood_proof::shm::{Shm, attach};
use farwood_testkit::Harness as _;
use farwood_testkit::harness::{Chance, ServerHarness as _};
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::shm::{ShmFabric, ShmPool};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CHILD: &str = "FARWOOD_CATFISH_KILL_CHILD";
const NAME: &str = "kill";
const CLIENTS: u64 = 2;
/// Items of each client.
const ITEMS: u64 = 40;
const CONNECTIONS: usize = 16;
/// Longer than anything may take: a client asks after 20 ms of silence whether its server lives.
const PATIENCE: Duration = Duration::from_secs(20);

/// Item `number` of client `me` at the place of `step`.
fn item(me: u64, number: u64, step: u64) -> Item {
    let id = me * ITEMS + number;
    Item { bounds: Rectangle::point([step as f64, id as f64]).expect("it is finite"), id }
}

/// Where an item is, by its step; never at two places.
async fn look(reader: &mut Reader<'_, ShmFabric>, me: u64, number: u64) -> Option<u64> {
    let line = me * ITEMS + number;
    let window = Rectangle::new([0.0, line as f64], [1e15, line as f64]).expect("it is not inverted");
    let mut found = Vec::new();
    reader.search(&Query::intersecting(window), &mut found).await.expect("a search needs no server");
    assert!(found.len() <= 1, "{found:?}");
    found.first().map(|item| item.bounds.min()[0] as u64)
}

/// A client's life: moves its items one after the other, reconnecting when its server is lost.
fn client(me: u64, pool: &ShmPool) {
    let (client, memory) = (pool.client(), pool.server(NodeId(0)).expect("a memory node"));
    let index = block_on(Catfish::open(&client, NAME)).expect("the index");
    let mut reader = Reader::new(&index, &client, Issue::Many);
    let mut out = std::io::stdout().lock();
    loop {
        let mut at = BTreeMap::new();
        for number in 0..ITEMS {
            if let Some(step) = block_on(look(&mut reader, me, number)) {
                at.insert(number, step);
            }
        }
        let inbox = Inbox { local: memory.local(), at: None };
        let connected = block_on(Messenger::connect(&index, &client, inbox, Notice::Event));
        let mut connection = match connected {
            Ok(connection) => connection,
            Err(IndexError::NotServed { .. } | IndexError::Crowded { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        for step in at.values().max().map_or(1, |step| step + 1).. {
            let number = step % ITEMS;
            let new = item(me, number, step);
            let done = match at.get(&number) {
                None => block_on(connection.insert(&new)).map(|()| true),
                Some(&before) => block_on(connection.update(&item(me, number, before), new.bounds)),
            };
            match done {
                Ok(there) => assert!(there, "nobody else moves item {number}"),
                // Whether it was done, nobody knows: look.
                Err(IndexError::ServerLost { .. }) => {
                    block_on(connection.close()).expect("the pool is there");
                    break;
                }
                Err(error) => panic!("{error}"),
            }
            at.insert(number, step);
            writeln!(out, "{number} {step}").and_then(|()| out.flush()).expect("the parent listens");
        }
    }
}

/// Something that a server does for ever.
type Flow<'f> = Pin<Box<dyn Future<Output = Result<(), IndexError>> + 'f>>;

#[expect(clippy::print_stdout, reason = "the parent waits for the line")]
fn tell(line: &str) {
    println!("{line}");
}

/// A server's life: takes the office as soon as the last one is proven gone.
fn server(pool: &ShmPool) {
    let (client, server) = (pool.client(), pool.server(NodeId(0)).expect("a memory node"));
    let index = block_on(Catfish::open(&client, NAME)).expect("the index");
    let tree = loop {
        match block_on(index.serve(&client, &server, ServerSettings::default())) {
            Ok(tree) => break tree,
            Err(IndexError::Served { .. }) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    };
    let service =
        Service::new(&tree, ServiceSettings { silence_ns: 50_000_000, ..ServiceSettings::default() });
    tree.look_after(&server, CONNECTIONS).expect("its own memory");
    tell("serving");
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| pool.client()).collect();
    let mut flows: Vec<Flow<'_>> = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        flows.push(Box::pin(service.connection(number, client, &server)));
    }
    flows.push(Box::pin(service.heartbeats(&client, &server, || 0.5)));
    flows.push(Box::pin(service.dispatch_until_end(&server, &client)));
    let ended: Vec<_> = run_all(flows);
    panic!("it serves until it is killed: {ended:?}");
}

/// A child process, and what it has said.
struct Process {
    child: Child,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    /// The step of each item that was said to be done; and whether anything was said at all.
    at: BTreeMap<u64, u64>,
    lines: u64,
}

impl Process {
    fn start(what: &str, path: &Path) -> Self {
        let mut child = rerun(module_path!(), "clients_and_servers_survive_the_death_of_others")
            .env(CHILD, format!("{what}:{}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let (said, out) = (Arc::<Mutex<Said>>::default(), child.stdout.take().expect("a pipe"));
        let notes = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let mut words = line.split_whitespace().map(str::parse::<u64>);
                let mut said = notes.lock().expect("nobody panics with it");
                if let (Some(Ok(number)), Some(Ok(step)), None) = (words.next(), words.next(), words.next())
                    && step % ITEMS == number
                {
                    said.at.insert(number, step);
                    said.lines += 1;
                } else if line.trim() == "serving" {
                    said.lines += 1;
                }
            }
        });
        Self { child, said }
    }

    /// Waits until it has said `more` lines more.
    fn wait(&mut self, more: u64) {
        let start = Instant::now();
        let lines = |process: &Self| process.said.lock().expect("nobody panics with it").lines;
        let wanted = lines(self) + more;
        while lines(self) < wanted {
            assert!(start.elapsed() < PATIENCE, "it hangs: {} of {wanted} lines", lines(self));
            if let Some(status) = self.child.try_wait().expect("a child") {
                panic!("it failed by itself: {status}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills it; yields what it has said.
    fn kill(mut self) -> BTreeMap<u64, u64> {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
        // The pipe's end comes after its last line.
        std::thread::sleep(Duration::from_millis(20));
        let said = self.said.lock().expect("nobody panics with it");
        said.at.clone()
    }
}

impl Drop for Process {
    /// Nobody outlives a test that fails.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every item of the client that died is where it was said to be, or it was under way to its next place.
fn judge(index: &Catfish, client: &Client<ShmFabric>, me: u64, said: &BTreeMap<u64, u64>) {
    let mut reader = Reader::new(index, client, Issue::Many);
    let last = said.values().max().copied().unwrap_or(0);
    for (&number, &step) in said {
        let found = block_on(look(&mut reader, me, number));
        let under_way = (last + 1) % ITEMS == number;
        let is_right = found == Some(step) || under_way && found == Some(last + 1);
        assert!(
            is_right,
            "item {number} of client {me} was at {step}, and {last} was the last step: it is at {found:?}"
        );
    }
}

#[test]
fn clients_and_servers_survive_the_death_of_others() {
    if let Ok(spec) = std::env::var(CHILD) {
        let (what, path) = spec.split_once(':').expect("what it is to be, and where");
        let pool = attach(Path::new(path));
        match what.parse::<u64>() {
            Ok(me) => client(me, &pool),
            Err(_) => server(&pool),
        }
        unreachable!("children live until they are killed");
    }
    let kills = std::env::var("FARWOOD_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    let harness = Shm::default();
    let survivor = harness.client();
    let config = Config { blocks: 1, ring_bytes: 1024, ..Config::default() };
    let index = block_on(Catfish::create(&survivor, NAME, config)).expect("a pool");
    let path = harness.path();
    let mut server = Process::start("server", path);
    server.wait(1);
    let mut clients: Vec<_> = (0..CLIENTS).map(|me| Process::start(&me.to_string(), path)).collect();
    let mut chance = Chance::new(11);
    for kill in 0..kills {
        for client in &mut clients {
            client.wait(3);
        }
        std::thread::sleep(Duration::from_micros(chance.below(20_000)));
        if kill % 3 == 2 {
            server.kill();
            server = Process::start("server", path);
            server.wait(1);
        } else {
            let me = chance.below(CLIENTS) as usize;
            let said = clients.remove(me).kill();
            // What was under way may still be done by the server.
            std::thread::sleep(Duration::from_millis(5));
            judge(&index, &survivor, me as u64, &said);
            clients.insert(me, Process::start(&me.to_string(), path));
        }
    }
    settle(&index, &survivor, &harness, clients, server);
}

/// Ends everybody, and looks at what is left.
fn settle(
    index: &Catfish,
    survivor: &Client<ShmFabric>,
    harness: &Shm,
    clients: Vec<Process>,
    server: Process,
) {
    let said: Vec<_> = clients.into_iter().map(Process::kill).collect();
    for (me, said) in said.iter().enumerate() {
        assert!(!said.is_empty(), "client {me} has done something");
        // What was under way may still be done by the server.
        std::thread::sleep(Duration::from_millis(50));
        judge(index, survivor, me as u64, said);
    }
    server.kill();
    for (me, said) in said.iter().enumerate() {
        judge(index, survivor, me as u64, said);
    }
    block_on(async {
        let server = harness.server(NodeId(0));
        let tree =
            index.serve(survivor, &server, ServerSettings::default()).await.expect("the last one is gone");
        let worker = tree.worker(survivor, &server);
        worker.insert(&item(CLIENTS, 0, 1)).await.expect("the office works");
        tree.resign(survivor).await.expect("it is left");
        let walk = index.walk(survivor).await.expect("a walk");
        assert_eq!(walk.problems, Vec::new());
    });
}
