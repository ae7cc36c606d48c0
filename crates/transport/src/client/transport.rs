//! The differences between TCP and RDMA: the transport of verbs to the memory nodes. Both share everything else
//! ([`pool`](super::pool)): forming a pool, entering and leaving it, liveness, fencing.

use super::endpoints::Endpoints;
use super::post::Waiter;
use crate::wire::Control;
use farwood_fabric::{Capabilities, ClientId, Doorbell, FabricError, NodeId};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A transport to memory nodes. Sealed: only this crate implements it.
pub trait VerbTransport: ThreadConnections {}

/// The connection sets of a thread, by the address of their attachment.
pub(crate) type ConnectionTable<W> = RefCell<Vec<(*const (), Weak<W>)>>;

/// One thread's connections to the memory nodes of a pool, shared by the clients of the thread.
pub trait ThreadConnections: Sized + fmt::Debug + 'static {
    /// The data that all connection sets of an attachment share, besides the endpoints.
    type Shared: fmt::Debug + Send + Sync;

    /// Whether all memory of a memory node is allocated from the start.
    const MEMORY_IS_PROVISIONED: bool;

    /// The scheme of such pools in URLs.
    const SCHEME: &'static str;

    /// Connections of `client`, or of a compute node without an identity. `number` is unique among the
    /// client's sets.
    fn new(
        shared: &Arc<Self::Shared>,
        endpoints: Arc<Endpoints>,
        client: Option<ClientId>,
        number: u64,
    ) -> Rc<Self>;

    /// Returns the capabilities of the memory nodes.
    fn capabilities(shared: &Self::Shared) -> &Capabilities;

    /// Calls `work` with the connection sets of this thread. Returns `None` while the thread ends, because its table
    /// has been dropped.
    fn with_table<T>(work: impl FnOnce(&ConnectionTable<Self>) -> T) -> Option<T>;

    /// Returns whether every verb of `doorbell` must be checked before it is sent, because no later error names the
    /// verb.
    fn checks_all(doorbell: &Doorbell) -> bool;

    /// Starts a doorbell whose requests all address memory nodes of the pool.
    fn post(&self, doorbell: Doorbell, waits: Waiter) -> usize;

    /// Waits for a post of [`Waiter::Future`].
    fn wait(&self, post: usize) -> impl Future<Output = Result<Doorbell, FabricError>>;

    /// Sends the queued requests.
    fn flush(&self);

    /// Waits for pending posts, within a bounded time.
    fn finish(&self);

    /// Sends a control to memory node `node` and waits for its answer.
    fn control(
        &self,
        node: NodeId,
        control: Control,
        words: [u64; 4],
    ) -> impl Future<Output = Result<[u64; 4], FabricError>>;
}
