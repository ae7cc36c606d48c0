//! The refinement of candidates of one query: with a prepared query, and with one that is prepared for each candidate.
//! The candidates are points and small triangles in the box of the query, as WKB. The result is that of the fastest
//! round, because other processes slow down the others.
//!
//! `cargo bench -p farwood-geometry`
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::hint::black_box;
use std::time::Instant;

use farwood_geometry::geo_types::{Geometry as Shape, LineString, Polygon};
use farwood_geometry::{Geometry, Metric, Predicate, Prepared};

const CANDIDATES: u32 = 2_000;
const ROUNDS: usize = 15;
/// Candidates of a round in which the query is prepared for each.
const UNPREPARED: usize = 50;

fn main() {
    for positions in [32, 1_000, 30_000] {
        let query = coast(positions);
        println!("a polygon of {positions} positions");
        let prepared = Prepared::new(&query);
        let points: Vec<Vec<u8>> =
            positions_in_box().map(|at| Geometry::point(at).unwrap().to_wkb()).collect();
        let triangles: Vec<Vec<u8>> = positions_in_box().map(|at| triangle(at).to_wkb()).collect();
        for (name, candidates) in [("points", &points), ("triangles", &triangles)] {
            for predicate in [Predicate::Within, Predicate::Intersects] {
                let once = rate(candidates, |found| predicate.holds(found, &prepared));
                let each =
                    rate(&candidates[..UNPREPARED], |found| predicate.holds(found, &Prepared::new(&query)));
                println!("  {name}, {predicate:?}: prepared {once:.0}/s, not prepared {each:.0}/s");
            }
            for metric in [Metric::Planar, Metric::Sphere] {
                let once = rate(candidates, |found| metric.is_within(found, &prepared, 0.1));
                println!("  {name}, within 0.1 ({metric:?}): prepared {once:.0}/s");
            }
        }
    }
}

/// Candidates a second, decoded and tested, in the fastest round.
fn rate(candidates: &[Vec<u8>], test: impl Fn(&Prepared) -> bool) -> f64 {
    let round = || {
        let start = Instant::now();
        let holding = candidates.iter().filter(|bytes| {
            let geometry = Geometry::from_wkb(bytes).expect("WKB of this program");
            test(&Prepared::new(&geometry))
        });
        black_box(holding.count());
        candidates.len() as f64 / start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| round()).fold(0.0, f64::max)
}

/// A polygon with a coast of bays of all sizes in the box from -1 to 1.
fn coast(positions: u32) -> Geometry {
    let corner = |number: u32| {
        let angle = std::f64::consts::TAU * f64::from(number) / f64::from(positions);
        let bays =
            (0..12).map(|level| 2f64.powi(-level) * (3f64.powi(level) * angle + f64::from(level)).sin());
        let radius = 0.7 + 0.12 * bays.sum::<f64>();
        [radius * angle.cos(), radius * angle.sin()]
    };
    let shell = LineString::from((0..positions).map(corner).collect::<Vec<_>>());
    Geometry::new(Shape::Polygon(Polygon::new(shell, Vec::new()))).expect("a polygon")
}

fn triangle(at: [f64; 2]) -> Geometry {
    let [x, y] = at;
    let shell = LineString::from(vec![[x, y], [x + 0.01, y], [x, y + 0.01]]);
    Geometry::new(Shape::Polygon(Polygon::new(shell, Vec::new()))).expect("a triangle")
}

fn positions_in_box() -> impl Iterator<Item = [f64; 2]> {
    (0..CANDIDATES).map(|number| [2.0 * fraction(number, 1) - 1.0, 2.0 * fraction(number, 2) - 1.0])
}

/// A pseudo-random number from 0 to 1.
fn fraction(number: u32, stream: u64) -> f64 {
    let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(stream * 2 + 1);
    f64::from(((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as u32)
        / f64::from(1u32 << 31)
}
