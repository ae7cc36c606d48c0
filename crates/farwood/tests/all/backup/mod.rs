//! Backups: dumps, restores, and files that are damaged.

mod at_cut;
mod damage;
mod format;
mod hostile;
mod image;
mod live;
mod round_trip;

use farwood::backup::{BackupSummary, Dump, Restore};
use farwood::spatial::{CoordinateSystem, IdKind, Item, RTree, Record, RecordId, Rectangle};
use farwood::types::{Bytes, Text};
use farwood::{BTree, Hashed, Pool, Radix};

fn pool() -> Pool {
    Pool::anonymous(256 << 20).unwrap()
}

fn dumped(pool: &Pool) -> Vec<u8> {
    let mut file = Vec::new();
    Dump::of(pool).to_writer(&mut file).unwrap();
    file
}

fn restored(file: &[u8]) -> (Pool, BackupSummary) {
    let pool = pool();
    let summary = Restore::into(&pool).from_reader(file).unwrap();
    (pool, summary)
}

fn point(x: f64, y: f64) -> Rectangle {
    Rectangle::point([x, y]).unwrap()
}

/// A pool with an index of each kind, none with the default options.
fn varied() -> Pool {
    let pool = pool();
    let numbers = pool.create_index::<u64, u64>("numbers", &BTree::new().node_bytes(2048)).unwrap();
    for number in 0..3000 {
        numbers.put(number * 7, number).unwrap();
    }
    let words =
        pool.create_index::<Text, Bytes>("words", &BTree::new().key_bytes(24).slot_bytes(64)).unwrap();
    let names = pool.create_index::<Text, Text>("names", &Radix::smart()).unwrap();
    let tuples = pool.create_index::<(u32, Text), Option<u64>>("tuples", &Hashed::sphinx()).unwrap();
    for number in 0..300_u32 {
        words.put(format!("word {number}"), vec![number as u8; number as usize]).unwrap();
        names.put(format!("name {number}"), format!("value {number}")).unwrap();
        tuples.put((number, format!("\0{number}")), number.is_multiple_of(3).then_some(9)).unwrap();
    }
    pool.create_index::<u64, ()>("empty", &BTree::new()).unwrap();
    let degrees = RTree::new().coordinates(CoordinateSystem::Degrees).node_bytes(704);
    let places = pool.create_spatial("places", &degrees).unwrap();
    let items: Vec<_> = (0..500_u64)
        .map(|id| Item { bounds: point(id as f64 / 4.0, -(id as f64) / 8.0), id: id % 100 })
        .collect();
    places.bulk_load(&items, 0.7).unwrap();
    let records = |ids: IdKind, id: fn(u64) -> RecordId| {
        let parks = pool.create_spatial(ids.name(), &RTree::new().ids(ids)).unwrap();
        let records = (0..200).map(|number| Record {
            id: id(number),
            bounds: Rectangle::new([-1.0, number as f64], [1.0, number as f64 + 0.5]).unwrap(),
            payload: vec![number as u8; number as usize * 3],
        });
        parks.bulk_load_records(records.collect(), 0.8).unwrap();
    };
    records(IdKind::Number, |number| RecordId::from(number << 40));
    records(IdKind::Text, |number| RecordId::from(format!("Park {number}").as_str()));
    pool
}

/// The contents of the indexes of [`varied`], in a form that does not depend on the order of a search.
fn contents(pool: &Pool) -> Vec<(String, Vec<String>)> {
    let contents = |name: String| {
        let mut lines: Vec<_> = if pool.is_spatial(&name).unwrap() {
            let index = pool.open_spatial(&name).unwrap();
            assert_eq!(index.check().unwrap().problems, []);
            if index.ids().is_unique() {
                let all = farwood::spatial::Query::intersecting(Rectangle::new([-1e9; 2], [1e9; 2]).unwrap());
                index.search_records(&all).unwrap().iter().map(|record| format!("{record:?}")).collect()
            } else {
                let all = Rectangle::new([-180.0, -90.0], [180.0, 90.0]).unwrap();
                let all = farwood::spatial::Query::intersecting(all);
                index.search(&all).unwrap().iter().map(|item| format!("{item:?}")).collect()
            }
        } else {
            let index = pool.open_untyped(&name).unwrap();
            assert!(index.check().unwrap().problems().is_empty());
            index.iter().map(|entry| format!("{:?}", entry.unwrap())).collect()
        };
        lines.sort();
        (name, lines)
    };
    pool.indexes().unwrap().into_iter().map(|index| contents(index.name)).collect()
}
