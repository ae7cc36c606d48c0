//! Rectangles of the plane, and queries for them. All functions are pure.

use std::fmt;

/// An axis-parallel closed rectangle from (x1, y1) to (x2, y2), all of them finite, with x1 at most x2 and y1 at most
/// y2. Points and lines are rectangles too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rectangle {
    min: [f64; 2],
    max: [f64; 2],
}

/// Four numbers that are not a rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidRectangle {
    edges: [f64; 4],
}

impl fmt::Display for InvalidRectangle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_edges(f)?;
        match () {
            () if !self.is_finite() => Ok(()),
            () if !self.is_inverted_in_x() => f.write_str("; give the smaller y first"),
            () => f.write_str(
                "; give the smaller x first, and split a rectangle that crosses the antimeridian in two",
            ),
        }
    }
}

impl InvalidRectangle {
    fn is_finite(&self) -> bool {
        self.edges.iter().all(|edge| edge.is_finite())
    }

    /// Whether the greater x is first, and this is the only reason.
    pub(in crate::catfish) fn is_inverted_in_x(&self) -> bool {
        let [_, y1, _, y2] = self.edges;
        self.is_finite() && y1 <= y2
    }

    /// Writes the edges and the reason, without a remedy.
    pub(in crate::catfish) fn write_edges(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x1, y1, x2, y2] = self.edges;
        write!(f, "({x1}, {y1}) to ({x2}, {y2}) is not a rectangle: ")?;
        match () {
            () if !self.is_finite() => f.write_str("its edges must be finite numbers"),
            () if y1 > y2 => write!(f, "y1 {y1} is greater than y2 {y2}"),
            () => write!(f, "x1 {x1} is greater than x2 {x2}"),
        }
    }
}

impl std::error::Error for InvalidRectangle {}

impl Rectangle {
    /// The rectangle from `min` to `max`, each x and y.
    ///
    /// # Errors
    /// [`InvalidRectangle`] if an edge is not finite, or `min` is greater than `max` in x or in y.
    pub fn new(min: [f64; 2], max: [f64; 2]) -> Result<Self, InvalidRectangle> {
        let edges = [min[0], min[1], max[0], max[1]];
        let finite = edges.iter().all(|edge| edge.is_finite());
        if finite && min[0] <= max[0] && min[1] <= max[1] {
            Ok(Self { min, max })
        } else {
            Err(InvalidRectangle { edges })
        }
    }

    /// Its edges: least x, least y, greatest x, greatest y.
    pub const fn edges(&self) -> [f64; 4] {
        [self.min[0], self.min[1], self.max[0], self.max[1]]
    }

    /// The rectangle of one point.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn point(at: [f64; 2]) -> Result<Self, InvalidRectangle> {
        Self::new(at, at)
    }

    /// The rectangle from west to east in degrees of longitude; two rectangles if it crosses the antimeridian, first
    /// the part west of it.
    ///
    /// # Errors
    /// As [`new`](Self::new); an error as well where south is above north.
    pub fn around_globe(min: [f64; 2], max: [f64; 2]) -> Result<(Self, Option<Self>), InvalidRectangle> {
        let crosses = min[0] > max[0] && min[0] <= 180.0 && max[0] >= -180.0;
        if !crosses || min[1] > max[1] {
            return Ok((Self::new(min, max)?, None));
        }
        let west = Self::new(min, [180.0, max[1]])?;
        Ok((west, Some(Self::new([-180.0, min[1]], max)?)))
    }

    /// A rectangle from edges that were read from a node, and that the node's writer has checked.
    #[inline]
    pub(in crate::catfish) const fn trusted(min: [f64; 2], max: [f64; 2]) -> Self {
        Self { min, max }
    }

    /// Lower edges, x and y.
    #[inline]
    pub const fn min(&self) -> [f64; 2] {
        self.min
    }

    /// Upper edges, x and y.
    #[inline]
    pub const fn max(&self) -> [f64; 2] {
        self.max
    }

    /// Returns the centre of the rectangle.
    #[inline]
    pub fn centre(&self) -> [f64; 2] {
        [f64::midpoint(self.min[0], self.max[0]), f64::midpoint(self.min[1], self.max[1])]
    }

    /// Whether the two rectangles share a point.
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        (0..2).all(|axis| self.min[axis] <= other.max[axis] && other.min[axis] <= self.max[axis])
    }

    /// Whether it contains all of `other`.
    #[inline]
    pub fn contains(&self, other: &Self) -> bool {
        (0..2).all(|axis| self.min[axis] <= other.min[axis] && other.max[axis] <= self.max[axis])
    }

    /// The smallest rectangle that contains both.
    #[inline]
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let min = [self.min[0].min(other.min[0]), self.min[1].min(other.min[1])];
        let max = [self.max[0].max(other.max[0]), self.max[1].max(other.max[1])];
        Self { min, max }
    }

    /// The smallest rectangle that contains all of them; `None`: there are none.
    pub fn around<'r>(all: impl IntoIterator<Item = &'r Self>) -> Option<Self> {
        all.into_iter().copied().reduce(|all, one| all.union(&one))
    }

    #[inline]
    fn edge(&self, axis: usize) -> f64 {
        self.max[axis] - self.min[axis]
    }

    /// Returns the area of the rectangle.
    #[inline]
    pub fn area(&self) -> f64 {
        self.edge(0) * self.edge(1)
    }

    /// Half of its perimeter.
    #[inline]
    pub fn margin(&self) -> f64 {
        self.edge(0) + self.edge(1)
    }

    /// The area of the intersection.
    #[inline]
    pub fn overlap(&self, other: &Self) -> f64 {
        let edge = |axis: usize| {
            let (lower, upper) = (self.min[axis].max(other.min[axis]), self.max[axis].min(other.max[axis]));
            (upper - lower).max(0.0)
        };
        edge(0) * edge(1)
    }

    /// The square of the distance from `point` to the rectangle; 0 inside.
    #[inline]
    pub fn distance_squared(&self, point: [f64; 2]) -> f64 {
        let beyond = |axis: usize| (self.min[axis] - point[axis]).max(point[axis] - self.max[axis]).max(0.0);
        beyond(0).powi(2) + beyond(1).powi(2)
    }
}

impl fmt::Display for Rectangle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([min_x, min_y], [max_x, max_y]) = (self.min, self.max);
        write!(f, "{min_x},{min_y},{max_x},{max_y}")
    }
}

/// The relation of a matching rectangle to the window of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Relation {
    /// It shares a point with the window.
    #[default]
    Intersects,
    /// The window contains it.
    Within,
    /// It contains the window.
    Contains,
}

/// A query for rectangles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// The window.
    pub window: Rectangle,
    /// The relation of matching rectangles to the window.
    pub relation: Relation,
}

impl Query {
    /// All rectangles that share a point with `window`.
    pub const fn intersecting(window: Rectangle) -> Self {
        Self { window, relation: Relation::Intersects }
    }

    /// Whether `found` matches.
    #[inline]
    pub fn matches(&self, found: &Rectangle) -> bool {
        match self.relation {
            Relation::Intersects => self.window.intersects(found),
            Relation::Within => self.window.contains(found),
            Relation::Contains => found.contains(&self.window),
        }
    }

    /// Whether `bounds` may contain a match.
    #[inline]
    pub fn may_be_in(&self, bounds: &Rectangle) -> bool {
        match self.relation {
            Relation::Intersects | Relation::Within => self.window.intersects(bounds),
            Relation::Contains => bounds.contains(&self.window),
        }
    }
}

/// A rectangle of an index, with its number. Several items may have equal rectangles, numbers, or both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// The rectangle of the item.
    pub bounds: Rectangle,
    /// The number of the item, chosen by the caller.
    pub id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rectangle(min: [f64; 2], max: [f64; 2]) -> Rectangle {
        Rectangle::new(min, max).unwrap()
    }

    #[test]
    fn numbers_that_are_not_a_rectangle_are_refused_with_the_reason() {
        for edge in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = Rectangle::new([0.0, edge], [1.0, 1.0]).unwrap_err();
            assert!(refused.to_string().contains("finite"), "{refused}");
        }
        let inverted = Rectangle::new([170.0, 0.0], [-170.0, 1.0]).unwrap_err();
        assert!(inverted.to_string().contains("antimeridian"), "{inverted}");
        assert!(Rectangle::point([-0.0, 0.0]).is_ok());
    }

    #[test]
    fn a_window_across_the_antimeridian_is_two() {
        let (west, east) = Rectangle::around_globe([170.0, -10.0], [-170.0, 10.0]).unwrap();
        assert_eq!(west, rectangle([170.0, -10.0], [180.0, 10.0]));
        assert_eq!(east, Some(rectangle([-180.0, -10.0], [-170.0, 10.0])));
        assert_eq!(Rectangle::around_globe([1.0, 1.0], [2.0, 2.0]).unwrap().1, None);
        assert!(Rectangle::around_globe([170.0, 10.0], [-170.0, -10.0]).is_err());
        assert!(Rectangle::around_globe([f64::NAN, 0.0], [1.0, 1.0]).is_err());
    }

    #[test]
    fn a_rectangle_is_closed() {
        let (one, other) = (rectangle([0.0; 2], [1.0; 2]), rectangle([1.0, 1.0], [2.0, 2.0]));
        assert!(one.intersects(&other) && one.contains(&one) && !one.contains(&other));
        assert_eq!((one.overlap(&other), one.union(&other).area(), one.margin()), (0.0, 4.0, 2.0));
        assert!((one.distance_squared([4.0, 5.0]) - 25.0).abs() < f64::EPSILON);
        assert!(one.distance_squared([0.5, 1.0]).abs() < f64::EPSILON);
    }
}
