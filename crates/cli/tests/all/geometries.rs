//! Rectangles from geometries: WKT columns, Shapefiles, and files that are recognised by their contents.

use crate::machine::Machine;
use serde_json::json;
use shapefile::{Multipoint, Point, PointZ, Polygon, PolygonRing, Polyline, ShapeWriter};
use std::io::Cursor;

/// A pool with the index `s` of degrees.
pub(crate) fn with_degrees() -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/s", "--index", "catfish", "--crs", "degrees"]);
    machine
}

/// All rectangles of the index `s`, in order.
pub(crate) fn all(machine: &Machine) -> Vec<String> {
    let out = machine.run(&["search", "shm://p/s", "--bbox", "-180,-90,180,90"]).out;
    let mut rows: Vec<_> = out.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// Two polygons on either side of the antimeridian, as WKT.
pub(crate) const FIJI: &str = "MULTIPOLYGON(((180 -17,180 -16,177 -16,177 -17,180 -17)),\
                               ((-178 -17,-178 -16,-180 -16,-180 -17,-178 -17)))";

#[test]
fn geometries_are_read_from_a_column_of_wkt() {
    let rows = format!("name,geom,id\nFiji,\"{FIJI}\",242\nParis,POINT(2.35 48.86),75\n");
    let machine = with_degrees();
    let file = machine.file("places.csv", &rows);
    machine.ok(&["load", "shm://p/s", &file, "--header", "--wkt", "geom", "--id-column", "id"]);
    let fiji = ["242 -180,-17,-178,-16", "242 177,-17,180,-16"];
    assert_eq!(all(&machine), [&fiji[..], &["75 2.35,48.86,2.35,48.86"]].concat());

    let machine = with_degrees();
    let tabs = machine.file("places.tsv", "POINT(1 2)\tone\nLINESTRING(3 4,5 6)\ttwo\n");
    machine.ok(&["load", "shm://p/s", &tabs, "--wkt", "1"]);
    assert_eq!(all(&machine), ["1 1,2,1,2", "2 3,4,5,6"], "numbered by position");
}

#[test]
fn rows_without_a_geometry_are_refused_with_the_reason() {
    let machine = with_degrees();
    for (text, words) in [
        ("POINT(1 2) x", "column 12 of the WKT: the end of the text is expected, and 'x' is there"),
        ("POINT EMPTY", "column 1: the geometry, or a part of it, has no coordinates"),
        ("\"POLYGON((0 0,4 0,4 5,0 1))\"", "a ring of 4 positions is not closed"),
        ("SRID=4326;POINT(1 2)", "ST_AsText"),
        (
            "POINT(1e-400 2)",
            "column 7 of the WKT: '1e-400' is not 0, and closer to 0 than any number of 64 bits",
        ),
        ("POINT(1e400 2)", "column 7 of the WKT: '1e400' is not a finite number"),
        ("\"GEOMETRYCOLLECTION(POINT(1 2),POINT EMPTY)\"", "a part of the geometry is EMPTY"),
        ("\"POLYGON((0 0,4 0,4 5,0 0),EMPTY)\"", "a part of the geometry is EMPTY"),
        ("POINT(200 2)", "x 200 is not a longitude"),
    ] {
        let file = machine.file("bad.csv", format!("POINT(1 2),1\n{text},2\n"));
        let load = ["load", "shm://p/s", &file, "--wkt", "1", "--id-column", "2"];
        machine.refused(2, &load, &["bad.csv:2", words]);
        assert_eq!(all(&machine), [""; 0]);
    }
    let file = machine.file("good.csv", "POINT(1 2),1\n");
    for (options, words) in [
        (&["--wkt", "geom"][..], "give --header"),
        (&["--wkt", "1", "--columns", "1,2"], "--wkt and --columns are two sources"),
        (&["--wkt", "1", "--corners"], "--wkt and --corners are two sources"),
        (&["--wkt", "1", "--id-column", "1"], "name the same column"),
        (&["--wkt", "1", "--id-column", "2", "--ids", "position"], "two sources of the numbers"),
        (&["--wkt", "1", "--ids", "file"], "--id-column"),
        (&["--id-column", "2"], "--id-column applies to files with --wkt"),
    ] {
        machine.refused(2, &[&["load", "shm://p/s", &file], options].concat(), &[words]);
    }
    machine.ok(&["create", "shm://p/i"]);
    machine.refused(2, &["load", "shm://p/i", &file, "--wkt", "1"], &["--wkt applies to spatial indexes"]);
}

/// A Shapefile of the shapes that a function writes.
pub(crate) fn shapefile_of(write: impl FnOnce(ShapeWriter<&mut Cursor<Vec<u8>>>)) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    write(ShapeWriter::new(&mut bytes));
    bytes.into_inner()
}

/// A Shapefile of two points.
pub(crate) fn points() -> Vec<u8> {
    let points = [Point::new(1.0, 2.0), Point::new(3.0, 4.0)];
    shapefile_of(|writer| writer.write_shapes(&points).unwrap())
}

#[test]
fn geometries_of_shapefiles_are_loaded_as_their_bounds() {
    let ring = |points: &[[f64; 2]]| {
        PolygonRing::Outer(points.iter().map(|[x, y]| Point::new(*x, *y)).collect::<Vec<_>>())
    };
    let fiji = Polygon::with_rings(vec![
        ring(&[[180.0, -17.0], [180.0, -16.0], [177.0, -16.0], [180.0, -17.0]]),
        ring(&[[-178.0, -17.0], [-178.0, -16.0], [-180.0, -16.0], [-178.0, -17.0]]),
    ]);
    let line = Polyline::with_parts(vec![
        vec![Point::new(1.0, 9.0), Point::new(-2.0, 3.0)],
        vec![Point::new(4.0, 5.0), Point::new(5.0, 6.0)],
    ]);
    let scattered = Multipoint::new(vec![Point::new(1.0, 1.0), Point::new(7.0, 3.0)]);
    for (bytes, expected) in [
        (points(), &["1 1,2,1,2", "2 3,4,3,4"][..]),
        (shapefile_of(|w| w.write_shapes(&[fiji]).unwrap()), &["1 -180,-17,-178,-16", "1 177,-17,180,-16"]),
        (shapefile_of(|w| w.write_shapes(&[line]).unwrap()), &["1 -2,3,5,9"]),
        (shapefile_of(|w| w.write_shapes(&[scattered]).unwrap()), &["1 1,1,7,3"]),
        (shapefile_of(|w| w.write_shapes(&[PointZ::new(1.0, 2.0, 300.0, 0.0)]).unwrap()), &["1 1,2,1,2"]),
    ] {
        let machine = with_degrees();
        let report = &machine.json(&["load", "shm://p/s", &machine.file("shapes.shp", bytes)])[0];
        assert_eq!((&report["format"], &report["skipped"]), (&json!("shapefile"), &json!(0)));
        assert_eq!(all(&machine), expected);
    }
}

#[test]
fn shapefiles_that_are_damaged_are_refused_and_load_nothing() {
    let machine = with_degrees();
    let whole = points();
    // Header of 100 bytes, and two records of 8 + 20.
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    for (name, bytes, words) in [
        (
            "cut.shp",
            whole[..whole.len() - 3].to_vec(),
            "damaged: it ends too early; copy, download or export the file again",
        ),
        ("tail.shp", [&whole[..], &[0]].concat(), "bytes follow the last record"),
        (
            "header.shp",
            whole[..40].to_vec(),
            "damaged: it ends too early; copy, download or export the file again",
        ),
        ("kind.shp", changed(108, 99), "feature 1: the record has the unknown type 99"),
        ("size.shp", changed(107, 8), "feature 1: the record is damaged"),
        ("none.shp", b"1,2\n".to_vec(), "not in shapefile format"),
        ("roads.dbf", b"\x03".to_vec(), "in its .shp file"),
    ] {
        machine.refused(2, &["load", "shm://p/s", &machine.file(name, bytes)], &[name, words]);
        assert_eq!(all(&machine), [""; 0]);
    }
    let report =
        &machine.json(&["load", "shm://p/s", &machine.file("a.shp", changed(108, 0)), "--skip-bad"])[0];
    assert_eq!((&report["loaded"], &report["skipped"]), (&json!(1), &json!(1)), "a record without geometry");
    let file = machine.file("points.shp", whole);
    for option in [&["--header"][..], &["--wkt", "1"], &["--columns", "1,2"]] {
        machine.refused(2, &[&["load", "shm://p/s", &file], option].concat(), &["read as shapefile"]);
    }
    machine.refused(
        2,
        &["load", "shm://p/s", &file, "--ids", "file"],
        &["name the column of the ids with --id-column"],
    );
    machine.ok(&["create", "shm://p/i"]);
    machine.refused(2, &["load", "shm://p/i", &file], &["need a spatial index"]);
}

#[test]
fn files_are_recognised_by_their_contents() {
    let machine = with_degrees();
    let shapes = machine.file("shapes.dat", points());
    assert_eq!(machine.json(&["load", "shm://p/s", &shapes])[0]["format"], "shapefile");
    let csv = ["load", "shm://p/s", &shapes, "--format", "csv"];
    machine.refused(2, &csv, &["begins as shapefile files do", "--format is csv"]);
    for (name, bytes, words) in [
        ("places.csv", &b"\x1F\x8B\x08\0\0\0\0\0"[..], "compressed (gzip)"),
        ("shapes.zip", b"PK\x03\x04", "compressed (zip)"),
        ("data.parquet", b"1,2\n", "not in geoparquet format"),
        ("data.feather", b"ARROW1", ".feather"),
    ] {
        machine.refused(2, &["load", "shm://p/s", &machine.file(name, bytes)], &[name, words]);
    }
}
