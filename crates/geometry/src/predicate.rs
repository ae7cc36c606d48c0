//! The predicates of OGC Simple Features, with the semantics of GEOS, Shapely and GeoPandas.

use crate::geometry::Geometry;
use crate::prepared::{Location, Prepared};

/// A relation of a first geometry to a second.
///
/// In degrees the predicates treat longitude and latitude as coordinates of a plane, as Shapely and GeoPandas do; a
/// geometry that crosses the antimeridian must be split there, as RFC 7946 demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// They have a point in common.
    Intersects,
    /// They have no point in common.
    Disjoint,
    /// No point of the first is outside the second, and their interiors meet.
    Within,
    /// No point of the second is outside the first, and their interiors meet.
    Contains,
    /// No point of the second is outside the first.
    Covers,
    /// No point of the first is outside the second.
    CoveredBy,
    /// They have points in common, but their interiors have none.
    Touches,
    /// They have the same dimension, and so has the set that they share; each has a part outside the other.
    Overlaps,
    /// The first is partly inside and partly outside the second, or the reverse; two lines meet in points of their
    /// interiors only.
    Crosses,
    /// They consist of the same points.
    Equals,
}

/// A necessary condition on the bounding boxes of a first geometry and a second for which a predicate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoxFilter {
    /// The boxes have a point in common.
    Intersects,
    /// The second box contains the first.
    Within,
    /// The first box contains the second.
    Contains,
    /// None: the boxes say nothing.
    All,
}

impl Predicate {
    /// The condition by which an index finds candidates.
    pub const fn box_filter(self) -> BoxFilter {
        match self {
            Self::Intersects | Self::Touches | Self::Overlaps | Self::Crosses => BoxFilter::Intersects,
            Self::Within | Self::CoveredBy | Self::Equals => BoxFilter::Within,
            Self::Contains | Self::Covers => BoxFilter::Contains,
            Self::Disjoint => BoxFilter::All,
        }
    }

    /// All predicates.
    pub const ALL: [Self; 10] = [
        Self::Intersects,
        Self::Disjoint,
        Self::Within,
        Self::Contains,
        Self::Covers,
        Self::CoveredBy,
        Self::Touches,
        Self::Overlaps,
        Self::Crosses,
        Self::Equals,
    ];

    /// Its name, in lower case, with hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intersects => "intersects",
            Self::Disjoint => "disjoint",
            Self::Within => "within",
            Self::Contains => "contains",
            Self::Covers => "covers",
            Self::CoveredBy => "covered-by",
            Self::Touches => "touches",
            Self::Overlaps => "overlaps",
            Self::Crosses => "crosses",
            Self::Equals => "equals",
        }
    }

    /// The predicate of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|predicate| predicate.name() == name)
    }

    /// The predicate that holds for `(b, a)` exactly if this one holds for `(a, b)`.
    #[must_use]
    pub const fn converse(self) -> Self {
        match self {
            Self::Within => Self::Contains,
            Self::Contains => Self::Within,
            Self::Covers => Self::CoveredBy,
            Self::CoveredBy => Self::Covers,
            symmetric => symmetric,
        }
    }

    /// Whether the predicate holds for the first and the second geometry.
    pub fn holds(self, a: &Prepared, b: &Prepared) -> bool {
        if let Some(known) = self.by_bounds(a, b).or_else(|| self.by_point(a, b)) {
            return known;
        }
        if let Self::Intersects | Self::Disjoint = self {
            return a.intersects(b) == (self == Self::Intersects);
        }
        let (matrix, dimensions) = (a.relate(b), [a.dimension(), b.dimension()]);
        match self {
            Self::Intersects => matrix.is_intersects(),
            Self::Disjoint => !matrix.is_intersects(),
            Self::Within => matrix.is_within(),
            Self::Contains => matrix.is_contains(),
            Self::Covers => matrix.is_covers(),
            Self::CoveredBy => matrix.is_covered_by(),
            Self::Touches => matrix.is_touches(),
            Self::Overlaps => matrix.is_overlaps(dimensions),
            Self::Crosses => matrix.is_crosses(dimensions),
            Self::Equals => matrix.is_equals(dimensions),
        }
    }

    /// The answer where the bounding boxes decide.
    fn by_bounds(self, a: &Prepared, b: &Prepared) -> Option<bool> {
        let (Some(a_box), Some(b_box)) = (a.bounds(), b.bounds()) else {
            // One of them is empty.
            let both = a.bounds().is_none() && b.bounds().is_none();
            return Some(self == Self::Disjoint || self == Self::Equals && both);
        };
        let possible = match self.box_filter() {
            BoxFilter::Intersects => a_box.intersects(&b_box),
            BoxFilter::Within => b_box.contains(&a_box) && (self != Self::Equals || a_box == b_box),
            BoxFilter::Contains => a_box.contains(&b_box),
            BoxFilter::All => return (!a_box.intersects(&b_box)).then_some(true),
        };
        if possible { None } else { Some(false) }
    }

    /// The answer where one of them is a single point, and the location of it decides.
    fn by_point(self, a: &Prepared, b: &Prepared) -> Option<bool> {
        if let Some(at) = b.as_point() {
            let location = a.locate(at);
            return match self {
                Self::Intersects | Self::Covers => Some(location != Location::Exterior),
                Self::Disjoint => Some(location == Location::Exterior),
                Self::Contains => Some(location == Location::Interior),
                Self::Touches => Some(location == Location::Boundary),
                _ => None,
            };
        }
        a.as_point()?;
        match self.converse() {
            Self::Covers | Self::Intersects | Self::Disjoint | Self::Contains | Self::Touches => {
                self.converse().by_point(b, a)
            }
            _ => None,
        }
    }
}

impl Geometry {
    /// Whether the predicate holds for this geometry and `other`. To compare one geometry with many, prepare it once
    /// and call [`Predicate::holds`].
    pub fn holds(&self, predicate: Predicate, other: &Self) -> bool {
        predicate.holds(&Prepared::new(self), &Prepared::new(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(wkt: &str) -> Prepared {
        Prepared::new(&wkt.parse().unwrap())
    }

    fn holding(a: &str, b: &str) -> Vec<Predicate> {
        let (a, b) = (prepared(a), prepared(b));
        Predicate::ALL.into_iter().filter(|predicate| predicate.holds(&a, &b)).collect()
    }

    #[test]
    fn within_needs_the_interior_and_covered_by_does_not() {
        use Predicate::{CoveredBy, Intersects, Touches, Within};
        let square = "POLYGON((0 0,4 0,4 4,0 4,0 0))";
        assert_eq!(holding("POINT(2 2)", square), [Intersects, Within, CoveredBy]);
        assert_eq!(holding("POINT(0 2)", square), [Intersects, CoveredBy, Touches]);
        assert_eq!(holding("LINESTRING(0 0,4 0)", square), [Intersects, CoveredBy, Touches]);
        assert_eq!(holding("LINESTRING(0 0,4 4)", square), [Intersects, Within, CoveredBy]);
    }

    #[test]
    fn the_part_of_a_box_that_a_triangle_leaves_is_outside() {
        let triangle = "POLYGON((0 0,4 0,0 4,0 0))";
        assert_eq!(holding("POINT(3 3)", triangle), [Predicate::Disjoint]);
        assert!(holding("POINT(2 2)", triangle).contains(&Predicate::Touches));
    }

    #[test]
    fn empty_geometries_are_disjoint_from_all_and_equal_to_each_other() {
        assert_eq!(holding("POLYGON EMPTY", "POINT(1 1)"), [Predicate::Disjoint]);
        assert_eq!(holding("POLYGON EMPTY", "POINT EMPTY"), [Predicate::Disjoint, Predicate::Equals]);
    }

    #[test]
    fn a_ring_that_crosses_itself_has_answers() {
        let bow_tie = "POLYGON((0 0,4 4,4 0,0 4,0 0))";
        for other in ["POINT(1 2)", "LINESTRING(0 2,4 2)", "POLYGON((1 1,3 1,3 3,1 3,1 1))", bow_tie] {
            assert!(holding(bow_tie, other).contains(&Predicate::Intersects), "{other}");
        }
    }
}
