//! An open index as its blocking calls use it: the index, and how long a call waits.

use crate::error::Result;
use crate::observe::MeteredClient;
use crate::patience::{Interrupt, Patience};
use crate::thread_client::{self, ThreadPath};
use crate::tree::Tree;
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::ordered::Ordered;
use farwood_transport::any::AnyFabric;
use farwood_transport::runtime::{TaskThread, block_on};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An open index, shared by all handles, with the patience of this one.
#[derive(Clone)]
pub(crate) struct Handle {
    tree: Arc<Tree>,
    /// How long a call waits.
    patience: Patience,
}

impl Deref for Handle {
    type Target = Tree;

    #[inline]
    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl Handle {
    pub(crate) fn new(tree: Arc<Tree>) -> Self {
        Self { tree, patience: Patience::default() }
    }

    /// The index as this process has it open.
    #[inline]
    pub(crate) fn tree(&self) -> &Arc<Tree> {
        self.tree.here()
    }

    /// The same handle for an object that must not continue in a forked child of this process.
    pub(crate) fn here(&self) -> Self {
        Self { tree: Arc::clone(self.tree()), patience: self.patience.clone() }
    }

    /// The same index with another limit.
    pub(crate) fn with_limit(&self, limit: Duration) -> Self {
        let patience = Patience { limit: Some(limit), ..self.patience.clone() };
        Self { tree: Arc::clone(&self.tree), patience }
    }

    /// The same index, whose calls end when `interrupt` returns true.
    pub(crate) fn with_interrupt(&self, interrupt: Interrupt) -> Self {
        let patience = Patience { interrupt: Some(interrupt), ..self.patience.clone() };
        Self { tree: Arc::clone(&self.tree), patience }
    }

    /// The longest duration of a call.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.patience.limit
    }

    /// Runs an operation with the client of this thread, or on the thread of the pool.
    #[inline]
    pub(crate) fn run<T: Send>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&Ordered, &Client<AnyFabric>) -> Result<T, IndexError> + Send,
    ) -> Result<T> {
        let tree = self.tree();
        match Self::path(tree, operation)? {
            ThreadPath::Own(client) => self.run_by((tree, &client), operation, work),
            ThreadPath::Shared(thread) => self.run_on((tree, &thread), operation, work),
        }
    }

    /// This thread's client of `tree` for a call without a limit; `None`: it has none yet, or none at all, or there is
    /// a limit.
    #[inline]
    pub(crate) fn client_without_limit(&self, tree: &Tree) -> Option<Rc<MeteredClient>> {
        if !self.patience.is_endless() {
            return None;
        }
        thread_client::present(tree.pool())
    }

    /// Returns the executor of the operations of this thread.
    #[inline]
    pub(crate) fn path(tree: &Tree, operation: &'static str) -> Result<ThreadPath> {
        thread_client::path(tree.pool()).map_err(|error| tree.failed(operation, error.into()))
    }

    /// Runs an operation with a client of this thread.
    #[inline]
    pub(crate) fn run_by<T>(
        &self,
        (tree, client): (&Tree, &MeteredClient),
        operation: &'static str,
        work: impl AsyncFnOnce(&Ordered, &Client<AnyFabric>) -> Result<T, IndexError>,
    ) -> Result<T> {
        client.call(tree.metered(), operation, || {
            if !self.patience.is_endless() {
                let begun = Instant::now();
                let work = work(tree.ordered(), client);
                return block_on(within(&self.patience, (tree, operation, begun), client, work));
            }
            // Without the limit, the future is polled where it was made.
            block_on(work(tree.ordered(), client)).map_err(|error| tree.failed(operation, error))
        })
    }

    /// Runs an operation on the thread of the pool.
    pub(crate) fn run_on<T: Send>(
        &self,
        (tree, thread): (&Tree, &TaskThread),
        operation: &'static str,
        work: impl AsyncFnOnce(&Ordered, &Client<AnyFabric>) -> Result<T, IndexError> + Send,
    ) -> Result<T> {
        let begun = Instant::now();
        // The program is asked on the thread that waits: signals belong to that thread, and an interpreter's lock, too.
        let (there, pause, ask) = self.patience.divided();
        thread.run_beside(pause, ask, async || {
            let client = thread_client::client(tree.pool());
            let client = client.map_err(|error| tree.failed(operation, error.into()))?;
            let work = || within(&there, (tree, operation, begun), &client, work(tree.ordered(), &client));
            client.shared_call(tree.metered(), operation, Some(begun), work).await
        })
    }

    /// Runs an operation that cannot move to another thread, with a client for it alone if this thread has none.
    pub(crate) fn run_here<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&Ordered, &Client<AnyFabric>) -> Result<T, IndexError>,
    ) -> Result<T> {
        let tree = self.tree();
        let client = thread_client::own(tree.pool()).map_err(|error| tree.failed(operation, error.into()))?;
        self.run_by((tree, &client), operation, work)
    }
}

/// Runs an operation that began at `begun` until it ends, the limit has passed, or the program interrupts it.
#[inline]
async fn within<T>(
    patience: &Patience,
    (tree, operation, begun): (&Tree, &'static str, Instant),
    client: &Client<AnyFabric>,
    work: impl Future<Output = Result<T, IndexError>>,
) -> Result<T> {
    if patience.is_endless() {
        return work.await.map_err(|error| tree.failed(operation, error));
    }
    let call = Box::pin(async { work.await.map_err(|error| tree.failed(operation, error)) });
    patience.run(begun, (tree, operation), client, call).await
}
