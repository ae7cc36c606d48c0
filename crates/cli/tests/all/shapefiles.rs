//! Records of Shapefiles: their geometries, and attributes and ids of the table (`.dbf`).

use crate::geometries::{all, points, shapefile_of, with_degrees};
use crate::machine::{Machine, Ran};
use crate::records::{NUMBERS, TEXTS, with_records};
use serde_json::{Value, json};
use shapefile::dbase::{Date, FieldName, FieldValue, Record, TableWriterBuilder};
use shapefile::record::EsriShape;
use shapefile::{
    Multipatch, Multipoint, MultipointZ, NO_DATA, Patch, Point, PointM, PointZ, Polygon, PolygonRing,
    PolygonZ, Polyline, PolylineM,
};
use std::fs::File;
use std::io::Cursor;

/// A table with these codes, each with the same other values.
fn table(codes: &[&str]) -> Vec<u8> {
    let name = |text: &str| FieldName::try_from(text).unwrap();
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = TableWriterBuilder::new()
        .add_character_field(name("code"), 10)
        .add_numeric_field(name("site"), 10, 0)
        .add_numeric_field(name("height"), 12, 2)
        .add_logical_field(name("open"))
        .add_date_field(name("built"))
        .build_with_dest(&mut bytes);
    for (code, site) in codes.iter().zip(70_u8..) {
        let mut record = Record::default();
        let code = Some((*code).to_owned()).filter(|code| !code.is_empty());
        record.insert("code".to_owned(), FieldValue::Character(code));
        record.insert("site".to_owned(), FieldValue::Numeric(Some(f64::from(site))));
        record.insert("height".to_owned(), FieldValue::Numeric(Some(-1.25)));
        record.insert("open".to_owned(), FieldValue::Logical(Some(true)));
        record.insert("built".to_owned(), FieldValue::Date(Date::new(1, 5, 1999).ok()));
        writer.write_record(&record).unwrap();
    }
    drop(writer);
    bytes.into_inner()
}

fn properties(machine: &Machine, index: &str, id: &str) -> Value {
    machine.json(&["get", index, id]).remove(0)["properties"].clone()
}

#[test]
fn columns_of_the_table_are_attributes_with_their_types() {
    let machine = with_records();
    let file = machine.file("sites.shp", points());
    let load = ["load", NUMBERS, &file];
    machine
        .run(&load)
        .says(&["there is no .dbf file beside the .shp file, so the records have no attributes"]);
    assert_eq!(properties(&machine, NUMBERS, "2"), json!({}), "without a table");
    let _ = machine.file("sites.dbf", table(&["A-1", "Öl"]));
    machine
        .run(&load)
        .says(&["are the positions in the file, and 2 records with these ids were replaced; --id-column"]);
    let report = &machine.json(&load)[0];
    assert_eq!((&report["replaced"], &report["left_out"]), (&json!(2), &json!([])));
    let expected = json!({ "code": "Öl", "site": 71, "height": -1.25, "open": true, "built": "1999-05-01" });
    assert_eq!(properties(&machine, NUMBERS, "2"), expected);
    let upper = machine.file("ROADS.SHP", points());
    let _ = machine.file("ROADS.DBF", table(&["", "B"]));
    machine.ok(&["load", NUMBERS, &upper]);
    assert_eq!(properties(&machine, NUMBERS, "1")["code"], Value::Null);
    machine.ok(&["check", NUMBERS]);
}

#[test]
fn a_column_of_the_table_has_the_ids() {
    let machine = with_records();
    let file = machine.file("sites.shp", points());
    let _ = machine.file("sites.dbf", table(&["A-1", "B-2"]));
    machine.ok(&["load", TEXTS, &file, "--id-column", "code"]);
    let rest = json!({ "site": 70, "height": -1.25, "open": true, "built": "1999-05-01" });
    assert_eq!(properties(&machine, TEXTS, "A-1"), rest);
    machine.ok(&["load", NUMBERS, &file, "--id-column", "site"]);
    assert_eq!(properties(&machine, NUMBERS, "71")["code"], json!("B-2"));
    for (index, column, words) in [
        (TEXTS, "site", "the ids of the index are texts; name a column of texts (C)"),
        (NUMBERS, "code", "the ids of the index are numbers; name a column of integers (N)"),
        (NUMBERS, "height", "its id -1.25 is not an integer from 0"),
        (TEXTS, "none", "no column 'none'; the .dbf file has code, site, height, open, built"),
    ] {
        machine.refused(2, &["load", index, &file, "--id-column", column], &["sites.shp", words]);
    }
    let _ = machine.file("sites.dbf", table(&["A-1", ""]));
    machine.refused(2, &["load", TEXTS, &file, "--id-column", "code"], &["feature 2: its id is null"]);
    let _ = machine.file("sites.dbf", table(&["A-1", "A-1"]));
    machine.refused(2, &["load", TEXTS, &file, "--id-column", "code"], &["feature 2", "occurs twice"]);
    let alone = machine.file("alone.shp", points());
    machine.refused(2, &["load", TEXTS, &alone, "--id-column", "code"], &["none beside the .shp file"]);
    let mut piped = machine.command(&["load", TEXTS, "-", "--id-column", "code"]);
    let piped = Ran::of(piped.stdin(File::open(&alone).unwrap()).output().unwrap());
    assert_eq!(piped.code, 2);
    piped.says(&["standard input has only the .shp file; load the file by its name"]);
    let index = machine.file("alone.shx", points());
    machine.refused(2, &["load", TEXTS, &index], &["the index of a Shapefile", "load that file"]);

    let machine = with_degrees();
    let file = machine.file("sites.shp", points());
    let _ = machine.file("sites.dbf", table(&["A-1", "B-2"]));
    machine.ok(&["load", "shm://p/s", &file, "--id-column", "site"]);
    assert_eq!(all(&machine), ["70 1,2,1,2", "71 3,4,3,4"]);
}

#[test]
fn tables_that_do_not_belong_to_the_main_file_are_refused() {
    let machine = with_records();
    let file = machine.file("sites.shp", points());
    let load = ["load", NUMBERS, &file];
    let whole = table(&["A", "B"]);
    let mut deleted = whole.clone();
    // The header has five descriptions of columns. A row has 1 + 10 + 10 + 12 + 1 + 8 bytes.
    deleted[32 + 5 * 32 + 1 + 42] = b'*';
    for (bytes, words) in [
        (table(&["A"]), "its .dbf file has 1 row, and the .shp file has more records; restore the .dbf file"),
        (table(&["A", "B", "C"]), "its .dbf file has 3 rows, and the .shp file has 2 records"),
        (
            whole[..whole.len() - 9].to_vec(),
            "its .dbf file is damaged: it ends too early; copy, download or export the file again",
        ),
        (
            whole[..20].to_vec(),
            "its .dbf file is damaged: it ends too early; copy, download or export the file again",
        ),
        (deleted, "feature 2: its row in the .dbf file is marked as deleted"),
    ] {
        let _ = machine.file("sites.dbf", bytes);
        machine.refused(2, &load, &["sites.shp", words]);
    }
    let report = &machine.json(&[&load[..], &["--skip-bad"]].concat())[0];
    assert_eq!((&report["loaded"], &report["skipped"]), (&json!(1), &json!(1)));
    let _ = machine.file("sites.dbf", table(&["A", "Öl"]));
    let _ = machine.file("sites.cpg", "CP1251");
    machine.refused(2, &load, &["feature 2: column 'code'", "'CP1251' of the .cpg file", "ENCODING=UTF-8"]);
    let _ = machine.file("sites.cpg", "ISO-8859-1");
    machine.ok(&load);
    assert_eq!(properties(&machine, NUMBERS, "2")["code"], json!("Ã\u{96}l"));
}

/// The description of the last column is changed to that of a memo.
#[test]
fn memos_are_left_out_and_named() {
    let machine = with_records();
    let file = machine.file("sites.shp", points());
    let mut bytes = table(&["A", "B"]);
    bytes[32 + 4 * 32 + 11] = b'M';
    let _ = machine.file("sites.dbf", bytes);
    assert_eq!(machine.json(&["load", NUMBERS, &file])[0]["left_out"], json!(["built"]));
    let printed = machine.run(&["load", NUMBERS, &file]).err;
    assert!(printed.contains("these columns are not loaded, because of their types: built"), "{printed}");
    assert_eq!(properties(&machine, NUMBERS, "1").get("built"), None);
    machine.refused(
        2,
        &["load", TEXTS, &file, "--id-column", "built"],
        &["'built' has the type memo or binary, and the ids"],
    );
}

fn shape(machine: &Machine, bytes: Vec<u8>) -> Value {
    machine.ok(&["load", NUMBERS, &machine.file("shapes.shp", bytes)]);
    machine.json(&["get", NUMBERS, "1"]).remove(0)["geometry"].clone()
}

fn file_of<S: EsriShape>(shape: S) -> Vec<u8> {
    shapefile_of(|writer| writer.write_shapes(&[shape]).unwrap())
}

#[test]
fn geometries_of_every_type_are_stored_in_x_and_y() {
    let machine = with_records();
    let (m, z) = (|x, y| PointM::new(x, y, 7.0), |x, y| PointZ::new(x, y, 300.0, NO_DATA));
    let line = || vec![m(1.0, 9.0), m(-2.0, 3.0)];
    let ring = || vec![z(0.0, 0.0), z(0.0, 4.0), z(4.0, 0.0), z(0.0, 0.0)];
    for (bytes, kind, coordinates) in [
        (file_of(Point::new(1.0, 2.0)), "Point", json!([1.0, 2.0])),
        (file_of(m(1.0, 2.0)), "Point", json!([1.0, 2.0])),
        (file_of(z(1.0, 2.0)), "Point", json!([1.0, 2.0])),
        (file_of(Multipoint::new(vec![Point::new(1.0, 2.0)])), "MultiPoint", json!([[1.0, 2.0]])),
        (
            file_of(MultipointZ::new(vec![z(1.0, 2.0), z(3.0, 4.0)])),
            "MultiPoint",
            json!([[1.0, 2.0], [3.0, 4.0]]),
        ),
        (file_of(PolylineM::new(line())), "LineString", json!([[1.0, 9.0], [-2.0, 3.0]])),
        (
            file_of(PolylineM::with_parts(vec![line(), line()])),
            "MultiLineString",
            json!([[[1.0, 9.0], [-2.0, 3.0]], [[1.0, 9.0], [-2.0, 3.0]]]),
        ),
        (
            file_of(PolygonZ::new(PolygonRing::Outer(ring()))),
            "Polygon",
            json!([[[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]]),
        ),
    ] {
        let found = shape(&machine, bytes);
        assert_eq!((&found["type"], &found["coordinates"]), (&json!(kind), &coordinates));
    }
}

/// The square from `low` to `high` on both axes.
fn square(low: f64, high: f64) -> Vec<Point> {
    let corners = [[low, low], [low, high], [high, high], [high, low], [low, low]];
    corners.map(|[x, y]| Point::new(x, y)).to_vec()
}

/// The library writes shells clockwise, as the format demands, but not their holes after them.
#[test]
fn exact_searches_know_the_holes_and_the_parts_of_polygons() {
    let machine = with_records();
    let atoll = Polygon::with_rings(vec![
        PolygonRing::Inner(square(2.0, 8.0)),
        PolygonRing::Outer(square(20.0, 30.0)),
        PolygonRing::Outer(square(4.0, 6.0)),
        PolygonRing::Outer(square(0.0, 10.0)),
    ]);
    let right = file_of(atoll);
    let mut reversed = right.clone();
    // A header of 100 bytes, one of 8, and 4 + 32 + 8 bytes of the record before 4 starts of rings.
    for ring in reversed[100 + 8 + 44 + 4 * 4..].chunks_exact_mut(5 * 16) {
        let positions: Vec<u8> = ring.chunks_exact(16).rev().flatten().copied().collect();
        ring.copy_from_slice(&positions);
    }
    for bytes in [right, reversed] {
        assert_eq!(shape(&machine, bytes)["coordinates"].as_array().unwrap().len(), 3);
        let found = |x| machine.run(&["search", NUMBERS, "--geometry", &format!("POINT({x} {x})")]).code;
        for (x, code) in [("1", 0), ("3", 1), ("5", 0), ("7", 1), ("15", 1), ("25", 0)] {
            assert_eq!(found(x), code, "{x}");
        }
        assert_eq!(machine.run(&["search", NUMBERS, "--at", "15,15"]).code, 0, "the rectangle");
    }
}

#[test]
fn geometries_that_no_record_holds_are_refused() {
    let machine = with_records();
    let surface = Multipatch::new(Patch::TriangleStrip(vec![
        PointZ::new(0.0, 0.0, 0.0, NO_DATA),
        PointZ::new(1.0, 0.0, 0.0, NO_DATA),
        PointZ::new(0.0, 1.0, 0.0, NO_DATA),
    ]));
    let outside =
        Polygon::with_rings(vec![PolygonRing::Outer(square(0.0, 1.0)), PolygonRing::Inner(square(5.0, 6.0))]);
    let still = Polyline::new(vec![Point::new(1.0, 1.0); 5000]);
    for (bytes, words) in [
        (file_of(surface), "feature 1: the record is a MultiPatch"),
        (file_of(outside), "feature 1: ring 2 of 2 has the orientation of a hole, and no shell contains it"),
        (file_of(still), "feature 1: the coordinates of its geometry have 80000 bytes; the limit is 65024"),
    ] {
        let file = machine.file("shapes.shp", bytes);
        machine.refused(2, &["load", NUMBERS, &file], &["shapes.shp", words]);
        let machine = with_degrees();
        machine.ok(&["load", "shm://p/s", &machine.file("shapes.shp", std::fs::read(&file).unwrap())]);
        assert_eq!(all(&machine).len(), 1, "{words}");
    }
}
