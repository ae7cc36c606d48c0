//! The thread that executes the calls of async handles, and of threads beyond the first few, for a pool.

use crate::answer::Answer;
use crate::attached::Attached;
use crate::error::{Error, Result};
use crate::observe::MeteredClient;
use crate::thread_client;
use farwood_fabric::FabricError;
use farwood_transport::fork::ForkCount;
use farwood_transport::runtime::{TaskThread, catch_panic};
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The calls of an async handle that have not ended.
#[derive(Default)]
struct Calls {
    count: usize,
    /// Tasks that wait for the end of all calls.
    waiting: Vec<Waker>,
}

/// An open index `T` of an async handle, on which the thread of the pool executes calls. Clones share the index and the
/// count of the calls that have not ended.
///
/// To close the index and to leave the pool takes round trips, for which a task must not wait. So if the last clone is
/// the last handle of the index, the thread of the pool closes the index.
pub(crate) struct TaskDriver<T: Send + Sync + 'static>(Arc<Driven<T>>);

struct Driven<T: Send + Sync + 'static> {
    /// The index and its pool; `None` while the value is dropped.
    open: Option<(Arc<T>, Arc<Attached>)>,
    forks: ForkCount,
    thread: Arc<TaskThread>,
    calls: Arc<Mutex<Calls>>,
}

impl<T: Send + Sync + 'static> Clone for TaskDriver<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> Deref for TaskDriver<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.open().0
    }
}

impl<T: Send + Sync + 'static> Driven<T> {
    fn open(&self) -> (&Arc<T>, &Arc<Attached>) {
        match &self.open {
            Some((index, pool)) => (index, pool),
            None => unreachable!("the index is taken when the value is dropped"),
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Driven<T> {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        // In a forked child there is no such thread, and dropping the index posts nothing.
        if Arc::strong_count(&open.0) == 1 && self.forks.is_current() {
            let begun = Begun::new(&self.calls);
            self.thread.send(move || async move {
                drop(open);
                drop(begun);
            });
        }
    }
}

/// Counts a call until it is dropped.
struct Begun(Arc<Mutex<Calls>>);

impl Begun {
    fn new(calls: &Arc<Mutex<Calls>>) -> Self {
        lock(calls).count += 1;
        Self(Arc::clone(calls))
    }
}

fn lock(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut calls = lock(&self.0);
        calls.count -= 1;
        if calls.count == 0 {
            let waiting = std::mem::take(&mut calls.waiting);
            drop(calls);
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T: Send + Sync + 'static> TaskDriver<T> {
    /// Starts the thread of the pool, if it does not run.
    pub(crate) fn new(index: Arc<T>, pool: &Arc<Attached>, operation: &'static str) -> Result<Self> {
        let url = || pool.place().to_string();
        let forks = pool.forks();
        forks.check().map_err(|source| Error::Fabric { operation, pool: url(), source })?;
        let started = pool.task_thread();
        let thread = started.map_err(|source| Error::Thread { operation, pool: url(), source })?;
        let open = Some((index, Arc::clone(pool)));
        Ok(Self(Arc::new(Driven { open, forks, thread, calls: Arc::default() })))
    }

    /// Executes `work` with the thread's client. `failed` describes an error of the transport, before the call or in a
    /// forked child.
    pub(crate) fn ask<R, F>(
        &self,
        failed: impl Fn(FabricError) -> Error + Clone + Send + Sync + 'static,
        work: impl FnOnce(Arc<T>, Rc<MeteredClient>) -> F + Send + 'static,
    ) -> Answer<R>
    where
        R: Send + 'static,
        F: Future<Output = Result<R>> + 'static,
    {
        let Driven { forks, thread, calls, .. } = &*self.0;
        if let Err(error) = forks.check() {
            return Answer::failed(failed(error));
        }
        let forked = failed.clone();
        let (reply, answer) = Answer::pair(*forks, move || forked(FabricError::Forked));
        let begun = Begun::new(calls);
        let (index, pool) = self.0.open();
        let (index, pool) = (Arc::clone(index), Arc::clone(pool));
        thread.send(move || async move {
            let outcome = match thread_client::client(&pool) {
                Ok(client) => catch_panic(work(index, client)).await,
                Err(error) => Ok(Err(failed(error))),
            };
            // Once the task has the answer, it may close the index and remove the pool.
            drop(pool);
            reply.send(outcome);
            drop(begun);
        });
        answer
    }

    /// Completes when all calls that have begun have ended.
    pub(crate) fn finished(&self) -> Finished {
        Finished { calls: Arc::clone(&self.0.calls), forks: self.0.forks }
    }
}

/// Completes when all calls of an async handle and its clones have ended; if the handles are dropped, when the index is
/// closed. In a forked child it completes at once.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Finished {
    calls: Arc<Mutex<Calls>>,
    forks: ForkCount,
}

impl Future for Finished {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.forks.is_current() {
            return Poll::Ready(());
        }
        let mut calls = lock(&self.calls);
        if calls.count == 0 {
            return Poll::Ready(());
        }
        if !calls.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            calls.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finished").finish_non_exhaustive()
    }
}
