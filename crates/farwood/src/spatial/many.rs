//! Many searches in one call.

use super::index::Spatial;
use crate::error::Result;
use farwood_index::catfish::{Item, Query};
use std::thread;

/// The least number of queries of a thread: a thread costs as much as some searches.
const QUERIES_MIN: usize = 64;

impl Spatial {
    /// Returns for each query the items that match it, as [`search`](Self::search) does. The queries are divided among
    /// as many threads as the machine has processors, if there are at least 64 queries for each; every search sees a
    /// version of its own. [costs of each query as `search`]
    ///
    /// # Errors
    /// As [`search`](Self::search): the first error of any query.
    pub fn search_many(&self, queries: &[Query]) -> Result<Vec<Vec<Item>>> {
        in_threads(queries, |query| self.search(query))
    }
}

/// Calls `run` with every query, in several threads; returns the results in the order of the queries.
pub(super) fn in_threads<Q: Sync, T: Send>(
    queries: &[Q],
    run: impl Fn(&Q) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(queries.len() / QUERIES_MIN).max(1);
    let (own, others) = queries.split_at(queries.len().div_ceil(threads));
    let of_part = |part: &[Q]| part.iter().map(&run).collect::<Result<Vec<T>>>();
    thread::scope(|scope| {
        let started: Vec<_> =
            others.chunks(own.len().max(1)).map(|part| scope.spawn(|| of_part(part))).collect();
        let mut results = of_part(own);
        for thread in started {
            let of_thread = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            results = results.and_then(|mut results| {
                results.extend(of_thread?);
                Ok(results)
            });
        }
        results
    })
}
