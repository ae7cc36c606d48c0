//! An open index as its blocking calls use it: the index, and the time limit of a call.

use crate::error::{Error, Result};
use crate::observe::MeteredClient;
use crate::thread_client::{self, ThreadPath};
use crate::tree::Tree;
use farwood_fabric::{Client, Fabric as _};
use farwood_index::IndexError;
use farwood_index::ordered::Ordered;
use farwood_transport::any::AnyFabric;
use farwood_transport::runtime::{TaskThread, block_on};
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// An open index, shared by all handles, with the time limit of this one.
#[derive(Clone)]
pub(crate) struct Handle {
    tree: Arc<Tree>,
    /// The longest duration of a call; `None`: only the limits of its steps apply.
    limit: Option<Duration>,
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
        Self { tree, limit: None }
    }

    /// The index as this process has it open.
    #[inline]
    pub(crate) fn tree(&self) -> &Arc<Tree> {
        self.tree.here()
    }

    /// The same handle for an object that must not continue in a forked child of this process.
    pub(crate) fn here(&self) -> Self {
        Self { tree: Arc::clone(self.tree()), limit: self.limit }
    }

    /// The same index with another limit.
    pub(crate) fn with_limit(&self, limit: Duration) -> Self {
        Self { tree: Arc::clone(&self.tree), limit: Some(limit) }
    }

    /// The longest duration of a call.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit
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

    /// This thread's client for a call without a limit; `None`: it has none yet, or none at all, or there is a limit.
    #[inline]
    pub(crate) fn client_without_limit(&self) -> Option<Rc<MeteredClient>> {
        if self.limit.is_some() {
            return None;
        }
        thread_client::present(self.tree.pool())
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
            if self.limit.is_some() {
                let begun = Instant::now();
                let work = work(tree.ordered(), client);
                return block_on(self.within_limit((tree, operation, begun), client, work));
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
        thread.run(async || {
            let client = thread_client::client(tree.pool());
            let client = client.map_err(|error| tree.failed(operation, error.into()))?;
            let work = || self.within_limit((tree, operation, begun), &client, work(tree.ordered(), &client));
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

    /// Runs an operation that began at `begun` until it ends or the limit has passed.
    #[inline]
    async fn within_limit<T>(
        &self,
        (tree, operation, begun): (&Tree, &'static str, Instant),
        client: &Client<AnyFabric>,
        work: impl Future<Output = Result<T, IndexError>>,
    ) -> Result<T> {
        match self.limit {
            None => work.await.map_err(|error| tree.failed(operation, error)),
            Some(limit) => {
                let call = Box::pin(async { work.await.map_err(|error| tree.failed(operation, error)) });
                within((limit, begun), (tree, operation), client, call).await
            }
        }
    }
}

/// Runs a call of the index that began at `begun` until it ends or `limit` has passed.
pub(crate) async fn within<T>(
    (limit, begun): (Duration, Instant),
    (tree, operation): (&Tree, &'static str),
    client: &Client<AnyFabric>,
    call: Pin<Box<impl Future<Output = Result<T>>>>,
) -> Result<T> {
    let left = limit.saturating_sub(begun.elapsed());
    let nanoseconds = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    let done = until(call, client.fabric().sleep(nanoseconds)).await;
    done.unwrap_or_else(|| Err(Error::TimedOut { operation, url: tree.url(), after: limit }))
}

/// Runs `work` until it or `pause` ends, and drops the other; `None`: the pause has ended first.
async fn until<T>(work: impl Future<Output = T>, pause: impl Future<Output = ()>) -> Option<T> {
    let (mut work, mut pause) = (pin!(work), pin!(pause));
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        pause.as_mut().poll(context).map(|()| None)
    })
    .await
}
