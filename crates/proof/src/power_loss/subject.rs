//! The index of a run, with the operations that the run needs.

use super::history::{History, WRITERS};
use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_testkit::harness::TestRng;
use farwood_transport::tcp::{MemoryNode, PoolAddress, TcpPool};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const NAME: &str = "power";

/// The values of all keys of all writers; `None`: the key has none.
pub(super) type KeyValues = [Vec<Option<u64>>; WRITERS];

/// The writers and the reader of a run.
pub(super) struct Clients<'r> {
    pub(super) address: PoolAddress,
    /// The memory nodes, of which the first serves a spatial index.
    pub(super) nodes: &'r [MemoryNode],
    pub(super) seed: u64,
    pub(super) history: &'r History,
    pub(super) stopping: &'r AtomicBool,
}

impl Clients<'_> {
    /// Opens the pool as another process does, with an identity of its own.
    pub(super) fn open_pool(&self) -> TcpPool {
        super::open(&self.address).expect("the pool opens")
    }

    /// The random numbers of one of them.
    pub(super) fn random(&self, number: usize) -> TestRng {
        TestRng::new(self.seed ^ (number as u64 + 1) << 32)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// An open index.
pub(super) trait Subject: Sized {
    /// The kinds of index.
    type Kind: Copy + Sync;

    /// Creates the index.
    async fn create<F: Fabric>(client: &Client<F>, kind: Self::Kind) -> Result<(), IndexError>;

    /// Changes the keys of all writers until the run stops.
    fn write(clients: &Clients<'_>);

    /// Opens the index.
    async fn open<F: Fabric>(client: &Client<F>) -> Result<Self, IndexError>;

    /// Reads a key at random, or several, and records the values.
    async fn read<F: Fabric>(
        &self,
        client: &Client<F>,
        random: &mut TestRng,
        history: &History,
    ) -> Result<(), IndexError>;

    /// Reads the values of all keys.
    async fn values<F: Fabric>(&self, client: &Client<F>) -> Result<KeyValues, String>;

    /// Changes some keys of a restarted pool. `nodes`: its memory nodes, if they run.
    async fn change_some<F: Fabric>(
        &self,
        client: &Client<F>,
        nodes: &[MemoryNode],
        random: &mut TestRng,
    ) -> Result<(), IndexError>;

    /// Verifies the structure; returns the violated invariants.
    async fn problems<F: Fabric>(&self, client: &Client<F>) -> Result<String, IndexError>;
}
