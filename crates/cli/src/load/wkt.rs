//! Geometries as well-known text.

use super::geometry::Shaped;
use farwood_geometry::{Geometry, WktError};

/// Reads a geometry.
///
/// # Errors
/// The text is not a geometry, or a part of it is empty.
pub(super) fn read(text: &str) -> Result<Shaped, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the geometry is empty".to_owned());
    }
    if text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("SRID=")) {
        return Err("it is EWKT, whose SRID the index cannot store; write WKT (ST_AsText)".to_owned());
    }
    let geometry: Geometry = text.parse().map_err(|error: WktError| error.to_string())?;
    check_parts(text)?;
    Shaped::new(geometry)
}

/// Refuses a geometry with parts of which some are empty, as the reader of GeoJSON does.
fn check_parts(text: &str) -> Result<(), String> {
    let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ',' | ')'));
    if text.contains('(') && words.any(|word| word.eq_ignore_ascii_case("EMPTY")) {
        return Err("a part of the geometry is EMPTY; remove the part".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood::spatial::CoordinateSystem;

    fn rectangles(text: &str) -> Result<String, String> {
        let (first, beyond) = read(text)?.bounds.rectangles(CoordinateSystem::Degrees)?;
        Ok(format!("{first}{}", beyond.map_or(String::new(), |beyond| format!(" {beyond}"))))
    }

    #[test]
    fn geometries_of_every_type_have_bounds() {
        for (text, expected) in [
            ("POINT(1 2)", "1,2,1,2"),
            (" point z (1 2 3) ", "1,2,1,2"),
            ("LINESTRING (1 9, -2 3)", "-2,3,1,9"),
            ("POLYGON((0 0, 4 0, 4 5, 0 0),(1 1, 2 1, 2 2, 1 1))", "0,0,4,5"),
            ("MULTIPOINT(1 2, 3 4)", "1,2,3,4"),
            ("MULTIPOINT((180 1), (-180 2))", "180,1,180,1 -180,2,-180,2"),
            (
                "MULTIPOLYGON(((180 -17, 180 -16, 177 -16, 180 -17)), ((-178 -17, -178 -16, -180 -16, -178 -17)))",
                "177,-17,180,-16 -180,-17,-178,-16",
            ),
            ("MULTILINESTRING((179 0, 180 1), (-180 1, -179 2))", "179,0,180,1 -180,1,-179,2"),
            ("GEOMETRYCOLLECTION(POINT(1 2), POLYGON((3 3, 4 4, 5 3, 3 3)))", "1,2,5,4"),
            ("POINT ZM(1 2 1e400 1e-400)", "1,2,1,2"),
        ] {
            assert_eq!(rectangles(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn texts_without_a_geometry_are_refused_with_the_reason() {
        let deep = format!("{}POINT(1 2){}", "GEOMETRYCOLLECTION(".repeat(100_000), ")".repeat(100_000));
        for (text, why) in [
            ("", "empty"),
            ("POINT EMPTY", "no coordinates"),
            ("POINT(1)", "is expected"),
            ("POINT(1 2", "is expected"),
            ("POINT(1 2))", "is expected"),
            ("POINT(1 2) POINT(3 4)", "is expected"),
            ("POINT(1 x)", "is expected"),
            ("POINT(nan 2)", "'nan' is not a finite number"),
            ("POINT(1e999 2)", "'1e999' is not a finite number"),
            ("LINESTRING(1 2, 3 -1e-400)", "'-1e-400' is not 0, and closer to 0"),
            ("GEOMETRYCOLLECTION(POINT(1 2), LINESTRING EMPTY)", "a part of the geometry is EMPTY"),
            ("POLYGON((0 0, 4 0, 4 5, 0 0), empty)", "a part of the geometry is EMPTY"),
            ("MULTIPOINT(EMPTY)", "a part of the geometry is EMPTY"),
            ("CIRCULARSTRING(0 0, 1 1, 2 0)", "is expected"),
            ("SRID=4326;POINT(1 2)", "ST_AsText"),
            ("1,2", "is expected"),
            (&deep, "32 levels deep"),
        ] {
            let refused = rectangles(text).unwrap_err();
            assert!(refused.contains(why), "{text:.40}: {refused}");
        }
    }
}
