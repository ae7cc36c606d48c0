//! Power failures: memory nodes with logs lose different tails of them, and a pool of the rest is compared with
//! the histories of its writers.
//!
//! Each writer changes its own keys, one after the other, so after a power failure its keys must be as they were after
//! some number of its changes: at `always` at least those that were answered, or that another client had read, before
//! the failure; at `interval` any number. The failure is a copy of the files while all logs are frozen, one after the
//! other: what is durable stays, and the rest is cut off at any byte, or parts of it are changed or missing, on each
//! memory node independently.

mod disk;
mod history;

use crate::tree::Tree as _;
use disk::{DiskCopy, NodeFolder};
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::ordered::{Ordered, OrderedConfig, System};
use farwood_index::{sherman, smart, sphinx};
use farwood_testkit::harness::TestRng;
use farwood_testkit::history::{Action, Answer};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{
    Credentials, Durability, LogMutant, LogTuning, MemoryNode, NodeFile, NodeSpec, PoolAddress, TcpError,
    TcpFabric, TcpPool,
};
use futures_util::future::join_all;
use history::{History, WRITERS, key};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HOST_BYTES: u64 = 64 << 20;
const CACHE_BYTES: usize = 64 << 10;
const NAME: &str = "power";
const INTERVAL: Duration = Duration::from_millis(15);
/// Small, so that there are many checkpoints.
const CHECKPOINT_BYTES: u64 = 256 << 10;
/// Cuts of one copy of the files.
const CUTS_OF_A_COPY: u64 = 8;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct PowerLoss {
    /// The kind of index.
    pub system: System,
    /// The level of the memory nodes, [`Durability::Always`] or an interval.
    pub level: Level,
    /// The number of memory nodes.
    pub nodes: u16,
    /// The defect of their logs.
    pub mutant: Option<LogMutant>,
    /// Determines the programs of the writers and the cuts.
    pub seed: u64,
    /// The number of cuts.
    pub cuts: u64,
}

/// A level of durability with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Answers follow the disk.
    Always,
    /// The disk follows within 15 ms.
    Interval,
}

impl Level {
    fn durability(self) -> Durability {
        match self {
            Self::Always => Durability::Always,
            Self::Interval => Durability::Interval(INTERVAL),
        }
    }
}

/// The sums of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerLossReport {
    /// Power failures.
    pub cuts: u64,
    /// Changes that were answered in all.
    pub changes: u64,
    /// Bytes of logs that were lost in all.
    pub lost_bytes: u64,
    /// Changes that were answered and lost, at `interval`.
    pub lost_changes: u64,
}

impl PowerLoss {
    /// Runs writers, copies the files at several moments, and restarts memory nodes on parts of them.
    ///
    /// # Errors
    /// The first contradiction, with the folder of its files.
    ///
    /// # Panics
    /// If the memory nodes or the writers fail before a power failure.
    pub fn run(&self) -> Result<PowerLossReport, String> {
        let folder = disk::folder();
        let nodes: Vec<_> = (0..self.nodes)
            .map(|node| self.start(&NodeFolder::new(folder.path(), node)).expect("it starts"))
            .collect();
        let address = address(&nodes);
        let pool = open(&address).expect("the pool opens");
        let tree = block_on(Ordered::create(&pool.client(), NAME, self.config(), CACHE_BYTES));
        drop(tree.expect("the index is created"));
        let (history, stopping) = (History::default(), AtomicBool::new(false));
        let (mut random, mut report) = (TestRng::new(self.seed), PowerLossReport::default());
        std::thread::scope(|scope| {
            let _stop = StopAtEnd(&stopping);
            for writer in 0..WRITERS {
                let (address, history, stopping) = (&address, &history, &stopping);
                let seed = self.seed ^ (writer as u64 + 1) << 32;
                scope.spawn(move || write(address, writer, seed, history, stopping));
            }
            scope.spawn(|| read(&address, self.seed, &history, &stopping));
            while report.cuts < self.cuts {
                std::thread::sleep(Duration::from_millis(20 + random.below(60)));
                self.fail_once((&nodes, folder.path()), &history, &mut random, &mut report)?;
            }
            Ok(())
        })
        .map_err(|why: String| match self.mutant {
            None => format!("{self:?}: {why}; the files are in {}", folder.keep().display()),
            Some(_) => why,
        })?;
        report.changes = history.answered().iter().map(|&changes| changes as u64).sum();
        Ok(report)
    }

    /// Copies the files of all memory nodes, and restarts memory nodes on several parts of the copy.
    fn fail_once(
        &self,
        (nodes, folder): (&[MemoryNode], &Path),
        history: &History,
        random: &mut TestRng,
        report: &mut PowerLossReport,
    ) -> Result<(), String> {
        let first = random.below(u64::from(self.nodes)) as usize;
        let mut frozen: Vec<_> = (0..nodes.len())
            .map(|node| (first + node) % nodes.len())
            .map(|node| (node, nodes[node].freeze_log().expect("it has a log")))
            .collect();
        frozen.sort_by_key(|(node, _)| *node);
        // A sync that had begun before makes more durable, and more answers leave, until the log has been looked at.
        let known = history.known();
        let least = if self.level == Level::Always { known } else { [0; WRITERS] };
        let copies: Vec<_> = frozen
            .iter()
            .map(|(node, log)| {
                let node = *node as u16;
                (node, DiskCopy::take(&NodeFolder::new(folder, node), log))
            })
            .collect();
        let most = history.begun();
        drop(frozen);
        let _paused = history.pause();
        for _ in 0..CUTS_OF_A_COPY.min(self.cuts - report.cuts) {
            let at = folder.join("cut");
            for (node, copy) in &copies {
                report.lost_bytes += copy.put(&NodeFolder::new(&at, *node), random);
            }
            let kept = self.restart(&at, history, (least, most), random)?;
            report.cuts += 1;
            report.lost_changes +=
                known.iter().zip(kept).map(|(&known, kept)| known.saturating_sub(kept) as u64).sum::<u64>();
        }
        Ok(())
    }

    /// Restarts memory nodes on the files, and compares the index with the histories; returns the number of changes of
    /// each writer that it has.
    fn restart(
        &self,
        folder: &Path,
        history: &History,
        (least, most): ([usize; WRITERS], [usize; WRITERS]),
        random: &mut TestRng,
    ) -> Result<[usize; WRITERS], String> {
        let started = (0..self.nodes).map(|node| self.start(&NodeFolder::new(folder, node)));
        let nodes: Vec<_> =
            started.collect::<Result<_, _>>().map_err(|error| format!("a restart: {error}"))?;
        let pool = open(&address(&nodes)).map_err(|error| format!("opening the pool: {error}"))?;
        let client = pool.client();
        let tree = block_on(Ordered::open(&client, NAME, CACHE_BYTES));
        let tree = match tree {
            // The state before the index was created.
            Err(IndexError::NoSuchIndex(_)) if least == [0; WRITERS] => return Ok([0; WRITERS]),
            tree => tree.map_err(|error| format!("opening the index: {error}"))?,
        };
        let mut kept = [0; WRITERS];
        for (writer, kept) in kept.iter_mut().enumerate() {
            let gets = history::numbers().map(|number| (writer, number, Action::Get));
            let answers = perform_all(&tree, &client, gets).map_err(|error| format!("a get: {error}"))?;
            *kept = history.explain(writer, &history::state(answers)?, least[writer]..=most[writer])?;
        }
        // These puts take over locks of clients that the power failure ended. One in eight keys is enough for each
        // restart: the next one begins with the same files and draws other keys.
        let some = history::keys().filter(|_| random.once_in(8));
        let puts = some.map(|(writer, number)| (writer, number, Action::Put(vec![0xFF; 8])));
        let puts = perform_all(&tree, &client, puts);
        puts.map_err(|error| format!("a put after the restart: {error}"))?;
        let walk = block_on(tree.walk(&client)).map_err(|error| format!("a walk: {error}"))?;
        match walk.problems() {
            [] => Ok(kept),
            problems => Err(format!("the index is damaged: {problems:?}")),
        }
    }

    fn start(&self, folder: &NodeFolder) -> Result<MemoryNode, TcpError> {
        let log_tuning = LogTuning {
            mutant: self.mutant,
            checkpoint_bytes_least: Some(CHECKPOINT_BYTES),
            returns_max: Some(Duration::ZERO),
            ..LogTuning::default()
        };
        let durability = self.level.durability();
        let file = Some(NodeFile { durability, log_tuning, ..NodeFile::new(folder.file()) });
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        MemoryNode::start(&NodeSpec { file, threads: 1, ..NodeSpec::new(listen, HOST_BYTES) })
    }

    fn config(&self) -> OrderedConfig {
        match self.system {
            System::Sherman => OrderedConfig::Sherman(sherman::ShermanConfig::default()),
            System::Smart => OrderedConfig::Smart(smart::SmartConfig::default()),
            System::Sphinx => OrderedConfig::Sphinx(sphinx::SphinxConfig::default()),
        }
    }
}

/// Performs operations at the same time, which takes a third of the time that they take one after the other.
fn perform_all(
    tree: &Ordered,
    client: &Client<TcpFabric>,
    operations: impl Iterator<Item = (usize, u64, Action)>,
) -> Result<Vec<Answer>, IndexError> {
    block_on(join_all(operations.map(|(writer, number, action)| async move {
        tree.perform(client, &key(writer, number), &action).await
    })))
    .into_iter()
    .collect()
}

fn address(nodes: &[MemoryNode]) -> PoolAddress {
    let nodes: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    nodes.join(",").parse().expect("an address")
}

fn open(address: &PoolAddress) -> Result<TcpPool, TcpError> {
    TcpPool::open(address, Credentials::default())
}

/// Ends the writers, also after a contradiction.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Changes the keys of one writer at random.
fn write(address: &PoolAddress, writer: usize, seed: u64, history: &History, stopping: &AtomicBool) {
    let pool = open(address).expect("the pool opens");
    let client = pool.client();
    let tree = block_on(Ordered::open(&client, NAME, CACHE_BYTES)).expect("the index opens");
    let mut random = TestRng::new(seed);
    while !stopping.load(Ordering::Relaxed) {
        let _operating = history.operate();
        let (number, action) = history.begin(writer, &mut random);
        block_on(tree.perform(&client, &key(writer, number), &action)).expect("a change succeeds");
        history.end(writer);
    }
}

/// Reads keys of all writers.
fn read(address: &PoolAddress, seed: u64, history: &History, stopping: &AtomicBool) {
    let pool = open(address).expect("the pool opens");
    let client = pool.client();
    let tree = block_on(Ordered::open(&client, NAME, CACHE_BYTES)).expect("the index opens");
    let mut random = TestRng::new(!seed);
    while !stopping.load(Ordering::Relaxed) {
        let _operating = history.operate();
        let (writer, number) = history::draw_key(&mut random);
        let answer = block_on(tree.perform(&client, &key(writer, number), &Action::Get));
        if let Answer::Found(Some(value)) = answer.expect("a get succeeds") {
            history.has_seen(writer, &value);
        }
    }
}
