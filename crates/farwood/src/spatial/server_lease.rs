//! The lease of an index that this process serves.

use super::index::Spatial;
use crate::error::Result;
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::catfish::{ServerSettings, TreeServer};
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
        spatial: &Spatial,
        client: &'c Client<AnyFabric>,
        server: &AnyServer,
    ) -> std::result::Result<Self, IndexError> {
        let tree = block_on(spatial.index.serve(client, server, ServerSettings::default()))?;
        Ok(Self::of(tree, client))
    }

    /// Releases the lease. [1 RT]
    ///
    /// # Errors
    /// The errors of the transport.
    pub(super) fn release(mut self, spatial: &Spatial, operation: &'static str) -> Result<()> {
        self.is_released = true;
        block_on(self.tree.release_lease(self.client)).map_err(|error| spatial.failed(operation, error))
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
