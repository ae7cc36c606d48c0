//! `farwood load`: input that cannot be parsed is refused or counted, and never loaded as something else.

use crate::machine::{Machine, lines};
use crate::spatial::with_spatial;
use serde_json::{Value, json};

/// A machine with `shm://p/t`, from texts to texts of any length.
fn with_texts() -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/t", "--index", "smart", "--keys", "text", "--values", "text"]);
    machine
}

/// The rectangles of `shm://p/s`, in the order of their numbers.
fn rectangles(machine: &Machine) -> Vec<String> {
    let ran = machine.run(&["search", "shm://p/s", "--bbox", "-1000,-1000,1000,1000"]);
    let mut rows: Vec<_> = ran.out.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// Asserts that the file is refused with these words, and that nothing of it is loaded.
fn refused(machine: &Machine, arguments: &[&str], words: &[&str]) {
    machine.refused(2, &[&["load", "shm://p/s"], arguments].concat(), words);
    assert_eq!(rectangles(machine), [""; 0], "{arguments:?}: a refused load left something");
}

fn feature(id: &Value, geometry: &Value) -> Value {
    json!({ "type": "Feature", "id": id, "geometry": geometry, "properties": { "id": 1 } })
}

fn collection(features: &[Value]) -> String {
    json!({ "type": "FeatureCollection", "features": features }).to_string()
}

fn point(x: f64, y: f64) -> Value {
    json!({ "type": "Point", "coordinates": [x, y] })
}

/// What `scan` prints is what `load` reads, for any bytes of keys and values.
#[test]
fn scan_and_load_round_trip() {
    for (keys, values, entries) in [
        ("text", "text", &[("a\tb\\n", "line\nline\r"), ("\u{7f}\"'{}", ""), ("\u{fc}ber", "\u{1f600}")][..]),
        ("hex", "hex", &[("00ff0a", ""), ("0d5c", "09097b7d")]),
        ("u64", "f64", &[("0", "NaN"), ("18446744073709551615", "-1.5"), ("7", "inf")]),
        ("i64", "bool", &[("-9223372036854775808", "true"), ("0", "false")]),
    ] {
        let machine = Machine::with_pool();
        let types = ["--index", "smart", "--keys", keys, "--values", values];
        for name in ["from", "tsv", "jsonl"] {
            machine.ok(&[&["create", &format!("shm://p/{name}")], &types[..]].concat());
        }
        for (key, value) in entries {
            machine.ok(&["put", "shm://p/from", "--", key, value]);
        }
        let scanned = machine.ok(&["scan", "shm://p/from", "--json"]);
        for (format, printed) in [("tsv", machine.ok(&["scan", "shm://p/from"])), ("jsonl", scanned.clone())]
        {
            let url = format!("shm://p/{format}");
            let ran = machine.run_with_input(&["load", &url, "-", "--format", format], &printed);
            assert_eq!(ran.code, 0, "{keys}, {format}: {ran:?}");
            assert_eq!(machine.ok(&["scan", &url, "--json"]), scanned, "{keys} to {values}, {format}");
        }
        let strings = machine.ok(&["scan", "shm://p/from", "--json-strings"]);
        machine.ok(&["drop", "shm://p/jsonl"]);
        machine.ok(&[&["create", "shm://p/jsonl"], &types[..]].concat());
        machine.run_with_input(&["load", "shm://p/jsonl", "-", "--format", "jsonl"], &strings);
        assert_eq!(machine.ok(&["scan", "shm://p/jsonl", "--json"]), scanned, "{keys} to {values}, strings");
    }
}

#[test]
fn json_lines_have_members_for_keys_and_values() {
    let machine = with_texts();
    let load = |options: &[&str], text: &str| {
        machine.run_with_input(&[&["load", "shm://p/t", "-", "--format", "jsonl"], options].concat(), text)
    };
    let ran = load(&[], "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\"}\n");
    assert_eq!(ran.code, 2, "{ran:?}");
    ran.says(&["-:2", "no member 'value'", "--skip-bad"]);
    let ran = load(&["--header"], "{}\n");
    assert_eq!(ran.code, 2, "{ran:?}");
    ran.says(&["--header", "JSON objects"]);
    let ran = load(&["--key-column", "id", "--value", "x"], "{\"id\":7,\"name\":\"Oak\"}\r\n\n{\"id\":8}");
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.says(&["from jsonl"]);
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "7\tx\n8\tx\n");
}

#[test]
fn options_of_tables_are_refused_for_text() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/t", "--keys", "text", "--key-bytes", "16"]);
    let load = ["load", "shm://p/t", "-"];
    for options in [&["--header"][..], &["--key-column", "nosuch"], &["--value-column", "2"]] {
        let ran = machine.run_with_input(&[&load[..], options].concat(), "k,v\na,1\n");
        assert_eq!(ran.code, 2, "{options:?}: {ran:?}");
        ran.says(&[options[0], "read as text", "--format csv"]);
    }
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "");
    let ran = machine.run_with_input(&[&load[..], &["--header", "--format", "csv"]].concat(), "k,v\na,1\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.says(&["from csv"]);
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "a\t1\n");
}

#[test]
fn options_that_do_not_apply_are_refused_with_the_reason() {
    let machine = with_texts();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    let table = machine.file("a.csv", "1,2\n");
    for (options, words) in [
        (&["--columns", "1,2"][..], "applies to spatial indexes"),
        (&["--ids", "position"], "applies to spatial indexes"),
        (&["--value", "1", "--value-column", "2"], "two sources"),
        (&["--fill", "0.9"], "nodes of this index grow"),
        (&["--fill", "0.9", "--sort-memory", "0"], "--sort-memory 0"),
        (&["--format", "geojson"], "spatial index"),
    ] {
        machine.refused(2, &[&["load", "shm://p/t", &table], options].concat(), &["a.csv", words]);
    }
    machine.ok(&["create", "shm://p/i"]);
    machine.ok(&["load", "shm://p/i", &table]);
    machine
        .run(&["load", "shm://p/i", &table, "--fill", "0.9"])
        .says(&["one by one", "--fill has no effect"]);
    let features = machine.file("a.geojson", collection(&[]));
    for (file, options, words) in [
        (&features, &["--header"][..], "read as geojson"),
        (&features, &["--columns", "x,y"], "read as geojson"),
        (&table, &["--format", "flatgeobuf", "--ids", "file"], "--id-column"),
        (&table, &["--format", "text"], "one key per line"),
        (&table, &["--key-column", "1"], "applies to keys"),
    ] {
        machine.refused(2, &[&["load", "shm://p/s", file.as_str()], options].concat(), &[words]);
    }
}

#[test]
fn a_file_of_unknown_format_is_refused() {
    let machine = with_texts();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    for (name, of_keys, of_rectangles) in [
        ("a.xlsx", "extension .xlsx", "extension .xlsx"),
        ("a.csv.gz", "extension .gz", "extension .gz"),
        ("a.parquet", "geoparquet files need a spatial index", "not in geoparquet format"),
        ("a.shp", "shapefile files need a spatial index", "not in shapefile format"),
        ("a.gpkg", "geopackage files need a spatial index", "not in geopackage format"),
    ] {
        let file = machine.file(name, "1,2\n");
        for (index, words) in [("shm://p/t", of_keys), ("shm://p/s", of_rectangles)] {
            machine.refused(2, &["load", index, &file], &[name, words]);
        }
    }
    let file = machine.file("a.json", "{}\n");
    machine.refused(2, &["load", "shm://p/t", &file], &["extension .json", "--format"]);
}

#[test]
fn the_format_of_the_file_is_printed() {
    let machine = with_texts();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    for (index, name, contents, format) in [
        ("shm://p/t", "a.txt", "ant\n".to_owned(), "text"),
        ("shm://p/t", "a.tsv", "ant\t1\n".to_owned(), "tsv"),
        ("shm://p/t", "a.csv", "ant,1\n".to_owned(), "csv"),
        ("shm://p/s", "b.csv", "1,2\n".to_owned(), "csv"),
        ("shm://p/s", "b.geojson", collection(&[]), "geojson"),
        ("shm://p/s", "b.ndjson", point(1.0, 2.0).to_string(), "geojson-seq"),
    ] {
        let file = machine.file(name, contents);
        assert_eq!(machine.json(&["load", index, &file])[0]["format"], format, "{name}");
        machine.run(&["load", index, &file]).says(&[&format!("from {format} ")]);
    }
}

#[test]
fn ids_of_every_json_kind_are_kept_or_refused() {
    let machine = with_spatial();
    let good = [json!(0), json!(7), json!(u64::MAX)];
    let features: Vec<_> = good.iter().map(|id| feature(id, &point(1.0, 1.0))).collect();
    machine.ok(&["load", "shm://p/s", &machine.file("good.geojson", collection(&features))]);
    assert_eq!(rectangles(&machine), ["0 1,1,1,1", "18446744073709551615 1,1,1,1", "7 1,1,1,1"]);
    machine.ok(&["drop", "shm://p/s"]);
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    let bad = ["\"10\"", "\"way/17\"", "7.0", "1e3", "-5", "18446744073709551616", "null", "true", "[7]"];
    for id in bad {
        let text =
            collection(&[feature(&json!(1), &point(1.0, 1.0)), feature(&json!("ID"), &point(2.0, 2.0))]);
        let file = machine.file("bad.geojson", text.replace("\"ID\"", id));
        refused(&machine, &[&file], &["feature 2", "its id", "--ids position"]);
        refused_but_counted(&machine, &file);
    }
}

/// Asserts that `--skip-bad` counts the second of two features, and loads the first.
fn refused_but_counted(machine: &Machine, file: &str) {
    let report = &machine.json(&["load", "shm://p/s", file, "--skip-bad"])[0];
    assert_eq!((&report["loaded"], &report["skipped"]), (&json!(1), &json!(1)), "{report}");
    assert!(report["first_bad"].as_str().unwrap().contains("feature 2"), "{report}");
    machine.ok(&["drop", "shm://p/s"]);
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
}

#[test]
fn positions_and_ids_are_not_mixed() {
    let machine = with_spatial();
    let without = json!({ "type": "Feature", "geometry": point(2.0, 2.0), "properties": null });
    let with = feature(&json!(2), &point(1.0, 1.0));
    for features in [[with.clone(), without.clone()], [without, with]] {
        let file = machine.file("mixed.geojson", collection(&features));
        refused(&machine, &[&file], &["feature 2", "the first one", "--ids position"]);
    }
    // The reproduction of the review: without a refusal, the ids are 1, 2, 3 and 1.
    let ids = [json!("10"), json!(7.0), json!(-5), json!(1)];
    let features: Vec<_> =
        (1..).zip(&ids).map(|(at, id)| feature(id, &point(f64::from(at), f64::from(at)))).collect();
    let file = machine.file("ids.geojson", collection(&features));
    refused(&machine, &[&file], &["feature 1", "\"10\""]);
    machine.ok(&["load", "shm://p/s", &file, "--ids", "position"]);
    assert_eq!(rectangles(&machine), ["1 1,1,1,1", "2 2,2,2,2", "3 3,3,3,3", "4 4,4,4,4"]);
}

#[test]
fn positions_that_are_not_numbers_are_refused() {
    let machine = with_spatial();
    for (coordinates, why) in [
        (json!([["1", "2"], [3, 4]]), "the string '1'"),
        (json!([[1, 2], [null, 50], [3, 4]]), "null"),
        (json!([[1, 2], [100]]), "only one number"),
        (json!([[1, 2], [3, 4, 5, 6]]), "more than 3"),
        (json!([[1, 2], []]), "empty array"),
        (json!([1, 2]), "2 deep, and these are 1 deep"),
        (json!(null), "null"),
    ] {
        let line = json!({ "type": "LineString", "coordinates": coordinates });
        let good = feature(&json!(1), &point(1.0, 1.0));
        let text = collection(&[good, feature(&json!(2), &line)]);
        let file = machine.file("line.geojson", text);
        refused(&machine, &[&file], &["feature 2", why, "--skip-bad"]);
        refused_but_counted(&machine, &file);
    }
}

#[test]
fn objects_that_are_not_geojson_are_refused() {
    let machine = with_spatial();
    for (text, why) in [
        ("", "the file ends too early, at line 1, column 0; copy, download or export the file again"),
        ("{\"type\":\"Topology\"}", "'Topology'"),
        ("{\"type\":\"FeatureCollection\"}", "no features"),
        ("{\"features\":[{\"type\":\"Point\",\"coordinates\":[1,2]}]}", "not GeoJSON"),
        (
            "{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Point\",\"coordinates\":[1,2]}",
            "the file ends too early, at line 1, column 76",
        ),
        ("{\"type\":\"Point\",\"coordinates\":[1,2],\"coordinates\":[3,4]}", "occurs twice"),
        (
            "{\"type\":\"Point\",\"coordinates\":[1,2]}\n{\"type\":\"Point\",\"coordinates\":[3,4]}",
            "geojson-seq",
        ),
        ("{\"type\":\"LineString\",\"coordinates\":[[1,2],[true,4]]}", "feature 1"),
        ("\u{1e}{\"type\":\"Point\",\"coordinates\":[1,2]}\n", "geojson-seq"),
    ] {
        let file = machine.file("a.geojson", text);
        refused(&machine, &[&file], &["a.geojson", why]);
    }
}

#[test]
fn edges_of_geojson_are_exact() {
    let machine = with_spatial();
    // A parser that is not exact reads some of these decimals one unit in the last place off.
    let edges: Vec<String> = (1..200_u32).map(|n| (f64::from(n).sqrt() * 10.0).to_string()).collect();
    let point = |edge: &String| format!("{{\"type\":\"Point\",\"coordinates\":[{edge},0]}}");
    let points: Vec<_> = edges.iter().map(point).collect();
    let text = format!("{{\"type\":\"FeatureCollection\",\"features\":[{}]}}", points.join(","));
    machine.ok(&["load", "shm://p/s", &machine.file("a.geojson", text)]);
    let mut expected: Vec<_> = (1..).zip(edges).map(|(n, edge)| format!("{n} {edge},0,{edge},0")).collect();
    expected.sort();
    assert_eq!(rectangles(&machine), expected);
}

#[test]
fn results_of_a_search_are_loaded_unchanged() {
    let machine = with_spatial();
    let rows = "1.5,2,3.25,4,18446744073709551615\n0,0,0,0,0\n0.1,0.2,0.30000000000000004,0.7,7\n";
    machine.ok(&["load", "shm://p/s", &machine.file("a.csv", rows)]);
    let before = rectangles(&machine);
    let found = machine.ok(&["search", "shm://p/s", "--bbox", "-9,-9,9,9", "--json"]);
    machine.ok(&["drop", "shm://p/s"]);
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine.ok(&["load", "shm://p/s", &machine.file("found.geojson", found)]);
    assert_eq!(rectangles(&machine), before);
}

#[test]
fn sequences_of_geojson_texts_are_read() {
    let machine = with_spatial();
    let lines = "{\"type\":\"Point\",\"coordinates\":[1,1]}\r\n\n{\"type\":\"Point\",\"coordinates\":[2,2]}";
    machine.ok(&["load", "shm://p/s", &machine.file("a.ndjson", lines)]);
    let separated = "\u{1e}{\"type\":\"Feature\",\"id\":7,\n\"geometry\":{\"type\":\"Point\",\"coordinates\":[3,3]}}\n\
                     \u{1e}{\"type\":\"Feature\",\"id\":8,\"geometry\":{\"type\":\"Point\",\"coordinates\":[4,4]}}\n";
    machine.ok(&["load", "shm://p/s", &machine.file("a.geojsons", separated)]);
    assert_eq!(rectangles(&machine), ["1 1,1,1,1", "2 2,2,2,2", "7 3,3,3,3", "8 4,4,4,4"]);
}

#[test]
fn a_bad_text_of_a_sequence_is_named_and_counted() {
    let machine = with_spatial();
    let good = "{\"type\":\"Point\",\"coordinates\":[1,1]}";
    for (bad, words) in [
        ("{\"type\":\"Point\",", &["a.ndjson:2", "the text ends too early; correct it"][..]),
        ("{\"type\":Point}", &["a.ndjson:2", "not JSON", "column 9"]),
        ("{\"type\":\"Point\",\"coordinates\":[1]}", &["a.ndjson:2, feature 2", "only one number"]),
        ("[1,2]", &["a.ndjson:2", "not GeoJSON"]),
        ("{\"type\":\"Point\",\"coordinates\":[1,1]} x", &["a.ndjson:2", "trailing"]),
    ] {
        let file = machine.file("a.ndjson", lines([good, bad]));
        if bad.ends_with('x') {
            // The text was complete, and yielded a feature, before the trailing characters.
            machine.refused(2, &["load", "shm://p/s", &file], words);
            continue;
        }
        refused(&machine, &[&file], words);
        let report = &machine.json(&["load", "shm://p/s", &file, "--skip-bad"])[0];
        assert_eq!((&report["loaded"], &report["skipped"]), (&json!(1), &json!(1)), "{report}");
        machine.ok(&["drop", "shm://p/s"]);
        machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    }
    let file = machine.file("b.geojsons", format!("\u{1e}{good}\n\u{1e}{good}\n\u{1e}{{\n"));
    refused(&machine, &[&file], &["b.geojsons:3", "the text ends too early"]);
    let feature = format!("{{\"type\":\"Feature\",\"geometry\":{good}}}");
    let cut = format!("{{\"type\":\"FeatureCollection\",\"features\":[{feature},{feature},{{");
    let file = machine.file("c.ndjson", lines([good, &cut]));
    let ran = machine.run(&["load", "shm://p/s", &file, "--skip-bad", "--ids", "position"]);
    ran.says(&[
        "loaded 3 rectangles",
        "line 2",
        "--skip-bad loads the 2 features of the text before the error",
    ]);
}

#[test]
fn a_quote_that_is_not_closed_is_refused() {
    let machine = with_texts();
    for text in ["k1,\"v1\nk2,v2\n", "k1,\"v1", "k1,\"v1\"\"\nk2,v2\n"] {
        let file = machine.file("t.csv", text);
        for options in [&[][..], &["--skip-bad"]] {
            let load = [&["load", "shm://p/t", &file], options].concat();
            machine.refused(2, &load, &["t.csv:1", "quote", "not closed", "0 entries"]);
        }
        assert_eq!(machine.ok(&["scan", "shm://p/t"]), "");
    }
    let file = machine.file("t.csv", "k1,\"v\"1\nk2,\"v\n2\"\n");
    machine.refused(2, &["load", "shm://p/t", &file], &["t.csv:1", "closing quote", "--skip-bad"]);
    machine.ok(&["load", "shm://p/t", &file, "--skip-bad"]);
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "k2\tv\\n2\n");
}

#[test]
fn columns_that_would_be_ignored_are_refused() {
    let machine = with_texts();
    let ragged = machine.file("ragged.csv", "k1,v1\nk2,v,2\n");
    machine.refused(2, &["load", "shm://p/t", &ragged], &[":2", "3 columns", "the first line has 2"]);
    let wide = machine.file("wide.csv", "k1,v1,w1\n");
    machine.refused(2, &["load", "shm://p/t", &wide], &[":1", "3 columns", "--key-column"]);
    machine.ok(&["load", "shm://p/t", &wide, "--key-column", "1", "--value-column", "3"]);
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "k1\tw1\n");
    let twice = machine.file("twice.csv", "id,id\n1,2\n");
    machine.refused(2, &["load", "shm://p/t", &twice, "--header"], &[":1", "two columns 'id'"]);
}

#[test]
fn numbers_that_would_be_stored_differently_are_refused() {
    let machine = Machine::with_index();
    for bad in ["007", "+7", " 7", "7.0"] {
        let file = machine.file("a.txt", lines(["1", bad]));
        machine.refused(2, &["load", "shm://p/i", &file], &["a.txt:2", bad]);
        let constant = ["load", "shm://p/i", &file, "--value", bad];
        machine.refused(2, &constant, &["value", bad]);
    }
    assert_eq!(machine.ok(&["scan", "shm://p/i"]), "");
}

#[test]
fn columns_of_rectangles_have_names() {
    let machine = with_spatial();
    let file = machine.file("s.csv", "id,x,y\n7,1,2\n");
    machine.ok(&["load", "shm://p/s", &file, "--header"]);
    let file = machine.file("t.tsv", "lat\tlon\n3\t4\n");
    machine.ok(&["load", "shm://p/s", &file, "--header"]);
    let file = machine.file("u.csv", "name,id,ymin,xmin,ymax,xmax\nGaul,9,5,6,7,8\n");
    machine.refused(2, &["load", "shm://p/s", &file, "--header"], &["u.csv", "name", "--columns"]);
    machine.ok(&["load", "shm://p/s", &file, "--header", "--columns", "xmin,ymin,xmax,ymax,id"]);
    let file = machine.file("v.csv", "a,8,10,11\n");
    machine.ok(&["load", "shm://p/s", &file, "--columns", "3,4,2"]);
    assert_eq!(rectangles(&machine), ["1 4,3,4,3", "7 1,2,1,2", "8 10,11,10,11", "9 6,5,8,7"]);
    for (columns, words) in [("3,4,nosuch", "'nosuch'"), ("1", "give 2"), ("9,1", "column 9 is needed")] {
        machine.refused(2, &["load", "shm://p/s", &file, "--columns", columns], &[words]);
    }
}

#[test]
fn rows_of_rectangles_are_named_by_their_lines() {
    let machine = with_spatial();
    let file = machine.file("a.csv", "x,y\n\n1,2\nnan,2\n");
    refused(&machine, &[&file, "--header"], &["a.csv:4", "finite"]);
    refused(&machine, &[&file], &["a.csv:1", "'x' is not a number", "--header"]);
    let file = machine.file("b.csv", "1,2,7\n1,2\n");
    refused(&machine, &[&file], &["b.csv:2", "2 columns"]);
    for id in ["1.0", "-1", "+1", "01", "", "18446744073709551616"] {
        let file = machine.file("c.csv", format!("1,2,7\n1,2,{id}\n"));
        refused(&machine, &[&file], &["c.csv:2", "column 3"]);
    }
    let file = machine.file("d.csv", collection(&[]));
    refused(&machine, &[&file], &["d.csv:1", "--format geojson"]);
}

#[test]
fn byte_order_marks_and_line_ends_are_not_data() {
    let machine = with_texts();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    for (name, text) in
        [("a.txt", "\u{feff}ant\r\n"), ("a.tsv", "\u{feff}bee\t1\r\n"), ("a.csv", "\u{feff}cat,2\r\n")]
    {
        machine.ok(&["load", "shm://p/t", &machine.file(name, text)]);
    }
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "ant\t1\nbee\t1\ncat\t2\n");
    for (name, text) in [
        ("b.csv", "\u{feff}1,2\r\n".to_owned()),
        ("b.geojson", format!("\u{feff}{}", point(1.0, 2.0))),
        ("b.ndjson", format!("\u{feff}{}\r\n", point(1.0, 2.0))),
    ] {
        machine.ok(&["load", "shm://p/s", &machine.file(name, text)]);
    }
    assert_eq!(rectangles(&machine), ["1 1,2,1,2"; 3]);
    let utf16: Vec<u8> = "\u{feff}1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let file = machine.file("c.csv", utf16);
    for index in ["shm://p/s", "shm://p/t"] {
        machine.refused(2, &["load", index, &file], &["c.csv", "UTF-16"]);
    }
    for (name, text) in [("d.txt", "ant\rbee\r"), ("d.csv", "a,1\rb,2\r")] {
        machine.refused(2, &["load", "shm://p/t", &machine.file(name, text)], &[":1", "carriage return"]);
    }
}

#[test]
fn a_large_geojson_file_needs_little_memory() {
    let machine = with_spatial();
    // 16 MiB in 20 features: a tree of these values takes some 240 MiB.
    let ring = vec![json!([1.5, 2.5]); 100_000];
    let polygon = feature(&json!(1), &json!({ "type": "Polygon", "coordinates": [ring] }));
    let file = machine.file("large.geojson", collection(&vec![polygon; 20]));
    let mut command = machine.command(&["load", "shm://p/s", &file]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    while child.try_wait().unwrap().is_none() {
        peak_kib = peak_kib.max(anonymous_kib(&status));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    assert!(peak_kib < 64 << 10, "{peak_kib} KiB");
    assert_eq!(rectangles(&machine).len(), 20);
}

/// The anonymous memory of a process; 0 once it has ended. Shared memory of the pool is not counted.
fn anonymous_kib(status: &str) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
