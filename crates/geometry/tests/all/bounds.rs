//! Lower bounds of distances, which a search over bounding boxes relies on.

use farwood_geometry::geo_types::{Geometry as Shape, LineString, Polygon};
use farwood_geometry::{Bounds, Candidate, Geometry, Metric, Nearest, NearestQuery, Prepared, Ties};
use proptest::prelude::*;

/// Longitudes and latitudes: often near the antimeridian, the poles and each other.
fn position() -> impl Strategy<Value = [f64; 2]> {
    let x = prop_oneof![-180.0..180.0, 179.0..180.0, -180.0..-179.0, Just(180.0), Just(-180.0), 0.0..1.0];
    let y = prop_oneof![-90.0..90.0, 88.0..90.0, -90.0..-89.0, Just(90.0), Just(-90.0), 0.0..1.0];
    [x.boxed(), y.boxed()]
}

fn geometry() -> impl Strategy<Value = Geometry> {
    prop_oneof![
        position().prop_map(|at| Geometry::point(at).unwrap()),
        [position(), position()]
            .prop_map(|ends| { Geometry::new(Shape::LineString(LineString::from(ends.to_vec()))).unwrap() }),
        [position(), position(), position()].prop_filter_map("three corners", |corners| {
            let shell = LineString::from(corners.to_vec());
            Geometry::new(Shape::Polygon(Polygon::new(shell, Vec::new()))).ok()
        }),
    ]
}

fn check(metric: Metric, query: &Geometry, found: &Geometry) -> Result<(), TestCaseError> {
    let (prepared, other) = (Prepared::new(query), Prepared::new(found));
    let distance = metric.distance(&prepared, &other).unwrap();
    let bound = metric.lower_bound(&prepared, &other.bounds().unwrap()).unwrap();
    prop_assert!(bound <= distance, "{metric:?}: bound {bound}, distance {distance}: {query} {found}");
    let reverse = metric.distance(&other, &prepared).unwrap();
    let tolerance = if metric == Metric::Sphere { 1e-3 } else { 1e-9 };
    if distance < 18e6 {
        prop_assert!((distance - reverse).abs() <= tolerance, "{distance} {reverse}: {query} {found}");
    }
    prop_assert_eq!(metric.distance_up_to(&prepared, &other, distance), Some(distance));
    if distance > 1e-3 {
        prop_assert_eq!(metric.distance_up_to(&prepared, &other, distance - 1e-3), None);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_distance_is_below_its_lower_bound(query in geometry(), found in geometry()) {
        check(Metric::Planar, &query, &found)?;
        check(Metric::Sphere, &query, &found)?;
    }

    #[test]
    fn the_distance_of_points_is_the_haversine_formula(a in position(), b in position()) {
        let half = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
        let h = half(b[1] - a[1]) + a[1].to_radians().cos() * b[1].to_radians().cos() * half(b[0] - a[0]);
        let expected = 2.0 * farwood_geometry::EARTH_RADIUS_M * h.sqrt().min(1.0).asin();
        let [a, b] = [a, b].map(|at| Prepared::new(&Geometry::point(at).unwrap()));
        let found = Metric::Sphere.distance(&a, &b).unwrap();
        // Near the antipode, the formula loses digits.
        let tolerance = if expected > 19.9e6 { 1.0 } else { 1e-4 };
        prop_assert!((found - expected).abs() < tolerance, "{found} {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_windows_reach_everything_within_the_distance(query in geometry(), found in geometry(), more in 0.0..2.0) {
        let (prepared, other) = (Prepared::new(&query), Prepared::new(&found));
        let (query_box, found_box) = (prepared.bounds().unwrap(), other.bounds().unwrap());
        for metric in [Metric::Planar, Metric::Sphere] {
            let distance = metric.distance(&prepared, &other).unwrap();
            // The exact distance, and a greater one.
            for distance in [distance, distance * (1.0 + more)] {
                let (first, second) = metric.windows(&query_box, distance);
                let reached = first.intersects(&found_box) || second.is_some_and(|one| one.intersects(&found_box));
                prop_assert!(reached, "{metric:?} {distance}: {query} {found}: {first:?} {second:?}");
            }
        }
    }
}

/// Coasts of the repository's data: lines of ten segments.
fn coasts() -> Vec<Geometry> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/coastlines.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let ends = |line: &str| -> Vec<f64> { line.split(',').map(|number| number.parse().unwrap()).collect() };
    let lines: Vec<Vec<f64>> = text.lines().map(ends).collect();
    let line = |rows: &[Vec<f64>]| {
        let positions: Vec<[f64; 2]> =
            rows.iter().flat_map(|row| [[row[0], row[1]], [row[2], row[3]]]).collect();
        Geometry::new(Shape::LineString(LineString::from(positions))).unwrap()
    };
    lines.chunks(10).map(line).collect()
}

#[test]
fn the_nearest_coasts_are_those_of_a_scan() {
    let coasts: Vec<Prepared> = coasts().iter().map(Prepared::new).collect();
    let queries =
        ["POINT(178 -18)", "POINT(0 89)", "POINT(-179.5 65)", "LINESTRING(100 -60,120 -60)", "POINT(10 50)"];
    for (query, metric) in queries.iter().flat_map(|query| [(query, Metric::Planar), (query, Metric::Sphere)])
    {
        let query = Prepared::new(&query.parse().unwrap());
        let bound = |coast: &Prepared| metric.lower_bound(&query, &coast.bounds().unwrap()).unwrap();
        let mut candidates: Vec<Candidate<usize>> =
            (0..coasts.len()).map(|item| Candidate { lower_bound: bound(&coasts[item]), item }).collect();
        candidates.sort_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
        let mut measured = 0;
        let search = Nearest::new(
            candidates.into_iter().map(Ok::<_, ()>),
            NearestQuery { count: 7, ties: Ties::All, distance_max: f64::INFINITY },
            |item: &usize, limit| {
                measured += 1;
                Ok(metric.distance_up_to(&query, &coasts[*item], limit))
            },
        );
        let found: Vec<f64> = search.map(|one| one.unwrap().distance).collect();
        let mut scanned: Vec<f64> = coasts.iter().map(|one| metric.distance(&query, one).unwrap()).collect();
        scanned.sort_by(f64::total_cmp);
        assert!(found.len() >= 7 && found == scanned[..found.len()], "{found:?} {:?}", &scanned[..8]);
        assert!(measured < coasts.len() / 4, "{measured} of {} coasts were measured", coasts.len());
    }
}

#[test]
fn a_box_that_the_query_meets_is_at_distance_0() {
    let query = Prepared::new(&"POLYGON((0 0,9 0,0 9,0 0))".parse().unwrap());
    let bound = |min, max| Metric::Planar.lower_bound(&query, &Bounds::new(min, max)).unwrap();
    assert!(bound([1.0, 1.0], [2.0, 2.0]) <= 0.0);
    assert!(bound([-5.0, 3.0], [20.0, 4.0]) <= 0.0);
    assert!(
        (bound([9.0, 9.0], [10.0, 10.0]) - 4.5 * 2f64.sqrt()).abs() < 1e-9,
        "inside the box of the query"
    );
}
