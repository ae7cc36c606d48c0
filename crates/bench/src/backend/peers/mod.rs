//! Other ordered stores in local memory, driven by the same streams of operations as Farwood.
//!
//! | peer | store | shared by | keys | values |
//! |---|---|---|---|---|
//! | `lmdb` | LMDB through heed, no sync, writable map | processes | 8 to 511 B | any |
//! | `btreemap` | `BTreeMap` behind one `RwLock` | threads | any | any |
//! | `congee` | congee, an adaptive radix tree | threads | 8 B | 8 B |
//! | `skiplist` | crossbeam's `SkipMap` | threads | any | any |
//!
//! Every peer copies the value out of a get and of each entry of a scan, as Farwood does.

use std::fmt;
use std::hint::black_box;
use std::path::Path;
use std::str::FromStr;

use super::checked::{CheckedBuffers, First, rank_and_kind};
use super::clients::ClientStreams;
use crate::driver::clock::Clock;
use crate::driver::protocol::Amount;
use crate::driver::threads::ThreadDriver;
use crate::record::measurement::{CostTotals, Measurement};
use crate::workload::keys::Keys;
use crate::workload::values::fill_value;
use crate::workload::{Operation, Workload, WorkloadSpec};
use crate::{Error, Result};

mod btreemap;
mod congee;
mod lmdb;
pub(crate) mod process;
mod skiplist;
mod stored_bytes;
mod sys;

/// An ordered store that the threads of a process share.
pub trait Peer: Send + Sync {
    /// Copies the value of `key` into `value`; false if the key is absent.
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool>;

    /// Inserts or updates an entry.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Inserts an entry unless the key is present.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes an entry; false if the key was absent.
    fn remove(&self, key: &[u8]) -> Result<bool>;

    /// Calls `visit` with up to `limit` entries in key order, beginning at `from`; yields their number.
    fn scan(&self, from: &[u8], limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize>;

    /// Loads entries in ascending order of their keys into the empty store. `next` writes the next key and value to its
    /// arguments; false after the last entry.
    fn load(&self, next: &mut dyn FnMut(&mut [u8], &mut [u8]) -> bool, sizes: Sizes) -> Result<()> {
        let (mut key, mut value) = (vec![0; sizes.key_bytes], vec![0; sizes.value_bytes]);
        while next(&mut key, &mut value) {
            self.put(&key, &value)?;
        }
        Ok(())
    }

    /// Bytes that the store uses, if it reports them.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// Lengths of all keys and values of a store, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Length of a key.
    pub key_bytes: usize,
    /// Length of a value.
    pub value_bytes: usize,
}

/// The stores that a run can measure on the same machine, in comparison with Farwood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerKind {
    /// The memory-mapped B+-tree LMDB.
    Lmdb,
    /// A `BTreeMap` behind one `RwLock`.
    Btreemap,
    /// The concurrent adaptive radix tree of the crate `congee`.
    Congee,
    /// crossbeam's skip list.
    Skiplist,
}

impl PeerKind {
    /// All peers.
    pub const ALL: [PeerKind; 4] = [PeerKind::Lmdb, PeerKind::Btreemap, PeerKind::Congee, PeerKind::Skiplist];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            PeerKind::Lmdb => "lmdb",
            PeerKind::Btreemap => "btreemap",
            PeerKind::Congee => "congee",
            PeerKind::Skiplist => "skiplist",
        }
    }

    /// Whether several processes can open the same store; otherwise only the threads of one process share it.
    pub fn is_shared_by_processes(self) -> bool {
        self == PeerKind::Lmdb
    }

    /// Opens or creates the store. LMDB stores its files in `folder`, which must exist, and reserves space for
    /// `entries_max` entries; every process of a run must open the store once, with the same number. The other peers
    /// create an empty store in the memory of this process.
    ///
    /// # Errors
    /// The peer does not support these lengths of keys or values.
    pub fn open(self, folder: &Path, sizes: Sizes, entries_max: u64) -> Result<Box<dyn Peer>> {
        match self {
            PeerKind::Lmdb => lmdb::open(folder, sizes, entries_max),
            PeerKind::Btreemap => Ok(btreemap::open(sizes)),
            PeerKind::Congee => congee::open(sizes),
            PeerKind::Skiplist => Ok(skiplist::open(sizes)),
        }
    }
}

impl fmt::Display for PeerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PeerKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<PeerKind> {
        PeerKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = PeerKind::ALL.map(PeerKind::name).join(", ");
            Error::parameter("--peer", format!("no such peer: {name}"), names)
        })
    }
}

/// Loads the keys that exist before the measured phase (none for `load`), with values of version 0.
pub(crate) fn load(peer: &dyn Peer, keys: &Keys, spec: &WorkloadSpec, value_bytes: usize) -> Result<()> {
    let count = if spec.workload == Workload::Load { 0 } else { spec.keys };
    let mut ranks = keys.ranks_in_key_order(count).into_iter();
    let mut whole = Vec::new();
    let mut next = |key: &mut [u8], value: &mut [u8]| {
        let Some(rank) = ranks.next() else { return false };
        keys.write_key(rank, &mut whole);
        key.copy_from_slice(&whole);
        fill_value(value, rank, 0);
        true
    };
    peer.load(&mut next, Sizes { key_bytes: keys.key_bytes(), value_bytes })
}

/// Number of entries that each step of a scan of the whole store reads. Some peers allocate memory for all entries of a
/// step.
const SCAN_STEP: usize = 1 << 12;

/// The clients of a peer on one thread. Like the clients of Farwood, they read the clock once per operation and check
/// every answer.
pub(crate) struct PeerClients<'a> {
    peer: &'a dyn Peer,
    clients: Vec<PeerClient>,
    buffers: CheckedBuffers<'a>,
}

/// One client of a peer. It is finished when its stream of operations ends.
struct PeerClient {
    streams: ClientStreams,
    done: u64,
    over: bool,
}

impl<'a> PeerClients<'a> {
    /// Creates one client for each of `streams`. Values have `value_bytes` bytes (at least 8).
    pub(crate) fn new(
        peer: &'a dyn Peer,
        keys: &'a Keys,
        spec: &WorkloadSpec,
        streams: Vec<ClientStreams>,
        value_bytes: usize,
    ) -> Result<PeerClients<'a>> {
        crate::workload::values::check_value_bytes(value_bytes)?;
        let client = |streams| PeerClient { streams, done: 0, over: false };
        let clients = streams.into_iter().map(client).collect();
        Ok(PeerClients { peer, clients, buffers: CheckedBuffers::new(keys, value_bytes, spec.workload) })
    }

    /// Executes an operation on the key of `rank`, and checks its answer.
    #[inline]
    fn execute(&mut self, operation: Operation, rank: u64) -> Result<()> {
        let (peer, buffers) = (self.peer, &mut self.buffers);
        buffers.fill_key(rank);
        match operation {
            Operation::Get { .. } => get(peer, buffers, rank),
            Operation::Put { version, .. } => {
                buffers.fill_value(rank, version);
                peer.put(&buffers.key, &buffers.value)
            }
            Operation::Insert { version, .. } => {
                buffers.fill_value(rank, version);
                peer.insert(&buffers.key, &buffers.value)
            }
            Operation::Remove { .. } => peer.remove(&buffers.key).map(drop),
            Operation::Scan { length, .. } => scan(peer, buffers, length as usize),
            Operation::ReadModifyWrite { version, .. } => {
                get(peer, buffers, rank)?;
                buffers.fill_value(rank, version);
                peer.put(&buffers.key, &buffers.value)
            }
        }
    }
}

#[inline]
fn get(peer: &dyn Peer, buffers: &mut CheckedBuffers<'_>, rank: u64) -> Result<()> {
    let is_found = peer.get(&buffers.key, &mut buffers.value)?;
    if is_found { buffers.check_found(rank) } else { buffers.check_absent(rank) }
}

fn scan(peer: &dyn Peer, buffers: &mut CheckedBuffers<'_>, length: usize) -> Result<()> {
    let from = buffers.key.clone();
    let (mut first, mut wrong) = (First::Yes, Ok(()));
    let visit = &mut |key: &[u8], value: &[u8]| {
        if wrong.is_ok() {
            wrong = buffers.check_entry(first, key, value);
            first = First::No;
        }
    };
    peer.scan(&from, length, visit)?;
    wrong
}

impl ThreadDriver for PeerClients<'_> {
    fn scan_all(&mut self) -> Result<()> {
        let mut last = vec![0; self.buffers.keys.key_bytes()];
        loop {
            let from = last.clone();
            let visit = &mut |key: &[u8], value: &[u8]| {
                last.copy_from_slice(key);
                black_box(value);
            };
            // Each step begins with the last entry of the step before.
            if self.peer.scan(&from, SCAN_STEP, visit)? < SCAN_STEP {
                return Ok(());
            }
        }
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let clock = Clock::new();
        let deadline = clock.deadline(Amount::Seconds(seconds));
        let mut next = 0;
        while !deadline.is_over(clock.now(), 0) {
            next = (next + 1) % self.clients.len();
            if let Some(operation) = self.clients[next].streams.warm_up.next() {
                self.buffers.fill_key(rank_and_kind(operation).0);
                self.peer.get(&self.buffers.key, &mut self.buffers.value)?;
            }
        }
        Ok(())
    }

    fn measure(&mut self, amount: Amount) -> Result<Measurement> {
        let mut measurement = Measurement::new();
        let clock = Clock::new();
        let deadline = clock.deadline(amount);
        for client in &mut self.clients {
            (client.done, client.over) = (0, false);
        }
        let (mut next, mut running, mut start) = (0, self.clients.len(), clock.now());
        while running > 0 {
            next = if next + 1 < self.clients.len() { next + 1 } else { 0 };
            if self.clients[next].over {
                continue;
            }
            let Some(operation) = self.clients[next].streams.measured.next() else {
                self.clients[next].over = true;
                running -= 1;
                continue;
            };
            let (rank, kind) = rank_and_kind(operation);
            self.execute(operation, rank)?;
            let now = clock.now();
            measurement.record(kind, now - start, &CostTotals::default());
            start = now;
            let client = &mut self.clients[next];
            client.done += 1;
            if deadline.is_over(now, client.done) {
                client.over = true;
                running -= 1;
            }
        }
        Ok(measurement)
    }
}

#[cfg(test)]
mod tests;
