//! Futures of a session over TCP that are dropped while their verbs are in flight: the locks that they hold or are
//! about to acquire block no other client.

use farwood::error::IndexError;
use farwood::index::{Direction, Session, Structure};
use farwood::node::{MemoryNode, NodeSpec};
use farwood::runtime::block_on;
use farwood::{BTree, Error, Hashed, Index, Pool, Radix};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Keys of the index, in steps of 2.
const KEYS: u64 = 100;
/// Time in which an operation ends after another was dropped. A client waits 20 s for the lock of a live one.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Times between the last poll of a future and its drop: its verbs are in flight, or answered.
const DELAYS: [Duration; 2] = [Duration::ZERO, Duration::from_micros(500)];
/// Time between two polls, in which the verbs in flight are answered.
const ROUND_TRIP: Duration = Duration::from_micros(50);
/// Maximum polls before the drop.
const POLLS_MAX: usize = 24;

/// A memory node, and two compute nodes that have an index of it open.
struct Place {
    indexes: [Index<u64, u64>; 2],
    _pools: [Pool; 2],
    _node: MemoryNode,
}

impl Place {
    fn new(options: &impl Structure) -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let node = MemoryNode::start(&NodeSpec::new(listen, 64 << 20)).unwrap();
        let url = format!("tcp://{}", node.address());
        let pools = [(); 2].map(|()| Pool::open(&url).unwrap());
        let first = pools[0].create_index("numbers", options).unwrap();
        (0..KEYS).for_each(|number| assert!(!first.put(2 * number, number).unwrap()));
        let second = pools[1].open_index("numbers").unwrap();
        Self { indexes: [first, second], _pools: pools, _node: node }
    }
}

/// Polls `operation` up to `polls` times, waits, and drops it; returns whether it ended before.
fn poll_and_drop<T>(
    operation: impl Future<Output = farwood::Result<T>>,
    polls: usize,
    delay: Duration,
) -> bool {
    let mut operation = pin!(operation);
    for poll in 0..polls {
        if poll > 0 {
            std::thread::sleep(ROUND_TRIP);
        }
        if let Poll::Ready(done) = operation.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            // Only Sherman has snapshots.
            assert!(matches!(done, Ok(_) | Err(Error::Index { source: IndexError::NoSnapshot(_), .. })));
            return true;
        }
    }
    std::thread::sleep(delay);
    false
}

/// Drops an operation of every kind on keys of one leaf; returns the number of pending ones.
fn drop_operations(session: &Session<u64, u64>, key: u64, polls: usize, delay: Duration) -> usize {
    let ended = [
        poll_and_drop(session.put(&key, &1), polls, delay),
        poll_and_drop(session.put(&(key + 1), &1), polls, delay),
        poll_and_drop(session.update(&key, &2), polls, delay),
        poll_and_drop(session.insert(&(key + 3), &3), polls, delay),
        poll_and_drop(session.remove(&(key + 1)), polls, delay),
        poll_and_drop(session.get(&key), polls, delay),
        poll_and_drop(session.scan(key.., Direction::Forward, 10), polls, delay),
        poll_and_drop(session.scan_snapshot(key.., Direction::Forward, 10), polls, delay),
    ];
    ended.iter().filter(|ended| !**ended).count()
}

/// Runs `operation`, which must succeed within [`WAIT_MAX`].
fn soon<T>(operation: impl FnOnce() -> farwood::Result<T>) {
    let begun = Instant::now();
    assert!(operation().is_ok());
    let waited = begun.elapsed();
    assert!(waited < WAIT_MAX, "it waited {waited:?}");
}

fn others_continue(options: &impl Structure) {
    let place = Place::new(options);
    let [index, other] = &place.indexes;
    let (session, mut pending) = (index.session(), 0);
    for polls in 1..POLLS_MAX {
        for delay in DELAYS {
            let key = 2 * (polls as u64 % KEYS);
            pending += drop_operations(&session, key, polls, delay);
            for changed in [key, key + 1, key + 3] {
                soon(|| other.put(changed, 7));
                soon(|| block_on(session.put(&changed, &8)));
                assert_eq!(other.get(changed).unwrap(), Some(8));
            }
        }
    }
    // The number of pending operations depends on the speed of the network.
    assert!(pending > POLLS_MAX / 2, "{pending} operations were dropped");
    drop(session);
    for index in &place.indexes {
        assert_eq!(index.check().unwrap().problems(), []);
    }
}

#[test]
fn a_dropped_future_blocks_no_client_of_a_sherman_index() {
    others_continue(&BTree::new());
}

#[test]
fn a_dropped_future_blocks_no_client_of_a_smart_index() {
    others_continue(&Radix::new());
}

#[test]
fn a_dropped_future_blocks_no_client_of_a_sphinx_index() {
    others_continue(&Hashed::new());
}
