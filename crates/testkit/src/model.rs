//! Random operations on an ordered index, each compared with a `BTreeMap`.
//!
//! [`programs`] is a proptest strategy: failures shrink to few steps on few keys. Keys come from families that stress
//! trees ([`Family`]). [`run`] compares every answer, and at the end the whole contents, in both directions.

use crate::history::{ByteString, Exchange, Expected};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::ops::Bound;

/// A bound of a scan.
pub type Edge<'a> = Bound<&'a [u8]>;

/// A blocking ordered index under test. An adapter turns an error of the fabric into a panic; keys and values have the
/// lengths of the program.
pub trait Ordered {
    /// The value under `key`.
    fn get(&mut self, key: &[u8]) -> Option<ByteString>;
    /// Stores a value, whether the key is present or not.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Stores a value if the key is absent; yields whether it was.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool;
    /// Stores a value if the key is present; yields whether it was.
    fn update(&mut self, key: &[u8], value: &[u8]) -> bool;
    /// Removes the key; yields whether it was present.
    fn remove(&mut self, key: &[u8]) -> bool;
    /// Reads the key, and makes the change if it applies; yields the value that was found.
    fn exchange(&mut self, key: &[u8], exchange: &Exchange) -> Option<ByteString>;
    /// At most `limit` entries between the bounds, the least keys first.
    fn scan_forward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)>;
    /// At most `limit` entries between the bounds, the greatest keys first.
    fn scan_backward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)>;
    /// Number of keys.
    fn count(&mut self) -> u64;
}

/// The reference implementation of an ordered index.
impl Ordered for BTreeMap<ByteString, ByteString> {
    fn get(&mut self, key: &[u8]) -> Option<ByteString> {
        BTreeMap::get(self, key).cloned()
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        BTreeMap::insert(self, key.to_vec(), value.to_vec());
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        let absent = !self.contains_key(key);
        if absent {
            self.put(key, value);
        }
        absent
    }

    fn update(&mut self, key: &[u8], value: &[u8]) -> bool {
        let present = self.contains_key(key);
        if present {
            self.put(key, value);
        }
        present
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        BTreeMap::remove(self, key).is_some()
    }

    fn exchange(&mut self, key: &[u8], exchange: &Exchange) -> Option<ByteString> {
        let found = Ordered::get(self, key);
        if exchange.applies(found.as_deref()) {
            match &exchange.new {
                Some(value) => self.put(key, value),
                None => drop(BTreeMap::remove(self, key)),
            }
        }
        found
    }

    fn scan_forward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)> {
        let within = within(self, from, to);
        within.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn scan_backward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(ByteString, ByteString)> {
        let within = within(self, from, to).rev();
        within.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn count(&mut self) -> u64 {
        self.len() as u64
    }
}

/// The entries between two bounds; none if the bounds are inverted.
fn within<'a>(
    map: &'a BTreeMap<ByteString, ByteString>,
    from: Edge<'_>,
    to: Edge<'_>,
) -> impl DoubleEndedIterator<Item = (&'a ByteString, &'a ByteString)> {
    let empty = match (from, to) {
        (Bound::Excluded(from), Bound::Excluded(to) | Bound::Included(to))
        | (Bound::Included(from), Bound::Excluded(to)) => from >= to,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        _ => false,
    };
    let range = (!empty).then(|| map.range::<[u8], _>((from, to)));
    range.into_iter().flatten()
}

/// Families of keys, all of one length, that stress trees in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Consecutive numbers.
    Dense,
    /// Numbers spread over all bits.
    Sparse,
    /// The least and the greatest possible keys.
    Extreme,
    /// Keys that differ in their last bytes only.
    SharedPrefix,
    /// Keys that branch at every length of a common prefix.
    Branches,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Dense, Self::Sparse, Self::Extreme, Self::SharedPrefix, Self::Branches];

    /// Key number `index` of the family. Different numbers may give the same key if the keys are short.
    pub fn key(self, index: u16, key_bytes: usize) -> ByteString {
        let number = u64::from(index);
        match self {
            Self::Dense => low(0, number, key_bytes),
            Self::Sparse => {
                let mut random = crate::harness::TestRng::new(number);
                (0..key_bytes).map(|_| random.next_u64() as u8).collect()
            }
            Self::Extreme if index.is_multiple_of(2) => low(0, number / 2, key_bytes),
            Self::Extreme => low(0, number / 2, key_bytes).into_iter().map(|byte| !byte).collect(),
            Self::SharedPrefix => low(0xA5, number, key_bytes),
            Self::Branches => {
                let mut key = vec![0x80_u8; key_bytes];
                let branch = usize::from(index) % key_bytes;
                key[branch] = key[branch].wrapping_add((index / key_bytes as u16) as u8).wrapping_add(1);
                key
            }
        }
    }
}

/// A key of bytes `prefix` that ends with `number`, big endian.
fn low(prefix: u8, number: u64, key_bytes: usize) -> ByteString {
    let mut key = vec![prefix; key_bytes];
    let digits = number.to_be_bytes();
    // Numbers have 16 bits; the rest is the prefix.
    let count = key_bytes.min(2);
    key[key_bytes - count..].copy_from_slice(&digits[8 - count..]);
    key
}

/// The order in which a program uses its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each step takes the next greater key of the program.
    Ascending,
    /// Each step takes the next smaller one.
    Descending,
    /// Each step draws a key.
    Drawn,
}

/// The value that an exchange expects.
#[derive(Clone, Copy, Debug)]
pub enum ExpectedKind {
    /// Any value, or none.
    Any,
    /// No value: the key is absent.
    Absent,
    /// The value that the key has, if it has one.
    Present,
    /// Another value.
    Wrong,
}

/// The operation of a step on its key.
#[derive(Clone, Debug)]
pub enum Step {
    /// See [`Ordered::get`].
    Get,
    /// See [`Ordered::put`].
    Put(u8),
    /// See [`Ordered::insert`].
    Insert(u8),
    /// See [`Ordered::update`].
    Update(u8),
    /// See [`Ordered::remove`].
    Remove,
    /// See [`Ordered::exchange`].
    Exchange(ExpectedKind, Option<u8>),
    /// A scan with the step's key as one bound.
    Scan {
        /// Whether the scan is forward.
        forward: bool,
        /// The key of the other bound, if any.
        other: Option<Index>,
        /// Whether the bound includes the step's key.
        included: bool,
        /// Maximum number of entries.
        limit: usize,
    },
    /// See [`Ordered::count`].
    Count,
}

/// The parameters of programs.
#[derive(Clone, Copy, Debug)]
pub struct ProgramShape {
    /// Bytes of every key, at least 1.
    pub key_bytes: usize,
    /// Bytes of the shortest values.
    pub value_bytes: usize,
    /// Bytes of the longest values.
    pub value_bytes_max: usize,
    /// Maximum number of keys of a program.
    pub keys_max: usize,
    /// Maximum number of steps of a program.
    pub steps_max: usize,
}

/// A sequence of operations.
#[derive(Clone)]
pub struct Program {
    /// The keys.
    keys: Vec<ByteString>,
    order: Order,
    value_bytes: usize,
    value_bytes_max: usize,
    steps: Vec<(Index, Step)>,
}

impl Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}, {} keys", self.order, self.keys.len())?;
        for (number, (_, step)) in self.steps.iter().enumerate() {
            writeln!(f, "  {step:?} {:02x?}", self.key(number))?;
        }
        Ok(())
    }
}

impl Program {
    /// The key of a step.
    fn key(&self, step: usize) -> &ByteString {
        let count = self.keys.len();
        match self.order {
            Order::Ascending => &self.keys[step % count],
            Order::Descending => &self.keys[count - 1 - step % count],
            Order::Drawn => self.steps[step].0.get(&self.keys),
        }
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Programs of a shape, from all families, in all orders.
pub fn programs(shape: ProgramShape) -> impl Strategy<Value = Program> {
    let family = prop::sample::select(&Family::ALL[..]);
    let order = prop_oneof![
        3 => Just(Order::Drawn),
        1 => Just(Order::Ascending),
        1 => Just(Order::Descending),
    ];
    // The first keys of a family are the least and the greatest ones.
    let start = prop_oneof![Just(0), 0..256u16, any::<u16>()];
    let keys = vec((family, start, 0..64u16), 1..=8);
    let steps = vec((any::<Index>(), step()), 0..=shape.steps_max);
    (keys, order, 1..=shape.keys_max, steps).prop_map(move |(runs, order, keys_max, steps)| {
        let run = |(family, start, length): (Family, u16, u16)| {
            (0..=length).map(move |at| family.key(start.wrapping_add(at), shape.key_bytes))
        };
        let mut keys: Vec<ByteString> = runs.into_iter().flat_map(run).take(keys_max).collect();
        keys.sort();
        keys.dedup();
        let ProgramShape { value_bytes, value_bytes_max, .. } = shape;
        Program { keys, order, value_bytes, value_bytes_max, steps }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let scan = (any::<bool>(), any::<Option<Index>>(), any::<bool>(), 0..40usize);
    let expected = prop::sample::select(
        &[ExpectedKind::Any, ExpectedKind::Absent, ExpectedKind::Present, ExpectedKind::Wrong][..],
    );
    prop_oneof![
        3 => Just(Step::Get),
        6 => any::<u8>().prop_map(Step::Put),
        4 => any::<u8>().prop_map(Step::Insert),
        2 => any::<u8>().prop_map(Step::Update),
        3 => Just(Step::Remove),
        2 => scan.prop_map(|(forward, other, included, limit)| Step::Scan { forward, other, included, limit }),
        1 => Just(Step::Count),
        2 => (expected, any::<Option<u8>>()).prop_map(|(expected, new)| Step::Exchange(expected, new)),
    ]
}

/// An answer that differs from the `BTreeMap`'s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The step; `None` for the comparison at the end.
    pub step: Option<usize>,
    /// The operation, the answer of the index, and the right answer.
    pub what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "step {step}: {}", self.what),
            None => write!(f, "at the end: {}", self.what),
        }
    }
}

impl std::error::Error for Mismatch {}

/// Runs a program on an index and on `model`, which have the same contents; compares every answer, and the contents at
/// the end.
///
/// # Errors
/// The first wrong answer.
pub fn run(
    program: &Program,
    index: &mut impl Ordered,
    model: &mut BTreeMap<ByteString, ByteString>,
) -> Result<(), Mismatch> {
    for step in 0..program.len() {
        one(program, step, index, model).map_err(|what| Mismatch { step: Some(step), what })?;
    }
    contents(index, model).map_err(|what| Mismatch { step: None, what })
}

fn same<T: PartialEq + Debug>(what: impl FnOnce() -> String, found: &T, right: &T) -> Result<(), String> {
    if found == right {
        return Ok(());
    }
    Err(format!("{}: the index answered {found:02x?}, should be {right:02x?}", what()))
}

fn one(
    program: &Program,
    number: usize,
    index: &mut impl Ordered,
    model: &mut BTreeMap<ByteString, ByteString>,
) -> Result<(), String> {
    let (key, step) = (program.key(number), &program.steps[number].1);
    let value = |byte: &u8| {
        let span = program.value_bytes_max - program.value_bytes + 1;
        value(*byte, number, program.value_bytes + (usize::from(*byte) * 97 + number * 31) % span)
    };
    let what = || format!("{step:?} {key:02x?}");
    match step {
        Step::Get => same(what, &index.get(key), &Ordered::get(model, key)),
        Step::Put(byte) => {
            index.put(key, &value(byte));
            model.put(key, &value(byte));
            Ok(())
        }
        Step::Insert(byte) => {
            same(what, &index.insert(key, &value(byte)), &Ordered::insert(model, key, &value(byte)))
        }
        Step::Update(byte) => same(what, &index.update(key, &value(byte)), &model.update(key, &value(byte))),
        Step::Remove => same(what, &index.remove(key), &Ordered::remove(model, key)),
        Step::Exchange(expected, new) => {
            let expected = match expected {
                ExpectedKind::Any => Expected::Any,
                ExpectedKind::Absent => Expected::Value(None),
                ExpectedKind::Present => Expected::Value(Ordered::get(model, key)),
                ExpectedKind::Wrong => Expected::Value(Some(value(&1))),
            };
            let exchange = Exchange { expected, new: new.as_ref().map(value) };
            same(what, &index.exchange(key, &exchange), &model.exchange(key, &exchange))
        }
        Step::Scan { forward, other, included, limit } => {
            let edge = if *included { Bound::Included(&key[..]) } else { Bound::Excluded(&key[..]) };
            let other =
                other.map_or(Bound::Unbounded, |other| Bound::Included(&other.get(&program.keys)[..]));
            let what = || format!("{step:?} {key:02x?} and {other:02x?}");
            if *forward {
                let found = index.scan_forward(edge, other, *limit);
                same(what, &found, &model.scan_forward(edge, other, *limit))
            } else {
                let found = index.scan_backward(other, edge, *limit);
                same(what, &found, &model.scan_backward(other, edge, *limit))
            }
        }
        Step::Count => same(what, &index.count(), &model.count()),
    }
}

/// A value that depends on its step; sometimes all zeroes or all ones.
fn value(byte: u8, step: usize, value_bytes: usize) -> ByteString {
    if byte == 0 || byte == u8::MAX {
        return vec![byte; value_bytes];
    }
    let number = (step as u64).to_le_bytes();
    (0..value_bytes).map(|at| number[at % 8] ^ byte).collect()
}

/// Compares the contents of an index with those of the model.
fn contents(index: &mut impl Ordered, model: &mut BTreeMap<ByteString, ByteString>) -> Result<(), String> {
    const ALL: (Edge<'static>, Edge<'static>) = (Bound::Unbounded, Bound::Unbounded);
    same(|| "count".to_owned(), &index.count(), &model.count())?;
    let right = model.scan_forward(ALL.0, ALL.1, usize::MAX);
    same(|| "a full scan".to_owned(), &index.scan_forward(ALL.0, ALL.1, usize::MAX), &right)?;
    let right = model.scan_backward(ALL.0, ALL.1, usize::MAX);
    same(|| "a full scan backward".to_owned(), &index.scan_backward(ALL.0, ALL.1, usize::MAX), &right)?;
    for (key, value) in model.iter() {
        same(|| format!("get {key:02x?}"), &index.get(key), &Some(value.clone()))?;
    }
    Ok(())
}
