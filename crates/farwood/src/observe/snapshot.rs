//! Metrics: the sums of the counters at one time.

use super::latency::Latencies;
use crate::error::ErrorKind;
use farwood_fabric::Costs;

/// The extent to which a pool counts its calls, see [`Pool::set_metrics_level`](crate::Pool::set_metrics_level).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricsLevel {
    /// Nothing.
    Off,
    /// Calls, errors and costs.
    Counts,
    /// And the duration of one call in 64 on average, chosen at random.
    Sampled,
    /// And the duration of every call.
    Full,
}

/// The calls of one operation on one index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationMetrics {
    /// The name of the index.
    pub index: String,
    /// The name of the operation, as in [`Error::operation`](crate::Error::operation).
    pub operation: &'static str,
    /// Calls that have ended, successful or not.
    pub calls: u64,
    /// Calls that have failed, for each kind of error that has occurred.
    pub errors: Vec<(ErrorKind, u64)>,
    /// Calls whose future was dropped, or in which a function of the program panicked.
    pub unfinished: u64,
    /// The sum of the costs: round trips, verbs, bytes; `lock`, the attempts at locks that others held; `torn`, the
    /// READs that were repeated because the copy was torn; `handed_over`, the locks that another client of this process
    /// handed over.
    pub costs: Costs,
    /// The durations of the calls that were measured, according to the [`MetricsLevel`].
    pub latency: Latencies,
}

impl OperationMetrics {
    pub(super) fn new(index: &str, operation: &'static str) -> Self {
        Self {
            index: index.to_owned(),
            operation,
            calls: 0,
            errors: Vec::new(),
            unfinished: 0,
            costs: Costs::default(),
            latency: Latencies::default(),
        }
    }

    pub(super) fn add_errors(&mut self, kind: ErrorKind, more: u64) {
        if more == 0 {
            return;
        }
        match self.errors.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += more,
            None => self.errors.push((kind, more)),
        }
    }

    /// The calls that have failed with an error of this kind.
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors.iter().find(|(known, _)| *known == kind).map_or(0, |(_, count)| *count)
    }

    /// The calls that have failed.
    pub fn errors_total(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut later = Self::new(&self.index, self.operation);
        for (kind, count) in &self.errors {
            later.add_errors(*kind, count.saturating_sub(earlier.errors_of(*kind)));
        }
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            unfinished: self.unfinished.saturating_sub(earlier.unfinished),
            costs: self.costs.since(earlier.costs),
            latency: self.latency.since(&earlier.latency),
            ..later
        }
    }
}

/// The calls on the indexes of a pool by this process, since it opened the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The operations that have been called, in the order of indexes and operations.
    pub operations: Vec<OperationMetrics>,
    /// Panics of the [`Observer`](crate::stats::Observer).
    pub observer_panics: u64,
}

impl Metrics {
    /// The calls of an operation on an index; `None`: there was none.
    pub fn of(&self, index: &str, operation: &str) -> Option<&OperationMetrics> {
        self.operations.iter().find(|of| of.index == index && of.operation == operation)
    }

    /// The calls since an earlier snapshot of the same pool, without the operations that were not called.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let later = self.operations.iter().map(|now| match earlier.of(&now.index, now.operation) {
            Some(before) => now.since(before),
            None => now.clone(),
        });
        Self {
            operations: later.filter(|of| of.calls > 0).collect(),
            observer_panics: self.observer_panics.saturating_sub(earlier.observer_panics),
        }
    }
}
