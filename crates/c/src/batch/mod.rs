//! Batches: calls on many keys, which wait for the memory nodes together.

#[allow(unsafe_code)]
mod sys;

pub use sys::*;

use crate::failure::CallResult;
use crate::index::FwIndex;
use std::borrow::Cow;

/// Keys, and the values that belong to them.
struct Entries<'a> {
    keys: &'a [&'a [u8]],
    values: &'a [&'a [u8]],
}

/// An entry as the index stores it.
type EncodedEntry<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

impl FwIndex {
    fn keys_of<'a>(&self, operation: &'static str, keys: &[&'a [u8]]) -> CallResult<Vec<Cow<'a, [u8]>>> {
        keys.iter().map(|key| self.key(operation, key)).collect()
    }

    fn encoded_entries<'a>(
        &self,
        operation: &'static str,
        Entries { keys, values }: &Entries<'a>,
    ) -> CallResult<Vec<EncodedEntry<'a>>> {
        let entries = keys.iter().zip(*values);
        entries.map(|(key, value)| Ok((self.key(operation, key)?, self.value(operation, value)?))).collect()
    }

    /// Looks keys up.
    fn get_many(&self, keys: &[&[u8]]) -> CallResult<Vec<Option<Vec<u8>>>> {
        let keys = self.keys_of("get many", keys)?;
        Ok(self.index.get_many(keys.iter().map(AsRef::as_ref))?)
    }

    /// Stores entries; returns for each whether its key existed.
    fn put_many(&self, entries: &Entries<'_>) -> CallResult<Vec<bool>> {
        let entries = self.encoded_entries("put many", entries)?;
        Ok(self.index.put_many(entries.iter().map(|(key, value)| (&**key, &**value)))?)
    }

    /// Removes keys; returns for each whether it existed.
    fn remove_many(&self, keys: &[&[u8]]) -> CallResult<Vec<bool>> {
        let keys = self.keys_of("remove many", keys)?;
        Ok(self.index.remove_many(keys.iter().map(AsRef::as_ref))?)
    }

    /// Loads entries into the empty index with the fill factor `fill`; 0: the default.
    fn bulk_load(&self, entries: &Entries<'_>, fill: f64) -> CallResult<u64> {
        let entries = self.encoded_entries("bulk load", entries)?;
        let load = self.index.bulk_load();
        let load = if fill == 0.0 { load } else { load.fill(fill) };
        Ok(load.run(entries.iter().map(|(key, value)| (&**key, &**value)))?)
    }
}
