//! Rectangles of GeoParquet files, in builds with the feature `geoparquet`, and the error of other builds.

#[cfg(not(feature = "geoparquet"))]
#[test]
fn a_build_without_the_feature_names_it() {
    let machine = crate::geometries::with_degrees();
    let file = machine.file("sites.parquet", b"PAR1");
    machine.refused(2, &["load", "shm://p/s", &file], &["sites.parquet", "--features geoparquet"]);
}

#[cfg(feature = "geoparquet")]
mod with_the_feature {
    use crate::geometries::{all, with_degrees};
    use crate::machine::Machine;
    use crate::records::with_records;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{
        BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
        FloatType, Int32Type, Int64Type,
    };
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
    use parquet::schema::parser::parse_message_type;
    use serde_json::{Value, json};
    use std::sync::Arc;

    type Rows<'r> = &'r [(Option<i64>, Option<Vec<u8>>)];

    fn point(x: f64, y: f64) -> Vec<u8> {
        [&[1][..], &1_u32.to_le_bytes(), &x.to_le_bytes(), &y.to_le_bytes()].concat()
    }

    fn geo(column: &Value) -> Value {
        json!({ "version": "1.1.0", "primary_column": "geometry", "columns": { "geometry": column } })
    }

    fn wkb() -> Value {
        geo(&json!({ "encoding": "WKB", "geometry_types": [] }))
    }

    /// A file with each of `groups` as a group of rows.
    fn parquet(metadata: &Value, compression: Compression, groups: &[Rows<'_>]) -> Vec<u8> {
        let schema = "message m { required binary name; optional binary geometry; optional int64 site; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let entry = KeyValue::new("geo".to_owned(), metadata.to_string());
        let properties = WriterProperties::builder().set_compression(compression);
        let properties =
            properties.set_key_value_metadata((!metadata.is_null()).then(|| vec![entry])).build();
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        for rows in groups {
            let mut group = writer.next_row_group().unwrap();
            let names = vec![ByteArray::from("name"); rows.len()];
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap();
            column.close().unwrap();
            let values: Vec<_> = rows.iter().filter_map(|row| row.1.clone()).map(ByteArray::from).collect();
            let levels: Vec<_> = rows.iter().map(|row| i16::from(row.1.is_some())).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
            column.close().unwrap();
            let values: Vec<_> = rows.iter().filter_map(|row| row.0).collect();
            let levels: Vec<_> = rows.iter().map(|row| i16::from(row.0.is_some())).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&values, Some(&levels), None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
        bytes
    }

    fn load(machine: &Machine, bytes: Vec<u8>, options: &[&str]) -> Value {
        let file = machine.file("sites.parquet", bytes);
        machine.json(&[&["load", "shm://p/s", &file], options].concat()).remove(0)
    }

    #[test]
    fn geometries_of_all_groups_are_loaded_with_their_numbers() {
        let [first, second] = [[(Some(70), Some(point(1.0, 2.0)))], [(Some(5), Some(point(3.0, 4.0)))]];
        let groups: [Rows<'_>; 2] = [&first, &second];
        for compression in
            [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())]
        {
            let machine = with_degrees();
            let report = load(&machine, parquet(&wkb(), compression, &groups), &["--id-column", "site"]);
            assert_eq!((&report["format"], &report["loaded"]), (&json!("geoparquet"), &json!(2)));
            assert_eq!(all(&machine), ["5 3,4,3,4", "70 1,2,1,2"]);
        }
        let machine = with_degrees();
        load(&machine, parquet(&wkb(), Compression::SNAPPY, &groups), &[]);
        assert_eq!(all(&machine), ["1 1,2,1,2", "2 3,4,3,4"], "numbered by position");
    }

    #[test]
    fn more_rows_than_a_batch_keep_their_numbers() {
        let rows: Vec<_> = (0..5000).map(|id| (Some(id), Some(point(id as f64 / 100.0, 1.0)))).collect();
        let machine = with_degrees();
        let report = load(&machine, parquet(&wkb(), Compression::SNAPPY, &[&rows]), &["--id-column", "site"]);
        assert_eq!(report["loaded"], 5000);
        let found = machine.ok(&["search", "shm://p/s", "--at", "41.23,1"]);
        assert_eq!(found, "4123 41.23,1,41.23,1\n");
    }

    #[test]
    fn rows_without_a_geometry_or_a_number_are_refused() {
        for (bad, words) in [
            ((Some(2), None), "feature 2: the row has no geometry"),
            ((Some(2), Some(vec![1, 2])), "feature 2: the WKB ends early"),
            ((Some(2), Some(point(200.0, 2.0))), "feature 2: x 200 is not a longitude"),
            ((Some(-2), Some(point(1.0, 2.0))), "feature 2: its id -2 is not an integer"),
            ((None, Some(point(1.0, 2.0))), "feature 2: its id is null"),
        ] {
            let machine = with_degrees();
            let rows = [(Some(1), Some(point(1.0, 2.0))), bad, (Some(3), Some(point(5.0, 6.0)))];
            let bytes = parquet(&wkb(), Compression::SNAPPY, &[&rows]);
            let file = machine.file("bad.parquet", &bytes);
            machine.refused(2, &["load", "shm://p/s", &file, "--id-column", "site"], &["bad.parquet", words]);
            let report = load(&machine, bytes, &["--id-column", "site", "--skip-bad"]);
            assert_eq!((&report["loaded"], &report["skipped"]), (&json!(2), &json!(1)));
            assert_eq!(all(&machine), ["1 1,2,1,2", "3 5,6,5,6"], "the rows after it keep their geometries");
        }
    }

    #[test]
    fn other_parquet_files_are_refused_with_the_reason() {
        let machine = with_degrees();
        let rows: Rows<'_> = &[(Some(1), Some(point(1.0, 2.0)))];
        let native = geo(&json!({ "encoding": "point", "geometry_types": [] }));
        let sphere = geo(&json!({ "encoding": "WKB", "geometry_types": [], "edges": "spherical" }));
        for (metadata, options, words) in [
            (Value::Null, &[][..], "no metadata of GeoParquet"),
            (json!({ "columns": {} }), &[], "not GeoParquet"),
            (json!({ "primary_column": "shape", "columns": {} }), &[], "do not describe the column 'shape'"),
            (native, &[], "encoding point"),
            (sphere, &[], "great circles"),
            (wkb(), &["--id-column", "number"], "no column 'number'; the file has name, geometry, site"),
            (
                wkb(),
                &["--id-column", "name"],
                "'name' has the type BYTE_ARRAY, and the ids of the index are numbers; name a column of integers",
            ),
            (wkb(), &["--layer", "a"], "--layer applies to GeoPackages"),
            (wkb(), &["--ids", "file"], "--id-column"),
        ] {
            let file = machine.file("other.parquet", parquet(&metadata, Compression::SNAPPY, &[rows]));
            machine.refused(2, &[&["load", "shm://p/s", &file], options].concat(), &[words]);
        }
        let whole = parquet(&wkb(), Compression::SNAPPY, &[rows]);
        for end in [4, 20, whole.len() - 1] {
            let file = machine.file("cut.parquet", &whole[..end]);
            machine.refused(
                2,
                &["load", "shm://p/s", &file],
                &["cut.parquet", "cannot be read as GeoParquet"],
            );
        }
        assert_eq!(all(&machine), [""; 0]);
    }
    /// Writes the next column, in which the second row is null.
    fn write_column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>, value: T::T) {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<T>().write_batch(&[value], Some(&[1, 0]), None).unwrap();
        column.close().unwrap();
    }

    /// A file with a column of each type, in which the second row has null in most of them.
    fn with_columns() -> Vec<u8> {
        let schema = "message m {
            optional boolean open; optional int32 small; optional int64 big (UINT_64);
            optional float single; optional double double; optional binary name (STRING);
            optional int32 price (DECIMAL(9,2)); optional fixed_len_byte_array (4) cost (DECIMAL(9,1));
            optional int32 built (DATE); optional int64 seen (TIMESTAMP(MICROS,true));
            optional int64 opens (TIME(MICROS,false));
            optional binary photo; optional group bbox { optional double xmin; }
            required binary geometry; required binary code (STRING); }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let entry = KeyValue::new("geo".to_owned(), wkb().to_string());
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![entry])).build();
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        write_column::<BoolType>(&mut group, false);
        write_column::<Int32Type>(&mut group, -7);
        write_column::<Int64Type>(&mut group, -1);
        write_column::<FloatType>(&mut group, 0.1);
        write_column::<DoubleType>(&mut group, f64::NAN);
        write_column::<ByteArrayType>(&mut group, ByteArray::from("a \"b\""));
        write_column::<Int32Type>(&mut group, -5);
        write_column::<FixedLenByteArrayType>(
            &mut group,
            FixedLenByteArray::from(vec![0xFF, 0xFF, 0xFF, 0x38]),
        );
        write_column::<Int32Type>(&mut group, 19_782);
        write_column::<Int64Type>(&mut group, 1_709_210_096_000_007);
        write_column::<Int64Type>(&mut group, 45_296_000_000);
        write_column::<ByteArrayType>(&mut group, ByteArray::from(vec![0_u8]));
        write_column::<DoubleType>(&mut group, 1.0);
        for values in [[point(1.0, 2.0), point(3.0, 4.0)], [b"A-1".to_vec(), b"B-2".to_vec()]] {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&values.map(ByteArray::from), None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        bytes
    }

    #[test]
    fn other_columns_are_attributes_with_their_types() {
        let machine = Machine::with_pool();
        machine.ok(&["create", "shm://p/s", "--index", "catfish", "--ids", "text"]);
        let report = load(&machine, with_columns(), &["--id-column", "code"]);
        assert_eq!((&report["loaded"], &report["left_out"]), (&json!(2), &json!(["bbox", "photo"])));
        let record = |id| machine.json(&["get", "shm://p/s", id]).remove(0);
        let expected = json!({ "open": false, "small": -7, "big": u64::MAX, "single": 0.1, "double": null,
            "name": "a \"b\"", "price": -0.05, "cost": -20.0, "built": "2024-02-29",
            "seen": "2024-02-29T12:34:56.000007Z", "opens": "12:34:56" });
        assert_eq!(record("A-1")["properties"], expected);
        assert_eq!(record("A-1")["geometry"], json!({ "type": "Point", "coordinates": [1.0, 2.0] }));
        let second = record("B-2")["properties"].clone();
        let nulls: Vec<_> = second.as_object().unwrap().values().filter(|value| value.is_null()).collect();
        assert_eq!(nulls.len(), 11, "{second}");
        let printed = machine.ok(&["get", "shm://p/s", "A-1"]);
        assert!(printed.contains("\"price\":-0.05,\"cost\":-20.0"), "decimal digits are kept: {printed}");
    }

    #[test]
    fn ids_are_of_the_kind_of_the_index() {
        let machine = with_records();
        let file = machine.file("sites.parquet", with_columns());
        for (index, column, words) in [
            (
                "texts",
                "small",
                "'small' has the type INT32, and the ids of the index are texts; name a column",
            ),
            ("texts", "photo", "'photo' has the type BYTE_ARRAY, and"),
            (
                "numbers",
                "code",
                "'code' has the type BYTE_ARRAY (UTF8), and the ids of the index are numbers",
            ),
            ("numbers", "built", "'built' has the type INT32 (DATE), and"),
            ("texts", "name", "feature 2: its id is null"),
        ] {
            let url = format!("shm://p/{index}");
            machine.refused(2, &["load", &url, &file, "--id-column", column], &["sites.parquet", words]);
        }
        machine.ok(&["load", "shm://p/numbers", &file, "--id-column", "big", "--skip-bad"]);
        let record = &machine.json(&["get", "shm://p/numbers", "18446744073709551615"])[0];
        assert_eq!(record["properties"]["code"], json!("A-1"));
    }
}
