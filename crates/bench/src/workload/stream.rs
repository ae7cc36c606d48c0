//! One client's operations: seeded, repeatable, without allocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Mix, Workload, WorkloadSpec};
use crate::workload::distribution::{Distribution, KeyChooser};
use crate::workload::random::Generator;

/// One operation, on keys by their rank and values by their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read the key.
    Get {
        /// Rank of the key.
        rank: u64,
    },
    /// Insert or update the key.
    Put {
        /// Rank of the key.
        rank: u64,
        /// Version of the value to store.
        version: u64,
    },
    /// Insert a key that no client has inserted before.
    Insert {
        /// Rank of the key.
        rank: u64,
        /// Version of the value to store.
        version: u64,
    },
    /// Remove the key. No mix has removes; the demo has.
    Remove {
        /// Rank of the key.
        rank: u64,
    },
    /// Read `length` keys in order, from the key on.
    Scan {
        /// Rank of the first key.
        rank: u64,
        /// Number of keys.
        length: u32,
    },
    /// Read the key, then update it.
    ReadModifyWrite {
        /// Rank of the key.
        rank: u64,
        /// Version of the value to store.
        version: u64,
    },
}

/// The number of keys that each client has inserted, shared by the clients of one process.
///
/// With it, `latest` reads the last inserts of other clients. Without it, and for keys of other processes, a client
/// reads its own inserts instead.
#[derive(Debug)]
pub struct InsertBoard {
    counts: Vec<Count>,
}

/// The number of keys that all clients of a load have drawn so far, if they draw from the same keys.
///
/// A client without the counter inserts a fixed share of the keys, so that a fast client ends before a slow one.
#[derive(Clone, Debug, Default)]
pub struct InsertCounter(Arc<AtomicU64>);

impl InsertCounter {
    fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A counter on its own cache line, because every insert writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

impl InsertBoard {
    /// A board for `clients` clients, numbered from 0.
    pub fn new(clients: u64) -> InsertBoard {
        InsertBoard { counts: (0..clients).map(|_| Count::default()).collect() }
    }

    fn publish(&self, client: u64, inserts: u64) {
        self.counts[client as usize].0.store(inserts, Ordering::Release);
    }

    fn inserts(&self, client: u64) -> u64 {
        self.counts[client as usize].0.load(Ordering::Acquire)
    }
}

/// The operations of one client: an unbounded iterator, except that `load` ends when the client has inserted its share,
/// or when no key is left of those that it shares, and inserts end when the ranks are used up.
///
/// The caller finishes each operation before it takes the next one; an insert is complete only then.
#[derive(Clone, Debug)]
pub struct OperationStream {
    generator: Generator,
    chooser: KeyChooser,
    latest: bool,
    /// Bounds of the percentages: below the first a get, below the second a put, …
    bounds: [u64; 4],
    scan_length: ScanLength,
    client: u64,
    clients: u64,
    keys: u64,
    /// The first rank that this run inserts; the client's own are `client, client + clients, …` above it.
    insert_base: u64,
    insert_end: u64,
    inserts: u64,
    writes: u64,
    board: Option<Arc<InsertBoard>>,
    shared: Option<InsertCounter>,
}

#[derive(Clone, Copy, Debug)]
enum ScanLength {
    Fixed(u32),
    UniformTo(u32),
}

impl OperationStream {
    pub(super) fn new(
        spec: &WorkloadSpec,
        client: u64,
        distribution: Distribution,
        chooser: KeyChooser,
    ) -> OperationStream {
        let (insert_base, insert_end) = match spec.workload {
            Workload::Load => (spec.preloaded_keys, spec.keys),
            _ => (spec.keys, spec.ranks),
        };
        OperationStream {
            generator: Generator::for_client(spec.seed, client),
            chooser,
            latest: matches!(distribution, Distribution::Latest { .. }),
            bounds: bounds(spec.workload.mix(client)),
            scan_length: match spec.workload {
                Workload::YcsbE => ScanLength::UniformTo(spec.range_size),
                _ => ScanLength::Fixed(spec.range_size),
            },
            client,
            clients: spec.clients,
            keys: spec.keys,
            insert_base,
            insert_end,
            inserts: 0,
            writes: 0,
            board: None,
            shared: None,
        }
    }

    /// Publishes this client's inserts on the board, and reads those of the other clients. Runs with a board of several
    /// clients are repeatable only if their clients run in a repeatable order.
    #[must_use]
    pub fn with_board(mut self, board: Arc<InsertBoard>) -> OperationStream {
        self.board = Some(board);
        self
    }

    /// Draws the keys of a load from those that all clients with `counter` share.
    #[must_use]
    pub fn drawing_from(mut self, counter: InsertCounter) -> OperationStream {
        self.shared = Some(counter);
        self
    }

    /// Keys that this client has inserted so far; the last insert may not be finished.
    pub fn inserts(&self) -> u64 {
        self.inserts
    }

    fn insert(&mut self) -> Option<Operation> {
        let number = match &self.shared {
            Some(counter) => counter.draw(),
            None => self.inserts * self.clients + self.client,
        };
        let rank = self.insert_base + number;
        if rank >= self.insert_end {
            return None;
        }
        self.inserts += 1;
        Some(Operation::Insert { rank, version: self.version() })
    }

    /// The next version. Versions of all clients differ until they wrap; 0 is the version of loaded values.
    #[inline]
    fn version(&mut self) -> u64 {
        let version = 1 + self.writes * self.clients + self.client;
        self.writes += 1;
        version
    }

    #[inline]
    fn choose(&mut self) -> u64 {
        if self.latest { self.choose_latest() } else { self.chooser.choose(&mut self.generator) }
    }

    /// Chooses a rank by recency, under the assumption that all clients have inserted as many keys as this one.
    fn choose_latest(&mut self) -> u64 {
        let count = self.keys + self.inserts * self.clients;
        let rank = count - 1 - self.chooser.recency(&mut self.generator, count);
        if rank < self.keys {
            return rank;
        }
        let (round, owner) = ((rank - self.keys) / self.clients, (rank - self.keys) % self.clients);
        let known = match &self.board {
            _ if owner == self.client => true,
            Some(board) => board.inserts(owner) > round,
            None => false,
        };
        if known { rank } else { self.keys + round * self.clients + self.client }
    }

    fn scan_length(&mut self) -> u32 {
        match self.scan_length {
            ScanLength::Fixed(length) => length,
            ScanLength::UniformTo(longest) => 1 + self.generator.below(u64::from(longest)) as u32,
        }
    }
}

impl Iterator for OperationStream {
    type Item = Operation;

    #[inline]
    fn next(&mut self) -> Option<Operation> {
        if let Some(board) = &self.board {
            board.publish(self.client, self.inserts);
        }
        let random = self.generator.next_u64() >> 1;
        if random < self.bounds[0] {
            Some(Operation::Get { rank: self.choose() })
        } else if random < self.bounds[1] {
            Some(Operation::Put { rank: self.choose(), version: self.version() })
        } else if random < self.bounds[2] {
            Some(Operation::Scan { rank: self.choose(), length: self.scan_length() })
        } else if random < self.bounds[3] {
            Some(Operation::ReadModifyWrite { rank: self.choose(), version: self.version() })
        } else {
            self.insert()
        }
    }
}

/// The bounds of a mix for a random number below 2^63; a number above the last bound is an insert.
fn bounds(mix: Mix) -> [u64; 4] {
    let mut percent = 0u128;
    [mix.get, mix.put, mix.scan, mix.read_modify_write].map(|share| {
        percent += u128::from(share);
        ((percent << 63) / 100) as u64
    })
}
