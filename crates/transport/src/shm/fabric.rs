//! One client's connection to a shared-memory pool, as a fabric.

use super::attachment::ShmAttachment;
use super::sys;
use crate::runtime::{sleep, thread_number};
use farwood_fabric::{
    Access, Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, PoolShape, Revocation,
    client_table,
};
use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

/// One client's connection to a shared-memory pool. Posts are complete when they return.
pub struct ShmFabric {
    pub(super) pool: Arc<ShmAttachment>,
    /// The number of its journal buffer; 0 in an anonymous pool.
    pub(super) buffer: usize,
    /// The error of a detached post.
    pub(super) failed: RefCell<Option<FabricError>>,
}

impl ShmFabric {
    /// Ends a client whose slot has been claimed: replays its journal, then ends its identity.
    async fn end_client(&self, table: &Client<&Self>, client: ClientId) -> Result<Revocation, FabricError> {
        if client_table::slot_state(table, client.slot).await?.is(client) {
            if self.pool.replay(client.slot).is_err() {
                return Ok(Revocation::Alive);
            }
            client_table::expire(table, client).await?;
        }
        Ok(Revocation::Gone)
    }
}

impl Fabric for ShmFabric {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        &self.pool.nodes.capabilities
    }

    #[inline]
    fn shape(&self) -> PoolShape {
        self.pool.nodes.shape
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }

    #[inline]
    fn identity(&self) -> ClientId {
        self.pool.identity()
    }

    #[inline]
    fn access(&self) -> Access {
        self.pool.access()
    }

    #[inline]
    fn submit(&self, mut doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        let earlier = self.failed.take();
        let done = earlier.map_or_else(|| self.pool.execute(self.buffer, &mut doorbell), Err);
        std::future::ready(done.map(|()| doorbell))
    }

    fn submit_detached(&self, mut doorbell: Doorbell) -> Option<Doorbell> {
        if self.access() == Access::ReadOnly && !doorbell.only_reads() {
            // Such a post only helps other clients.
            return Some(doorbell);
        }
        if let Err(error) = self.pool.execute(self.buffer, &mut doorbell) {
            self.failed.replace(Some(error));
        }
        Some(doorbell)
    }

    fn lock_tag(&self) -> u16 {
        0
    }

    fn now(&self) -> u64 {
        sys::monotonic_nanoseconds()
    }

    #[inline]
    fn thread(&self) -> usize {
        thread_number()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    /// A client counts as ended after two steps. First, the kernel releases the presence lock of its process, which it
    /// does only after all threads of the process have stopped. Then another process takes that lock and replays the
    /// journal. Until the replay is done, the client counts as alive.
    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        self.pool.forks.check()?;
        let table = Client::new(self);
        if !client_table::slot_state(&table, client.slot).await?.is(client) {
            return Ok(Revocation::Gone);
        }
        if self.pool.access() == Access::ReadOnly {
            // Only a process that may write completes the last WRITE of a crashed client.
            return Ok(Revocation::Alive);
        }
        let slot = u32::from(client.slot);
        if client.slot == self.pool.identity().slot || !self.pool.presence.claim(slot).unwrap_or(false) {
            return Ok(Revocation::Alive);
        }
        let ended = self.end_client(&table, client).await;
        let _ = self.pool.presence.release(slot);
        ended
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(self.pool.provision(at, bytes))
    }
}

impl std::fmt::Debug for ShmFabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmFabric").field("identity", &self.pool.identity()).finish_non_exhaustive()
    }
}
