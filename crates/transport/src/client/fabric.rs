//! One client's connection to a pool that memory nodes serve, as a fabric.

use super::added_nodes;
use super::attachment::Attachment;
use super::membership::{fence, is_connected};
use super::post::{DetachedError, Waiter, refuse};
use super::transport::VerbTransport;
use crate::runtime::{sleep, thread_number};
use crate::shm::monotonic_nanoseconds;
use crate::wire::Control;
use farwood_fabric::{
    Access, Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, PoolShape, Remote,
    Revocation, client_table,
};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One client's connection to a pool that memory nodes serve.
pub struct ServedFabric<W: VerbTransport> {
    // Declared before the attachment, so that pending posts execute before the identity ends.
    pub(super) connections: Rc<W>,
    pub(super) pool: Arc<Attachment<W>>,
    /// The error of a detached post.
    pub(super) failed: DetachedError,
}

impl<W: VerbTransport> ServedFabric<W> {
    /// Returns the reason why a doorbell cannot be sent, if there is one.
    #[inline]
    fn refuse(&self, doorbell: &Doorbell, checks: Checks) -> Option<FabricError> {
        if let Err(error) = self.pool.check() {
            return Some(error);
        }
        if self.pool.access() == Access::ReadOnly && !doorbell.only_reads() {
            return Some(FabricError::ReadOnly);
        }
        let shape = self.pool.endpoints.shape();
        let all = checks == Checks::All || W::checks_all(doorbell);
        let checked = |at: Address| all || at.node().0 >= shape.nodes;
        let mut requests = doorbell.requests().iter().filter(|request| checked(request.at));
        requests.find_map(|request| refuse(&shape, W::capabilities(&self.pool.shared), request))
    }
}

impl<W: VerbTransport> ServedFabric<W> {
    /// After `error` of a doorbell: looks for the memory nodes that it addresses, in case they were added to the pool.
    /// [1 RT, 16 more for each]
    #[cold]
    async fn learn_nodes(&self, doorbell: &Doorbell, error: FabricError) -> Result<(), FabricError> {
        let FabricError::OutOfRange { at, .. } = error else { return Err(error) };
        if at.node().0 < self.shape().nodes {
            return Err(error);
        }
        self.find_added_nodes().await?;
        self.refuse(doorbell, Checks::Nodes).map_or(Ok(()), Err)
    }
}

/// The checks of a doorbell before it is sent; the memory nodes check everything again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// Whether the memory node exists.
    Nodes,
    /// Everything that this side can check.
    All,
}

impl<W: VerbTransport> Fabric for ServedFabric<W> {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        W::capabilities(&self.pool.shared)
    }

    #[inline]
    fn shape(&self) -> PoolShape {
        self.pool.endpoints.shape()
    }

    async fn find_added_nodes(&self) -> Result<(), FabricError> {
        self.pool.check()?;
        added_nodes::find(&*self.connections, &self.pool.endpoints).await
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
    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Some(error) = self.refuse(&doorbell, Checks::Nodes) {
            self.learn_nodes(&doorbell, error).await?;
        }
        let post = self.connections.post(doorbell, Waiter::Future);
        self.connections.wait(post).await
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        if self.access() == Access::ReadOnly && !doorbell.only_reads() {
            // Such a post only helps other clients.
            return Some(doorbell);
        }
        // A corrupt pointer must fail at the next post.
        if let Some(error) = self.refuse(&doorbell, Checks::All) {
            self.failed.replace(Some(error));
            return Some(doorbell);
        }
        self.connections.post(doorbell, Waiter::Detached(Rc::clone(&self.failed)));
        self.connections.flush();
        None
    }

    #[inline]
    fn lock_tag(&self) -> u16 {
        match self.pool.next_lock_tag.fetch_add(1, Ordering::Relaxed) {
            0 => self.pool.next_lock_tag.fetch_add(1, Ordering::Relaxed),
            tag => tag,
        }
    }

    fn now(&self) -> u64 {
        monotonic_nanoseconds()
    }

    #[inline]
    fn thread(&self) -> usize {
        thread_number()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    /// A client has ended when no memory node has a connection of it, and none accepts a new one.
    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        let table = Client::new(self);
        if !client_table::slot_state(&table, client.slot).await?.is(client) {
            return Ok(Revocation::Gone);
        }
        // A process that only reads fences no client: the next one that may write does.
        if client == self.pool.identity() || self.pool.access() == Access::ReadOnly {
            return Ok(Revocation::Alive);
        }
        let fenced = match is_connected(&*self.connections, &self.pool.endpoints, client).await {
            Ok(true) => return Ok(Revocation::Alive),
            Ok(false) => fence(&*self.connections, &self.pool.endpoints, client).await,
            Err(error) => Err(error),
        };
        match fenced {
            Ok(()) => {}
            Err(error @ FabricError::Revoked(_)) => return Err(error),
            // The client may still be connected to a memory node that does not answer.
            Err(_) => return Ok(Revocation::Alive),
        }
        client_table::expire(&table, client).await?;
        Ok(Revocation::Gone)
    }

    async fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        self.pool.forks.check()?;
        if self.pool.access() == Access::ReadOnly {
            return Err(FabricError::ReadOnly);
        }
        let shape = self.shape();
        if at.node().0 >= shape.nodes || at.offset().saturating_add(bytes) > shape.host_bytes {
            return Err(FabricError::OutOfRange { at, bytes: bytes as usize });
        }
        if W::MEMORY_IS_PROVISIONED {
            return Ok(());
        }
        let words = [Remote::<u8>::at(at).word(), bytes, 0, 0];
        self.connections.control(at.node(), Control::Provision, words).await.map(|_| ())
    }
}

impl<W: VerbTransport> std::fmt::Debug for ServedFabric<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(W::SCHEME).field("identity", &self.pool.identity()).finish_non_exhaustive()
    }
}
