//! Observers: functions of the program that every call reports to.

use crate::error::ErrorKind;
use farwood_fabric::Costs;
use std::time::Duration;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// It has returned a result.
    Succeeded,
    /// It has returned an error of this kind.
    Failed(ErrorKind),
    /// Its future was dropped before it ended, or a function that the program gave to it has panicked.
    Unfinished,
}

impl CallOutcome {
    /// The kind of the error of a failed call.
    pub fn error(self) -> Option<ErrorKind> {
        match self {
            Self::Failed(kind) => Some(kind),
            Self::Succeeded | Self::Unfinished => None,
        }
    }
}

/// A call that has ended, as an [`Observer`] sees it. It contains no keys and no values.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ObservedCall<'c> {
    /// The name of the index.
    pub index: &'c str,
    /// The name of the operation, as in [`Error::operation`](crate::Error::operation).
    pub operation: &'static str,
    /// The time from the start of the call to its end.
    pub duration: Duration,
    /// Round trips, verbs, bytes, lost attempts at locks and torn copies.
    pub costs: Costs,
    /// The outcome of the call.
    pub outcome: CallOutcome,
}

/// Receives every call on the indexes of a pool by this process. Set it with
/// [`Pool::set_observer`](crate::Pool::set_observer).
///
/// [`done`](Self::done) runs on the thread that executed the call, before the call returns; for asynchronous handles,
/// that is a thread of the pool, which all of them wait for. So it must be short. If it panics, the panic is caught and
/// counted ([`Metrics::observer_panics`](crate::stats::Metrics::observer_panics)), and the call returns its result.
/// Calls that it makes on indexes itself are counted, and not observed.
///
/// ```
/// use farwood::stats::{ObservedCall, Observer};
/// use farwood::{BTree, Pool, PoolOptions};
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Default)]
/// struct Operations(Mutex<Vec<&'static str>>);
///
/// impl Observer for Operations {
///     fn done(&self, call: &ObservedCall<'_>) {
///         self.0.lock().unwrap().push(call.operation);
///     }
/// }
///
/// # let url = format!("shm://doc-observer-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
/// let operations = Arc::new(Operations::default());
/// pool.set_observer(operations.clone());
/// let index = pool.create_index::<u64, u64>("numbers", &BTree::new())?;
/// index.put(1, 2)?;
/// index.get(1)?;
/// assert_eq!(*operations.0.lock().unwrap(), ["put", "get"]);
/// # drop((index, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
pub trait Observer: Send + Sync {
    /// Receives a call that has ended.
    fn done(&self, call: &ObservedCall<'_>);
}
