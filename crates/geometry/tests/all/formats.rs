//! WKB as GEOS writes it, WKT, and bytes and texts that are neither.

use farwood_geometry::{Geometry, GeometryError, WkbError, WktError, srid_of_wkb};
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// WKB that Shapely 2.2.0 (GEOS 3.14.1) wrote, with the text in two dimensions and the spatial reference.
const OF_GEOS: &[(&str, &str, Option<u32>)] = &[
    ("0101000000000000000000F03F0000000000000040", "POINT(1 2)", None),
    ("00000000013FF00000000000004000000000000000", "POINT(1 2)", None),
    ("01E9030000000000000000F03F00000000000000400000000000000840", "POINT(1 2)", None),
    ("0101000080000000000000F03F00000000000000400000000000000840", "POINT(1 2)", None),
    ("01B90B0000000000000000F03F000000000000004000000000000008400000000000001040", "POINT(1 2)", None),
    ("0101000040000000000000F03F00000000000000400000000000000840", "POINT(1 2)", None),
    ("0101000020E6100000000000000000F03F0000000000000040", "POINT(1 2)", Some(4326)),
    ("0101000000000000000000F87F000000000000F87F", "MULTIPOINT EMPTY", None),
    ("010300000000000000", "POLYGON EMPTY", None),
    (
        "0020000004000010E60000000200000000013FF000000000000040000000000000000000000001400800000000000040100000000000\
         00",
        "MULTIPOINT((1 2),(3 4))",
        Some(4326),
    ),
    (
        "010700008002000000010200008002000000000000000000000000000000000000000000000000001440000000000000F03F00000000\
         0000F03F000000000000144001010000800000000000001C4000000000000020400000000000002240",
        "GEOMETRYCOLLECTION(LINESTRING(0 0,1 1),POINT(7 8))",
        None,
    ),
];

#[test]
fn wkb_of_geos_is_read() {
    for (hex, text, srid) in OF_GEOS {
        let bytes = bytes(hex);
        assert_eq!(Geometry::from_wkb(&bytes).unwrap().to_string(), *text, "{hex}");
        assert_eq!(srid_of_wkb(&bytes), *srid, "{hex}");
    }
}

const TEXTS: &[&str] = &[
    "POINT(1 2.5)",
    "MULTIPOINT((1 2),(3 4))",
    "LINESTRING(0 0,-1 1e-7)",
    "MULTILINESTRING((0 0,1 1),(2 2,3 3))",
    "POLYGON((0 0,4 0,4 4,0 4,0 0),(1 1,2 1,2 2,1 1))",
    "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((2 2,3 2,3 3,2 2)))",
    "GEOMETRYCOLLECTION(POINT(1 2),GEOMETRYCOLLECTION(LINESTRING(0 0,1 1)))",
    "POLYGON EMPTY",
    "LINESTRING EMPTY",
    "MULTIPOLYGON EMPTY",
    "GEOMETRYCOLLECTION EMPTY",
];

#[test]
fn wkb_and_wkt_of_every_type_are_read_back() {
    for text in TEXTS {
        let geometry: Geometry = text.parse().unwrap();
        let printed: Geometry = geometry.to_string().parse().unwrap();
        assert_eq!(printed, geometry, "{text}");
        assert_eq!(Geometry::from_wkb(&geometry.to_wkb()).unwrap(), geometry, "{text}");
        let extended = geometry.to_ewkb(3857);
        assert_eq!(Geometry::from_wkb(&extended).unwrap(), geometry, "{text}");
        assert_eq!(srid_of_wkb(&extended), Some(3857));
    }
}

#[test]
fn wkt_of_other_writers_is_read() {
    let same = [
        (" point ( 1   2 ) ", "POINT(1 2)"),
        ("SRID=4326;POINT Z (1 2 3)", "POINT(1 2)"),
        ("POINTZM(1 2 3 4)", "POINT(1 2)"),
        ("POINT EMPTY", "MULTIPOINT EMPTY"),
        ("MULTIPOINT(1 2, 3 4)", "MULTIPOINT((1 2),(3 4))"),
        ("MULTIPOINT(EMPTY,(3 4))", "MULTIPOINT((3 4))"),
        ("LinearRing (0 0,1 0,1 1,0 0)", "LINESTRING(0 0,1 0,1 1,0 0)"),
        ("MultiPolygon Z EMPTY", "MULTIPOLYGON EMPTY"),
    ];
    for (text, printed) in same {
        assert_eq!(
            text.parse::<Geometry>().map(|geometry| geometry.to_string()).as_deref(),
            Ok(printed),
            "{text}"
        );
    }
}

#[test]
fn text_that_is_no_wkt_is_refused_with_its_column() {
    let refused = |text: &str, column: usize, part: &str| {
        let error = text.parse::<Geometry>().unwrap_err();
        let WktError::Syntax { column: found, .. } = error else { panic!("{text}: {error}") };
        assert_eq!(found, column, "{text}");
        assert!(error.to_string().contains(part), "{error}");
    };
    refused("", 1, "a type");
    refused("CIRCLE(1 2)", 1, "a type");
    refused("POINT X(1 2)", 7, "EMPTY");
    refused("CIRCLE EMPTY", 1, "a type");
    refused("POINT(1)", 8, "a number");
    refused("POINT(1 2", 10, "')'");
    refused("POINT(1 2) x", 12, "the end");
    refused("POINT(1 2 3 4 5)", 15, "')'");
    let nested = format!("{}POINT(1 2){}", "GEOMETRYCOLLECTION(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(nested.parse::<Geometry>(), Err(WktError::Geometry(GeometryError::Nesting)));
}

#[test]
fn coordinates_of_wkt_that_64_bits_cannot_hold_are_refused_with_their_text() {
    for (text, number, column, reason) in [
        ("POINT(1 inf)", "inf", 9, "is not a finite number"),
        ("POINT( nan 1)", "nan", 8, "is not a finite number"),
        ("POINT(1e400 2)", "1e400", 7, "is not a finite number"),
        ("LINESTRING(1 2,3 -1e-400)", "-1e-400", 18, "is not 0, and closer to 0"),
    ] {
        let error = text.parse::<Geometry>().unwrap_err();
        let WktError::Coordinate { column: found, text: shown, why } = &error else {
            panic!("{text}: {error}")
        };
        assert_eq!((*found, shown.as_str()), (column, number), "{text}");
        assert!(why.contains(reason), "{text}: {error}");
    }
    for text in ["POINT(0e-400 -0.0)", "POINT(5e-324 1e308)", "POINT ZM(1 2 1e400 1e-400)"] {
        assert!(text.parse::<Geometry>().is_ok(), "{text}");
    }
}

#[test]
fn broken_wkb_is_refused_with_its_offset() {
    let refused = |hex: &str| Geometry::from_wkb(&bytes(hex)).unwrap_err();
    assert_eq!(refused(""), WkbError::Truncated { offset: 0, needed: 1, available: 0 });
    assert_eq!(refused("02"), WkbError::ByteOrder { offset: 0, found: 2 });
    assert_eq!(refused("0101000000"), WkbError::Truncated { offset: 5, needed: 16, available: 0 });
    assert_eq!(refused("0108000000"), WkbError::Type { offset: 1, found: 8 });
    assert_eq!(refused("01A10F0000"), WkbError::Type { offset: 1, found: 4001 });
    // A multipoint with a polygon in it.
    assert_eq!(refused("010400000001000000010300000000000000"), WkbError::Type { offset: 10, found: 3 });
    assert_eq!(refused("01030000000000000000"), WkbError::Trailing { bytes: 1 });
    let nan = refused("0102000000020000000000000000000000000000000000F87F00000000000000000000000000000000");
    assert!(matches!(nan, WkbError::Geometry(GeometryError::NotFinite { .. })), "{nan}");
}

#[test]
fn counts_that_the_bytes_cannot_hold_allocate_nothing() {
    // A line, a polygon, a polygon's ring and a collection of 2^32 - 1 elements.
    for hex in
        ["0102000000FFFFFFFF", "0103000000FFFFFFFF", "010300000001000000FFFFFFFF", "0107000000FFFFFFFF"]
    {
        let error = Geometry::from_wkb(&bytes(hex)).unwrap_err();
        assert!(matches!(error, WkbError::Truncated { .. }), "{hex}: {error}");
    }
    let nested = bytes("010700000001000000").repeat(100_000);
    assert!(matches!(Geometry::from_wkb(&nested), Err(WkbError::Geometry(GeometryError::Nesting))));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        text in 0..TEXTS.len(),
    ) {
        let _ = Geometry::from_wkb(&bytes);
        // Bytes that are almost right reach further.
        let mut almost = TEXTS[text].parse::<Geometry>().unwrap().to_wkb();
        for (at, byte) in bytes.into_iter().enumerate().step_by(7) {
            let at = at % almost.len();
            almost[at] = byte % 9;
        }
        if let Ok(geometry) = Geometry::from_wkb(&almost) {
            prop_assert_eq!(Geometry::from_wkb(&geometry.to_wkb()).unwrap(), geometry);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[A-Z (),.0-9eéN-]{0,40}", kind in 0..TEXTS.len()) {
        let _ = text.parse::<Geometry>();
        let whole = TEXTS[kind];
        let cut = whole.len().min(text.len());
        let _ = format!("{}{text}", &whole[..cut]).parse::<Geometry>();
    }
}
