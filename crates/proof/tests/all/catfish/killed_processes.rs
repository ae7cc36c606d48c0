//! A spatial index whose clients and server are killed with SIGKILL at any moment, over shared memory: during a
//! message, a commit or a response.
//!
//! Each client moves its own items by message, one after the other, and prints every acknowledged move, and the
//! positions that it finds when it connects. After its kill
//! each item must be at its last acknowledged position, or at the next one if its move was in progress. All other
//! processes continue, a new server replaces a killed one, and the tree stays valid.
//!
//! `FARWOOD_KILLS=N cargo test --release -p farwood-proof --test all catfish::killed` kills N processes instead of 12.

use farwood_fabric::{Client, NodeId, Server as _};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, CatfishConfig, Inbox, Issue, Item, NotificationMode, Query, Reader, Rectangle, RingRpc,
    ServerSettings, Service, ServiceSettings, SpatialRpc as _,
};
use farwood_proof::children::rerun;
use farwood_proof::shm::{Shm, attach};
use farwood_testkit::Harness as _;
use farwood_testkit::harness::{ServerHarness as _, TestRng};
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::shm::{ShmFabric, ShmPool};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CHILD: &str = "FARWOOD_CATFISH_KILL_CHILD";
const NAME: &str = "kill";
const CLIENTS: u64 = 2;
/// Items of each client.
const ITEMS: u64 = 40;
const CONNECTIONS: usize = 16;
/// The longest time of a step. A client checks after 20 ms of silence whether its server is alive.
const PATIENCE: Duration = Duration::from_mins(1);

/// Item `number` of client `me` at its position after `step`.
fn item(me: u64, number: u64, step: u64) -> Item {
    let id = me * ITEMS + number;
    Item { bounds: Rectangle::point([step as f64, id as f64]).expect("finite coordinates"), id }
}

/// Finds an item; yields the step of its position. It is never at two positions.
async fn find(reader: &mut Reader<'_, ShmFabric>, me: u64, number: u64) -> Option<u64> {
    let line = me * ITEMS + number;
    let window = Rectangle::new([0.0, line as f64], [1e15, line as f64]).expect("a valid rectangle");
    let mut found = Vec::new();
    reader.search(&Query::intersecting(window), &mut found).await.expect("a search needs no server");
    assert!(found.len() <= 1, "{found:?}");
    found.first().map(|item| item.bounds.min()[0] as u64)
}

/// Runs a client: it moves its items one after the other, and reconnects when its server is lost.
fn run_client(me: u64, pool: &ShmPool) {
    let (client, memory) = (pool.client(), pool.server(NodeId(0)).expect("a memory node"));
    let index = block_on(Catfish::open(&client, NAME)).expect("the index exists");
    let mut reader = Reader::new(&index, &client, Issue::Many);
    let mut out = std::io::stdout().lock();
    // The server may complete the last move of the killed client after this client has read the position.
    let mut may_have_moved = true;
    loop {
        let mut at = BTreeMap::new();
        for number in 0..ITEMS {
            if let Some(step) = block_on(find(&mut reader, me, number)) {
                at.insert(number, step);
                // A move may have taken effect although its server was lost before the acknowledgement.
                writeln!(out, "found {number} {step}").expect("the parent reads");
            }
        }
        let inbox = Inbox { local: memory.local(), at: None };
        let connected = block_on(RingRpc::connect(&index, &client, inbox, NotificationMode::Event));
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
                Ok(true) => {}
                Ok(false) => {
                    assert!(may_have_moved, "item {number} is present");
                    may_have_moved = false;
                    block_on(connection.close()).expect("the connection is closed");
                    break;
                }
                // The move took effect or not: read the position again.
                Err(IndexError::ServerLost { .. }) => {
                    block_on(connection.close()).expect("the connection is closed");
                    break;
                }
                Err(error) => panic!("{error}"),
            }
            at.insert(number, step);
            writeln!(out, "{number} {step}").and_then(|()| out.flush()).expect("the parent reads");
        }
    }
}

/// A task that a server runs until it is killed.
type Flow<'f> = Pin<Box<dyn Future<Output = Result<(), IndexError>> + 'f>>;

#[expect(clippy::print_stdout, reason = "the parent waits for the line")]
fn print(line: &str) {
    println!("{line}");
}

/// Runs a server: it serves as soon as the previous server is proven to have ended.
fn run_server(pool: &ShmPool) {
    let (client, server) = (pool.client(), pool.server(NodeId(0)).expect("a memory node"));
    let index = block_on(Catfish::open(&client, NAME)).expect("the index exists");
    let tree = loop {
        match block_on(index.serve(&client, &server, ServerSettings::default())) {
            Ok(tree) => break tree,
            Err(IndexError::Served { .. }) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    };
    let service =
        Service::new(&tree, ServiceSettings { silence_ns: 50_000_000, ..ServiceSettings::default() });
    tree.publish_connections(&server, CONNECTIONS).expect("local memory");
    print("serving");
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| pool.client()).collect();
    let mut flows: Vec<Flow<'_>> = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        flows.push(Box::pin(service.connection(number, client, &server)));
    }
    flows.push(Box::pin(service.heartbeats(&client, &server, || 0.5)));
    flows.push(Box::pin(service.dispatch_until_end(&server, &client)));
    let ended: Vec<_> = run_all(flows);
    panic!("a server ended: {ended:?}");
}

/// A child process, and the lines that it has printed.
struct Process {
    child: Child,
    output: Arc<Mutex<Output>>,
    /// Reads the lines until the process has ended.
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Output {
    /// The last step of each item that was acknowledged, or found after a connection was lost.
    at: BTreeMap<u64, u64>,
    /// Acknowledged moves, and messages of a server.
    lines: u64,
}

impl Process {
    fn start(what: &str, path: &Path) -> Self {
        let mut child = rerun(module_path!(), "clients_and_servers_survive_the_death_of_others")
            .env(CHILD, format!("{what}:{}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let (output, out) = (Arc::<Mutex<Output>>::default(), child.stdout.take().expect("a pipe"));
        let shared = Arc::clone(&output);
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let (found, position) = match line.strip_prefix("found ") {
                    Some(position) => (true, position),
                    None => (false, line.as_str()),
                };
                let mut words = position.split_whitespace().map(str::parse::<u64>);
                let mut said = shared.lock().expect("no thread panics while it holds the lock");
                if let (Some(Ok(number)), Some(Ok(step)), None) = (words.next(), words.next(), words.next())
                    && step % ITEMS == number
                {
                    said.at.insert(number, step);
                    said.lines += u64::from(!found);
                } else if line.trim() == "serving" {
                    said.lines += 1;
                }
            }
        });
        Self { child, output, listener: Some(listener) }
    }

    /// Waits until the process has printed `more` further lines.
    fn wait(&mut self, more: u64) {
        let start = Instant::now();
        let lines =
            |process: &Self| process.output.lock().expect("no thread panics while it holds the lock").lines;
        let wanted = lines(self) + more;
        while lines(self) < wanted {
            assert!(start.elapsed() < PATIENCE, "the process hangs: {} of {wanted} lines", lines(self));
            if let Some(status) = self.child.try_wait().expect("a child") {
                panic!("the process failed: {status}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the process; yields the acknowledged steps.
    fn kill(mut self) -> BTreeMap<u64, u64> {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
        self.listener.take().expect("a process is killed once").join().expect("a listener does not panic");
        let said = self.output.lock().expect("no thread panics while it holds the lock");
        said.at.clone()
    }
}

impl Drop for Process {
    /// A test that fails kills its children.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that every item of a killed client is at its acknowledged position, or at the next one if its move was in
/// progress. The server may still be completing that move.
fn check_items(index: &Catfish, client: &Client<ShmFabric>, me: u64, said: &BTreeMap<u64, u64>) {
    let mut reader = Reader::new(index, client, Issue::Many);
    let last = said.values().max().copied().unwrap_or(0);
    for (&number, &step) in said {
        let in_progress = (last + 1) % ITEMS == number;
        let is_right = |found| found == Some(step) || in_progress && found == Some(last + 1);
        let (start, mut found) = (Instant::now(), block_on(find(&mut reader, me, number)));
        while in_progress && !is_right(found) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
            found = block_on(find(&mut reader, me, number));
        }
        assert!(
            is_right(found),
            "item {number} of client {me}: step {step} was acknowledged, {last} was the last step, {found:?} found"
        );
    }
}

#[test]
fn clients_and_servers_survive_the_death_of_others() {
    if let Ok(spec) = std::env::var(CHILD) {
        let (what, path) = spec.split_once(':').expect("a role and a path");
        let pool = attach(Path::new(path));
        match what.parse::<u64>() {
            Ok(me) => run_client(me, &pool),
            Err(_) => run_server(&pool),
        }
        unreachable!("children run until they are killed");
    }
    let kills = std::env::var("FARWOOD_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    let harness = Shm::default();
    let survivor = harness.client();
    let config = CatfishConfig { blocks: 1, ring_bytes: 1024, ..CatfishConfig::default() };
    let index = block_on(Catfish::create(&survivor, NAME, config)).expect("a pool");
    let path = harness.path();
    let mut server = Process::start("server", path);
    server.wait(1);
    let mut clients: Vec<_> = (0..CLIENTS).map(|me| Process::start(&me.to_string(), path)).collect();
    let mut random = TestRng::new(11);
    for kill in 0..kills {
        for client in &mut clients {
            client.wait(3);
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        if kill % 3 == 2 {
            server.kill();
            server = Process::start("server", path);
            server.wait(1);
        } else {
            let me = random.below(CLIENTS) as usize;
            let said = clients.remove(me).kill();
            check_items(&index, &survivor, me as u64, &said);
            clients.insert(me, Process::start(&me.to_string(), path));
        }
    }
    finish(&index, &survivor, &harness, clients, server);
}

/// Kills all processes, and checks the tree.
fn finish(
    index: &Catfish,
    survivor: &Client<ShmFabric>,
    harness: &Shm,
    mut clients: Vec<Process>,
    server: Process,
) {
    // The client that replaced the last killed one may not have moved an item yet.
    for client in &mut clients {
        client.wait(1);
    }
    let said: Vec<_> = clients.into_iter().map(Process::kill).collect();
    for (me, said) in said.iter().enumerate() {
        assert!(!said.is_empty(), "client {me} has moved items");
        // The server may still complete the move in progress.
        std::thread::sleep(Duration::from_millis(50));
        check_items(index, survivor, me as u64, said);
    }
    server.kill();
    for (me, said) in said.iter().enumerate() {
        check_items(index, survivor, me as u64, said);
    }
    block_on(async {
        let server = harness.server(NodeId(0));
        let tree = index
            .serve(survivor, &server, ServerSettings::default())
            .await
            .expect("the last server has ended");
        let worker = tree.worker(survivor, &server);
        worker.insert(&item(CLIENTS, 0, 1)).await.expect("an insert");
        tree.release_lease(survivor).await.expect("the server resigns");
        let walk = index.walk(survivor).await.expect("a walk");
        assert_eq!(walk.problems, Vec::new());
    });
}
