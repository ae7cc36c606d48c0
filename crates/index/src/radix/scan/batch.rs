//! Range scans in both directions: the tree is walked in the order of its keys, many nodes and leaves to a doorbell.
//!
//! A scan is not atomic: it sees each leaf at another moment. But it never misses a key that was there throughout. A
//! node is read live, and linked in the slot that led to it, as its reverse pointer says; so all keys that are below
//! the slot are below it. The same holds for a leaf and the one key. Each slot without a child says itself that it is
//! of the node's generation. What is unclear makes the scan begin again behind what it has found.
//!
//! Inner nodes are read first, and leaves when all that comes before them is known: so a leaf is handed over as it is
//! read, and nothing is kept of it.
//!
//! A scan begins at the root, or, with a cache, further down where cached copies lead ([`entrance`](super::start)):
//! at a node, or at children of a copy, each of which proves as much by itself.

use super::cursor::{Course, Edges, Wanted, behind};
use super::start::Trust;
use crate::error::IndexError;
use crate::memory::overflow::Link;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage as marks;
use crate::radix::inner::{
    Header, Inner, InnerFormat, RawInner, Size, State as NodeState, slot_of_all, step_of,
};
use crate::radix::key::{Step, check_key, step_at};
use crate::radix::leaf::{Leaf, LeafFormat, ROOM_BYTES_MAX, RawLeaf, State};
use crate::radix::prefix::PrefixHash;
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use crate::radix::tree::fetch::{front_of, fronts, proves};
use crate::radix::tree::find::{Way, damaged_slot};
use crate::radix::tree::options::Scans;
use crate::radix::tree::split::KeyBelow;
use crate::radix::tree::{Direction, Guide, Range, Tree};
use farwood_fabric::{Capability, Checked, Client, Fabric, Fetched, Object, Remote, Torn, all, read_bytes};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// Nodes and leaves that are read by one doorbell, at most.
const BATCH_MAX: usize = 64;
/// Keys that a node has ahead if a scan for many begins there: for fewer it begins above.
pub(crate) const AHEAD_MAX: usize = 4 * BATCH_MAX;
/// Tries that lead no further before what is unclear is settled.
const TRIES_PER_SETTLING: u32 = 4;

/// What a scan found, and room to find it in.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    bytes: Vec<u8>,
    /// Where each key ends, and its value.
    ends: Vec<(usize, usize)>,
}

impl Entries {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Key and value number `at`, in the order of the scan.
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let &(key_end, end) = self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1].1 };
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }

    /// Keys and values, in the order of the scan.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.len()).map(|at| self.get(at).expect("it is one of them"))
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }
}

/// An inner node on the way of a scan.
pub(crate) struct Above {
    pub(crate) at: Remote<RawInner>,
    header: Header,
    /// Of what all keys below begin with.
    prefix: PrefixHash,
    source: Source,
    /// What all keys below begin with, where some of them may not be wanted.
    edge: Option<Vec<u8>>,
}

/// What is known of an inner node.
enum Source {
    /// It was read, live and linked where it belongs.
    Read(Inner<Checked<RawChild>>),
    /// A copy of some age, of which only children count that say themselves that they are its.
    Cached(Arc<CachedNode>),
}

/// What a scan has before it, in the order of its keys.
pub(crate) enum Item {
    /// A child that is to be read.
    Child(Below),
    /// The children of a node from that slot on, which are looked at when they are wanted.
    Rest(Rc<Above>, u16),
}

impl Above {
    /// A node that was read.
    pub(crate) fn read(
        at: Remote<RawInner>,
        node: Inner<Checked<RawChild>>,
        (edge, number): (Option<Vec<u8>>, u32),
    ) -> Rc<Self> {
        let (header, prefix) = (node.header(), node.prefix(number));
        Rc::new(Self { at, header, prefix, source: Source::Read(node), edge })
    }

    /// A cached copy of a node all of whose keys begin with `edge`.
    pub(crate) fn cached(node: Arc<CachedNode>, edge: Vec<u8>, number: u32) -> Rc<Self> {
        let (at, header, prefix) = (node.at, node.header, node.prefix(number));
        Rc::new(Self { at, header, prefix, source: Source::Cached(node), edge: Some(edge) })
    }

    #[inline]
    fn slot(&self, number: usize) -> Slot {
        match &self.source {
            Source::Read(node) => node.slot(number),
            Source::Cached(node) => node.slot(number),
        }
    }

    #[inline]
    fn covers(&self, key: &[u8]) -> bool {
        key.get(..self.header.depth()).is_some_and(|prefix| PrefixHash::of(prefix) == self.prefix)
    }

    fn copy(&self) -> Arc<CachedNode> {
        match &self.source {
            Source::Read(node) => CachedNode::copy(self.at, node),
            Source::Cached(node) => Arc::clone(node),
        }
    }
}

impl Item {
    fn child(&self) -> Option<&Below> {
        match self {
            Self::Child(below) => Some(below),
            Self::Rest(..) => None,
        }
    }
}

/// A child that is to be read.
pub(crate) struct Below {
    pub(crate) above: Rc<Above>,
    pub(crate) number: u16,
    pub(crate) slot: Slot,
    /// Some keys below it may not be wanted.
    pub(crate) edge: bool,
}

/// What lies behind a slot: an inner node or a leaf.
pub(crate) enum RawChild {}

/// Which of both.
pub(crate) enum ChildFormat {
    Inner(InnerFormat),
    Leaf(LeafFormat),
}

impl Object for RawChild {
    type Format = ChildFormat;

    fn check(bytes: &[u8], format: &ChildFormat) -> Result<(), Torn> {
        match format {
            ChildFormat::Inner(format) => RawInner::check(bytes, format),
            ChildFormat::Leaf(format) => RawLeaf::check(bytes, format),
        }
    }
}

/// What is ahead of a scan below one node, and room that its batches use one after the other.
#[derive(Default)]
struct Room {
    /// What comes next, the very next last.
    items: Vec<Item>,
    /// What a batch read.
    copies: Vec<Fetched<RawChild>>,
    /// What the nodes hold, and what lies between them, the next first.
    found: Vec<Item>,
}

/// What one doorbell is about: the items that come next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    /// Leaves before all inner nodes: they are read, and handed over.
    leaves: usize,
    /// What comes behind: an inner node, and others up to the last one, with leaves between them that are not read
    /// yet.
    mixed: usize,
}

/// The front of what lies somewhere before it was read and after, where a copy proves nothing by itself.
type Fronts = Option<(u64, u64)>;

/// Where a scan could not go on: this slot of this node.
type Unclear = (Arc<CachedNode>, usize);

impl<G: Guide> Tree<G> {
    /// Up to `limit` entries of `range`, in the order of `direction`, into `entries`. [1 RT for the node at which it
    /// begins: the deepest that cached copies lead to and that has children enough, else the root; 0 where a copy of
    /// it names these without a gap, for up to 256 entries; 2 where a copy led astray, 3 where its children did. Then 1
    /// for each 64 nodes or leaves, nodes first: 1 for each level of those that are ahead, and 1 for each 64 leaves;
    /// and 1 for each value out of line. If more is wanted than lies below that node, or those children, the same
    /// again for what lies behind]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`]; the fabric's.
    pub async fn scan<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<(), IndexError> {
        entries.clear();
        range.from.map_or(Ok(()), check_key)?;
        range.to.map_or(Ok(()), check_key)?;
        let (from, to) = (range.from.map(<[u8]>::to_vec), range.to.map(<[u8]>::to_vec));
        let mut sink = |key: &[u8], value: &[u8]| entries.push(key, value);
        let course = Course { direction, from, to, left: limit, values: true, sink: &mut sink };
        self.travel(client, course).await
    }

    /// Up to `limit` entries whose keys begin with `prefix`, in the order of `direction`, into `entries`. [as
    /// [`scan`](Self::scan)]
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub async fn scan_prefix<F: Fabric>(
        &self,
        client: &Client<F>,
        prefix: &[u8],
        direction: Direction,
        limit: usize,
        entries: &mut Entries,
    ) -> Result<(), IndexError> {
        let to = behind(prefix);
        let range = Range { from: Some(prefix), to: to.as_deref() };
        self.scan(client, range, direction, limit, entries).await
    }

    /// How many keys there are. [as a [`scan`](Self::scan) over everything]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let mut count = 0;
        let mut sink = |_: &[u8], _: &[u8]| count += 1;
        let (direction, left) = (Direction::Forward, usize::MAX);
        let course = Course { direction, from: None, to: None, left, values: false, sink: &mut sink };
        self.travel(client, course).await?;
        Ok(count)
    }

    /// Visits the entries on a course.
    async fn travel<F: Fabric>(&self, client: &Client<F>, mut course: Course<'_>) -> Result<(), IndexError> {
        let mut way = Way::new(&self.notebooks, "scan", &[]);
        let (mut tries, mut left) = (0, course.left);
        while !course.is_over() {
            let trust = Trust::of(tries);
            let Some((node, number)) = self.scan_on(client, &mut course, (&way, trust)).await? else { break };
            client.fabric().mark(marks::SCAN_AGAIN);
            client.note(|costs| costs.moved += 1);
            if course.left < left {
                (tries, left) = (0, course.left);
                way = Way::new(&self.notebooks, "scan", &[]);
            }
            tries += 1;
            way.again(client).await?;
            if u32::is_multiple_of(tries, TRIES_PER_SETTLING) {
                self.settle(client, &node, number, ("scan", &[])).await?;
            }
        }
        Ok(())
    }

    /// Scans until all is found or something is unclear: the keys below one node after the other.
    async fn scan_on<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        (way, trust): (&Way<'_>, Trust),
    ) -> Result<Option<Unclear>, IndexError> {
        loop {
            let (prefix, start) = self.scan_begin(client, course, (way, trust)).await?;
            if let Some(unclear) = self.scan_below(client, course, start, way).await? {
                return Ok(Some(unclear));
            }
            if course.left == 0 || !course.leave(&prefix) {
                return Ok(None);
            }
        }
    }

    /// Visits what is below a node, until all is found or something is unclear.
    async fn scan_below<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        items: Vec<Item>,
        way: &Way<'_>,
    ) -> Result<Option<Unclear>, IndexError> {
        let mut room = Room { items, ..Room::default() };
        let ahead = course.left.min(AHEAD_MAX);
        room.items.reserve(ahead);
        room.found.reserve(ahead);
        room.copies.reserve(ahead.min(BATCH_MAX));
        while course.left > 0 {
            let items = &mut room.items;
            while let Some(Item::Rest(above, from)) = items.pop_if(|item| item.child().is_none()) {
                self.expand(&above, from, (course, course.left), &mut room.found)?;
                items.extend(room.found.drain(..).rev());
            }
            if items.is_empty() {
                break;
            }
            if let ControlFlow::Break(unclear) = self.scan_batch(client, course, &mut room, way).await? {
                return Ok(Some(unclear));
            }
        }
        Ok(None)
    }

    /// Takes an entry whose value lies out of line. One that was removed meanwhile is left out. [1 RT; more for a value
    /// of several parts, or one that was replaced]
    async fn fetch_value<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        (key, link): (&[u8], Link),
    ) -> Result<(), IndexError> {
        if let Some(value) = self.far_value(client, link).await? {
            course.found(key, &value);
        } else if let Some(value) = self.get_alone(client, key).await? {
            course.found(key, &value);
        }
        Ok(())
    }

    /// Puts the children of a node from slot `from` on behind `found`, the next one first: those that may be wanted,
    /// until they have `wanted` keys. What is behind them then stays one item. Yields how many keys they have at least.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] where a slot holds nothing known.
    fn expand(
        &self,
        above: &Rc<Above>,
        from: u16,
        (course, wanted): (&Course<'_>, usize),
        found: &mut Vec<Item>,
    ) -> Result<usize, IndexError> {
        let start = found.len();
        let size = above.header.size();
        let is_sorted = size == Size::All;
        let (mut edges, mut keys) = (Edges::of(above.edge.as_deref(), course), 0);
        let last = size.slots() as u16;
        let first = if is_sorted { edges.first_of_all(course.direction) } else { from };
        let mut numbers = match course.direction {
            Direction::Forward => from.max(first)..=last,
            Direction::Backward => 0..=from.min(first),
        };
        let mut next = || match course.direction {
            Direction::Forward => numbers.next(),
            Direction::Backward => numbers.next_back(),
        };
        while let Some(number) = next() {
            if is_sorted && keys >= wanted {
                found.push(Item::Rest(Rc::clone(above), number));
                break;
            }
            let slot = above.slot(usize::from(number));
            if !slot.is_occupied() {
                continue;
            }
            let (keys_here, step) = (self.keys_behind(slot), step_of(usize::from(number), slot));
            if keys_here == 0 || is_sorted && slot_of_all(step) != usize::from(number) {
                return Err(damaged_slot("scan", above.at, usize::from(number)));
            }
            let edge = match edges.wanted(step, course) {
                Wanted::None => continue,
                wanted => wanted == Wanted::Some,
            };
            keys += keys_here;
            found.push(Item::Child(Below { above: Rc::clone(above), number, slot, edge }));
        }
        if !is_sorted {
            found[start..].sort_unstable_by_key(|item| item.child().map(Below::step));
            if course.direction == Direction::Backward {
                found[start..].reverse();
            }
        }
        Ok(keys)
    }

    /// Of what comes next, as much as has `wanted` keys, and no more to read than one doorbell takes.
    fn span(&self, items: &[Item], wanted: usize) -> Span {
        let (mut span, mut behind, mut keys, mut reads) = (Span::default(), 0, 0, 0);
        for item in items.iter().rev() {
            let Item::Child(below) = item else { break };
            if keys >= wanted || reads == BATCH_MAX {
                break;
            }
            keys += self.keys_behind(below.slot);
            match (below.is_leaf(), behind) {
                (true, 0) => (span.leaves, reads) = (span.leaves + 1, reads + 1),
                (true, _) => behind += 1,
                (false, _) => {
                    (behind, reads) = (behind + 1, reads + 1);
                    span.mixed = behind;
                }
            }
        }
        span
    }

    /// Reads what comes next, as much as one doorbell takes: leaves up to the first inner node, and inner nodes; puts
    /// what these hold in their places. [1 RT, 2 more where the fabric proves nothing of its size, and more where bytes
    /// are skipped at an edge of the range]
    async fn scan_batch<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &mut Course<'_>,
        Room { items, copies, found }: &mut Room,
        way: &Way<'_>,
    ) -> Result<ControlFlow<Unclear>, IndexError> {
        let span = match self.options.scans {
            Scans::Batched => self.span(items, course.left),
            Scans::OneByOne => self.span(&items[items.len() - 1..], course.left),
        };
        let (leaves, mixed) = (items.len() - span.leaves, items.len() - span.leaves - span.mixed);
        let nodes =
            items[mixed..leaves].iter().rev().filter_map(Item::child).filter(|below| !below.is_leaf());
        let batch = || items[leaves..].iter().rev().filter_map(Item::child).chain(nodes.clone());
        let reads = batch().map(|below| {
            let (at, bytes) = below.place();
            read_bytes::<RawChild>(at, bytes)
        });
        let proven = is_proven(client, batch());
        let before = if proven { Vec::new() } else { fronts_of(client, batch()).await? };
        copies.extend(client.post(all(reads)).await?);
        let after = if proven { Vec::new() } else { fronts_of(client, batch()).await? };
        let fronts = |place: usize| before.get(place).copied().zip(after.get(place).copied());
        let mut copies = copies.drain(..).enumerate();
        for below in items.drain(leaves..).rev() {
            let Item::Child(below) = below else { unreachable!("only children are read") };
            let (place, copy) = copies.next().expect("each leaf was read");
            let Some(leaf) = self.take_leaf(&below, copy, fronts(place)) else {
                return Ok(ControlFlow::Break(below.unclear()));
            };
            if let Some(link) = course.take(&leaf, below.edge) {
                self.fetch_value(client, course, (leaf.key(), link)).await?;
            }
        }
        let mut wanted = course.left;
        while items.len() > mixed
            && let Some(item) = items.pop()
        {
            let Some((at, size)) = item.child().and_then(Below::node) else {
                found.push(item);
                wanted = wanted.saturating_sub(1);
                continue;
            };
            let Item::Child(below) = item else { unreachable!("a node is a child") };
            let (place, copy) = copies.next().expect("each node was read");
            let (node, read) = ((&below, at, size), (copy, fronts(place)));
            match self.take_node(client, node, read, (course, wanted), (found, way)).await? {
                ControlFlow::Continue(keys) => wanted = wanted.saturating_sub(keys),
                ControlFlow::Break(unclear) if found.is_empty() => return Ok(ControlFlow::Break(unclear)),
                // What comes before it goes on; it is read again when it is next.
                ControlFlow::Break(_) => {
                    found.push(Item::Child(below));
                    break;
                }
            }
        }
        items.extend(found.drain(..).rev());
        Ok(ControlFlow::Continue(()))
    }

    /// Puts what the copy of an inner node holds behind `found`, in the order of the scan: as much as has `wanted`
    /// keys. Yields how many keys that has at least, or what is unclear.
    async fn take_node<F: Fabric>(
        &self,
        client: &Client<F>,
        (below, at, size): (&Below, Remote<RawInner>, Size),
        (copy, fronts): (Fetched<RawChild>, Fronts),
        (course, wanted): (&Course<'_>, usize),
        (found, way): (&mut Vec<Item>, &Way<'_>),
    ) -> Result<ControlFlow<Unclear, usize>, IndexError> {
        let (parent, slot) = (&below.above, below.slot);
        let Ok(copy) = copy.check(&ChildFormat::Inner(InnerFormat { number: self.number })) else {
            return Ok(ControlFlow::Break(below.unclear()));
        };
        let whole = is_of_one(&copy, fronts);
        let node = Inner::new(copy);
        let header = node.header();
        let reverse = Reverse::of_inner(parent.at, parent.header.generation(), slot.partial());
        let right = below.step() != Step::End
            && header.state() == Some(NodeState::Live)
            && header.size() == size
            && header.depth() > parent.header.depth()
            && node.reverse() == reverse
            && below.is_of_path(&node, self.number);
        if !whole || !right {
            return Ok(ControlFlow::Break(below.unclear()));
        }
        let is_entered = below.edge && course.next().is_some_and(|next| node.covers(next, self.number));
        if is_entered {
            // The next scan from there begins here.
            self.cache.put(at, &node);
        }
        let mut edge = below.path();
        if let Some(known) = edge.take_if(|known| known.len() < header.depth()) {
            let key = match self.key_below(client, &CachedNode::copy(at, &node), way.operation).await? {
                KeyBelow::Key(key) => key,
                // Nothing is missed.
                KeyBelow::None => return Ok(ControlFlow::Continue(0)),
                KeyBelow::Unclear(node, number) => return Ok(ControlFlow::Break((node, number))),
            };
            debug_assert!(key.starts_with(&known), "it is below its parent");
            let prefix = &key[..header.depth()];
            edge = match course.wants(prefix) {
                Wanted::None => return Ok(ControlFlow::Continue(0)),
                Wanted::Some => Some(prefix.to_vec()),
                Wanted::All => None,
            };
        }
        let above = Above::read(at, node, (edge, self.number));
        let keys = self.expand(&above, course.first_slot(size), (course, wanted), found)?;
        Ok(ControlFlow::Continue(keys))
    }

    /// The leaf in a copy, if it is linked where its slot was seen, and belongs there.
    #[inline]
    fn take_leaf(
        &self,
        below: &Below,
        copy: Fetched<RawChild>,
        fronts: Fronts,
    ) -> Option<Leaf<Checked<RawChild>>> {
        let leaf = Leaf::new(copy.check(&ChildFormat::Leaf(LeafFormat { number: self.number })).ok()?);
        let parent = &below.above;
        let right = is_of_one(leaf.bytes(), fronts)
            && leaf.state() == State::Live
            && leaf.reverse() == Reverse::of_leaf(parent.at, parent.header.generation())
            && parent.covers(leaf.key())
            && step_at(leaf.key(), parent.header.depth()) == below.step();
        right.then_some(leaf)
    }
}

/// Whether copies of the children of a batch prove themselves to be of one object each.
fn is_proven<'b, F: Fabric>(client: &Client<F>, mut batch: impl Iterator<Item = &'b Below>) -> bool {
    let promised = client.fabric().capabilities();
    let all = Size::All.bytes().max(ROOM_BYTES_MAX);
    promised.has(Capability::VersionPair(all))
        || batch.all(|below| {
            let (at, bytes) = below.place();
            proves(promised, at, bytes)
        })
}

/// The fronts of the children of a batch. [1 RT]
async fn fronts_of<'b, F: Fabric>(
    client: &Client<F>,
    batch: impl Iterator<Item = &'b Below>,
) -> Result<Vec<u64>, IndexError> {
    fronts(client, batch.map(|below| below.place().0)).await
}

/// Whether a copy is of the object whose front was read before and after, where that was needed.
fn is_of_one(copy: &[u8], fronts: Fronts) -> bool {
    fronts.is_none_or(|fronts| fronts == (front_of(copy), front_of(copy)))
}

impl Below {
    /// Where the scan cannot go on if it is unclear.
    fn unclear(&self) -> Unclear {
        (self.above.copy(), usize::from(self.number))
    }

    /// How its keys go on from its node.
    fn step(&self) -> Step {
        step_of(usize::from(self.number), self.slot)
    }

    fn is_leaf(&self) -> bool {
        self.node().is_none()
    }

    /// Where the inner node lies that it is, if it is one.
    fn node(&self) -> Option<(Remote<RawInner>, Size)> {
        match self.slot.child() {
            Child::Inner(at, size) => Some((at, size)),
            _ => None,
        }
    }

    /// Where it lies, and how long it is.
    fn place(&self) -> (Remote<RawChild>, usize) {
        match self.slot.child() {
            Child::Inner(at, size) => (at.part(0), size.bytes()),
            Child::Leaf(at, class) => (at.part(0), class.bytes()),
            _ => unreachable!("only slots with a child are followed"),
        }
    }

    /// What all keys below it begin with, as far as its node tells, where some of them may not be wanted.
    fn path(&self) -> Option<Vec<u8>> {
        let mut path = self.above.edge.clone().filter(|_| self.edge)?;
        if let Step::Byte(byte) = self.step() {
            path.push(byte);
        }
        Some(path)
    }

    /// Whether an inner node that names its parent in its reverse pointer is its child for sure. A parent that was
    /// just read is the one of its generation. Of a copy of any age a reverse pointer does not tell generations enough
    /// apart; so the child's prefix must be the one that belongs there, with no bytes more.
    fn is_of_path(&self, node: &Inner<Checked<RawChild>>, number: u32) -> bool {
        let Above { header, prefix, source, .. } = &*self.above;
        match (source, self.step()) {
            (Source::Read(_), _) => true,
            (Source::Cached(_), Step::End) => false,
            (Source::Cached(_), Step::Byte(byte)) => {
                node.header().depth() == header.depth() + 1 && node.prefix(number) == prefix.then(byte)
            }
        }
    }
}
