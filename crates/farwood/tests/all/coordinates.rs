//! An index of degrees has no other coordinates, whichever call they come from.

use farwood::spatial::{Change, CoordinateSystem, Item, Query, RTree, Rectangle};
use farwood::{Error, Pool, PoolOptions};

#[test]
fn every_call_refuses_coordinates_outside_the_degrees_of_the_index() {
    let url = format!("shm://coordinates-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20)).unwrap();
    let pool = Pool::open(&url).unwrap();
    let config = RTree::new().coordinates(CoordinateSystem::Degrees);
    pool.create_spatial("places", &config).unwrap();
    let places = pool.open_spatial("places").unwrap();
    assert_eq!(places.coordinates(), CoordinateSystem::Degrees);

    let at = |x| Item { bounds: Rectangle::point([x, 0.0]).unwrap(), id: 1 };
    let (good, bad) = (at(180.0), at(180.5));
    let refused = |operation: &str, done: farwood::Result<()>| {
        let error = done.unwrap_err();
        assert!(matches!(error, Error::Argument { .. }), "{operation}: {error}");
        assert!(error.to_string().contains("x 180.5 is not a longitude"), "{operation}: {error}");
    };
    refused("bulk load", places.bulk_load(&[good, bad], 0.8));
    refused("insert", places.insert(&bad));
    refused("insert many", places.insert_many(&[good, bad]));
    refused("update", places.change(|editor| editor.update(&good, bad.bounds).map(drop)));
    refused("apply", places.change(|editor| editor.apply(&[Change::Insert(bad)]).map(drop)));
    refused("search", places.search(&Query::intersecting(bad.bounds)).map(drop));
    refused("count", places.count(&Query::intersecting(bad.bounds)).map(drop));
    refused("nearest", places.nearest([180.5, 0.0], 1).map(drop));
    assert_eq!(places.count_all().unwrap(), 0, "nothing of it is stored");

    places.insert(&good).unwrap();
    assert!(!places.remove(&bad).unwrap());
    assert_eq!((places.count_all().unwrap(), places.scrub().unwrap()), (1, 1));
    drop((places, pool));
    Pool::remove(&url).unwrap();
}
