//! LMDB through heed: several processes map one file; readers take no lock, and writers run one at a time.
//!
//! Every operation is a transaction, as in Farwood. LMDB reads its pages in place, so a get includes the copy of the
//! value.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, PutFlags};

use super::{Peer, Sizes, sys};
use crate::{Error, Result};

/// LMDB's longest key in bytes (`mdb_env_get_maxkeysize`).
const KEY_BYTES_MAX: usize = 511;
/// Readers of all processes; LMDB's default of 126 is too few for hundreds of threads.
const READERS_MAX: u32 = 1024;
/// Entries that a load commits at once: bounds the list of dirty pages.
const LOAD_BATCH: u64 = 1 << 20;

/// Opens or creates the store in `folder`; every process of a run gives the same `entries_max`.
pub(super) fn open(folder: &Path, sizes: Sizes, entries_max: u64) -> Result<Box<dyn Peer>> {
    if sizes.key_bytes > KEY_BYTES_MAX {
        let problem = format!("its keys have at most {KEY_BYTES_MAX} B, not {}", sizes.key_bytes);
        return Err(Error::Peer { peer: "lmdb", problem });
    }
    let env = sys::open(folder, map_bytes(sizes, entries_max), READERS_MAX).map_err(failure)?;
    let mut transaction = env.write_txn().map_err(failure)?;
    let entries = env.create_database(&mut transaction, None).map_err(failure)?;
    transaction.commit().map_err(failure)?;
    Ok(Box::new(Lmdb { env, entries }))
}

/// The size of the file for `entries_max` entries: half-full pages, copies of changed ones, and a margin. The file is
/// sparse.
fn map_bytes(sizes: Sizes, entries_max: u64) -> usize {
    let entry_bytes = (sizes.key_bytes + sizes.value_bytes + 16) as u64;
    let bytes = (entry_bytes * entries_max * 3 + (256 << 20)).next_multiple_of(1 << 20);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

struct Lmdb {
    env: Env,
    entries: Database<Bytes, Bytes>,
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes the error by value")]
fn failure(error: heed::Error) -> Error {
    Error::Peer { peer: "lmdb", problem: error.to_string() }
}

impl Peer for Lmdb {
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        let transaction = self.env.read_txn().map_err(failure)?;
        let found = self.entries.get(&transaction, key).map_err(failure)?;
        Ok(found.map(|found| value.copy_from_slice(found)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failure)?;
        self.entries.put(&mut transaction, key, value).map_err(failure)?;
        transaction.commit().map_err(failure)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failure)?;
        self.entries.get_or_put(&mut transaction, key, value).map_err(failure)?;
        transaction.commit().map_err(failure)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let mut transaction = self.env.write_txn().map_err(failure)?;
        let removed = self.entries.delete(&mut transaction, key).map_err(failure)?;
        transaction.commit().map_err(failure)?;
        Ok(removed)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let transaction = self.env.read_txn().map_err(failure)?;
        let range = (Bound::Included(from), Bound::Unbounded);
        let mut count = 0;
        for entry in self.entries.range(&transaction, &range).map_err(failure)?.take(limit) {
            let (key, value) = entry.map_err(failure)?;
            visit(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn load(&self, next: &mut dyn FnMut(&mut [u8], &mut [u8]) -> bool, sizes: Sizes) -> Result<()> {
        let (mut key, mut value) = (vec![0; sizes.key_bytes], vec![0; sizes.value_bytes]);
        let mut more = true;
        while more {
            let mut transaction = self.env.write_txn().map_err(failure)?;
            let mut count = 0;
            while count < LOAD_BATCH && more {
                more = next(&mut key, &mut value);
                if more {
                    // Keys ascend, so APPEND fills every page without searches.
                    self.entries
                        .put_with_flags(&mut transaction, PutFlags::APPEND, &key, &value)
                        .map_err(failure)?;
                }
                count += 1;
            }
            transaction.commit().map_err(failure)?;
        }
        Ok(())
    }

    fn bytes(&self) -> Option<u64> {
        // All pages that were ever used. heed's own sum mistakes binary keys for names of databases.
        let page_bytes = u64::from(self.env.stat().page_size);
        Some((self.env.info().last_page_number as u64 + 1) * page_bytes)
    }
}
