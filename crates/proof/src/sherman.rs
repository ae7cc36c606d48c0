//! Sherman as the testkit's checks see it: single operations with their answers, random wishes, and the blocking
//! [`Ordered`] index of the model tests.

use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::sherman::layout::Values;
use farwood_index::sherman::{self, Config, Entries, Range, Sherman, Variant};
use farwood_testkit::Harness;
use farwood_testkit::harness::Chance;
use farwood_testkit::history::{Action, Answer, Bytes, Direction};
use farwood_testkit::model::{Edge, Ordered};
use std::ops::Bound;

/// What a client wants to do next.
#[derive(Clone, Debug)]
pub enum Wish {
    /// Something with one key.
    One(Bytes, Action),
    /// A scan.
    Scan(Span),
    /// A scan of one moment.
    Snapshot(Span),
    /// To know how many keys there are.
    Count,
    /// To give back the memory that the compute node does not use.
    Leave,
}

/// The range, direction and limit of a scan.
#[derive(Clone, Debug)]
pub struct Span {
    /// Which way.
    pub direction: Direction,
    /// The first key.
    pub from: Option<Bytes>,
    /// The key behind the last.
    pub to: Option<Bytes>,
    /// Most entries.
    pub limit: usize,
}

impl Span {
    fn range(&self) -> Range<'_> {
        Range { from: self.from.as_deref(), to: self.to.as_deref() }
    }

    fn tree_direction(&self) -> sherman::Direction {
        match self.direction {
            Direction::Forward => sherman::Direction::Forward,
            Direction::Backward => sherman::Direction::Backward,
        }
    }

    /// Everything.
    pub const fn all(direction: Direction) -> Self {
        Self { direction, from: None, to: None, limit: usize::MAX }
    }
}

/// How much of each kind of operation is wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Gets of one hundred operations.
    pub gets: u64,
    /// Scans and counts.
    pub scans: u64,
    /// Removals; the rest are puts, inserts and updates, 2 : 2 : 1.
    pub removals: u64,
}

/// A third looks, the rest changes.
pub const MIXED: Mix = Mix { gets: 24, scans: 10, removals: 18 };

/// Almost nothing is removed: the tree grows.
pub const GROWING: Mix = Mix { gets: 12, scans: 6, removals: 2 };

/// As much is removed as is inserted: leaves are merged.
pub const CHURNING: Mix = Mix { gets: 14, scans: 6, removals: 44 };

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All as long, bytes.
    One(usize),
    /// Each of a length of its own.
    Any,
}

impl Lengths {
    /// Those that a tree takes.
    pub fn of(config: &Config) -> Self {
        match config.values {
            Values::Fixed => Self::One(config.sizes.value_bytes),
            Values::AnyLength => Self::Any,
        }
    }
}

/// One client's wishes. Each value is written once: it names its writer.
#[derive(Debug)]
pub struct Wishes<'k> {
    keys: &'k [Bytes],
    lengths: Lengths,
    snapshots: bool,
    mix: Mix,
    client: u64,
    step: u64,
    chance: Chance,
}

impl<'k> Wishes<'k> {
    /// The wishes of client number `client`.
    pub fn new(keys: &'k [Bytes], lengths: Lengths, mix: Mix, client: u64, seed: u64) -> Self {
        let chance = Chance::new(seed ^ client.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Self { keys, lengths, snapshots: false, mix, client, step: 0, chance }
    }

    /// Every scan with a limit is to be of one moment.
    pub fn ask_for_snapshots(&mut self) {
        self.snapshots = true;
    }

    /// A draw of the client's own.
    pub fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    fn key(&mut self) -> Bytes {
        // Every other draw is of a few neighbours: they meet in one leaf.
        let all = self.keys.len() as u64;
        let limit = if self.chance.once_in(2) { all } else { all.min(4) };
        self.keys[self.chance.below(limit) as usize].clone()
    }

    fn value(&mut self) -> Bytes {
        self.step += 1;
        let word = (self.client << 40 | self.step).to_le_bytes();
        let length = match self.lengths {
            Lengths::One(bytes) => bytes,
            Lengths::Any => self.any_length(),
        };
        word.iter().copied().cycle().take(length).collect()
    }

    /// Short ones that lie in their entries, long ones that share the sizes of their rooms, and some of all lengths.
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

impl Iterator for Wishes<'_> {
    type Item = Wish;

    fn next(&mut self) -> Option<Wish> {
        let Mix { gets, scans, removals } = self.mix;
        let (key, kind) = (self.key(), self.chance.below(100));
        let action = match kind {
            kind if kind < gets => Action::Get,
            kind if kind < gets + scans => return Some(self.look(key)),
            kind if kind < gets + scans + removals => Action::Remove,
            _ => match self.chance.below(5) {
                0 | 1 => Action::Put(self.value()),
                2 | 3 => Action::Insert(self.value()),
                _ => Action::Update(self.value()),
            },
        };
        Some(Wish::One(key, action))
    }
}

impl Wishes<'_> {
    fn look(&mut self, key: Bytes) -> Wish {
        if self.chance.once_in(5) {
            return if self.chance.once_in(3) { Wish::Leave } else { Wish::Count };
        }
        let other = self.key();
        let from = (!self.chance.once_in(3)).then(|| key.clone().min(other.clone()));
        let to = (!self.chance.once_in(3)).then(|| key.max(other));
        let direction = if self.chance.once_in(2) { Direction::Forward } else { Direction::Backward };
        let limit = if self.chance.once_in(2) { usize::MAX } else { self.chance.below(12) as usize };
        let span = Span { direction, from, to, limit };
        if self.snapshots && limit < usize::MAX { Wish::Snapshot(span) } else { Wish::Scan(span) }
    }
}

/// Performs one operation.
///
/// # Errors
/// The index's.
pub async fn perform<F: Fabric>(
    tree: &Sherman,
    client: &Client<F>,
    key: &[u8],
    action: &Action,
) -> Result<Answer, IndexError> {
    Ok(match action {
        Action::Put(value) => Answer::Stored { existed: tree.put(client, key, value).await? },
        Action::Insert(value) => Answer::Done(tree.insert(client, key, value).await?),
        Action::Update(value) => Answer::Done(tree.update(client, key, value).await?),
        Action::Remove => Answer::Done(tree.remove(client, key).await?),
        Action::Get => Answer::Found(tree.get(client, key).await?.map(|value| value.to_vec())),
    })
}

/// Scans a span.
///
/// # Errors
/// The index's.
pub async fn scan<F: Fabric>(
    tree: &Sherman,
    client: &Client<F>,
    span: &Span,
) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
    let mut entries = Entries::new();
    tree.scan(client, span.range(), span.tree_direction(), span.limit, &mut entries).await?;
    Ok(entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

/// Scans a span at one moment, where the tree can.
///
/// # Errors
/// The index's.
pub async fn snapshot<F: Fabric>(
    tree: &Sherman,
    client: &Client<F>,
    span: &Span,
) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
    let mut entries = Entries::new();
    let range = span.range();
    match tree.scan_snapshot(client, range, span.tree_direction(), span.limit, &mut entries).await {
        Ok(()) => Ok(entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()),
        Err(IndexError::NoSnapshot(_)) => scan(tree, client, span).await,
        Err(error) => Err(error),
    }
}

/// The bounds of a span as the history has them.
pub fn bounds(span: &Span) -> (Bound<Bytes>, Bound<Bytes>) {
    let from = span.from.clone().map_or(Bound::Unbounded, Bound::Included);
    (from, span.to.clone().map_or(Bound::Unbounded, Bound::Excluded))
}

/// The paper's variant number `number`, all in turn. What goes beyond the paper combines with each of them, and has
/// seeds of its own: those that failed once stay what they were.
pub fn variant(number: u64) -> Variant {
    const PAPERS: u64 = Variant::Sherman as u64 + 1;
    Variant::ALL[(number % PAPERS) as usize].0
}

/// A tree and a client of it: an index for the model tests.
pub struct Driven<'h, H: Harness> {
    /// What runs the client.
    pub harness: &'h H,
    /// The tree.
    pub tree: Sherman,
    /// The client.
    pub client: Client<H::Fabric>,
}

impl<H: Harness> Driven<'_, H> {
    fn done(&mut self, key: &[u8], action: &Action) -> bool {
        let done = perform(&self.tree, &self.client, key, action);
        self.harness.block_on(done).expect("it succeeds") == Answer::Done(true)
    }

    fn span(
        &mut self,
        direction: Direction,
        from: Edge<'_>,
        to: Edge<'_>,
        limit: usize,
    ) -> Vec<(Bytes, Bytes)> {
        // The bounds of the tree's ranges: the first key, and the key behind the last. Nothing lies behind the
        // greatest key, and everything before the key behind it.
        let Ok(from) = next_of(from, Bound::Included(())) else { return Vec::new() };
        let to = next_of(to, Bound::Excluded(())).unwrap_or(None);
        self.scan(&Span { direction, from, to, limit })
    }

    fn scan(&mut self, span: &Span) -> Vec<(Bytes, Bytes)> {
        self.harness.block_on(scan(&self.tree, &self.client, span)).expect("it succeeds")
    }
}

/// A bound as one of the kind `wanted`: the same key, or the one after it. `Err`: there is none after it.
fn next_of(bound: Edge<'_>, wanted: Bound<()>) -> Result<Option<Bytes>, ()> {
    let (key, same) = match bound {
        Bound::Unbounded => return Ok(None),
        Bound::Included(key) => (key, matches!(wanted, Bound::Included(()))),
        Bound::Excluded(key) => (key, matches!(wanted, Bound::Excluded(()))),
    };
    let mut key = key.to_vec();
    if !same {
        let at = key.iter().rposition(|byte| *byte != u8::MAX).ok_or(())?;
        key[at] += 1;
        key[at + 1..].fill(0);
    }
    Ok(Some(key))
}

impl<H: Harness> Ordered for Driven<'_, H> {
    fn get(&mut self, key: &[u8]) -> Option<Bytes> {
        let found = self.harness.block_on(self.tree.get(&self.client, key)).expect("it succeeds");
        found.map(|value| value.to_vec())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.harness.block_on(self.tree.put(&self.client, key, value)).expect("it succeeds");
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.done(key, &Action::Insert(value.to_vec()))
    }

    fn update(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.done(key, &Action::Update(value.to_vec()))
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.done(key, &Action::Remove)
    }

    fn scan_forward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(Bytes, Bytes)> {
        self.span(Direction::Forward, from, to, limit)
    }

    fn scan_backward(&mut self, from: Edge<'_>, to: Edge<'_>, limit: usize) -> Vec<(Bytes, Bytes)> {
        self.span(Direction::Backward, from, to, limit)
    }

    fn count(&mut self) -> u64 {
        self.harness.block_on(self.tree.count(&self.client)).expect("it succeeds")
    }
}
