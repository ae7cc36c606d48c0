//! Memory nodes with a log that are killed with SIGKILL under load, and restart without an option.
//!
//! `FARWOOD_KILLS=N cargo test --release -p farwood-cli --test all durability` kills N memory nodes instead of 6.

use crate::machine::Machine;
use crate::serve::{Served, metrics_of, unused_address};
use farwood::spatial::{Item, Query, Rectangle, Spatial};
use farwood::{BTree, Hashed, Index, Pool, Radix};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: u64 = 3;
const KEYS: u64 = 40;

/// A key of a writer: the last value that was acknowledged, and the last one that was attempted.
#[derive(Clone, Copy, Default)]
struct Progress {
    acknowledged: u64,
    attempted: u64,
}

/// Ends the writers, also if the test fails: the scope waits for them.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes increasing values to the keys of `writer` until the end. An error leaves the last value in doubt.
fn write(index: &Index<u64, u64>, writer: u64, all: &Mutex<Vec<Progress>>, ended: &AtomicBool) {
    let mut step = 0;
    while !ended.load(Ordering::Relaxed) {
        step += 1;
        let key = writer * KEYS + step % KEYS;
        all.lock().unwrap()[key as usize].attempted = step;
        match index.put(key, step) {
            Ok(_) => all.lock().unwrap()[key as usize].acknowledged = step,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The value of a key. The connection to a memory node that was killed breaks once.
fn read(index: &Index<u64, u64>, key: u64) -> u64 {
    let begun = Instant::now();
    loop {
        match index.get(key) {
            Ok(value) => return value.unwrap_or(0),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(5), "{error}"),
        }
    }
}

/// Values only grow, so a value below the last acknowledged one is lost.
fn check(index: &Index<u64, u64>, progress: &[Progress], what: &str) {
    for (key, expected) in progress.iter().enumerate() {
        let found = read(index, key as u64);
        let legal = expected.acknowledged..=expected.attempted;
        assert!(legal.contains(&found), "{what}: key {key} has {found}, expected {legal:?}");
    }
}

/// The number of kills of a test.
fn kills() -> u64 {
    std::env::var("FARWOOD_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6)
}

fn kill_and_restart(level: &str) {
    let kills = kills();
    let machine = Machine::new();
    let options = ["--file", "node", "--durability", level];
    let listen = unused_address();
    let mut node = Served::start_at(&machine, &listen, &options);
    let pool = Pool::open(listen.as_str()).unwrap();
    let indexes = [
        pool.create_index::<u64, u64>("tree", &BTree::new()).unwrap(),
        pool.create_index::<u64, u64>("radix", &Radix::new()).unwrap(),
        pool.create_index::<u64, u64>("hashed", &Hashed::new()).unwrap(),
    ];
    let progress: Vec<_> =
        indexes.iter().map(|_| Mutex::new(vec![Progress::default(); (WRITERS * KEYS) as usize])).collect();
    let (ended, slowest) = (AtomicBool::new(false), AtomicU64::new(0));
    let _node = thread::scope(|threads| {
        for (index, progress) in indexes.iter().zip(&progress) {
            for writer in 0..WRITERS {
                let ended = &ended;
                threads.spawn(move || write(index, writer, progress, ended));
            }
        }
        let _end = EndOnDrop(&ended);
        for kill in 0..kills {
            thread::sleep(Duration::from_millis(100 + kill * 37 % 200));
            drop(node);
            let begun = Instant::now();
            node = Served::start_at(&machine, &listen, &options);
            slowest.fetch_max(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
            // A key that is acknowledged now was written before or after the kill, and must not be below.
            let other = Pool::open(listen.as_str()).unwrap();
            for (index, progress) in indexes.iter().zip(&progress) {
                let name = index.url().rsplit('/').next().unwrap().to_owned();
                let before = progress.lock().unwrap().clone();
                let index = other.open_index::<u64, u64>(&name).unwrap();
                for (key, expected) in before.iter().enumerate() {
                    let found = read(&index, key as u64);
                    let least = expected.acknowledged;
                    assert!(
                        found >= least,
                        "{level}, kill {kill}, {name}: key {key} has {found}, not {least}"
                    );
                }
            }
        }
        node
    });
    for (index, progress) in indexes.iter().zip(&progress) {
        let progress = progress.lock().unwrap();
        assert!(progress.iter().any(|key| key.acknowledged > KEYS), "{}: the writers worked", index.url());
        check(index, &progress, &index.url());
        assert_eq!(index.check().unwrap().problems(), []);
    }
    assert!(slowest.load(Ordering::Relaxed) < 5000, "a restart took {slowest:?} ms");
}

/// Inserts rectangles with increasing ids until the end; yields the acknowledged ids.
fn insert(places: &Spatial, writer: u64, ended: &AtomicBool) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for step in 0.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let id = step * WRITERS + writer;
        let item = Item { bounds: Rectangle::point([id as f64, writer as f64]).unwrap(), id };
        match places.insert(&item) {
            Ok(()) => acknowledged.push(id),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    acknowledged
}

/// The server of a spatial index changes the memory itself, and answers over a socket of its own.
#[test]
fn a_killed_memory_node_with_a_spatial_server_loses_nothing_that_was_acknowledged() {
    let machine = Machine::new();
    let options = ["--file", "node", "--durability", "always", "--spatial", "places"];
    let listen = unused_address();
    let node = Served::start_at(&machine, &listen, &options);
    let url = format!("{listen}/places");
    machine.ok(&["create", &url, "--index", "catfish"]);
    let open = || Pool::open(listen.as_str()).unwrap().open_spatial("places").unwrap();
    let ended = AtomicBool::new(false);
    let (_node, acknowledged) = thread::scope(|threads| {
        let mut node = node;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (places, ended) = (open(), &ended);
                threads.spawn(move || insert(&places, writer, ended))
            })
            .collect();
        {
            let _end = EndOnDrop(&ended);
            for kill in 0..kills() {
                thread::sleep(Duration::from_millis(300 + kill * 37 % 200));
                drop(node);
                node = Served::start_at(&machine, &listen, &options);
            }
            thread::sleep(Duration::from_millis(300));
        }
        let acknowledged: Vec<u64> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        (node, acknowledged)
    });
    assert!(acknowledged.len() > 100, "the writers worked: {}", acknowledged.len());
    let everything = Query::intersecting(Rectangle::new([-1.0, -1.0], [1e9, 1e9]).unwrap());
    let found: BTreeSet<u64> = open().search(&everything).unwrap().iter().map(|item| item.id).collect();
    let lost: Vec<_> = acknowledged.iter().filter(|id| !found.contains(id)).collect();
    assert_eq!(lost, Vec::<&u64>::new(), "of {} acknowledged rectangles", acknowledged.len());
    machine.ok(&["check", &url]);
}

#[test]
fn a_killed_memory_node_loses_nothing_that_was_acknowledged_at_always() {
    kill_and_restart("always");
}

/// The kernel has all answered changes, so a kill loses nothing at this level either.
#[test]
fn a_killed_memory_node_loses_nothing_that_was_acknowledged_at_interval() {
    kill_and_restart("interval=1");
}

#[test]
fn options_that_contradict_the_level_are_refused() {
    let machine = Machine::new();
    let serve = |more: &[&'static str]| {
        [&["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "16MiB"], more].concat()
    };
    machine.refused(2, &serve(&["--durability", "always"]), &["--file"]);
    machine.refused(
        2,
        &serve(&["--file", "n", "--durability", "often"]),
        &["orderly, interval=SECONDS or always"],
    );
    let with_log = ["--file", "n", "--durability", "always"];
    machine.refused(2, &serve(&[&with_log[..], &["--accept-unclean"]].concat()), &["by itself; omit it"]);
    let with_cuts = ["--file", "n", "--durability", "interval=1", "--spatial", "i"];
    machine.refused(2, &serve(&with_cuts), &["carry no cut", "--durability always"]);
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", "n", "--durability", "always"]);
    drop(node);
    machine.refused(7, &serve(&["--file", "n"]), &["checkpoint", "--durability interval or always"]);
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", "m"]);
    drop(node);
    machine.refused(7, &serve(&["--file", "m", "--durability", "always"]), &["--durability orderly"]);
}

#[test]
fn memory_nodes_of_a_pool_have_the_same_level() {
    let machine = Machine::new();
    let start = |file: &str, level: &str| {
        Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", file, "--durability", level])
    };
    let url = |a: &Served, b: &Served| format!("{},{}/i", a.url, b.url.trim_start_matches("tcp://"));
    let mixed = [start("a", "interval=1"), start("b", "always")];
    let ran = machine.run(&["create", &url(&mixed[0], &mixed[1])]);
    assert!(ran.code == 7 && ran.err.contains("with the same level"), "{ran:?}");
    let without = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", "c"]);
    let mixed = [start("d", "always"), without];
    let ran = machine.run(&["create", &url(&mixed[0], &mixed[1])]);
    assert!(ran.code == 7 && ran.err.contains("has no log, and"), "{ran:?}");
    machine.ok(&["create", &format!("{}/i", mixed[0].url)]);
    let added = mixed[1].url.trim_start_matches("tcp://");
    let ran = machine.run(&["grow", &mixed[0].url, "--add-node", added]);
    assert!(
        ran.code == 7 && ran.err.contains("it has no log, and the pool has --durability always"),
        "{ran:?}"
    );
    for level in ["interval=1", "always"] {
        let name = |number: &str| format!("{level}-{number}");
        let [a, b] = ["0", "1"].map(|number| start(&name(number), level));
        let both = url(&a, &b);
        machine.ok(&["create", &both]);
        machine.ok(&["put", &both, "1", "2"]);
        // A kill and a restart of one; the other goes on.
        let listen = b.url.clone();
        drop(b);
        let options = ["--file", &name("1"), "--durability", level];
        let _b = Served::start_at(&machine, &listen, &options);
        assert_eq!(machine.ok(&["get", &both, "1"]).trim(), "2");
    }
}

/// A stop in order leaves a checkpoint and an empty log, and a changed byte of the checkpoint is an error.
#[test]
fn a_stopped_memory_node_restarts_from_its_checkpoint() {
    let machine = Machine::new();
    let options = ["--file", "node", "--durability", "always"];
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &options);
    let listen = node.url.clone();
    let index = format!("{listen}/i");
    machine.ok(&["create", &index]);
    machine.ok(&["put", &index, "1", "2"]);
    node.stop();
    let node = Served::start_at(&machine, &listen, &options);
    assert_eq!(machine.ok(&["get", &index, "1"]).trim(), "2");
    drop(node);
    let path = machine.path().join("node");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let serve = [
        "serve",
        "--listen",
        "tcp://127.0.0.1:0",
        "--memory",
        "64MiB",
        "--file",
        "node",
        "--durability",
        "always",
    ];
    machine.refused(8, &serve, &["node: the page at offset", "is damaged"]);
}

/// A checkpoint that cannot be written is reported, and the memory node goes on with its log, also over a restart.
#[test]
fn a_memory_node_continues_without_a_checkpoint_that_cannot_be_written() {
    /// More than the log has before a checkpoint is due.
    const VALUES: u64 = 80;
    let machine = Machine::new();
    // More than a small shared memory has.
    let folder = tempfile::tempdir().unwrap();
    let (file, taken) = (folder.path().join("node"), folder.path().join("node.new"));
    let listen = unused_address();
    let options =
        ["--file", file.to_str().unwrap(), "--durability", "interval=1", "--metrics", "127.0.0.1:0"];
    let mut node = Served::start_at(&machine, &listen, &options);
    // The name of the incomplete file is taken.
    std::fs::create_dir(&taken).unwrap();
    let pool = Pool::open(listen.as_str()).unwrap();
    let index = pool.create_index::<u64, Vec<u8>>("blobs", &Radix::new()).unwrap();
    for number in 0..VALUES {
        index.put(number % 4, vec![number as u8; 1 << 20]).unwrap();
    }
    let line = node.hear("cannot write a checkpoint of");
    assert!(line.contains("node: Is a directory") && line.contains("free space"), "{line}");
    let metrics = metrics_of(&node, "/metrics");
    assert!(!metrics.contains("farwood_checkpoint_failures_total 0\n"), "{metrics}");
    index.put(5, b"later".to_vec()).unwrap();
    drop((index, pool));
    node.stop();
    std::fs::remove_dir(&taken).unwrap();
    let _node = Served::start_at(&machine, &listen, &options);
    let pool = Pool::open(listen.as_str()).unwrap();
    let index = pool.open_index::<u64, Vec<u8>>("blobs").unwrap();
    assert_eq!(index.get(5).unwrap().as_deref(), Some(&b"later"[..]));
    assert_eq!(index.get(3).unwrap().map(|value| value[0]), Some(VALUES as u8 - 1));
}

/// A restart reports what it has restored, and a failed start leaves no lock.
#[test]
fn a_restart_reports_the_level_and_the_applied_log() {
    let machine = Machine::new();
    let listen = unused_address();
    let options = ["--file", "node", "--durability", "always"];
    let node = Served::start_at(&machine, &listen, &options);
    assert_eq!((&node.told["durability"], &node.told["restart"]["new"]), (&"always".into(), &true.into()));
    let index = format!("{listen}/i");
    machine.ok(&["create", &index]);
    machine.ok(&["put", &index, "1", "2"]);
    drop(node);
    let node = Served::start_at(&machine, &listen, &options);
    let restart = &node.told["restart"];
    assert!(restart["records"].as_u64().unwrap() > 2 && restart["seconds"].as_f64().is_some(), "{restart}");
    assert_eq!((&restart["new"], &restart["last_changes_lost"]), (&false.into(), &false.into()));
    assert!(machine.path().join("node.lock").exists());
    let (status, _) = node.stop();
    assert!(status.success() && !machine.path().join("node.lock").exists());
    std::fs::write(machine.path().join("node"), "damaged").unwrap();
    let serve = [&["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "64MiB"][..], &options].concat();
    assert_ne!(machine.run(&serve).code, 0);
    assert!(!machine.path().join("node.lock").exists());
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", "other"]);
    assert_eq!(
        (&node.told["durability"], &node.told["restart"]),
        (&"orderly".into(), &serde_json::Value::Null)
    );
}
