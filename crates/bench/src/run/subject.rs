//! What can be measured: an index by its operations, and a fabric by the clients that it gives.
//!
//! Another index or fabric is one more implementation here, and one more arm in `node.rs`.

use std::future::Future;

use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::sherman::{Direction, Entries, Range, Sherman};
use farwood_transport::shm::{ShmFabric, ShmPool};
use farwood_transport::tcp::{TcpFabric, TcpPool};

/// An index, as one compute node has it open. Round trips are the index's own; this only names its operations.
pub(crate) trait Subject<F: Fabric>: Sync {
    /// What a scan found, and room to find it in.
    type Found: Default;

    /// Copies the value of `key` into `value`; false if there is no such key.
    fn get(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &mut [u8],
    ) -> impl Future<Output = Result<bool, IndexError>>;

    /// Inserts or updates; yields whether the key was there.
    fn put(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<bool, IndexError>>;

    /// Inserts unless the key is there; yields whether it did.
    fn insert(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<bool, IndexError>>;

    /// Updates if the key is there; yields whether it was.
    fn update(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<bool, IndexError>>;

    /// Removes; yields whether the key was there.
    fn remove(&self, client: &Client<F>, key: &[u8]) -> impl Future<Output = Result<bool, IndexError>>;

    /// Finds up to `limit` entries of `range`.
    fn scan(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Self::Found,
    ) -> impl Future<Output = Result<(), IndexError>>;

    /// The entries that the last scan found, in its order.
    fn entries(found: &Self::Found) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// Visits every entry.
    fn pass(&self, client: &Client<F>) -> impl Future<Output = Result<u64, IndexError>>;

    /// Bytes of the index cache in use.
    fn cache_bytes(&self) -> u64;
}

impl<F: Fabric> Subject<F> for Sherman {
    type Found = Entries;

    #[inline]
    async fn get(&self, client: &Client<F>, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        let found = Sherman::get(self, client, key).await?;
        Ok(found.map(|found| value.copy_from_slice(&found)).is_some())
    }

    #[inline]
    async fn put(&self, client: &Client<F>, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        Sherman::put(self, client, key, value).await
    }

    #[inline]
    async fn insert(&self, client: &Client<F>, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        Sherman::insert(self, client, key, value).await
    }

    #[inline]
    async fn update(&self, client: &Client<F>, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        Sherman::update(self, client, key, value).await
    }

    #[inline]
    async fn remove(&self, client: &Client<F>, key: &[u8]) -> Result<bool, IndexError> {
        Sherman::remove(self, client, key).await
    }

    #[inline]
    async fn scan(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        Sherman::scan(self, client, range, direction, limit, found).await
    }

    fn entries(found: &Entries) -> impl Iterator<Item = (&[u8], &[u8])> {
        found.iter()
    }

    async fn pass(&self, client: &Client<F>) -> Result<u64, IndexError> {
        self.count(client).await
    }

    fn cache_bytes(&self) -> u64 {
        Sherman::cache_bytes(self).0 as u64
    }
}

/// A process's attachment to a pool, whatever the fabric.
pub(crate) trait ComputeNode: Sync {
    /// The fabric of its clients.
    type Fabric: Fabric;

    /// A new client for the calling thread.
    fn client(&self) -> Client<Self::Fabric>;
}

impl ComputeNode for ShmPool {
    type Fabric = ShmFabric;

    fn client(&self) -> Client<ShmFabric> {
        ShmPool::client(self)
    }
}

impl ComputeNode for TcpPool {
    type Fabric = TcpFabric;

    fn client(&self) -> Client<TcpFabric> {
        TcpPool::client(self)
    }
}
