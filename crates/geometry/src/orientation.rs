//! Exact tests of points against lines through two points, and the area of rings.

use geo_types::{Coord, LineString};

use crate::bounds::Bounds;

/// The side of `p` seen from a line from `a` to `b`: positive on the left, negative on the right, 0 on the line.
///
/// The sign is exact for coordinates that are 0 or between 1e-140 and 1e300 in magnitude.
pub(crate) fn side(a: Coord<f64>, b: Coord<f64>, p: Coord<f64>) -> f64 {
    /// A power of two by which products of two differences of any coordinates stay finite.
    const SCALE: f64 = 1.0 / (1u128 << 127) as f64;
    let robust = |at: Coord<f64>, scale: f64| robust::Coord { x: at.x * scale, y: at.y * scale };
    let determinant = robust::orient2d(robust(a, 1.0), robust(b, 1.0), robust(p, 1.0));
    if determinant.is_finite() {
        return determinant;
    }
    let scale = SCALE.powi(5);
    robust::orient2d(robust(a, scale), robust(b, scale), robust(p, scale))
}

/// Whether `p` is on the segment from `a` to `b`, ends included.
pub(crate) fn is_on(a: Coord<f64>, b: Coord<f64>, p: Coord<f64>) -> bool {
    Bounds::of_segment(a, b).contains_coord(p) && side(a, b, p) == 0.0
}

/// The area that a ring encloses, doubled: positive if the ring is counter-clockwise, 0 or NaN if it has no direction.
pub(crate) fn doubled_area(ring: &LineString<f64>) -> f64 {
    // Relative to a position of the ring: the products of large coordinates would have no digits left for the area.
    ring.0.first().map_or(0.0, |origin| {
        let cross = |a: Coord<f64>, b: Coord<f64>| a.x * b.y - a.y * b.x;
        ring.0.windows(2).map(|edge| cross(edge[0] - *origin, edge[1] - *origin)).sum()
    })
}

/// How two segments of positive length meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Contact {
    /// In one point that is an end of neither.
    Crossing,
    /// In a point that is an end of one of them, or along a line.
    AtEnds,
}

/// How the segments from `a` to `b` and from `c` to `d` meet; `None`: they share no point.
pub(crate) fn contact([a, b]: [Coord<f64>; 2], [c, d]: [Coord<f64>; 2]) -> Option<Contact> {
    if !Bounds::of_segment(a, b).intersects(&Bounds::of_segment(c, d)) {
        return None;
    }
    let (of_c, of_d) = (side(a, b, c), side(a, b, d));
    if of_c * of_d > 0.0 || of_c.signum() == of_d.signum() && of_c != 0.0 && of_d != 0.0 {
        return None;
    }
    let (of_a, of_b) = (side(c, d, a), side(c, d, b));
    if of_a.signum() == of_b.signum() && of_a != 0.0 && of_b != 0.0 {
        return None;
    }
    if of_a != 0.0 && of_b != 0.0 && of_c != 0.0 && of_d != 0.0 {
        return Some(Contact::Crossing);
    }
    let meets = is_on(a, b, c) || is_on(a, b, d) || is_on(c, d, a) || is_on(c, d, b);
    meets.then_some(Contact::AtEnds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64, y: f64) -> Coord<f64> {
        Coord { x, y }
    }

    #[test]
    fn segments_cross_touch_overlap_or_miss() {
        let one = [at(0.0, 0.0), at(4.0, 4.0)];
        assert_eq!(contact(one, [at(0.0, 4.0), at(4.0, 0.0)]), Some(Contact::Crossing));
        assert_eq!(contact(one, [at(2.0, 2.0), at(4.0, 0.0)]), Some(Contact::AtEnds));
        assert_eq!(contact(one, [at(1.0, 1.0), at(9.0, 9.0)]), Some(Contact::AtEnds));
        assert_eq!(contact(one, [at(5.0, 5.0), at(9.0, 9.0)]), None);
        assert_eq!(contact(one, [at(3.0, 0.0), at(4.0, 3.9)]), None);
        assert_eq!(contact(one, [at(0.0, 1.0), at(4.0, 5.0)]), None);
    }

    #[test]
    fn sides_are_exact_for_extreme_coordinates() {
        let large = |x: f64, y: f64| at(x * 1e300, y * 1e300);
        assert!(side(large(0.0, 0.0), large(1.0, 1.0), large(0.5, 0.6)) > 0.0);
        assert!(side(large(-1.0, -1.0), large(1.0, 1.0), large(0.5, 0.4)) < 0.0);
        assert!(side(large(-1.0, -1.0), large(1.0, 1.0), large(0.5, 0.5)).abs() <= 0.0);
        // The determinant of these in doubles is 0; the point is above the line.
        let above = f64::from_bits(0.5f64.to_bits() + 1);
        assert!(side(at(0.0, 0.0), at(1.0, 1.0), at(0.5, above)) > 0.0);
    }
}
