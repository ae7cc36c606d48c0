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

/// The kind of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanKind {
    /// Each entry is as of a moment of its own.
    Entries,
    /// All entries are as of one moment.
    Snapshot,
}

impl ScanKind {
    /// The name of the operation.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Entries => "scan",
            Self::Snapshot => "snapshot",
        }
    }
}

impl Tree {
    /// Returns up to `limit` entries of `span`, in `direction`.
    #[inline(never)]
    pub(crate) fn scan<'f>(
        &'f self,
        client: &'f Client<AnyFabric>,
        kind: ScanKind,
        (span, direction): (&'f Span, Direction),
        limit: usize,
    ) -> Erased<'f, Entries> {
        Box::pin(async move {
            let (index, mut entries) = (self.ordered(), Entries::new());
            match kind {
                _ if span.is_void() => {}
                ScanKind::Entries => index.scan(client, span.range(), direction, limit, &mut entries).await?,
                ScanKind::Snapshot => {
                    index.scan_snapshot(client, span.range(), direction, limit, &mut entries).await?;
                }
            }
            Ok(entries)
        })
    }

    /// Returns the number of entries.
    #[inline(never)]
    pub(crate) fn count<'f>(&'f self, client: &'f Client<AnyFabric>) -> Erased<'f, u64> {
        Box::pin(async move { self.ordered().count(client).await })
    }
}
