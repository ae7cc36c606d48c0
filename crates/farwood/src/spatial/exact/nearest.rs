//! The records nearest to a geometry, by exact distances.
//!
//! The records nearest to the centre of the query, by their rectangles, give an upper bound of the distance of the last
//! result. The windows of this distance then contain all results.

use super::super::index::Spatial;
use super::within::Surroundings;
use crate::argument::Call;
use crate::error::Result;
use farwood_geometry::{Geometry, Metric, Ties};
use farwood_index::catfish::{Record, RecordId};
use std::collections::HashSet;

/// The parameters of [`Spatial::nearest_to`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearestOptions {
    /// The number of records.
    pub count: usize,
    /// The greatest distance of a result; infinite: any.
    pub distance_max: f64,
    /// Whether records at the distance of the last one are results as well.
    pub ties: Ties,
    /// How distances are measured.
    pub metric: Metric,
}

impl NearestOptions {
    /// The nearest `count`, at any distance, without ties beyond the count.
    pub const fn new(count: usize, metric: Metric) -> Self {
        Self { count, distance_max: f64::INFINITY, ties: Ties::Cut, metric }
    }
}

impl Spatial {
    /// Returns the records nearest to `query` with their distances, nearest first; records at the same distance are in
    /// the order of their ids. With [`Ties::Cut`], it is not specified which of the records at the last distance are
    /// results. An empty geometry is near nothing. [as [`nearest_records`](Self::nearest_records), twice in metres;
    /// then as [`find_within`](Self::find_within) with the distance of the last of these candidates, unless it is 0.
    /// The search reads more records than it returns: those around the bounding box of `query`]
    ///
    /// # Errors
    /// As [`find_within`](Self::find_within).
    pub fn nearest_to(&self, query: &Geometry, options: &NearestOptions) -> Result<Vec<(Record, f64)>> {
        let NearestOptions { count, distance_max, ties, metric } = *options;
        Call { operation: "nearest", url: self.url() }.check_distance("maximum distance", distance_max)?;
        let Some(surroundings) = Surroundings::new(self, query, metric)?.filter(|_| count > 0) else {
            return Ok(Vec::new());
        };
        let candidates = surroundings.candidates(count, distance_max)?;
        let limit = candidates.get(count - 1).map_or(distance_max, |(_, distance)| *distance);
        let mut found = match ties {
            // No record is nearer.
            Ties::Cut if limit == 0.0 => candidates,
            _ => surroundings.within(limit)?,
        };
        if found.len() < count && limit < distance_max {
            // Candidates were removed or moved between the two searches.
            found = surroundings.within(distance_max)?;
        }
        if let Some((_, last)) = found.get(count - 1) {
            let (last, equal) = (*last, ties == Ties::All);
            let ties = found[count..].iter().take_while(|(_, distance)| equal && *distance <= last).count();
            found.truncate(count + ties);
        }
        Ok(found)
    }
}

impl Surroundings<'_> {
    /// Records near the query, at most `distance_max` away and nearest first: at least `count`, unless there are fewer
    /// or `distance_max` is finite.
    fn candidates(&self, count: usize, distance_max: f64) -> Result<Vec<(Record, f64)>> {
        let mut wanted = count;
        loop {
            let (records, are_all) = self.around_centre(wanted)?;
            let candidates = self.measure(records, distance_max)?;
            // Empty geometries have no distance.
            if candidates.len() >= count || are_all || distance_max.is_finite() {
                return Ok(candidates);
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    /// The records whose rectangles are nearest to the centre of the query, and whether they are all records.
    fn around_centre(&self, count: usize) -> Result<(Vec<Record>, bool)> {
        let [x, y] = self.centre();
        let mut records = self.index.records_near([x, y], count)?;
        let are_all = records.len() < count;
        if self.metric == Metric::Sphere && !are_all {
            // The distances of rectangles are those of a plane, which ends at the antimeridian.
            let across = if x > 0.0 { x - 360.0 } else { x + 360.0 };
            let seen: HashSet<RecordId> = records.iter().map(|record| record.id.clone()).collect();
            let beyond = self.index.records_near([across, y], count)?;
            records.extend(beyond.into_iter().filter(|record| !seen.contains(&record.id)));
        }
        Ok((records, are_all))
    }

    /// The centre of the first bounding box.
    fn centre(&self) -> [f64; 2] {
        let (bounds, _) = self.parts;
        [0, 1].map(|axis| f64::midpoint(bounds.min[axis], bounds.max[axis]))
    }
}
