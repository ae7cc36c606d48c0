//! Batches of changes of a spatial index: in place, through rings, and over TCP.

use crate::spatial_pool::{SpatialPool, served, served_over_tcp};
use farwood::Error;
use farwood::error::{Effect, ErrorKind, IndexError};
use farwood::spatial::{
    CHANGES_MAX, Change, Item, Query, RTree, Rectangle, SearchMode, ServeOptions, Spatial,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Item `id` at position `x` of its own line.
fn item(id: u64, x: u64) -> Item {
    Item { bounds: Rectangle::point([x as f64, id as f64]).unwrap(), id }
}

fn everything() -> Query {
    Query::intersecting(Rectangle::new([-1.0, -1.0], [1e9, 1e9]).unwrap())
}

/// Inserts, removes and moves more items than a batch has.
fn change_in_batches(places: &Spatial) {
    const ITEMS: u64 = 2 * CHANGES_MAX as u64 + 300;
    let items: Vec<_> = (0..ITEMS).map(|id| item(id, id % 97)).collect();
    places.insert_many(&items).unwrap();
    assert_eq!(places.count_all().unwrap(), ITEMS);
    let removed = places.remove_many(&[items[5], item(5, 96), items[5], items[2000]]).unwrap();
    assert_eq!(removed, [true, false, false, true]);
    let made = places.change(|editor| {
        let changes: Vec<_> =
            items.iter().map(|old| Change::Update(*old, item(old.id, 200).bounds)).collect();
        let found = editor.apply(&changes)?;
        assert!(found.iter().zip(&items).all(|(found, old)| *found != [5, 2000].contains(&old.id)));
        assert_eq!(editor.apply(&[Change::Insert(item(5, 7)), Change::Remove(item(5, 7))])?, [true, true]);
        assert!(editor.apply(&[])?.is_empty());
        editor.insert(&item(5, 200))?;
        Ok(editor.changes())
    });
    assert_eq!(made.unwrap(), ITEMS + 3);
    let moved = places.count(&Query::intersecting(Rectangle::new([200.0, 0.0], [200.0, 1e9]).unwrap()));
    assert_eq!((moved.unwrap(), places.count_all().unwrap()), (ITEMS - 1, ITEMS - 1));
    assert_eq!(places.check().unwrap().problems, []);
}

#[test]
fn batches_are_made_in_place() {
    change_in_batches(&SpatialPool::with_memory(64 << 20).create("places", &RTree::new()));
}

/// Rings of the smallest size carry four inserts in a message.
#[test]
fn batches_are_made_through_rings_of_any_size() {
    for options in [RTree::new().ring_bytes(1024), RTree::new()] {
        let scratch = SpatialPool::with_memory(64 << 20);
        let places = scratch.create("places", &options);
        served(&places, &ServeOptions::default(), || change_in_batches(&places));
    }
}

#[test]
fn batches_are_made_over_tcp() {
    served_over_tcp(&RTree::new(), |_, open| change_in_batches(&open(SearchMode::Auto)));
}

/// Every batch moves all items to the next position. No search sees items at two positions.
#[test]
fn a_search_sees_all_changes_of_a_batch_or_none() {
    const ITEMS: u64 = 300;
    let scratch = SpatialPool::with_memory(64 << 20);
    let places = scratch.create("places", &RTree::new().node_bytes(384));
    places.insert_many(&(0..ITEMS).map(|id| item(id, 0)).collect::<Vec<_>>()).unwrap();
    let done = AtomicBool::new(false);
    served(&places, &ServeOptions::default(), || {
        std::thread::scope(|scope| {
            let moves = scope.spawn(|| {
                places.change(|editor| {
                    let mut x = 0;
                    while !done.load(Ordering::Relaxed) {
                        let to_next = |id| Change::Update(item(id, x), item(id, x + 1).bounds);
                        let changes: Vec<_> = (0..ITEMS).map(to_next).collect();
                        assert_eq!(editor.apply(&changes)?, [true; ITEMS as usize]);
                        x += 1;
                        std::thread::sleep(Duration::from_micros(500));
                    }
                    Ok(x)
                })
            });
            let mut positions = std::collections::BTreeSet::new();
            for _ in 0..200 {
                let found = places.search(&everything()).unwrap();
                assert_eq!(found.len() as u64, ITEMS);
                let position = |item: &Item| item.bounds.min()[0] as u64;
                let x = position(&found[0]);
                assert!(found.iter().all(|item| position(item) == x), "items at two positions");
                positions.insert(x);
            }
            done.store(true, Ordering::Relaxed);
            assert!(moves.join().unwrap().unwrap() > 0);
            assert!(positions.len() > 1, "the searches ran beside the moves");
        });
    });
}

/// A full pool accepts as many items of a batch as fit, and a batch of removals makes space for others.
#[test]
fn in_a_full_pool_the_first_items_of_a_batch_are_inserted_and_all_are_removed() {
    let scratch = SpatialPool::with_memory(16 << 20);
    let places = scratch.create("places", &RTree::new());
    let loaded: Vec<_> = (0..130_000).map(|id| item(id, id * 7919 % 1000)).collect();
    places.bulk_load(&loaded, 0.8).unwrap();
    let more: Vec<_> = (130_000..300_000).map(|id| item(id, id * 7919 % 1000)).collect();
    let mut inserted = 0;
    let full = places.change(|editor| {
        let done = editor.insert_many(&more);
        inserted = editor.changes();
        done
    });
    let full = full.unwrap_err();
    assert_full(&full);
    assert_eq!(full.effect(), Effect::Unknown, "the first items are inserted: {full}");
    assert!(inserted > 0);
    assert_eq!(places.count_all().unwrap(), 130_000 + inserted);
    let whole: Vec<_> = more[inserted as usize..][..800].iter().copied().map(Change::Insert).collect();
    let refused = places.change(|editor| editor.apply(&whole)).unwrap_err();
    assert_full(&refused);
    assert_eq!(refused.effect(), Effect::None, "{refused}");
    assert_eq!(places.count_all().unwrap(), 130_000 + inserted, "no change of the batch is made");
    assert_eq!(places.remove_many(&loaded[..5000]).unwrap(), [true; 5000]);
    places.insert_many(&more[inserted as usize..][..1000]).unwrap();
    assert_eq!(places.count_all().unwrap(), 126_000 + inserted);
    assert_eq!(places.check().unwrap().problems, []);
}

fn assert_full(error: &Error) {
    let full = matches!(error, Error::Index { source: IndexError::Fabric(_), .. });
    assert!(full && error.kind() == ErrorKind::Full, "{error}");
}
