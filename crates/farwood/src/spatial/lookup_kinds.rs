//! The lookups of a spatial index. Each has two paths: a message to the server, and READs of the tree.

use super::lookup::{Done, ServerConnection};
use farwood_index::catfish::{
    Count, Item, Near, Query, Reader, Record, RecordId, RecordLookup, SearchSink, SpatialRpc as _,
};
use farwood_transport::any::AnyFabric;
use std::cell::Cell;

/// Reads the tree for a client.
pub(super) type TreeReader<'c> = Reader<'c, AnyFabric>;

/// The kind of a lookup: the faster path may differ.
#[derive(Clone, Copy, Debug)]
pub(super) enum LookupKind {
    Search,
    Count,
    Nearest,
    Get,
    SearchRecords,
    NearestRecords,
}

impl LookupKind {
    pub(super) const COUNT: usize = 6;
}

/// A lookup.
pub(super) trait Lookup {
    /// The operation that errors name.
    const OPERATION: &'static str;
    const KIND: LookupKind;
    type Found;

    /// Asks the server. [1 RT]
    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<Self::Found>;

    /// Reads the tree.
    async fn by_reads(&self, reader: TreeReader<'_>) -> Done<Self::Found>;
}

/// The items that match a query.
pub(super) struct Search<'q>(pub(super) &'q Query);

impl Lookup for Search<'_> {
    const OPERATION: &'static str = "search";
    const KIND: LookupKind = LookupKind::Search;
    type Found = Vec<Item>;

    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<Vec<Item>> {
        let mut found = Vec::new();
        connection.search(self.0, &mut found).await.map(|()| found)
    }

    async fn by_reads(&self, mut reader: TreeReader<'_>) -> Done<Vec<Item>> {
        let mut found = Vec::new();
        reader.search(self.0, &mut found).await.map(|()| found)
    }
}

/// Passes the items that match a query to a sink, which each path restarts.
pub(super) struct SearchInto<'q, S> {
    query: &'q Query,
    /// `None` while a path uses it.
    sink: Cell<Option<&'q mut S>>,
}

impl<'q, S: SearchSink> SearchInto<'q, S> {
    pub(super) fn new(query: &'q Query, sink: &'q mut S) -> Self {
        Self { query, sink: Cell::new(Some(sink)) }
    }

    /// Takes the sink for one path, and discards the items of an earlier one.
    fn restarted(&self) -> &'q mut S {
        let sink = self.sink.take().expect("one path at a time is executed");
        sink.restart();
        sink
    }
}

impl<S: SearchSink> Lookup for SearchInto<'_, S> {
    const OPERATION: &'static str = "search";
    const KIND: LookupKind = LookupKind::Search;
    type Found = ();

    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<()> {
        let sink = self.restarted();
        let done = connection.search(self.query, sink).await;
        self.sink.set(Some(sink));
        done
    }

    async fn by_reads(&self, mut reader: TreeReader<'_>) -> Done<()> {
        let sink = self.restarted();
        let done = reader.search(self.query, sink).await;
        self.sink.set(Some(sink));
        done
    }
}

/// The number of items that match a query.
pub(super) struct CountMatches<'q>(pub(super) &'q Query);

impl Lookup for CountMatches<'_> {
    const OPERATION: &'static str = "count";
    const KIND: LookupKind = LookupKind::Count;
    type Found = u64;

    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<u64> {
        connection.count(self.0).await
    }

    async fn by_reads(&self, mut reader: TreeReader<'_>) -> Done<u64> {
        let mut count = Count::default();
        reader.search(self.0, &mut count).await.map(|()| count.0)
    }
}

/// The items nearest to a point.
pub(super) struct Nearest {
    pub(super) point: [f64; 2],
    pub(super) count: usize,
}

impl Lookup for Nearest {
    const OPERATION: &'static str = "nearest";
    const KIND: LookupKind = LookupKind::Nearest;
    type Found = Vec<Near>;

    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<Vec<Near>> {
        connection.nearest(self.point, self.count).await
    }

    async fn by_reads(&self, mut reader: TreeReader<'_>) -> Done<Vec<Near>> {
        reader.nearest(self.point, self.count).await
    }
}

/// The record of an id.
pub(super) struct Get<'i>(pub(super) &'i RecordId);

impl Lookup for Get<'_> {
    const OPERATION: &'static str = "get";
    const KIND: LookupKind = LookupKind::Get;
    type Found = Option<Record>;

    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<Option<Record>> {
        let lookup = RecordLookup::Get(self.0.clone());
        connection.find_records(&lookup).await.map(|mut found| found.pop())
    }

    async fn by_reads(&self, mut reader: TreeReader<'_>) -> Done<Option<Record>> {
        reader.get(self.0).await
    }
}

/// The records that match a query.
pub(super) struct SearchRecords<'q>(pub(super) &'q Query);

impl Lookup for SearchRecords<'_> {
    const OPERATION: &'static str = "search";
    const KIND: LookupKind = LookupKind::SearchRecords;
    type Found = Vec<Record>;

    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<Vec<Record>> {
        connection.find_records(&RecordLookup::Search(*self.0)).await
    }

    async fn by_reads(&self, mut reader: TreeReader<'_>) -> Done<Vec<Record>> {
        reader.search_records(self.0).await
    }
}

/// The records of the items nearest to a point.
pub(super) struct NearestRecords {
    pub(super) point: [f64; 2],
    pub(super) count: usize,
}

impl Lookup for NearestRecords {
    const OPERATION: &'static str = "nearest";
    const KIND: LookupKind = LookupKind::NearestRecords;
    type Found = Vec<Record>;

    async fn by_message(&self, connection: &mut ServerConnection<'_>) -> Done<Vec<Record>> {
        connection.find_records(&RecordLookup::Nearest(self.point, self.count as u64)).await
    }

    async fn by_reads(&self, mut reader: TreeReader<'_>) -> Done<Vec<Record>> {
        reader.nearest_records(self.point, self.count).await
    }
}
