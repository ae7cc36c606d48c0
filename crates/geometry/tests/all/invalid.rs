//! Geometries that are not valid, as clients may store them: answers may differ from other libraries, but there are
//! answers, and the predicates agree with each other.

use farwood_geometry::geo_types::{Geometry as Shape, GeometryCollection, LineString, MultiPolygon, Polygon};
use farwood_geometry::{Geometry, Metric, Predicate, Prepared};
use proptest::prelude::*;

/// Rings that cross and repeat themselves, on a small grid.
fn polygon() -> impl Strategy<Value = Polygon<f64>> {
    let position = (0..5i32, 0..5i32).prop_map(|(x, y)| [f64::from(x), f64::from(y)]);
    let ring = proptest::collection::vec(position, 4..9).prop_map(LineString::from);
    (ring.clone(), proptest::collection::vec(ring, 0..2))
        .prop_map(|(shell, holes)| Polygon::new(shell, holes))
}

fn geometry() -> impl Strategy<Value = Geometry> {
    let polygons = || proptest::collection::vec(polygon(), 1..3);
    prop_oneof![
        polygon().prop_map(Shape::Polygon),
        polygons().prop_map(|polygons| Shape::MultiPolygon(MultiPolygon(polygons))),
        polygons().prop_map(|polygons| {
            let lines = polygons.iter().map(|polygon| Shape::LineString(polygon.exterior().clone()));
            let parts = lines.chain(polygons.iter().cloned().map(Shape::Polygon)).collect();
            Shape::GeometryCollection(GeometryCollection(parts))
        }),
    ]
    .prop_filter_map("a ring of four positions", |shape| Geometry::new(shape).ok())
}

proptest! {
    #[test]
    fn invalid_geometries_have_answers(a in geometry(), b in geometry()) {
        let (a, b) = (Prepared::new(&a), Prepared::new(&b));
        prop_assert_eq!(a.relate(&b).transposed(), b.relate(&a));
        for predicate in Predicate::ALL {
            prop_assert_eq!(predicate.holds(&a, &b), predicate.converse().holds(&b, &a), "{:?}", predicate);
        }
        let intersects = Predicate::Intersects.holds(&a, &b);
        prop_assert_ne!(intersects, Predicate::Disjoint.holds(&a, &b));
        prop_assert_eq!(intersects, Metric::Planar.distance(&a, &b) == Some(0.0));
        prop_assert!(Metric::Sphere.distance(&a, &b).is_some());
    }
}
