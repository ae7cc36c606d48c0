//! FlatGeobuf files: their bounds, geometries and properties, and files that are damaged or inconsistent.

use crate::machine::Machine;
use crate::records::{NUMBERS, TEXTS, with_records};
use crate::spatial::{search, with_spatial};
use ::flatgeobuf::geozero::{ColumnValue, GeomProcessor, GeozeroGeometry, PropertyProcessor, error::Result};
use ::flatgeobuf::{ColumnType, FgbWriter, FgbWriterOptions, GeometryType};
use serde_json::{Value, json};

/// A line, in the form that FlatGeobuf's writer accepts.
struct Line<'p>(&'p [[f64; 2]]);

impl GeozeroGeometry for Line<'_> {
    fn process_geom<P: GeomProcessor>(&self, processor: &mut P) -> Result<()> {
        processor.linestring_begin(true, self.0.len(), 0)?;
        for (number, [x, y]) in self.0.iter().enumerate() {
            processor.xy(*x, *y, number)?;
        }
        processor.linestring_end(true, 0)
    }
}

pub(crate) fn flatgeobuf(lines: &[&[[f64; 2]]]) -> Vec<u8> {
    let mut writer = FgbWriter::create("lines", GeometryType::LineString).unwrap();
    for line in lines {
        writer.add_feature_geom(Line(line), |_| ()).unwrap();
    }
    let mut bytes = Vec::new();
    writer.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn features_of_flatgeobuf_and_geojson_are_loaded_as_their_bounds() {
    let machine = with_spatial();
    let streets =
        machine.file("streets.fgb", flatgeobuf(&[&[[1.0, 9.0], [-2.0, 3.0]], &[[5.0, 5.0], [6.0, 4.0]]]));
    let report = machine.json(&["load", "shm://p/s", &streets]);
    assert_eq!((&report[0]["loaded"], &report[0]["bulk"]), (&json!(2), &json!(true)));
    let mut found = search(&machine, &["--bbox", "-10,-10,10,10"]);
    // FlatGeobuf's own index has its own order.
    for row in &mut found {
        *row = row.split_once(' ').unwrap().1.to_owned();
    }
    found.sort();
    assert_eq!(found, ["-2,3,1,9", "5,4,6,5"]);
    let line = json!({ "type": "Feature", "id": 9, "properties": {}, "geometry":
        { "type": "LineString", "coordinates": [[20.0, 20.0], [22.0, 21.0]] } });
    let geojson = machine.file("line.txt", line.to_string());
    machine.ok(&["load", "shm://p/s", &geojson, "--format", "geojson"]);
    assert_eq!(search(&machine, &["--bbox", "19,19,23,23"]), ["9 20,20,22,21"]);
}

#[test]
fn a_file_of_features_that_is_damaged_is_refused_and_loads_nothing() {
    let machine = with_spatial();
    let whole = flatgeobuf(&[&[[1.0, 1.0], [2.0, 2.0]], &[[3.0, 3.0], [4.0, 4.0]]]);
    let mut scrambled = whole.clone();
    scrambled[12..40].fill(0xFF);
    for (name, bytes, words) in [
        ("none.fgb", b"x,y\n1,2\n".to_vec(), "not in FlatGeobuf format"),
        ("short.fgb", whole[..whole.len() - 20].to_vec(), "FlatGeobuf"),
        ("empty.fgb", Vec::new(), "damaged: it ends too early; copy, download or export the file again"),
        (
            "cut.fgb",
            whole[..40].to_vec(),
            "damaged: it ends too early; copy, download or export the file again",
        ),
        (
            "size.fgb",
            [flatgeobuf(&[]), vec![0xFF; 4], vec![0; 8]].concat(),
            "damaged: it ends too early; copy, download or export the file again",
        ),
        ("none-size.fgb", [flatgeobuf(&[]), vec![0; 4]].concat(), "a feature is not valid"),
        ("tail.fgb", [&whole[..], &[0; 9]].concat(), "bytes follow the last feature"),
        ("cut-size.fgb", [flatgeobuf(&[]), vec![1, 2]].concat(), "ends within"),
        ("scrambled.fgb", scrambled, "damaged"),
        ("none.geojson", b"{\"type\":".to_vec(), "the file ends too early, at line 1, column 8"),
        ("list.json", b"[1, 2]".to_vec(), "not GeoJSON"),
    ] {
        let file = machine.file(name, bytes);
        machine.refused(2, &["load", "shm://p/s", &file], &["load shm://p/s", name, words]);
    }
    // Truncated between two features of the same size: the remaining features are complete, but some are missing. They
    // follow the magic, the header with its length, and three nodes of the file's index.
    let header_bytes = u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
    let features = 12 + header_bytes + 3 * 40;
    let cut = machine.file("cut.fgb", &whole[..features + (whole.len() - features) / 2]);
    machine.refused(2, &["load", "shm://p/s", &cut], &["it ends too early, after 1 of 2 features; copy"]);
    machine.refused(1, &["search", "shm://p/s", "--bbox", "-9,-9,9,9"], &[]);
    machine.ok(&["create", "shm://p/keys"]);
    let good = machine.file("good.fgb", whole);
    machine.refused(
        2,
        &["load", "shm://p/keys", &good, "--format", "flatgeobuf"],
        &["spatial index", "catfish"],
    );
}

/// A file of two features whose header has the type `header`, with these bytes replaced in the second feature.
fn altered_flatgeobuf(header: GeometryType, second: Parts<'_>, [from, to]: [&[u8]; 2]) -> Vec<u8> {
    let Parts(kind, [part, ..]) = second;
    let mut writer = FgbWriter::create("parts", header).unwrap();
    writer.add_feature_geom(Parts(kind, [part, part]), |_| ()).unwrap();
    writer.add_feature_geom(second, |_| ()).unwrap();
    let mut bytes = Vec::new();
    writer.write(&mut bytes).unwrap();
    if !from.is_empty() {
        let at = bytes.windows(from.len()).rposition(|found| found == from).expect("the bytes are there");
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

fn words_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn flatgeobuf_that_is_inconsistent_is_refused_with_the_feature_or_skipped() {
    let line: &[_] = &[[1.0, 1.0], [2.0, 2.0], [2.0, 1.0], [1.0, 1.0]];
    let (lines, polygons) = (GeometryType::MultiLineString, GeometryType::MultiPolygon);
    // A vector of two ends: its length, and the ends.
    let ends = words_of(&[2, 4, 8]);
    for (kind, [from, to], parts, why) in [
        (
            lines,
            [&ends[..], &words_of(&[2, 5, 4])],
            [line, line],
            "line 2 of the MultiLineString ends at position 4",
        ),
        (lines, [&ends[..], &words_of(&[2, 4, 99])], [line, line], "ends at position 99"),
        (lines, [&ends[..], &words_of(&[2, 4, 7])], [line, line], "end at position 7 of 8"),
        (lines, [&ends[..], &words_of(&[2, 0, 8])], [line, line], "line 1 of the MultiLineString"),
        (polygons, [b"", b""], [line, &[]], "part 2 of the MultiPolygon: the geometry has no coordinates"),
    ] {
        let machine = with_spatial();
        let bytes = altered_flatgeobuf(kind, Parts(kind, parts), [from, to]);
        let file = machine.file("bad.fgb", bytes);
        machine.refused(2, &["load", "shm://p/s", &file], &["feature 2: ", why]);
        let report = machine.json(&["load", "shm://p/s", &file, "--skip-bad"]);
        assert_eq!((&report[0]["loaded"], &report[0]["skipped"]), (&json!(1), &json!(1)), "{why}");
    }
}

/// A circular string of three points.
struct Arc;

impl GeozeroGeometry for Arc {
    fn process_geom<P: GeomProcessor>(&self, processor: &mut P) -> Result<()> {
        processor.circularstring_begin(3, 0)?;
        for (number, x) in [0.0, 1.0, 2.0].into_iter().enumerate() {
            processor.xy(x, f64::from(number == 1), number)?;
        }
        processor.circularstring_end(0)
    }
}

/// A file of one feature: its header, and the feature, which states its type if the header does not.
fn header_and_feature(header: GeometryType, geometry: impl GeozeroGeometry) -> [Vec<u8>; 2] {
    let options = FgbWriterOptions {
        write_index: false,
        detect_type: false,
        promote_to_multi: false,
        ..FgbWriterOptions::default()
    };
    let mut writer = FgbWriter::create_with_options("one", header, options).unwrap();
    writer.add_feature_geom(geometry, |_| ()).unwrap();
    let mut bytes = Vec::new();
    writer.write(&mut bytes).unwrap();
    // Eight bytes of magic, the size of the header, the header.
    let header_bytes = 12 + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let feature = bytes.split_off(header_bytes);
    [bytes, feature]
}

#[test]
fn flatgeobuf_with_a_type_that_contradicts_its_header_is_refused() {
    let machine = with_spatial();
    let line: &[_] = &[[1.0, 1.0], [2.0, 2.0]];
    let [unknown, of_line] = header_and_feature(GeometryType::Unknown, Line(line));
    let [of_points, plain] =
        header_and_feature(GeometryType::MultiPoint, Parts(GeometryType::MultiPoint, [line, line]));
    let [of_lines, _] = header_and_feature(GeometryType::LineString, Line(line));
    let [_, of_arc] = header_and_feature(GeometryType::Unknown, Arc);
    for (header, feature, why) in [
        (
            &of_lines,
            &of_arc,
            "the geometry is a CircularString, and the header of the file states LineString",
        ),
        (&unknown, &of_arc, "CircularString geometries contain curves"),
        (&of_points, &of_line, "LineString, and the header of the file states MultiPoint"),
        (&unknown, &plain, "the type of the geometry is not stated"),
    ] {
        let file = machine.file("one.fgb", [&header[..], feature].concat());
        machine.refused(2, &["load", "shm://p/s", &file], &["feature 1: ", why]);
        let ran = machine.run(&["load", "shm://p/s", &file, "--skip-bad"]);
        assert_eq!(ran.code, 1, "{why}: {ran:?}");
    }
    for (header, feature) in [(&unknown, &of_line), (&of_lines, &of_line), (&of_points, &plain)] {
        machine.ok(&["load", "shm://p/s", &machine.file("one.fgb", [&header[..], feature].concat())]);
    }
}

/// A geometry of that type with two parts, which have these positions.
struct Parts<'p>(GeometryType, [&'p [[f64; 2]]; 2]);

impl GeozeroGeometry for Parts<'_> {
    fn process_geom<P: GeomProcessor>(&self, processor: &mut P) -> Result<()> {
        let Self(kind, parts) = self;
        match *kind {
            GeometryType::MultiPolygon => processor.multipolygon_begin(2, 0)?,
            GeometryType::MultiLineString => processor.multilinestring_begin(2, 0)?,
            _ => processor.multipoint_begin(parts.iter().map(|part| part.len()).sum(), 0)?,
        }
        for (number, part) in parts.iter().enumerate() {
            let is_polygon = *kind == GeometryType::MultiPolygon;
            if is_polygon {
                processor.polygon_begin(false, 1, number)?;
            }
            if *kind != GeometryType::MultiPoint {
                processor.linestring_begin(false, part.len(), if is_polygon { 0 } else { number })?;
            }
            for (at, [x, y]) in part.iter().enumerate() {
                processor.xy(*x, *y, at)?;
            }
            if *kind != GeometryType::MultiPoint {
                processor.linestring_end(false, if is_polygon { 0 } else { number })?;
            }
            if is_polygon {
                processor.polygon_end(false, number)?;
            }
        }
        match *kind {
            GeometryType::MultiPolygon => processor.multipolygon_end(0),
            GeometryType::MultiLineString => processor.multilinestring_end(0),
            _ => processor.multipoint_end(0),
        }
    }
}

#[test]
fn flatgeobuf_that_is_cut_at_the_antimeridian_is_two_rectangles() {
    let east: &[_] = &[[180.0, -17.0], [180.0, -16.0], [177.0, -16.0], [180.0, -17.0]];
    let west: &[_] = &[[-178.0, -17.0], [-178.0, -16.0], [-180.0, -16.0], [-178.0, -17.0]];
    for kind in [GeometryType::MultiPolygon, GeometryType::MultiLineString, GeometryType::MultiPoint] {
        let machine = with_spatial();
        let mut writer = FgbWriter::create("parts", kind).unwrap();
        writer.add_feature_geom(Parts(kind, [east, west]), |_| ()).unwrap();
        let mut bytes = Vec::new();
        writer.write(&mut bytes).unwrap();
        machine.ok(&["load", "shm://p/s", &machine.file("parts.fgb", bytes)]);
        let found = search(&machine, &["--bbox", "-180,-90,180,90"]);
        assert_eq!(found, ["1 -180,-17,-178,-16", "1 177,-17,180,-16"], "{kind:?}");
    }
}

/// A file of features with these codes. Every second one has no height.
fn with_columns(kind: GeometryType, features: &[(&str, Parts<'_>)]) -> Vec<u8> {
    let options =
        FgbWriterOptions { write_index: false, promote_to_multi: false, ..FgbWriterOptions::default() };
    let mut writer = FgbWriter::create_with_options("features", kind, options).unwrap();
    writer.add_column("code", ColumnType::String, |_, _| ());
    writer.add_column("site", ColumnType::UShort, |_, _| ());
    writer.add_column("height", ColumnType::Double, |_, _| ());
    writer.add_column("picture", ColumnType::Binary, |_, _| ());
    for ((code, parts), number) in features.iter().zip(0..) {
        let done = writer.add_feature_geom(Parts(parts.0, parts.1), |feature| {
            feature.property(0, "code", &ColumnValue::String(code)).unwrap();
            feature.property(1, "site", &ColumnValue::UShort(70 + number)).unwrap();
            if number % 2 == 0 {
                feature.property(2, "height", &ColumnValue::Double(-1.25)).unwrap();
            }
            feature.property(3, "picture", &ColumnValue::Binary(b"\x89PNG")).unwrap();
        });
        done.unwrap();
    }
    let mut bytes = Vec::new();
    writer.write(&mut bytes).unwrap();
    bytes
}

fn record(machine: &Machine, index: &str, id: &str) -> Value {
    machine.json(&["get", index, id]).remove(0)
}

#[test]
fn columns_are_attributes_and_ids() {
    let machine = with_records();
    let (points, part): (_, &[_]) = (GeometryType::MultiPoint, &[[1.0, 2.0], [3.0, 4.0]]);
    let of = |codes: [&str; 2]| with_columns(points, &codes.map(|code| (code, Parts(points, [part, part]))));
    let file = machine.file("sites.fgb", of(["A-1", "Öl"]));
    let report = &machine.json(&["load", NUMBERS, &file])[0];
    assert_eq!((&report["loaded"], &report["left_out"]), (&json!(2), &json!(["picture"])));
    let expected = json!({ "code": "A-1", "site": 70, "height": -1.25 });
    assert_eq!(record(&machine, NUMBERS, "1")["properties"], expected);
    machine.ok(&["load", TEXTS, &file, "--id-column", "code"]);
    let expected = json!({ "site": 71, "height": null });
    assert_eq!(record(&machine, TEXTS, "Öl")["properties"], expected);
    machine.ok(&["load", NUMBERS, &file, "--id-column", "site"]);
    assert_eq!(record(&machine, NUMBERS, "71")["properties"]["code"], json!("Öl"));
    for (index, column, words) in [
        (
            TEXTS,
            "site",
            "the type UShort, and the ids of the index are texts; name a column of texts (String)",
        ),
        (NUMBERS, "height", "the type Double, and the ids of the index are numbers"),
        (TEXTS, "none", "no column 'none'; the file has code, site, height, picture"),
    ] {
        machine.refused(2, &["load", index, &file, "--id-column", column], &["sites.fgb", words]);
    }
    let twice = machine.file("twice.fgb", of(["A", "A"]));
    machine.refused(2, &["load", TEXTS, &twice, "--id-column", "code"], &["feature 2", "occurs twice"]);
    // The size of the last text becomes larger than the properties.
    let mut bytes = of(["A", "PLACE"]);
    let at = bytes.windows(5).rposition(|found| found == b"PLACE").unwrap();
    bytes[at - 1] = 0xFF;
    let damaged = machine.file("damaged.fgb", bytes);
    let words = "feature 2: its properties are damaged: they end within a value";
    machine.refused(2, &["load", NUMBERS, &damaged], &[words]);
    machine.refused(
        2,
        &["load", TEXTS, &damaged, "--id-column", "code"],
        &["feature 2", "end within a value"],
    );
    let report = &machine.json(&["load", NUMBERS, &damaged, "--skip-bad"])[0];
    assert_eq!((&report["loaded"], &report["skipped"]), (&json!(1), &json!(1)));

    let machine = with_spatial();
    machine.ok(&["load", "shm://p/s", &machine.file("s.fgb", of(["A", "B"])), "--id-column", "site"]);
    assert_eq!(search(&machine, &["--bbox", "0,0,9,9"]), ["70 1,2,3,4", "71 1,2,3,4"]);
}

#[test]
fn exact_searches_know_the_parts_of_geometries() {
    let low: &[_] = &[[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 0.0]];
    let high: &[_] = &[[6.0, 6.0], [10.0, 6.0], [10.0, 10.0], [6.0, 6.0]];
    for (kind, name, inside) in [
        (GeometryType::MultiPolygon, "MultiPolygon", "3 1"),
        (GeometryType::MultiLineString, "MultiLineString", "3 3"),
        (GeometryType::MultiPoint, "MultiPoint", "4 4"),
    ] {
        let machine = with_records();
        let bytes = with_columns(kind, &[("a", Parts(kind, [low, high]))]);
        machine.ok(&["load", NUMBERS, &machine.file("parts.fgb", bytes)]);
        let geometry = &record(&machine, NUMBERS, "1")["geometry"];
        let count = if kind == GeometryType::MultiPoint { 8 } else { 2 };
        assert_eq!(geometry["type"], json!(name));
        assert_eq!(geometry["coordinates"].as_array().unwrap().len(), count);
        let found = |at| machine.run(&["search", NUMBERS, "--geometry", &format!("POINT({at})")]).code;
        assert_eq!((found(inside), found("5 5"), found("1 3")), (0, 1, 1), "{name}");
        assert_eq!(machine.run(&["search", NUMBERS, "--at", "5,5"]).code, 0, "the rectangle");
    }
}

#[test]
fn geometries_that_no_record_holds_are_refused() {
    let machine = with_records();
    let (lines, polygons) = (GeometryType::MultiLineString, GeometryType::MultiPolygon);
    let ring: &[_] = &[[1.0, 1.0], [2.0, 2.0], [2.0, 1.0], [1.0, 1.0]];
    let open: &[_] = &[[1.0, 1.0], [2.0, 2.0], [2.0, 1.0], [1.0, 2.0]];
    let still = vec![[1.0, 1.0]; 3000];
    for (kind, parts, words) in [
        (polygons, [ring, open], "feature 1: a ring of 4 positions is not closed"),
        (lines, [ring, &still[..1]], "feature 1: a line has one position"),
        (lines, [&still, &still], "feature 1: the coordinates of its geometry have 96000 bytes"),
    ] {
        let file = machine.file("parts.fgb", with_columns(kind, &[("a", Parts(kind, parts))]));
        machine.refused(2, &["load", NUMBERS, &file], &["parts.fgb", words]);
        let machine = with_spatial();
        machine.ok(&["load", "shm://p/s", &machine.file("parts.fgb", std::fs::read(&file).unwrap())]);
        assert_eq!(search(&machine, &["--bbox", "0,0,9,9"]).len(), 1, "{words}");
    }
}
