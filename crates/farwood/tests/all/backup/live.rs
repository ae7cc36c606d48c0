//! Dumps while other threads change the indexes.

use super::{dumped, point, pool, restored};
use farwood::spatial::{IdKind, RTree, Record, RecordId};
use farwood::{BTree, Hashed, Radix};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Each entry is as it was at some moment of the dump, and those that nothing changed are all there.
#[test]
fn a_dump_beside_writers_keeps_the_promise_of_scans() {
    let pool = pool();
    let indexes = [
        pool.create_index::<u64, u64>("tree", &BTree::new()).unwrap(),
        pool.create_index::<u64, u64>("radix", &Radix::new()).unwrap(),
        pool.create_index::<u64, u64>("hashed", &Hashed::new()).unwrap(),
    ];
    for index in &indexes {
        index.bulk_load().run((0..5_000).map(|number| (number * 2, number))).unwrap();
    }
    let ended = AtomicBool::new(false);
    let (file, changes) = thread::scope(|threads| {
        let writers: Vec<_> = indexes
            .iter()
            .map(|index| {
                let ended = &ended;
                threads.spawn(move || {
                    let mut changes = 0;
                    for step in 0.. {
                        // Every fifth key changes its value or disappears; keys between the others appear.
                        let number = step * 5 % 5_000;
                        index.put(number * 2, number + 1_000_000).unwrap();
                        index.put(number * 2 + 1, 7).unwrap();
                        index.remove(number * 2).unwrap();
                        changes += 1;
                        if ended.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    changes
                })
            })
            .collect();
        let files: Vec<_> = (0..3).map(|_| dumped(&pool)).collect();
        ended.store(true, Ordering::Relaxed);
        (files, writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<u64>>())
    });
    assert!(changes.iter().all(|&changes| changes > 0));
    for file in file {
        let (other, _) = restored(&file);
        for name in ["tree", "radix", "hashed"] {
            let restored = other.open_index::<u64, u64>(name).unwrap();
            assert!(restored.check().unwrap().problems().is_empty());
            for number in 0..5_000 {
                let found = restored.get(number * 2).unwrap();
                let legal = match number % 5 {
                    0 => found.is_none() || found == Some(number) || found == Some(number + 1_000_000),
                    _ => found == Some(number),
                };
                assert!(legal, "{name}: {number}: {found:?}");
                let between = restored.get(number * 2 + 1).unwrap();
                assert!(
                    between.is_none() || between == Some(7) && number % 5 == 0,
                    "{name}: {number}: {between:?}"
                );
            }
        }
    }
}

/// A spatial index is dumped as it was at one moment: its records move together.
#[test]
fn a_dump_of_records_is_of_one_moment() {
    let pool = pool();
    let index = pool.create_spatial("pairs", &RTree::new().ids(IdKind::Number)).unwrap();
    let record = |id: u64, step: u32| Record {
        id: RecordId::from(id),
        bounds: point(f64::from(step), id as f64),
        payload: step.to_le_bytes().to_vec(),
    };
    let pair = |step| [record(1, step), record(2, step)];
    index.put_many(pair(0)).unwrap();
    let ended = AtomicBool::new(false);
    let files: Vec<_> = thread::scope(|threads| {
        threads.spawn(|| {
            for step in 1.. {
                index.put_many(pair(step)).unwrap();
                if ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let files = (0..50).map(|_| dumped(&pool)).collect();
        ended.store(true, Ordering::Relaxed);
        files
    });
    for file in files {
        let (other, _) = restored(&file);
        let other = other.open_spatial("pairs").unwrap();
        let [one, two] = [1, 2].map(|id| other.get(&RecordId::from(id)).unwrap().unwrap());
        assert_eq!((one.payload, one.bounds.min()[0]), (two.payload, two.bounds.min()[0]));
    }
}
