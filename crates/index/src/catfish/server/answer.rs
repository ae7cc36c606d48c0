//! Executes requests, independently of the kind of connection.

use super::super::Change;
use super::super::wire::changes::{decode_changes, found_words};
use super::super::wire::message::{ITEM_WORDS, Request, Status, decode_load, item_words};
use super::super::wire::records::{RecordLookup, push_record};
use super::super::{Count, Item, Near};
use super::worker::Worker;
use crate::error::IndexError;
use farwood_fabric::{Fabric, FabricError, Server};

/// The outcome of a request.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: Status,
    /// The number of items; if the pool is full, the number of its chunks.
    pub(super) count: u64,
    pub(super) items: Vec<Item>,
    /// Words of a response that follow its items.
    pub(super) found: Vec<u64>,
}

impl Outcome {
    fn new(status: Status, count: u64) -> Self {
        Self { status, count, items: Vec::new(), found: Vec::new() }
    }
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Executes the request in `words`. [0 RT; a new chunk as in [`farwood_fabric::chunks::take`]]
    ///
    /// # Errors
    /// The errors that no response reports: those of the fabric.
    pub(super) async fn execute(&self, words: &[u64]) -> Result<Outcome, IndexError> {
        let mut items: Vec<Item> = Vec::new();
        let mut count = Count::default();
        let request = Request::decode(words);
        self.tree.lookups.note(request.as_ref());
        let status = match request {
            None => {
                return match RecordLookup::decode(words) {
                    Some(lookup) => self.execute_lookup(&lookup).await,
                    None => self.execute_changes(words).await,
                };
            }
            Some(Request::Search(query)) => self.search(&query, &mut items).await.map(|()| Status::Done),
            Some(Request::Count(query)) => self.search(&query, &mut count).await.map(|()| Status::Done),
            Some(Request::Nearest(point, wanted)) => {
                let near = self.nearest(point, usize::try_from(wanted).unwrap_or(usize::MAX)).await;
                near.map(|near| {
                    items.extend(near.iter().map(|Near { item, .. }| *item));
                    Status::Done
                })
            }
            Some(Request::Insert(item)) => self.execute_change(Change::Insert(item)).await,
            Some(Request::Remove(item)) => self.execute_change(Change::Remove(item)).await,
            Some(Request::Update(item, bounds)) => self.execute_change(Change::Update(item, bounds)).await,
            Some(Request::Offloaded(count)) => {
                self.tree.lookups.note_offloaded(count);
                Ok(Status::Done)
            }
        };
        let count = count.0 + items.len() as u64;
        self.outcome(status.map(|status| Outcome { items, ..Outcome::new(status, count) }))
    }

    /// Finds records.
    async fn execute_lookup(&self, lookup: &RecordLookup) -> Result<Outcome, IndexError> {
        self.tree.lookups.note_executed();
        let records = match lookup {
            RecordLookup::Get(id) => self.get(id).await.map(|record| record.into_iter().collect()),
            RecordLookup::Search(query) => self.search_records(query).await,
            RecordLookup::Nearest(point, count) => {
                self.nearest_records(*point, usize::try_from(*count).unwrap_or(usize::MAX)).await
            }
        };
        self.outcome(records.map(|records| {
            let mut found = Vec::new();
            for record in &records {
                push_record(record, &mut found);
            }
            Outcome { found, ..Outcome::new(Status::Done, records.len() as u64) }
        }))
    }

    async fn execute_change(&self, change: Change) -> Result<Status, IndexError> {
        let found = self.apply(&[change]).await?;
        Ok(if found == [true] { Status::Done } else { Status::NoSuchItem })
    }

    /// Executes the request of several changes in `words`.
    async fn execute_changes(&self, words: &[u64]) -> Result<Outcome, IndexError> {
        let Some(changes) = decode_changes(words) else { return Ok(Outcome::new(Status::Refused, 0)) };
        let found = self.apply(&changes).await;
        self.outcome(found.map(|found| {
            let count = found.iter().filter(|found| **found).count() as u64;
            Outcome { found: found_words(&found), ..Outcome::new(Status::Done, count) }
        }))
    }

    /// Executes the request in `request`, or loads the items that it lists into the empty tree, and appends the whole
    /// response, for connections other than rings: status, number of items, and the items. Costs and errors as the
    /// operations'.
    ///
    /// # Errors
    /// The errors that no response reports: those of the fabric.
    pub async fn answer(&self, request: &[u64], response: &mut Vec<u64>) -> Result<(), IndexError> {
        let outcome = match decode_load(request) {
            Some((items, fill)) => {
                let loaded = self.bulk_load(&items, fill).await;
                self.outcome(loaded.map(|()| Outcome::new(Status::Done, items.len() as u64)))?
            }
            None => self.execute(request).await?,
        };
        let Outcome { status, count, items, found } = outcome;
        response.reserve(2 + ITEM_WORDS * items.len() + found.len());
        response.extend([status.word(), count]);
        response.extend(items.iter().flat_map(item_words));
        response.extend(found);
        Ok(())
    }

    /// Turns the errors that a response can report into an outcome; others remain errors. A damaged node fails the
    /// requests that need it, and no others.
    fn outcome(&self, outcome: Result<Outcome, IndexError>) -> Result<Outcome, IndexError> {
        match outcome {
            Err(IndexError::Fabric(FabricError::PoolFull { chunks, .. })) => {
                Ok(Outcome::new(Status::PoolFull, chunks))
            }
            Err(IndexError::Fabric(FabricError::NoMemory { .. })) => {
                Ok(Outcome::new(Status::PoolFull, self.client.fabric().shape().chunks()))
            }
            Err(IndexError::NotEmpty) => Ok(Outcome::new(Status::NotEmpty, 0)),
            Err(IndexError::SameHash) => Ok(Outcome::new(Status::SameHash, 0)),
            // A client checks its ids and payloads, so this is one of another version.
            Err(IndexError::BadId(_) | IndexError::TooLong { .. }) => Ok(Outcome::new(Status::Refused, 0)),
            Err(IndexError::Damaged { .. }) => Ok(Outcome::new(Status::Damaged, 0)),
            outcome => outcome,
        }
    }
}
