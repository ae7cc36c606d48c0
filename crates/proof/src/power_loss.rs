//! Power failures: memory nodes with logs lose different tails of them, and a pool of the rest is compared with
//! the histories of its writers.
//!
//! Each writer changes its own keys, one after the other, so after a power failure its keys must be as they were after
//! some number of its changes: at `always` at least those that were answered, or that another client had read, before
//! the failure; at `interval` any number. The failure is a copy of the files while all logs are frozen, one after the
//! other: what is durable stays, and the rest is cut off at any byte, or parts of it are changed or missing, on each
//! memory node independently.
//!
//! | file | contents |
//! |---|---|
//! | `disk.rs` | the files of a memory node after a power failure |
//! | `history.rs` | the changes of the writers |
//! | `subject.rs`, `ordered.rs`, `spatial.rs` | the index of a run, and its clients |
//!
//! Most power failures restore the memory without starting memory nodes ([`RestoredPool`]), which takes a fraction of
//! the time. The first failure of each copy starts them, and its client finds the pool over TCP.

mod disk;
mod history;
mod ordered;
mod spatial;
mod subject;

use disk::{DiskCopy, NodeFolder};
use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::catfish::Catfish;
use farwood_index::ordered::{Ordered, System};
use farwood_testkit::harness::{TestRng, poll_until_ready};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{
    Credentials, Durability, LogMutant, LogTuning, MemoryNode, NodeFile, NodeSpec, PoolAddress, RestoredPool,
    TcpError, TcpPool,
};
use history::{History, WRITERS};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use subject::{Clients, Subject};

const HOST_BYTES: u64 = 64 << 20;
const INTERVAL: Duration = Duration::from_millis(15);
/// Small, so that there are many checkpoints.
const CHECKPOINT_BYTES: u64 = 256 << 10;
/// The memory of which a restart allocates pages in advance.
const PAGE_BYTES: u64 = 4096;
/// Fewest and most cuts of one copy of the files.
const CUTS_OF_A_COPY: [u64; 2] = [12, 64];

/// A kind of index.
#[derive(Clone, Copy, Debug)]
pub enum IndexKind {
    /// An ordered index, which its writers change themselves.
    Ordered(System),
    /// A spatial index with records, which its server changes.
    Spatial,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct PowerLoss {
    /// The kind of index.
    pub kind: IndexKind,
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
        match self.kind {
            IndexKind::Ordered(system) => self.run_with::<Ordered>(system),
            IndexKind::Spatial => self.run_with::<Catfish>(()),
        }
    }

    fn run_with<S: Subject>(&self, kind: S::Kind) -> Result<PowerLossReport, String> {
        let folder = disk::folder();
        let nodes: Vec<_> = (0..self.nodes)
            .map(|node| {
                let spec = self.spec(&NodeFolder::new(folder.path(), node));
                MemoryNode::start(&spec).expect("the memory node starts")
            })
            .collect();
        let address = address(&nodes);
        let pool = open(&address).expect("the pool opens");
        block_on(S::create(&pool.client(), kind)).expect("the index is created");
        let (history, stopping) = (History::default(), AtomicBool::new(false));
        let clients =
            Clients { address, nodes: &nodes, seed: self.seed, history: &history, stopping: &stopping };
        let (mut random, mut report) = (TestRng::new(self.seed), PowerLossReport::default());
        std::thread::scope(|scope| {
            let _stop = StopAtEnd(&stopping);
            scope.spawn(|| S::write(&clients));
            scope.spawn(|| read::<S>(&clients));
            while report.cuts < self.cuts {
                std::thread::sleep(Duration::from_millis(20 + random.below(60)));
                self.fail_once::<S>((&nodes, folder.path()), &history, &mut random, &mut report)?;
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

    /// Copies the files of all memory nodes, and restores pools from several parts of the copy. The first of them has
    /// running memory nodes.
    fn fail_once<S: Subject>(
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
        let expected = Expected { history, least, most };
        let [fewest, most_cuts] = CUTS_OF_A_COPY;
        for cut in 0..(self.cuts / 4).clamp(fewest, most_cuts).min(self.cuts - report.cuts) {
            let at = folder.join("cut");
            for (node, copy) in &copies {
                report.lost_bytes += copy.put(&NodeFolder::new(&at, *node), random);
            }
            let specs: Vec<_> = (0..self.nodes).map(|node| self.spec(&NodeFolder::new(&at, node))).collect();
            let kept = if cut == 0 {
                restart::<S>(&specs, &expected, random)?
            } else {
                restore::<S>(&specs, &expected, random)?
            };
            report.cuts += 1;
            report.lost_changes +=
                known.iter().zip(kept).map(|(&known, kept)| known.saturating_sub(kept) as u64).sum::<u64>();
        }
        Ok(())
    }

    fn spec(&self, folder: &NodeFolder) -> NodeSpec {
        let log_tuning = LogTuning {
            mutant: self.mutant,
            checkpoint_bytes_least: Some(CHECKPOINT_BYTES),
            returns_max: Some(Duration::ZERO),
            // In every other run, the syncing thread makes all syncs.
            short_sync: self.seed.is_multiple_of(2).then_some(Duration::ZERO),
            allocated_bytes: Some(PAGE_BYTES),
            ..LogTuning::default()
        };
        let durability = self.level.durability();
        let file = Some(NodeFile { durability, log_tuning, ..NodeFile::new(folder.file()) });
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        NodeSpec { file, threads: 1 + (self.seed as usize >> 1) % 2, ..NodeSpec::new(listen, HOST_BYTES) }
    }
}

/// The changes that a pool must have after a power failure, and those that it may have.
struct Expected<'h> {
    history: &'h History,
    least: [usize; WRITERS],
    most: [usize; WRITERS],
}

impl Expected<'_> {
    /// Compares the index with the histories, changes some keys, and verifies the structure; returns the number of
    /// changes of each writer that the index has.
    async fn compare<S: Subject, F: Fabric>(
        &self,
        client: &Client<F>,
        nodes: &[MemoryNode],
        random: &mut TestRng,
    ) -> Result<[usize; WRITERS], String> {
        let index = match S::open(client).await {
            // The state before the index was created.
            Err(IndexError::NoSuchIndex(_)) if self.least == [0; WRITERS] => return Ok([0; WRITERS]),
            index => index.map_err(|error| format!("opening the index: {error}"))?,
        };
        let (mut kept, values) = ([0; WRITERS], index.values(client).await?);
        for (writer, kept) in kept.iter_mut().enumerate() {
            let changes = self.least[writer]..=self.most[writer];
            *kept = self.history.explain(writer, &values[writer], changes)?;
        }
        // A client that allocates memory reads all that the ended clients had taken, which takes most of the time.
        if !nodes.is_empty() || random.once_in(16) {
            let changed = index.change_some(client, nodes, random).await;
            changed.map_err(|error| format!("a change after the restart: {error}"))?;
        }
        match index.problems(client).await.map_err(|error| format!("a walk: {error}"))? {
            problems if problems.is_empty() => Ok(kept),
            problems => Err(format!("the index is damaged: {problems}")),
        }
    }
}

/// Starts memory nodes on the files, and compares what a client finds over TCP.
fn restart<S: Subject>(
    specs: &[NodeSpec],
    expected: &Expected<'_>,
    random: &mut TestRng,
) -> Result<[usize; WRITERS], String> {
    let started = specs.iter().map(MemoryNode::start).collect::<Result<Vec<_>, _>>();
    let nodes = started.map_err(|error| format!("a restart: {error}"))?;
    let pool = open(&address(&nodes)).map_err(|error| format!("opening the pool: {error}"))?;
    block_on(expected.compare::<S, _>(&pool.client(), &nodes, random))
}

/// Restores the memory from the files, and compares what a client finds in it.
fn restore<S: Subject>(
    specs: &[NodeSpec],
    expected: &Expected<'_>,
    random: &mut TestRng,
) -> Result<[usize; WRITERS], String> {
    let pool = RestoredPool::restore(specs).map_err(|error| format!("restoring the pool: {error}"))?;
    poll_until_ready(expected.compare::<S, _>(&pool.client(), &[], random))
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

/// Reads keys of all writers.
fn read<S: Subject>(clients: &Clients<'_>) {
    let (pool, mut random) = (clients.open_pool(), clients.random(WRITERS));
    let client = pool.client();
    let index = block_on(S::open(&client)).expect("the index opens");
    while !clients.is_stopping() {
        let _operating = clients.history.operate();
        block_on(index.read(&client, &mut random, clients.history)).expect("a read succeeds");
    }
}
