//! Rectangles of GeoPackages, in builds with the feature `geopackage`, and the error of other builds.

#[cfg(not(feature = "geopackage"))]
#[test]
fn a_build_without_the_feature_names_it() {
    let machine = crate::geometries::with_degrees();
    let file = machine.file("towns.gpkg", b"SQLite format 3\0");
    machine.refused(2, &["load", "shm://p/s", &file], &["towns.gpkg", "--features geopackage"]);
}

#[cfg(feature = "geopackage")]
mod with_the_feature {
    use crate::geometries::{all, with_degrees};
    use crate::machine::Machine;
    use rusqlite::{Connection, params};
    use serde_json::json;

    /// Header without an envelope, and a line as WKB.
    fn line(points: &[[f64; 2]]) -> Vec<u8> {
        let header = [&b"GP\0\x01"[..], &4326_u32.to_le_bytes()].concat();
        let start = [&[1][..], &2_u32.to_le_bytes(), &(points.len() as u32).to_le_bytes()].concat();
        let numbers = points.iter().flatten().flat_map(|number| number.to_le_bytes());
        header.into_iter().chain(start).chain(numbers).collect()
    }

    /// A GeoPackage with layers of that name, each with these features.
    fn package(
        machine: &Machine,
        name: &str,
        layers: &[&str],
        features: &[(i64, Option<Vec<u8>>)],
    ) -> String {
        let path = machine.file(name, b"");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE gpkg_contents (table_name TEXT PRIMARY KEY, data_type TEXT);
                 CREATE TABLE gpkg_geometry_columns (table_name TEXT, column_name TEXT);
                 INSERT INTO gpkg_contents VALUES ('styles', 'attributes');",
            )
            .unwrap();
        for layer in layers {
            connection
                .execute_batch(&format!(
                    "CREATE TABLE \"{layer}\" (fid INTEGER PRIMARY KEY, name TEXT, geom BLOB);
                     INSERT INTO gpkg_contents VALUES ('{layer}', 'features');
                     INSERT INTO gpkg_geometry_columns VALUES ('{layer}', 'geom');"
                ))
                .unwrap();
            for (key, geometry) in features {
                let insert = format!("INSERT INTO \"{layer}\" VALUES (?1, 'name', ?2)");
                connection.execute(&insert, params![key, geometry]).unwrap();
            }
        }
        path
    }

    #[test]
    fn features_have_the_numbers_of_their_keys() {
        let features =
            [(75, Some(line(&[[1.0, 9.0], [-2.0, 3.0]]))), (9, Some(line(&[[5.0, 5.0], [6.0, 4.0]])))];
        let machine = with_degrees();
        let file = package(&machine, "towns.gpkg", &["all towns"], &features);
        let report = &machine.json(&["load", "shm://p/s", &file])[0];
        assert_eq!((&report["format"], &report["loaded"]), (&json!("geopackage"), &json!(2)));
        assert_eq!(all(&machine), ["75 -2,3,1,9", "9 5,4,6,5"]);

        machine.ok(&["create", "shm://p/records", "--index", "catfish", "--ids", "number"]);
        machine.ok(&["load", "shm://p/records", &file]);
        let record = &machine.json(&["get", "shm://p/records", "75"])[0];
        let line = json!({ "type": "LineString", "coordinates": [[1.0, 9.0], [-2.0, 3.0]] });
        assert_eq!(record["geometry"], line);

        let machine = with_degrees();
        let file = package(&machine, "any-name.db", &["towns", "roads"], &features[1..]);
        let load = ["load", "shm://p/s", &file];
        machine.refused(2, &load, &["choose one with --layer: roads, towns"]);
        machine.refused(
            2,
            &[&load[..], &["--layer", "rivers"]].concat(),
            &["no layer 'rivers'", "roads, towns"],
        );
        machine.ok(&[&load[..], &["--layer", "roads", "--ids", "position"]].concat());
        assert_eq!(all(&machine), ["1 5,4,6,5"]);
    }

    #[test]
    fn features_without_a_geometry_or_a_number_are_refused() {
        let good = || Some(line(&[[1.0, 2.0]; 2]));
        let machine = with_degrees();
        for (key, geometry, words) in [
            (2, None, "feature 2: the feature has no geometry"),
            (2, Some(b"GP".to_vec()), "feature 2: it is not a geometry of a GeoPackage"),
            (2, Some(line(&[[1.0, 2.0]])), "feature 2: a line has one position"),
            (2, Some(line(&[[200.0, 2.0]; 2])), "feature 2: x 200 is not a longitude"),
            (-7, good(), "feature 1: its id -7 is not an integer from 0"),
        ] {
            let file = package(&machine, "bad.gpkg", &["towns"], &[(1, good()), (key, geometry)]);
            machine.refused(2, &["load", "shm://p/s", &file], &[words]);
            assert_eq!(all(&machine), [""; 0]);
            let report = &machine.json(&["load", "shm://p/s", &file, "--skip-bad"])[0];
            assert_eq!((&report["loaded"], &report["skipped"]), (&json!(1), &json!(1)));
            machine.ok(&["del", "shm://p/s", "1", "1,2"]);
        }
    }

    #[test]
    fn other_databases_and_damaged_files_are_refused() {
        let machine = with_degrees();
        let none = package(&machine, "none.gpkg", &[], &[]);
        machine.refused(2, &["load", "shm://p/s", &none], &["no layer of features"]);
        let cut = machine.file("cut.gpkg", b"SQLite format 3\0");
        machine.refused(2, &["load", "shm://p/s", &cut], &["cut.gpkg", "cannot be read as a GeoPackage"]);
        let other = machine.file("other.db", b"");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE a (b);").unwrap();
        machine.refused(2, &["load", "shm://p/s", &other], &["no such table: gpkg_contents"]);
        let piped = machine
            .run_with_input(&["load", "shm://p/s", "-", "--format", "geopackage"], "SQLite format 3\0");
        assert!(piped.code == 2 && piped.err.contains("stdin"), "{piped:?}");
    }
    /// A GeoPackage with a layer of two features and columns of every type.
    fn with_columns(machine: &Machine) -> String {
        let path = package(machine, "sites.gpkg", &[], &[]);
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE sites (fid INTEGER PRIMARY KEY, shape BLOB, code TEXT(10), number MEDIUMINT,
                     height REAL, open BOOLEAN, built DATE, photo BLOB);
                 INSERT INTO gpkg_contents VALUES ('sites', 'features');
                 INSERT INTO gpkg_geometry_columns VALUES ('sites', 'SHAPE');",
            )
            .unwrap();
        let insert = "INSERT INTO sites VALUES (?1, ?2, ?3, ?4, 0.1, 1, '2024-05-01', ?5)";
        let shape = line(&[[1.0, 9.0], [-2.0, 3.0]]);
        for (key, code, number, photo) in
            [(1, Some("A \"1\""), Some(i64::MAX), Some(vec![1_u8])), (2, Some("B-2"), None, None)]
        {
            connection.execute(insert, params![key, shape, code, number, photo]).unwrap();
        }
        path
    }

    #[test]
    fn other_columns_are_attributes_with_their_types() {
        let machine = Machine::with_pool();
        machine.ok(&["create", "shm://p/s", "--index", "catfish", "--ids", "number"]);
        let file = with_columns(&machine);
        let report = &machine.json(&["load", "shm://p/s", &file])[0];
        assert_eq!((&report["loaded"], &report["left_out"]), (&json!(2), &json!(["photo"])));
        let properties = |id| machine.json(&["get", "shm://p/s", id]).remove(0)["properties"].clone();
        let expected = json!({ "code": "A \"1\"", "number": i64::MAX, "height": 0.1, "open": true,
            "built": "2024-05-01" });
        assert_eq!(properties("1"), expected);
        assert_eq!(
            (&properties("2")["number"], properties("2").get("photo")),
            (&json!(null), Some(&json!(null)))
        );
        let connection = Connection::open(&file).unwrap();
        connection.execute("UPDATE sites SET height = 9e999 WHERE fid = 2", []).unwrap();
        let words = "feature 2: column 'height': it is the number inf, which JSON does not have";
        machine.refused(2, &["load", "shm://p/s", &file], &[words]);
    }

    #[test]
    fn a_column_has_the_ids() {
        let machine = Machine::with_pool();
        machine.ok(&["create", "shm://p/s", "--index", "catfish", "--ids", "text"]);
        machine.ok(&["create", "shm://p/numbers", "--index", "catfish", "--ids", "number"]);
        let file = with_columns(&machine);
        machine.ok(&["load", "shm://p/s", &file, "--id-column", "CODE"]);
        let record = &machine.json(&["get", "shm://p/s", "B-2"])[0];
        assert_eq!((&record["properties"]["fid"], record["properties"].get("code")), (&json!(2), None));
        assert_eq!(record["geometry"]["type"], json!("LineString"));
        for (index, options, words) in [
            (
                "s",
                &[][..],
                "feature 1: its id 1 is a number, and the ids of the index are texts: name a column",
            ),
            ("s", &["--id-column", "number"], "feature 1: its id 9223372036854775807 is a number"),
            ("s", &["--id-column", "shape"], "feature 1: its id: it is binary"),
            ("s", &["--id-column", "none"], "no column 'none'; the layer has fid, shape, code, number"),
            ("numbers", &["--id-column", "code"], "is a text, and the ids of the index are numbers"),
            ("numbers", &["--id-column", "number"], "feature 2: its id is null"),
        ] {
            let url = format!("shm://p/{index}");
            machine.refused(2, &[&["load", &url, &file], options].concat(), &["sites.gpkg", words]);
        }
        machine.ok(&["load", "shm://p/s", &file, "--ids", "position"]);
        assert_eq!(machine.json(&["get", "shm://p/s", "2"])[0]["properties"]["code"], json!("B-2"));
    }
}
