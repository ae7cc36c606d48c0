//! A client that switches: it sends requests while the server has time, and searches by READs while the server is busy
//! (Catfish §IV-A).

use super::super::SearchSink;
use super::super::tree::rectangle::Query;
use super::adaptive::{BackOff, SearchPath};
use super::reader::Reader;
use super::rpc::SpatialRpc;
use crate::error::IndexError;
use farwood_fabric::Fabric;

/// A connection and a reader, and the back-off that chooses between them. The connection sends all changes.
#[derive(Debug)]
pub struct Switch<'t, F, T, P = fn(f64) -> f64> {
    /// The connection over which searches are sent to the server.
    pub connection: T,
    /// The reader that executes searches by READs.
    pub reader: Reader<'t, F>,
    /// Chooses the path of each search.
    pub back_off: BackOff<P>,
}

impl<F: Fabric, T: SpatialRpc, P: FnMut(f64) -> f64> Switch<'_, F, T, P> {
    /// Adds the items that match to `found`, and yields the path of the search. The items are those of one version of
    /// the tree, which was current at some moment during the call. [as [`SpatialRpc::search`] or [`Reader::search`]]
    ///
    /// # Errors
    /// The errors of [`SpatialRpc::search`] and [`Reader::search`].
    pub async fn search(
        &mut self,
        query: &Query,
        found: &mut impl SearchSink,
    ) -> Result<SearchPath, IndexError> {
        let path = self.back_off.next(self.connection.take_heartbeat()?);
        match path {
            SearchPath::Message => self.connection.search(query, found).await?,
            SearchPath::Offload => self.reader.search(query, found).await?,
        }
        Ok(path)
    }
}
