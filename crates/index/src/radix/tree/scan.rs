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
//! A scan begins at the root, or, with a cache, at a node further down to which cached copies lead, read live as all
//! others are (`docs/decisions/0038-where-a-scan-begins.md`).

use super::course::{Course, Edges, Wanted, behind};
use super::descend::Way;
use super::fetch::{front_of, fronts, proves};
use super::options::{Rooms, Scans};
use super::split::KeyBelow;
use super::{Direction, Guide, Range, Tree, marks};
use crate::error::IndexError;
use crate::extent::Link;
use crate::radix::cached::CachedNode;
use crate::radix::inner::{Found, Inner, InnerFormat, RawInner, Size, State as NodeState};
use crate::radix::key::{Step, check_key, step_at};
use crate::radix::leaf::{Leaf, LeafFormat, RawLeaf, State};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use farwood_fabric::{Checked, Client, Fabric, Fetched, Object, Remote, Torn, all, read_bytes};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// Nodes and leaves that are read by one doorbell, at most.
const BATCH_MAX: usize = 64;
/// Keys that a node has ahead if a scan for many begins there: for fewer it begins above.
const AHEAD_MAX: usize = 4 * BATCH_MAX;
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
struct Above {
    node: Arc<CachedNode>,
    /// What all keys below begin with, where some of them may not be wanted.
    edge: Option<Vec<u8>>,
}

/// What a scan has before it, in the order of its keys.
enum Item {
    /// A child that is to be read.
    Child(Below),
    /// The children of a node from that slot on, which are looked at when they are wanted.
    Rest(Rc<Above>, u16),
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
struct Below {
    above: Rc<Above>,
    number: u16,
    step: Step,
    slot: Slot,
    /// Some keys below it may not be wanted.
    edge: bool,
}

/// What lies behind a slot: an inner node or a leaf.
enum RawChild {}

/// Which of both.
enum ChildFormat {
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
    /// What inner nodes that were read are among, the next first.
    ahead: Vec<Item>,
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
    /// Up to `limit` entries of `range`, in the order of `direction`, into `entries`.
    /// [1 RT for the node at which it begins: the deepest that cached copies lead to and that has children enough, else
    /// the root; 2 where a copy led astray. Then 1 for each 64 nodes or leaves, nodes first: 1 for each level of those
    /// that are ahead, and 1 for each 64 leaves; and 1 for each value out of line. If more is wanted than lies below
    /// that node, the same again for what lies behind]
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
        while course.left > 0 {
            let Some((node, number)) = self.scan_on(client, &mut course, &way).await? else { break };
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
        way: &Way<'_>,
    ) -> Result<Option<Unclear>, IndexError> {
        loop {
            let (prefix, start) = self.scan_begin(client, course, way).await?;
            if let Some(unclear) = self.scan_below(client, course, start, way).await? {
                return Ok(Some(unclear));
            }
            if course.left == 0 || !course.leave(&prefix) {
                return Ok(None);
            }
        }
    }

    /// Reads the node below which a scan goes on: one that cached copies lead to, if it says that it is linked where
    /// they say; else the root. Yields what keys below it begin with, and its children. [1 RT; 2 where a cached copy
    /// led astray]
    async fn scan_begin<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &Course<'_>,
        way: &Way<'_>,
    ) -> Result<(Vec<u8>, Vec<Item>), IndexError> {
        let mut items = Vec::new();
        if let Some((node, right)) = self.scan_entrance(course, client.fabric().thread()) {
            let copy = self.read_inner(client, node.at, node.header.size(), way.operation).await?;
            if copy.header() == node.header && copy.reverse() == right {
                let key = course.next().unwrap_or_default();
                let prefix = key[..node.header.depth()].to_vec();
                let above = Above { node: CachedNode::copy(node.at, &copy), edge: Some(prefix.clone()) };
                items.push(Item::Rest(Rc::new(above), course.first_slot(copy.header().size())));
                return Ok((prefix, items));
            }
            client.fabric().mark(marks::FORGOTTEN);
            self.cache.remove(node.at);
        }
        let root = self.read_inner(client, self.root, Size::All, way.operation).await?;
        self.cache.put(self.root, &root);
        let above = Above { node: CachedNode::copy(self.root, &root), edge: Some(Vec::new()) };
        items.push(Item::Rest(Rc::new(above), course.first_slot(Size::All)));
        Ok((Vec::new(), items))
    }

    /// Keys that are behind a slot, at least, if nodes are no larger than what they hold: from this, how much of a tree
    /// is to be read at once.
    fn keys_behind(&self, slot: Slot) -> usize {
        match slot.child() {
            Child::Inner(_, size) if self.options.rooms == Rooms::Fitting => size.keys_min(),
            Child::Inner(..) => Size::Four.keys_min(),
            _ => 1,
        }
    }

    /// The deepest cached node that the next key may be below and that has keys enough from there on, with what its
    /// reverse pointer is, if it is still linked; `None`: the root will do. [0 RT]
    fn scan_entrance(&self, course: &Course<'_>, thread: usize) -> Option<(Arc<CachedNode>, Reverse)> {
        let key = course.next()?;
        let wanted = course.left.min(AHEAD_MAX);
        let (mut node, mut found) = (self.cache.get(self.root, thread, 0)?, None);
        while let Found::Slot(_, slot) = node.find(key)
            && let Child::Inner(at, _) = slot.child()
            && let Some(child) = self.cache.get(at, thread, 0)
        {
            let depth = child.header.depth();
            let above = match course.direction {
                Direction::Forward => depth <= key.len(),
                Direction::Backward => depth < key.len(),
            };
            if depth <= node.header.depth() || !above || !child.covers(key, self.number) {
                break;
            }
            let step = step_at(key, depth);
            let ahead = child.children().filter(|(other, _)| match course.direction {
                Direction::Forward => *other >= step,
                Direction::Backward => *other <= step,
            });
            if ahead.map(|(_, slot)| self.keys_behind(slot)).sum::<usize>() >= wanted {
                let right = Reverse::of_inner(node.at, node.header.generation(), slot.partial());
                found = Some((Arc::clone(&child), right));
            }
            node = child;
        }
        found
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
        while course.left > 0 {
            let items = &mut room.items;
            while let Some(Item::Rest(above, from)) = items.pop_if(|item| item.child().is_none()) {
                self.expand(&above, from, (course, course.left), &mut room.found);
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
    fn expand(
        &self,
        above: &Rc<Above>,
        from: u16,
        (course, wanted): (&Course<'_>, usize),
        found: &mut Vec<Item>,
    ) -> usize {
        let (node, start) = (&above.node, found.len());
        let is_sorted = node.header.size() == Size::All;
        let (mut edges, mut keys) = (Edges::of(above.edge.as_deref(), course), 0);
        let last = node.header.size().slots() as u16;
        let mut numbers = match course.direction {
            Direction::Forward => from..=last,
            Direction::Backward => 0..=from,
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
            let slot = node.slot(usize::from(number));
            if !slot.is_occupied() {
                continue;
            }
            let step = if number == 0 { Step::End } else { Step::Byte(slot.partial()) };
            let edge = match edges.wanted(step, course) {
                Wanted::None => continue,
                wanted => wanted == Wanted::Some,
            };
            keys += self.keys_behind(slot);
            found.push(Item::Child(Below { above: Rc::clone(above), number, step, slot, edge }));
        }
        if !is_sorted {
            found[start..].sort_unstable_by_key(|item| item.child().map(|below| below.step));
            if course.direction == Direction::Backward {
                found[start..].reverse();
            }
        }
        keys
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
        Room { items, ahead, copies, found }: &mut Room,
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
            if let Some(link) = course.take(&leaf) {
                self.fetch_value(client, course, (leaf.key(), link)).await?;
            }
        }
        // The next one first.
        ahead.extend(items.drain(mixed..).rev());
        let (mut wanted, mut ahead) = (course.left, ahead.drain(..));
        for item in ahead.by_ref() {
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
        found.extend(ahead);
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
        let (parent, slot) = (&below.above.node, below.slot);
        let Ok(copy) = copy.check(&ChildFormat::Inner(InnerFormat { number: self.number })) else {
            return Ok(ControlFlow::Break(below.unclear()));
        };
        let whole = is_of_one(&copy, fronts);
        let node = Inner::new(copy);
        let header = node.header();
        let reverse = Reverse::of_inner(parent.at, parent.header.generation(), slot.partial());
        let right = below.step != Step::End
            && header.state() == Some(NodeState::Live)
            && header.size() == size
            && header.depth() > parent.header.depth()
            && node.reverse() == reverse;
        if !whole || !right {
            return Ok(ControlFlow::Break(below.unclear()));
        }
        let node_copy = CachedNode::copy(at, &node);
        let is_entered = below.edge && course.next().is_some_and(|next| node_copy.covers(next, self.number));
        if is_entered {
            // The next scan from there begins here.
            self.cache.put(at, &node);
        }
        let mut edge = below.path();
        if let Some(known) = edge.take_if(|known| known.len() < header.depth()) {
            let key = match self.key_below(client, &node_copy, way.operation).await? {
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
        let above = Rc::new(Above { node: node_copy, edge });
        Ok(ControlFlow::Continue(self.expand(&above, course.first_slot(size), (course, wanted), found)))
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
        let parent = &below.above.node;
        let right = is_of_one(leaf.bytes(), fronts)
            && leaf.state() == State::Live
            && leaf.reverse() == Reverse::of_leaf(parent.at, parent.header.generation())
            && parent.covers(leaf.key(), self.number)
            && step_at(leaf.key(), parent.header.depth()) == below.step;
        right.then_some(leaf)
    }
}

/// Whether copies of the children of a batch prove themselves to be of one object each.
fn is_proven<'b, F: Fabric>(client: &Client<F>, mut batch: impl Iterator<Item = &'b Below>) -> bool {
    let promised = client.fabric().capabilities();
    batch.all(|below| {
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
        (Arc::clone(&self.above.node), usize::from(self.number))
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
            _ => unreachable!("only occupied slots are followed"),
        }
    }

    /// What all keys below it begin with, as far as its node tells, where some of them may not be wanted.
    fn path(&self) -> Option<Vec<u8>> {
        let mut path = self.above.edge.clone().filter(|_| self.edge)?;
        if let Step::Byte(byte) = self.step {
            path.push(byte);
        }
        Some(path)
    }
}
