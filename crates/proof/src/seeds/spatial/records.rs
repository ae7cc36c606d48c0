//! Records in runs of spatial indexes: the same changes and searches, in an index of unique numbers.

use super::case::SpatialCase;
use super::record::{SearchRecord, SearchStart};
use farwood_fabric::ServerMemory;
use farwood_index::IndexError;
use farwood_index::catfish::{
    Change, IdKind, Item, Near, Query, Reader, Record, RecordId, RecordLookup, Rectangle, RingRpc,
    SpatialRpc as _,
};
use farwood_sim::SimFabric;
use std::sync::Arc;

/// The payload of an id: some are longer than a node.
fn payload(id: u64) -> Vec<u8> {
    let length = if id.is_multiple_of(13) { 1_200 + id % 300 } else { id % 50 };
    (0..length).map(|at| (id.wrapping_mul(31) + at) as u8).collect()
}

pub(super) fn record_of(item: &Item) -> Record {
    Record { id: RecordId::Number(item.id), bounds: item.bounds, payload: payload(item.id) }
}

/// The change that makes the same of an index of that kind as `change` of an index of repeated ids, and whether it
/// finds its item, if `change` does so.
pub(super) fn of_kind((change, found): (Change, bool), ids: IdKind) -> (Change, bool) {
    if !ids.is_unique() {
        return (change, found);
    }
    match change {
        Change::Insert(item) => (Change::Put(Arc::new(record_of(&item))), false),
        Change::Remove(item) => (Change::Delete(RecordId::Number(item.id)), found),
        Change::Update(item, bounds) if item.id.is_multiple_of(3) => {
            (Change::Put(Arc::new(record_of(&Item { bounds, id: item.id }))), found)
        }
        Change::Update(item, bounds) => (Change::Move(RecordId::Number(item.id), bounds), found),
        of_record => (of_record, found),
    }
}

/// The items of records; an error if a payload is not that of its id.
fn items_of(records: Vec<Record>) -> Result<Vec<Item>, String> {
    let item = |record: Record| {
        let RecordId::Number(id) = record.id else { return Err(format!("{} is not a number", record.id)) };
        if record.payload != payload(id) {
            return Err(format!(
                "the record of {id} has a payload of {} bytes of another id",
                record.payload.len()
            ));
        }
        Ok(Item { bounds: record.bounds, id })
    };
    records.into_iter().map(item).collect()
}

/// Unwraps the items of records, or ends the run.
fn checked(records: Vec<Record>, record: &SearchRecord) -> Vec<Item> {
    items_of(records).unwrap_or_else(|what| {
        record.fail(what);
        Vec::new()
    })
}

/// Searches by READs; the records as well, if the index has them.
pub(super) async fn search(
    case: &SpatialCase,
    reader: &mut Reader<'_, SimFabric>,
    query: &Query,
    record: &SearchRecord,
) -> Result<Vec<Item>, IndexError> {
    if case.config.ids.is_unique() {
        return Ok(checked(reader.search_records(query).await?, record));
    }
    let mut found = Vec::new();
    reader.search(query, &mut found).await?;
    Ok(found)
}

/// As [`search`], by message.
pub(super) async fn search_by_message<L: ServerMemory>(
    case: &SpatialCase,
    connection: &mut RingRpc<'_, SimFabric, L>,
    query: &Query,
    record: &SearchRecord,
) -> Result<Vec<Item>, IndexError> {
    if case.config.ids.is_unique() {
        return Ok(checked(connection.find_records(&RecordLookup::Search(*query)).await?, record));
    }
    let mut found = Vec::new();
    connection.search(query, &mut found).await?;
    Ok(found)
}

/// Finds the nearest items by READs; from the records, if the index has them.
pub(super) async fn nearest(
    case: &SpatialCase,
    reader: &mut Reader<'_, SimFabric>,
    (point, count): ([f64; 2], usize),
    record: &SearchRecord,
) -> Result<Vec<Near>, IndexError> {
    if !case.config.ids.is_unique() {
        return reader.nearest(point, count).await;
    }
    let items = checked(reader.nearest_records(point, count).await?, record);
    let near = |item: Item| Near { item, distance_squared: item.bounds.distance_squared(point) };
    Ok(items.into_iter().map(near).collect())
}

/// Checks that one commit gives the record of an id, which a lookup found.
pub(super) fn check_get(id: u64, begun: SearchStart, found: Option<Record>, record: &SearchRecord) {
    let found: Option<Rectangle> =
        checked(found.into_iter().collect(), record).first().map(|item| item.bounds);
    if !record.some_tree(begun, |items| items.get(&id).copied() == found) {
        record.fail(format!("the record of {id} is {found:?}: no commit has it"));
    }
}
