//! One client of an ordered index: its operations, and the check of each answer.
//!
//! The latency of a client that has its thread to itself runs from the end of one operation to the end of the next. It
//! therefore includes the work that an application's loop would also do: it chooses the key, fills the value, executes
//! the operation, and reads the answer.

use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::ordered::{Entries, Ordered};
use farwood_index::sherman::{Direction, Range};

use super::super::checked::{CheckedBuffers, First, rank_and_kind};
use super::super::clients::ClientStreams;
use crate::driver::round_robin::StepClient;
use crate::record::measurement::{CostTotals, OperationKind};
use crate::workload::Operation;
use crate::workload::values::fill_value;
use crate::{Error, Result};

/// A client with its streams of operations and its buffers.
pub(crate) struct OrderedClient<'a, F: Fabric> {
    pub(crate) client: Client<F>,
    pub(crate) index: &'a Ordered,
    pub(crate) streams: ClientStreams,
    buffers: CheckedBuffers<'a>,
    found: Entries,
}

impl<'a, F: Fabric> OrderedClient<'a, F> {
    pub(crate) fn new(
        client: Client<F>,
        index: &'a Ordered,
        streams: ClientStreams,
        buffers: CheckedBuffers<'a>,
    ) -> Self {
        OrderedClient { client, index, streams, buffers, found: Entries::new() }
    }

    /// Executes an operation on the key of `rank`, and checks its answer.
    #[inline]
    pub(crate) async fn execute(&mut self, operation: Operation, rank: u64) -> Result<()> {
        self.buffers.fill_key(rank);
        let CheckedBuffers { key, value, .. } = &mut self.buffers;
        match operation {
            Operation::Get { .. } => {
                let is_found = get(self.index, &self.client, key, value).await?;
                if is_found { self.buffers.check_found(rank) } else { self.buffers.check_absent(rank) }
            }
            Operation::Put { version, .. } => {
                fill_value(value, rank, version);
                self.index.put(&self.client, key, value).await?;
                Ok(())
            }
            Operation::Insert { version, .. } => {
                fill_value(value, rank, version);
                let inserted = self.index.insert(&self.client, key, value).await?.inserted();
                if inserted { Ok(()) } else { Err(already_present(rank)) }
            }
            Operation::Remove { .. } => {
                self.index.remove(&self.client, key).await?;
                Ok(())
            }
            Operation::Scan { length, .. } => self.scan(length).await,
            Operation::ReadModifyWrite { version, .. } => {
                let is_found = get(self.index, &self.client, key, value).await?;
                if is_found {
                    self.buffers.check_found(rank)?;
                } else {
                    self.buffers.check_absent(rank)?;
                }
                self.buffers.fill_value(rank, version);
                self.index.put(&self.client, &self.buffers.key, &self.buffers.value).await?;
                Ok(())
            }
        }
    }

    #[inline]
    async fn scan(&mut self, length: u32) -> Result<()> {
        let range = Range { from: Some(&self.buffers.key), to: None };
        let (client, limit) = (&self.client, length as usize);
        self.index.scan(client, range, Direction::Forward, limit, &mut self.found).await?;
        let mut first = First::Yes;
        for (key, value) in self.found.iter() {
            self.buffers.check_entry(first, key, value)?;
            first = First::No;
        }
        Ok(())
    }

    /// Reads a key that the workload may read, without a check of the answer.
    pub(crate) async fn warm_up(&mut self) -> Result<()> {
        let Some(operation) = self.streams.warm_up.next() else { return Ok(()) };
        let (rank, _) = rank_and_kind(operation);
        self.buffers.fill_key(rank);
        get(self.index, &self.client, &self.buffers.key, &mut self.buffers.value).await?;
        Ok(())
    }
}

impl<F: Fabric> StepClient for OrderedClient<'_, F> {
    #[inline]
    async fn step(&mut self) -> Result<Option<(OperationKind, CostTotals)>> {
        let Some(operation) = self.streams.measured.next() else { return Ok(None) };
        let (rank, kind) = rank_and_kind(operation);
        self.execute(operation, rank).await?;
        Ok(Some((kind, CostTotals::from(self.client.take_costs()))))
    }
}

/// Copies the value of `key` into `value`; false if the key is absent.
///
/// # Errors
/// The errors of [`Ordered::get`].
#[inline]
pub async fn get<F: Fabric>(
    index: &Ordered,
    client: &Client<F>,
    key: &[u8],
    value: &mut [u8],
) -> Result<bool, IndexError> {
    let found = index.get(client, key).await?;
    Ok(found.map(|found| value.copy_from_slice(&found)).is_some())
}

#[cold]
fn already_present(rank: u64) -> Error {
    Error::WrongAnswer(format!("the key of rank {rank} was present before any client inserted it"))
}
