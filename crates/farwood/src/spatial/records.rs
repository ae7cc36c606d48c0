//! Records of a spatial index of unique ids.

use super::caller::Caller;
use super::index::Spatial;
use super::lookup_kinds::{Get, NearestRecords, SearchRecords};
use super::server_lease::ServerLease;
use crate::argument::Call;
use crate::error::Result;
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::catfish::{IdKind, Query, Record, RecordId, Rectangle};
use farwood_transport::any::AnyFabric;
use farwood_transport::runtime::block_on;
use std::collections::HashSet;

impl Spatial {
    /// The kind of the ids of the index, which decides whether it has records.
    pub fn ids(&self) -> IdKind {
        self.index.ids()
    }

    /// Maximum bytes of a payload: a quarter of [`CatfishConfig::ring_bytes`](super::CatfishConfig), less 512 bytes.
    pub fn payload_max(&self) -> usize {
        self.index.payload_max()
    }

    /// Stores a record in the place of the one with its id; returns whether there was one. Otherwise as
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the index has no records, or ids of another kind, or the payload is too long.
    pub fn put(&self, record: Record) -> Result<bool> {
        self.change(|editor| editor.put(record))
    }

    /// Stores records; returns for each whether it replaced another one. Costs and errors as
    /// [`Editor::put_many`](super::Editor::put_many).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_many(&self, records: impl IntoIterator<Item = Record>) -> Result<Vec<bool>> {
        self.change(|editor| editor.put_many(records))
    }

    /// Removes the record of an id; returns whether there was one. Otherwise as [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, id: &RecordId) -> Result<bool> {
        self.change(|editor| editor.delete(id))
    }

    /// Gives the record of an id other bounds, and keeps its payload; returns whether there was one. Otherwise as
    /// [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn move_to(&self, id: &RecordId, bounds: Rectangle) -> Result<bool> {
        self.change(|editor| editor.move_to(id, bounds))
    }

    /// The record of an id. [by message 1 RT, and the server's work; by READs see
    /// [`Reader::get`](farwood_index::catfish::Reader::get)]
    ///
    /// # Errors
    /// As [`search`](Self::search); the index has no records, or ids of another kind.
    pub fn get(&self, id: &RecordId) -> Result<Option<Record>> {
        self.check_id(id)?;
        self.look_up_blocking(&Get(id))
    }

    pub(super) async fn get_by(&self, caller: Caller<'_>, id: &RecordId) -> Result<Option<Record>> {
        self.check_id(id)?;
        self.look_up(caller, &Get(id)).await
    }

    /// Returns the records that match the query, as of one moment during the call, in no particular order. [by message
    /// 1 RT, and the server's work; by READs see
    /// [`Reader::search_records`](farwood_index::catfish::Reader::search_records)]
    ///
    /// # Errors
    /// As [`search`](Self::search); the index has no records.
    pub fn search_records(&self, query: &Query) -> Result<Vec<Record>> {
        self.check_bounds("search", "window", &query.window)?;
        self.records_in(query)
    }

    pub(super) async fn search_records_by(&self, caller: Caller<'_>, query: &Query) -> Result<Vec<Record>> {
        self.check_bounds("search", "window", &query.window)?;
        self.check_records("search")?;
        self.look_up(caller, &SearchRecords(query)).await
    }

    /// The records that match the query, whose window may reach beyond the degrees of the index.
    pub(super) fn records_in(&self, query: &Query) -> Result<Vec<Record>> {
        self.check_records("search")?;
        self.look_up_blocking(&SearchRecords(query))
    }

    /// Returns the records of the `count` items nearest to `point`, nearest first. Costs as
    /// [`search_records`](Self::search_records).
    ///
    /// # Errors
    /// As [`nearest`](Self::nearest); the index has no records.
    pub fn nearest_records(&self, point: [f64; 2], count: usize) -> Result<Vec<Record>> {
        self.check_nearest(point)?;
        self.records_near(point, count)
    }

    pub(super) async fn nearest_records_by(
        &self,
        caller: Caller<'_>,
        point: [f64; 2],
        count: usize,
    ) -> Result<Vec<Record>> {
        self.check_nearest(point)?;
        self.check_records("nearest")?;
        self.look_up(caller, &NearestRecords { point, count }).await
    }

    /// The records nearest to a point that may be beyond the degrees of the index.
    pub(super) fn records_near(&self, point: [f64; 2], count: usize) -> Result<Vec<Record>> {
        self.check_records("nearest")?;
        self.look_up_blocking(&NearestRecords { point, count })
    }

    /// Loads records with different ids into the empty index, filling nodes to the share `fill` (0.5 to 1): in shared
    /// memory this process is the server for the duration of the call, and makes one commit; over a network it sends
    /// the records as [`put_many`](Self::put_many).
    ///
    /// # Errors
    /// As [`bulk_load`](Self::bulk_load); two records have the same id.
    pub fn bulk_load_records(&self, records: Vec<Record>, fill: f64) -> Result<()> {
        Call { operation: "bulk load", url: self.url() }.check_fill(fill)?;
        let this = self.here();
        this.check_writer("bulk load")?;
        records.iter().try_for_each(|record| this.check_bounds("bulk load", "rectangle", &record.bounds))?;
        let client = this.pool.client();
        client.call(&this.metered, "bulk load", || this.bulk_load_records_by(&client, records, fill))
    }

    fn bulk_load_records_by(
        &self,
        client: &Client<AnyFabric>,
        records: Vec<Record>,
        fill: f64,
    ) -> Result<()> {
        let failed = |error| self.failed("bulk load", error);
        let Ok(server) = self.server("bulk load") else {
            let mut ids = HashSet::new();
            if let Some(twice) = records.iter().find(|record| !ids.insert(&record.id)) {
                return Err(failed(IndexError::BadId(format!("two records have the id {}", twice.id))));
            }
            if !self.is_empty()? {
                return Err(failed(IndexError::NotEmpty));
            }
            return self.put_many(records).map(drop);
        };
        let _permit = self.server_permit("bulk load", client)?;
        let lease = ServerLease::begin(&self.index, client, &server).map_err(failed)?;
        let loaded = block_on(lease.worker(client, &server).bulk_load_records(records, fill));
        lease.release().map_err(|error| self.failed("bulk load", error))?;
        loaded.map_err(failed)
    }

    fn check_id(&self, id: &RecordId) -> Result<()> {
        let checked = self.index.check_id(id).map_err(|error| self.failed("get", error));
        self.counting_refusal("get", checked)
    }

    fn check_records(&self, operation: &'static str) -> Result<()> {
        let checked = self.index.check_records().map_err(|error| self.failed(operation, error));
        self.counting_refusal(operation, checked)
    }
}
