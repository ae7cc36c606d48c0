//! Records up to a distance from a geometry.

use super::super::index::Spatial;
use crate::argument::Call;
use crate::error::Result;
use farwood_geometry::{Bounds, Geometry, Metric, Prepared};
use farwood_index::catfish::{CoordinateSystem, Record};

impl Spatial {
    /// Returns the records at most `distance` from `query`, with their distances, nearest first. An empty geometry is
    /// near nothing. [as [`search_records`](Self::search_records) of the windows that [`Metric::windows`] returns for
    /// the bounding box of `query`, or for the two on both sides of the antimeridian]
    ///
    /// # Errors
    /// As [`find`](Self::find); [`Error::Argument`](crate::Error::Argument): the distance is negative or NaN, or
    /// `metric` is [`Metric::Sphere`] and the index has no degrees.
    pub fn find_within(&self, query: &Geometry, distance: f64, metric: Metric) -> Result<Vec<(Record, f64)>> {
        let call = Call { operation: "search", url: self.url() };
        call.check_distance("distance", distance)?;
        match Surroundings::new(self, query, metric)? {
            Some(surroundings) => surroundings.within(distance),
            None => Ok(Vec::new()),
        }
    }
}

/// A geometry whose surroundings are searched.
pub(super) struct Surroundings<'i> {
    pub(super) index: &'i Spatial,
    query: Prepared,
    /// The bounding boxes of the query.
    pub(super) parts: (Bounds, Option<Bounds>),
    pub(super) metric: Metric,
}

impl<'i> Surroundings<'i> {
    /// The surroundings of `query`; `None`: it is empty.
    pub(super) fn new(index: &'i Spatial, query: &Geometry, metric: Metric) -> Result<Option<Self>> {
        if metric == Metric::Sphere && index.coordinates() != CoordinateSystem::Degrees {
            let call = Call { operation: "search", url: index.url() };
            let remedy = "distances in metres need an index of degrees (`--crs degrees`)".to_owned();
            return Err(call.refused("metric", "sphere".to_owned(), remedy));
        }
        let parts = index.parts_of(query)?;
        Ok(parts.map(|parts| Self { index, query: Prepared::new(query), parts, metric }))
    }

    /// The records at most `distance` away, nearest first.
    pub(super) fn within(&self, distance: f64) -> Result<Vec<(Record, f64)>> {
        let (first, second) = self.parts;
        let mut windows = Vec::with_capacity(4);
        for part in [Some(first), second].into_iter().flatten() {
            let (window, beyond) = self.metric.windows(&part, distance);
            windows.extend([Some(window), beyond]);
        }
        self.measure(self.index.intersecting(windows)?, distance)
    }

    /// The records that are at most `distance` away, with their distances, nearest first.
    pub(super) fn measure(&self, records: Vec<Record>, distance: f64) -> Result<Vec<(Record, f64)>> {
        let mut found = Vec::new();
        for record in records {
            let geometry = self.index.prepared("search", &record)?;
            if let Some(distance) = self.metric.distance_up_to(&geometry, &self.query, distance) {
                found.push((record, distance));
            }
        }
        found.sort_by(|(one, near), (other, far)| near.total_cmp(far).then_with(|| one.id.cmp(&other.id)));
        Ok(found)
    }
}
