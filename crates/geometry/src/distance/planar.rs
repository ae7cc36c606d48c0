//! Distances in the plane.

use geo_types::Coord;

use crate::bounds::Bounds;
use crate::orientation::contact;
use crate::prepared::Edge;

/// The number less what rounding may have added to a distance.
pub(super) fn lower_bound(distance: f64) -> f64 {
    /// The relative error of a computed distance, with a margin: a few roundings of 2^-53.
    const ROUNDING: f64 = 16.0 * f64::EPSILON;
    (distance * (1.0 - ROUNDING) - f64::MIN_POSITIVE).max(0.0)
}

/// The distance of two segments, either of which may be a point.
pub(super) fn between_segments(one: [Coord<f64>; 2], other: [Coord<f64>; 2]) -> f64 {
    let extended = one[0] != one[1] && other[0] != other[1];
    if extended && contact(one, other).is_some() {
        return 0.0;
    }
    let of_one = one.map(|at| to_segment(at, other));
    let of_other = other.map(|at| to_segment(at, one));
    of_one.into_iter().chain(of_other).fold(f64::INFINITY, f64::min)
}

/// The distance from a point to a segment.
fn to_segment(at: Coord<f64>, [from, to]: [Coord<f64>; 2]) -> f64 {
    let scale = scale_of(&[at, from, to]);
    let scaled = |p: Coord<f64>| Coord { x: p.x * scale, y: p.y * scale };
    let (at, from, to) = (scaled(at), scaled(from), scaled(to));
    let (along, offset) = (to - from, at - from);
    let squared = along.x * along.x + along.y * along.y;
    let share = (offset.x * along.x + offset.y * along.y) / squared;
    let distance = match () {
        // Also if the segment is a point: the share is no number.
        () if share.is_nan() || share <= 0.0 => offset.x.hypot(offset.y),
        () if share >= 1.0 => (at.x - to.x).hypot(at.y - to.y),
        () => (along.x * offset.y - along.y * offset.x).abs() / squared.sqrt(),
    };
    distance / scale
}

/// A power of two by which products of differences of these coordinates neither overflow nor vanish.
fn scale_of(all: &[Coord<f64>]) -> f64 {
    /// Coordinates between these need no scale.
    const PLAIN: std::ops::Range<f64> = 1e-100..1e150;
    const DOWN: f64 = 1.0 / (1u128 << 127) as f64;
    const UP: f64 = (1u128 << 127) as f64;
    let greatest = all.iter().flat_map(|at| [at.x.abs(), at.y.abs()]).fold(0.0, f64::max);
    match greatest {
        _ if greatest == 0.0 || PLAIN.contains(&greatest) => 1.0,
        _ if greatest > 1.0 => DOWN * DOWN * DOWN * DOWN,
        _ if greatest > 1e-250 => UP * UP * UP,
        _ => UP * UP * UP * UP * UP * UP,
    }
}

/// The distance from an edge to a box, which do not meet.
pub(super) fn to_box(edge: &Edge, bounds: &Bounds) -> f64 {
    if edge.chain().is_none() {
        return edge.bounds().distance(bounds);
    }
    let corners = bounds.corners();
    let sides = (0..4).map(|side| [corners[side], corners[(side + 1) % 4]]);
    sides.map(|side| between_segments(edge.ends(), side)).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(at: [f64; 2], from: [f64; 2], to: [f64; 2]) -> f64 {
        to_segment(at.into(), [from.into(), to.into()])
    }

    #[test]
    fn the_nearest_point_of_a_segment_is_an_end_or_the_foot() {
        assert!((distance([0.0, 5.0], [-1.0, 2.0], [1.0, 2.0]) - 3.0).abs() < 1e-15);
        assert!((distance([4.0, 6.0], [-1.0, 2.0], [1.0, 2.0]) - 5.0).abs() < 1e-15);
        assert!((distance([3.0, 4.0], [0.0, 0.0], [0.0, 0.0]) - 5.0).abs() < 1e-15);
    }

    #[test]
    fn extreme_coordinates_have_distances() {
        for scale in [1e300, 1e160, 1e-160, 1e-300] {
            let found = distance([0.0, 5.0 * scale], [-scale, 2.0 * scale], [scale, 2.0 * scale]);
            assert!((found / scale - 3.0).abs() < 1e-14, "{scale}: {found}");
        }
        let near = distance([1e155, 0.0], [0.0, 0.0], [0.0, 0.0]);
        let far = distance([1e200, 0.0], [0.0, 0.0], [0.0, 0.0]);
        assert!(near < far && far.is_finite());
    }
}
