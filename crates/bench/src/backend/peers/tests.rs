//! Tests of every peer: operations give the answers of a plain map, all workloads run, and several threads and
//! processes share a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::workload::InsertBoard;
use crate::workload::distribution::Distribution;
use crate::workload::random::Generator;
use crate::workload::values::verify_for;

const SMALL: Sizes = Sizes { key_bytes: 8, value_bytes: 8 };

fn spec(workload: Workload, clients: u64) -> WorkloadSpec {
    WorkloadSpec {
        workload,
        distribution: Distribution::Zipf { theta: 0.99 },
        zipf_ranks: 0,
        keys: 2000,
        preloaded_keys: 0,
        ranks: 1 << 36,
        range_size: 20,
        clients,
        seed: 1,
    }
}

fn each_peer(sizes: Sizes, test: impl Fn(PeerKind, &dyn Peer)) {
    for kind in PeerKind::ALL {
        if kind == PeerKind::Congee && sizes != SMALL {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let peer = kind.open(folder.path(), sizes, 10_000).unwrap();
        test(kind, &*peer);
    }
}

#[test]
fn every_peer_answers_like_a_map() {
    for sizes in [SMALL, Sizes { key_bytes: 8, value_bytes: 20 }, Sizes { key_bytes: 24, value_bytes: 64 }] {
        let keys = Keys::integers(sizes.key_bytes).unwrap();
        each_peer(sizes, |kind, peer| {
            let (mut model, mut generator) = (BTreeMap::new(), Generator::for_client(9, 0));
            let (mut value, mut found) = (vec![0; sizes.value_bytes], vec![0; sizes.value_bytes]);
            for step in 0..3000 {
                let rank = generator.below(200);
                let key = keys.key(rank);
                fill_value(&mut value, rank, step);
                match generator.below(5) {
                    0 => {
                        peer.put(&key, &value).unwrap();
                        model.insert(key, value.clone());
                    }
                    1 => {
                        peer.insert(&key, &value).unwrap();
                        model.entry(key).or_insert_with(|| value.clone());
                    }
                    2 => assert_eq!(peer.remove(&key).unwrap(), model.remove(&key).is_some(), "{kind}"),
                    3 => {
                        let here = peer.get(&key, &mut found).unwrap();
                        assert_eq!(here.then_some(&found), model.get(&key), "{kind}");
                    }
                    _ => {
                        let mut seen = Vec::new();
                        let mut visit = |k: &[u8], v: &[u8]| seen.push((k.to_vec(), v.to_vec()));
                        let count = peer.scan(&key, 7, &mut visit).unwrap();
                        assert_eq!(count, seen.len());
                        let range = model.range(key..).take(7);
                        assert!(range.eq(seen.iter().map(|(k, v)| (k, v))), "{kind}");
                    }
                }
            }
        });
    }
}

#[test]
fn every_workload_runs_on_every_peer_from_two_threads() {
    let keys = Keys::integers(8).unwrap();
    for workload in Workload::ALL {
        let spec = spec(workload, 4);
        each_peer(SMALL, |kind, peer| {
            load(peer, &keys, &spec, 8).unwrap();
            let board = Arc::new(InsertBoard::new(spec.clients));
            let work = |first: u64| {
                let streams = |client| ClientStreams {
                    measured: spec.stream(client).unwrap().with_board(Arc::clone(&board)),
                    warm_up: spec.stream(client).unwrap(),
                };
                let streams = (first..first + 2).map(streams).collect();
                let mut clients = PeerClients::new(peer, &keys, &spec, streams, 8).unwrap();
                clients.scan_all().unwrap();
                clients.warm_up(0.001).unwrap();
                clients
                    .measure(Amount::Operations(500))
                    .unwrap_or_else(|error| panic!("{kind} {workload}: {error}"))
            };
            let mut measurement = std::thread::scope(|scope| {
                let other = scope.spawn(|| work(2));
                let mut mine = work(0);
                mine.merge(&other.join().unwrap());
                mine
            });
            assert_eq!(measurement.operations(), 2000, "{kind} {workload}");
            let record = measurement.measured_locally(1.0);
            assert!(record.latency_us.p50 > 0.0 && record.round_trips.is_none(), "{kind} {workload}");
            measurement.merge(&Measurement::new());
        });
    }
}

/// Names the folder of the store to the child process of the next test.
const CHILD_FOLDER: &str = "FARWOOD_TEST_LMDB_FOLDER";

#[test]
fn lmdb_is_shared_by_processes_and_reports_its_size() {
    let keys = Keys::integers(8).unwrap();
    let spec = spec(Workload::YcsbA, 2);
    let work = |peer: &dyn Peer, client| {
        let stream = || spec.stream(client).unwrap();
        let streams = vec![ClientStreams { measured: stream(), warm_up: stream() }];
        let mut clients = PeerClients::new(peer, &keys, &spec, streams, 8).unwrap();
        clients.measure(Amount::Operations(2000)).unwrap();
        // The other process reads this key.
        let (mut key, mut value) = (keys.key(5000 + client), [0; 8]);
        fill_value(&mut value, 5000 + client, 7);
        peer.put(&key, &value).unwrap();
        keys.write_key(5000, &mut key);
        peer.get(&key, &mut value).unwrap()
    };
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        let peer = PeerKind::Lmdb.open(Path::new(&folder), SMALL, 10_000).unwrap();
        assert!(work(&*peer, 1), "the parent's key is missing");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let peer = PeerKind::Lmdb.open(folder.path(), SMALL, 10_000).unwrap();
    load(&*peer, &keys, &spec, 8).unwrap();
    assert!(work(&*peer, 0));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backend::peers::tests::lmdb_is_shared_by_processes_and_reports_its_size"])
        .env(CHILD_FOLDER, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    work(&*peer, 0);
    assert!(child.wait().unwrap().success());
    let mut value = [0; 8];
    assert!(peer.get(&keys.key(5001), &mut value).unwrap(), "the child's key is missing");
    assert_eq!(verify_for(5001, &value).unwrap(), 7);
    assert!(peer.bytes().unwrap() > 32_000);
}

#[test]
fn a_key_that_is_missing_or_a_foreign_value_stops_the_run() {
    let keys = Keys::integers(8).unwrap();
    let spec = spec(Workload::YcsbC, 1);
    each_peer(SMALL, |kind, peer| {
        let streams =
            vec![ClientStreams { measured: spec.stream(0).unwrap(), warm_up: spec.stream(0).unwrap() }];
        let mut clients = PeerClients::new(peer, &keys, &spec, streams, 8).unwrap();
        let error = clients.measure(Amount::Operations(10)).unwrap_err().to_string();
        assert!(error.contains("is missing"), "{kind}: {error}");
        for rank in 0..spec.keys {
            peer.put(&keys.key(rank), &[0xff; 8]).unwrap();
        }
        let error = clients.measure(Amount::Operations(10)).unwrap_err().to_string();
        assert!(error.contains("belongs to rank"), "{kind}: {error}");
    });
}

#[test]
fn lengths_that_a_peer_does_not_support_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |kind: PeerKind, key_bytes, value_bytes| {
        kind.open(folder.path(), Sizes { key_bytes, value_bytes }, 10).err().unwrap().to_string()
    };
    assert!(refusal(PeerKind::Congee, 16, 8).contains("--key-bytes 8"));
    assert!(refusal(PeerKind::Congee, 8, 16).contains("16 B"));
    assert!(refusal(PeerKind::Lmdb, 512, 8).contains("at most 511 B"));
    let unknown = "redis".parse::<PeerKind>().unwrap_err().to_string();
    assert!(unknown.contains("lmdb, btreemap, congee, skiplist"), "{unknown}");
}
