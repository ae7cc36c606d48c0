//! Blocking operations on encoded keys and values.
//!
//! The functions are not generic, so this crate contains their code, and a program does not compile the indexes again
//! for its own types.

use crate::batch;
use crate::error::Result;
use crate::handle::Handle;
use crate::inline_bytes::InlineBytes;
use crate::thread_client::ThreadPath;
use farwood_fabric::Client;
use farwood_index::ordered::{Entries, Ordered, OrderedReport, OrderedValue};
use farwood_index::sherman::{Direction, Range};
use farwood_index::{Accept, Decide, InsertOutcome, PutOutcome, RemoveOutcome, UpdateOutcome};
use farwood_transport::any::AnyFabric;
use farwood_transport::runtime::{block_on, poll_once};
use std::task::Poll;

/// Decides about the entry of a key, on this thread or on that of the pool.
pub(crate) type SendDecide<'d> = dyn FnMut(Option<&[u8]>) -> farwood_index::Decision + Send + 'd;
/// Reads the value of a key of a batch, on this thread or on that of the pool; `None`: the key is absent.
pub(crate) type SendRead<'r> = dyn FnMut(Option<&[u8]>) + Send + 'r;
/// Decides whether the entry of a key is removed, on this thread or on that of the pool.
pub(crate) type SendAccept<'a> = dyn FnMut(Option<&[u8]>) -> bool + Send + 'a;

impl Handle {
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<OrderedValue>> {
        let tree = self.tree();
        match self.client_without_limit(tree) {
            Some(client) => client.call(tree.metered(), "get", || {
                block_on(tree.ordered().get(&client, key)).map_err(|error| tree.failed("get", error))
            }),
            None => self.get_by_any(key),
        }
    }

    /// As [`get`](Self::get) in shared memory, with the client that this thread has; pending: the call would wait, or
    /// needs another client.
    #[inline]
    pub(crate) fn try_get(&self, key: &[u8]) -> Poll<Result<Option<OrderedValue>>> {
        let tree = self.tree();
        match self.client_without_limit(tree) {
            Some(client) if matches!(client.fabric(), AnyFabric::Shm(_)) => {
                let get = || poll_once(tree.ordered().get(&client, key));
                client.attempt(tree.metered(), "get", get).map_err(|error| tree.failed("get", error))
            }
            _ => Poll::Pending,
        }
    }

    /// As [`get`](Self::get), with any client.
    #[cold]
    fn get_by_any(&self, key: &[u8]) -> Result<Option<OrderedValue>> {
        let get = async |index: &Ordered, client: &Client<AnyFabric>| index.get(client, key).await;
        let tree = self.tree();
        match Self::path(tree, "get")? {
            ThreadPath::Own(client) => self.run_by((tree, &client), "get", get),
            ThreadPath::Shared(thread) => {
                let copy = async |index: &Ordered, client: &Client<AnyFabric>| {
                    Ok(get(index, client).await?.map(|value| value.to_vec()))
                };
                Ok(self.run_on((tree, &thread), "get", copy)?.map(OrderedValue::Copy))
            }
        }
    }

    pub(crate) fn get_many(&self, keys: &[InlineBytes], read: &mut SendRead<'_>) -> Result<()> {
        self.run("get many", async |index, client| batch::get_many(index, client, keys, read).await)
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<PutOutcome> {
        self.run("put", async |index, client| index.put(client, key, value).await)
    }

    pub(crate) fn put_many(&self, entries: &[(InlineBytes, InlineBytes)]) -> Result<Vec<bool>> {
        self.run("put many", async |index, client| batch::put_many(index, client, entries).await)
    }

    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<InsertOutcome> {
        self.run("insert", async |index, client| index.insert(client, key, value).await)
    }

    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> Result<UpdateOutcome> {
        self.run("update", async |index, client| index.update(client, key, value).await)
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Result<RemoveOutcome> {
        self.run("remove", async |index, client| index.remove(client, key).await)
    }

    pub(crate) fn remove_many(&self, keys: &[InlineBytes]) -> Result<Vec<bool>> {
        self.run("remove many", async |index, client| batch::remove_many(index, client, keys).await)
    }

    pub(crate) fn modify(
        &self,
        operation: &'static str,
        key: &[u8],
        decide: &mut SendDecide<'_>,
    ) -> Result<()> {
        let decide = async |index: &Ordered, client: &Client<AnyFabric>| {
            let decide: &mut Decide<'_> = decide;
            index.modify(client, key, decide).await
        };
        self.run(operation, decide)
    }

    pub(crate) fn remove_if(
        &self,
        operation: &'static str,
        key: &[u8],
        accept: &mut SendAccept<'_>,
    ) -> Result<()> {
        let accept = async |index: &Ordered, client: &Client<AnyFabric>| {
            let accept: &mut Accept<'_> = accept;
            index.remove_if(client, key, accept).await
        };
        self.run(operation, accept)
    }

    pub(crate) fn scan(
        &self,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<()> {
        self.run("scan", async |index, client| index.scan(client, range, direction, limit, entries).await)
    }

    pub(crate) fn snapshot(
        &self,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<()> {
        self.run("snapshot", async |index, client| {
            index.scan_snapshot(client, range, direction, limit, entries).await
        })
    }

    pub(crate) fn count(&self) -> Result<u64> {
        self.run("count", async |index, client| index.count(client).await)
    }

    pub(crate) fn check(&self) -> Result<OrderedReport> {
        self.run("check", async |index, client| index.walk(client).await)
    }

    pub(crate) fn bulk_load(
        &self,
        entries: &mut dyn Iterator<Item = (InlineBytes, InlineBytes)>,
        fill: f64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        self.run_here("bulk load", async |index, client| {
            index.bulk_load(client, entries, fill, progress).await
        })
    }
}
