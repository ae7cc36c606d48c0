//! The rectangles of a file, and the rows and features that yield none.

use super::args::Args;
use super::ids::{FileId, Numbering};
use super::shape::Shape;
use super::trouble::{BadRecords, Place, Trouble};
use crate::Failure;
use farwood::spatial::{CoordinateSystem, Item, Rectangle};

/// The largest difference from 180 degrees that is taken for a rounding error: about 0.1 mm.
const ROUNDING_DEGREES: f64 = 1e-9;

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
    fn rectangles(self, system: CoordinateSystem) -> Result<(Rectangle, Option<Rectangle>), String> {
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
    /// The number in the file.
    pub(super) id: FileId,
    /// The bounds, or the reason why there are none.
    pub(super) bounds: Result<Bounds, String>,
}

/// The rectangles of a file.
pub(super) struct Found<'a> {
    /// The rectangles, in the order of the file.
    pub(super) items: Vec<Item>,
    /// The bad rows and features.
    pub(super) bad: BadRecords<'a>,
    numbering: Numbering,
    coordinates: CoordinateSystem,
}

impl<'a> Found<'a> {
    /// No rectangles yet, for an index of `coordinates`.
    pub(super) fn new(args: &'a Args, coordinates: CoordinateSystem) -> Self {
        let (bad, numbering) = (BadRecords::new(args), Numbering::new(args.ids));
        Self { items: Vec::new(), bad, numbering, coordinates }
    }

    /// Adds the row or feature at `position`, from 1.
    pub(super) fn add(&mut self, place: Place, position: u64, placed: Placed) -> Result<(), Failure> {
        let id = self.numbering.number(position, placed.id);
        match id.and_then(|id| Ok((id, placed.bounds?.rectangles(self.coordinates)?))) {
            Ok((id, (first, beyond))) => {
                let bounds = [Some(first), beyond].into_iter().flatten();
                self.items.extend(bounds.map(|bounds| Item { bounds, id }));
                Ok(())
            }
            Err(why) => self.bad(Trouble::record(place, why)),
        }
    }

    /// Counts bad input, or ends the load.
    pub(super) fn bad(&mut self, trouble: Trouble) -> Result<(), Failure> {
        self.bad.add(trouble, NOTHING)
    }

    /// The failure of a load that ends.
    pub(super) fn failure(&self, trouble: Trouble) -> Failure {
        self.bad.failure(trouble, NOTHING)
    }
}

/// Rectangles enter the index after the whole file is read.
const NOTHING: &str = "no rectangle is loaded";

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
