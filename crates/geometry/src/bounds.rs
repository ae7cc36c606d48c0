//! Bounding boxes, as plain numbers.

use geo_types::Coord;

/// An axis-parallel closed box. `min` is at most `max` on both axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lower edges, x and y.
    pub min: [f64; 2],
    /// The upper edges, x and y.
    pub max: [f64; 2],
}

impl Bounds {
    /// The box from `min` to `max`.
    pub const fn new(min: [f64; 2], max: [f64; 2]) -> Self {
        Self { min, max }
    }

    /// The box of one point.
    pub const fn point(at: [f64; 2]) -> Self {
        Self { min: at, max: at }
    }

    /// The smallest box that contains both points.
    pub(crate) fn of_segment(a: Coord<f64>, b: Coord<f64>) -> Self {
        Self { min: [a.x.min(b.x), a.y.min(b.y)], max: [a.x.max(b.x), a.y.max(b.y)] }
    }

    /// The smallest box that contains both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            min: [self.min[0].min(other.min[0]), self.min[1].min(other.min[1])],
            max: [self.max[0].max(other.max[0]), self.max[1].max(other.max[1])],
        }
    }

    /// The box that both contain, if they share a point.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self {
            min: [self.min[0].max(other.min[0]), self.min[1].max(other.min[1])],
            max: [self.max[0].min(other.max[0]), self.max[1].min(other.max[1])],
        }
    }

    /// Whether the boxes share a point.
    pub fn intersects(&self, other: &Self) -> bool {
        (0..2).all(|axis| self.min[axis] <= other.max[axis] && other.min[axis] <= self.max[axis])
    }

    /// Whether it contains all of `other`.
    pub fn contains(&self, other: &Self) -> bool {
        (0..2).all(|axis| self.min[axis] <= other.min[axis] && other.max[axis] <= self.max[axis])
    }

    /// Whether the point is in the box or on its edge.
    pub(crate) fn contains_coord(&self, at: Coord<f64>) -> bool {
        self.contains(&Self::point([at.x, at.y]))
    }

    /// The four corners, counter-clockwise from the lower left one.
    pub(crate) fn corners(&self) -> [Coord<f64>; 4] {
        let ([x1, y1], [x2, y2]) = (self.min, self.max);
        [(x1, y1), (x2, y1), (x2, y2), (x1, y2)].map(|(x, y)| Coord { x, y })
    }

    /// The distance between the boxes in the plane; 0 if they share a point.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        let gap =
            |axis: usize| (self.min[axis] - other.max[axis]).max(other.min[axis] - self.max[axis]).max(0.0);
        gap(0).hypot(gap(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_closed_and_measure_their_gap() {
        let (one, other) = (Bounds::new([0.0; 2], [1.0; 2]), Bounds::new([4.0, 5.0], [6.0, 7.0]));
        assert!((one.distance(&other) - 5.0).abs() < 1e-12 && !one.intersects(&other));
        let touching = Bounds::new([1.0, 1.0], [2.0, 2.0]);
        assert!(one.intersects(&touching) && one.distance(&touching) == 0.0 && !one.contains(&touching));
        assert!(one.union(&other).contains(&touching));
    }
}
