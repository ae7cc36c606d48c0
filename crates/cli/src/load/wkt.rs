//! Geometries as well-known text.

use super::geometry::{self, DEPTH_MAX};
use super::shape::Shape;
use crate::search::coordinate;
use geozero::GeozeroGeometry as _;
use geozero::wkt::Wkt;

/// Parentheses around a position of a MultiPolygon.
const PARENTHESES_OF_A_GEOMETRY: usize = 3;

/// The shape of a geometry.
///
/// # Errors
/// The reason why the text has none.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the geometry is empty".to_owned());
    }
    if text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("SRID=")) {
        return Err("it is EWKT, whose SRID the index cannot store; write WKT (ST_AsText)".to_owned());
    }
    check_parentheses(text)?;
    check_numbers(text)?;
    check_parts(text)?;
    geometry::shape("WKT", |builder| Wkt(text).process_geom(builder))
}

/// Refuses text after the geometry, which the parser ignores, and depths at which it would exhaust the stack.
fn check_parentheses(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1).ok_or("it is not WKT: it has a ) without a (")?,
            0 => return Err("it is not WKT: it contains NUL".to_owned()),
            _ => continue,
        }
        if depth > DEPTH_MAX + PARENTHESES_OF_A_GEOMETRY {
            return Err(geometry::too_deep());
        }
        if depth == 0 && at + 1 < text.len() {
            return Err("it is not WKT: text follows the geometry".to_owned());
        }
    }
    let words = || text.split_ascii_whitespace();
    match depth {
        0 if text.ends_with(')') || words().last().is_some_and(|last| last.eq_ignore_ascii_case("EMPTY")) => {
            Ok(())
        }
        0 => Err("it is not WKT, such as POINT(1 2)".to_owned()),
        _ => Err("it is not WKT: it has a ( without a )".to_owned()),
    }
}

/// Refuses coordinates that 64 bits cannot hold: the parser would make them 0 or infinite.
fn check_numbers(text: &str) -> Result<(), String> {
    /// Numbers of a position that are coordinates; those after them are z and m, which are not stored.
    const COORDINATES: usize = 2;
    let is_number =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let positions = text.split(['(', ',', ')']);
    let mut numbers =
        positions.flat_map(|position| position.split_whitespace().filter(is_number).take(COORDINATES));
    // The parser reports a word that is not a number.
    numbers.try_for_each(|word| match word.parse::<f64>() {
        Ok(_) => coordinate(word).map(drop),
        Err(_) => Ok(()),
    })
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
        let (first, beyond) = shape(text)?.rectangles(CoordinateSystem::Degrees);
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
            ("POINT(1)", "not WKT"),
            ("POINT(1 2", "( without a )"),
            ("POINT(1 2))", "text follows"),
            ("POINT(1 2) POINT(3 4)", "text follows"),
            ("POINT(1 x)", "not WKT"),
            ("POINT(nan 2)", "not WKT"),
            ("POINT(1e999 2)", "'1e999' is not a finite number"),
            ("LINESTRING(1 2, 3 -1e-400)", "'-1e-400' is not 0, and closer to 0"),
            ("GEOMETRYCOLLECTION(POINT(1 2), LINESTRING EMPTY)", "a part of the geometry is EMPTY"),
            ("POLYGON((0 0, 4 0, 4 5, 0 0), empty)", "a part of the geometry is EMPTY"),
            ("MULTIPOINT(EMPTY)", "a part of the geometry is EMPTY"),
            ("CIRCULARSTRING(0 0, 1 1, 2 0)", "not WKT"),
            ("SRID=4326;POINT(1 2)", "ST_AsText"),
            ("1,2", "such as POINT(1 2)"),
            (&deep, "32 deep"),
        ] {
            let refused = rectangles(text).unwrap_err();
            assert!(refused.contains(why), "{text:.40}: {refused}");
        }
    }
}
