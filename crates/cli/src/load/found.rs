//! The rectangles of a file, and the rows and features that yield none.

use super::args::Args;
use super::geometry::Shaped;
use super::ids::{FileId, Numbering};
use super::shape::Shape;
use super::trouble::{BadRecords, Place, Trouble};
use crate::{Failure, size};
use farwood::spatial::{
    Contents, CoordinateSystem, IdKind, Item, Record, RecordId, Rectangle, Spatial, TEXT_MAX,
};
use std::collections::{BTreeSet, HashSet};

/// The largest difference from 180 degrees that is taken for a rounding error: about 0.1 mm.
pub(super) const ROUNDING_DEGREES: f64 = 1e-9;

/// The bounds of a row or feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bounds {
    /// Those of a geometry.
    Geometry(Shape),
    /// Those that the file states, on both sides of the antimeridian.
    Across(Rectangle, Rectangle),
}

impl Bounds {
    /// The rectangles that an index of the system stores, or the reason why it stores none.
    pub(super) fn rectangles(
        self,
        system: CoordinateSystem,
    ) -> Result<(Rectangle, Option<Rectangle>), String> {
        let (first, beyond) = match self {
            Self::Across(..) if system == CoordinateSystem::Planar => {
                return Err("its bbox crosses the antimeridian, and the index is planar".to_owned());
            }
            Self::Across(first, beyond) => (first, Some(beyond)),
            Self::Geometry(shape) => shape.rectangles(system),
        };
        let checked = |bounds: Rectangle| {
            let bounds = if system == CoordinateSystem::Degrees { without_rounding(bounds) } else { bounds };
            system.check(&bounds).map(|()| bounds).map_err(|error| error.to_string())
        };
        Ok((checked(first)?, beyond.map(checked).transpose()?))
    }
}

impl From<Rectangle> for Bounds {
    fn from(bounds: Rectangle) -> Self {
        Self::Geometry(Shape::part(bounds))
    }
}

/// Replaces longitudes that are beyond 180 degrees by a rounding error, as projections of some programs write them.
fn without_rounding(bounds: Rectangle) -> Rectangle {
    let rounded = |[x, y]: [f64; 2]| {
        let is_rounding = x.abs() > 180.0 && x.abs() <= 180.0 + ROUNDING_DEGREES;
        [if is_rounding { 180.0_f64.copysign(x) } else { x }, y]
    };
    Rectangle::new(rounded(bounds.min()), rounded(bounds.max())).unwrap_or(bounds)
}

/// The content of one row or feature.
#[derive(Debug, PartialEq)]
pub(super) struct Placed {
    /// The id in the file.
    pub(super) id: Option<FileId>,
    /// The bounds, or the reason why there are none.
    pub(super) bounds: Result<Bounds, String>,
    /// The geometry and attributes, if the format has them and [`Found::wants_contents`].
    pub(super) contents: Contents,
}

/// The rectangles of a file.
pub(super) struct Found<'a> {
    /// The rectangles, in the order of the file.
    pub(super) items: Vec<Item>,
    /// The records, if the index has them.
    pub(super) records: Vec<Record>,
    ids: HashSet<RecordId>,
    /// The names of columns that would be attributes, and whose values JSON cannot hold.
    pub(super) left_out: BTreeSet<String>,
    /// The remarks on the file for the user.
    pub(super) notes: Vec<&'static str>,
    /// The bad rows and features.
    pub(super) bad: BadRecords<'a>,
    numbering: Numbering,
    coordinates: CoordinateSystem,
    kind: IdKind,
    /// Maximum bytes of a payload.
    payload_max: usize,
}

impl<'a> Found<'a> {
    /// No rectangles yet, for an index.
    pub(super) fn new(args: &'a Args, index: &Spatial) -> Self {
        let (kind, coordinates) = (index.ids(), index.coordinates());
        Self {
            items: Vec::new(),
            records: Vec::new(),
            ids: HashSet::new(),
            left_out: BTreeSet::new(),
            notes: Vec::new(),
            bad: BadRecords::new(args),
            numbering: Numbering::new(args.ids, kind),
            coordinates,
            kind,
            payload_max: index.payload_max(),
        }
    }

    /// A feature whose geometry and attributes are stored if the index has records.
    pub(super) fn feature(
        &self,
        id: Option<FileId>,
        shaped: Result<Shaped, String>,
        attributes: Result<String, String>,
    ) -> Placed {
        let has_contents = self.wants_contents();
        let placed = shaped.and_then(|Shaped { geometry, bounds }| {
            let geometry = geometry.filter(|_| has_contents).map_or(Vec::new(), |geometry| geometry.to_wkb());
            Ok((bounds, Contents { geometry, attributes: attributes? }))
        });
        match placed {
            Ok((bounds, contents)) => Placed { id, bounds: Ok(bounds), contents },
            Err(why) => Placed { id, bounds: Err(why), contents: Contents::default() },
        }
    }

    /// Records that the values of a column are not stored.
    pub(super) fn leave_out(&mut self, column: &str) {
        if !self.left_out.contains(column) {
            self.left_out.insert(column.to_owned());
        }
    }

    /// The ids of the index.
    pub(super) fn kind(&self) -> IdKind {
        self.kind
    }

    /// Whether the index stores geometries and attributes.
    pub(super) fn wants_contents(&self) -> bool {
        self.kind.is_unique()
    }

    /// Whether the file has no ids, so that the positions are the ids.
    pub(super) fn lacks_ids(&self) -> bool {
        self.numbering.lacks_ids()
    }

    /// The number of rectangles or records.
    pub(super) fn count(&self) -> usize {
        self.items.len() + self.records.len()
    }

    /// Adds the row or feature at `position`, from 1.
    pub(super) fn add(&mut self, place: Place, position: u64, placed: Placed) -> Result<(), Failure> {
        let id = self.numbering.id(position, placed.id);
        let found = id.and_then(|id| {
            let (first, beyond) = placed.bounds?.rectangles(self.coordinates)?;
            self.keep(id, (first, beyond), &placed.contents)
        });
        found.or_else(|why| self.bad(Trouble::record(place, why)))
    }

    /// Keeps the rectangles of an id, or its record.
    fn keep(
        &mut self,
        id: RecordId,
        (first, beyond): (Rectangle, Option<Rectangle>),
        contents: &Contents,
    ) -> Result<(), String> {
        match id {
            RecordId::Number(id) if !self.kind.is_unique() => {
                let bounds = [Some(first), beyond].into_iter().flatten();
                self.items.extend(bounds.map(|bounds| Item { bounds, id }));
            }
            RecordId::Text(text) if !(1..=TEXT_MAX).contains(&text.len()) => {
                return Err(format!("an id has 1 to {TEXT_MAX} bytes, not {}", text.len()));
            }
            id => {
                if !self.ids.insert(id.clone()) {
                    return Err(format!(
                        "the id {id} occurs twice in the file, and the ids of the index are unique"
                    ));
                }
                // A record has one rectangle. Its geometry says where it is on both sides of the antimeridian.
                let bounds = beyond.map_or(first, |beyond| first.union(&beyond));
                let payload = contents.encode();
                self.check_size("its geometry and attributes", payload.len())?;
                self.records.push(Record { id, bounds, payload });
            }
        }
        Ok(())
    }

    /// Refuses a geometry whose positions exceed the limit of a record. A reader calls it before it makes the geometry,
    /// which takes memory and time.
    pub(super) fn check_positions(&self, count: usize) -> Result<(), String> {
        self.check_size("the coordinates of its geometry", count.saturating_mul(size_of::<[f64; 2]>()))
    }

    fn check_size(&self, what: &str, bytes: usize) -> Result<(), String> {
        if bytes <= self.payload_max {
            return Ok(());
        }
        Err(format!("{what} have {bytes} bytes; the limit is {}", self.payload_max))
    }

    /// Counts bad input, or ends the load.
    pub(super) fn bad(&mut self, trouble: Trouble) -> Result<(), Failure> {
        self.bad.add(trouble, &self.nothing())
    }

    /// The failure of a load that ends.
    pub(super) fn failure(&self, trouble: Trouble) -> Failure {
        self.bad.failure(trouble, &self.nothing())
    }

    /// The part that a load that ends early has loaded: rectangles and records enter the index after the whole file is
    /// read.
    fn nothing(&self) -> String {
        format!("no {} is loaded", size::spatial_noun(self.kind).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longitudes_of_degrees_are_within_180_but_for_rounding() {
        let point = |x| Bounds::from(Rectangle::point([x, 0.0]).unwrap());
        let stored = |x, system| point(x).rectangles(system).map(|(bounds, _)| bounds.min()[0]);
        assert_eq!(stored(180.000_000_000_000_06, CoordinateSystem::Degrees), Ok(180.0));
        assert_eq!(stored(-180.000_000_000_000_06, CoordinateSystem::Degrees), Ok(-180.0));
        assert!(stored(180.000_000_1, CoordinateSystem::Degrees).unwrap_err().contains("not a longitude"));
        assert_eq!(stored(200.5, CoordinateSystem::Unstated), Ok(200.5));
        assert_eq!(stored(180.000_000_000_000_06, CoordinateSystem::Planar), Ok(180.000_000_000_000_06));
    }

    #[test]
    fn a_bbox_across_the_antimeridian_is_not_in_a_plane() {
        let part = |x: f64| Rectangle::new([x, 0.0], [x + 2.0, 1.0]).unwrap();
        let across = Bounds::Across(part(178.0), part(-180.0));
        assert_eq!(across.rectangles(CoordinateSystem::Degrees), Ok((part(178.0), Some(part(-180.0)))));
        assert!(across.rectangles(CoordinateSystem::Planar).unwrap_err().contains("planar"));
    }
}
