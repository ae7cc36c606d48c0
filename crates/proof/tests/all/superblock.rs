//! Tests of damaged superblock words, of those that clients change: no index is lost or replaced, and no chunk is
//! allocated twice. Clients report a damaged word even if its value would be valid.

use farwood_fabric::directory;
use farwood_fabric::{Client, Fabric, FabricError, Memory, NodeId, Remote, SealedWord, client_table};
use farwood_index::IndexError;
use farwood_index::drop_index;
use farwood_index::lock::GlobalLock;
use farwood_index::ordered::{Ordered, OrderedConfig};
use farwood_index::sherman;
use farwood_testkit::Harness as _;
use farwood_testkit::harness::{raw_address, read_word, write_word};
use farwood_testkit::loopback::{Loopback, LoopbackFabric};

const KEYS: u64 = 500;
const CACHE_BYTES: usize = 64 << 10;
/// Offsets of the counters and of the first directory entry (`pool_layout.rs`).
const NEXT_CHUNK: u64 = 128;
const NEXT_INDEX: u64 = 136;
const STATE: u64 = 256;
const ROOT: u64 = STATE + 8;
const FREE_LIST: u64 = STATE + 24;

fn word(node: u16, offset: u64) -> Remote<u64> {
    raw_address(NodeId(node), Memory::Host, offset).part(0)
}

fn config() -> OrderedConfig {
    OrderedConfig::Sherman(sherman::ShermanConfig::default())
}

async fn fill<F: Fabric>(client: &Client<F>, name: &str) -> Result<(), IndexError> {
    let index = Ordered::create(client, name, config(), CACHE_BYTES).await?;
    for key in 0..KEYS {
        index.put(client, &key.to_be_bytes(), &(!key).to_be_bytes()).await?;
    }
    index.leave(client).await?;
    index.close(client).await
}

/// Reads all keys, and returns the locations of the problems that a walk finds.
async fn problems<F: Fabric>(client: &Client<F>, name: &str) -> Vec<String> {
    let index = Ordered::open(client, name, CACHE_BYTES).await.expect("the index opens");
    for key in 0..KEYS {
        let found = index.get(client, &key.to_be_bytes()).await.expect("a get");
        assert_eq!(found.as_deref(), Some(&(!key).to_be_bytes()[..]), "key {key} of {name}");
    }
    assert_eq!(index.count(client).await, Ok(KEYS));
    let walk = index.walk(client).await.expect("a walk");
    index.close(client).await.expect("the index is closed");
    walk.problems().iter().map(|problem| problem.at.clone()).collect()
}

async fn check<F: Fabric>(client: &Client<F>, name: &str) {
    assert_eq!(problems(client, name).await, [""; 0], "{name}");
}

/// A pool with the index "first", and a client of another compute node.
fn pool() -> (Loopback, Client<LoopbackFabric>) {
    let pool = Loopback::default();
    let creator = pool.separate_client();
    pool.block_on(fill(&creator, "first")).expect("a new index");
    let client = pool.separate_client();
    (pool, client)
}

fn is_damage<T>(result: &Result<T, IndexError>) -> bool {
    matches!(result, Err(IndexError::Fabric(FabricError::Damaged { .. })))
}

/// Damages a word, and yields the word that was there.
fn damage(
    pool: &Loopback,
    client: &Client<LoopbackFabric>,
    at: Remote<u64>,
    to: impl FnOnce(u64) -> u64,
) -> u64 {
    pool.block_on(async {
        let before = read_word(client, at).await.expect("a READ");
        write_word(client, at, to(before)).await.expect("a WRITE");
        before
    })
}

#[test]
fn an_index_whose_state_is_damaged_is_neither_absent_nor_replaced() {
    let (pool, client) = pool();
    let flips = (0..64).map(|bit| 1 << bit);
    let before = damage(&pool, &client, word(0, STATE), |word| word);
    for damaged in flips.map(|flip| before ^ flip).chain([0, 1, 2, 3, 4, u64::MAX]) {
        damage(&pool, &client, word(0, STATE), |_| damaged);
        pool.block_on(async {
            let opened = Ordered::open(&client, "first", CACHE_BYTES).await;
            assert!(is_damage(&opened), "{damaged:#x}: {opened:?}");
            for name in ["first", "second"] {
                let created = Ordered::create(&client, name, config(), CACHE_BYTES).await;
                assert!(is_damage(&created), "{damaged:#x}: {created:?}");
            }
            assert!(is_damage(&drop_index(&client, "first").await), "{damaged:#x}");
        });
    }
    damage(&pool, &client, word(0, STATE), |_| before);
    pool.block_on(check(&client, "first"));
}

#[test]
fn a_damaged_root_pointer_or_list_of_free_memory_is_reported() {
    let (pool, client) = pool();
    for offset in [ROOT, FREE_LIST] {
        for bit in 0..64 {
            let before = damage(&pool, &client, word(0, offset), |word| word ^ 1 << bit);
            let used = pool.block_on(async {
                let index = Ordered::open(&client, "first", CACHE_BYTES).await?;
                let walked = index.walk(&client).await;
                index.close(&client).await?;
                walked
            });
            assert!(is_damage(&used), "offset {offset}, bit {bit}: {used:?}");
            damage(&pool, &client, word(0, offset), |_| before);
        }
    }
    pool.block_on(check(&client, "first"));
}

#[test]
fn a_lowered_chunk_counter_allocates_no_chunk_twice() {
    let (pool, client) = pool();
    let lowered = |node| {
        let counter = SealedWord::new(word(node, NEXT_CHUNK));
        let before = damage(&pool, &client, counter.at(), |_| counter.seal(1));
        counter.open(before).expect("it is sealed") - 1
    };
    assert!(lowered(0) + lowered(1) > 0, "the index has chunks");
    pool.block_on(async {
        fill(&client, "second").await.expect("a new index");
        check(&client, "first").await;
        check(&client, "second").await;
    });
}

#[test]
fn a_damaged_chunk_counter_is_reported() {
    let (pool, client) = pool();
    let counter = SealedWord::new(word(0, NEXT_CHUNK));
    for damaged in [0, 1, 2, u64::MAX, counter.seal(0), counter.seal(1 << 40)] {
        let before = damage(&pool, &client, counter.at(), |_| damaged);
        let created = pool.block_on(Ordered::create(&client, "second", config(), CACHE_BYTES));
        assert!(is_damage(&created), "{damaged:#x}: {created:?}");
        damage(&pool, &client, counter.at(), |_| before);
    }
    pool.block_on(check(&client, "first"));
}

#[test]
fn two_indexes_never_have_the_same_number() {
    let (pool, client) = pool();
    let counter = SealedWord::new(word(0, NEXT_INDEX));
    for damaged in [0, 1, 2, counter.seal(0), counter.seal(1), counter.seal(1 << 48)] {
        let before = damage(&pool, &client, counter.at(), |_| damaged);
        let created = pool.block_on(Ordered::create(&client, "second", config(), CACHE_BYTES));
        assert!(is_damage(&created), "{damaged:#x}: {created:?}");
        damage(&pool, &client, counter.at(), |_| before);
    }
    pool.block_on(async {
        fill(&client, "second").await.expect("a new index");
        let entries = directory::list(&client).await.expect("READs");
        assert_ne!(entries[0].entry.number, entries[1].entry.number);
    });
}

/// The chunk stays unused, and nothing else fails.
#[test]
fn a_chunk_whose_owner_is_damaged_is_not_allocated() {
    let (pool, client) = pool();
    let of_chunk = word(0, 294_912 + 8);
    for bit in 0..64 {
        let before = damage(&pool, &client, of_chunk, |word| word ^ 1 << bit);
        pool.block_on(async {
            fill(&client, "second").await.expect("a new index");
            // The table of the memory node, and the chunk that it gives to no index any more.
            assert_eq!(problems(&client, "first").await, ["memory node 0", "0:0x800000"], "bit {bit}");
            assert_eq!(problems(&client, "second").await, ["memory node 0"], "bit {bit}");
            drop_index(&client, "second").await.expect("it is not in use");
        });
        let after = damage(&pool, &client, of_chunk, |_| before);
        assert_eq!(after, before ^ 1 << bit, "no client changed it");
    }
    pool.block_on(check(&client, "first"));
}

/// The other indexes are opened, used and dropped. If no intact entry has a name, the damaged entry may have it.
#[test]
fn a_damaged_directory_entry_hides_its_own_index_only() {
    let (pool, client) = pool();
    pool.block_on(fill(&client, "second")).expect("a new index");
    for bit in 0..64 {
        let before = damage(&pool, &client, word(0, STATE), |word| word ^ 1 << bit);
        pool.block_on(async {
            check(&client, "second").await;
            for name in ["first", "third"] {
                let opened = Ordered::open(&client, name, CACHE_BYTES).await;
                assert!(is_damage(&opened), "bit {bit}: {opened:?}");
            }
        });
        damage(&pool, &client, word(0, STATE), |_| before);
    }
    let before = damage(&pool, &client, word(0, STATE), |word| word ^ 1);
    pool.block_on(drop_index(&client, "second")).expect("it is not in use");
    damage(&pool, &client, word(0, STATE), |_| before);
    pool.block_on(check(&client, "first"));
}

/// The client of a damaged slot may have the index open, so the index is not dropped.
#[test]
fn a_damaged_client_slot_prevents_only_drops() {
    let (pool, client) = pool();
    let slot = word(0, client_table::state_offset(9));
    let before = damage(&pool, &client, slot, |_| 0xdead);
    pool.block_on(async {
        assert!(is_damage(&drop_index(&client, "first").await));
        check(&client, "first").await;
        fill(&client, "second").await.expect("a new index");
    });
    damage(&pool, &client, slot, |_| before);
    pool.block_on(drop_index(&client, "first")).expect("it is not in use");
}

/// A lock word that names no client is damage, which a change reports long before it stops waiting for a lock.
#[test]
fn damaged_lock_words_are_reported_as_damage() {
    let (pool, client) = pool();
    let lock = sherman::ShermanVariant::RECOMMENDED.features().lock;
    pool.block_on(async {
        let index = Ordered::open(&client, "first", CACHE_BYTES).await.expect("the index opens");
        let table_bytes = GlobalLock::table_bytes(lock, &client.fabric().shape());
        let table = GlobalLock::at(lock, NodeId(0), 0).word();
        for at in (0..table_bytes as u64).step_by(8) {
            write_word(&client, table.part(at), u64::MAX).await.expect("a WRITE");
        }
        let start = client.fabric().now();
        let put = index.put(&client, &0u64.to_be_bytes(), &[7; 8]).await;
        assert!(matches!(put, Err(IndexError::Damaged { .. })), "{put:?}");
        let walk = index.walk(&client).await.expect("a walk");
        assert!(walk.problems().len() > 500 && walk.locks_held() == 0, "{:?}", walk.problems().first());
        let waited_ms = (client.fabric().now() - start) / 1_000_000;
        assert!(waited_ms < 2_000, "{waited_ms} ms");
        for at in (0..table_bytes as u64).step_by(8) {
            write_word(&client, table.part(at), 0).await.expect("a WRITE");
        }
        index.put(&client, &0u64.to_be_bytes(), &(!0u64).to_be_bytes()).await.expect("a put");
        index.close(&client).await.expect("the index is closed");
        check(&client, "first").await;
    });
}
