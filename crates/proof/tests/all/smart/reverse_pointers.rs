//! A new leaf in the slot of a removed one, while a client with an old pointer reads the slot: the reader pauses after
//! each word, the writer at each step. The value that the reader finds must be in the tree.
//!
//! The reverse pointer shows that a leaf is linked. If the reader reads it before the new leaf is written, and the
//! rest after, it takes an unlinked leaf for a linked one.

use farwood_fabric::{Client, PoolShape};
use farwood_index::smart::{Smart, SmartConfig, SmartVariant};
use farwood_proof::seeds::loopback::{Copies, settings};
use farwood_testkit::Harness;
use farwood_testkit::campaign::size;
use farwood_testkit::loopback::{Loopback, LoopbackFabric, SMALL, Settings};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Two memory nodes, of the superblock and two chunks each.
const SHAPE: PoolShape = PoolShape { host_bytes: 24 << 20, ..SMALL };
const KEY: &[u8] = b"the key";
/// Values whose leaves end with a word outside the checksum: the writer may pause before it.
const FIRST: [u8; 34] = [1; 34];
const OTHER: [u8; 34] = [2; 34];
/// Seeds of the fabric: with each, transfers pause at different words.
const SEEDS: [u64; 2] = [4, 16];
/// Polls after which an operation without an answer waits for another client.
const POLLS_ENOUGH: usize = 4_000;
/// Maximum polls of the reader before the writer continues.
const READER_POLLS: usize = 4;
/// Maximum polls of the writer before the reader continues.
const WRITER_POLLS: usize = 16;

fn poll_times<T>(work: &mut Pin<&mut impl Future<Output = T>>, times: usize) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match work.as_mut().poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}

/// A compute node with a tree.
struct Node {
    tree: Smart,
    client: Client<LoopbackFabric>,
}

impl Node {
    async fn get(&self) -> Option<Vec<u8>> {
        let value = self.tree.get(&self.client, KEY).await.expect("a get");
        value.map(|value| value.to_vec())
    }
}

fn node(pool: &Loopback, first: bool, cache_bytes: usize) -> Node {
    let client = pool.separate_client();
    let tree = pool.block_on(async {
        let options = SmartVariant::RearLock.features();
        if first {
            Smart::create(&client, "t", SmartConfig { options, ..SmartConfig::default() }, cache_bytes).await
        } else {
            Smart::open(&client, "t", cache_bytes).await
        }
    });
    Node { tree: tree.expect("the tree is open"), client }
}

/// The values that a reader with an old pointer finds, and that a later reader finds, if the first reader pauses after
/// `reader` polls until the writer has had `writer` polls. `None` if one of them waits for the writer.
fn two_answers(fabric: Settings, reader: usize, writer: usize) -> Option<[Option<Vec<u8>>; 2]> {
    let pool = Loopback::new(fabric);
    let answers = answers_on(&pool, reader, writer);
    pool.drop_detached();
    answers
}

fn answers_on(pool: &Loopback, reader: usize, writer: usize) -> Option<[Option<Vec<u8>>; 2]> {
    let (writes, reads, looks) =
        (node(pool, true, 1 << 20), node(pool, false, 1 << 20), node(pool, false, 0));
    let existed = pool.block_on(writes.tree.put(&writes.client, KEY, &FIRST)).expect("a put");
    assert!(!existed.replaced());
    assert_eq!(pool.block_on(reads.get()).as_deref(), Some(&FIRST[..]));
    assert!(pool.block_on(writes.tree.remove(&writes.client, KEY)).expect("a removal").removed());
    let mut reading = pin!(reads.get());
    let mut writing = pin!(writes.tree.put(&writes.client, KEY, &OTHER));
    let early = poll_times(&mut reading, reader);
    let put = poll_times(&mut writing, writer);
    let found = early.or_else(|| poll_times(&mut reading, POLLS_ENOUGH));
    let later = poll_times(&mut pin!(looks.get()), POLLS_ENOUGH);
    if put.is_none() {
        let _ = pool.block_on(writing).expect("a put");
    }
    Some([found?, later?])
}

/// Yields a case in which a reader finds a value that a later reader does not find, though no removal runs.
fn found_too_early(fabric: impl Fn(u64) -> Settings) -> Option<String> {
    let mut found = 0;
    for seed in 0..size(SEEDS[0], SEEDS[1]) {
        for (reader, writer) in
            (0..READER_POLLS).flat_map(|reader| (0..WRITER_POLLS).map(move |writer| (reader, writer)))
        {
            let Some([one, other]) = two_answers(fabric(seed), reader, writer) else { continue };
            if one.is_some() && one != other {
                return Some(format!(
                    "seed {seed}: after {reader} and {writer} polls {one:?}, and later {other:?}"
                ));
            }
            found += usize::from(one.is_some());
        }
    }
    assert!(found > 0, "the writer never ended before the reader");
    None
}

fn of(copies: Copies) -> impl Fn(u64) -> Settings {
    move |seed| Settings { shape: SHAPE, ..settings(copies, seed) }
}

#[test]
fn upward_reads_find_only_linked_leaves() {
    assert_eq!(found_too_early(of(Copies::Nic)), None);
}

#[test]
fn downward_reads_find_only_linked_leaves() {
    assert_eq!(found_too_early(of(Copies::SharedMemory)), None);
}

#[test]
fn overtaking_reads_find_only_linked_leaves() {
    assert_eq!(found_too_early(of(Copies::Overtaking)), None);
}
