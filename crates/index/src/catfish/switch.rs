//! A client that switches: by message while the server has time, by READs while it is busy (Catfish §IV-A).

use super::Answer;
use super::adaptive::{BackOff, Way};
use super::offload::Reader;
use super::rectangle::Query;
use super::talk::Talk;
use crate::error::IndexError;
use farwood_fabric::Fabric;

/// A connection and a reader, and which of them is used next. Changes go over the connection.
#[derive(Debug)]
pub struct Switch<'t, F, T, P = fn(f64) -> f64> {
    /// The connection.
    pub connection: T,
    /// The reader.
    pub reader: Reader<'t, F>,
    /// What decides.
    pub back_off: BackOff<P>,
}

impl<F: Fabric, T: Talk, P: FnMut(f64) -> f64> Switch<'_, F, T, P> {
    /// Adds to `found` what the query is for, of the tree at one moment during the call; yields how it was done.
    /// [as [`Talk::search`] or [`Reader::search`]]
    ///
    /// # Errors
    /// Those of the two.
    pub async fn search(&mut self, query: &Query, found: &mut impl Answer) -> Result<Way, IndexError> {
        let way = self.back_off.next(self.connection.take_heartbeat()?);
        match way {
            Way::Message => self.connection.search(query, found).await?,
            Way::Offload => self.reader.search(query, found).await?,
        }
        Ok(way)
    }
}
