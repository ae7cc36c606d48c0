//! One client at work: what it asks, how the answer is checked, what is measured.
//!
//! The clock is read once per operation where a client has its thread to itself: the end of an operation is the
//! start of the next one. A latency hence holds everything that a user's loop would do as well: choosing the key,
//! making the value, the operation, and looking at the answer.

use std::cmp::Ordering;

use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::ordered::{Entries, Ordered};
use farwood_index::sherman::{Direction, Range};

use crate::keys::Keys;
use crate::measure::OperationKind;
use crate::values::{fill_value, verify, verify_for};
use crate::workload::{Operation, OperationStream};
use crate::{Error, Result};

/// A client with its stream of operations and its buffers.
pub(super) struct Seat<'a, F: Fabric> {
    pub(super) client: Client<F>,
    pub(super) index: &'a Ordered,
    pub(super) stream: OperationStream,
    /// The keys that warm-up reads: drawn like those of the stream, which it leaves alone.
    pub(super) rehearsal: OperationStream,
    pub(super) buffers: Buffers<'a>,
    found: Entries,
}

/// A key and a value, and what they must be.
#[derive(Clone)]
pub(crate) struct Buffers<'a> {
    pub(crate) keys: &'a Keys,
    may_miss: bool,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// A key found by a scan.
    found: Vec<u8>,
}

/// The key that an operation starts at, and what it is counted as.
#[inline]
pub(crate) fn subject_of(operation: Operation) -> (u64, OperationKind) {
    match operation {
        Operation::Get { rank } => (rank, OperationKind::Get),
        Operation::Put { rank, .. } | Operation::ReadModifyWrite { rank, .. } => (rank, OperationKind::Put),
        Operation::Insert { rank, .. } => (rank, OperationKind::Insert),
        Operation::Remove { rank } => (rank, OperationKind::Remove),
        Operation::Scan { rank, .. } => (rank, OperationKind::Scan),
    }
}

impl<'a> Buffers<'a> {
    /// Buffers for `keys` and values of `value_bytes`. `may_miss`: a key that was drawn may not be there.
    pub(crate) fn new(keys: &'a Keys, value_bytes: usize, may_miss: bool) -> Buffers<'a> {
        let key = Vec::with_capacity(keys.key_bytes());
        Buffers { keys, may_miss, found: key.clone(), key, value: vec![0; value_bytes] }
    }

    /// Makes the key of a rank.
    #[inline]
    pub(crate) fn take_key(&mut self, rank: u64) {
        self.keys.write_key(rank, &mut self.key);
    }

    /// Makes a value.
    #[inline]
    pub(crate) fn take_value(&mut self, rank: u64, version: u64) {
        fill_value(&mut self.value, rank, version);
    }

    /// Checks what a get said of the key of `rank`.
    #[inline]
    pub(crate) fn check_get(&self, rank: u64, is_there: bool) -> Result<()> {
        if is_there {
            return verify_for(rank, &self.value).map(drop);
        }
        if self.may_miss { Ok(()) } else { Err(missing(rank)) }
    }

    /// Checks an entry that a scan found after the key in `key`, and goes on to it.
    #[inline]
    pub(crate) fn check_entry(&mut self, is_first: First, key: &[u8], value: &[u8]) -> Result<()> {
        let in_order = match order(&self.key, key) {
            Ordering::Less => true,
            Ordering::Equal => is_first == First::Yes,
            Ordering::Greater => false,
        };
        if !in_order {
            return Err(Error::WrongAnswer("a scan's keys are out of order".to_owned()));
        }
        let (rank, _) = verify(value)?;
        self.keys.write_key(rank, &mut self.found);
        if order(&self.found, key) != Ordering::Equal {
            return Err(Error::WrongAnswer(format!("a scan found a value of rank {rank} under another key")));
        }
        // What was found is the key.
        std::mem::swap(&mut self.key, &mut self.found);
        Ok(())
    }
}

/// The order of two keys. Their first words mostly tell, without a call.
#[inline]
fn order(a: &[u8], b: &[u8]) -> Ordering {
    let (Some((first_a, rest_a)), Some((first_b, rest_b))) = (a.split_first_chunk(), b.split_first_chunk())
    else {
        return a.cmp(b);
    };
    let first = u64::from_be_bytes(*first_a).cmp(&u64::from_be_bytes(*first_b));
    if first == Ordering::Equal && !(rest_a.is_empty() && rest_b.is_empty()) {
        rest_a.cmp(rest_b)
    } else {
        first
    }
}

/// Whether an entry is the first of its scan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Yes,
    No,
}

#[cold]
fn missing(rank: u64) -> Error {
    Error::WrongAnswer(format!("the key of rank {rank} is not there although it was loaded or inserted"))
}

impl<'a, F: Fabric> Seat<'a, F> {
    pub(super) fn new(
        client: Client<F>,
        index: &'a Ordered,
        streams: (OperationStream, OperationStream),
        buffers: Buffers<'a>,
    ) -> Self {
        let (stream, rehearsal) = streams;
        Seat { client, index, stream, rehearsal, buffers, found: Entries::new() }
    }

    /// Does one operation and checks its answer.
    #[inline]
    pub(super) async fn execute(&mut self, operation: Operation, rank: u64) -> Result<()> {
        self.buffers.take_key(rank);
        let Buffers { key, value, .. } = &mut self.buffers;
        match operation {
            Operation::Get { .. } => {
                let is_there = get(self.index, &self.client, key, value).await?;
                self.buffers.check_get(rank, is_there)
            }
            Operation::Put { version, .. } => {
                fill_value(value, rank, version);
                self.index.put(&self.client, key, value).await?;
                Ok(())
            }
            Operation::Insert { version, .. } => {
                fill_value(value, rank, version);
                let inserted = self.index.insert(&self.client, key, value).await?.inserted();
                if inserted { Ok(()) } else { Err(present(rank)) }
            }
            Operation::Remove { .. } => {
                self.index.remove(&self.client, key).await?;
                Ok(())
            }
            Operation::Scan { length, .. } => self.scan(length).await,
            Operation::ReadModifyWrite { version, .. } => {
                let is_there = get(self.index, &self.client, key, value).await?;
                self.buffers.check_get(rank, is_there)?;
                self.buffers.take_value(rank, version);
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

    /// Reads a key that the workload would ask for; whether it is there says nothing yet.
    pub(super) async fn rehearse(&mut self) -> Result<()> {
        let Some(operation) = self.rehearsal.next() else { return Ok(()) };
        let (rank, _) = subject_of(operation);
        self.buffers.take_key(rank);
        get(self.index, &self.client, &self.buffers.key, &mut self.buffers.value).await?;
        Ok(())
    }
}

/// Copies the value of `key` into `value`; false if there is no such key.
#[inline]
pub(crate) async fn get<F: Fabric>(
    index: &Ordered,
    client: &Client<F>,
    key: &[u8],
    value: &mut [u8],
) -> Result<bool, IndexError> {
    let found = index.get(client, key).await?;
    Ok(found.map(|found| value.copy_from_slice(&found)).is_some())
}

#[cold]
fn present(rank: u64) -> Error {
    Error::WrongAnswer(format!("the key of rank {rank} was there before anybody inserted it"))
}

/// When a client stops.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// At a time of the clock, in ns.
    Time(u64),
    /// After so many operations.
    Operations(u64),
}

impl Until {
    /// Whether it is time, after `done` operations.
    #[inline]
    pub(crate) fn is_over(self, now: u64, done: u64) -> bool {
        match self {
            Until::Time(end) => now >= end,
            Until::Operations(operations) => done >= operations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_by_their_bytes() {
        let keys: [&[u8]; 6] = [b"", b"abc", b"abcdefgh", b"abcdefgh\0", b"abcdefghi", b"b"];
        for (at, a) in keys.iter().enumerate() {
            for (other, b) in keys.iter().enumerate() {
                assert_eq!(order(a, b), at.cmp(&other), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn wrong_entries_of_a_scan_are_noticed() {
        let keys = Keys::integers(8).unwrap();
        let mut ranks = keys.ranks_in_key_order(4);
        let entry = |rank: u64| {
            let mut value = [0; 16];
            fill_value(&mut value, rank, 3);
            (keys.key(rank), value)
        };
        let judge = |ranks: &[u64]| {
            let mut buffers = Buffers::new(&keys, 16, false);
            let mut first = First::Yes;
            ranks.iter().try_for_each(|rank| {
                let (key, value) = entry(*rank);
                buffers.check_entry(std::mem::replace(&mut first, First::No), &key, &value)
            })
        };
        judge(&ranks).unwrap();
        assert!(judge(&[ranks[0], ranks[0]]).is_err(), "twice");
        ranks.swap(1, 2);
        assert!(judge(&ranks).unwrap_err().to_string().contains("out of order"));
        let mut buffers = Buffers::new(&keys, 16, false);
        let wrong = buffers.check_entry(First::Yes, &entry(1).0, &entry(2).1).unwrap_err().to_string();
        assert!(wrong.contains("another key"), "{wrong}");
        assert!(buffers.check_get(1, false).unwrap_err().to_string().contains("not there"));
    }
}
