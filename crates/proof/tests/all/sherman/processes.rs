//! Several processes with two threads each use few keys of one tree, over shared memory and over TCP: some order
//! explains the history of all their operations. Other tests kill processes during operations.
//!
//! Both fabrics use the monotonic clock of the machine, which is the same in all processes. A fence between clock and
//! operation keeps the effect of an operation between its two times.

use farwood_fabric::{Client, Fabric};
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Sherman, ShermanConfig, ShermanVariant};
use farwood_proof::children::rerun;
use farwood_proof::served::Tcp;
use farwood_proof::shared_pool::{PoolAttachment as _, SharedPool};
use farwood_proof::shm::Shm;
use farwood_proof::workload::{
    CHURNING, MIXED, ScanSpan, TreeRequest, ValueLengths, Workload, bounds, perform, scan,
};
use farwood_proof::yielding::Yielding;
use farwood_testkit::campaign::size;
use farwood_testkit::history::{Action, ByteString, Direction, History, Recorder, Scan};
use farwood_transport::runtime::block_on;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::{Duration, Instant};

const CHILD: &str = "FARWOOD_HISTORY_CHILD";
const CHILDREN: u64 = 4;
const THREADS: u64 = 2;
const KEYS: u64 = 24;
const SIZES: Sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 };
const CACHE_BYTES: usize = 4 << 10;
/// Operations of each thread, in runs without kills.
const STEPS: usize = 2_500;
/// Time limit for deciding whether the history of a key is correct.
const PATIENCE: Duration = Duration::from_mins(2);

fn keys() -> Vec<ByteString> {
    (0..KEYS).map(|number| (number * 3).to_be_bytes().to_vec()).collect()
}

/// One thread of one process: a tree, a client and a journal.
struct Worker<'a, F, W> {
    tree: &'a Sherman,
    client: Client<Yielding<&'a F>>,
    number: u64,
    journal: Recorder<W>,
}

impl<F: Fabric, W: Write> Worker<'_, F, W> {
    fn call_time(&self) -> u64 {
        let now = self.client.fabric().now();
        fence(SeqCst);
        now
    }

    fn end_time(&self) -> u64 {
        fence(SeqCst);
        self.client.fabric().now()
    }

    /// Performs a request.
    fn run(&mut self, request: TreeRequest) {
        match request {
            TreeRequest::Operation(key, action) => self.operate(&key, &action),
            TreeRequest::Scan(span) | TreeRequest::Snapshot(span) => self.scan(&span),
            TreeRequest::Count => {
                block_on(self.tree.count(&self.client)).expect("the operation succeeds");
            }
            TreeRequest::Leave => block_on(self.tree.leave(&self.client)).expect("the operation succeeds"),
        }
    }

    fn operate(&mut self, key: &[u8], action: &Action) {
        let call = self.call_time();
        let pending = self.journal.call(call, key, action).expect("the journal is written");
        let answer = block_on(perform(self.tree, &self.client, key, action)).expect("the operation succeeds");
        let end = self.end_time();
        self.journal.answer(pending, end, &answer).expect("the journal is written");
    }

    fn scan(&mut self, span: &ScanSpan) {
        let call = self.call_time();
        let entries = block_on(scan(self.tree, &self.client, span)).expect("the operation succeeds");
        let (end, client, (from, to)) = (self.end_time(), self.number, bounds(span));
        let (direction, limit) = (span.direction, span.limit);
        let scan = Scan { client, call, end, direction, from, to, limit, entries };
        self.journal.scan(&scan).expect("the journal is written");
    }
}

/// Whether a process writes its journals at its end, or each line at once because it will be killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Natural,
    Killed,
}

/// A child process: `NUMBER:SEED:START:END:FOLDER:PLACE`.
fn child<S: SharedPool>(spec: &str) {
    let mut words = spec.splitn(6, ':');
    let mut word = || words.next().expect("six words");
    let mut number = || word().parse::<u64>().expect("a number");
    let (me, seed, start) = (number(), number(), number());
    let end = if word() == "killed" { End::Killed } else { End::Natural };
    let path = PathBuf::from(word());
    let pool = S::attach(word());
    let tree = block_on(Sherman::open(&pool.client(), "history", CACHE_BYTES)).expect("the tree exists");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, tree, path) = (&pool, &tree, &path);
            scope.spawn(move || run_thread::<S>(pool, tree, me * THREADS + thread, seed, start, end, path));
        }
    });
}

fn run_thread<S: SharedPool>(
    pool: &S::Pool,
    tree: &Sherman,
    me: u64,
    seed: u64,
    start: u64,
    end: End,
    path: &Path,
) {
    let (base, keys) = (pool.client(), keys());
    let client = Client::new(Yielding::new(base.fabric(), seed ^ me));
    let workload = Workload::new(
        &keys,
        ValueLengths::One(SIZES.value_bytes),
        [MIXED, CHURNING][me as usize % 2],
        me,
        seed,
    );
    let mut file = File::create(path.join(format!("{me}.journal"))).expect("a journal is created");
    while client.fabric().now() < start {
        std::thread::yield_now();
    }
    if end == End::Killed {
        let mut worker = Worker { tree, client, number: me, journal: Recorder::new(me, file) };
        workload.for_each(|request| worker.run(request));
        return;
    }
    let mut worker = Worker { tree, client, number: me, journal: Recorder::new(me, Vec::new()) };
    workload.take(STEPS).for_each(|request| worker.run(request));
    file.write_all(&worker.journal.into_inner()).expect("the journal is written");
}

/// The parent's side of one run.
struct Run<S> {
    shared: S,
    test: &'static str,
    seed: u64,
    started: u64,
}

impl<S: SharedPool> Run<S> {
    fn new(test: &'static str, variant: ShermanVariant, seed: u64) -> (Self, Sherman) {
        let shared = S::default();
        let config = ShermanConfig { sizes: SIZES, options: variant.features(), ..ShermanConfig::default() };
        let tree = block_on(Sherman::create(&shared.pool().client(), "history", config, CACHE_BYTES));
        (Self { shared, test, seed, started: 0 }, tree.expect("a tree is created"))
    }

    /// Starts a child that begins at `start`.
    fn start(&mut self, start: u64, end: End) -> Child {
        self.started += 1;
        let end = if end == End::Killed { "killed" } else { "natural" };
        let (folder, place) = (self.shared.folder().display(), self.shared.address());
        let spec = format!("{}:{}:{start}:{end}:{folder}:{place}", self.started, self.seed);
        let mut command = rerun(module_path!(), self.test);
        command.env(CHILD, spec).stdout(Stdio::null());
        command.spawn().expect("a process starts")
    }

    /// Waits until the journals of child `number` have `bytes` bytes.
    fn wait(&self, number: u64, bytes: u64) {
        let journal = |thread| self.shared.folder().join(format!("{}.journal", number * THREADS + thread));
        let length = |thread| std::fs::metadata(journal(thread)).map_or(0, |journal| journal.len());
        let since = Instant::now();
        while (0..THREADS).map(length).sum::<u64>() < bytes {
            assert!(since.elapsed() < PATIENCE, "child {number} is idle");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Reads the journals of all children.
    fn history(&self) -> History {
        let mut history = History::default();
        for number in THREADS..(self.started + 1) * THREADS {
            let path = self.shared.folder().join(format!("{number}.journal"));
            // A child that was killed early has no journal.
            let Ok(journal) = File::open(path) else { continue };
            history.merge(History::read(BufReader::new(journal)).expect("a journal"));
        }
        history
    }

    /// Reads and removes all keys, and checks the history.
    fn check(&self, tree: &Sherman) -> usize {
        let base = self.shared.pool().client();
        let client = Client::new(Yielding::new(base.fabric(), self.seed));
        let mut last = Worker { tree, client, number: 0, journal: Recorder::new(0, Vec::new()) };
        for key in keys() {
            last.operate(&key, &Action::Get);
            // The holder of the leaf's lock may have ended.
            last.operate(&key, &Action::Remove);
        }
        last.scan(&ScanSpan::all(Direction::Forward));
        last.scan(&ScanSpan::all(Direction::Backward));
        let mut history = self.history();
        history.merge(History::read(&last.journal.into_inner()[..]).expect("a journal"));
        let verdict = history.check(PATIENCE);
        verdict.expect_right();
        assert!(overlaps(&history) > 100, "only {} operations overlapped", overlaps(&history));
        verdict.operations
    }
}

/// The number of operations that began during another client's operation on the same key.
fn overlaps(history: &History) -> usize {
    let mut operations: Vec<_> = history
        .operations
        .iter()
        .filter_map(|one| Some((&one.key, one.call, one.answer.as_ref()?.0)))
        .collect();
    operations.sort_unstable();
    operations.windows(2).filter(|pair| pair[0].0 == pair[1].0 && pair[1].1 < pair[0].2).count()
}

fn check_processes<S: SharedPool>(test: &'static str, variants: &[(ShermanVariant, &str)]) {
    if let Ok(spec) = std::env::var(CHILD) {
        return child::<S>(&spec);
    }
    for (seed, &(variant, name)) in (0..).zip(variants) {
        let (mut run, tree) = Run::<S>::new(test, variant, seed);
        let start = run.shared.pool().client().fabric().now() + 60_000_000;
        let children: Vec<_> = (0..CHILDREN).map(|_| run.start(start, End::Natural)).collect();
        for mut child in children {
            assert!(child.wait().expect("the process ends").success(), "{name}: a child failed");
        }
        let operations = run.check(&tree);
        assert!(operations > (CHILDREN * THREADS) as usize * STEPS * 8 / 10, "{name}: {operations}");
        let walk = block_on(tree.walk(&run.shared.pool().client())).expect("a walk");
        assert_eq!((walk.problems, walk.entries, walk.half_linked), (vec![], 0, 0), "{name}");
    }
}

#[test]
fn processes_on_hot_keys_agree() {
    check_processes::<Shm>("processes_on_hot_keys_agree", &ShermanVariant::ALL);
}

#[test]
fn processes_on_hot_keys_agree_over_tcp() {
    // The other variants do not depend on the fabric.
    let some: Vec<_> = ShermanVariant::ALL.into_iter().rev().step_by(3).take(size(1, 8) as usize).collect();
    check_processes::<Tcp>("processes_on_hot_keys_agree_over_tcp", &some);
}

const KILLED: [ShermanVariant; 2] = [ShermanVariant::Sherman, ShermanVariant::FgPlus];
const KILLS: u64 = 12;
/// Bytes of a child's journals when it is killed: about 1,000 operations.
const JOURNAL_BYTES: u64 = 120_000;

fn killed_processes<S: SharedPool>(test: &'static str, variants: &[ShermanVariant], kills: u64) {
    if let Ok(spec) = std::env::var(CHILD) {
        return child::<S>(&spec);
    }
    for &variant in variants {
        let (mut run, tree) = Run::<S>::new(test, variant, 7);
        let mut children: Vec<_> = (0..CHILDREN - 1).map(|_| run.start(0, End::Killed)).collect();
        for kill in 0..kills {
            // The kill of the oldest child comes after it has written, at a different point each time.
            run.wait(kill + 1, JOURNAL_BYTES + kill * 997);
            kill_child(children.remove(0));
            children.push(run.start(0, End::Killed));
        }
        children.into_iter().for_each(kill_child);
        let operations = run.check(&tree);
        assert!(operations > 1_000, "only {operations} operations");
    }
}

#[test]
fn killed_processes_leave_an_explained_history() {
    killed_processes::<Shm>("killed_processes_leave_an_explained_history", &KILLED, KILLS);
}

#[test]
fn killed_processes_leave_an_explained_history_over_tcp() {
    killed_processes::<Tcp>("killed_processes_leave_an_explained_history_over_tcp", &KILLED, KILLS);
}

fn kill_child(mut child: Child) {
    child.kill().expect("the process runs");
    let status = child.wait().expect("the process ends");
    assert_eq!(status.code(), None, "a child failed before it was killed");
}

/// The guests of `cargo xtask rxe` run this module.
mod over_rdma {
    use super::{KILLED, check_processes, killed_processes};
    use farwood_index::sherman::ShermanVariant;
    use farwood_proof::served::{Rdma, has_rdma};

    #[test]
    fn processes_on_hot_keys_agree() {
        if has_rdma() {
            check_processes::<Rdma>(
                "over_rdma::processes_on_hot_keys_agree",
                &[(ShermanVariant::Sherman, ShermanVariant::Sherman.name())],
            );
        }
    }

    #[test]
    fn killed_processes_leave_an_explained_history() {
        if has_rdma() {
            let test = "over_rdma::killed_processes_leave_an_explained_history";
            killed_processes::<Rdma>(test, &KILLED[..1], 4);
        }
    }
}
