//! Full load over TCP for as long as one likes, while clients are killed and come and go at random: no answer is wrong,
//! no memory is lost, no lock is left.
//!
//! | file | what it is |
//! |---|---|
//! | `load.rs` | the parent: starts everybody, kills, watches the memory nodes, and judges |
//! | `load/client.rs` | a process of clients, each with keys that only it writes |
//! | `load/progress_file.rs` | what such a process has asked for and what was acknowledged, where its death cannot reach it |
//!
//! All processes are the same program, told by [`ROLE`] what they are.

mod client;
mod progress_file;

use crate::served::{OverTcp, attach};
use client::{KEYS_PER_CLIENT, key, value};
use farwood_fabric::{Client, NodeId, chunks};
use farwood_index::ordered::{Config, Ordered, System};
use farwood_index::sherman::layout::Sizes;
use farwood_index::{sherman, smart, sphinx};
use farwood_testkit::harness::Chance;
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{MemoryNode, NodeSpec, TcpFabric, TcpPool};
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The environment's variable that tells a process what it is in a run; the program's first act is [`play`].
pub const ROLE: &str = "FARWOOD_LOAD_ROLE";
const NAME: &str = "load";
const CACHE_BYTES: usize = 1 << 20;
const SIZES: Sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 512 };
const MEMORY_NODES: usize = 2;
const HOST_BYTES: u64 = 512 << 20;
/// Between two looks at the memory nodes.
const LOOK: Duration = Duration::from_millis(200);
/// Heap that a memory node may take more at the end than at the beginning.
const HEAP_GROWTH_MAX: u64 = 4 << 20;

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Of which system the index is.
    pub system: System,
    /// How long.
    pub seconds: u64,
    /// Processes of clients at a time.
    pub processes: u64,
    /// Clients of each.
    pub clients: u64,
    /// Of everything that is drawn.
    pub seed: u64,
}

/// What a run saw.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Verbs of both memory nodes.
    pub verbs: u64,
    /// Operations that were acknowledged and checked, as far as clients lived to tell.
    pub operations: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that left by themselves.
    pub leaves: u64,
    /// Connections that only came and went, or sent what is no frame.
    pub visits: u64,
    /// Bytes of a memory node's heap, in the second quarter and in the last.
    pub heap_bytes: [u64; 2],
    /// Chunks in use, in the second quarter and in the last.
    pub chunks: [u64; 2],
    /// Descriptors of the process of memory nodes, before and after.
    pub descriptors: [u64; 2],
    /// Locks of the gone that the last sweep freed.
    pub locks_swept: u64,
    /// Entries of the tree at the end, after that.
    pub entries: u64,
    /// Locks that are held then.
    pub locks_left: u64,
    /// What is wrong with it then.
    pub problems: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [heap, heap_last] = self.heap_bytes.map(|bytes| bytes >> 10);
        let ([chunks, chunks_last], [files, files_last]) = (self.chunks, self.descriptors);
        write!(
            f,
            "{} operations, {} verbs; {} killed, {} left, {} visits; heap {heap} then {heap_last} KiB, {chunks} \
             then {chunks_last} chunks, {files} then {files_last} descriptors; {} entries, {} locks of \
             the gone, swept, {} left, {} problems",
            self.operations,
            self.verbs,
            self.kills,
            self.leaves,
            self.visits,
            self.entries,
            self.locks_swept,
            self.locks_left,
            self.problems.len()
        )
    }
}

/// Plays the part that the environment names, if it names one. The program then has nothing else to do.
///
/// # Panics
/// Where an answer is wrong.
pub fn play() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    match role.split_once(' ') {
        None => serve(),
        Some((number, rest)) => client::work(number.parse().expect("a number"), rest),
    }
    true
}

/// The process of memory nodes: tells where they listen, and ends with its parent.
fn serve() {
    let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), HOST_BYTES);
    let nodes: Vec<_> = (0..MEMORY_NODES).map(|_| MemoryNode::start(&spec).expect("memory")).collect();
    let at: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nserving {}", at.join(",")).and_then(|()| out.flush()).expect("the parent listens");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process of the run; killed when it is dropped.
struct Process(Child);

impl Process {
    fn start(mut program: Command, role: &str, stdout: Stdio) -> Self {
        let program = program.env(ROLE, role).stdin(Stdio::piped()).stdout(stdout);
        Self(program.spawn().expect("a process can be started"))
    }

    /// Kills it; it must not have failed by itself before.
    fn kill(mut self) {
        self.0.kill().expect("it is there");
        let status = self.0.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9), "a process of clients failed before it was killed: {status}");
    }

    /// Has it leave by itself.
    fn leave(mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "a process of clients failed: {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was seen of the memory nodes while they worked.
#[derive(Clone, Copy, Debug)]
struct Look {
    heap_bytes: u64,
    chunks: u64,
}

/// The parent.
struct Stage<'a> {
    load: Load,
    program: &'a dyn Fn() -> Command,
    folder: &'a Path,
    // Before the memory nodes: it leaves while they are there.
    tree: Ordered,
    client: Client<TcpFabric>,
    pool: TcpPool,
    address: String,
    memory: Process,
    random: Chance,
    started: u64,
    report: Report,
}

impl Load {
    /// Runs it. `program` starts this very program so that it comes to [`play`]; `folder` is empty, and outlives the
    /// run.
    ///
    /// # Panics
    /// Where an answer is wrong, something is lost or left, or the machine refuses.
    pub fn run(self, program: &dyn Fn() -> Command, folder: &Path) -> Report {
        let mut stage = Stage::set(self, program, folder);
        let before = descriptors(stage.memory.0.id());
        let looks = stage.load();
        let half = |from: usize, to: usize| {
            let part = &looks[looks.len() * from / 4..looks.len() * to / 4];
            [part.iter().map(|look| look.heap_bytes).max(), part.iter().map(|look| look.chunks).max()]
                .map(Option::unwrap_or_default)
        };
        let ([heap, chunks], [heap_last, chunks_last]) = (half(1, 2), half(3, 4));
        stage.report.heap_bytes = [heap, heap_last];
        stage.report.chunks = [chunks, chunks_last];
        stage.judge();
        stage.report.descriptors = [before, descriptors(stage.memory.0.id())];
        stage.report.clone()
    }
}

impl Report {
    /// Nothing grew, and no lock is left: neither one of the living, nor one of the gone.
    ///
    /// # Panics
    /// Where it was.
    pub fn expect_flat(&self) {
        let ([heap, heap_last], [chunks, chunks_last]) = (self.heap_bytes, self.chunks);
        assert!(heap_last <= heap + HEAP_GROWTH_MAX, "a memory node's heap grows: {self}");
        assert!(chunks_last <= chunks + chunks / 4 + 2, "chunks are lost: {self}");
        assert!(self.descriptors[1] <= self.descriptors[0], "connections are left: {self}");
        assert_eq!((self.locks_left, &self.problems[..]), (0, &[][..]), "{self}");
    }
}

impl<'a> Stage<'a> {
    fn set(load: Load, program: &'a dyn Fn() -> Command, folder: &'a Path) -> Self {
        let mut memory = Process::start(program(), "memory", Stdio::piped());
        let mut lines = BufReader::new(memory.0.stdout.take().expect("its output is a pipe")).lines();
        let address = lines.find_map(|line| line.ok()?.strip_prefix("serving ").map(str::to_owned));
        let address = address.expect("it says where it listens");
        let pool = attach::<OverTcp>(&address);
        let client = pool.client();
        let config = match load.system {
            System::Sherman => {
                Config::Sherman(sherman::Config { sizes: SIZES, ..sherman::Config::default() })
            }
            System::Smart => Config::Smart(smart::Config::default()),
            System::Sphinx => Config::Sphinx(sphinx::Config::default()),
        };
        let tree = block_on(Ordered::create(&client, NAME, config, CACHE_BYTES)).expect("a tree is created");
        let (random, report) = (Chance::new(load.seed), Report::default());
        Self { load, program, folder, tree, client, pool, address, memory, random, started: 0, report }
    }

    fn start(&mut self, number: u64) -> Process {
        self.started += 1;
        let Load { processes, clients, seed, .. } = self.load;
        let (folder, started) = (self.folder.display(), self.started);
        let role = format!("{number} {processes} {clients} {seed} {started} {} {folder}", self.address);
        Process::start((self.program)(), &role, Stdio::null())
    }

    /// Has everybody work, and kills, until time is up.
    fn load(&mut self) -> Vec<Look> {
        let mut processes: Vec<_> =
            (0..self.load.processes).map(|number| (number, self.start(number))).collect();
        let end = Instant::now() + Duration::from_secs(self.load.seconds);
        let (mut looks, mut next) = (Vec::new(), Instant::now());
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20 + self.random.below(150)));
            let number = self.random.below(self.load.processes);
            match self.random.below(8) {
                0..6 => {
                    let place =
                        processes.iter().position(|(of, _)| *of == number).expect("each has a process");
                    let (_, old) = processes.swap_remove(place);
                    // The next begins when the one before it is gone: the keys have one writer.
                    self.end(old);
                    processes.push((number, self.start(number)));
                }
                _ => self.visit(),
            }
            for (_, process) in &mut processes {
                let status = process.0.try_wait().expect("it can be asked");
                assert_eq!(status, None, "a process of clients ended by itself; it has said why");
            }
            if Instant::now() >= next {
                next = Instant::now() + LOOK;
                looks.push(self.look());
            }
        }
        for (_, process) in processes {
            process.kill();
        }
        self.report.verbs = self.pool.reports().expect("they live").iter().map(|report| report.verbs).sum();
        looks
    }

    /// Kills a process of clients, or has it leave.
    fn end(&mut self, process: Process) {
        if self.random.below(3) < 2 {
            self.report.kills += 1;
            process.kill();
        } else {
            self.report.leaves += 1;
            process.leave();
        }
    }

    /// Somebody comes and goes: a compute node that does nothing, or one that sends nonsense.
    fn visit(&mut self) {
        self.report.visits += 1;
        if self.random.below(2) == 0 {
            drop(attach::<OverTcp>(&self.address));
            return;
        }
        let first = self.address.split(',').next().expect("there is one");
        let mut stream = TcpStream::connect(first).expect("it listens");
        let _ = stream.write_all(&self.random.below(u64::MAX).to_le_bytes().repeat(5));
    }

    fn look(&self) -> Look {
        let chunks = (0..MEMORY_NODES as u16)
            .map(|node| block_on(chunks::in_use(&self.client, NodeId(node))).expect("it lives").len() as u64);
        Look { heap_bytes: heap_bytes(self.memory.0.id()), chunks: chunks.sum() }
    }

    /// Looks at all that is left, when nobody else is there.
    fn judge(&mut self) {
        for process in 0..self.load.processes {
            self.report.operations += client::judge(self, process);
        }
        // Nearly every lock that the dead have left is taken over by who changes its node: all leaves, and as the tree
        // shrinks to nothing and grows again, all others. What is left are words to which no node leads any more.
        for removes in [true, false] {
            for process in 0..self.load.processes {
                for number in 0..self.load.clients * KEYS_PER_CLIENT {
                    let key = key(self.load.processes, process, number);
                    if removes {
                        block_on(self.tree.remove(&self.client, &key)).expect("it can be removed");
                    } else {
                        block_on(self.tree.put(&self.client, &key, &value(key, 1)))
                            .expect("it can be written");
                    }
                }
            }
        }
        self.report.locks_swept = block_on(self.tree.sweep_locks(&self.client)).expect("a sweep");
        let walk = block_on(self.tree.walk(&self.client)).expect("a walk");
        self.report.entries = walk.entries();
        self.report.locks_left = walk.locks_held() + walk.locks_of_the_gone();
        self.report.problems = walk.problems().iter().map(|problem| format!("{problem:?}")).collect();
        let all = self.load.processes * self.load.clients * KEYS_PER_CLIENT;
        assert_eq!(self.report.entries, all, "all keys are there that were put at last");
    }
}

/// A process's heap and stacks, which leaves out the memory that it serves.
fn heap_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux tells");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// A process's descriptors, once those of connections that are over are gone.
fn descriptors(process: u32) -> u64 {
    let count = || std::fs::read_dir(format!("/proc/{process}/fd")).expect("it lives").count() as u64;
    let (mut least, end) = (count(), Instant::now() + Duration::from_millis(500));
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        least = least.min(count());
    }
    least
}
