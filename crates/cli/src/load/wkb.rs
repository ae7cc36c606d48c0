//! Geometries as well-known binary, with the header of GeoPackage or without.

use super::geometry::Shaped;
use farwood_geometry::Geometry;

/// Bytes of the header of a geometry of GeoPackage, before its envelope.
#[cfg(feature = "geopackage")]
const GEOPACKAGE_HEADER_BYTES: usize = 8;

/// Reads a geometry that is ISO WKB or EWKB.
///
/// # Errors
/// The bytes are not a geometry, or a part of it is empty.
pub(super) fn read(bytes: &[u8]) -> Result<Shaped, String> {
    Shaped::new(Geometry::from_wkb(bytes).map_err(|error| error.to_string())?)
}

/// Reads a geometry of a GeoPackage: a header with an envelope, and WKB.
///
/// # Errors
/// As [`read`].
#[cfg(feature = "geopackage")]
pub(super) fn read_of_geopackage(bytes: &[u8]) -> Result<Shaped, String> {
    let not = || "it is not a geometry of a GeoPackage".to_owned();
    let [b'G', b'P', _, flags, ..] = bytes else { return Err(not()) };
    let envelope_bytes = match flags >> 1 & 0b111 {
        0 => 0,
        1 => 32,
        2 | 3 => 48,
        4 => 64,
        _ => return Err(not()),
    };
    read(bytes.get(GEOPACKAGE_HEADER_BYTES + envelope_bytes..).ok_or_else(not)?)
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

    fn bounds(shaped: Result<Shaped, String>) -> Result<String, String> {
        Ok(shaped?.bounds.rectangles(CoordinateSystem::Degrees)?.0.to_string())
    }

    #[test]
    fn geometries_have_bounds_in_both_dialects() {
        let line = wkb_of(2, &[2], &[1.0, 9.0, -2.0, 3.0]);
        assert_eq!(bounds(read(&line)).as_deref(), Ok("-2,3,1,9"));
        assert_eq!(bounds(read(&wkb_of(1001, &[], &[1.0, 2.0, 300.0]))).as_deref(), Ok("1,2,1,2"));
        let ewkb = wkb_of(0xA000_0001, &[4326], &[1.0, 2.0, 300.0]);
        assert_eq!(bounds(read(&ewkb)).as_deref(), Ok("1,2,1,2"));
        let big_endian = [&[0, 0, 0, 0, 1][..], &1.0_f64.to_be_bytes(), &2.0_f64.to_be_bytes()].concat();
        assert_eq!(bounds(read(&big_endian)).as_deref(), Ok("1,2,1,2"));
        for (flags, envelope_bytes) in [(1, 0), (3, 32), (0, 0), (9, 64)] {
            let blob = [&[b'G', b'P', 0, flags, 0, 0, 0, 0][..], &vec![0; envelope_bytes], &line].concat();
            assert_eq!(bounds(read_of_geopackage(&blob)).as_deref(), Ok("-2,3,1,9"), "{flags}");
        }
    }

    #[test]
    fn other_bytes_are_refused_with_the_reason() {
        let line = wkb_of(2, &[2], &[1.0, 9.0, -2.0, 3.0]);
        let deep = wkb_of(7, &[1], &[]).repeat(100_000);
        for (bytes, why) in [
            (&b""[..], "ends early"),
            (b"\x07\0\0\0\0", "byte order"),
            (&line[..line.len() - 1], "ends early"),
            (&[&line[..], &[0]].concat(), "bytes follow"),
            (&wkb_of(99, &[], &[]), "a geometry of type 99"),
            (&wkb_of(1, &[], &[f64::NAN, f64::NAN]), "no coordinates"),
            (&wkb_of(1, &[], &[f64::NAN, 1.0]), "finite"),
            (&wkb_of(2, &[u32::MAX], &[1.0, 2.0]), "ends early"),
            (&wkb_of(8, &[2], &[0.0, 0.0, 1.0, 1.0]), "a geometry of type 8"),
            (&deep, "32 levels deep"),
        ] {
            let refused = bounds(read(bytes)).unwrap_err();
            assert!(refused.contains(why), "{why}: {refused}");
        }
        for bytes in
            [&b"GP"[..], b"GP\0\x01\0\0\0", b"XX\0\x01\0\0\0\0", b"GP\0\x0F\0\0\0\0", b"GP\0\x03\0\0\0\0\0"]
        {
            assert!(bounds(read_of_geopackage(bytes)).is_err(), "{bytes:?}");
        }
    }
}
