//! One word of an index is damaged: every operation ends with an answer or an error, and none panics. Radix trees
//! verify their leaves by checksums, so they answer with a value of the key, or with none.

use farwood_fabric::{Memory, NodeId, Remote, SealedWord};
use farwood_index::IndexError;
use farwood_index::ordered::{Entries, Ordered, OrderedConfig};
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::sherman::{self, Direction, Range};
use farwood_index::{smart, sphinx};
use farwood_testkit::Harness as _;
use farwood_testkit::campaign::size;
use farwood_testkit::harness::{TestRng, raw_address, read_raw, read_word, words, write_word};
use farwood_testkit::loopback::{Loopback, SMALL, Settings};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const CACHE_BYTES: usize = 64 << 10;
const NAME: &str = "damaged";
const CHUNK_BYTES: u64 = 8 << 20;
/// Bytes of a chunk that this small index fills.
const FILLED_BYTES: usize = 128 << 10;

type Model = BTreeMap<[u8; 8], [u8; 8]>;

/// Keys that lead to nodes of all sizes, some with long paths between them.
fn keys() -> Model {
    let dense = (0..300u64).map(|key| key * 7);
    let sparse = (0..40u64).map(|key| key << 40 | 0x1234);
    let deep = (0..20u64).map(|key| 0xAA00_0000_0000_0000 | key);
    // More children than 48 slots hold, at a node below the root.
    let wide = (0..60u64).map(|key| 0xBB00_0000_0000_0000 | key << 10);
    dense.chain(sparse).chain(deep).chain(wide).map(|key| (key.to_be_bytes(), (!key).to_be_bytes())).collect()
}

/// Creates a pool with the index; it is the same every time.
fn pool(config: OrderedConfig, model: &Model) -> Loopback {
    let pool = Loopback::new(Settings::default());
    let client = pool.client();
    pool.block_on(async {
        let index = Ordered::create(&client, NAME, config, CACHE_BYTES).await.expect("a new index");
        for (key, value) in model {
            index.put(&client, key, value).await.expect("a put");
        }
        index.close(&client).await.expect("the index is closed");
    });
    pool
}

/// The addresses of the words in chunks that are not zero.
fn filled(pool: &Loopback) -> Vec<Remote<u64>> {
    let client = pool.separate_client();
    let chunks = 1..SMALL.host_bytes / CHUNK_BYTES;
    let starts =
        (0..SMALL.nodes).flat_map(|node| chunks.clone().map(move |chunk| (node, chunk * CHUNK_BYTES)));
    let mut filled = Vec::new();
    for (node, start) in starts {
        let from = raw_address(NodeId(node), Memory::Host, start);
        let bytes = pool.block_on(read_raw(&client, from, FILLED_BYTES)).expect("a READ");
        let full = (0..).step_by(8).zip(words(&bytes)).filter(|(_, word)| *word != 0);
        filled.extend(full.map(|(offset, _)| from.part::<u64>(offset)));
    }
    filled
}

/// The addresses of the words of the superblock that clients of this pool change, without locks and client slots:
/// counters, the first directory entry, the beginning of each chunk table.
fn superblock() -> Vec<Remote<u64>> {
    let of_node = |node| {
        let at = move |offset| raw_address(NodeId(node), Memory::Host, offset).part::<u64>(0);
        [128, 136].into_iter().chain((256..512).step_by(8)).chain((294_920..294_952).step_by(8)).map(at)
    };
    (0..SMALL.nodes).flat_map(of_node).collect()
}

/// Words that are pointers to no object: beyond all memory nodes, at offset 0, unaligned, in device memory.
const POINTERS: [u64; 9] = [0, 1, 8, 64, 1 << 47, 1 << 63, 0x7FFF_FFFF_FFF8, 0xFFFF_FFFF_FFFF, u64::MAX];

/// Packed pointers to no object: none, the superblock, beyond the memory node, another memory node, into a node.
const PACKED: [u64; 8] =
    [0, 8, 16, (8 << 20) / 8 + 1, (1 << 40) - 1, 1 << 40 | 8, 7 << 40 | 8, (1 << 48) - 1];

/// Damages a word: some bits, or all.
fn other(word: u64, random: &mut TestRng) -> u64 {
    let mut any = || random.below(u64::MAX);
    let (one, kind) = (any(), any() % 5);
    match kind {
        0 => word ^ 1 << (one % 64),
        1 => word ^ 0xFF << (one % 57),
        2 => word & !(0xFFFF << (one % 49)),
        3 => POINTERS[(one % POINTERS.len() as u64) as usize],
        _ => one,
    }
}

/// The number of operations that failed. A few are enough, because each operation retries for a long time before it
/// fails.
#[derive(Default)]
struct Errors(Cell<u32>);

impl Errors {
    fn count<T>(&self, answer: Result<T, IndexError>) -> Result<(), IndexError> {
        const ENOUGH: u32 = 25;
        // No other client is in the pool, so an operation must not report damage as contention.
        let exhausted = matches!(answer, Err(IndexError::Exhausted { .. }));
        assert!(!exhausted, "{:?}", answer.err());
        self.0.set(self.0.get() + u32::from(answer.is_err()));
        if self.0.get() < ENOUGH { Ok(()) } else { answer.map(drop) }
    }
}

/// Runs all operations of the index.
async fn use_all(pool: &Loopback, model: &Model, proven: bool, errors: &Errors) -> Result<(), IndexError> {
    let client = pool.separate_client();
    let opened = Ordered::open(&client, NAME, CACHE_BYTES).await;
    let config = OrderedConfig::Smart(smart::SmartConfig::default());
    if let Ok(other) = Ordered::create(&client, "other", config, CACHE_BYTES).await {
        other.close(&client).await?;
    }
    let index = opened?;
    // The second round uses the caches of the first.
    for _ in 0..2 {
        for (key, value) in model.iter().step_by(3) {
            match index.get(&client, key).await {
                Ok(Some(found)) => assert!(!proven || found[..] == value[..], "{key:?} has {found:?}"),
                found => errors.count(found)?,
            }
        }
        for (from, direction) in [
            (None, Direction::Forward),
            (None, Direction::Backward),
            (Some([0, 0, 0, 0, 0, 0, 1, 0]), Direction::Forward),
        ] {
            let range = Range { from: from.as_ref().map(|from| &from[..]), to: None };
            let mut entries = Entries::new();
            errors.count(index.scan(&client, range, direction, 100, &mut entries).await)?;
            let right = |(key, value): (&[u8], &[u8])| model.get(key).is_some_and(|right| value == right);
            assert!(!proven || entries.iter().all(right), "a scan invents entries");
        }
    }
    errors.count(index.count(&client).await)?;
    let walk = index.walk(&client).await;
    assert!(!proven || walk.is_ok(), "a walk of a radix tree reports what it finds: {walk:?}");
    errors.count(walk)?;
    for (key, value) in model.iter().step_by(5) {
        errors.count(index.put(&client, key, value).await)?;
        let mut new = *key;
        new[6] ^= 0x55;
        errors.count(index.put(&client, &new, value).await)?;
    }
    for key in model.keys() {
        errors.count(index.remove(&client, key).await)?;
    }
    errors.count(index.close(&client).await)?;
    Ok(())
}

/// Damages one word of the index and uses it, for each seed.
fn survives(config: OrderedConfig, proven: bool, seeds: u64) {
    let filled = filled(&pool(config, &keys()));
    assert!(filled.len() > 500, "{} words", filled.len());
    survives_in(&filled, config, proven, seeds);
}

/// Damages one of the words `filled` and uses the index, for each seed.
fn survives_in(filled: &[Remote<u64>], config: OrderedConfig, proven: bool, seeds: u64) {
    let seeds = size(seeds / 5, seeds);
    let seeds = std::env::var("FARWOOD_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(seeds);
    let damage = |seed| {
        let mut random = TestRng::new(seed);
        let at = filled[random.below(filled.len() as u64) as usize];
        notices(config, proven, at, |word| other(word, &mut random))
    };
    let noticed = (0..seeds).filter(|&seed| damage(seed)).count() as u64;
    assert!(noticed > seeds / 10, "only {noticed} of {seeds} damages were noticed");
}

/// Damages the word at `at` and uses the index: whether an operation fails. None panics.
fn notices(config: OrderedConfig, proven: bool, at: Remote<u64>, damage: impl FnOnce(u64) -> u64) -> bool {
    let model = keys();
    let pool = pool(config, &model);
    let client = pool.separate_client();
    let errors = Errors::default();
    let before = pool.block_on(read_word(&client, at)).expect("a READ");
    let after = damage(before);
    pool.block_on(write_word(&client, at, after)).expect("a WRITE");
    let used = catch_unwind(AssertUnwindSafe(|| pool.block_on(use_all(&pool, &model, proven, &errors))));
    let Ok(used) = used else { panic!("{before:#018x} at {at} became {after:#018x}") };
    used.is_err() || errors.0.get() > 0
}

#[test]
fn smart_survives_damage() {
    survives(OrderedConfig::Smart(smart::SmartConfig::default()), true, 300);
}

#[test]
fn art_survives_damage() {
    let options = smart::SmartVariant::Art.features();
    survives(
        OrderedConfig::Smart(smart::SmartConfig { options, ..smart::SmartConfig::default() }),
        true,
        200,
    );
}

#[test]
fn sphinx_survives_damage() {
    survives(OrderedConfig::Sphinx(sphinx::SphinxConfig::default()), true, 300);
}

#[test]
fn sherman_survives_damage() {
    survives(OrderedConfig::Sherman(sherman::ShermanConfig::default()), false, 200);
}

/// The words of the superblock determine the owner of each chunk, so all systems use them.
fn survives_damage_of_the_superblock(config: OrderedConfig) {
    survives_in(&superblock(), config, false, 300);
    let root = raw_address(NodeId(0), Memory::Host, 264).part(0);
    // Some words have a check code that matches, and others do not.
    let sealed = PACKED.map(|packed| SealedWord::new(root).seal(packed));
    for pointer in POINTERS.into_iter().chain(sealed) {
        assert!(notices(config, false, root, |_| pointer), "the root pointer {pointer:#x} was used");
    }
}

#[test]
fn smart_survives_damage_of_the_superblock() {
    survives_damage_of_the_superblock(OrderedConfig::Smart(smart::SmartConfig::default()));
}

#[test]
fn sphinx_survives_damage_of_the_superblock() {
    survives_damage_of_the_superblock(OrderedConfig::Sphinx(sphinx::SphinxConfig::default()));
}

#[test]
fn sherman_survives_damage_of_the_superblock() {
    survives_damage_of_the_superblock(OrderedConfig::Sherman(sherman::ShermanConfig::default()));
}

/// Values of any length, most of them overflow values: entries link them, and lists link their parts.
#[test]
fn sherman_with_values_of_any_length_survives_damage() {
    let default = sherman::ShermanConfig::default();
    let sizes = Sizes { value_bytes: 16, ..default.sizes };
    let config = sherman::ShermanConfig { sizes, values: Values::AnyLength, ..default };
    survives(OrderedConfig::Sherman(config), false, 200);
}
