//! Searches by geometry and joins of indexes of unique ids.

use crate::machine::Machine;
use serde_json::{Value, json};

const PARKS: &str = "shm://p/parks";
const CITIES: &str = "shm://p/cities";
const TRIANGLE: &str = "POLYGON((0 0,4 0,0 4,0 0))";

/// A pool with triangles and points in the plane, under texts, and with cities in degrees, under numbers.
fn with_records() -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", PARKS, "--index", "catfish", "--ids", "text", "--crs", "planar"]);
    for (id, geometry) in
        [("Oak\tPark", TRIANGLE), ("corner", "POINT(3 3)"), ("inside", "POINT(1 1)"), ("edge", "POINT(2 2)")]
    {
        machine.ok(&["put", PARKS, id, "--geometry", geometry, "--attributes", r#"{"trees":7}"#]);
    }
    machine.ok(&["put", PARKS, "box", "10,10,12,12"]);
    machine.ok(&["create", CITIES, "--index", "catfish", "--ids", "number", "--crs", "degrees"]);
    for (id, geometry) in [("1", "POINT(179.5 0)"), ("2", "POINT(-179.5 0)"), ("3", "POINT(-178 0)")] {
        machine.ok(&["put", CITIES, id, "--geometry", geometry]);
    }
    machine
}

/// The ids that a search prints, in order.
fn ids(machine: &Machine, index: &str, arguments: &[&str]) -> Vec<String> {
    let out = machine.ok(&[&["search", index], arguments].concat());
    let mut ids: Vec<_> =
        out.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn records_are_found_by_every_relation() {
    let machine = with_records();
    let found = |arguments: &[&str]| ids(&machine, PARKS, arguments);
    let related = |relation: &str| found(&["--geometry", TRIANGLE, "--relation", relation]);
    assert_eq!(found(&["--bbox", "0,0,4,4"]), ["Oak\\tPark", "corner", "edge", "inside"]);
    assert_eq!(found(&["--bbox", "0,0,3.5,3.5", "--within"]), ["corner", "edge", "inside"]);
    assert_eq!(found(&["--at", "3,3"]), ["Oak\\tPark", "corner"], "by rectangles");
    assert_eq!(found(&["--at", "3,3", "--relation", "intersects"]), ["corner"], "by geometries");
    assert_eq!(found(&["--geometry", TRIANGLE]), ["Oak\\tPark", "edge", "inside"]);
    assert_eq!(related("intersects"), ["Oak\\tPark", "edge", "inside"]);
    assert_eq!(related("within"), ["Oak\\tPark", "inside"]);
    assert_eq!(found(&["--geometry", TRIANGLE, "--within"]), ["Oak\\tPark", "inside"]);
    assert_eq!(related("covered-by"), ["Oak\\tPark", "edge", "inside"]);
    assert_eq!(related("touches"), ["edge"]);
    assert_eq!(related("equals"), ["Oak\\tPark"]);
    assert_eq!(related("contains"), ["Oak\\tPark"]);
    assert_eq!(related("disjoint"), ["box", "corner"]);
    assert_eq!(found(&["--at", "1,1", "--relation", "covers"]), ["Oak\\tPark", "inside"]);
    assert_eq!(found(&["--bbox", "1,1,20,11", "--relation", "overlaps"]), ["Oak\\tPark", "box"]);
    let line = r#"{"type":"LineString","coordinates":[[-1,1],[9,1]]}"#;
    assert_eq!(found(&["--geometry", line, "--relation", "crosses"]), ["Oak\\tPark"]);
    let count = ["search", PARKS, "--geometry", TRIANGLE, "--count"];
    assert_eq!(machine.ok(&count), "3\n");
    let none = machine.run(&["search", PARKS, "--at", "3.5,3.5", "--relation", "contains"]);
    assert_eq!(none.code, 1);
    none.says(&["no record was found"]);
}

#[test]
fn distances_are_those_of_the_plane_or_metres() {
    let machine = with_records();
    let parks = |arguments: &[&str]| machine.ok(&[&["search", PARKS], arguments].concat());
    let near = parks(&["--at", "5,3", "--nearest", "2"]);
    assert_eq!(near, "corner\t3,3,3,3\t2\nOak\\tPark\t0,0,4,4\t2.82842712474619\n");
    let tied = parks(&["--geometry", "POINT(1 1)", "--nearest", "1", "--ties"]);
    assert_eq!(tied, "Oak\\tPark\t0,0,4,4\t0\ninside\t1,1,1,1\t0\n");
    assert_eq!(parks(&["--at", "5,3", "--within-distance", "2"]), "corner\t3,3,3,3\t2\n");
    assert_eq!(
        parks(&["--at", "5,3", "--nearest", "9", "--max-distance", "2", "--metric", "planar"]),
        "corner\t3,3,3,3\t2\n"
    );
    let degree = 6_371_008.8 * 1f64.to_radians();
    let found = machine.json(&["search", CITIES, "--at", "179.5,0", "--nearest", "2"]).remove(0);
    let features = found["features"].as_array().unwrap();
    assert_eq!((&features[0]["id"], &features[1]["id"]), (&json!(1), &json!(2)));
    let distance = features[1]["distance"].as_f64().unwrap();
    assert!((distance - degree).abs() < 1e-3, "{distance}");
    assert_eq!(ids(&machine, CITIES, &["--at", "180,0", "--within-distance", "60000"]), ["1", "2"]);
    assert_eq!(
        ids(&machine, CITIES, &["--at", "180,0", "--within-distance", "0.6", "--metric", "planar"]),
        ["1"]
    );
    assert_eq!(ids(&machine, CITIES, &["--bbox", "179,-1,-179,1", "--relation", "within"]), ["1", "2"]);
    assert_eq!(ids(&machine, CITIES, &["--bbox", "179,-1,-179,1"]), ["1", "2"]);
}

#[test]
fn features_have_geometries_and_attributes() {
    let machine = with_records();
    let found = machine.json(&["search", PARKS, "--bbox", "0,3.5,12,12"]).remove(0);
    let mut features = found["features"].as_array().unwrap().clone();
    features.sort_by_key(|feature| feature["id"].to_string());
    let ring = json!([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]);
    assert_eq!(
        features[0],
        json!({ "type": "Feature", "id": "Oak\tPark", "bbox": [0.0, 0.0, 4.0, 4.0],
            "geometry": { "type": "Polygon", "coordinates": [ring] }, "properties": { "trees": 7 } })
    );
    let square = json!([[10.0, 10.0], [12.0, 10.0], [12.0, 12.0], [10.0, 12.0], [10.0, 10.0]]);
    assert_eq!(features[1]["geometry"]["coordinates"], json!([square]));
    assert_eq!((&features[1]["properties"], features.len()), (&json!({}), 2));
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let machine = with_records();
    machine.ok(&["create", "shm://p/plain", "--index", "catfish"]);
    let refused = |index: &str, arguments: &[&str], words: &[&str]| {
        machine.refused(2, &[&["search", index], arguments].concat(), words);
    };
    for arguments in [
        &["--geometry", "POINT(1 1)"][..],
        &["--at", "1,1", "--relation", "touches"],
        &["--at", "1,1", "--within-distance", "1"],
        &["--at", "1,1", "--nearest", "1", "--metric", "planar"],
        &["--at", "1,1", "--nearest", "1", "--max-distance", "1"],
        &["--at", "1,1", "--nearest", "1", "--ties"],
    ] {
        let option = arguments.iter().rev().find(|word| word.starts_with("--")).unwrap();
        let remedy = match *option {
            "--geometry" => "give --bbox or --at instead of --geometry, or".to_owned(),
            _ => format!("omit {option}, or"),
        };
        refused("shm://p/plain", arguments, &[&format!("{option} needs an index of unique ids"), &remedy]);
    }
    refused(PARKS, &["--geometry", "POINT(1"], &["--geometry:"]);
    refused(PARKS, &["--geometry", "{}"], &["--geometry:", "type none"]);
    refused(PARKS, &["--at", "1,1", "--metric", "planar"], &["--metric applies to --nearest"]);
    refused(PARKS, &["--at", "1,1", "--nearest", "1", "--metric", "sphere"], &["an index of degrees"]);
    refused(PARKS, &["--at", "1,1", "--within-distance", "-1"], &["'-1' is not a distance"]);
    refused(PARKS, &["--at", "1,1", "--ties"], &["--nearest"]);
    refused(PARKS, &["--relation", "within"], &["--bbox X1,Y1,X2,Y2, --at X,Y or --geometry WKT"]);
    refused(CITIES, &["--geometry", "POINT(181 0)"], &["is 181,0,181,0", "longitude"]);
    refused(PARKS, &["--at", "1,1", "--geometry", "POINT(1 1)"], &["cannot be used with"]);
}

#[test]
fn two_indexes_are_joined() {
    let machine = with_records();
    let rows = "0,0,2,2,1\n1,1,1,1,2\n11,11,30,30,3\n";
    machine.ok(&["create", "shm://p/plain", "--index", "catfish"]);
    machine.ok(&["load", "shm://p/plain", &machine.file("rows.csv", rows)]);
    let joined = |arguments: &[&str]| {
        let out = machine.ok(&[&["join", PARKS, "shm://p/plain"], arguments].concat());
        let mut pairs: Vec<_> = out.lines().map(str::to_owned).collect();
        pairs.sort();
        pairs
    };
    let all = ["Oak\\tPark\t1", "Oak\\tPark\t2", "box\t3", "edge\t1", "inside\t1", "inside\t2"];
    assert_eq!(joined(&[]), all);
    assert_eq!(joined(&["--relation", "within"]), ["inside\t1", "inside\t2"]);
    assert_eq!(joined(&["--relation", "touches"]), ["edge\t1"]);
    assert_eq!(joined(&["--count"]), ["6"]);
    let overlaps = machine.json(&["join", PARKS, "shm://p/plain", "--relation", "equals"]);
    let pair: Vec<Value> = vec![json!({ "first": "inside", "second": 2 })];
    assert_eq!(overlaps, pair);
    let none = machine.run(&["join", PARKS, "shm://p/plain", "--relation", "crosses"]);
    assert_eq!(none.code, 1);
    none.says(&["no pair was found"]);
    machine.refused(2, &["join", PARKS, CITIES], &["is planar", "are degrees"]);
    machine.ok(&["create", "shm://p/keys"]);
    machine.refused(2, &["join", PARKS, "shm://p/keys"], &["join shm://p/keys: this index holds keys"]);
    machine.refused(2, &["join", PARKS, "p/x"], &["'<URL2>'", "this is not a URL"]);
}
