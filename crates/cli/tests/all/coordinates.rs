//! Indexes of degrees, planar indexes and indexes that do not state their coordinates.

use crate::machine::Machine;
use serde_json::{Value, json};

/// A pool with the indexes `degrees`, `planar` and `unstated`.
fn with_all() -> Machine {
    let machine = Machine::with_pool();
    for crs in ["degrees", "planar"] {
        machine.ok(&["create", &url(crs), "--index", "catfish", "--crs", crs]);
    }
    machine.ok(&["create", &url("unstated"), "--index", "catfish"]);
    machine
}

fn url(index: &str) -> String {
    format!("shm://p/{index}")
}

/// The rectangles that intersect a window, in order.
fn found(machine: &Machine, index: &str, window: &str) -> Vec<String> {
    let out = machine.run(&["search", &url(index), "--bbox", window]);
    assert!(out.code <= 1, "{}", out.err);
    let mut rows: Vec<_> = out.out.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

fn country(id: u64, rings: &Value) -> String {
    let polygons: Vec<_> = rings.as_array().unwrap().iter().map(|ring| json!([ring])).collect();
    let geometry = json!({ "type": "MultiPolygon", "coordinates": polygons });
    json!({ "type": "Feature", "id": id, "properties": {}, "geometry": geometry }).to_string()
}

#[test]
fn stat_shows_the_coordinates_and_other_indexes_have_none() {
    let machine = with_all();
    for (index, text, value) in [
        ("degrees", "coordinates  degrees", json!("degrees")),
        ("planar", "coordinates  planar", json!("planar")),
        ("unstated", "coordinates  not stated", Value::Null),
    ] {
        let shown = machine.ok(&["stat", &url(index)]);
        assert!(shown.contains(text), "{shown}");
        assert_eq!(machine.json(&["stat", &url(index)])[0]["crs"], value);
    }
    for kind in ["sherman", "smart", "sphinx"] {
        let create = ["create", "shm://p/i", "--index", kind, "--crs", "planar"];
        machine.refused(2, &create, &["--crs", "--index catfish, or omit --crs"]);
    }
    machine.refused(2, &["create", "shm://other", "--crs", "planar"], &["--crs is an option of an index"]);
}

#[test]
fn only_an_index_of_degrees_has_windows_across_the_antimeridian() {
    let machine = with_all();
    for index in ["degrees", "planar", "unstated"] {
        machine.ok(&["put", &url(index), "1", "2,2"]);
        machine.ok(&["put", &url(index), "2", "-170,2"]);
    }
    assert_eq!(found(&machine, "degrees", "170,0,-160,5"), ["2 -170,2,-170,2"]);
    for (index, whose) in [("planar", "this index is planar"), ("unstated", "does not state degrees")] {
        for more in [&["--count"][..], &["--within"], &["--nearest", "1"]] {
            let url = url(index);
            let search = [&["search", &url, "--bbox", "170,0,-160,5"], more].concat();
            machine.refused(2, &search, &["x1 170 is greater than x2 -160", "--crs degrees", whose]);
        }
    }
}

#[test]
fn an_index_of_degrees_has_no_other_coordinates() {
    let machine = with_all();
    let file = machine.file("rows.csv", "1,2,1\n181,2,2\n");
    for (arguments, words) in [
        (&["put", "shm://p/degrees", "1", "200,0"][..], "x 200 is not a longitude from -180 to 180"),
        (&["put", "shm://p/degrees", "1", "0,-91,0,0"], "y -91 is not a latitude from -90 to 90"),
        (&["search", "shm://p/degrees", "--bbox", "-181,0,0,1"], "x -181 is not a longitude"),
        (&["search", "shm://p/degrees", "--at", "0,90.5"], "y 90.5 is not a latitude"),
        (&["search", "shm://p/degrees", "--at", "181,0", "--nearest", "1"], "x 181 is not a longitude"),
        (&["load", "shm://p/degrees", &file], "rows.csv:2: x 181 is not a longitude"),
    ] {
        machine.refused(2, arguments, &[words]);
    }
    let report = &machine.json(&["load", "shm://p/degrees", &file, "--skip-bad"])[0];
    assert_eq!((&report["loaded"], &report["skipped"]), (&json!(1), &json!(1)));
    assert_eq!(
        machine.ok(&["stat", "shm://p/degrees", "--count", "--json"]).matches("\"entries\":1").count(),
        1
    );
    machine.ok(&["check", "shm://p/degrees"]);
    for index in ["planar", "unstated"] {
        machine.ok(&["put", &url(index), "1", "200,-91"]);
        machine.ok(&["load", &url(index), &file]);
        assert_eq!(found(&machine, index, "181,-100,300,100").len(), 2);
    }
}

#[test]
fn countries_at_the_antimeridian_are_not_around_the_world() {
    let machine = with_all();
    // Fiji as Natural Earth has it: the cut is not exact on one side.
    let fiji = country(
        242,
        &json!([
            [[180.000_000_000_000_06, -17], [180, -16], [177, -16], [177, -17], [180, -17]],
            [[-178, -17], [-178, -16], [-179.999_999_9, -16], [-179.999_999_9, -17], [-178, -17]]
        ]),
    );
    let chukotka = country(
        87,
        &json!([
            [[-180, 65], [-169, 65], [-169, 66], [-180, 66], [-180, 65]],
            [[160, 62], [180, 62], [180, 70], [160, 70], [160, 62]]
        ]),
    );
    // Parts that are not cut at the antimeridian.
    let kiribati = country(296, &json!([[[172, 1], [177, 1], [177, 2]], [[-160, 2], [-150, 2], [-150, 3]]]));
    let file = machine.file("countries.ndjson", [fiji, chukotka, kiribati].join("\n"));
    machine.ok(&["load", "shm://p/degrees", &file]);
    assert_eq!(found(&machine, "degrees", "0,-90,1,90"), [""; 0], "nothing is at Greenwich");
    let all = [
        "242 -179.9999999,-17,-178,-16",
        "242 177,-17,180,-16",
        "296 -160,2,-150,3",
        "296 172,1,177,2",
        "87 -180,65,-169,66",
        "87 160,62,180,70",
    ];
    assert_eq!(found(&machine, "degrees", "160,-90,-150,90"), all);
    machine.ok(&["load", "shm://p/planar", &file]);
    assert_eq!(found(&machine, "planar", "0,-90,1,90").len(), 3, "a plane has no antimeridian");
}

/// Fiji is loaded, and put: the record has one rectangle in both cases.
#[test]
fn a_record_at_the_antimeridian_is_found_by_its_latitudes_and_exactly_by_its_geometry() {
    let machine = Machine::with_pool();
    let records = "shm://p/records";
    machine.ok(&["create", records, "--index", "catfish", "--ids", "number", "--crs", "degrees"]);
    let rings = json!([
        [[177, -17], [180, -17], [180, -16], [177, -16], [177, -17]],
        [[-180, -17], [-178, -17], [-178, -16], [-180, -16], [-180, -17]]
    ]);
    machine.ok(&["load", records, &machine.file("fiji.geojson", country(242, &rings))]);
    let wkt = "MULTIPOLYGON(((177 -17,180 -17,180 -16,177 -17)),((-180 -17,-178 -17,-180 -16,-180 -17)))";
    machine.ok(&["put", records, "243", "--geometry", wkt]);
    machine.ok(&["put", records, "9", "5,5"]);
    let found = |arguments: &[&str]| {
        let out = machine.run(&[&["search", records], arguments].concat()).out;
        let mut ids: Vec<_> = out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let (atlantic, fiji) = (["--bbox", "-30,-20,-20,-10"], ["--bbox", "170,-20,-170,-10"]);
    let both = ["242", "243"];
    assert_eq!(found(&atlantic), both);
    assert_eq!(found(&["--at", "-25,-16.9"]), both);
    assert_eq!(found(&[&atlantic[..], &["--count"]].concat()), ["2"]);
    assert_eq!(found(&["--bbox", "-30,0,-20,1"]), [""; 0], "other latitudes");
    assert_eq!(found(&[&fiji[..], &["--within"]].concat()), [""; 0]);
    assert_eq!(found(&[&fiji[..], &["--relation", "within"]].concat()), both);
    for exact in [&["--relation", "intersects"][..], &["--within-distance", "100000"]] {
        assert_eq!(found(&[&atlantic[..], exact].concat()), [""; 0], "{exact:?}");
        assert_eq!(found(&[&fiji[..], exact].concat()), both, "{exact:?}");
    }
    assert_eq!(found(&["--geometry", "POLYGON((-30 -20,-20 -20,-20 -10,-30 -20))"]), [""; 0]);
    assert_eq!(found(&["--at", "-25,-16.5", "--nearest", "1"]), ["9"]);
}

#[test]
fn a_bbox_across_the_antimeridian_contains_the_geometry() {
    let machine = with_all();
    for (bbox, at) in [
        ([10.0, 0.0, 5.0, 1.0], [100.0, 50.0]),
        ([10.0, 0.0, 5.0, 1.0], [7.0, 0.5]),
        ([177.0, -20.0, -178.0, -12.0], [0.0, -17.0]),
        ([177.0, -20.0, -178.0, -12.0], [200.0, -17.0]),
    ] {
        let feature =
            json!({ "type": "Feature", "bbox": bbox, "geometry": { "type": "Point", "coordinates": at } });
        let file = machine.file("far.geojson", feature.to_string());
        for index in ["degrees", "unstated"] {
            let words = ["feature 1", "does not contain the geometry", "correct the bbox"];
            machine.refused(2, &["load", &url(index), &file], &words);
        }
    }
    let rounded = json!({ "type": "Feature", "id": 1, "bbox": [177.0, -20.0, -178.0, -12.0], "geometry":
        { "type": "MultiPoint", "coordinates": [[176.999_999_999_9, -17], [-178, -12], [180, -20]] } });
    machine.ok(&["load", &url("degrees"), &machine.file("near.geojson", rounded.to_string())]);
}

#[test]
fn a_bbox_across_the_antimeridian_needs_an_index_that_is_not_planar() {
    let machine = with_all();
    let island = json!({ "type": "Feature", "id": 7, "bbox": [177, -20, -178, -12], "geometry":
        { "type": "Point", "coordinates": [179, -17] } });
    let file = machine.file("island.geojson", island.to_string());
    for index in ["degrees", "unstated"] {
        machine.ok(&["load", &url(index), &file]);
        assert_eq!(found(&machine, index, "-179,-13,-179,-13"), ["7 -180,-20,-178,-12"]);
    }
    machine.refused(
        2,
        &["load", "shm://p/planar", &file],
        &["feature 1", "crosses the antimeridian", "planar"],
    );
}
