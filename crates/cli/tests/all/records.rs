//! Records of a spatial index of unique ids: created, put, printed, deleted, loaded.

use crate::machine::Machine;
use serde_json::{Value, json};

pub(crate) const TEXTS: &str = "shm://p/texts";
pub(crate) const NUMBERS: &str = "shm://p/numbers";

/// The JSON that a command prints.
fn json_of(machine: &Machine, arguments: &[&str]) -> Value {
    machine.json(arguments).remove(0)
}

/// A pool with an index of texts and one of numbers.
pub(crate) fn with_records() -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", TEXTS, "--index", "catfish", "--ids", "text"]);
    machine.ok(&["create", NUMBERS, "--index", "catfish", "--ids", "number"]);
    machine
}

#[test]
fn a_record_is_replaced_printed_and_deleted_by_its_id() {
    let machine = with_records();
    machine.ok(&["put", TEXTS, "Stanley Park", "1,2,3,4"]);
    assert_eq!(machine.ok(&["get", TEXTS, "Stanley Park"]), "1,2,3,4\n");
    let put = ["put", TEXTS, "Stanley Park", "--geometry", "POLYGON((0 0,4 0,4 5,0 0))"];
    let put = [&put[..], &["--attributes", r#"{"ha":405}"#]].concat();
    assert_eq!(json_of(&machine, &put), json!({ "stored": true, "existed": true }));
    assert_eq!(machine.ok(&["get", TEXTS, "Stanley Park"]), "0,0,4,5\t{\"ha\":405}\n");
    let record = json_of(&machine, &["get", TEXTS, "Stanley Park"]);
    assert_eq!((&record["type"], &record["bbox"]), (&json!("Feature"), &json!([0.0, 0.0, 4.0, 5.0])));
    assert_eq!((&record["id"], &record["properties"]), (&json!("Stanley Park"), &json!({ "ha": 405 })));
    assert_eq!(record["geometry"]["type"], json!("Polygon"), "{record}");
    let point = r#"{"type":"Point","coordinates":[7,8]}"#;
    machine.ok(&["put", TEXTS, "Spot", "--geometry", point]);
    assert_eq!(machine.ok(&["get", TEXTS, "Spot"]), "7,8,7,8\n");
    machine.ok(&["del", TEXTS, "Spot"]);
    assert_eq!(machine.ok(&["search", TEXTS, "--bbox", "-1000,-1000,1000,1000", "--count"]), "1\n");
    machine.ok(&["check", TEXTS]);
    machine.ok(&["del", TEXTS, "Stanley Park"]);
    assert_eq!(machine.run(&["del", TEXTS, "Stanley Park"]).code, 1);
    assert_eq!(machine.run(&["get", TEXTS, "Stanley Park"]).code, 1);
    assert_eq!(machine.run(&["search", TEXTS, "--bbox", "-1000,-1000,1000,1000", "--count"]).out, "0\n");
    machine.ok(&["put", NUMBERS, "18446744073709551615", "1,2"]);
    assert_eq!(machine.ok(&["get", NUMBERS, "18446744073709551615"]), "1,2,1,2\n");
}

/// RFC 7946 §3.1.6.
#[test]
fn printed_shells_are_counter_clockwise_and_holes_clockwise() {
    let machine = with_records();
    let polygon = "POLYGON((0 0,0 9,9 9,9 0,0 0),(1 1,2 1,2 2,1 1))";
    machine.ok(&["put", TEXTS, "lake", "--geometry", polygon]);
    let printed = [
        json_of(&machine, &["get", TEXTS, "lake"]),
        json_of(&machine, &["search", TEXTS, "--at", "5,5"])["features"][0].clone(),
    ];
    let (shell, hole) = ([[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]], [[1, 1], [2, 2], [2, 1], [1, 1]]);
    for feature in printed {
        let ring = |number: usize| feature["geometry"]["coordinates"][number].to_string().replace(".0", "");
        assert_eq!([ring(0), ring(1)], [json!(shell).to_string(), json!(hole).to_string()]);
    }
}

#[test]
fn what_an_index_cannot_hold_is_refused() {
    let machine = with_records();
    machine.refused(2, &["put", NUMBERS, "oak", "1,2"], &["'oak' is not a number"]);
    machine.refused(2, &["put", NUMBERS, "1", "1,2", "--geometry", "POINT(1 2)"], &["whose bounds they are"]);
    machine.refused(2, &["put", NUMBERS, "1", "--geometry", "POINT(1"], &["--geometry:"]);
    let small =
        "--geometry: column 7 of the WKT: '1e-400' is not 0, and closer to 0 than any number of 64 bits";
    machine.refused(2, &["put", NUMBERS, "1", "--geometry", "POINT(1e-400 2)"], &[small]);
    let great = "--geometry: column 9 of the WKT: '1e400' is not a finite number";
    machine.refused(2, &["put", NUMBERS, "1", "--geometry", "POINT(2 1e400)"], &[great]);
    machine.refused(2, &["put", NUMBERS, "1", "--geometry", "POINT EMPTY"], &["it is empty"]);
    machine.refused(
        2,
        &["put", NUMBERS, "1", "1,2", "--attributes", "[1]"],
        &["--attributes: it is not a JSON object"],
    );
    machine.refused(2, &["del", NUMBERS, "1", "1,2"], &["give only the id"]);
    machine.refused(2, &["put", TEXTS, "", "1,2"], &["1 to 255 bytes, not 0"]);
    machine.refused(2, &["put", TEXTS, &"x".repeat(256), "1,2"], &["1 to 255 bytes, not 256"]);
    machine.ok(&["create", "shm://p/plain", "--index", "catfish"]);
    machine.ok(&["create", "shm://p/keys"]);
    machine.refused(2, &["get", "shm://p/plain", "1"], &["may repeat"]);
    machine.refused(2, &["put", "shm://p/plain", "1", "1,2", "--attributes", "{}"], &["--ids"]);
    machine.refused(2, &["put", "shm://p/keys", "1", "1", "--attributes", "{}"], &["unique ids"]);
    let edges = ["give the edges X1,Y1,X2,Y2, or create the index with --ids"];
    machine.refused(2, &["put", "shm://p/plain", "9", "--geometry", "POINT(1 2)"], &edges);
    machine.refused(2, &["create", "shm://p/k", "--ids", "text"], &["add --index catfish, or omit --ids"]);
    let smart = ["create", "shm://p/k", "--ids", "text", "--index", "smart"];
    machine.refused(2, &smart, &["give --index catfish, or omit --ids"]);
    let small = ["create", "shm://p/s", "--index", "catfish", "--ids", "text", "--node-bytes", "384"];
    machine.refused(2, &small, &["at least 1664 bytes"]);
}

fn feature(id: &Value, x: i32, name: &str) -> Value {
    let ring = json!([[x, 0], [x + 1, 0], [x, 1], [x, 0]]);
    json!({ "type": "Feature", "id": id, "properties": { "name": name, "big": 12_345_678_901_234_567_890_u64 },
        "geometry": { "type": "Polygon", "coordinates": [ring] } })
}

#[test]
fn features_are_loaded_with_ids_geometries_and_properties() {
    let machine = with_records();
    let features = json!({ "type": "FeatureCollection", "features":
        [feature(&json!("way/17"), 0, "Oak"), feature(&json!("way/18"), 5, "Elm")] });
    let _ = machine.file("parks.geojson", features.to_string());
    let loaded = json_of(&machine, &["load", TEXTS, "parks.geojson"]);
    assert_eq!(
        (&loaded["loaded"], &loaded["replaced"], &loaded["bulk"]),
        (&json!(2), &json!(0), &json!(true))
    );
    let record = json_of(&machine, &["get", TEXTS, "way/17"]);
    assert_eq!(record["properties"], json!({ "name": "Oak", "big": 12_345_678_901_234_567_890_u64 }));
    assert_eq!(record["geometry"]["type"], json!("Polygon"), "{record}");
    let again = json!({ "type": "FeatureCollection", "features":
        [feature(&json!("way/18"), 7, "Ash"), feature(&json!("way/19"), 9, "Fir")] });
    let _ = machine.file("more.geojson", again.to_string());
    let loaded = json_of(&machine, &["load", TEXTS, "more.geojson"]);
    assert_eq!((&loaded["loaded"], &loaded["replaced"]), (&json!(2), &json!(1)));
    assert_eq!(json_of(&machine, &["get", TEXTS, "way/18"])["bbox"], json!([7.0, 0.0, 8.0, 1.0]));
    assert_eq!(machine.ok(&["search", TEXTS, "--bbox", "-1000,-1000,1000,1000", "--count"]), "3\n");
    machine.ok(&["check", TEXTS]);
    // Ids of another kind, twice the same id, and geometries without a feature are refused.
    machine.refused(2, &["load", NUMBERS, "parks.geojson"], &["feature 1", "way/17", "--ids position"]);
    machine.ok(&["load", NUMBERS, "parks.geojson", "--ids", "position"]);
    assert_eq!(json_of(&machine, &["get", NUMBERS, "2"])["properties"]["name"], json!("Elm"));
    let twice = json!({ "type": "FeatureCollection", "features":
        [feature(&json!("a"), 0, "Oak"), feature(&json!("a"), 5, "Elm")] });
    let _ = machine.file("twice.geojson", twice.to_string());
    machine.refused(2, &["load", TEXTS, "twice.geojson"], &["feature 2", "occurs twice"]);
    let _ = machine.file("bare.geojson", r#"{"type":"Point","coordinates":[1,2]}"#);
    machine.refused(2, &["load", TEXTS, "bare.geojson"], &["not a feature"]);
}

/// The remedy is not that of a file that is no GeoJSON.
#[test]
fn a_file_that_ends_too_early_is_refused_with_its_remedy() {
    let machine = with_records();
    machine.ok(&["create", "shm://p/plain", "--index", "catfish"]);
    let whole =
        json!({ "type": "FeatureCollection", "features": [feature(&json!(1), 0, "Oak")] }).to_string();
    for index in [NUMBERS, "shm://p/plain"] {
        for end in (0..whole.len()).step_by(13) {
            let file = machine.file("cut.geojson", &whole[..end]);
            let ran = machine.run(&["load", index, &file, "--skip-bad"]);
            assert_eq!(ran.code, 2, "{ran:?}");
            ran.says(&[
                "cut.geojson: the file ends too early, at line 1, column",
                "copy, download or export",
            ]);
            assert!(!ran.err.contains("geojson-seq"), "{ran:?}");
        }
        machine.refused(1, &["search", index, "--bbox", "-9,-9,9,9"], &[]);
    }
}

/// Each file has positions as ids.
#[test]
fn a_load_that_replaces_records_by_their_positions_says_so() {
    let machine = with_records();
    let _ =
        machine.file("a.geojson", feature(&json!(null), 0, "Oak").to_string().replace("\"id\":null,", ""));
    let _ = machine.file("a.csv", "1,2\n");
    let _ = machine.file("wkt.csv", "POINT(1 2)\n");
    for index in [TEXTS, NUMBERS] {
        assert!(!machine.run(&["load", index, "a.csv"]).err.contains("positions"), "nothing is replaced");
        for (arguments, words) in [
            (&["a.geojson"][..], "the features have no member `id`"),
            (&["a.csv"], "--columns selects a column of ids"),
            (&["wkt.csv", "--wkt", "1"], "--id-column NAME selects a column of ids"),
        ] {
            let ran = machine.run(&[&["load", index], arguments].concat());
            ran.says(&[
                "the ids are the positions in the file, and 1 record with such an id was replaced",
                words,
            ]);
        }
    }
    let chosen = machine.run(&["load", NUMBERS, "a.csv", "--ids", "position"]);
    assert!(chosen.err.contains("1 replaced") && !chosen.err.contains("positions"), "{chosen:?}");
    machine.refused(
        2,
        &["load", NUMBERS, "a.geojson", "--id-column", "name"],
        &["its id in its member `id`"],
    );
}

/// The remedy is followed.
#[test]
fn an_absent_index_is_created_as_the_message_says() {
    let machine = with_records();
    let _ = machine.file("a.geojson", feature(&json!(7), 0, "Oak").to_string());
    let load = ["load", "shm://p/nope", "a.geojson"];
    machine.refused(3, &load, &["`farwood create shm://p/nope --index catfish` creates one", "--ids number"]);
    let keys = machine.run(&["load", "shm://p/nope", "words.txt"]);
    assert!(keys.err.contains("`farwood create shm://p/nope` creates one"), "{keys:?}");
    assert!(!keys.err.contains("catfish"), "{keys:?}");
    let (ordered, spatial) =
        ("`farwood create shm://p/nope`", "`farwood create shm://p/nope --index catfish`");
    machine.refused(3, &["load", "shm://p/nope", "a.csv"], &[ordered, spatial, "--index smart --keys text"]);
    let values = machine.run(&["load", "shm://p/nope", "a.csv", "--value", "1"]);
    assert!(values.err.contains(ordered) && !values.err.contains(spatial), "{values:?}");
    let wkt = machine.run(&["load", "shm://p/nope", "a.csv", "--wkt", "1"]);
    assert!(wkt.err.contains(spatial) && !wkt.err.contains(ordered), "{wkt:?}");
    machine.ok(&["create", "shm://p/nope", "--index", "catfish"]);
    machine.ok(&load);
}

#[test]
fn rows_are_loaded_with_ids_geometries_and_other_columns() {
    let machine = with_records();
    let _ = machine.file("plots.csv", "id,owner,geom\nA-1,Ann,\"LINESTRING(0 0,2 3)\"\nB-2,Bob,POINT(5 5)\n");
    let load = ["load", TEXTS, "plots.csv", "--header", "--wkt", "geom", "--id-column", "id"];
    machine.ok(&load);
    let record = json_of(&machine, &["get", TEXTS, "A-1"]);
    assert_eq!(
        (&record["properties"], &record["bbox"]),
        (&json!({ "owner": "Ann" }), &json!([0.0, 0.0, 2.0, 3.0]))
    );
    let line = json!({ "type": "LineString", "coordinates": [[0.0, 0.0], [2.0, 3.0]] });
    assert_eq!(record["geometry"], line);
    let _ = machine.file("unnamed.tsv", "LINESTRING(0 0,2 3)\tC-3\n");
    machine.ok(&["load", TEXTS, "unnamed.tsv", "--wkt", "1", "--id-column", "2"]);
    let record = json_of(&machine, &["get", TEXTS, "C-3"]);
    assert_eq!((&record["geometry"], &record["properties"]), (&line, &json!({})), "without a header");
    let _ = machine.file("points.csv", "name,lon,lat,id\nOak,1,2,7\nElm,3,4,8\n");
    machine.ok(&["load", NUMBERS, "points.csv", "--header"]);
    assert_eq!(machine.ok(&["get", NUMBERS, "8"]), "3,4,3,4\t{\"name\":\"Elm\"}\n");
    machine.ok(&["create", "shm://p/plain", "--index", "catfish"]);
    machine.refused(2, &["load", "shm://p/plain", "points.csv", "--header"], &["name, lon, lat, id"]);
}

#[test]
fn rows_and_features_that_do_not_fit_are_bad_ones() {
    let machine = with_records();
    let long = json!({ "type": "FeatureCollection", "features":
        [feature(&json!("a"), 0, &"x".repeat(66_000)), feature(&json!("y".repeat(256)), 5, "Elm"),
        feature(&json!("c"), 5, "Elm")] });
    let _ = machine.file("long.geojson", long.to_string());
    machine.refused(2, &["load", TEXTS, "long.geojson"], &["feature 1", "the limit is 65024"]);
    let loaded = json_of(&machine, &["load", TEXTS, "long.geojson", "--skip-bad"]);
    assert_eq!((&loaded["loaded"], &loaded["skipped"]), (&json!(1), &json!(2)));
    let list =
        r#"{"type":"Feature","id":"a","properties":[1],"geometry":{"type":"Point","coordinates":[1,2]}}"#;
    let _ = machine.file("list.geojson", list);
    machine.refused(2, &["load", TEXTS, "list.geojson"], &["the properties are not a JSON object"]);
    let _ = machine.file("both.csv", "lon,lat,xmin,ymin,xmax,ymax,id\n1,2,1,2,3,4,7\n");
    machine.refused(2, &["load", NUMBERS, "both.csv", "--header"], &["several points or rectangles"]);
    let pretty = "{\"type\":\"Feature\",\"id\":\"p\",\"properties\":{\n  \"a b\": 1\n},\n\"geometry\":\
                  {\"type\":\"Point\",\"coordinates\":[1,2]}}";
    let _ = machine.file("pretty.geojson", pretty);
    machine.ok(&["load", TEXTS, "pretty.geojson"]);
    assert_eq!(machine.ok(&["get", TEXTS, "p"]), "1,2,1,2\t{\"a b\":1}\n");
}

/// No number of the properties passes through 64 bits.
#[test]
fn numbers_of_properties_keep_their_digits() {
    let machine = with_records();
    let properties = r#"{"n":12345678901234567890123,"tiny":1e-400}"#;
    let of = |x: &str| {
        let geometry = format!(r#"{{"type":"Point","coordinates":[{x},2]}}"#);
        format!(r#"{{"type":"Feature","id":"a","properties":{properties},"geometry":{geometry}}}"#)
    };
    for name in ["one.geojson", "one.ndjson"] {
        let _ = machine.file(name, of("1"));
        machine.ok(&["load", TEXTS, name]);
        for printed in [
            machine.ok(&["get", TEXTS, "a", "--json"]),
            machine.ok(&["search", TEXTS, "--at", "1,2", "--json"]),
        ] {
            assert!(printed.contains(properties), "{printed}");
        }
        let _ = machine.file(name, of("1e-400"));
        machine.refused(2, &["load", TEXTS, name], &["1e-400"]);
    }
}

#[test]
fn messages_name_records_where_the_index_has_them() {
    let machine = with_records();
    machine.ok(&["create", "shm://p/plain", "--index", "catfish"]);
    let bad = machine.file("bad.csv", "1,2\nx,2\n");
    for (index, nothing, contents, one) in [
        (
            NUMBERS,
            "(no record is loaded)",
            "this index holds records; use `farwood search`, or get",
            "1 record",
        ),
        ("shm://p/plain", "(no rectangle is loaded)", "this index holds rectangles", "1 rectangle"),
    ] {
        machine.refused(2, &["load", index, &bad], &[nothing]);
        machine.refused(2, &["scan", index], &[contents]);
        machine.refused(
            2,
            &["load", index, &bad, "--value", "1"],
            &["applies to keys, and this is a spatial index"],
        );
        machine.ok(&["put", index, "1", "1,2"]);
        assert!(machine.ok(&["check", index]).contains(&format!("{one} within")), "{index}");
        assert!(machine.ok(&["check", index, "--scrub"]).contains(&format!("{one} read")), "{index}");
    }
    assert!(machine.ok(&["stat", NUMBERS, "--count"]).contains("\n  records      1\n"));
    let pool = machine.ok(&["stat", "shm://p"]);
    assert_eq!(
        (pool.matches(", records, catfish").count(), pool.matches(", rectangles, catfish").count()),
        (2, 1)
    );
}

#[test]
fn stat_shows_the_ids() {
    let machine = with_records();
    assert!(machine.ok(&["stat", TEXTS]).contains("ids          unique, texts; with records"));
    assert_eq!(json_of(&machine, &["stat", NUMBERS])["ids"], json!("number"));
}
