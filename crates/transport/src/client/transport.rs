//! What is different between pools that memory nodes serve: how verbs reach the memory nodes. All else is shared
//! ([`pool`](super::pool)): forming a pool, entering and leaving it, who is alive, fencing.

use super::endpoints::Reach;
use super::post::Waits;
use crate::wire::Control;
use farwood_fabric::{Capabilities, ClientId, Doorbell, FabricError, NodeId};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// One thread's way to the memory nodes of a pool, shared by all clients of the thread. Only this crate has some.
pub trait Way: Carrier {}

/// The ways that a thread has, by the address of their attachment.
pub(crate) type Ways<W> = RefCell<Vec<(*const (), Weak<W>)>>;

/// What carries verbs.
pub trait Carrier: Sized + fmt::Debug + 'static {
    /// What all ways of an attachment share, besides how its memory nodes are reached.
    type Ground: fmt::Debug + Send + Sync;

    /// Whether all memory of a memory node is real from its start.
    const MEMORY_IS_REAL: bool;

    /// What pools of this kind are called in URLs.
    const SCHEME: &'static str;

    /// A way of `client`, or of a compute node that has no identity yet, or none any more. `number` is unlike that of
    /// the client's other ways.
    fn new(ground: &Arc<Self::Ground>, reach: Arc<Reach>, client: Option<ClientId>, number: u64) -> Rc<Self>;

    /// What the memory nodes promise.
    fn capabilities(ground: &Self::Ground) -> &Capabilities;

    /// Does something with the ways of this thread. `None` at the thread's end: there is nowhere to keep any.
    fn with_ways<T>(work: impl FnOnce(&Ways<Self>) -> T) -> Option<T>;

    /// Whether every verb of `doorbell` must be checked before it leaves, for nobody else tells which was wrong.
    fn checks_all(doorbell: &Doorbell) -> bool;

    /// Hands a doorbell over, every request of which is to a memory node of the pool.
    fn post(&self, doorbell: Doorbell, waits: Waits) -> usize;

    /// Waits for a post that somebody waits for.
    fn wait(&self, post: usize) -> impl Future<Output = Result<Doorbell, FabricError>>;

    /// Sends what waits, at once.
    fn flush(&self);

    /// Waits for what is under way, within a bounded time.
    fn finish(&self);

    /// Asks memory node `node` for something that is no verb.
    fn control(
        &self,
        node: NodeId,
        control: Control,
        words: [u64; 4],
    ) -> impl Future<Output = Result<[u64; 4], FabricError>>;
}
