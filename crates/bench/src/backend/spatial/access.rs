//! A client's access to the index: by messages, by READs, by an adaptive choice of both, or in the server's process.

use farwood_fabric::{Fabric, Server};
use farwood_index::IndexError;
use farwood_index::catfish::adaptive::{BackOff, SearchPath};
use farwood_index::catfish::{Item, Query, Reader, SearchSink, SpatialRpc, Switch, Worker};

use crate::spec::spatial::SpatialSpec;
use crate::spec::spatial_variant::Variant;

/// A client's access to the index.
pub(crate) enum SpatialAccess<'t, F, T, S> {
    /// All requests by messages.
    Messages(T),
    /// Searches by READs; changes by messages, if the mix has changes.
    Reads(Reader<'t, F>, Option<T>),
    /// Searches by messages or by READs.
    Switch(Switch<'t, F, T>),
    /// Searches and changes in the server's process.
    InPlace(Worker<'t, F, S>),
}

impl<'t, F: Fabric, T: SpatialRpc, S: Server> SpatialAccess<'t, F, T, S> {
    /// The access of a variant that does not run in the server's process. The connection must exist if the variant
    /// sends messages; `seed` is that of its back-off.
    pub(crate) fn new(variant: Variant, reader: Reader<'t, F>, connection: Option<T>, seed: u64) -> Self {
        match (variant.rule(), connection) {
            (Some(rule), Some(connection)) => {
                let back_off = BackOff::new(SpatialSpec::back_off(rule), seed);
                SpatialAccess::Switch(Switch { connection, reader, back_off })
            }
            (None, Some(connection)) if variant.messages() => SpatialAccess::Messages(connection),
            (_, connection) => SpatialAccess::Reads(reader, connection),
        }
    }

    /// Searches, and returns whether the client sent a message or posted READs.
    pub(crate) async fn search(
        &mut self,
        query: &Query,
        found: &mut impl SearchSink,
    ) -> Result<SearchPath, IndexError> {
        match self {
            SpatialAccess::Messages(connection) => {
                connection.search(query, found).await.map(|()| SearchPath::Message)
            }
            SpatialAccess::Reads(reader, _) => {
                reader.search(query, found).await.map(|()| SearchPath::Offload)
            }
            SpatialAccess::Switch(switch) => switch.search(query, found).await,
            SpatialAccess::InPlace(worker) => worker.search(query, found).await.map(|()| SearchPath::Message),
        }
    }

    /// Inserts an item.
    pub(crate) async fn insert(&mut self, item: &Item) -> Result<(), IndexError> {
        match self {
            SpatialAccess::Messages(connection) | SpatialAccess::Reads(_, Some(connection)) => {
                connection.insert(item).await
            }
            SpatialAccess::Switch(switch) => switch.connection.insert(item).await,
            SpatialAccess::InPlace(worker) => worker.insert(item).await,
            SpatialAccess::Reads(_, None) => unreachable!("a client that inserts has a connection"),
        }
    }

    /// The connection, which the caller closes.
    pub(crate) fn into_connection(self) -> Option<T> {
        match self {
            SpatialAccess::Messages(connection) => Some(connection),
            SpatialAccess::Reads(_, connection) => connection,
            SpatialAccess::Switch(switch) => Some(switch.connection),
            SpatialAccess::InPlace(_) => None,
        }
    }
}
