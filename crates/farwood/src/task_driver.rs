//! The thread that executes the calls of async handles, and of threads beyond the first few, for a pool.

use crate::answer::Answer;
use crate::attached::Attached;
use crate::error::{Error, Result};
use crate::observe::MeteredClient;
use crate::thread_client;
use farwood_fabric::FabricError;
use farwood_transport::runtime::{TaskThread, catch_panic};
use std::fmt;
use std::future::Future;
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

/// Executes calls on the thread of the pool. Clones share the count of the calls that have not ended.
#[derive(Clone)]
pub(crate) struct TaskDriver {
    pool: Arc<Attached>,
    thread: Arc<TaskThread>,
    calls: Arc<Mutex<Calls>>,
}

/// Counts a call until it is dropped.
struct Begun(Arc<Mutex<Calls>>);

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

impl TaskDriver {
    /// Starts the thread of the pool, if it does not run.
    pub(crate) fn of(pool: &Arc<Attached>, operation: &'static str) -> Result<Self> {
        let url = || pool.place().to_string();
        let forked = |source| Error::Fabric { operation, pool: url(), source };
        pool.forks().check().map_err(forked)?;
        let started = pool.task_thread();
        let thread = started.map_err(|source| Error::Thread { operation, pool: url(), source })?;
        Ok(Self { pool: Arc::clone(pool), thread, calls: Arc::default() })
    }

    /// Executes `work` with the thread's client. `failed` describes an error of the transport, before the call or in a
    /// forked child.
    pub(crate) fn ask<T, F>(
        &self,
        failed: impl Fn(FabricError) -> Error + Clone + Send + Sync + 'static,
        work: impl FnOnce(Rc<MeteredClient>) -> F + Send + 'static,
    ) -> Answer<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        if let Err(error) = self.pool.forks().check() {
            return Answer::failed(failed(error));
        }
        let forked = failed.clone();
        let (reply, answer) = Answer::pair(self.pool.forks(), move || forked(FabricError::Forked));
        lock(&self.calls).count += 1;
        let begun = Begun(Arc::clone(&self.calls));
        let pool = Arc::clone(&self.pool);
        self.thread.send(move || async move {
            let outcome = match thread_client::client(&pool) {
                Ok(client) => catch_panic(work(client)).await,
                Err(error) => Ok(Err(failed(error))),
            };
            reply.send(outcome);
            drop(begun);
        });
        answer
    }

    /// Completes when all calls that have begun have ended.
    pub(crate) fn finished(&self) -> Finished {
        Finished(Arc::clone(&self.calls))
    }
}

/// Completes when all calls of an async handle and its clones have ended.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Finished(Arc<Mutex<Calls>>);

impl Future for Finished {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut calls = lock(&self.0);
        if calls.count == 0 {
            return Poll::Ready(());
        }
        calls.waiting.push(context.waker().clone());
        Poll::Pending
    }
}

impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finished").field("calls", &lock(&self.0).count).finish()
    }
}
