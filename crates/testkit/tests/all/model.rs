//! Random programs accept a correct index, and find the faults of incorrect ones, shrunk to few steps.

use farwood_testkit::history::{ByteString, Exchange};
use farwood_testkit::model::{Edge, Family, Ordered, Program, ProgramShape, programs, run};
use proptest::strategy::Strategy as _;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

type Map = BTreeMap<ByteString, ByteString>;

const SHAPE: ProgramShape =
    ProgramShape { key_bytes: 8, value_bytes: 8, value_bytes_max: 8, keys_max: 200, steps_max: 200 };

/// Faults that trees have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The least key cannot be stored.
    LeastKey,
    /// A key whose bits are all ones is treated as the end of the index.
    GreatestKey,
    /// A removed key stays while it has a neighbour below.
    RemovedStays,
    /// Insert replaces.
    InsertReplaces,
    /// Update stores what is absent.
    UpdateStores,
    /// A backward scan leaves out its first entry if there is a limit.
    BackwardSkips,
    /// A scan treats an excluded bound as included.
    BoundIncluded,
    /// Count does not count the 17th entry.
    CountStops,
    /// A value of zeroes is treated as absent.
    ZeroIsAbsent,
    /// An exchange ignores the expected value.
    ExpectsNothing,
}

struct Faulty {
    map: Map,
    fault: Fault,
}

impl Ordered for Faulty {
    fn get(&mut self, key: &[u8]) -> Option<ByteString> {
        let value = Ordered::get(&mut self.map, key);
        value.filter(|value| self.fault != Fault::ZeroIsAbsent || value.iter().any(|byte| *byte != 0))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let lost = match self.fault {
            Fault::LeastKey => key.iter().all(|byte| *byte == 0),
            Fault::GreatestKey => key.iter().all(|byte| *byte == u8::MAX),
            _ => false,
        };
        if !lost {
            self.map.put(key, value);
        }
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        let absent = !self.map.contains_key(key);
        if absent || self.fault == Fault::InsertReplaces {
            self.put(key, value);
        }
        absent
    }

    fn update(&mut self, key: &[u8], value: &[u8]) -> bool {
        let present = self.map.contains_key(key);
        if present || self.fault == Fault::UpdateStores {
            self.put(key, value);
        }
        present
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        if self.fault == Fault::RemovedStays
            && self.map.keys().next().is_some_and(|least| least.as_slice() < key)
        {
            return self.map.contains_key(key);
        }
        Ordered::remove(&mut self.map, key)
    }

    fn exchange(&mut self, key: &[u8], exchange: &Exchange) -> Option<ByteString> {
        let found = self.get(key);
        if self.fault == Fault::ExpectsNothing || exchange.applies(found.as_deref()) {
            match &exchange.new {
                Some(value) => self.put(key, value),
                None => drop(self.remove(key)),
            }
        }
        found
    }

    fn scan_forward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)> {
        use std::ops::Bound::{Excluded, Included};
        let from = match from {
            Excluded(from) if self.fault == Fault::BoundIncluded => Included(from),
            from => from,
        };
        self.map.scan_forward(from, to, limit)
    }

    fn scan_backward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)> {
        let mut entries = self.map.scan_backward(from, to, limit);
        if self.fault == Fault::BackwardSkips && limit < 5 && !entries.is_empty() {
            entries.remove(0);
        }
        entries
    }

    fn count(&mut self) -> u64 {
        let count = self.map.count();
        if self.fault == Fault::CountStops { count.min(16) } else { count }
    }
}

fn search(fault: Fault) -> Result<(), TestError<Program>> {
    let config =
        Config { cases: 300, failure_persistence: None, max_shrink_iters: 10_000, ..Config::default() };
    TestRunner::new_with_rng(config, rng()).run(&programs(SHAPE), |program| {
        let mut faulty = Faulty { map: Map::new(), fault };
        run(&program, &mut faulty, &mut Map::new())
            .map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))
    })
}

/// Creates a random number generator with a fixed seed, so that each run tests the same cases.
fn rng() -> proptest::test_runner::TestRng {
    proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha)
}

#[test]
fn a_right_index_passes() {
    search(Fault::None).unwrap();
}

#[test]
fn every_fault_is_found_and_shrunk() {
    use Fault::*;
    for fault in [
        LeastKey,
        GreatestKey,
        RemovedStays,
        InsertReplaces,
        UpdateStores,
        BackwardSkips,
        BoundIncluded,
        CountStops,
        ZeroIsAbsent,
        ExpectsNothing,
    ] {
        let found = search(fault);
        let Err(TestError::Fail(_, program)) = found else { panic!("{fault:?} was not found: {found:?}") };
        let steps_max = if fault == CountStops { 40 } else { 20 };
        assert!(program.len() <= steps_max, "{fault:?} needs no more than {steps_max} steps: {program:?}");
    }
}

#[test]
fn keys_have_their_length_and_families_differ() {
    let mut all = BTreeSet::new();
    for family in [Family::Dense, Family::Sparse, Family::Extreme, Family::SharedPrefix, Family::Branches] {
        for key_bytes in [1, 2, 3, 8, 24, 1024] {
            let keys: Vec<ByteString> = (0..200).map(|index| family.key(index, key_bytes)).collect();
            assert!(keys.iter().all(|key| key.len() == key_bytes), "{family:?}");
            let distinct: BTreeSet<&ByteString> = keys.iter().collect();
            assert!(key_bytes < 2 || distinct.len() > 190, "{family:?}: {} keys", distinct.len());
            all.extend(keys);
        }
    }
    assert!(all.contains(&vec![0; 8]) && all.contains(&vec![0xFF; 8]), "the least and the greatest key");
}

#[test]
fn programs_use_few_keys_often() {
    let seen = RefCell::new((0, 0));
    let mut runner = TestRunner::new_with_rng(Config::default(), rng());
    for _ in 0..100 {
        let program = programs(SHAPE).new_tree(&mut runner).map(|tree| {
            use proptest::strategy::ValueTree as _;
            tree.current()
        });
        let mut map = Map::new();
        run(&program.unwrap(), &mut Faulty { map: Map::new(), fault: Fault::None }, &mut map).unwrap();
        let mut seen = seen.borrow_mut();
        seen.0 += usize::from(map.len() > 20);
        seen.1 += usize::from(map.len() < 10);
    }
    let (many, few) = seen.into_inner();
    assert!(many > 5 && few > 5, "of 100 programs {many} end with many keys, {few} with few");
}
