//! Keys and values of one client, and the check of every answer.

use std::cmp::Ordering;

use crate::record::measurement::OperationKind;
use crate::workload::keys::Keys;
use crate::workload::values::{fill_value, verify, verify_for};
use crate::workload::{Operation, Workload};
use crate::{Error, Result};

/// Buffers for a key and a value, and the rules for checking answers.
#[derive(Clone)]
pub struct CheckedBuffers<'a> {
    /// The keys of the run.
    pub keys: &'a Keys,
    may_miss: bool,
    /// A key.
    pub key: Vec<u8>,
    /// A value.
    pub value: Vec<u8>,
    /// A key found by a scan.
    found: Vec<u8>,
}

/// The rank of the first key of an operation, and the kind under which it is counted.
#[inline]
pub fn rank_and_kind(operation: Operation) -> (u64, OperationKind) {
    match operation {
        Operation::Get { rank } => (rank, OperationKind::Get),
        Operation::Put { rank, .. } | Operation::ReadModifyWrite { rank, .. } => (rank, OperationKind::Put),
        Operation::Insert { rank, .. } => (rank, OperationKind::Insert),
        Operation::Remove { rank } => (rank, OperationKind::Remove),
        Operation::Scan { rank, .. } => (rank, OperationKind::Scan),
    }
}

impl<'a> CheckedBuffers<'a> {
    /// Buffers for `keys` and values of `value_bytes`. Keys that `workload` draws can be absent if it
    /// [draws from more keys than are loaded](Workload::may_miss).
    pub fn new(keys: &'a Keys, value_bytes: usize, workload: Workload) -> CheckedBuffers<'a> {
        let key = Vec::with_capacity(keys.key_bytes());
        let may_miss = workload.may_miss();
        CheckedBuffers { keys, may_miss, found: key.clone(), key, value: vec![0; value_bytes] }
    }

    /// Writes the key of a rank to the buffer.
    #[inline]
    pub fn fill_key(&mut self, rank: u64) {
        self.keys.write_key(rank, &mut self.key);
    }

    /// Writes a value to the buffer.
    #[inline]
    pub fn fill_value(&mut self, rank: u64, version: u64) {
        fill_value(&mut self.value, rank, version);
    }

    /// Checks the value in the buffer, which a get found under the key of `rank`.
    #[inline]
    pub fn check_found(&self, rank: u64) -> Result<()> {
        verify_for(rank, &self.value).map(drop)
    }

    /// Checks that a get of the key of `rank` may find no value.
    #[inline]
    pub fn check_absent(&self, rank: u64) -> Result<()> {
        if self.may_miss { Ok(()) } else { Err(missing(rank)) }
    }

    /// Checks the next entry of a scan. Before the call, the key buffer holds the key of the previous entry, or the
    /// start of the scan if the entry is the first; after the call, it holds `key`.
    #[inline]
    pub fn check_entry(&mut self, is_first: First, key: &[u8], value: &[u8]) -> Result<()> {
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
        // `found` now equals `key`.
        std::mem::swap(&mut self.key, &mut self.found);
        Ok(())
    }
}

/// Compares two keys. Most keys differ in their first eight bytes; for these, one comparison of integers replaces a
/// call of `memcmp`.
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
pub enum First {
    /// It is.
    Yes,
    /// It is not.
    No,
}

#[cold]
fn missing(rank: u64) -> Error {
    Error::MissingKey(rank)
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
    fn wrong_entries_of_a_scan_are_errors() {
        let keys = Keys::integers(8).unwrap();
        let mut ranks = keys.ranks_in_key_order(4);
        let entry = |rank: u64| {
            let mut value = [0; 16];
            fill_value(&mut value, rank, 3);
            (keys.key(rank), value)
        };
        let check = |ranks: &[u64]| {
            let mut buffers = CheckedBuffers::new(&keys, 16, Workload::YcsbC);
            let mut first = First::Yes;
            ranks.iter().try_for_each(|rank| {
                let (key, value) = entry(*rank);
                buffers.check_entry(std::mem::replace(&mut first, First::No), &key, &value)
            })
        };
        check(&ranks).unwrap();
        assert!(check(&[ranks[0], ranks[0]]).is_err(), "twice");
        ranks.swap(1, 2);
        assert!(check(&ranks).unwrap_err().to_string().contains("out of order"));
        let mut buffers = CheckedBuffers::new(&keys, 16, Workload::YcsbC);
        let wrong = buffers.check_entry(First::Yes, &entry(1).0, &entry(2).1).unwrap_err().to_string();
        assert!(wrong.contains("another key"), "{wrong}");
        assert!(buffers.check_absent(1).unwrap_err().to_string().contains("missing"));
    }
}
