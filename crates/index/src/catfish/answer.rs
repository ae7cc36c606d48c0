//! What the server does for a request, whatever way it came.

use super::message::{Request, Status, decode_load, item_words};
use super::rectangle::Item;
use super::worker::Worker;
use super::{Count, Near};
use crate::error::IndexError;
use farwood_fabric::{Fabric, FabricError, Server};

/// What became of a request.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) status: Status,
    /// How many items there are; of a pool that is full, how many chunks it has.
    pub(super) count: u64,
    pub(super) items: Vec<Item>,
}

impl<F: Fabric, S: Server> Worker<'_, F, S> {
    /// Does what the words of a request ask. [0 RT; a new chunk as in [`farwood_fabric::chunks::take`]]
    ///
    /// # Errors
    /// What is no answer: the fabric's, a damaged tree.
    pub(super) async fn carry_out(&self, words: &[u64]) -> Result<Done, IndexError> {
        let mut items: Vec<Item> = Vec::new();
        let mut count = Count::default();
        let done = match Request::decode(words) {
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
            Some(Request::Remove(item)) => self.remove(&item).await.map(found),
            Some(Request::Update(item, bounds)) => self.update(&item, bounds).await.map(found),
        };
        let count = count.0 + items.len() as u64;
        judged(done, count, items, self)
    }

    /// Does what the words of a request ask, or loads what they list into the empty tree, and appends the words of a
    /// response in one piece, for who has a connection of another kind than rings: status, how many items there are,
    /// and the items. Costs and errors as the operations'.
    ///
    /// # Errors
    /// What is no answer: the fabric's, a damaged tree.
    pub async fn answer(&self, request: &[u64], response: &mut Vec<u64>) -> Result<(), IndexError> {
        let Done { status, count, items } = match decode_load(request) {
            Some((items, fill)) => {
                let count = items.len() as u64;
                judged(self.bulk_load(&items, fill).await.map(|()| Status::Done), count, Vec::new(), self)?
            }
            None => self.carry_out(request).await?,
        };
        response.extend([status.word(), count]);
        response.extend(items.iter().flat_map(item_words));
        Ok(())
    }
}

/// What a client is told of what was done; what is no answer stays an error.
fn judged<F: Fabric, S: Server>(
    done: Result<Status, IndexError>,
    count: u64,
    items: Vec<Item>,
    worker: &Worker<'_, F, S>,
) -> Result<Done, IndexError> {
    match done {
        Ok(status) => Ok(Done { status, count, items }),
        Err(IndexError::Fabric(FabricError::PoolFull { .. } | FabricError::NoMemory { .. })) => {
            let chunks = worker.client.fabric().shape().chunks();
            Ok(Done { status: Status::PoolFull, count: chunks, items: Vec::new() })
        }
        Err(IndexError::NotEmpty) => Ok(Done { status: Status::NotEmpty, count: 0, items: Vec::new() }),
        Err(error) => Err(error),
    }
}

fn found(there: bool) -> Status {
    if there { Status::Done } else { Status::NoSuchItem }
}
