//! What Farwood is measured against: other ordered stores, driven by the same streams of operations.
//!
//! | peer | what | shared by | keys | values |
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
use std::time::Instant;

use crate::keys::Keys;
use crate::measure::{CostTotals, Measurement, OperationKind};
use crate::values::{fill_value, verify_for};
use crate::workload::{Operation, OperationStream, Workload, WorkloadSpec};
use crate::{Error, Result};

mod btreemap;
mod cell;
mod congee;
mod lmdb;
mod skiplist;
mod sys;

/// An ordered store. Shared by the worker threads of a process.
pub trait Peer: Send + Sync {
    /// Copies the value of `key` into `value`; false if there is no such key.
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool>;

    /// Inserts or updates.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Inserts unless the key is present.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes; false if there was no such key.
    fn remove(&self, key: &[u8]) -> Result<bool>;

    /// Calls `visit` with up to `limit` entries in order from `from` on; says how many there were.
    fn scan(&self, from: &[u8], limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize>;

    /// Loads entries in ascending order of their keys into the empty store. `next` fills in the next key and
    /// value, or says that there is none.
    fn load(&self, next: &mut dyn FnMut(&mut [u8], &mut [u8]) -> bool, sizes: Sizes) -> Result<()> {
        let (mut key, mut value) = (vec![0; sizes.key_bytes], vec![0; sizes.value_bytes]);
        while next(&mut key, &mut value) {
            self.put(&key, &value)?;
        }
        Ok(())
    }

    /// Bytes that the store uses, where it can tell.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// Lengths of all keys and values of a store, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Of a key.
    pub key_bytes: usize,
    /// Of a value.
    pub value_bytes: usize,
}

/// Which peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerKind {
    /// LMDB.
    Lmdb,
    /// A locked `BTreeMap`.
    Btreemap,
    /// congee.
    Congee,
    /// crossbeam's skip list.
    Skiplist,
}

impl PeerKind {
    /// All of them.
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

    /// Whether several processes can open the same store; otherwise only the threads of one can.
    pub fn is_shared_by_processes(self) -> bool {
        self == PeerKind::Lmdb
    }

    /// Opens or creates the store. LMDB's lies in `folder`, which must exist, and has room for `entries_max`
    /// entries; every process of a run gives the same number, and opens it once. The others are empty and in
    /// this process's memory. Refuses lengths that the peer does not support.
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

/// Loads the keys that `spec` says are there before measuring (none for `load`), with version 0.
pub fn prepare(peer: &dyn Peer, keys: &Keys, spec: &WorkloadSpec, value_bytes: usize) -> Result<()> {
    let count = if spec.workload == Workload::Load { 0 } else { spec.keys };
    let mut ranks = keys.ranks_in_key_order(count).into_iter();
    let mut next = |key: &mut [u8], value: &mut [u8]| {
        let Some(rank) = ranks.next() else { return false };
        keys.write_key(rank, key);
        fill_value(value, rank, 0);
        true
    };
    peer.load(&mut next, Sizes { key_bytes: keys.key_bytes(), value_bytes })
}

/// When a run stops; it also stops when no client has anything left to do.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// After this many operations.
    Operations(u64),
    /// After the operation during which this time comes.
    At(Instant),
}

/// The clients of one thread: their streams and buffers. Lives over warm-up and rounds.
#[derive(Debug)]
pub struct PeerClients<'a> {
    keys: &'a Keys,
    may_miss: bool,
    streams: Vec<OperationStream>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> PeerClients<'a> {
    /// The clients whose streams these are, on `keys`, with values of `value_bytes` (at least 8).
    pub fn new(
        keys: &'a Keys,
        spec: &WorkloadSpec,
        streams: Vec<OperationStream>,
        value_bytes: usize,
    ) -> Result<PeerClients<'a>> {
        crate::values::check_value_bytes(value_bytes)?;
        let (key, value) = (vec![0; keys.key_bytes()], vec![0; value_bytes]);
        Ok(PeerClients { keys, may_miss: spec.workload.may_miss(), streams, key, value })
    }

    /// Runs the clients in turn until `stop`. Answers are checked: a key that must be there is, and a value
    /// belongs to its key.
    pub fn run(&mut self, peer: &dyn Peer, stop: Stop) -> Result<Measurement> {
        let mut measurement = Measurement::new();
        let (mut done, mut turn) = (0u64, 0);
        while !self.streams.is_empty() {
            turn %= self.streams.len();
            let Some(operation) = self.streams[turn].next() else {
                self.streams.remove(turn);
                continue;
            };
            turn += 1;
            let (rank, kind) = subject(operation);
            self.keys.write_key(rank, &mut self.key);
            let start = Instant::now();
            self.execute(peer, operation)?;
            let end = Instant::now();
            measurement.record(kind, (end - start).as_nanos() as u64, &CostTotals::default());
            done += 1;
            let over = match stop {
                Stop::Operations(operations) => done >= operations,
                Stop::At(time) => end >= time,
            };
            if over {
                break;
            }
        }
        Ok(measurement)
    }

    /// Does one operation on `self.key`.
    #[inline]
    fn execute(&mut self, peer: &dyn Peer, operation: Operation) -> Result<()> {
        match operation {
            Operation::Get { rank } => self.get(peer, rank),
            Operation::Put { rank, version } => {
                fill_value(&mut self.value, rank, version);
                peer.put(&self.key, &self.value)
            }
            Operation::Insert { rank, version } => {
                fill_value(&mut self.value, rank, version);
                peer.insert(&self.key, &self.value)
            }
            Operation::Remove { .. } => peer.remove(&self.key).map(drop),
            Operation::Scan { length, .. } => {
                let value = &mut self.value;
                let visit = &mut |_: &[u8], found: &[u8]| {
                    value.copy_from_slice(found);
                    black_box(&*value);
                };
                peer.scan(&self.key, length as usize, visit).map(drop)
            }
            Operation::ReadModifyWrite { rank, version } => {
                self.get(peer, rank)?;
                fill_value(&mut self.value, rank, version);
                peer.put(&self.key, &self.value)
            }
        }
    }

    #[inline]
    fn get(&mut self, peer: &dyn Peer, rank: u64) -> Result<()> {
        if peer.get(&self.key, &mut self.value)? {
            return verify_for(rank, &self.value).map(drop);
        }
        if self.may_miss {
            return Ok(());
        }
        let problem = format!("the key of rank {rank} is not there although it was loaded or inserted");
        Err(Error::Peer { peer: "the store", problem })
    }
}

/// The key that an operation starts at, and what it is counted as.
fn subject(operation: Operation) -> (u64, OperationKind) {
    match operation {
        Operation::Get { rank } => (rank, OperationKind::Get),
        Operation::Put { rank, .. } | Operation::ReadModifyWrite { rank, .. } => (rank, OperationKind::Put),
        Operation::Insert { rank, .. } => (rank, OperationKind::Insert),
        Operation::Remove { rank } => (rank, OperationKind::Remove),
        Operation::Scan { rank, .. } => (rank, OperationKind::Scan),
    }
}

#[cfg(test)]
mod tests;
