//! Operations whose futures programs do not see.
//!
//! The futures of scans nest deeply. If a program computes their layout, it exceeds the compiler's default limit of
//! recursion ("queries overflow the depth limit"). These functions are neither generic nor inlined, so this crate
//! contains their futures.

use crate::span::Span;
use crate::tree::Tree;
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::ordered::Entries;
use farwood_index::sherman::Direction;
use farwood_transport::any::AnyFabric;
use std::pin::Pin;

type Erased<'f, T> = Pin<Box<dyn Future<Output = Result<T, IndexError>> + 'f>>;

impl Tree {
    /// Up to `limit` entries of `span`, in `direction`.
    #[inline(never)]
    pub(crate) fn scan<'f>(
        &'f self,
        client: &'f Client<AnyFabric>,
        (span, direction): (&'f Span, Direction),
        limit: usize,
    ) -> Erased<'f, Entries> {
        Box::pin(async move {
            let mut entries = Entries::new();
            if !span.is_void() {
                self.ordered().scan(client, span.range(), direction, limit, &mut entries).await?;
            }
            Ok(entries)
        })
    }

    /// These entries as of one moment.
    #[inline(never)]
    pub(crate) fn snapshot<'f>(
        &'f self,
        client: &'f Client<AnyFabric>,
        (span, direction): (&'f Span, Direction),
        limit: usize,
    ) -> Erased<'f, Entries> {
        Box::pin(async move {
            let mut entries = Entries::new();
            if !span.is_void() {
                self.ordered().scan_snapshot(client, span.range(), direction, limit, &mut entries).await?;
            }
            Ok(entries)
        })
    }

    /// The number of entries.
    #[inline(never)]
    pub(crate) fn count<'f>(&'f self, client: &'f Client<AnyFabric>) -> Erased<'f, u64> {
        Box::pin(async move { self.ordered().count(client).await })
    }
}
