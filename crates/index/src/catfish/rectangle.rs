//! Rectangles of the plane, and what may be asked of them. Pure.

use std::fmt;

/// An axis-parallel rectangle with finite edges, its lower edges not above its upper ones; points and lines are
/// rectangles too. Edges belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rectangle {
    min: [f64; 2],
    max: [f64; 2],
}

/// Why four numbers are no rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoRectangle {
    edges: [f64; 4],
}

impl fmt::Display for NoRectangle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [min_x, min_y, max_x, max_y] = self.edges;
        write!(f, "({min_x}, {min_y}) to ({max_x}, {max_y}) is no rectangle: ")?;
        if self.edges.iter().all(|edge| edge.is_finite()) {
            f.write_str(
                "a lower edge lies above an upper one; one that crosses the antimeridian is two rectangles",
            )
        } else {
            f.write_str("its edges must be finite numbers")
        }
    }
}

impl std::error::Error for NoRectangle {}

impl Rectangle {
    /// The rectangle from `min` to `max`, each x and y.
    ///
    /// # Errors
    /// Where an edge is not finite, or a lower one lies above an upper one.
    pub fn new(min: [f64; 2], max: [f64; 2]) -> Result<Self, NoRectangle> {
        let edges = [min[0], min[1], max[0], max[1]];
        let finite = edges.iter().all(|edge| edge.is_finite());
        if finite && min[0] <= max[0] && min[1] <= max[1] {
            Ok(Self { min, max })
        } else {
            Err(NoRectangle { edges })
        }
    }

    /// The rectangle that is one point.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn point(at: [f64; 2]) -> Result<Self, NoRectangle> {
        Self::new(at, at)
    }

    /// The rectangle from west to east on a sphere of degrees: two where it crosses the antimeridian (west of 180,
    /// east of it).
    ///
    /// # Errors
    /// As [`new`](Self::new); south above north is never a rectangle.
    pub fn around_globe(min: [f64; 2], max: [f64; 2]) -> Result<(Self, Option<Self>), NoRectangle> {
        let crosses = min[0] > max[0] && min[0] <= 180.0 && max[0] >= -180.0;
        if !crosses || min[1] > max[1] {
            return Ok((Self::new(min, max)?, None));
        }
        let west = Self::new(min, [180.0, max[1]])?;
        Ok((west, Some(Self::new([-180.0, min[1]], max)?)))
    }

    /// Edges that were read from a node, whose writer had checked them.
    #[inline]
    pub(super) const fn trusted(min: [f64; 2], max: [f64; 2]) -> Self {
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

    /// Its centre.
    #[inline]
    pub fn centre(&self) -> [f64; 2] {
        [f64::midpoint(self.min[0], self.max[0]), f64::midpoint(self.min[1], self.max[1])]
    }

    /// Whether the two have a point in common.
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        (0..2).all(|axis| self.min[axis] <= other.max[axis] && other.min[axis] <= self.max[axis])
    }

    /// Whether all of `other` lies in it.
    #[inline]
    pub fn contains(&self, other: &Self) -> bool {
        (0..2).all(|axis| self.min[axis] <= other.min[axis] && other.max[axis] <= self.max[axis])
    }

    /// The least rectangle that contains both.
    #[inline]
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let min = [self.min[0].min(other.min[0]), self.min[1].min(other.min[1])];
        let max = [self.max[0].max(other.max[0]), self.max[1].max(other.max[1])];
        Self { min, max }
    }

    /// The least rectangle that contains all of them; `None`: there are none.
    pub fn around<'r>(all: impl IntoIterator<Item = &'r Self>) -> Option<Self> {
        all.into_iter().copied().reduce(|all, one| all.union(&one))
    }

    #[inline]
    fn edge(&self, axis: usize) -> f64 {
        self.max[axis] - self.min[axis]
    }

    /// Its area.
    #[inline]
    pub fn area(&self) -> f64 {
        self.edge(0) * self.edge(1)
    }

    /// Half of its circumference.
    #[inline]
    pub fn margin(&self) -> f64 {
        self.edge(0) + self.edge(1)
    }

    /// The area that both have.
    #[inline]
    pub fn overlap(&self, other: &Self) -> f64 {
        let edge = |axis: usize| {
            let (lower, upper) = (self.min[axis].max(other.min[axis]), self.max[axis].min(other.max[axis]));
            (upper - lower).max(0.0)
        };
        edge(0) * edge(1)
    }

    /// The square of the distance from `point` to its nearest point; 0 inside.
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

/// How what is looked for lies to the window of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Relation {
    /// It has a point in common with the window.
    #[default]
    Intersects,
    /// It lies in the window.
    Within,
    /// The window lies in it.
    Contains,
}

/// Which rectangles a search is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// Where.
    pub window: Rectangle,
    /// How they lie to it.
    pub relation: Relation,
}

impl Query {
    /// All rectangles that have a point in common with `window`.
    pub const fn intersecting(window: Rectangle) -> Self {
        Self { window, relation: Relation::Intersects }
    }

    /// Whether `found` is one of those that are looked for.
    #[inline]
    pub fn matches(&self, found: &Rectangle) -> bool {
        match self.relation {
            Relation::Intersects => self.window.intersects(found),
            Relation::Within => self.window.contains(found),
            Relation::Contains => found.contains(&self.window),
        }
    }

    /// Whether one of those that are looked for can lie within `bounds`.
    #[inline]
    pub fn may_be_in(&self, bounds: &Rectangle) -> bool {
        match self.relation {
            Relation::Intersects | Relation::Within => self.window.intersects(bounds),
            Relation::Contains => bounds.contains(&self.window),
        }
    }
}

/// A rectangle of an index, with its number. Neither need be the only one of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Where it is.
    pub bounds: Rectangle,
    /// Its number, the caller's own.
    pub id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rectangle(min: [f64; 2], max: [f64; 2]) -> Rectangle {
        Rectangle::new(min, max).unwrap()
    }

    #[test]
    fn what_is_no_rectangle_is_refused_with_the_reason() {
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
    fn edges_belong_to_a_rectangle() {
        let (one, other) = (rectangle([0.0; 2], [1.0; 2]), rectangle([1.0, 1.0], [2.0, 2.0]));
        assert!(one.intersects(&other) && one.contains(&one) && !one.contains(&other));
        assert_eq!((one.overlap(&other), one.union(&other).area(), one.margin()), (0.0, 4.0, 2.0));
        assert!((one.distance_squared([4.0, 5.0]) - 25.0).abs() < f64::EPSILON);
        assert!(one.distance_squared([0.5, 1.0]).abs() < f64::EPSILON);
    }
}
