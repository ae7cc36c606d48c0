//! Well-known binary: the ISO form and the extended form of PostGIS and GEOS (EWKB), in both byte orders.
//!
//! The reader drops Z and M. It allocates in proportion to the bytes that it has, whatever counts they state, and
//! limits the nesting of collections. The writer writes little-endian ISO WKB in two dimensions, and EWKB if the caller
//! gives a spatial reference.

use geo_types::{
    Coord, Geometry as Shape, GeometryCollection, LineString, MultiLineString, MultiPoint, MultiPolygon,
    Point, Polygon,
};
use thiserror::Error;

use crate::geometry::{Geometry, GeometryError, NESTING_MAX, point_or_empty, polygon};

const POINT: u32 = 1;
const LINE: u32 = 2;
const POLYGON: u32 = 3;
const MULTI_POINT: u32 = 4;
const MULTI_LINE: u32 = 5;
const MULTI_POLYGON: u32 = 6;
const COLLECTION: u32 = 7;

/// Flags of EWKB in the type.
const FLAG_Z: u32 = 1 << 31;
const FLAG_M: u32 = 1 << 30;
const FLAG_SRID: u32 = 1 << 29;
/// The number that ISO WKB adds to the type per further dimension: Z 1000, M 2000, both 3000.
const ISO_DIMENSION: u32 = 1000;

/// Bytes of the smallest geometry inside another: byte order, type and a count.
const PART_BYTES_MIN: usize = 9;

/// Bytes that are not WKB.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WkbError {
    /// The bytes end inside the geometry, or a count states more than the bytes that follow can hold.
    #[error("the WKB ends early: byte {offset} and later need {needed} bytes, and {available} are there")]
    Truncated {
        /// The offset of the first byte that is needed.
        offset: usize,
        /// The bytes that the geometry needs there.
        needed: usize,
        /// The bytes that are there.
        available: usize,
    },
    /// A byte order that is neither 0 nor 1.
    #[error("byte {offset} of the WKB is {found}; a byte order is 0 or 1")]
    ByteOrder {
        /// The offset of the byte.
        offset: usize,
        /// Its value.
        found: u8,
    },
    /// A type that is none of the seven types of Simple Features, or another than its parent allows.
    #[error(
        "the WKB has a geometry of type {found} at byte {offset}; points, lines, polygons and collections of \
             them are supported, and a part of a multi-geometry has its type"
    )]
    Type {
        /// The offset of the type.
        offset: usize,
        /// The type with its flags.
        found: u32,
    },
    /// Bytes after the geometry.
    #[error("{bytes} bytes follow the geometry in the WKB")]
    Trailing {
        /// The number of bytes.
        bytes: usize,
    },
    /// The bytes describe a geometry that [`Geometry`] refuses.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

impl Geometry {
    /// Reads ISO WKB or EWKB. Z and M are dropped; [`srid_of_wkb`] yields the spatial reference. A point of two NaN is
    /// an empty point.
    ///
    /// # Errors
    /// [`WkbError`] with the offset of the first byte that is wrong.
    pub fn from_wkb(bytes: &[u8]) -> Result<Self, WkbError> {
        let mut reader = WkbReader { bytes, offset: 0 };
        let shape = reader.geometry(None, 0)?;
        match bytes.len() - reader.offset {
            0 => Ok(Self::new(shape)?),
            bytes => Err(WkbError::Trailing { bytes }),
        }
    }

    /// Writes little-endian ISO WKB.
    pub fn to_wkb(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, self.shape(), None);
        bytes
    }

    /// Writes little-endian EWKB with a spatial reference.
    pub fn to_ewkb(&self, srid: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, self.shape(), Some(srid));
        bytes
    }
}

/// The spatial reference of EWKB. `None`: the bytes have none, or are no WKB.
pub fn srid_of_wkb(bytes: &[u8]) -> Option<u32> {
    WkbReader { bytes, offset: 0 }.header().ok()?.srid
}

struct WkbReader<'b> {
    bytes: &'b [u8],
    offset: usize,
}

/// The beginning of a geometry.
struct WkbHeader {
    order: ByteOrder,
    kind: u32,
    /// The offset and the value of the type, for errors.
    offset: usize,
    found: u32,
    /// Numbers of a position.
    dimensions: usize,
    srid: Option<u32>,
}

#[derive(Clone, Copy)]
enum ByteOrder {
    Big,
    Little,
}

impl WkbReader<'_> {
    /// Reads one geometry: `expected` is the type that its parent demands.
    fn geometry(&mut self, expected: Option<u32>, depth: usize) -> Result<Shape<f64>, WkbError> {
        if depth > NESTING_MAX {
            return Err(GeometryError::Nesting.into());
        }
        let header = self.header()?;
        let wrong = WkbError::Type { offset: header.offset, found: header.found };
        if expected.is_some_and(|expected| expected != header.kind) {
            return Err(wrong);
        }
        Ok(match header.kind {
            POINT => point_or_empty(self.point(&header)?),
            LINE => Shape::LineString(self.line(&header)?),
            POLYGON => Shape::Polygon(self.polygon(&header)?),
            MULTI_POINT => Shape::MultiPoint(MultiPoint(self.points(&header, depth)?)),
            MULTI_LINE => Shape::MultiLineString(MultiLineString(self.lines(&header, depth)?)),
            MULTI_POLYGON => Shape::MultiPolygon(MultiPolygon(self.polygons(&header, depth)?)),
            COLLECTION => Shape::GeometryCollection(GeometryCollection(self.parts(&header, None, depth)?)),
            _ => return Err(wrong),
        })
    }

    fn header(&mut self) -> Result<WkbHeader, WkbError> {
        let at = self.offset;
        let order = match self.take::<1>()? {
            [0] => ByteOrder::Big,
            [1] => ByteOrder::Little,
            [found] => return Err(WkbError::ByteOrder { offset: at, found }),
        };
        let offset = self.offset;
        let found = self.u32(order)?;
        let plain = found & !(FLAG_Z | FLAG_M | FLAG_SRID);
        let iso = plain / ISO_DIMENSION;
        let (z, m) =
            (found & FLAG_Z != 0 || iso == 1 || iso == 3, found & FLAG_M != 0 || iso == 2 || iso == 3);
        if iso > 3 {
            return Err(WkbError::Type { offset, found });
        }
        let srid = if found & FLAG_SRID == 0 { None } else { Some(self.u32(order)?) };
        let dimensions = 2 + usize::from(z) + usize::from(m);
        Ok(WkbHeader { order, kind: plain % ISO_DIMENSION, offset, found, dimensions, srid })
    }

    /// Reads a point; `None`: it is empty.
    fn point(&mut self, header: &WkbHeader) -> Result<Option<Coord<f64>>, WkbError> {
        let at = position_of(&self.take::<16>()?, header.order);
        for _ in 2..header.dimensions {
            self.take::<8>()?;
        }
        Ok(if at.x.is_nan() && at.y.is_nan() { None } else { Some(at) })
    }

    fn line(&mut self, header: &WkbHeader) -> Result<LineString<f64>, WkbError> {
        let position_bytes = header.dimensions * size_of::<f64>();
        let count = self.count(header.order, position_bytes)?;
        let bytes = self.bytes.get(self.offset..).and_then(|left| left.get(..count * position_bytes));
        self.offset += count * position_bytes;
        let positions = bytes.unwrap_or_default().chunks_exact(position_bytes);
        Ok(LineString(positions.map(|position| position_of(position, header.order)).collect()))
    }

    fn polygon(&mut self, header: &WkbHeader) -> Result<Polygon<f64>, WkbError> {
        let count = self.count(header.order, size_of::<u32>())?;
        let rings: Vec<_> = (0..count).map(|_| self.line(header)).collect::<Result<_, _>>()?;
        Ok(polygon(rings)?)
    }

    fn points(&mut self, header: &WkbHeader, depth: usize) -> Result<Vec<Point<f64>>, WkbError> {
        let parts = self.parts(header, Some(POINT), depth)?;
        let point = |part| if let Shape::Point(point) = part { Some(point) } else { None };
        Ok(parts.into_iter().filter_map(point).collect())
    }

    fn lines(&mut self, header: &WkbHeader, depth: usize) -> Result<Vec<LineString<f64>>, WkbError> {
        let parts = self.parts(header, Some(LINE), depth)?;
        let line = |part| if let Shape::LineString(line) = part { Some(line) } else { None };
        Ok(parts.into_iter().filter_map(line).collect())
    }

    fn polygons(&mut self, header: &WkbHeader, depth: usize) -> Result<Vec<Polygon<f64>>, WkbError> {
        let parts = self.parts(header, Some(POLYGON), depth)?;
        let polygon = |part| if let Shape::Polygon(polygon) = part { Some(polygon) } else { None };
        Ok(parts.into_iter().filter_map(polygon).collect())
    }

    fn parts(
        &mut self,
        header: &WkbHeader,
        expected: Option<u32>,
        depth: usize,
    ) -> Result<Vec<Shape<f64>>, WkbError> {
        let count = self.count(header.order, PART_BYTES_MIN)?;
        (0..count).map(|_| self.geometry(expected, depth + 1)).collect()
    }

    /// Reads a count of elements, each of at least `bytes_min` bytes.
    fn count(&mut self, order: ByteOrder, bytes_min: usize) -> Result<usize, WkbError> {
        let count = self.u32(order)? as usize;
        let (needed, available) = (count.saturating_mul(bytes_min), self.bytes.len() - self.offset);
        if needed > available {
            return Err(WkbError::Truncated { offset: self.offset, needed, available });
        }
        Ok(count)
    }

    fn u32(&mut self, order: ByteOrder) -> Result<u32, WkbError> {
        Ok(match order {
            ByteOrder::Big => u32::from_be_bytes(self.take()?),
            ByteOrder::Little => u32::from_le_bytes(self.take()?),
        })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], WkbError> {
        let left = self.bytes.get(self.offset..).unwrap_or_default();
        let Some((bytes, _)) = left.split_first_chunk::<N>() else {
            return Err(WkbError::Truncated { offset: self.offset, needed: N, available: left.len() });
        };
        self.offset += N;
        Ok(*bytes)
    }
}

/// The position at the beginning of the bytes, of which at least 16 are there; Z and M are dropped.
fn position_of(bytes: &[u8], order: ByteOrder) -> Coord<f64> {
    let number = |at: usize| {
        let number = bytes.get(at..).and_then(|left| left.first_chunk()).copied().unwrap_or_default();
        match order {
            ByteOrder::Big => f64::from_be_bytes(number),
            ByteOrder::Little => f64::from_le_bytes(number),
        }
    };
    Coord { x: number(0), y: number(size_of::<f64>()) }
}

fn write(bytes: &mut Vec<u8>, shape: &Shape<f64>, srid: Option<u32>) {
    match shape {
        Shape::Point(point) => {
            write_header(bytes, POINT, srid);
            write_position(bytes, point.0);
        }
        Shape::LineString(line) => {
            write_header(bytes, LINE, srid);
            write_line(bytes, line);
        }
        Shape::Polygon(polygon) => write_polygon(bytes, polygon, srid),
        Shape::MultiPoint(points) => {
            write_parts(bytes, MULTI_POINT, srid, points.0.iter().map(|point| Shape::Point(*point)));
        }
        Shape::MultiLineString(lines) => {
            write_parts(bytes, MULTI_LINE, srid, lines.0.iter().cloned().map(Shape::LineString));
        }
        Shape::MultiPolygon(polygons) => {
            write_parts(bytes, MULTI_POLYGON, srid, polygons.0.iter().cloned().map(Shape::Polygon));
        }
        Shape::GeometryCollection(parts) => write_parts(bytes, COLLECTION, srid, parts.0.iter().cloned()),
        // Cannot fail: `Geometry::new` is the only constructor.
        Shape::Line(_) | Shape::Rect(_) | Shape::Triangle(_) => {
            unreachable!("`Geometry::new` replaces these types")
        }
    }
}

fn write_header(bytes: &mut Vec<u8>, kind: u32, srid: Option<u32>) {
    bytes.push(1);
    bytes.extend(srid.map_or(kind, |_| kind | FLAG_SRID).to_le_bytes());
    bytes.extend(srid.into_iter().flat_map(u32::to_le_bytes));
}

fn write_parts(
    bytes: &mut Vec<u8>,
    kind: u32,
    srid: Option<u32>,
    parts: impl ExactSizeIterator<Item = Shape<f64>>,
) {
    write_header(bytes, kind, srid);
    write_count(bytes, parts.len());
    for part in parts {
        write(bytes, &part, None);
    }
}

fn write_polygon(bytes: &mut Vec<u8>, polygon: &Polygon<f64>, srid: Option<u32>) {
    write_header(bytes, POLYGON, srid);
    if polygon.exterior().0.is_empty() {
        return write_count(bytes, 0);
    }
    write_count(bytes, 1 + polygon.interiors().len());
    for ring in std::iter::once(polygon.exterior()).chain(polygon.interiors()) {
        write_line(bytes, ring);
    }
}

fn write_line(bytes: &mut Vec<u8>, line: &LineString<f64>) {
    write_count(bytes, line.0.len());
    line.coords().for_each(|at| write_position(bytes, *at));
}

fn write_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend((count as u32).to_le_bytes());
}

fn write_position(bytes: &mut Vec<u8>, at: Coord<f64>) {
    bytes.extend(at.x.to_le_bytes());
    bytes.extend(at.y.to_le_bytes());
}
