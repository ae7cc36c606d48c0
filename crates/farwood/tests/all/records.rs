//! Records of a spatial index of unique ids: in place, through rings, and over TCP, by message and by READs.

use crate::spatial_pool::{SpatialPool, served, served_over_tcp};
use farwood::Error;
use farwood::error::IndexError;
use farwood::spatial::{
    IdKind, Item, Query, RTree, Record, RecordId, Rectangle, SearchMode, ServeOptions, Spatial,
};
use std::collections::BTreeMap;

/// An index of unique ids.
fn config(ids: IdKind) -> RTree {
    RTree::new().ids(ids)
}

fn point(x: u64, y: u64) -> Rectangle {
    Rectangle::point([x as f64, y as f64]).unwrap()
}

fn everything() -> Query {
    Query::intersecting(Rectangle::new([-1.0, -1.0], [1e9, 1e9]).unwrap())
}

fn id(number: u64, ids: IdKind) -> RecordId {
    if ids == IdKind::Text { RecordId::from(&*format!("place {number}")) } else { RecordId::from(number) }
}

/// The record of a number; one in nine has a payload that is longer than a node.
fn record(number: u64, x: u64, ids: IdKind) -> Record {
    let length = if number.is_multiple_of(9) { 7_000 + number % 900 } else { number % 60 };
    let payload = (0..length).map(|at| (at ^ number) as u8).collect();
    Record { id: id(number, ids), bounds: point(x, number), payload }
}

fn by_id(records: Vec<Record>) -> BTreeMap<RecordId, Record> {
    let count = records.len();
    let records: BTreeMap<_, _> = records.into_iter().map(|record| (record.id.clone(), record)).collect();
    assert_eq!(records.len(), count, "no record is found twice");
    records
}

/// Changes records, and finds them by each of the handles.
fn change_and_find(places: &Spatial, handles: &[&Spatial]) {
    const RECORDS: u64 = 600;
    let ids = places.ids();
    let mut model: BTreeMap<_, _> =
        (0..RECORDS).map(|number| (id(number, ids), record(number, number % 97, ids))).collect();
    let replaced = places.put_many(model.values().cloned()).unwrap();
    assert_eq!(replaced, vec![false; RECORDS as usize]);
    let changed = places.change(|editor| {
        for number in (0..RECORDS).step_by(5) {
            let new = record(number, 200, ids);
            assert!(editor.put(new.clone())?);
            model.insert(new.id.clone(), new);
        }
        for number in (0..RECORDS).step_by(7) {
            let id = id(number, ids);
            assert!(editor.move_to(&id, point(300, number))?);
            model.get_mut(&id).unwrap().bounds = point(300, number);
        }
        for number in (0..RECORDS).step_by(4) {
            let id = id(number, ids);
            assert!(editor.delete(&id)?);
            assert!(!editor.delete(&id)? && !editor.move_to(&id, point(1, 1))?);
            model.remove(&id);
        }
        Ok(())
    });
    changed.unwrap();
    assert!(!places.delete(&id(4, ids)).unwrap() && !places.move_to(&id(4, ids), point(1, 1)).unwrap());
    assert!(!places.put(record(0, 5, ids)).unwrap(), "a deleted record is put again");
    model.insert(id(0, ids), record(0, 5, ids));
    for handle in handles {
        assert_eq!(by_id(handle.search_records(&everything()).unwrap()), model);
        let moved = Query::intersecting(Rectangle::new([300.0, 0.0], [300.0, 1e9]).unwrap());
        let expected: BTreeMap<_, _> =
            model.clone().into_iter().filter(|(_, record)| record.bounds.min()[0] >= 300.0).collect();
        assert_eq!(by_id(handle.search_records(&moved).unwrap()), expected);
        for number in 0..RECORDS + 3 {
            let id = id(number, ids);
            assert_eq!(handle.get(&id).unwrap().as_ref(), model.get(&id), "{id}");
        }
        let near = handle.nearest_records([5.0, 0.0], 3).unwrap();
        assert_eq!((near.len(), &near[0]), (3, &record(0, 5, ids)));
        assert_eq!(handle.count_all().unwrap(), model.len() as u64);
    }
    let report = places.check().unwrap();
    assert_eq!((report.problems, report.records), (vec![], model.len() as u64));
}

#[test]
fn records_are_changed_in_place() {
    for ids in [IdKind::Number, IdKind::Text] {
        let scratch = SpatialPool::new();
        let places = scratch.create("places", &config(ids));
        change_and_find(&places, &[&places, &scratch.by(SearchMode::Reads, "places")]);
    }
}

#[test]
fn records_are_changed_through_rings() {
    let scratch = SpatialPool::new();
    let places = scratch.create("places", &config(IdKind::Text));
    let handles =
        [SearchMode::Auto, SearchMode::Message, SearchMode::Reads].map(|mode| scratch.by(mode, "places"));
    served(&places, &ServeOptions::default(), || {
        change_and_find(&places, &handles.each_ref());
    });
}

#[test]
fn records_are_changed_over_tcp() {
    served_over_tcp(&config(IdKind::Text), |_, open| {
        let handles = [SearchMode::Auto, SearchMode::Message, SearchMode::Reads].map(open);
        change_and_find(&open(SearchMode::Auto), &handles.each_ref());
        let twice = vec![record(900, 1, IdKind::Text); 2];
        for number in 0..700 {
            handles[0].delete(&id(number, IdKind::Text)).unwrap();
        }
        let refused = handles[0].bulk_load_records(twice, 0.7).unwrap_err();
        assert!(refused.to_string().contains("two records have the id place 900"), "{refused}");
    });
}

#[test]
fn records_are_loaded_at_once_and_found_after_a_restart() {
    let scratch = SpatialPool::new();
    let records: Vec<_> = (0..5_000).map(|number| record(number, number % 313, IdKind::Text)).collect();
    let places = scratch.create("places", &config(IdKind::Text));
    let twice = vec![records[3].clone(), records[3].clone()];
    assert!(matches!(
        places.bulk_load_records(twice, 0.7),
        Err(Error::Index { source: IndexError::BadId(_), .. })
    ));
    places.bulk_load_records(records.clone(), 0.7).unwrap();
    drop(places);
    let places = scratch.by(SearchMode::Auto, "places");
    assert_eq!(by_id(places.search_records(&everything()).unwrap()), by_id(records.clone()));
    let report = places.check().unwrap();
    assert_eq!((report.problems, report.records, report.entries), (vec![], 5_000, 5_000));
    let deleted = places.change(|editor| {
        (0..5_000).map(|number| editor.delete(&id(number, IdKind::Text))).collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(deleted.unwrap(), vec![true; 5_000]);
    assert!(places.is_empty().unwrap());
    assert_eq!(places.check().unwrap().problems, []);
}

/// Requests with the longest ids fit into the smallest rings.
#[test]
fn the_longest_ids_fit_into_the_smallest_rings() {
    let scratch = SpatialPool::new();
    let pool = scratch.open();
    let config = RTree::new().ids(IdKind::Text).ring_bytes(4096);
    let places = pool.create_spatial("places", &config).unwrap();
    let long = |number: u64| RecordId::from(&*format!("{number:0255}"));
    let payload = vec![7; places.payload_max()];
    served(&places, &ServeOptions::default(), || {
        for number in 0..50 {
            let record = Record { id: long(number), bounds: point(number, 1), payload: payload.clone() };
            assert!(!places.put(record).unwrap());
        }
        let by_message = scratch.by(SearchMode::Message, "places");
        assert_eq!(by_message.get(&long(49)).unwrap().unwrap().payload, payload);
        assert_eq!(by_message.search_records(&everything()).unwrap().len(), 50);
        assert!(places.move_to(&long(3), point(9, 9)).unwrap() && places.delete(&long(3)).unwrap());
    });
    assert_eq!(places.check().unwrap().problems, []);
}

/// Words below those of the loaded records go to the first page of each level, which then splits.
#[test]
fn smaller_ids_than_the_loaded_ones_are_found() {
    let scratch = SpatialPool::new();
    let places = scratch.create("places", &config(IdKind::Number));
    places
        .bulk_load_records((1000..6000).map(|number| record(number, 1, IdKind::Number)).collect(), 0.7)
        .unwrap();
    places.put_many((0..1000).map(|number| record(number, 2, IdKind::Number))).unwrap();
    assert_eq!(places.check().unwrap().problems, []);
    for number in 0..6000 {
        assert!(places.get(&RecordId::from(number)).unwrap().is_some(), "{number}");
    }
    let zeros =
        |x: f64| Record { bounds: Rectangle::point([x, 0.0]).unwrap(), ..record(5, 0, IdKind::Number) };
    places.put(zeros(0.0)).unwrap();
    places.put(zeros(-0.0)).unwrap();
    assert_eq!(places.check().unwrap().problems, []);
    assert_eq!(places.scrub().unwrap(), 6000);
}

#[test]
fn changes_that_do_not_fit_the_index_are_refused() {
    let scratch = SpatialPool::new();
    let places = scratch.create("places", &config(IdKind::Number));
    let refused = |done: Result<bool, Error>| match done {
        Err(Error::Index { source, .. }) => source.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(places.put(record(1, 1, IdKind::Text))).contains("\"place 1\" is a text"));
    assert!(refused(places.delete(&RecordId::from("oak"))).contains("is a text"));
    let long = Record { payload: vec![0; places.payload_max() + 1], ..record(1, 1, IdKind::Number) };
    assert!(refused(places.put(long)).contains("the limit is 65024"));
    let whole = Record { payload: vec![7; places.payload_max()], ..record(1, 1, IdKind::Number) };
    served(&places, &ServeOptions::default(), || {
        assert!(!places.put(whole.clone()).unwrap());
        assert_eq!(scratch.by(SearchMode::Message, "places").get(&whole.id).unwrap().as_ref(), Some(&whole));
    });
    let item = Item { bounds: point(1, 1), id: 1 };
    assert!(refused(places.insert(&item).map(|()| true)).contains("put, delete and move records"));
    assert!(refused(places.bulk_load(&[item], 0.7).map(|()| true)).contains("load records"));
    let pool = scratch.open();
    let plain = pool.create_spatial("plain", &RTree::new()).unwrap();
    assert!(refused(plain.put(record(1, 1, IdKind::Number))).contains("without records"));
    assert!(refused(plain.get(&RecordId::from(1)).map(|_| true)).contains("without records"));
    assert!(refused(plain.search_records(&everything()).map(|_| true)).contains("without records"));
    let rings = RTree::new().ring_bytes(2048).ids(IdKind::Text);
    let rings = pool.create_spatial("rings", &rings).unwrap_err();
    assert!(rings.to_string().contains("rings of at least 4096 bytes"), "{rings}");
    let small = RTree::new().node_bytes(1344).ids(IdKind::Number);
    let small = pool.create_spatial("small", &small).unwrap_err();
    assert!(small.to_string().contains("at least 1664 bytes"), "{small}");
}

/// In a full pool, removals work, and nearly all of the removed memory can be used again.
#[test]
fn a_full_pool_takes_records_in_the_place_of_removed_ones() {
    let scratch = SpatialPool::with_memory(24 << 20);
    let places = scratch.create("places", &config(IdKind::Text));
    let put_until_full = |from: u64| {
        let full = places.change(|editor| {
            for number in from.. {
                match editor.put(record(number, number % 89, IdKind::Text)) {
                    Ok(_) => {}
                    Err(error) if error.exit_code() == 5 => return Ok(number - from),
                    Err(error) => return Err(error),
                }
            }
            unreachable!("a pool of 24 MiB is full before the numbers end")
        });
        full.unwrap()
    };
    let first = put_until_full(0);
    assert!(first > 3_000, "{first}");
    let (mut from, mut next) = (0, first);
    for round in 0..2 {
        let half = (next - from) / 2;
        let deleted = places.change(|editor| {
            (from..from + half).try_for_each(|number| {
                assert!(editor.delete(&id(number, IdKind::Text))?, "{number}");
                Ok(())
            })
        });
        deleted.unwrap();
        from += half;
        let added = put_until_full(next);
        assert!(added * 20 >= half * 19, "round {round}: {added} of {half} fit again");
        next += added;
        let report = places.check().unwrap();
        assert_eq!((report.problems, report.records), (vec![], next - from));
    }
}
