//! Model tests of radix trees: a tree and a `BTreeMap` run the same programs, over keys that cause many changes of
//! nodes.

use crate::blocking_index::BlockingIndex;
use crate::sherman_model::drawn;
use crate::shm::Shm;
use crate::workload::{ScanSpan, perform, scan};
use farwood_index::drop_index;
use farwood_index::ordered::{self, Ordered};
use farwood_testkit::Harness;
use farwood_testkit::campaign::size;
use farwood_testkit::harness::TestRng;
use farwood_testkit::history::ByteString;
use farwood_testkit::history::{Action, Answer, Direction};
use farwood_testkit::loopback::Loopback;
use farwood_testkit::model::{Family, Program, ProgramShape, programs, run};
use proptest::prelude::*;
use std::collections::BTreeMap;

const CACHE_BYTES: usize = 8 << 10;
const NAME: &str = "model";

type Model = BTreeMap<ByteString, ByteString>;

/// A new tree that holds `loaded`.
fn tree<'h, H: Harness>(
    harness: &'h H,
    config: ordered::OrderedConfig,
    loaded: &Model,
) -> BlockingIndex<'h, H, Ordered> {
    let client = harness.client();
    let tree = harness.block_on(Ordered::create(&client, NAME, config, CACHE_BYTES)).expect("a new tree");
    if !loaded.is_empty() {
        let count = harness.block_on(tree.bulk_load(&client, loaded, 1.0, |_| {})).expect("a bulk load");
        assert_eq!(count, loaded.len() as u64);
    }
    BlockingIndex { harness, tree, client }
}

/// Walks the tree, compares it with the model, and drops it.
fn finish<H: Harness>(index: BlockingIndex<'_, H, Ordered>, model: &Model) -> Result<(), TestCaseError> {
    let BlockingIndex { harness, tree, client } = index;
    let walk = harness.block_on(tree.walk(&client)).expect("a walk");
    let dropped = tree.locks_dropped();
    drop(tree);
    harness.block_on(drop_index(&client, NAME)).expect("no other client has it open");
    prop_assert_eq!(walk.problems(), []);
    prop_assert_eq!((walk.entries(), walk.unfinished_changes(), dropped), (model.len() as u64, 0, 0));
    Ok(())
}

/// Runs one program on a new tree that holds `loaded`, and then verifies the invariants of the tree.
fn agree<H: Harness>(
    harness: &H,
    config: ordered::OrderedConfig,
    loaded: &Model,
    program: &Program,
) -> Result<(), TestCaseError> {
    let mut index = tree(harness, config, loaded);
    let mut model = loaded.clone();
    let ran = run(program, &mut index, &mut model);
    let finished = finish(index, &model);
    ran.map_err(|wrong| TestCaseError::fail(wrong.to_string()))?;
    finished
}

const SIZES: [(usize, usize); 4] = [(8, 8), (16, 0), (40, 100), (1024, 8)];

/// Runs programs on empty trees of all configurations.
pub fn from_empty<H: Harness>(harness: &H, configs: &[ordered::OrderedConfig], steps_max: usize, cases: u32) {
    for (key_bytes, value_bytes) in SIZES {
        let shape =
            ProgramShape { key_bytes, value_bytes, value_bytes_max: value_bytes, keys_max: 200, steps_max };
        for &config in configs {
            drawn(cases, &programs(shape), |program| agree(harness, config, &Model::new(), &program));
        }
    }
}

/// Runs programs on bulk-loaded trees, in shared memory and on the loopback fabric.
pub fn from_bulk_loaded(config: ordered::OrderedConfig) {
    let (shm, loopback) = (Shm::new(), Loopback::default());
    let family = prop::sample::select(&Family::ALL[..]);
    for (key_bytes, value_bytes) in SIZES {
        let shape = ProgramShape {
            key_bytes,
            value_bytes,
            value_bytes_max: value_bytes,
            keys_max: 200,
            steps_max: 200,
        };
        let inputs = (family.clone(), 1..600_u16, programs(shape));
        drawn(12, &inputs, |(family, count, program)| {
            let keys = (0..count).map(|number| family.key(number, key_bytes));
            let loaded: Model = keys.map(|key| (key, vec![1; value_bytes])).collect();
            agree(&loopback, config, &loaded, &program)?;
            agree(&shm, config, &loaded, &program)
        });
    }
}

/// Keys of all lengths. Each begins with a prefix of an earlier key, and continues with a few bytes: any bytes, one of
/// three, or one byte repeated.
fn draw_keys(random: &mut TestRng, count: usize) -> Vec<ByteString> {
    let mut keys = vec![ByteString::new()];
    while keys.len() < count {
        let mut key = keys[random.below(keys.len() as u64) as usize].clone();
        key.truncate(random.below(key.len() as u64 + 1) as usize);
        match random.below(8) {
            0 => key.extend(std::iter::repeat_n(7, random.below(200) as usize)),
            1 | 2 => key.extend((0..random.below(5)).map(|_| random.next_u64() as u8)),
            3 if key.len() < 3 => key.extend([5, random.next_u64() as u8]),
            _ => key.extend((0..=random.below(3)).map(|_| [0, 1, 255][random.below(3) as usize])),
        }
        key.truncate(4096);
        keys.push(key);
    }
    keys
}

/// Runs a random program over keys and values of all lengths.
fn run_random<H: Harness>(
    index: &BlockingIndex<'_, H, Ordered>,
    model: &mut Model,
    keys: &[ByteString],
    random: &mut TestRng,
    steps: u64,
) {
    let of = |random: &mut TestRng| keys[random.below(keys.len() as u64) as usize].clone();
    for step in 0..steps {
        let key = of(random);
        let value = vec![step as u8; [0, 8, 8, 30, 200, 3000][random.below(6) as usize]];
        let there = model.contains_key(&key);
        let (action, right) = match random.below(12) {
            0..3 => (Action::Get, Answer::Found(model.get(&key).cloned())),
            3..5 => (Action::Put(value.clone()), Answer::Stored { existed: there }),
            5..7 => (Action::Insert(value.clone()), Answer::Done(!there)),
            7 => (Action::Update(value.clone()), Answer::Done(there)),
            8..11 => (Action::Remove, Answer::Done(there)),
            _ => {
                compare_scan(index, model, (of(random), of(random)), random);
                continue;
            }
        };
        let done = index.harness.block_on(perform(&index.tree, &index.client, &key, &action));
        assert_eq!(done.expect("the operation succeeds"), right, "{action:?} {key:02x?}");
        match (&right, action) {
            (_, Action::Put(_)) | (Answer::Done(true), Action::Insert(_) | Action::Update(_)) => {
                model.insert(key, value);
            }
            (Answer::Done(true), Action::Remove) => drop(model.remove(&key)),
            _ => {}
        }
    }
}

/// Scans between two keys, in either direction.
fn compare_scan<H: Harness>(
    index: &BlockingIndex<'_, H, Ordered>,
    model: &Model,
    ends: (ByteString, ByteString),
    random: &mut TestRng,
) {
    let (from, to) = (ends.0.clone().min(ends.1.clone()), ends.0.max(ends.1));
    let from = (!random.once_in(4)).then_some(from);
    let to = (!random.once_in(4)).then_some(to);
    let limit = [1, 3, 40, usize::MAX][random.below(4) as usize];
    let inside = |key: &ByteString| {
        from.as_ref().is_none_or(|from| key >= from) && to.as_ref().is_none_or(|to| key < to)
    };
    let within = model.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone()));
    let (direction, right): (_, Vec<_>) = if random.once_in(2) {
        (Direction::Forward, within.take(limit).collect())
    } else {
        (Direction::Backward, within.rev().take(limit).collect())
    };
    let span = ScanSpan { direction, from: from.clone(), to: to.clone(), limit };
    let found =
        index.harness.block_on(scan(&index.tree, &index.client, &span)).expect("the operation succeeds");
    assert_eq!(found, right, "{direction:?} from {from:02x?} to {to:02x?}, {limit}");
}

/// Runs random programs over keys of all lengths, with values that outgrow their leaves.
pub fn keys_of_all_lengths(config: impl Fn(u64) -> ordered::OrderedConfig) {
    let loopback = Loopback::default();
    for seed in 0..size(12, 40) {
        let mut random = TestRng::new(seed);
        let keys = draw_keys(&mut random, [20, 200, 1500][seed as usize % 3]);
        let mut model = Model::new();
        if seed % 2 == 1 {
            model = keys.iter().step_by(2).map(|key| (key.clone(), vec![1; 9])).collect();
        }
        let index = tree(&loopback, config(seed), &model);
        run_random(&index, &mut model, &keys, &mut random, 1500);
        finish(index, &model).expect("the tree is valid");
    }
}

/// Fills and empties a tree many times: it takes no more memory than at its fullest.
///
/// # Panics
/// If it does.
pub fn removed_keys_free_their_memory(config: ordered::OrderedConfig) {
    let loopback = Loopback::default();
    let index = tree(&loopback, config, &Model::new());
    let mut most = 0;
    for round in 0..30 {
        for key in 0..400_u64 {
            let key = (key * 7 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            let action = Action::Put(vec![1; 8]);
            let put = perform(&index.tree, &index.client, &key, &action);
            loopback.block_on(put).expect("the operation succeeds");
        }
        if round == 0 {
            most = index.tree.bytes_allocated();
        }
        assert!(index.tree.bytes_allocated() < most + most / 4, "{round}");
        for key in 0..400_u64 {
            let key = (key * 7 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            let removed = perform(&index.tree, &index.client, &key, &Action::Remove);
            assert_eq!(loopback.block_on(removed).expect("the operation succeeds"), Answer::Done(true));
        }
        assert_eq!(index.tree.bytes_allocated(), 0, "only the root is left");
    }
    finish(index, &Model::new()).expect("the tree is valid");
}
