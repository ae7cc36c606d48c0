//! Writers that are killed with SIGKILL at any moment, over shared memory: other processes neither hang nor get wrong
//! answers, and the locks of a killed process are released.
//!
//! Each child process has its own keys, writes increasing versions of them, removes some, and prints every acknowledged
//! write. After its kill a key must hold the last acknowledged version or the one in progress, and a WRITE that the
//! kill interrupted must be complete.
//!
//! `FARWOOD_KILLS=N cargo test --release -p farwood-proof --test all killed_writers` kills N processes.

use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Client, ClientId, Fabric as _, Revocation, client_table, read};
use farwood_index::IndexError;
use farwood_index::drop_index;
use farwood_index::lock::NodeLocks;
use farwood_index::ordered::{self, Entries, Ordered};
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Direction, Range, Sherman, ShermanConfig, ShermanVariant};
use farwood_index::smart;
use farwood_proof::children::rerun;
use farwood_proof::shm::{Shm, attach};
use farwood_testkit::campaign::size;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::ShmFabric;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "FARWOOD_KILL_CHILD";
const CHILDREN: u64 = 3;
const KEYS_PER_CHILD: u64 = 400;
/// The longest time of an operation, with all its retries.
const OPERATION_MAX: Duration = Duration::from_secs(10);
const CACHE_BYTES: usize = 64 << 10;
/// Chunks of a memory node besides those of killed processes: of the superblock, and of live processes.
const CHUNKS: u64 = 8;
/// Kills for each further chunk. Each killed process had at least one chunk, which others must have taken over.
const KILLS_PER_CHUNK: u64 = 8;

fn key(child: u64, number: u64) -> [u8; 8] {
    // Neighbouring keys belong to different children, so every leaf has keys of several.
    (number * CHILDREN + child).to_be_bytes()
}

fn value(version: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&version.to_le_bytes());
    value[8..].copy_from_slice(&(!version).to_le_bytes());
    value
}

fn version(value: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap());
    assert_eq!(word(0), !word(8), "a mixture of two values");
    word(0)
}

/// Whether a child removes its key in that step. Removals come in long runs, so that leaves are emptied and merged.
fn removes(step: u64) -> bool {
    step / KEYS_PER_CHILD % 3 == 2
}

/// Runs a child: it writes until it is killed, and prints the key and version of each acknowledged write.
fn child(spec: &str) {
    let (me, path) = spec.split_once(':').unwrap();
    let (me, pool) = (me.parse::<u64>().unwrap(), attach(Path::new(path)));
    let client = pool.client();
    let tree = block_on(Ordered::open(&client, "kill", CACHE_BYTES)).unwrap();
    let mut out = std::io::stdout().lock();
    let start = block_on(highest(&tree, &client, me));
    for step in start + 1.. {
        let number = number_of(step);
        let key = key(me, number);
        let done = if removes(step) {
            block_on(tree.remove(&client, &key)).map(drop)
        } else {
            block_on(tree.put(&client, &key, &value(step))).map(drop)
        };
        match done {
            Ok(()) => writeln!(out, "{number} {step}").and_then(|()| out.flush()).unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The highest version among a child's keys.
async fn highest(tree: &Ordered, client: &Client<ShmFabric>, me: u64) -> u64 {
    let mut highest = 0;
    for number in 0..KEYS_PER_CHILD {
        if let Ok(Some(value)) = tree.get(client, &key(me, number)).await {
            highest = highest.max(version(&value));
        }
    }
    highest
}

/// Starts a child of the test `test`.
fn spawn(test: &str, me: u64, path: &Path) -> Child {
    rerun(module_path!(), test)
        .env(CHILD, format!("{me}:{}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Acknowledged steps of a child before it can be killed. On a busy machine, time alone would not bring them.
const STEPS_LEAST: usize = 32;

/// Kills a child some time after its first [`STEPS_LEAST`] steps; yields the last acknowledged step of each key.
fn kill(mut child: Child, after: Duration) -> Vec<u64> {
    let out = child.stdout.take().unwrap();
    let (done, steps) = std::sync::mpsc::channel();
    let listener = std::thread::spawn(move || {
        let mut last = vec![0; KEYS_PER_CHILD as usize];
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            // The kill may cut the last line short, and the test runner prints lines, too.
            let mut words = line.split_whitespace().map(str::parse::<u64>);
            if let (Some(Ok(number)), Some(Ok(step)), None) = (words.next(), words.next(), words.next())
                && number_of(step) == number
            {
                last[number as usize] = step;
                let _ = done.send(());
            }
        }
        last
    });
    for _ in 0..STEPS_LEAST {
        steps.recv_timeout(OPERATION_MAX).expect("the child writes");
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the child failed before it was killed: {status}");
    listener.join().unwrap()
}

/// The parent, which has the tree open and survives.
struct Survivor<'a> {
    tree: &'a Ordered,
    client: &'a Client<ShmFabric>,
}

/// Runs an operation, which must end within the limit; yields its answer.
fn bounded<T>(operation: impl Future<Output = Result<T, IndexError>>) -> T {
    let start = Instant::now();
    let answer = block_on(operation);
    assert!(start.elapsed() < OPERATION_MAX, "the survivor hung for {:?}", start.elapsed());
    answer.expect("the operation of a survivor")
}

impl Survivor<'_> {
    /// Compares the keys of a killed child with what was acknowledged; yields the number of keys that are present.
    fn check(&self, me: u64, acknowledged: &[u64]) -> usize {
        let in_progress = acknowledged.iter().max().unwrap() + 1;
        let mut present = 0;
        for (number, &last) in (0..).zip(acknowledged) {
            let found = bounded(self.tree.get(self.client, &key(me, number)));
            let found = found.map_or(0, |value| version(&value));
            // The step during which the child was killed may have taken effect or not.
            let removed = removes(last) || number_of(in_progress) == number && removes(in_progress);
            let right =
                found >= last && (found == last || found == in_progress || last == 0) && !removes(last);
            assert!(
                right || found == 0 && removed || found == in_progress,
                "key {number} of child {me}: step {last} was acknowledged, {found} found"
            );
            assert!(
                found == 0 || number_of(found) == number,
                "key {number} of child {me} holds the value of another key"
            );
            present += usize::from(found > 0);
        }
        present
    }

    /// Updates a key in every leaf, which takes every lock that a killed child may have held.
    fn touch_all(&self) {
        for number in 0..CHILDREN * KEYS_PER_CHILD {
            bounded(self.tree.update(self.client, &number.to_be_bytes(), &value(1)));
        }
    }

    /// Scans the tree and verifies its invariants. Lookups have found `present` keys; a change that a kill interrupted
    /// may have been completed since.
    fn check_all(&self, present: usize) {
        let mut found = Entries::new();
        let scan = self.tree.scan(self.client, Range::default(), Direction::Forward, usize::MAX, &mut found);
        bounded(scan);
        for (_, value) in found.iter() {
            version(value);
        }
        let differ = found.len().abs_diff(present);
        assert!(differ <= CHILDREN as usize, "a scan found {} of {present} entries", found.len());
        let walk = block_on(self.tree.walk(self.client)).expect("a walk");
        assert_eq!(walk.problems(), []);
    }
}

fn number_of(version: u64) -> u64 {
    version.wrapping_mul(0x9E37_79B9_7F4A_7C15) % KEYS_PER_CHILD
}

#[test]
fn survivors_of_killed_writers_work() {
    let sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 };
    let config = ordered::OrderedConfig::Sherman(ShermanConfig { sizes, ..ShermanConfig::default() });
    kill_writers("survivors_of_killed_writers_work", config);
}

#[test]
fn survivors_of_killed_radix_writers_work() {
    let config = ordered::OrderedConfig::Smart(smart::SmartConfig::default());
    kill_writers("survivors_of_killed_radix_writers_work", config);
}

#[test]
fn survivors_of_killed_writers_of_overflow_values_work() {
    let config = ordered::OrderedConfig::Smart(smart::SmartConfig {
        inline_bytes: 12,
        ..smart::SmartConfig::default()
    });
    kill_writers("survivors_of_killed_writers_of_overflow_values_work", config);
}

/// Runs the test `test`, whose child processes call this function, too.
fn kill_writers(test: &str, config: ordered::OrderedConfig) {
    if let Ok(spec) = std::env::var(CHILD) {
        return child(&spec);
    }
    let kills = std::env::var("FARWOOD_KILLS")
        .map_or(size(24, 60) as u32, |kills| kills.parse().expect("a number of kills"));
    let shm = Shm::of_bytes((CHUNKS + u64::from(kills) / KILLS_PER_CHUNK) * CHUNK_BYTES);
    let client = shm.pool().client();
    let tree = block_on(Ordered::create(&client, "kill", config, CACHE_BYTES)).expect("a tree is created");
    let survivor = Survivor { tree: &tree, client: &client };
    let mut children: Vec<_> = (0..CHILDREN).map(|me| spawn(test, me, shm.path())).collect();
    let mut acknowledged = 0;
    for round in 0..kills {
        let me = u64::from(round) % CHILDREN;
        let after = Duration::from_micros(20_000 + u64::from(round) * 7919 % 30_000);
        let last = kill(children.remove(0), after);
        acknowledged += last.iter().filter(|&&step| step > 0).count();
        survivor.check(me, &last);
        children.push(spawn(test, me, shm.path()));
    }
    let last: Vec<_> = children.into_iter().map(|child| kill(child, Duration::ZERO)).collect();
    let numbers = (0..CHILDREN).map(|child| (u64::from(kills) + child) % CHILDREN);
    let present = numbers.zip(&last).map(|(me, last)| survivor.check(me, last)).sum();
    assert!(acknowledged > kills as usize * 10, "only {acknowledged} writes were acknowledged");
    survivor.touch_all();
    survivor.check_all(present);
}

/// Runs a child that takes the lock of the root leaf and holds it until it is killed.
fn hold(path: &Path) {
    let pool = attach(path);
    let client = pool.client();
    let tree = block_on(Sherman::open(&client, "kill", CACHE_BYTES)).unwrap();
    let locks = NodeLocks::new(tree.options().lock, pool.shape(), tree.layout().slot_bytes);
    let root = tree.entry().root();
    let word = block_on(client.post(read(root.at()))).unwrap().check(&()).unwrap().word();
    let root = root.open_pointer::<[u8]>(word).unwrap().unwrap();
    let _held = block_on(locks.acquire(&client, root, "hold")).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "held").and_then(|()| out.flush()).unwrap();
    loop {
        std::thread::park();
    }
}

/// Starts such a child of the test `test`; yields it when it holds the lock.
fn holder(test: &str, path: &Path) -> Child {
    let mut program = rerun(module_path!(), test);
    let mut holder = program.env(CHILD, path).stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(holder.stdout.take().unwrap());
    assert!(out.lines().map_while(Result::ok).any(|line| line.contains("held")), "the lock is held");
    holder
}

#[test]
fn a_sweep_releases_only_the_locks_of_crashed_clients() {
    if let Ok(path) = std::env::var(CHILD) {
        return hold(Path::new(&path));
    }
    let shm = Shm::new();
    let client = shm.pool().client();
    let tree = block_on(Sherman::create(&client, "kill", ShermanConfig::default(), CACHE_BYTES)).unwrap();
    let mut holder = holder("a_sweep_releases_only_the_locks_of_crashed_clients", shm.path());
    assert_eq!(block_on(tree.sweep_locks(&client)).unwrap(), 0, "the holder lives");
    assert_eq!(block_on(tree.walk(&client)).unwrap().locks_held, 1, "the lock is still held");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(block_on(tree.walk(&client)).unwrap().locks_of_crashed_clients, 1, "a walk releases no lock");
    assert_eq!(block_on(tree.sweep_locks(&client)).unwrap(), 1);
    let walk = block_on(tree.walk(&client)).unwrap();
    assert_eq!((walk.locks_of_crashed_clients, walk.locks_held, walk.problems), (0, 0, vec![]));
    assert_eq!(block_on(tree.sweep_locks(&client)).unwrap(), 0, "the sweep released all");
}

#[test]
fn the_lock_of_a_killed_process_is_taken_over() {
    if let Ok(path) = std::env::var(CHILD) {
        return hold(Path::new(&path));
    }
    let shm = Shm::new();
    let client = shm.pool().client();
    for (variant, name) in ShermanVariant::ALL {
        let config = ShermanConfig { options: variant.features(), ..ShermanConfig::default() };
        let tree =
            block_on(Sherman::create(&client, "kill", config, CACHE_BYTES)).expect("a tree is created");
        let mut holder = holder("the_lock_of_a_killed_process_is_taken_over", shm.path());
        let walk = block_on(tree.walk(&client)).unwrap();
        assert!(walk.problems.iter().any(|problem| problem.what.contains("held by")), "{name}: {walk:?}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        let start = Instant::now();
        block_on(tree.put(&client, &[0; 8], &[1; 8])).expect("a put that takes the lock");
        assert!(start.elapsed() < Duration::from_secs(1), "{name}: {:?}", start.elapsed());
        assert_eq!(block_on(tree.walk(&client)).unwrap().problems, [], "{name}");
        drop(tree);
        block_on(drop_index(&client, "kill")).expect("no client has it open");
    }
}

/// A stopped process keeps its locks and its client slot.
#[test]
fn a_stopped_process_keeps_its_slot() {
    if let Ok(spec) = std::env::var(CHILD) {
        return child(&spec);
    }
    let shm = Shm::new();
    let client = shm.pool().client();
    let sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 };
    let tree = block_on(Sherman::create(
        &client,
        "kill",
        ShermanConfig { sizes, ..ShermanConfig::default() },
        CACHE_BYTES,
    ));
    drop(tree.expect("a tree is created"));
    let before: BTreeSet<ClientId> = residents(&client);
    let mut child = spawn("a_stopped_process_keeps_its_slot", 0, shm.path());
    let stopped = loop {
        let new: BTreeSet<_> = residents(&client).difference(&before).copied().collect();
        if let Some(&new) = new.first() {
            break new;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    signal(&child, "STOP");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(block_on(client.fabric().revoke(stopped)).unwrap(), Revocation::Alive);
    let newcomer = attach(shm.path());
    assert_ne!(newcomer.identity().slot, stopped.slot, "the slot of a stopped process is not reused");
    drop(newcomer);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(block_on(client.fabric().revoke(stopped)).unwrap(), Revocation::Gone);
    let newcomer = attach(shm.path());
    assert_eq!(newcomer.identity().slot, stopped.slot, "the slot of a process that has ended is reused");
    assert_ne!(newcomer.identity().epoch, stopped.epoch);
}

fn residents(client: &Client<ShmFabric>) -> BTreeSet<ClientId> {
    block_on(client_table::load(client))
        .unwrap()
        .attached
        .into_iter()
        .map(|resident| resident.client)
        .collect()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}
