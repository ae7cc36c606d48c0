//! Batches: operations of one client that run at the same time, so that their verbs share doorbells.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::ordered::{Ordered, OrderedValue};
use farwood_transport::any::AnyFabric;
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::task::Poll;

/// Operations of a batch that run at the same time.
const CONCURRENT_MAX: usize = 64;

type Done<T> = Result<T, IndexError>;

/// Runs an operation for each item of `items`, several at a time, and those of one key one after the other. Yields
/// their results in order, or the first error after all operations that have begun have ended.
async fn run_each<'i, I, T, F>(
    items: &'i [I],
    key: impl Fn(&'i I) -> &'i [u8],
    operation: impl Fn(&'i I) -> F,
) -> Done<Vec<T>>
where
    F: Future<Output = Done<T>>,
{
    let mut results = Vec::with_capacity(items.len());
    let mut left = items;
    while !left.is_empty() {
        let (part, rest) = left.split_at(distinct(left, &key));
        for result in join_all(part.iter().map(&operation).collect()).await {
            results.push(result?);
        }
        left = rest;
    }
    Ok(results)
}

/// The number of the first items that have distinct keys, at most [`CONCURRENT_MAX`].
fn distinct<'i, I>(items: &'i [I], key: &impl Fn(&'i I) -> &'i [u8]) -> usize {
    let mut keys = HashSet::with_capacity(CONCURRENT_MAX);
    let first = items.iter().take(CONCURRENT_MAX);
    first.take_while(|item| keys.insert(key(item))).count()
}

/// Runs futures at the same time; yields their outputs in order.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Some(Box::pin(future)), None)).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, output) in &mut running {
            let Some(pending) = future else { continue };
            match pending.as_mut().poll(context) {
                Poll::Ready(done) => (*future, *output) = (None, Some(done)),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending {
            return Poll::Pending;
        }
        Poll::Ready(running.drain(..).filter_map(|(_, output)| output).collect())
    })
    .await
}

/// Looks keys up.
pub(crate) async fn get_many(
    index: &Ordered,
    client: &Client<AnyFabric>,
    keys: &[impl AsRef<[u8]>],
) -> Done<Vec<Option<OrderedValue>>> {
    run_each(keys, AsRef::as_ref, |key| index.get(client, key.as_ref())).await
}

/// Stores entries; yields for each whether its key existed.
pub(crate) async fn put_many(
    index: &Ordered,
    client: &Client<AnyFabric>,
    entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
) -> Done<Vec<bool>> {
    let put =
        async |(key, value): &(_, _)| Ok(index.put(client, as_bytes(key), as_bytes(value)).await?.replaced());
    run_each(entries, |(key, _)| key.as_ref(), put).await
}

/// Removes keys; yields for each whether it existed.
pub(crate) async fn remove_many(
    index: &Ordered,
    client: &Client<AnyFabric>,
    keys: &[impl AsRef<[u8]>],
) -> Done<Vec<bool>> {
    let remove = async |key| Ok(index.remove(client, as_bytes(key)).await?.removed());
    run_each(keys, AsRef::as_ref, remove).await
}

fn as_bytes(bytes: &impl AsRef<[u8]>) -> &[u8] {
    bytes.as_ref()
}
