//! An open ordered index, shared by all its handles in this process.

use crate::attached::Attached;
use crate::codec::{Codec, Encode, Key, TypeName, Value};
use crate::error::{Error, Result};
use crate::heir::Heir;
use crate::inline_bytes::InlineBytes;
use crate::kind::{Kind, Type};
use crate::observe::MeteredIndex;
use crate::thread_client;
use crate::unfit::Unfit;
use crate::width::Width;
use farwood_index::IndexError;
use farwood_index::ordered::Ordered;
use farwood_transport::runtime::block_on;
use std::sync::Arc;

/// An open index, shared by all its handles in this process.
pub(crate) struct Tree {
    ordered: Ordered,
    /// The hashes of the names of the types of keys and values, if they are recorded.
    types: [Option<u64>; 2],
    pool: Arc<Attached>,
    metered: MeteredIndex,
    /// The index as a forked child has opened it.
    heir: Heir<Arc<Self>>,
}

impl Tree {
    pub(crate) fn new(ordered: Ordered, types: [Option<u64>; 2], pool: Arc<Attached>) -> Self {
        let metered = pool.calls().index(&ordered.entry().name);
        Self { ordered, types, pool, metered, heir: Heir::default() }
    }

    /// The index as a forked child opens it.
    #[inline]
    pub(crate) fn heir(&self) -> &Heir<Arc<Self>> {
        &self.heir
    }

    #[inline]
    pub(crate) fn ordered(&self) -> &Ordered {
        &self.ordered
    }

    /// The index in the counters of calls.
    #[inline]
    pub(crate) fn metered(&self) -> &MeteredIndex {
        &self.metered
    }

    pub(crate) fn pool(&self) -> &Arc<Attached> {
        &self.pool
    }

    /// Refuses a forked child of the process that opened the pool.
    #[inline]
    pub(crate) fn check_process(&self, operation: &'static str) -> Result<()> {
        self.pool.forks().check().map_err(|error| self.failed(operation, error.into()))
    }

    pub(crate) fn url(&self) -> String {
        self.pool.index_url(&self.ordered.entry().name)
    }

    /// The hashes of the names of the types of keys and values, if they are recorded.
    pub(crate) fn types(&self) -> [Option<u64>; 2] {
        self.types
    }

    pub(crate) fn kinds(&self) -> [Kind; 2] {
        self.ordered.kinds().map(Kind::from_number)
    }

    /// The type of the keys (`field` 0) or of the values (`field` 1). Its name is `candidate` if the index records the
    /// hash of that.
    pub(crate) fn type_of(&self, field: usize, candidate: &'static TypeName) -> Type {
        let width = if field == 0 { self.key_width() } else { self.value_width() };
        let kind = self.kinds()[field];
        let bytes = match width {
            Width::Exactly(bytes) => Some(bytes),
            Width::UpTo(_) => kind.width(),
        };
        let name = self.types[field].map(|hash| TypeName::of_hash(hash, Some(candidate)));
        Type { kind, bytes, name }
    }

    /// The permitted length of keys.
    #[inline]
    pub(crate) fn key_width(&self) -> Width {
        self.ordered.key_length().into()
    }

    /// The permitted length of values.
    #[inline]
    pub(crate) fn value_width(&self) -> Width {
        self.ordered.value_length().into()
    }

    #[cold]
    pub(crate) fn failed(&self, operation: &'static str, source: IndexError) -> Error {
        self.pool.failed(operation, &self.ordered.entry().name, source)
    }

    #[cold]
    pub(crate) fn unfit(&self, operation: &'static str, what: &'static str, why: Unfit) -> Error {
        Error::Unfit { operation, url: self.url(), what, why }
    }

    /// The error of a call whose key or value does not fit. It is counted.
    #[cold]
    fn refused(&self, operation: &'static str, what: &'static str, why: Unfit) -> Error {
        let error = self.unfit(operation, what, why);
        self.pool.calls().refuse(&self.metered, operation, error.kind());
        error
    }

    /// Runs an operation in this process, and describes its error.
    pub(crate) async fn run<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = std::result::Result<T, IndexError>>,
    ) -> Result<T> {
        self.pool.forks().guard(work).await.map_err(|error| self.failed(operation, error))
    }

    /// Encodes a key of a call. A key that does not fit is counted as a call that failed.
    #[inline]
    pub(crate) fn key<'k, K: Key, Q: Encode<K>>(
        &self,
        operation: &'static str,
        key: &'k Q,
    ) -> Result<Q::Encoded<'k>> {
        key.encode(self.key_width()).map_err(|why| self.refused(operation, "key", why))
    }

    /// Encodes a value of a call. A value that does not fit is counted as a call that failed.
    #[inline]
    pub(crate) fn value<'v, V: Value, Q: Encode<V>>(
        &self,
        operation: &'static str,
        value: &'v Q,
    ) -> Result<Q::Encoded<'v>> {
        value.encode(self.value_width()).map_err(|why| self.refused(operation, "value", why))
    }

    /// Encodes a key or a value in the course of a call, which is counted anyway.
    pub(crate) fn encode_within<T: Codec, Q: Encode<T>>(
        &self,
        operation: &'static str,
        (what, width): (&'static str, Width),
        item: &Q,
    ) -> Result<InlineBytes> {
        let encoded = item.encode(width).map_err(|why| self.unfit(operation, what, why))?;
        Ok(InlineBytes::copy(encoded.as_ref()))
    }

    /// Decodes a key or a value.
    #[inline]
    pub(crate) fn decode<T: Codec>(
        &self,
        operation: &'static str,
        what: &'static str,
        bytes: &[u8],
    ) -> Result<T> {
        T::decode(bytes).map_err(|why| self.unfit(operation, what, why))
    }
}

impl Drop for Tree {
    /// Returns the memory that this process has allocated for the index and not used, and closes the index, so that
    /// other processes can drop it. If that fails, other processes reclaim the memory after this process has detached.
    /// [at most 3 RT, for which no operation waits; a hashed index first completes what it has postponed: 2 RT for each
    /// change, and up to the time limit for a lock if the process that holds it is stopped] In a forked child the index
    /// stays open, because the parent has it open.
    fn drop(&mut self) {
        let Ok(client) = thread_client::client(&self.pool) else { return };
        let _ = block_on(self.ordered.leave(&client));
        self.pool.close(&self.ordered.entry().name, || {
            let _ = block_on(self.ordered.close(&client));
        });
    }
}
