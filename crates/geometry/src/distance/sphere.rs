//! Distances in metres on a sphere, of points and edges in degrees.
//!
//! An edge is straight in longitude and latitude. Its pieces deviate from their chords through the sphere by a bound
//! that falls to a quarter when a piece is halved, so that a search over halves finds the least distance: it drops each
//! pair of pieces whose chords, less their deviations, are farther apart than a pair of points that it has seen.

use geo_types::Coord;

use crate::bounds::Bounds;

/// The mean radius of the earth (IUGG), in metres.
pub const EARTH_RADIUS_M: f64 = 6_371_008.8;

/// The distance through the unit sphere by which the search may miss the least one: 0.1 mm on the earth.
const TOLERANCE: f64 = 1e-4 / EARTH_RADIUS_M;

/// Halvings of an edge of 360 degrees after which its pieces are shorter than rounding can tell.
const HALVINGS_MAX: u32 = 50;

/// The error that rounding may add to a lower bound: an absolute and a relative part.
const ROUNDING_M: f64 = 1e-6;
const ROUNDING: f64 = 1e-12;

type Vector = [f64; 3];

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn length(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// The point of the unit sphere at a longitude and a latitude in degrees.
fn on_sphere(at: Coord<f64>) -> Vector {
    let ((sin_x, cos_x), (sin_y, cos_y)) = (at.x.to_radians().sin_cos(), at.y.to_radians().sin_cos());
    [cos_y * cos_x, cos_y * sin_x, sin_y]
}

/// The angle of two points of the unit sphere: exact but for rounding at all distances.
fn angle(a: Vector, b: Vector) -> f64 {
    let sum = [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
    2.0 * length(minus(a, b)).atan2(length(sum))
}

/// The chord of a distance in metres and a little more; infinite if nothing is that far.
fn chord_of(metres: f64) -> f64 {
    let half = metres / EARTH_RADIUS_M / 2.0;
    if half < std::f64::consts::FRAC_PI_2 { 2.0 * half.sin() + ROUNDING } else { f64::INFINITY }
}

/// The distance in metres of two edges, either of which may be a point; infinite if it is more than `limit`. The value
/// does not depend on the limit.
pub(super) fn between_edges(one: [Coord<f64>; 2], other: [Coord<f64>; 2], limit: f64) -> f64 {
    // Points and edges along a meridian or a parallel are their own boxes.
    let boxes = [one, other].map(|[from, to]| Bounds::of_segment(from, to));
    if boxes.iter().all(|of| of.min[0] >= of.max[0] || of.min[1] >= of.max[1]) {
        return angle_of_boxes(&boxes[0], &boxes[1]) * EARTH_RADIUS_M;
    }
    let (one, other) = (Piece::new(one), Piece::new(other));
    let (_, chords) = nearest_of_chords(one.points, other.points);
    let mut search = PairSearch { chord: f64::INFINITY, metres: f64::INFINITY };
    if chords - one.deviation - other.deviation <= chord_of(limit) {
        search.visit(&one, &other, HALVINGS_MAX);
    }
    search.metres
}

/// A part of an edge.
#[derive(Clone, Copy)]
struct Piece {
    ends: [Coord<f64>; 2],
    points: [Vector; 2],
    /// The greatest distance of a point of the piece from its chord.
    deviation: f64,
}

impl Piece {
    fn new(ends: [Coord<f64>; 2]) -> Self {
        let [from, to] = ends;
        let (dx, dy) = ((to.x - from.x).abs().to_radians(), (to.y - from.y).abs().to_radians());
        let across_equator = from.y.min(to.y) <= 0.0 && from.y.max(to.y) >= 0.0;
        let nearest = if across_equator { 0.0 } else { from.y.abs().min(to.y.abs()) };
        // The second derivative of the curve on the sphere, whose longitude and latitude are linear, is at most this;
        // an eighth of it bounds the error of linear interpolation.
        let bend = nearest.to_radians().cos() * dx * dx + 2.0 * dx * dy + dy * dy;
        Self { ends, points: ends.map(on_sphere), deviation: bend / 8.0 }
    }

    fn at(&self, share: f64) -> Coord<f64> {
        let [from, to] = self.ends;
        Coord { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share }
    }

    fn halves(&self) -> [Self; 2] {
        let middle = self.at(0.5);
        [Self::new([self.ends[0], middle]), Self::new([middle, self.ends[1]])]
    }

    fn is_point(&self) -> bool {
        self.ends[0] == self.ends[1]
    }
}

/// The search for the nearest points of two edges.
struct PairSearch {
    /// The least distance of two points that the search has seen, in metres and through the sphere.
    metres: f64,
    chord: f64,
}

impl PairSearch {
    fn visit(&mut self, one: &Piece, other: &Piece, halvings: u32) {
        let (shares, chords) = nearest_of_chords(one.points, other.points);
        let deviation = one.deviation + other.deviation;
        if chords - deviation >= self.chord {
            return;
        }
        self.consider(on_sphere(one.at(shares[0])), on_sphere(other.at(shares[1])));
        let may_improve = (chords - deviation).max(0.0) < self.chord - TOLERANCE;
        if halvings == 0 || !may_improve || one.is_point() && other.is_point() {
            return;
        }
        // The piece that deviates more is halved.
        let (halved, kept) = if one.deviation >= other.deviation { (one, other) } else { (other, one) };
        let [first, second] = halved.halves();
        let [toward_first, toward_second] =
            [&first, &second].map(|half| nearest_of_chords(half.points, kept.points).1 - half.deviation);
        let order = if toward_first <= toward_second { [first, second] } else { [second, first] };
        for half in order {
            self.visit(&half, kept, halvings - 1);
        }
    }

    fn consider(&mut self, a: Vector, b: Vector) {
        let metres = angle(a, b) * EARTH_RADIUS_M;
        if metres < self.metres {
            (self.metres, self.chord) = (metres, length(minus(a, b)));
        }
    }
}

/// The nearest points of two straight segments, as shares of them, and their distance.
#[expect(clippy::many_single_char_names, reason = "products of vectors are named after their factors")]
fn nearest_of_chords([a, b]: [Vector; 2], [c, d]: [Vector; 2]) -> ([f64; 2], f64) {
    let (u, v, w) = (minus(b, a), minus(d, c), minus(a, c));
    let (uu, vv, uv, uw, vw) = (dot(u, u), dot(v, v), dot(u, v), dot(u, w), dot(v, w));
    let share = |numerator: f64, denominator: f64| {
        let share = numerator / denominator;
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    };
    // The point of the first segment nearest to the line of the second, then the point of the second nearest to it,
    // then again on the first, because the second ends.
    let mut s = share(uv * vw - uw * vv, uu * vv - uv * uv);
    let t = share(uv * s + vw, vv);
    s = share(uv * t - uw, uu);
    let gap = |s: f64, t: f64| length([0, 1, 2].map(|axis| w[axis] + u[axis] * s - v[axis] * t));
    let mut best = ([s, t], gap(s, t));
    // Almost parallel segments: the ends decide.
    let ends =
        [(0.0, share(vw, vv)), (1.0, share(uv + vw, vv)), (share(-uw, uu), 0.0), (share(uv - uw, uu), 1.0)];
    for (s, t) in ends {
        let distance = gap(s, t);
        if distance < best.1 {
            best = ([s, t], distance);
        }
    }
    best
}

/// A lower bound in metres of the distance from anything in one box to anything in the other: boxes in degrees.
pub(super) fn between_boxes(a: &Bounds, b: &Bounds) -> f64 {
    (angle_of_boxes(a, b) * EARTH_RADIUS_M * (1.0 - ROUNDING) - ROUNDING_M).max(0.0)
}

/// The angle between two boxes in degrees.
///
/// The boxes' nearest points are on two meridians, at the least difference of longitudes, and one of them is at an end
/// of its part of the meridian.
fn angle_of_boxes(a: &Bounds, b: &Bounds) -> f64 {
    let longitude = longitude_gap([a.min[0], a.max[0]], [b.min[0], b.max[0]]).to_radians();
    let latitudes = [a, b].map(|of| [of.min[1], of.max[1]].map(f64::to_radians));
    let gap = (latitudes[0][0] - latitudes[1][1]).max(latitudes[1][0] - latitudes[0][1]).max(0.0);
    if longitude == 0.0 {
        return gap;
    }
    let [of_a, of_b] = latitudes;
    let from_a = of_a.map(|end| to_meridian(end, longitude, of_b));
    let from_b = of_b.map(|end| to_meridian(end, longitude, of_a));
    from_a.into_iter().chain(from_b).fold(f64::INFINITY, f64::min).max(gap)
}

/// The least difference in degrees of longitudes of two ranges; 0 if they overlap.
fn longitude_gap(a: [f64; 2], b: [f64; 2]) -> f64 {
    const TURN: f64 = 360.0;
    let overlap =
        (b[0] - a[0]).rem_euclid(TURN) <= a[1] - a[0] || (a[0] - b[0]).rem_euclid(TURN) <= b[1] - b[0];
    if overlap { 0.0 } else { (b[0] - a[1]).rem_euclid(TURN).min((a[0] - b[1]).rem_euclid(TURN)) }
}

/// The angle from a point at a latitude to the part of a meridian between two latitudes. `longitude`: the difference
/// of longitudes. All in radians.
fn to_meridian(latitude: f64, longitude: f64, [south, north]: [f64; 2]) -> f64 {
    let (sin, cos) = latitude.sin_cos();
    // The latitude of the foot, which may be beyond a pole.
    let foot = sin.atan2(cos * longitude.cos());
    let nearest = if (south..=north).contains(&foot) {
        foot
    } else {
        // The distance grows with that from the foot, around the circle of the meridian.
        let from_foot = |end: f64| {
            let difference = (end - foot).abs();
            difference.min(std::f64::consts::TAU - difference)
        };
        if from_foot(south) <= from_foot(north) { south } else { north }
    };
    let point = |longitude: f64, latitude: f64| {
        let ((sin_x, cos_x), (sin_y, cos_y)) = (longitude.sin_cos(), latitude.sin_cos());
        [cos_y * cos_x, cos_y * sin_x, sin_y]
    };
    angle(point(0.0, latitude), point(longitude, nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64, y: f64) -> Coord<f64> {
        Coord { x, y }
    }

    fn points(a: Coord<f64>, b: Coord<f64>) -> f64 {
        between_edges([a, a], [b, b], f64::INFINITY)
    }

    /// The haversine formula.
    fn haversine(a: Coord<f64>, b: Coord<f64>) -> f64 {
        let half = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
        let h = half(b.y - a.y) + a.y.to_radians().cos() * b.y.to_radians().cos() * half(b.x - a.x);
        2.0 * EARTH_RADIUS_M * h.sqrt().min(1.0).asin()
    }

    #[test]
    fn distances_of_points_equal_the_haversine_formula() {
        let cities = [at(13.4, 52.5), at(139.7, 35.7), at(-74.0, 40.7), at(178.4, -18.1), at(0.0, 90.0)];
        for a in cities {
            for b in cities {
                assert!((points(a, b) - haversine(a, b)).abs() < 1e-6, "{a:?} {b:?}");
            }
        }
        let half = EARTH_RADIUS_M * std::f64::consts::PI;
        assert!((points(at(10.0, 20.0), at(-170.0, -20.0)) - half).abs() < 0.1);
        assert!(points(at(180.0, 3.0), at(-180.0, 3.0)) < 1e-6);
    }

    /// The least distance of many pairs of points of two edges.
    fn sampled(one: [Coord<f64>; 2], other: [Coord<f64>; 2]) -> f64 {
        const STEPS: u32 = 150;
        let on = |edge: [Coord<f64>; 2]| {
            let piece = Piece::new(edge);
            (0..=STEPS).map(move |step| on_sphere(piece.at(f64::from(step) / f64::from(STEPS))))
        };
        let pairs = on(one).flat_map(|a| on(other).map(move |b| angle(a, b) * EARTH_RADIUS_M));
        pairs.fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn distances_of_edges_are_those_of_their_nearest_points() {
        let edges = [
            [at(-120.0, 40.0), at(20.0, 55.0)],
            [at(-120.0, 70.0), at(20.0, 60.0)],
            [at(170.0, -10.0), at(180.0, 20.0)],
            [at(-180.0, -30.0), at(-170.0, 30.0)],
            [at(-90.0, 85.0), at(90.0, 85.0)],
            [at(100.0, -89.0), at(120.0, -90.0)],
        ];
        for one in edges {
            for other in edges {
                let (found, sampled) = (between_edges(one, other, f64::INFINITY), sampled(one, other));
                assert!(found <= sampled + 1e-3, "{one:?} {other:?}: {found}, sampled {sampled}");
            }
        }
    }

    #[test]
    fn an_edge_is_straight_in_degrees() {
        // The parallel of 60 degrees, not the great circle, which is 15 degrees north of it in the middle.
        let found = between_edges([at(0.0, 61.0); 2], [at(-60.0, 60.0), at(60.0, 60.0)], f64::INFINITY);
        assert!((found - 1f64.to_radians() * EARTH_RADIUS_M).abs() < 1e-3, "{found}");
    }

    #[test]
    fn boxes_are_near_across_the_antimeridian_and_the_pole() {
        let degree = 1f64.to_radians() * EARTH_RADIUS_M;
        let of = |a: [f64; 4], b: [f64; 4]| {
            between_boxes(&Bounds::new([a[0], a[1]], [a[2], a[3]]), &Bounds::new([b[0], b[1]], [b[2], b[3]]))
        };
        let fiji = of([179.0, -1.0, 179.5, 0.0], [-179.5, -1.0, -179.0, 0.0]);
        assert!((fiji - degree).abs() < 200.0, "{fiji}");
        let pole = of([0.0, 80.0, 0.0, 89.0], [180.0, 80.0, 180.0, 88.0]);
        assert!((pole - 3.0 * degree).abs() < 1.0, "{pole}");
        let shared = of([-180.0, 0.0, 180.0, 10.0], [5.0, 12.0, 6.0, 13.0]);
        assert!((shared - 2.0 * degree).abs() < 1.0, "{shared}");
        assert!(of([0.0, 0.0, 1.0, 1.0], [360.5, 0.5, 361.0, 2.0]) <= 0.0);
    }
}
