//! Geometries about which GEOS 3.14.1 errs: collections, which count as the union of their parts, and parts that touch.
//!
//! GEOS errs about some collections, so that the cases of Shapely have none of them: it finds that the first
//! collection below does not cover the polygon, although the collection's own polygon alone does.

use farwood_geometry::{Geometry, Predicate, Prepared};

fn matrix(a: &str, b: &str) -> String {
    let [a, b] = [a, b].map(|text| Prepared::new(&text.parse().unwrap()));
    let matrix = a.relate(&b);
    assert_eq!(matrix.transposed(), b.relate(&a), "the relation is symmetric");
    matrix.to_string()
}

fn holds(predicate: Predicate, a: &str, b: &str) -> bool {
    let [a, b]: [Geometry; 2] = [a, b].map(|text| text.parse().unwrap());
    a.holds(predicate, &b)
}

#[test]
fn points_of_a_collection_take_nothing_from_its_polygon() {
    let part = "POLYGON((5 1,7 5,6 2,5 1))";
    let polygon = "POLYGON((3 0,8 1,7 5,6 6,2 4,3 0))";
    let collection = format!("GEOMETRYCOLLECTION(POINT(3 4),{polygon},POINT(0 6))");
    for whole in [polygon, &collection] {
        assert!(holds(Predicate::Covers, whole, part), "{whole}");
        assert!(holds(Predicate::Within, part, whole), "{whole}");
    }
}

#[test]
fn the_edge_that_two_polygons_share_is_inside() {
    let both = "GEOMETRYCOLLECTION(POLYGON((0 0,2 0,2 2,0 2,0 0)),POLYGON((2 0,4 0,4 2,2 2,2 0)))";
    assert!(holds(Predicate::Within, "POINT(2 1)", both));
    assert!(holds(Predicate::Touches, "POINT(2 0)", both));
    assert_eq!(matrix(both, "POLYGON((0 0,4 0,4 2,0 2,0 0))"), "2FFF1FFF2");
    assert_eq!(matrix("LINESTRING(2 0,2 2)", both), "1FFF0F212");
}

#[test]
fn overlapping_polygons_are_their_union() {
    let both = "GEOMETRYCOLLECTION(POLYGON((0 0,3 0,3 3,0 3,0 0)),POLYGON((1 1,4 1,4 4,1 4,1 1)))";
    assert_eq!(matrix(both, "POLYGON((0 0,3 0,3 1,4 1,4 4,1 4,1 3,0 3,0 0))"), "2FFF1FFF2");
    // Edges of one polygon inside the other are no boundary.
    assert!(holds(Predicate::CoveredBy, "POLYGON((2 1,2 3,0 3,0 1,2 1))", both));
    assert_eq!(matrix("LINESTRING(3 1,3 3)", both), "1FF00F212");
    // All positions of the one are inside the other, or the reverse: only crossings show the boundary.
    let cross = "GEOMETRYCOLLECTION(POLYGON((0 1,4 1,4 2,0 2,0 1)),POLYGON((1 0,2 0,2 4,1 4,1 0)))";
    assert_eq!(matrix(cross, "POLYGON((-9 -9,9 -9,9 9,-9 9,-9 -9))"), "2FF1FF212");
    let plus = "POLYGON((0 1,1 1,1 0,2 0,2 1,4 1,4 2,2 2,2 4,1 4,1 2,0 2,0 1))";
    assert_eq!(matrix(cross, plus), "2FFF1FFF2");
}

#[test]
fn a_line_of_a_collection_continues_outside_its_polygon() {
    let both = "GEOMETRYCOLLECTION(POLYGON((0 0,4 0,4 4,0 4,0 0)),LINESTRING(2 2,6 2))";
    assert!(holds(Predicate::Within, "POINT(5 2)", both));
    assert!(holds(Predicate::Touches, "POINT(6 2)", both));
    // The polygon shares an edge with the collection's polygon at which the line leaves it.
    assert_eq!(matrix(both, "POLYGON((1 1,4 1,4 4,2 3,2 2,0 2,1 1))"), "212F11FF2");
}

#[test]
fn lines_of_no_length_are_points() {
    let line = "MULTILINESTRING((1 1,2 0),(3 0,1 4,3 4,1 2))";
    assert!(holds(Predicate::Intersects, "LINESTRING(2 2,2 2)", line));
    assert!(holds(Predicate::Equals, "LINESTRING(2 2,2 2)", "POINT(2 2)"));
}

#[test]
fn a_multipolygon_whose_parts_touch_covers_what_one_part_covers() {
    // GEOS 3.14.1 finds that it does not, although it finds that the difference is empty. The parts touch where a
    // vertex is on an edge, and the edge of the triangle passes there.
    let parts = "MULTIPOLYGON(((1 2,4 4,4 2,2 1,1 2)),((4 0,1 0,1 1,4 1,4 0)))";
    let triangle = "POLYGON((3 1,4 0,1 1,3 1))";
    assert!(holds(Predicate::Covers, parts, triangle) && holds(Predicate::Within, triangle, parts));
    assert!(!holds(Predicate::Overlaps, triangle, parts));
}

#[test]
fn points_at_the_ends_of_a_line_do_not_cover_it() {
    // GEOS 3.14.1 finds that they do.
    let points = "GEOMETRYCOLLECTION(POINT(7 6),LINESTRING(4 4,5 5,3 2),MULTIPOINT((7 5),(6 1),(5 5)))";
    assert!(!holds(Predicate::Covers, points, "LINESTRING(6 1,7 6)"));
}

#[test]
fn a_line_that_crosses_itself_equals_the_same_line_with_more_positions() {
    // GEOS 3.14.1 finds that they differ: they cross themselves at x = 10 / 3.
    let line = "LINESTRING(4 2,1 2,2 3,4 1,2 4)";
    let same = "LINESTRING(4 2,2.5 2,1 2,1.5 2.5,2 3,3 2,4 1,3 2.5,2 4)";
    assert!(holds(Predicate::Equals, line, same) && holds(Predicate::Covers, same, line));
}
