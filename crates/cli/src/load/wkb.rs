//! Geometries as well-known binary, with the header of GeoPackage or without.

use super::geometry;
use super::shape::Shape;
use geozero::wkb;

/// Bits of a type of EWKB: it has z, m or an SRID.
#[cfg(feature = "geoparquet")]
const EWKB_FLAGS: u32 = 0xE000_0000;

/// Bytes of the header of a geometry of GeoPackage, before its envelope.
#[cfg(feature = "geopackage")]
const GEOPACKAGE_HEADER_BYTES: usize = 8;

/// The shape of a geometry as ISO WKB, or as EWKB, which some programs write for z.
///
/// # Errors
/// The reason why the bytes have none.
#[cfg(feature = "geoparquet")]
pub(super) fn shape(bytes: &[u8]) -> Result<Shape, String> {
    let kind = match bytes {
        [0, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
        [1, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]),
        _ => return Err("it is not WKB: its byte order is neither 0 nor 1".to_owned()),
    };
    let mut rest = bytes;
    let shape = geometry::shape("WKB", |builder| {
        if kind & EWKB_FLAGS == 0 {
            wkb::process_wkb_geom(&mut rest, builder)
        } else {
            wkb::process_ewkb_geom(&mut rest, builder)
        }
    });
    whole(rest, shape)
}

/// The shape of a geometry of a GeoPackage: a header with an envelope, and ISO WKB.
///
/// # Errors
/// The reason why the bytes have none.
#[cfg(feature = "geopackage")]
pub(super) fn geopackage_shape(bytes: &[u8]) -> Result<Shape, String> {
    let not = || "it is not a geometry of a GeoPackage".to_owned();
    let [b'G', b'P', _, flags, ..] = bytes else { return Err(not()) };
    let envelope_bytes = match flags >> 1 & 0b111 {
        0 => 0,
        1 => 32,
        2 | 3 => 48,
        4 => 64,
        _ => return Err(not()),
    };
    let mut rest = bytes.get(GEOPACKAGE_HEADER_BYTES + envelope_bytes..).ok_or_else(not)?;
    let shape = geometry::shape("WKB", |builder| wkb::process_wkb_geom(&mut rest, builder));
    whole(rest, shape)
}

/// Refuses bytes after the geometry.
fn whole(rest: &[u8], shape: Result<Shape, String>) -> Result<Shape, String> {
    let shape = shape?;
    if rest.is_empty() { Ok(shape) } else { Err("it is not WKB: bytes follow the geometry".to_owned()) }
}

#[cfg(all(test, feature = "geoparquet", feature = "geopackage"))]
mod tests {
    use super::*;
    use farwood::spatial::CoordinateSystem;

    /// WKB of a type, with words and numbers after it.
    fn wkb_of(kind: u32, words: &[u32], numbers: &[f64]) -> Vec<u8> {
        let words = [kind].into_iter().chain(words.iter().copied()).flat_map(u32::to_le_bytes);
        [1].into_iter().chain(words).chain(numbers.iter().flat_map(|number| number.to_le_bytes())).collect()
    }

    fn bounds(shape: Result<Shape, String>) -> Result<String, String> {
        Ok(shape?.rectangles(CoordinateSystem::Degrees).0.to_string())
    }

    #[test]
    fn geometries_have_bounds_in_both_dialects() {
        let line = wkb_of(2, &[2], &[1.0, 9.0, -2.0, 3.0]);
        assert_eq!(bounds(shape(&line)).as_deref(), Ok("-2,3,1,9"));
        assert_eq!(bounds(shape(&wkb_of(1001, &[], &[1.0, 2.0, 300.0]))).as_deref(), Ok("1,2,1,2"));
        let ewkb = wkb_of(0xA000_0001, &[4326], &[1.0, 2.0, 300.0]);
        assert_eq!(bounds(shape(&ewkb)).as_deref(), Ok("1,2,1,2"));
        let big_endian = [&[0, 0, 0, 0, 1][..], &1.0_f64.to_be_bytes(), &2.0_f64.to_be_bytes()].concat();
        assert_eq!(bounds(shape(&big_endian)).as_deref(), Ok("1,2,1,2"));
        for (flags, envelope_bytes) in [(1, 0), (3, 32), (0, 0), (9, 64)] {
            let blob = [&[b'G', b'P', 0, flags, 0, 0, 0, 0][..], &vec![0; envelope_bytes], &line].concat();
            assert_eq!(bounds(geopackage_shape(&blob)).as_deref(), Ok("-2,3,1,9"), "{flags}");
        }
    }

    #[test]
    fn other_bytes_are_refused_with_the_reason() {
        let line = wkb_of(2, &[2], &[1.0, 9.0, -2.0, 3.0]);
        let deep = wkb_of(7, &[1], &[]).repeat(100_000);
        for (bytes, why) in [
            (&b""[..], "byte order"),
            (b"\x07\0\0\0\0", "byte order"),
            (&line[..line.len() - 1], "ends too early"),
            (&[&line[..], &[0]].concat(), "bytes follow"),
            (&wkb_of(99, &[], &[]), "not WKB"),
            (&wkb_of(1, &[], &[f64::NAN, f64::NAN]), "no coordinates"),
            (&wkb_of(1, &[], &[f64::NAN, 1.0]), "finite"),
            (&wkb_of(2, &[u32::MAX], &[1.0, 2.0]), "ends too early"),
            (&wkb_of(8, &[2], &[0.0, 0.0, 1.0, 1.0]), "curves"),
            (&deep, "32 deep"),
        ] {
            let refused = bounds(shape(bytes)).unwrap_err();
            assert!(refused.contains(why), "{why}: {refused}");
        }
        for bytes in
            [&b"GP"[..], b"GP\0\x01\0\0\0", b"XX\0\x01\0\0\0\0", b"GP\0\x0F\0\0\0\0", b"GP\0\x03\0\0\0\0\0"]
        {
            assert!(bounds(geopackage_shape(bytes)).is_err(), "{bytes:?}");
        }
    }
}
