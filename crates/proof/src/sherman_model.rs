//! Model tests of Sherman: a tree and a `BTreeMap` run the same programs, over keys that cause many splits and merges,
//! on any fabric.

use crate::blocking_index::BlockingIndex;
use farwood_index::consistency::Consistency;
use farwood_index::drop_index;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Sherman, ShermanConfig, ShermanVariant};
use farwood_testkit::Harness;
use farwood_testkit::campaign::size;
use farwood_testkit::history::ByteString;
use farwood_testkit::model::{Program, ProgramShape, programs, run};
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;

/// Bytes of the trees' caches: small, so that there are misses.
pub const CACHE_BYTES: usize = 8 << 10;
/// The trees' name.
pub const NAME: &str = "model";

/// The contents of a tree.
pub type Model = BTreeMap<ByteString, ByteString>;

/// Runs `test` on the first `cases` of a fixed sequence of inputs (a third of them outside campaigns), or on the number
/// of inputs in `FARWOOD_SEEDS`.
///
/// # Panics
/// If the test fails.
pub fn drawn<S: Strategy>(cases: u32, inputs: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let requested = std::env::var("FARWOOD_SEEDS").ok().and_then(|count| count.parse().ok());
    let cases = size(cases.div_ceil(3).into(), cases.into()) as u32;
    let runs = Runs { cases: requested.unwrap_or(cases), failure_persistence: None, ..Runs::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(failure) = TestRunner::new_with_rng(runs, rng).run(inputs, test) {
        panic!("{failure}");
    }
}

/// The configuration of a tree of those sizes.
pub fn config(sizes: Sizes, variant: ShermanVariant, consistency: Option<Consistency>) -> ShermanConfig {
    ShermanConfig { sizes, options: variant.features(), consistency, ..ShermanConfig::default() }
}

/// Runs one program on a new tree that holds `loaded`, in nodes filled to `fill`, and then verifies the invariants of
/// the tree.
///
/// # Errors
/// If tree and model differ.
///
/// # Panics
/// If the tree cannot be created.
pub fn agree<H: Harness>(
    harness: &H,
    config: ShermanConfig,
    (loaded, fill): (&Model, f64),
    program: &Program,
) -> Result<(), TestCaseError> {
    let client = harness.client();
    let tree = harness.block_on(Sherman::create(&client, NAME, config, CACHE_BYTES)).expect("a new tree");
    if !loaded.is_empty() {
        let count = harness.block_on(tree.bulk_load(&client, loaded, fill, |_| {})).expect("a bulk load");
        prop_assert_eq!(count, loaded.len() as u64);
    }
    let mut index = BlockingIndex { harness, tree, client };
    let mut model = loaded.clone();
    let ran = run(program, &mut index, &mut model);
    let walk = harness.block_on(index.tree.walk(&index.client)).expect("a walk");
    let dropped = index.tree.locks_dropped();
    let BlockingIndex { tree, client, .. } = index;
    drop(tree);
    harness.block_on(drop_index(&client, NAME)).expect("no other client has it open");
    ran.map_err(|wrong| TestCaseError::fail(wrong.to_string()))?;
    prop_assert_eq!(walk.problems, []);
    prop_assert_eq!((walk.entries, walk.half_linked, dropped), (model.len() as u64, 0, 0));
    Ok(())
}

/// The shape of programs for trees of those sizes.
pub fn shape(sizes: Sizes, keys_max: usize, steps_max: usize) -> ProgramShape {
    let Sizes { key_bytes, value_bytes, .. } = sizes;
    ProgramShape { key_bytes, value_bytes, value_bytes_max: value_bytes, keys_max, steps_max }
}

/// Runs programs on empty trees of all variants, with versions and with checksums.
pub fn from_empty<H: Harness>(harness: &H, sizes: Sizes, steps_max: usize, cases: u32) {
    for (variant, _) in ShermanVariant::ALL {
        drawn(cases, &programs(shape(sizes, 200, steps_max)), |program| {
            agree(harness, config(sizes, variant, None), (&Model::new(), 1.0), &program)
        });
    }
    drawn(cases, &programs(shape(sizes, 200, steps_max)), |program| {
        let config = config(sizes, ShermanVariant::Sherman, Some(Consistency::Checksum));
        agree(harness, config, (&Model::new(), 1.0), &program)
    });
}

/// Sizes of trees.
pub const SIZES: [Sizes; 4] = [
    Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 256 },
    Sizes { key_bytes: 16, value_bytes: 0, node_bytes: 256 },
    Sizes { key_bytes: 40, value_bytes: 100, node_bytes: 1024 },
    Sizes { key_bytes: 1024, value_bytes: 8, node_bytes: 16 << 10 },
];
