//! The lease of an index that this process serves.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::catfish::{Catfish, ServerSettings, TreeServer};
use farwood_transport::any::{AnyFabric, AnyServer};
use farwood_transport::runtime::block_on;
use std::ops::Deref;

/// The tree that this process serves, with its lease. The lease is released when the value is dropped, also while a
/// panic of the program's own function unwinds: otherwise no process could change the index before this one ends.
pub(super) struct ServerLease<'c> {
    tree: TreeServer,
    client: &'c Client<AnyFabric>,
    is_released: bool,
}

impl<'c> ServerLease<'c> {
    /// The lease of a tree that this process has begun to serve.
    pub(super) fn of(tree: TreeServer, client: &'c Client<AnyFabric>) -> Self {
        Self { tree, client, is_released: false }
    }

    /// Begins to serve an index.
    ///
    /// # Errors
    /// As `Catfish::serve`.
    pub(super) fn begin(
        index: &Catfish,
        client: &'c Client<AnyFabric>,
        server: &AnyServer,
    ) -> Result<Self, IndexError> {
        let tree = block_on(index.serve(client, server, ServerSettings::default()))?;
        Ok(Self::of(tree, client))
    }

    /// Releases the lease. [1 RT]
    ///
    /// # Errors
    /// The errors of the transport.
    pub(super) fn release(mut self) -> Result<(), IndexError> {
        self.is_released = true;
        block_on(self.tree.release_lease(self.client))
    }
}

impl Deref for ServerLease<'_> {
    type Target = TreeServer;

    fn deref(&self) -> &TreeServer {
        &self.tree
    }
}

impl Drop for ServerLease<'_> {
    fn drop(&mut self) {
        if !self.is_released {
            let _ = block_on(self.tree.release_lease(self.client));
        }
    }
}
