//! congee: a concurrent adaptive radix tree with optimistic lock coupling, for 8-byte keys and values.

use congee::{Congee, DefaultAllocator, epoch};

use super::{Peer, Sizes};
use crate::{Error, Result};

/// Creates a store.
///
/// # Errors
/// Keys or values that do not have 8 bytes.
pub(super) fn open(sizes: Sizes) -> Result<Box<dyn Peer>> {
    if sizes != (Sizes { key_bytes: 8, value_bytes: 8 }) {
        let problem = format!(
            "it stores 8 B keys and 8 B values, not {} B and {} B; give --key-bytes 8 --value-bytes 8",
            sizes.key_bytes, sizes.value_bytes
        );
        return Err(failure(problem));
    }
    Ok(Box::new(Tree(Congee::new(DefaultAllocator {}))))
}

struct Tree(Congee<usize, usize>);

fn failure(problem: impl Into<String>) -> Error {
    Error::Peer { peer: "congee", problem: problem.into() }
}

/// The number whose order is that of the key's bytes.
fn number(bytes: &[u8]) -> usize {
    usize::from_be_bytes(bytes.try_into().expect("the store is opened for 8 bytes"))
}

impl Peer for Tree {
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        let found = self.0.get(&number(key), &epoch::pin());
        Ok(found.map(|found| value.copy_from_slice(&found.to_be_bytes())).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let inserted = self.0.insert(number(key), number(value), &epoch::pin());
        inserted.map(drop).map_err(|_| failure("out of memory"))
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let choose = |old: Option<usize>| old.unwrap_or_else(|| number(value));
        let inserted = self.0.compute_or_insert(number(key), choose, &epoch::pin());
        inserted.map(drop).map_err(|_| failure("out of memory"))
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.remove(&number(key), &epoch::pin()).is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        // congee excludes the end of a range, so a scan never returns the largest possible key.
        let mut found = vec![(0, 0); limit];
        let count = self.0.range(&number(from), &usize::MAX, &mut found, &epoch::pin());
        for (key, value) in &found[..count] {
            visit(&key.to_be_bytes(), &value.to_be_bytes());
        }
        Ok(count)
    }
}
