//! The records among which the matches of a predicate are.

use super::super::index::{Spatial, everything};
use crate::error::Result;
use farwood_geometry::{Bounds, BoxFilter, Geometry, Predicate};
use farwood_index::catfish::{CoordinateSystem, Query, Record, RecordId, Rectangle, Relation};
use std::collections::HashSet;

impl Spatial {
    /// Records that include all for which the predicate holds, each once.
    pub(super) fn candidates(&self, predicate: Predicate, query: &Geometry) -> Result<Vec<Record>> {
        let Some(parts) = self.parts_of(query)? else {
            // Nothing but emptiness relates to an empty geometry.
            return match predicate {
                Predicate::Disjoint | Predicate::Equals => self.records_in(&everything()),
                _ => Ok(Vec::new()),
            };
        };
        let (first, second) = parts;
        let all = second.map_or(first, |second| first.union(&second));
        match (predicate.box_filter(), predicate) {
            (BoxFilter::All, _) => self.records_in(&everything()),
            // The rectangle of a record may be larger than its geometry, so it need not be within the query's box.
            (BoxFilter::Contains, _) | (_, Predicate::Equals) => {
                self.records_in(&Query { window: window(&all), relation: Relation::Contains })
            }
            (BoxFilter::Intersects | BoxFilter::Within, _) => self.intersecting([Some(first), second]),
        }
    }

    /// The bounding box of a query, or the two on both sides of the antimeridian in an index of degrees; `None`: it is
    /// empty.
    pub(super) fn parts_of(&self, query: &Geometry) -> Result<Option<(Bounds, Option<Bounds>)>> {
        let parts = match self.coordinates() {
            CoordinateSystem::Degrees => query.wrapped_bounds(),
            CoordinateSystem::Planar | CoordinateSystem::Unstated => {
                query.bounds().map(|bounds| (bounds, None))
            }
        };
        if let Some((first, second)) = parts {
            self.check_bounds("search", "bounding box of the geometry", &window(&first))?;
            second.map_or(Ok(()), |second| {
                self.check_bounds("search", "bounding box of the geometry", &window(&second))
            })?;
        }
        Ok(parts)
    }

    /// The records that intersect one of the boxes, each once.
    pub(super) fn intersecting(
        &self,
        boxes: impl IntoIterator<Item = Option<Bounds>>,
    ) -> Result<Vec<Record>> {
        let mut boxes = boxes.into_iter().flatten();
        let Some(first) = boxes.next() else { return Ok(Vec::new()) };
        let mut found = self.records_in(&Query::intersecting(window(&first)))?;
        let mut seen: HashSet<RecordId> = HashSet::new();
        for next in boxes {
            if seen.is_empty() {
                seen.extend(found.iter().map(|record| record.id.clone()));
            }
            let more = self.records_in(&Query::intersecting(window(&next)))?;
            found.extend(more.into_iter().filter(|record| seen.insert(record.id.clone())));
        }
        Ok(found)
    }
}

/// The window of a box, whose edges may be infinite.
fn window(bounds: &Bounds) -> Rectangle {
    let finite = |edge: f64| edge.clamp(f64::MIN, f64::MAX);
    let window = Rectangle::new(bounds.min.map(finite), bounds.max.map(finite));
    window.expect("the edges of a box are in order, and no NaN")
}
