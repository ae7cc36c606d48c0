//! A process of clients. Each client has keys that no other client writes, with increasing steps, so it knows their
//! values. The values of other keys must not be torn, must belong to their keys, and their steps must never decrease.

use super::progress_file::{ProgressFile, Steps};
use super::{CACHE_BYTES, LoadParent, NAME};
use crate::served::{OverTcp, attach};
use farwood_fabric::Client;
use farwood_index::ordered::{Entries, Ordered};
use farwood_index::sherman::{Direction, Range};
use farwood_testkit::harness::TestRng;
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::tcp::TcpFabric;
use std::cell::Cell;
use std::io::Read as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keys that one client writes.
pub(super) const KEYS_PER_CLIENT: u64 = 200;
/// Entries of a scan.
const SCAN_ENTRIES: usize = 20;
/// The longest time of an operation, nanoseconds, including the locks of killed clients that it takes.
const OPERATION_MAX: u64 = 30_000_000_000;

/// Key `number` of a process. Neighbouring keys belong to different processes, so every leaf has keys of several.
pub(super) fn key(processes: u64, process: u64, number: u64) -> [u8; 8] {
    (number * processes + process).to_be_bytes()
}

/// The value of a key at a step.
pub(super) fn value(key: [u8; 8], step: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&step.to_le_bytes());
    value[8..].copy_from_slice(&(!step ^ u64::from_be_bytes(key)).to_le_bytes());
    value
}

/// The step of a value, which must be the key's.
fn step_of(key: &[u8], value: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("values have 16 bytes"));
    let number = u64::from_be_bytes(key.try_into().expect("keys have 8 bytes"));
    assert_eq!(
        word(8),
        !word(0) ^ number,
        "key {number} holds a mixture of values, or the value of another key"
    );
    word(0)
}

/// Whether a step removes its key.
fn removes(step: u64) -> bool {
    step % 5 == 4
}

/// The step that a read must find after a step, or `None` if that step removes the key.
fn expected_after(step: u64) -> Option<u64> {
    (step > 0 && !removes(step)).then_some(step)
}

/// Whether a read may find `found` if step `done` was acknowledged and no step after `asked` was requested: several
/// clients may have been killed in turn, each during a step that took effect or not.
fn is_possible(found: Option<u64>, done: u64, asked: u64) -> bool {
    (done..=asked).any(|step| found == expected_after(step))
}

/// One client.
struct Worker<'a> {
    tree: &'a Ordered,
    client: Client<TcpFabric>,
    progress: &'a ProgressFile,
    random: TestRng,
    processes: u64,
    process: u64,
    /// The client's number in its process.
    number: u64,
    clients: u64,
    /// The highest step read of every key.
    seen: Vec<u64>,
}

/// Runs a process of clients: `PROCESSES CLIENTS SEED START ADDRESS FOLDER`.
pub(super) fn run(process: u64, spec: &str) {
    let mut words = spec.splitn(6, ' ');
    let mut word = || words.next().expect("six words");
    let mut number = || word().parse::<u64>().expect("a number");
    let (processes, clients, seed, start) = (number(), number(), number(), number());
    let pool = attach::<OverTcp>(word());
    let folder = word();
    let progress = ProgressFile::open(Path::new(folder), process, clients * KEYS_PER_CLIENT);
    let tree = block_on(Ordered::open(&pool.client(), NAME, CACHE_BYTES)).expect("the tree exists");
    let over = watch_parent();
    let operations = Cell::new(0);
    let work = |number: u64| {
        let mut worker = Worker {
            tree: &tree,
            client: pool.client(),
            progress: &progress,
            random: TestRng::new(seed ^ (start << 20) ^ (process << 10) ^ number),
            processes,
            process,
            number,
            clients,
            seen: vec![0; (processes * clients * KEYS_PER_CLIENT) as usize],
        };
        let (over, operations) = (&over, &operations);
        Box::pin(async move {
            worker.resolve_interrupted().await;
            while !over.load(Relaxed) {
                worker.run_operation().await;
                operations.set(operations.get() + 1);
            }
        }) as Pin<Box<dyn Future<Output = ()>>>
    };
    run_all((0..clients).map(work).collect());
    block_on(tree.leave(&pool.client())).expect("the process leaves");
}

/// A flag that is set when the parent asks this process to leave, or has ended.
fn watch_parent() -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Relaxed);
    });
    over
}

impl Worker<'_> {
    fn key(&self, number: u64) -> [u8; 8] {
        key(self.processes, self.process, number)
    }

    /// Draws a key of this client, by its number in the process.
    fn own(&mut self) -> u64 {
        self.number * KEYS_PER_CLIENT + self.random.below(KEYS_PER_CLIENT)
    }

    /// Repeats the step during which the previous client with this number was killed: it may have taken effect or not.
    async fn resolve_interrupted(&mut self) {
        for number in self.number * KEYS_PER_CLIENT..(self.number + 1) * KEYS_PER_CLIENT {
            let Steps { asked, done } = self.progress.steps(number);
            let found = self.find(number).await;
            let right = is_possible(found, done, asked);
            assert!(
                right,
                "key {number} of {}: step {done} was acknowledged, {asked} requested, {found:?} found",
                self.process
            );
            if asked != done {
                self.write(number, asked + 1).await;
            }
        }
    }

    async fn run_operation(&mut self) {
        let number = self.own();
        match self.random.below(20) {
            0..9 => {
                let step = self.progress.steps(number).done + 1;
                self.write(number, step).await;
            }
            9..15 => {
                let expected = expected_after(self.progress.steps(number).done);
                let found = self.find(number).await;
                assert_eq!(found, expected, "key {number} of process {}", self.process);
            }
            15..19 => self.read_any().await,
            _ => self.scan(number).await,
        }
    }

    async fn write(&mut self, number: u64, step: u64) {
        let key = self.key(number);
        self.progress.ask(number, step);
        let since = self.now();
        if removes(step) {
            self.tree.remove(&self.client, &key).await.expect("a removal");
        } else {
            self.tree.put(&self.client, &key, &value(key, step)).await.expect("a put");
        }
        self.check_duration(since);
        self.progress.done(number, step);
    }

    async fn find(&mut self, number: u64) -> Option<u64> {
        let (key, since) = (self.key(number), self.now());
        let found = self.tree.get(&self.client, &key).await.expect("a get");
        self.check_duration(since);
        found.map(|value| step_of(&key, &value))
    }

    /// Reads any key: its step never decreases.
    async fn read_any(&mut self) {
        let all = self.processes * self.clients * KEYS_PER_CLIENT;
        let key = self.random.below(all).to_be_bytes();
        if let Some(value) = self.tree.get(&self.client, &key).await.expect("a get") {
            self.check_step(&key, &value);
        }
    }

    async fn scan(&mut self, number: u64) {
        let (from, mut found) = (self.key(number), Entries::new());
        let range = Range { from: Some(&from), to: None };
        let scan = self.tree.scan(&self.client, range, Direction::Forward, SCAN_ENTRIES, &mut found);
        scan.await.expect("a scan");
        let mut last = None;
        for (key, value) in found.iter() {
            assert!(last.is_none_or(|last| last < key) && key >= &from[..], "a scan is in order");
            self.check_step(key, value);
            last = Some(key);
        }
    }

    fn check_step(&mut self, key: &[u8], value: &[u8]) {
        let number = u64::from_be_bytes(key.try_into().expect("keys have 8 bytes"));
        let (step, seen) = (step_of(key, value), &mut self.seen[number as usize]);
        assert!(step >= *seen, "key {number} went back from step {seen} to {step}");
        *seen = step;
    }

    fn now(&self) -> u64 {
        use farwood_fabric::Fabric as _;
        self.client.fabric().now()
    }

    fn check_duration(&self, since: u64) {
        let took = self.now() - since;
        assert!(took < OPERATION_MAX, "an operation took {} ms", took / 1_000_000);
    }
}

/// Compares the tree with the progress file of a process that has ended; yields the number of acknowledged steps.
pub(super) fn check(parent: &LoadParent<'_>, process: u64) -> u64 {
    let keys = parent.load.clients * KEYS_PER_CLIENT;
    let progress = ProgressFile::open(parent.folder, process, keys);
    let mut steps = 0;
    for number in 0..keys {
        let (Steps { asked, done }, key) =
            (progress.steps(number), key(parent.load.processes, process, number));
        let found = block_on(parent.tree.get(&parent.client, &key)).expect("a get");
        let found = found.map(|value| step_of(&key, &value));
        let right = is_possible(found, done, asked);
        assert!(
            right,
            "key {number} of {process}: step {done} was acknowledged, {asked} requested, {found:?} found"
        );
        steps += done;
    }
    steps
}
