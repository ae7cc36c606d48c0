//! A load test over TCP of any duration, in which clients are killed, leave and start at random: no answer is wrong, no
//! memory is lost, and no lock stays held.
//!
//! | file | content |
//! |---|---|
//! | `load.rs` | the parent: starts and kills processes, samples the memory nodes, and checks the result |
//! | `load/client.rs` | a process of clients, each with keys that no other client writes |
//! | `load/progress_file.rs` | the steps that a process has requested and completed, in a file that survives it |
//!
//! All processes run the same program; the environment variable [`ROLE`] selects the role.

mod client;
mod progress_file;

use crate::served::{OverTcp, attach};
use client::{KEYS_PER_CLIENT, key, value};
use farwood_fabric::{Client, NodeId, chunks};
use farwood_index::ordered::{Ordered, OrderedConfig, System};
use farwood_index::sherman::layout::Sizes;
use farwood_index::{sherman, smart, sphinx};
use farwood_testkit::harness::TestRng;
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{MemoryNode, NodeSpec, TcpFabric, TcpPool};
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The environment variable with the role of a process; the program calls [`run_child`] first.
pub const ROLE: &str = "FARWOOD_LOAD_ROLE";
const NAME: &str = "load";
const CACHE_BYTES: usize = 1 << 20;
const SIZES: Sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 512 };
const MEMORY_NODES: usize = 2;
const HOST_BYTES: u64 = 512 << 20;
/// Time between two samples of the memory nodes.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum growth of the heap of a memory node.
const HEAP_GROWTH_MAX: u64 = 4 << 20;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The system of the index.
    pub system: System,
    /// Duration.
    pub seconds: u64,
    /// Processes of clients that run at the same time.
    pub processes: u64,
    /// Clients of each process.
    pub clients: u64,
    /// Seed of all random draws.
    pub seed: u64,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Verbs that both memory nodes executed.
    pub verbs: u64,
    /// Operations that were acknowledged and checked.
    pub operations: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that left the pool.
    pub leaves: u64,
    /// Connections that were closed at once, or sent an invalid frame.
    pub brief_connections: u64,
    /// Bytes of a memory node's heap, in the second quarter and in the last.
    pub heap_bytes: [u64; 2],
    /// Chunks in use, in the second quarter and in the last.
    pub chunks: [u64; 2],
    /// Descriptors of the process of memory nodes, before and after.
    pub descriptors: [u64; 2],
    /// Locks of crashed clients that the last sweep released.
    pub locks_swept: u64,
    /// Entries of the tree after the sweep.
    pub entries: u64,
    /// Locks that are held after the sweep.
    pub locks_left: u64,
    /// Problems of the tree after the sweep.
    pub problems: Vec<String>,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [heap, heap_last] = self.heap_bytes.map(|bytes| bytes >> 10);
        let ([chunks, chunks_last], [files, files_last]) = (self.chunks, self.descriptors);
        write!(
            f,
            "{} operations, {} verbs; {} killed, {} left, {} brief connections; heap {heap} then {heap_last} KiB, \
             {chunks} then {chunks_last} chunks, {files} then {files_last} descriptors; {} entries, {} locks of \
             crashed clients swept, {} held, {} problems",
            self.operations,
            self.verbs,
            self.kills,
            self.leaves,
            self.brief_connections,
            self.entries,
            self.locks_swept,
            self.locks_left,
            self.problems.len()
        )
    }
}

/// Runs the role that the environment names; yields whether it names one. If it does, the program ends afterwards.
///
/// # Panics
/// If an answer is wrong.
pub fn run_child() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    match role.split_once(' ') {
        None => serve(),
        Some((number, rest)) => client::run(number.parse().expect("a number"), rest),
    }
    true
}

/// Runs the process of memory nodes: prints their addresses, and ends with its parent.
fn serve() {
    let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), HOST_BYTES);
    let nodes: Vec<_> = (0..MEMORY_NODES).map(|_| MemoryNode::start(&spec).expect("memory")).collect();
    let at: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nserving {}", at.join(",")).and_then(|()| out.flush()).expect("the parent reads");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process of the run, killed on drop.
struct Process(Child);

impl Process {
    fn start(mut program: Command, role: &str, stdout: Stdio) -> Self {
        let program = program.env(ROLE, role).stdin(Stdio::piped()).stdout(stdout);
        Self(program.spawn().expect("a process starts"))
    }

    /// Kills the process, which must not have ended before.
    fn kill(mut self) {
        self.0.kill().expect("the process runs");
        let status = self.0.wait().expect("the process ends");
        assert_eq!(status.signal(), Some(9), "a process of clients failed before it was killed: {status}");
    }

    /// Lets the process leave the pool and end.
    fn leave(mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("the process ends");
        assert!(status.success(), "a process of clients failed: {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The memory use of the memory nodes at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    heap_bytes: u64,
    chunks: u64,
}

/// The parent of a run.
struct LoadParent<'a> {
    load: Load,
    program: &'a dyn Fn() -> Command,
    folder: &'a Path,
    // Declared before the memory nodes, so that it leaves the pool while they still run.
    tree: Ordered,
    client: Client<TcpFabric>,
    pool: TcpPool,
    address: String,
    memory: Process,
    random: TestRng,
    started: u64,
    report: LoadReport,
}

impl Load {
    /// Runs the load. `program` starts this program again, so that it calls [`run_child`]; `folder` is empty.
    ///
    /// # Panics
    /// If an answer is wrong, an entry is lost, or the system refuses.
    pub fn run(self, program: &dyn Fn() -> Command, folder: &Path) -> LoadReport {
        let mut parent = LoadParent::set(self, program, folder);
        let before = descriptors(parent.memory.0.id());
        let samples = parent.load();
        let half = |from: usize, to: usize| {
            let part = &samples[samples.len() * from / 4..samples.len() * to / 4];
            [part.iter().map(|sample| sample.heap_bytes).max(), part.iter().map(|sample| sample.chunks).max()]
                .map(Option::unwrap_or_default)
        };
        let ([heap, chunks], [heap_last, chunks_last]) = (half(1, 2), half(3, 4));
        parent.report.heap_bytes = [heap, heap_last];
        parent.report.chunks = [chunks, chunks_last];
        parent.check();
        parent.report.descriptors = [before, descriptors(parent.memory.0.id())];
        parent.report.clone()
    }
}

impl LoadReport {
    /// Checks that memory and descriptors did not grow, and that no lock is held.
    ///
    /// # Panics
    /// If they did, or a lock is held.
    pub fn expect_no_leak(&self) {
        let ([heap, heap_last], [chunks, chunks_last]) = (self.heap_bytes, self.chunks);
        assert!(heap_last <= heap + HEAP_GROWTH_MAX, "a memory node's heap grows: {self}");
        assert!(chunks_last <= chunks + chunks / 4 + 2, "chunks are lost: {self}");
        assert!(self.descriptors[1] <= self.descriptors[0], "connections stay open: {self}");
        assert_eq!((self.locks_left, &self.problems[..]), (0, &[][..]), "{self}");
    }
}

impl<'a> LoadParent<'a> {
    fn set(load: Load, program: &'a dyn Fn() -> Command, folder: &'a Path) -> Self {
        let mut memory = Process::start(program(), "memory", Stdio::piped());
        let mut lines = BufReader::new(memory.0.stdout.take().expect("stdout is a pipe")).lines();
        let address = lines.find_map(|line| line.ok()?.strip_prefix("serving ").map(str::to_owned));
        let address = address.expect("it prints its addresses");
        let pool = attach::<OverTcp>(&address);
        let client = pool.client();
        let config = match load.system {
            System::Sherman => OrderedConfig::Sherman(sherman::ShermanConfig {
                sizes: SIZES,
                ..sherman::ShermanConfig::default()
            }),
            System::Smart => OrderedConfig::Smart(smart::SmartConfig::default()),
            System::Sphinx => OrderedConfig::Sphinx(sphinx::SphinxConfig::default()),
        };
        let tree = block_on(Ordered::create(&client, NAME, config, CACHE_BYTES)).expect("a tree is created");
        let (random, report) = (TestRng::new(load.seed), LoadReport::default());
        Self { load, program, folder, tree, client, pool, address, memory, random, started: 0, report }
    }

    fn start(&mut self, number: u64) -> Process {
        self.started += 1;
        let Load { processes, clients, seed, .. } = self.load;
        let (folder, started) = (self.folder.display(), self.started);
        let role = format!("{number} {processes} {clients} {seed} {started} {} {folder}", self.address);
        Process::start((self.program)(), &role, Stdio::null())
    }

    /// Runs, kills and restarts processes of clients until the time limit.
    fn load(&mut self) -> Vec<Sample> {
        let mut processes: Vec<_> =
            (0..self.load.processes).map(|number| (number, self.start(number))).collect();
        let end = Instant::now() + Duration::from_secs(self.load.seconds);
        let (mut samples, mut next) = (Vec::new(), Instant::now());
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20 + self.random.below(150)));
            let number = self.random.below(self.load.processes);
            match self.random.below(8) {
                0..6 => {
                    let position =
                        processes.iter().position(|(of, _)| *of == number).expect("each has a process");
                    let (_, old) = processes.swap_remove(position);
                    // The next process starts after the old one has ended: its keys have one writer.
                    self.end(old);
                    processes.push((number, self.start(number)));
                }
                _ => self.connect_briefly(),
            }
            for (_, process) in &mut processes {
                let status = process.0.try_wait().expect("its status");
                assert_eq!(status, None, "a process of clients failed; it printed why");
            }
            if Instant::now() >= next {
                next = Instant::now() + SAMPLE_INTERVAL;
                samples.push(self.sample());
            }
        }
        for (_, process) in processes {
            process.kill();
        }
        self.report.verbs =
            self.pool.reports().expect("the memory nodes run").iter().map(|report| report.verbs).sum();
        samples
    }

    /// Kills a process of clients, or tells it to leave.
    fn end(&mut self, process: Process) {
        if self.random.below(3) < 2 {
            self.report.kills += 1;
            process.kill();
        } else {
            self.report.leaves += 1;
            process.leave();
        }
    }

    /// Opens and closes a connection: of a compute node without operations, or with random bytes.
    fn connect_briefly(&mut self) {
        self.report.brief_connections += 1;
        if self.random.below(2) == 0 {
            drop(attach::<OverTcp>(&self.address));
            return;
        }
        let first = self.address.split(',').next().expect("an address");
        let mut stream = TcpStream::connect(first).expect("the memory node listens");
        let _ = stream.write_all(&self.random.below(u64::MAX).to_le_bytes().repeat(5));
    }

    fn sample(&self) -> Sample {
        let chunks = (0..MEMORY_NODES as u16).map(|node| {
            block_on(chunks::in_use(&self.client, NodeId(node))).expect("the process runs").len() as u64
        });
        Sample { heap_bytes: heap_bytes(self.memory.0.id()), chunks: chunks.sum() }
    }

    /// Checks the tree when no other client runs.
    fn check(&mut self) {
        for process in 0..self.load.processes {
            self.report.operations += client::check(self, process);
        }
        // Removing and inserting all keys changes every node, and so takes nearly every lock of killed clients. The
        // locks that remain belong to no node.
        for removes in [true, false] {
            for process in 0..self.load.processes {
                for number in 0..self.load.clients * KEYS_PER_CLIENT {
                    let key = key(self.load.processes, process, number);
                    if removes {
                        block_on(self.tree.remove(&self.client, &key)).expect("a removal");
                    } else {
                        block_on(self.tree.put(&self.client, &key, &value(key, 1))).expect("a put");
                    }
                }
            }
        }
        self.report.locks_swept = block_on(self.tree.sweep_locks(&self.client)).expect("a sweep");
        let walk = block_on(self.tree.walk(&self.client)).expect("a walk");
        self.report.entries = walk.entries();
        self.report.locks_left = walk.locks_held() + walk.locks_of_crashed_clients();
        self.report.problems = walk.problems().iter().map(|problem| format!("{problem:?}")).collect();
        let all = self.load.processes * self.load.clients * KEYS_PER_CLIENT;
        assert_eq!(self.report.entries, all, "all keys whose last step was a put are present");
    }
}

/// Bytes of a process's heap and stacks, without the memory that it serves.
fn heap_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line of Linux");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// The number of a process's descriptors, after those of closed connections were closed.
fn descriptors(process: u32) -> u64 {
    let count = || std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process runs").count() as u64;
    let (mut least, end) = (count(), Instant::now() + Duration::from_millis(500));
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        least = least.min(count());
    }
    least
}
