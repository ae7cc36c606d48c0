//! Random requests to ordered indexes, and their execution by a client.

use crate::tree::Tree;
use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::sherman::layout::Values;
use farwood_index::sherman::{self, Range, ShermanConfig, ShermanVariant};
use farwood_testkit::harness::TestRng;
use farwood_testkit::history::{Action, Answer, ByteString, Direction, Exchange, Expected};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A request of a client to its index.
#[derive(Clone, Debug)]
pub enum TreeRequest {
    /// An operation on one key.
    Operation(ByteString, Action),
    /// A scan.
    Scan(ScanSpan),
    /// A scan of a snapshot.
    Snapshot(ScanSpan),
    /// The number of keys.
    Count,
    /// Returns the memory that the compute node does not use.
    Leave,
}

/// The range, direction and limit of a scan.
#[derive(Clone, Debug)]
pub struct ScanSpan {
    /// The direction.
    pub direction: Direction,
    /// The first key.
    pub from: Option<ByteString>,
    /// The first key after the span.
    pub to: Option<ByteString>,
    /// Maximum number of entries.
    pub limit: usize,
}

impl ScanSpan {
    /// The range, with the types of the trees.
    pub(crate) fn range(&self) -> Range<'_> {
        Range { from: self.from.as_deref(), to: self.to.as_deref() }
    }

    /// The direction, with the types of the trees.
    pub(crate) fn tree_direction(&self) -> sherman::Direction {
        match self.direction {
            Direction::Forward => sherman::Direction::Forward,
            Direction::Backward => sherman::Direction::Backward,
        }
    }

    /// The span of all keys.
    pub const fn all(direction: Direction) -> Self {
        Self { direction, from: None, to: None, limit: usize::MAX }
    }
}

/// The shares of the kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Gets among one hundred requests.
    pub gets: u64,
    /// Scans and counts.
    pub scans: u64,
    /// Removals.
    pub removals: u64,
    /// Exchanges; the rest are puts, inserts and updates, 2 : 2 : 1.
    pub exchanges: u64,
}

/// A third of the requests read, the rest change the tree.
pub const MIXED: Mix = Mix { gets: 24, scans: 10, removals: 18, exchanges: 0 };

/// Few removals: the tree grows.
pub const GROWING: Mix = Mix { gets: 12, scans: 6, removals: 2, exchanges: 0 };

/// A mix with as many removals as insertions, so that leaves are merged.
pub const CHURNING: Mix = Mix { gets: 14, scans: 6, removals: 44, exchanges: 0 };

/// Most requests are exchanges.
pub const EXCHANGING: Mix = Mix { gets: 14, scans: 6, removals: 4, exchanges: 56 };

/// The lengths of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLengths {
    /// One length for all, bytes.
    One(usize),
    /// Multiples of a unit.
    UpTo {
        /// Bytes of the unit.
        bytes: usize,
        /// Maximum length of a value, as a multiple of the inline length.
        times: u64,
    },
    /// Any length.
    Any,
}

impl ValueLengths {
    /// The lengths that a tree accepts.
    pub fn of(config: &ShermanConfig) -> Self {
        match config.values {
            Values::Fixed => Self::One(config.sizes.value_bytes),
            Values::AnyLength => Self::Any,
        }
    }
}

/// The requests of one client. Each value is written once, and names its writer.
#[derive(Debug)]
pub struct Workload<'k> {
    keys: &'k [ByteString],
    lengths: ValueLengths,
    snapshots: bool,
    mix: Mix,
    client: u64,
    step: u64,
    /// The new value in the last exchange of each key, stored or not; `None`: that exchange requested a removal.
    requested: BTreeMap<ByteString, Option<ByteString>>,
    chance: TestRng,
}

impl<'k> Workload<'k> {
    /// The requests of client number `client`.
    pub fn new(keys: &'k [ByteString], lengths: ValueLengths, mix: Mix, client: u64, seed: u64) -> Self {
        let chance = TestRng::new(seed ^ client.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Self { keys, lengths, snapshots: false, mix, client, step: 0, requested: BTreeMap::new(), chance }
    }

    /// Turns every scan with a limit into a scan of a snapshot.
    pub fn use_snapshots(&mut self) {
        self.snapshots = true;
    }

    /// The client's random numbers.
    pub fn random(&mut self) -> &mut TestRng {
        &mut self.chance
    }

    fn key(&mut self) -> ByteString {
        // Every other draw is one of a few neighbours, which lie in one leaf.
        let all = self.keys.len() as u64;
        let limit = if self.chance.once_in(2) { all } else { all.min(4) };
        self.keys[self.chance.below(limit) as usize].clone()
    }

    fn value(&mut self) -> ByteString {
        self.step += 1;
        let word = (self.client << 40 | self.step).to_le_bytes();
        let length = match self.lengths {
            ValueLengths::One(bytes) => bytes,
            ValueLengths::UpTo { bytes, times } => bytes * (1 + self.chance.below(times)) as usize,
            ValueLengths::Any => self.any_length(),
        };
        word.iter().copied().cycle().take(length).collect()
    }

    /// Short values that lie in their entries, long ones that share the sizes of their objects, and some of any
    /// length.
    fn any_length(&mut self) -> usize {
        match self.chance.below(8) {
            0 | 1 => self.chance.below(13) as usize,
            2 | 3 => 13 + self.chance.below(20) as usize,
            4 | 5 => 90 + self.chance.below(8) as usize,
            6 => self.chance.below(700) as usize,
            _ => self.chance.below(9_000) as usize,
        }
    }
}

impl Iterator for Workload<'_> {
    type Item = TreeRequest;

    fn next(&mut self) -> Option<TreeRequest> {
        let Mix { gets, scans, removals, exchanges } = self.mix;
        let (key, kind) = (self.key(), self.chance.below(100));
        let action = match kind {
            kind if kind < gets => Action::Get,
            kind if kind < gets + scans => return Some(self.read_many(key)),
            kind if kind < gets + scans + removals => Action::Remove,
            kind if kind < gets + scans + removals + exchanges => Action::Exchange(self.exchange(&key)),
            _ => match self.chance.below(5) {
                0 | 1 => Action::Put(self.value()),
                2 | 3 => Action::Insert(self.value()),
                _ => Action::Update(self.value()),
            },
        };
        Some(TreeRequest::Operation(key, action))
    }
}

impl Workload<'_> {
    /// An exchange of any value, or of the one that this client requested in its last exchange of the key.
    fn exchange(&mut self, key: &[u8]) -> Exchange {
        let expected = if self.chance.once_in(3) {
            Expected::Any
        } else {
            Expected::Value(self.requested.get(key).cloned().flatten())
        };
        let new = (!self.chance.once_in(4)).then(|| self.value());
        self.requested.insert(key.to_vec(), new.clone());
        Exchange { expected, new }
    }

    /// A scan or a count, and sometimes a `Leave`.
    fn read_many(&mut self, key: ByteString) -> TreeRequest {
        if self.chance.once_in(5) {
            return if self.chance.once_in(3) { TreeRequest::Leave } else { TreeRequest::Count };
        }
        let other = self.key();
        let from = (!self.chance.once_in(3)).then(|| key.clone().min(other.clone()));
        let to = (!self.chance.once_in(3)).then(|| key.max(other));
        let direction = if self.chance.once_in(2) { Direction::Forward } else { Direction::Backward };
        let limit = if self.chance.once_in(2) { usize::MAX } else { self.chance.below(12) as usize };
        let span = ScanSpan { direction, from, to, limit };
        if self.snapshots && limit < usize::MAX {
            TreeRequest::Snapshot(span)
        } else {
            TreeRequest::Scan(span)
        }
    }
}

/// Performs one operation.
///
/// # Errors
/// The errors of the index.
pub async fn perform<F: Fabric>(
    tree: &impl Tree,
    client: &Client<F>,
    key: &[u8],
    action: &Action,
) -> Result<Answer, IndexError> {
    tree.perform(client, key, action).await
}

/// Scans a span.
///
/// # Errors
/// The errors of the index.
pub async fn scan<F: Fabric>(
    tree: &impl Tree,
    client: &Client<F>,
    span: &ScanSpan,
) -> Result<Vec<(ByteString, ByteString)>, IndexError> {
    tree.scan_span(client, span).await
}

/// The bounds of a span, with the types of the history.
pub fn bounds(span: &ScanSpan) -> (Bound<ByteString>, Bound<ByteString>) {
    let from = span.from.clone().map_or(Bound::Unbounded, Bound::Included);
    (from, span.to.clone().map_or(Bound::Unbounded, Bound::Excluded))
}

/// The paper's variant number `number`, all in turn. Options beyond the paper are drawn separately, so that the seeds
/// of the paper's variants stay the same.
pub fn variant(number: u64) -> ShermanVariant {
    const PAPERS: u64 = ShermanVariant::Sherman as u64 + 1;
    ShermanVariant::ALL[(number % PAPERS) as usize].0
}
