//! Executes requests, independently of the kind of connection.

use super::super::wire::message::{ITEM_WORDS, Request, Status, decode_load, item_words};
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
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Executes the request in `words`. [0 RT; a new chunk as in [`farwood_fabric::chunks::take`]]
    ///
    /// # Errors
    /// The errors that no response reports: those of the fabric, and a damaged tree.
    pub(super) async fn execute(&self, words: &[u64]) -> Result<Outcome, IndexError> {
        let mut items: Vec<Item> = Vec::new();
        let mut count = Count::default();
        let request = Request::decode(words);
        self.tree.lookups.note(request.as_ref());
        let of_change = |found| if found { Status::Done } else { Status::NoSuchItem };
        let status = match request {
            None => Ok(Status::Refused),
            Some(Request::Search(query)) => self.search(&query, &mut items).await.map(|()| Status::Done),
            Some(Request::Count(query)) => self.search(&query, &mut count).await.map(|()| Status::Done),
            Some(Request::Nearest(point, wanted)) => {
                let near = self.nearest(point, usize::try_from(wanted).unwrap_or(usize::MAX)).await;
                near.map(|near| {
                    items.extend(near.iter().map(|Near { item, .. }| *item));
                    Status::Done
                })
            }
            Some(Request::Insert(item)) => self.insert(&item).await.map(|()| Status::Done),
            Some(Request::Remove(item)) => self.remove(&item).await.map(of_change),
            Some(Request::Update(item, bounds)) => self.update(&item, bounds).await.map(of_change),
            Some(Request::Offloaded(count)) => {
                self.tree.lookups.note_offloaded(count);
                Ok(Status::Done)
            }
        };
        let count = count.0 + items.len() as u64;
        self.outcome(status, count, items)
    }

    /// Executes the request in `request`, or loads the items that it lists into the empty tree, and appends the whole
    /// response, for connections other than rings: status, number of items, and the items. Costs and errors as the
    /// operations'.
    ///
    /// # Errors
    /// The errors that no response reports: those of the fabric, and a damaged tree.
    pub async fn answer(&self, request: &[u64], response: &mut Vec<u64>) -> Result<(), IndexError> {
        let Outcome { status, count, items } = match decode_load(request) {
            Some((items, fill)) => {
                let loaded = self.bulk_load(&items, fill).await.map(|()| Status::Done);
                self.outcome(loaded, items.len() as u64, Vec::new())?
            }
            None => self.execute(request).await?,
        };
        response.reserve(2 + ITEM_WORDS * items.len());
        response.extend([status.word(), count]);
        response.extend(items.iter().flat_map(item_words));
        Ok(())
    }

    /// Turns the errors that a response can report into a status; others remain errors.
    fn outcome(
        &self,
        status: Result<Status, IndexError>,
        count: u64,
        items: Vec<Item>,
    ) -> Result<Outcome, IndexError> {
        match status {
            Ok(status) => Ok(Outcome { status, count, items }),
            Err(IndexError::Fabric(FabricError::PoolFull { .. } | FabricError::NoMemory { .. })) => {
                let chunks = self.client.fabric().shape().chunks();
                Ok(Outcome { status: Status::PoolFull, count: chunks, items: Vec::new() })
            }
            Err(IndexError::NotEmpty) => {
                Ok(Outcome { status: Status::NotEmpty, count: 0, items: Vec::new() })
            }
            Err(error) => Err(error),
        }
    }
}
