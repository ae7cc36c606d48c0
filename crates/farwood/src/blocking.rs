//! Blocking operations on encoded keys and values.
//!
//! The functions are not generic, so this crate contains their code, and a program does not compile the indexes again
//! for its own types.

use crate::error::Result;
use crate::inline_bytes::InlineBytes;
use crate::thread_client;
use crate::tree::Tree;
use farwood_fabric::Client;
use farwood_index::ordered::{Entries, Ordered, OrderedReport, OrderedValue};
use farwood_index::sherman::{Direction, Range};
use farwood_index::{IndexError, InsertOutcome, PutOutcome, RemoveOutcome, UpdateOutcome};
use farwood_transport::any::AnyFabric;
use farwood_transport::runtime::block_on;

impl Tree {
    /// Runs an operation with this thread's client.
    #[inline]
    fn run<T>(
        &self,
        operation: &'static str,
        run: impl FnOnce(&Ordered, &Client<AnyFabric>) -> std::result::Result<T, IndexError>,
    ) -> Result<T> {
        let client =
            thread_client::client(self.pool()).map_err(|error| self.failed(operation, error.into()))?;
        run(self.ordered(), &client).map_err(|error| self.failed(operation, error))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<OrderedValue>> {
        self.run("get", |index, client| block_on(index.get(client, key)))
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<PutOutcome> {
        self.run("put", |index, client| block_on(index.put(client, key, value)))
    }

    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<InsertOutcome> {
        self.run("insert", |index, client| block_on(index.insert(client, key, value)))
    }

    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> Result<UpdateOutcome> {
        self.run("update", |index, client| block_on(index.update(client, key, value)))
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Result<RemoveOutcome> {
        self.run("remove", |index, client| block_on(index.remove(client, key)))
    }

    pub(crate) fn scan(
        &self,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<()> {
        self.run("scan", |index, client| block_on(index.scan(client, range, direction, limit, entries)))
    }

    pub(crate) fn snapshot(
        &self,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<()> {
        self.run("snapshot", |index, client| {
            block_on(index.scan_snapshot(client, range, direction, limit, entries))
        })
    }

    pub(crate) fn count(&self) -> Result<u64> {
        self.run("count", |index, client| block_on(index.count(client)))
    }

    pub(crate) fn check(&self) -> Result<OrderedReport> {
        self.run("check", |index, client| block_on(index.walk(client)))
    }

    pub(crate) fn bulk_load(
        &self,
        entries: &mut dyn Iterator<Item = (InlineBytes, InlineBytes)>,
        fill: f64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        self.run("bulk load", |index, client| block_on(index.bulk_load(client, entries, fill, progress)))
    }
}
