//! Well-known text: reading and printing.
//!
//! The reader accepts any case, white space, `Z`, `M` and `ZM` (whose numbers it drops), `EMPTY`, and points of a
//! multipoint with and without parentheses. It refuses coordinates that 64 bits cannot hold. It accepts and drops the
//! prefix `SRID=n;` of PostGIS.

use std::fmt;

use geo_types::{
    Coord, Geometry as Shape, GeometryCollection, LineString, MultiLineString, MultiPoint, MultiPolygon,
    Point, Polygon,
};
use thiserror::Error;

use crate::geometry::{Geometry, GeometryError, NESTING_MAX, point_or_empty, polygon};

/// Text that is not WKT.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WktError {
    /// Other text than the grammar demands.
    #[error("column {column} of the WKT: {expected} is expected, and '{found}' is there")]
    Syntax {
        /// The position of the text, in bytes, from 1.
        column: usize,
        /// The text that the grammar demands.
        expected: &'static str,
        /// The text.
        found: String,
    },
    /// A coordinate that 64 bits cannot hold: it is infinite, not a number, or not 0 and becomes 0.
    #[error("column {column} of the WKT: '{text}' {why}")]
    Coordinate {
        /// The position of the number, in bytes, from 1.
        column: usize,
        /// The number in the text.
        text: String,
        /// The reason and the limit.
        why: String,
    },
    /// The text describes a geometry that [`Geometry`] refuses.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

impl std::str::FromStr for Geometry {
    type Err = WktError;

    fn from_str(text: &str) -> Result<Self, WktError> {
        let mut reader = WktReader { text, offset: 0 };
        reader.skip_srid();
        let shape = reader.geometry(0)?;
        reader.skip_space();
        if reader.offset < text.len() {
            return Err(reader.expected("the end of the text"));
        }
        Ok(Self::new(shape)?)
    }
}

struct WktReader<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> WktReader<'t> {
    fn geometry(&mut self, depth: usize) -> Result<Shape<f64>, WktError> {
        if depth > NESTING_MAX {
            return Err(GeometryError::Nesting.into());
        }
        self.skip_space();
        let start = self.offset;
        let mut kind = self.word().to_ascii_uppercase();
        // `POINTZ` and `POINT Z` mean the same.
        if let Some(plain) = ["ZM", "Z", "M"].iter().find_map(|tag| kind.strip_suffix(tag)) {
            kind = plain.to_string();
        } else if !matches!(self.peek_word().to_ascii_uppercase().as_str(), "" | "EMPTY") {
            self.dimension()?;
        }
        Ok(match kind.as_str() {
            "POINT" => point_or_empty(self.list(Self::position)?.and_then(|points| points.first().copied())),
            "MULTIPOINT" => Shape::MultiPoint(MultiPoint(self.points()?)),
            "LINESTRING" | "LINEARRING" => Shape::LineString(self.line()?),
            "MULTILINESTRING" => Shape::MultiLineString(MultiLineString(self.elements(Self::line)?)),
            "POLYGON" => Shape::Polygon(self.polygon()?),
            "MULTIPOLYGON" => Shape::MultiPolygon(MultiPolygon(self.elements(Self::polygon)?)),
            "GEOMETRYCOLLECTION" => {
                let parts = self.elements(|reader| reader.geometry(depth + 1))?;
                Shape::GeometryCollection(GeometryCollection(parts))
            }
            _ => {
                self.offset = start;
                return Err(self.expected("a type such as POINT, LINESTRING or POLYGON"));
            }
        })
    }

    fn dimension(&mut self) -> Result<(), WktError> {
        match self.peek_word().to_ascii_uppercase().as_str() {
            "Z" | "M" | "ZM" => {
                self.word();
                Ok(())
            }
            _ => Err(self.expected("'(', EMPTY, Z, M or ZM")),
        }
    }

    fn points(&mut self) -> Result<Vec<Point<f64>>, WktError> {
        let points = self.elements(|reader| {
            if reader.peek() == Some('(') || reader.peek_word().eq_ignore_ascii_case("EMPTY") {
                Ok(reader.list(Self::position)?.and_then(|points| points.first().copied()))
            } else {
                reader.position().map(Some)
            }
        })?;
        Ok(points.into_iter().flatten().map(Point).collect())
    }

    fn line(&mut self) -> Result<LineString<f64>, WktError> {
        Ok(LineString(self.elements(Self::position)?))
    }

    fn polygon(&mut self) -> Result<Polygon<f64>, WktError> {
        Ok(polygon(self.elements(Self::line)?)?)
    }

    /// Reads a list that may be `EMPTY`.
    fn elements<T>(
        &mut self,
        read: impl FnMut(&mut Self) -> Result<T, WktError>,
    ) -> Result<Vec<T>, WktError> {
        Ok(self.list(read)?.unwrap_or_default())
    }

    /// Reads `(element, ..)`; `None` for `EMPTY`.
    fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, WktError>,
    ) -> Result<Option<Vec<T>>, WktError> {
        if self.peek_word().eq_ignore_ascii_case("EMPTY") {
            self.word();
            return Ok(None);
        }
        self.symbol('(', "'(' or EMPTY")?;
        let mut elements = vec![read(self)?];
        while self.peek() == Some(',') {
            self.offset += 1;
            elements.push(read(self)?);
        }
        self.symbol(')', "',' or ')'")?;
        Ok(Some(elements))
    }

    /// Reads two to four numbers, and keeps two.
    fn position(&mut self) -> Result<Coord<f64>, WktError> {
        let at = Coord { x: self.coordinate()?, y: self.coordinate()? };
        for _ in 0..2 {
            if matches!(self.peek(), Some(next) if next != ',' && next != ')') {
                self.number()?;
            }
        }
        Ok(at)
    }

    /// Reads a number that 64 bits can hold.
    fn coordinate(&mut self) -> Result<f64, WktError> {
        self.skip_space();
        let start = self.offset;
        let number = self.number()?;
        let text = &self.text[start..self.offset];
        let why = if !number.is_finite() {
            format!("is not a finite number; the largest is {:e}", f64::MAX)
        } else if number == 0.0 && !is_zero(text) {
            format!(
                "is not 0, and closer to 0 than any number of 64 bits; the smallest is {:e}",
                f64::from_bits(1)
            )
        } else {
            return Ok(number);
        };
        Err(WktError::Coordinate { column: start + 1, text: text.to_owned(), why })
    }

    fn number(&mut self) -> Result<f64, WktError> {
        self.skip_space();
        let rest = &self.text[self.offset..];
        let end = rest.find([',', '(', ')']).unwrap_or(rest.len());
        let token = rest[..end].split_whitespace().next().unwrap_or_default();
        let number = token.parse().map_err(|_| self.expected("a number"))?;
        self.offset += token.len();
        Ok(number)
    }

    fn symbol(&mut self, symbol: char, expected: &'static str) -> Result<(), WktError> {
        if self.peek() != Some(symbol) {
            return Err(self.expected(expected));
        }
        self.offset += symbol.len_utf8();
        Ok(())
    }

    /// The next character that is no white space.
    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.offset..].chars().next()
    }

    /// The next letters; empty if something else follows.
    fn peek_word(&mut self) -> &'t str {
        self.skip_space();
        let rest = &self.text[self.offset..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        &rest[..end]
    }

    fn word(&mut self) -> &'t str {
        let word = self.peek_word();
        self.offset += word.len();
        word
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.offset..];
        self.offset += rest.len() - rest.trim_start().len();
    }

    fn skip_srid(&mut self) {
        let trimmed = self.text.trim_start();
        let is_srid = trimmed.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("SRID="));
        if let Some(end) = self.text.find(';').filter(|_| is_srid) {
            self.offset = end + 1;
        }
    }

    fn expected(&self, expected: &'static str) -> WktError {
        /// Characters of the text that an error shows.
        const SHOWN: usize = 20;
        let found = self.text[self.offset..].chars().take(SHOWN).collect();
        WktError::Syntax { column: self.offset + 1, expected, found }
    }
}

/// Whether a number has no digit but 0 before its exponent.
fn is_zero(text: &str) -> bool {
    !text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Prints WKT, with the shortest numbers that are read back as the same values.
impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.shape())
    }
}

fn print(f: &mut fmt::Formatter<'_>, shape: &Shape<f64>) -> fmt::Result {
    match shape {
        Shape::Point(point) => {
            f.write_str("POINT")?;
            print_list(f, [point.0], print_position)
        }
        Shape::MultiPoint(points) => {
            f.write_str("MULTIPOINT")?;
            print_list(f, points.iter().map(|point| [point.0]), |f, at| print_list(f, at, print_position))
        }
        Shape::LineString(line) => {
            f.write_str("LINESTRING")?;
            print_line(f, line)
        }
        Shape::MultiLineString(lines) => {
            f.write_str("MULTILINESTRING")?;
            print_list(f, lines, print_line)
        }
        Shape::Polygon(polygon) => {
            f.write_str("POLYGON")?;
            print_polygon(f, polygon)
        }
        Shape::MultiPolygon(polygons) => {
            f.write_str("MULTIPOLYGON")?;
            print_list(f, polygons, print_polygon)
        }
        Shape::GeometryCollection(parts) => {
            f.write_str("GEOMETRYCOLLECTION")?;
            print_list(f, parts, print)
        }
        // Cannot fail: `Geometry::new` is the only constructor.
        Shape::Line(_) | Shape::Rect(_) | Shape::Triangle(_) => {
            unreachable!("`Geometry::new` replaces these types")
        }
    }
}

fn print_list<'f, T>(
    f: &mut fmt::Formatter<'f>,
    elements: impl IntoIterator<Item = T>,
    print: impl Fn(&mut fmt::Formatter<'f>, T) -> fmt::Result,
) -> fmt::Result {
    let mut elements = elements.into_iter();
    let Some(first) = elements.next() else { return f.write_str(" EMPTY") };
    f.write_str("(")?;
    print(f, first)?;
    for element in elements {
        f.write_str(",")?;
        print(f, element)?;
    }
    f.write_str(")")
}

fn print_polygon(f: &mut fmt::Formatter<'_>, polygon: &Polygon<f64>) -> fmt::Result {
    let shell = Some(polygon.exterior()).filter(|shell| !shell.0.is_empty());
    print_list(f, shell.into_iter().chain(polygon.interiors()), print_line)
}

fn print_line(f: &mut fmt::Formatter<'_>, line: &LineString<f64>) -> fmt::Result {
    print_list(f, line.coords().copied(), print_position)
}

fn print_position(f: &mut fmt::Formatter<'_>, at: Coord<f64>) -> fmt::Result {
    write!(f, "{} {}", at.x, at.y)
}
