//! The trait of an index under development.

use crate::{LabError, LabResult, Space};
use farwood_fabric::{Client, Fabric};

/// An index in far memory: the handle that one compute node has of it, which all its clients share.
///
/// An operation gets a client, through which it posts verbs: `client.post(verbs).await` is one round trip. Each method
/// may run concurrently with any other, of any client. Keys have [`KEY_BYTES`](Self::KEY_BYTES) bytes and values
/// [`VALUE_BYTES`](Self::VALUE_BYTES); the first four to eight bytes hold a number that is not 0.
#[expect(async_fn_in_trait, reason = "clients belong to one thread")]
pub trait FarIndex: Sized {
    /// The name in records.
    const NAME: &'static str;
    /// Bytes of a key, 4 to 1024; `bench` needs at least 8. Keys that are compared as bytes are in the order of their
    /// numbers.
    const KEY_BYTES: usize = 8;
    /// Bytes of a value, 4 to 1024; `bench` needs at least 8.
    const VALUE_BYTES: usize = 8;
    /// Whether the index has [`scan`](Self::scan).
    const SCANS: bool = false;
    /// CPU time that `bench` charges for an operation besides its verbs, in ns; `None`: as in the NIC model, where
    /// it was fitted to Sherman's lookup.
    const OPERATION_NS: Option<f64> = None;
    /// The names of deliberate defects, which `canaries` must find.
    const MUTANTS: &'static [&'static str] = &[];

    /// Bytes of host memory that an index with `keys` keys needs at each of `memory_nodes` memory nodes.
    fn node_bytes(keys: u64, memory_nodes: u16) -> u64;

    /// Writes an empty index into the memory of `space`, which is zero. One client does this before all others.
    async fn create<F: Fabric>(client: &Client<F>, space: Space) -> LabResult<()> {
        let _ = (client, space);
        Ok(())
    }

    /// Opens the index at a compute node, once.
    async fn open<F: Fabric>(client: &Client<F>, space: Space) -> LabResult<Self>;

    /// Reads the value of a key.
    async fn get<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> LabResult<Option<Vec<u8>>>;

    /// Stores a value, whether the key is present or not; returns whether it was present.
    async fn put<F: Fabric>(&self, client: &Client<F>, key: &[u8], value: &[u8]) -> LabResult<bool>;

    /// Removes a key; returns whether it was present.
    async fn remove<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> LabResult<bool>;

    /// Reads at most `limit` entries in the order of their keys, from `from` on. It need not be atomic: each entry was
    /// present at some time during the scan, and no key that was present throughout is missing.
    async fn scan<F: Fabric>(
        &self,
        client: &Client<F>,
        from: &[u8],
        limit: usize,
    ) -> LabResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let _ = (client, from, limit);
        Err(LabError::index(format!("{} has no scans", Self::NAME)))
    }

    /// Checks the invariants of the index when no other client runs; returns a description of each violation.
    async fn verify<F: Fabric>(&self, client: &Client<F>) -> LabResult<Vec<String>> {
        let _ = client;
        Ok(Vec::new())
    }

    /// Makes the handle of every compute node use the defect `name`, one of [`MUTANTS`](Self::MUTANTS).
    fn mutate(&mut self, name: &str) {
        let _ = name;
    }
}
