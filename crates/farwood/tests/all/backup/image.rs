//! Pools in shared memory that are saved and restored.

use super::point;
use farwood::backup::{BackupError, BackupReader, Dump, RestoredPool, SavedPool};
use farwood::error::ErrorKind;
use farwood::spatial::{IdKind, RTree, Record, RecordId};
use farwood::testing::ScratchPool;
use farwood::{BTree, Error, Hashed, Pool, PoolOptions, Radix};

/// A pool with two memory nodes, and indexes of each kind in them.
fn filled() -> ScratchPool {
    let scratch = ScratchPool::with(&PoolOptions::new().memory_bytes(64 << 20).nodes(2)).unwrap();
    let pool = scratch.open().unwrap();
    let tree = pool.create_index::<u64, u64>("tree", &BTree::new()).unwrap();
    let radix = pool.create_index::<String, String>("radix", &Radix::new()).unwrap();
    let hashed = pool.create_index::<u64, String>("hashed", &Hashed::new()).unwrap();
    for number in 0..2000_u64 {
        tree.put(number, number + 1).unwrap();
        radix.put(format!("key {number}"), "v".repeat(number as usize % 300)).unwrap();
        hashed.put(number << 20, number.to_string()).unwrap();
    }
    let parks = pool.create_spatial("parks", &RTree::new().ids(IdKind::Text).memory_node(1)).unwrap();
    let record = |number: u64| Record {
        id: RecordId::from(format!("Park {number}").as_str()),
        bounds: point(number as f64, 1.0),
        payload: vec![3; number as usize],
    };
    parks.put_many((0..200).map(record)).unwrap();
    scratch
}

/// A name that no other test uses, whose pool is removed at the end.
struct Name(String);

impl Name {
    fn new(name: &str) -> Self {
        Self(format!("shm://test-image-{name}-{}", std::process::id()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = Pool::remove(self.0.as_str());
    }
}

fn saved(scratch: &ScratchPool) -> Vec<u8> {
    let mut file = Vec::new();
    SavedPool::at(scratch.url()).to_writer(&mut file).unwrap();
    file
}

#[test]
fn a_restored_pool_has_the_contents_of_the_saved_one_and_works() {
    let scratch = filled();
    let file = saved(&scratch);
    let name = Name::new("works");
    let figures = RestoredPool::at(&name.0).from_reader(file.as_slice()).unwrap();
    assert_eq!(figures.file_bytes, file.len() as u64);
    assert!(figures.memory_bytes > 200_000, "{figures:?}");
    let (pool, other) = (scratch.open().unwrap(), Pool::open(name.0.as_str()).unwrap());
    for index in ["tree", "radix", "hashed"] {
        let [before, after] = [&pool, &other].map(|pool| pool.open_untyped(index).unwrap());
        assert!(before.iter().map(Result::unwrap).eq(after.iter().map(Result::unwrap)), "{index}");
        assert_eq!(after.check().unwrap().problems(), []);
    }
    let parks = other.open_spatial("parks").unwrap();
    assert_eq!((parks.check().unwrap().problems, parks.count_all().unwrap()), (Vec::new(), 200));
    // It is a pool of its own: changes of one are not in the other.
    let tree = other.open_index::<u64, u64>("tree").unwrap();
    for number in 2000..20_000 {
        tree.put(number, 7).unwrap();
    }
    parks.put(Record { id: RecordId::from("new"), bounds: point(0.0, 0.0), payload: Vec::new() }).unwrap();
    assert_eq!(pool.open_index::<u64, u64>("tree").unwrap().get(2000).unwrap(), None);
    assert_eq!(other.stats().unwrap().clients.len(), 1);
}

#[test]
fn a_pool_in_use_is_not_saved() {
    let scratch = filled();
    let _pool = scratch.open().unwrap();
    let error = SavedPool::at(scratch.url()).to_writer(Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
}

#[test]
fn a_pool_that_a_process_uses_during_the_save_is_not_saved() {
    let scratch = filled();
    let mut visited = false;
    let saved = SavedPool::at(scratch.url()).progress(|_| {
        if !visited {
            visited = true;
            scratch.open().unwrap().open_index::<u64, u64>("tree").unwrap().put(1, 100).unwrap();
        }
    });
    let error = saved.to_writer(Vec::new()).unwrap_err();
    assert!(error.to_string().contains("during the save"), "{error}");
    assert!(visited);
}

#[test]
fn a_damaged_image_leaves_no_pool() {
    let scratch = ScratchPool::with(&PoolOptions::new().memory_bytes(16 << 20).nodes(2)).unwrap();
    scratch.open().unwrap().create_index::<u64, u64>("tree", &BTree::new()).unwrap().put(1, 2).unwrap();
    let file = saved(&scratch);
    let name = Name::new("damaged");
    let refused = |file: &[u8], what: &str| {
        let error = RestoredPool::at(&name.0).from_reader(file).expect_err(what);
        assert!(matches!(error, Error::Backup { .. }), "{what}: {error}");
        let absent = Pool::open(name.0.as_str()).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound, "{what}: {absent}");
    };
    // Damage at some bytes, because each attempt creates the segments.
    for at in (0..file.len()).step_by(file.len() / 60).chain([file.len() - 1]) {
        refused(&file[..at], &format!("a cut at {at}"));
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        refused(&damaged, &format!("a change at {at}"));
    }
    RestoredPool::at(&name.0).from_reader(file.as_slice()).unwrap();
    let exists = RestoredPool::at(&name.0).from_reader(file.as_slice()).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::Exists);
    assert_eq!(
        Pool::open(name.0.as_str()).unwrap().open_index::<u64, u64>("tree").unwrap().get(1).unwrap(),
        Some(2)
    );
}

#[test]
fn dumps_and_images_are_told_apart() {
    let scratch = filled();
    let image = saved(&scratch);
    let error = BackupReader::new(image.as_slice()).unwrap_err();
    assert!(matches!(error, BackupError::OtherContents { found: "the image of a pool" }), "{error}");
    let mut dump = Vec::new();
    Dump::of(&scratch.open().unwrap()).to_writer(&mut dump).unwrap();
    let error = RestoredPool::at(Name::new("kinds").0.as_str()).from_reader(dump.as_slice()).unwrap_err();
    assert!(error.to_string().contains("a dump of indexes"), "{error}");
    let served = SavedPool::at("tcp://127.0.0.1:1").to_writer(Vec::new()).unwrap_err();
    assert!(matches!(served, Error::Served { .. }), "{served}");
}
