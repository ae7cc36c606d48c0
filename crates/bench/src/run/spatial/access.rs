//! How a client does what it is asked: over a connection, by READs, by whichever the back-off says, or in place.

use farwood_fabric::{Fabric, Server};
use farwood_index::IndexError;
use farwood_index::catfish::adaptive::Way;
use farwood_index::catfish::{Answer, Item, Query, Reader, Switch, Talk, Worker};

/// A client's way to the index.
pub(super) enum Access<'t, F, T, S> {
    /// Over a connection.
    Messages(T),
    /// By READs; changes over a connection, if there are any.
    Reads(Reader<'t, F>, Option<T>),
    /// Either.
    Switch(Switch<'t, F, T>),
    /// In the server's own process.
    InPlace(Worker<'t, F, S>),
}

impl<F: Fabric, T: Talk, S: Server> Access<'_, F, T, S> {
    /// Searches; yields how.
    pub(super) async fn search(&mut self, query: &Query, found: &mut impl Answer) -> Result<Way, IndexError> {
        match self {
            Access::Messages(connection) => connection.search(query, found).await.map(|()| Way::Message),
            Access::Reads(reader, _) => reader.search(query, found).await.map(|()| Way::Offload),
            Access::Switch(switch) => switch.search(query, found).await,
            Access::InPlace(worker) => worker.search(query, found).await.map(|()| Way::Message),
        }
    }

    /// Adds an item.
    pub(super) async fn insert(&mut self, item: &Item) -> Result<(), IndexError> {
        match self {
            Access::Messages(connection) | Access::Reads(_, Some(connection)) => {
                connection.insert(item).await
            }
            Access::Switch(switch) => switch.connection.insert(item).await,
            Access::InPlace(worker) => worker.insert(item).await,
            Access::Reads(_, None) => unreachable!("who inserts has a connection"),
        }
    }

    /// The connection, to be closed.
    pub(super) fn into_connection(self) -> Option<T> {
        match self {
            Access::Messages(connection) => Some(connection),
            Access::Reads(_, connection) => connection,
            Access::Switch(switch) => Some(switch.connection),
            Access::InPlace(_) => None,
        }
    }
}
