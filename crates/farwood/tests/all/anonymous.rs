//! Anonymous pools.

use crate::alone::{is_alone, is_separate_process, separate_process};
use crate::spatial_pool::{in_mode, served};
use farwood::error::ErrorKind;
use farwood::index::Structure;
use farwood::spatial::{IdKind, Item, Query, RTree, Record, RecordId, Rectangle, SearchMode, ServeOptions};
use farwood::{BTree, Error, Hashed, Pool, PoolOptions, Radix, doctor};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const MEMORY_BYTES: u64 = 64 << 20;
/// The start of the names of memfds in `/proc`.
const MEMFD: &str = "/memfd:farwood.anonymous-";

fn item(id: u64) -> Item {
    Item { bounds: Rectangle::point([id as f64, 1.0]).unwrap(), id }
}

fn everything() -> Query {
    Query::intersecting(Rectangle::new([0.0, 0.0], [1e6, 1e6]).unwrap())
}

/// Several threads use the same index.
fn use_ordered(pool: &Pool, name: &str, options: &impl Structure) {
    let index = pool.create_index::<u64, Vec<u8>>(name, options).unwrap();
    let value = |number: u64| vec![number as u8; 1 + number as usize % 100];
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let index = &index;
            scope.spawn(move || {
                for number in (thread..600).step_by(3) {
                    index.put(number, value(number)).unwrap();
                }
            });
        }
    });
    let entries = pool.open_index::<u64, Vec<u8>>(name).unwrap().iter().map(Result::unwrap);
    assert!(entries.eq((0..600).map(|number| (number, value(number)))), "{name}");
    assert_eq!(index.check().unwrap().problems().len(), 0, "{name}");
}

#[test]
fn indexes_of_every_system_work() {
    let options = PoolOptions::new().memory_bytes(MEMORY_BYTES).nodes(2);
    let pool = Pool::anonymous_with(&options).unwrap();
    let any_length = BTree::new().any_length_values();
    use_ordered(&pool, "sherman", &any_length);
    use_ordered(&pool, "smart", &Radix::new());
    use_ordered(&pool, "sphinx", &Hashed::new());
    let stats = pool.stats().unwrap();
    assert_eq!((stats.nodes.len(), stats.indexes.len()), (2, 3));
    assert!(stats.clients.iter().all(|client| client.is_own && client.alive) && stats.clients.len() == 1);
    assert_eq!((pool.sweep_clients().unwrap(), pool.sweep_locks().unwrap()), (0, 0));
    pool.drop_index("sphinx").unwrap();
    assert_eq!(pool.indexes().unwrap().len(), 2);
}

#[test]
fn a_spatial_index_works_without_and_with_a_server() {
    let pool = Pool::anonymous(MEMORY_BYTES).unwrap();
    let places = pool.create_spatial("places", &RTree::new()).unwrap();
    places.bulk_load(&(0..1000).map(item).collect::<Vec<_>>(), 0.8).unwrap();
    places.insert(&item(1000)).unwrap();
    let [message, reads] = [SearchMode::Message, SearchMode::Reads]
        .map(|mode| in_mode(pool.open_spatial("places").unwrap(), mode));
    message.search(&everything()).expect_err("no process serves the index");
    served(&places, &ServeOptions::default(), || {
        assert!(places.server_stats().unwrap().is_some());
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let message = &message;
                scope.spawn(move || message.insert(&item(2000 + thread)).unwrap());
            }
        });
        assert!(message.remove(&item(0)).unwrap());
        for by in [&message, &reads] {
            assert_eq!(by.search(&everything()).unwrap().len(), 1002);
        }
        assert_eq!(message.nearest([3.2, 1.0], 1).unwrap()[0].item.id, 3);
        assert_eq!((message.search_stats().by_message, reads.search_stats().by_reads), (2, 1));
    });
    assert!(places.server_stats().unwrap().is_none());
    places.insert(&item(3000)).unwrap();
    assert_eq!(places.count_all().unwrap(), 1003);
    assert!(places.check().unwrap().problems.is_empty());
}

#[test]
fn an_index_of_records_works() {
    let pool = Pool::anonymous(MEMORY_BYTES).unwrap();
    let config = RTree::new().ids(IdKind::Number);
    let places = pool.create_spatial("records", &config).unwrap();
    let record = Record { id: RecordId::Number(7), bounds: item(7).bounds, payload: vec![1; 300] };
    places.put(record.clone()).unwrap();
    served(&places, &ServeOptions::default(), || {
        assert_eq!(places.get(&record.id).unwrap().as_ref(), Some(&record));
        assert!(places.delete(&record.id).unwrap());
    });
    assert_eq!(places.get(&record.id).unwrap(), None);
}

#[test]
fn no_url_leads_to_an_anonymous_pool() {
    let pool = Pool::anonymous(16 << 20).unwrap();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    assert!(pool.url().starts_with("anonymous://"), "{}", pool.url());
    assert_eq!(index.url(), format!("{}/numbers", pool.url()));
    let missing = pool.open_index::<u64, u64>("none").unwrap_err();
    assert!(missing.to_string().contains(&format!("{}/none", pool.url())), "{missing}");
    let url = pool.url();
    for refused in [Pool::open(&url).map(drop), Pool::remove(&url), Pool::remove_by_force(&url)] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("clone its `Pool`"), "{error}");
    }
    let pools = doctor::examine().unwrap().pools;
    assert!(pools.iter().all(|pool| !pool.url.contains("anonymous")), "{pools:?}");
    assert_eq!(pool.stats().unwrap().clients.len(), 1);
}

#[test]
fn all_memory_may_be_reserved() {
    let options = PoolOptions::new().memory_bytes(MEMORY_BYTES).reserve_memory();
    let pool = Pool::anonymous_with(&options).unwrap();
    let node = pool.stats().unwrap().nodes[0];
    assert!(node.resident_bytes >= MEMORY_BYTES, "{node:?}");
}

#[test]
fn invalid_options_are_refused_with_the_reason() {
    let group = PoolOptions::new().group("0".to_owned());
    let no_nodes = PoolOptions::new().nodes(0);
    for (refused, part) in [
        (Pool::anonymous(1 << 20), "8 MiB"),
        (Pool::anonymous(1 << 60), ""),
        (Pool::anonymous_with(&group), "omit the group"),
        (Pool::anonymous_with(&no_nodes), "node"),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Pool { operation: "create", .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_full_pool_is_reported() {
    let pool = Pool::anonymous(16 << 20).unwrap();
    let options = BTree::new().any_length_values();
    let index = pool.create_index::<u64, Vec<u8>>("full", &options).unwrap();
    let error = (0..1 << 20).find_map(|key| index.put(key, vec![1; 10_000]).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert_eq!(index.get(0).unwrap(), Some(vec![1; 10_000]));
}

/// Returns the open descriptors, the mappings and the pools in the directory of segments.
fn remains() -> (usize, usize, usize) {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, maps.matches(MEMFD).count(), entries(std::env::var_os("FARWOOD_SHM_DIR").unwrap()))
}

fn entries(directory: impl AsRef<Path>) -> usize {
    fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_thousand_pools_leave_nothing() {
    if !is_alone("anonymous::a_thousand_pools_leave_nothing") {
        return;
    }
    let before = remains();
    assert_eq!((before.1, before.2), (0, 0));
    for number in 0..1000 {
        let pool = Pool::anonymous(16 << 20).unwrap();
        assert_eq!(remains().1, 1, "the mapping of this pool");
        // The memory of an index takes as long as that of the pool.
        if number % 20 == 0 {
            let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
            index.put(1, number).unwrap();
            drop(pool);
            assert_eq!(index.get(1).unwrap(), Some(number), "the index keeps the pool");
        }
    }
    assert_eq!(remains(), before);
}

#[test]
fn a_killed_process_leaves_nothing() {
    const NAME: &str = "anonymous::a_killed_process_leaves_nothing";
    if is_separate_process(NAME) {
        let pool = Pool::anonymous(MEMORY_BYTES).unwrap();
        let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
        index.put(1, 2).unwrap();
        writeln!(std::io::stdout(), "\nready").unwrap();
        std::thread::sleep(Duration::from_mins(1));
        return;
    }
    let (mut command, directory) = separate_process(NAME);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "the child has ended");
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let during = (maps.matches(MEMFD).count(), entries(directory.path()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(during, (1, 0), "the memory has no name");
    assert_eq!(entries(directory.path()), 0);
}
