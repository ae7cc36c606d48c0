//! Distances that compare correctly at every scale of coordinates.
//!
//! The square of a distance above 1e154 is infinite, and the square of one below 1e-162 is 0. Such distances are
//! compared by the squares of scaled differences, and all others by their squares.

use super::rectangle::Rectangle;

/// The factor for large and, inversely, for small differences: a power of two, so that scaling is exact.
const SCALE: f64 = f64::from_bits((1023 + 600) << 52);
/// Squares below this number lose precision: 2^-960.
const SMALL: f64 = f64::from_bits((1023 - 960) << 52);

/// The distance from a point to a rectangle, for comparisons.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    class: Class,
    /// The square of the distance, of differences that are scaled according to the class.
    squared: f64,
}

/// The magnitude of a distance. A distance of a lower class is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Small,
    Ordinary,
    Large,
}

impl Distance {
    /// The distance to a rectangle that contains the point.
    pub(super) const ZERO: Self = Self { class: Class::Small, squared: 0.0 };

    /// The distance from the point to the nearest point of the rectangle.
    #[inline]
    pub(super) fn between(bounds: &Rectangle, point: [f64; 2]) -> Self {
        let squared = bounds.distance_squared(point);
        if (SMALL..=f64::MAX).contains(&squared) {
            Self { class: Class::Ordinary, squared }
        } else {
            Self::scaled(bounds, point, squared)
        }
    }

    #[cold]
    fn scaled(bounds: &Rectangle, point: [f64; 2], squared: f64) -> Self {
        let gap = |axis: usize, factor: f64| {
            let [min, max, at] = [bounds.min()[axis], bounds.max()[axis], point[axis]].map(|x| x * factor);
            (min - at).max(at - max).max(0.0)
        };
        if squared < SMALL {
            // The difference is scaled, and not the coordinates, because a scaled coordinate may be infinite although
            // the difference is not.
            let gap = |axis| gap(axis, 1.0) * SCALE;
            Self { class: Class::Small, squared: gap(0).powi(2) + gap(1).powi(2) }
        } else {
            let gap = |axis| gap(axis, 1.0 / SCALE);
            Self { class: Class::Large, squared: gap(0).powi(2) + gap(1).powi(2) }
        }
    }
}

impl PartialEq for Distance {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Distance {}
impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Distance {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.class.cmp(&other.class).then(self.squared.total_cmp(&other.squared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(x: f64, y: f64, from: [f64; 2]) -> Distance {
        Distance::between(&Rectangle::point([x, y]).unwrap(), from)
    }

    #[test]
    fn distances_increase_over_every_scale() {
        let steps = (-1074..1024).map(|exponent| f64::exp2(f64::from(exponent)));
        let (mut last, mut last_diagonal) = (Distance::ZERO, Distance::ZERO);
        for step in steps {
            let (straight, diagonal) = (of(step, 0.0, [0.0; 2]), of(-step, step, [0.0; 2]));
            assert!(last < straight && last_diagonal < diagonal && straight < diagonal, "{step:e}");
            (last, last_diagonal) = (straight, diagonal);
        }
        assert!(of(f64::MAX, 0.0, [-f64::MAX, 0.0]) > of(f64::MAX, 0.0, [0.0; 2]));
        assert_eq!(of(3.0, 4.0, [3.0, 4.0]), Distance::ZERO);
        assert_eq!(of(1e300, 0.0, [1e300, 0.0]), Distance::ZERO);
    }

    #[test]
    fn ordinary_distances_compare_as_their_squares() {
        for (x, y) in [(1e-140, 0.0), (1.0, 2.0), (1e100, 1.0), (1e150, 1e150)] {
            let squared = Rectangle::point([x, y]).unwrap().distance_squared([0.0; 2]);
            assert_eq!(of(x, y, [0.0; 2]).squared.to_bits(), squared.to_bits());
        }
    }
}
