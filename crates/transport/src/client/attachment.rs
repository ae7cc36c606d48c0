//! One process's attachment to a pool: its identity, and the connections of its threads.

use super::endpoints::{Endpoints, PRESENCE_CONNECTION};
use super::membership::{Unregistered, fence_own};
use super::transport::VerbTransport;
use crate::fork::ForkCount;
use crate::runtime::block_on;
use farwood_fabric::{Access, Client, ClientId, FabricError, client_table};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// One process's attachment to a pool.
pub(super) struct Attachment<W: VerbTransport> {
    pub(super) endpoints: Arc<Endpoints>,
    pub(super) shared: Arc<W::Shared>,
    /// The identity; `None`: this process only reads.
    pub(super) client: Option<ClientId>,
    pub(super) next_number: AtomicU64,
    /// Tag of the next acquisition of a lock.
    pub(super) next_lock_tag: AtomicU16,
    /// Maximum connection sets per thread.
    pub(super) per_thread_max: usize,
    /// Set once, when this compute node leaves the pool; afterwards none of its clients may post.
    pub(super) left: AtomicBool,
    /// The fork count of the process that opened the attachment.
    pub(super) forks: ForkCount,
}

impl<W: VerbTransport> Attachment<W> {
    #[inline]
    pub(super) fn identity(&self) -> ClientId {
        self.client.unwrap_or(ClientId::NONE)
    }

    #[inline]
    pub(super) fn access(&self) -> Access {
        Access::of(self.client)
    }

    /// Refuses a forked child, and a compute node that has left the pool.
    #[inline]
    pub(super) fn check(&self) -> Result<(), FabricError> {
        self.forks.check()?;
        if self.left.load(Ordering::Relaxed) { Err(FabricError::Revoked(self.identity())) } else { Ok(()) }
    }

    /// Returns a connection set of this thread for one more client: a new one up to the limit, then the one
    /// with the fewest clients. A client keeps its set, and with it the order of its posts.
    pub(super) fn connections(self: &Arc<Self>) -> Rc<W> {
        let me: *const () = Arc::as_ptr(self).cast();
        let fresh = || {
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            W::new(&self.shared, Arc::clone(&self.endpoints), self.client, number)
        };
        let kept = W::with_table(|sets| {
            let mut sets = sets.borrow_mut();
            sets.retain(|(_, connections)| connections.strong_count() > 0);
            // A set in the table has a client, which keeps its attachment alive, so no other attachment has the same
            // address.
            let mine = || {
                sets.iter().filter(|(attachment, _)| *attachment == me).map(|(_, connections)| connections)
            };
            let least = mine()
                .min_by_key(|connections| connections.strong_count())
                .filter(|_| mine().count() >= self.per_thread_max);
            least.and_then(Weak::upgrade).unwrap_or_else(|| {
                let connections = fresh();
                sets.push((me, Rc::downgrade(&connections)));
                connections
            })
        });
        // While the thread ends, its table no longer exists, and the set serves this client only.
        kept.unwrap_or_else(fresh)
    }

    /// Ends the identity at every memory node and then in the client table. Later calls do nothing. If that fails, the
    /// identity ends with its connections, and other clients detect it. In a forked child it does nothing: the compute
    /// node is the parent, and its sockets belong to both.
    pub(super) fn leave(&self) {
        if !self.forks.is_current() || self.left.swap(true, Ordering::SeqCst) {
            return;
        }
        let me: *const () = std::ptr::from_ref(self).cast();
        let sets = W::with_table(|sets| {
            let sets = sets.borrow();
            let mine = sets.iter().filter(|(attachment, _)| *attachment == me);
            mine.filter_map(|(_, connections)| connections.upgrade()).collect::<Vec<_>>()
        });
        for connections in sets.unwrap_or_default() {
            connections.finish();
        }
        self.endpoints.end_presence();
        let Some(identity) = self.client else { return };
        let unregistered =
            Unregistered(W::new(&self.shared, Arc::clone(&self.endpoints), None, PRESENCE_CONNECTION));
        if block_on(fence_own(&*unregistered.0, &self.endpoints, identity)).is_ok() {
            let _ = block_on(client_table::expire(&Client::new(&unregistered), identity));
        }
    }
}

impl<W: VerbTransport> Drop for Attachment<W> {
    fn drop(&mut self) {
        self.leave();
    }
}
